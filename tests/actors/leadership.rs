//! Who runs: one Lease, its loss, a graceful end.

use trino_pool_operator::actors::Settings;
use trino_pool_operator::store::port::Store;

use crate::given::given_a_pool_and_machines;
use crate::world::readonly::ReadOnlyStore;
use crate::world::{self, Trouble};
use crate::{Process, minutes, pass, seconds};

fn electing(owner: &str) -> Settings {
    let mut settings = world::settings(owner);
    settings.lease.elect = true;
    settings
}

#[tokio::test(start_paused = true)]
async fn only_the_holder_of_the_lease_runs_and_a_graceful_end_hands_it_over() {
    let (world, store) = given_a_pool_and_machines();
    let mut first = Process::start(&world, &store, electing("a")).await;
    first.converged("analytics", 3).await;
    let mut second = Process::start(&world, &store, electing("b")).await;
    pass(minutes(1)).await;
    assert!(first.status().leader && !second.status().leader);
    assert!(second.status().pools.is_empty());

    assert!(
        first.handle.stop().await,
        "nothing was in flight: the Lease was handed over"
    );
    second
        .until("the other leads", seconds(5), |process| process.status().leader)
        .await;
    second.converged("analytics", 3).await;
}

#[tokio::test(start_paused = true)]
async fn r06_a_holder_that_cannot_renew_stops_its_pools_before_another_starts() {
    let (world, store) = given_a_pool_and_machines();
    let mut first = Process::start(&world, &store, electing("a")).await;
    first.converged("analytics", 3).await;
    let mut second = Process::start(&world, &store, electing("b")).await;
    pass(seconds(5)).await;
    world.trouble("put_lease", " a", Trouble::Hangs);
    let mut overlap = false;
    for _ in 0..400 {
        pass(std::time::Duration::from_millis(100)).await;
        overlap |= first.status().leader && second.status().leader;
    }
    assert!(!overlap);
    assert!(second.status().leader);
    assert!(first.status().pools.is_empty());
    let pool = second.ports.store.pools().await.unwrap()[0].id.clone();
    let epoch = store.load(&pool).await.unwrap().pool.epoch;
    second.converged("analytics", 3).await;
    assert!(epoch.get() >= 2);
}

#[tokio::test(start_paused = true)]
async fn s8_a_superseded_leader_is_refused_and_its_term_over_the_pool_ends() {
    let (world, store) = given_a_pool_and_machines();
    // Neither elects: both believe that they lead. The epoch decides.
    let mut first = Process::start(&world, &store, world::settings("a")).await;
    first.converged("analytics", 3).await;
    let mut second = Process::start(&world, &store, world::settings("b")).await;
    second.converged("analytics", 3).await;
    first
        .until("its term ended", minutes(1), |process| {
            process
                .pool("analytics")
                .restarts
                .is_some_and(|(_, why)| why == "authority is elsewhere")
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn r04_a_leader_whose_store_takes_no_write_yields_and_sits_out() {
    let (world, store) = given_a_pool_and_machines();
    let (faulty, ports) = ReadOnlyStore::ports(&world, &store);
    let mut first = Process::on(ports, electing("a")).await;
    first.converged("analytics", 3).await;
    let mut second = Process::start(&world, &store, electing("b")).await;
    faulty.set_read_only(true);
    world.drift(|_| true);
    second
        .until("the other leads", minutes(2), |process| process.status().leader)
        .await;
    assert!(!first.status().leader);
}

#[tokio::test(start_paused = true)]
async fn a_graceful_end_in_the_middle_of_an_effect_leaves_the_lease_to_expire() {
    let (world, store) = given_a_pool_and_machines();
    world.trouble("create", "", Trouble::Hangs);
    let mut first = Process::start(&world, &store, electing("a")).await;
    first
        .until("an effect is in flight", minutes(1), |process| {
            process
                .pool("analytics")
                .instances
                .values()
                .any(|instance| instance.performing == Some("apply_objects"))
        })
        .await;
    assert!(!first.handle.stop().await);
    assert_eq!(world.lock().lease.as_ref().unwrap().holder.as_deref(), Some("a"));
}
