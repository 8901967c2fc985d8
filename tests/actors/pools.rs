//! Several pools in one process: bad input stays with its own, budgets are shared, quiet is quiet.

use serde_json::json;
use trino_pool_operator::pool::desired::PoolMode;

use crate::given::{given_a_pool_and_machines, given_pools_under_a_budget_of_one, given_three_serving};
use crate::world::readonly::ReadOnlyStore;
use crate::world::{self, Trouble, World};
use crate::{Process, minutes, pass, seconds};

#[tokio::test(start_paused = true)]
async fn s11_an_invalid_edit_holds_its_own_pool_and_replacement_goes_on_in_it() {
    let world = World::default();
    world.add_pool("analytics", |_| {});
    world.add_pool("adhoc", |_| {});
    world.add_nodes("old", 30);
    let mut process = Process::start(&world, &world::store(), world::settings("a")).await;
    process.converged("analytics", 3).await;
    process.converged("adhoc", 3).await;
    {
        let mut inner = world.lock();
        let pool = inner.pools.get_mut("analytics").unwrap();
        pool.spec["instances"] = json!(0);
        pool.generation = pool.generation.next();
    }
    process
        .until("it is held", minutes(1), |process| {
            matches!(process.pool("analytics").mode, PoolMode::Held(_))
        })
        .await;
    let victim = process.serving("analytics")[0].clone();
    world.drift_first_node_of(&victim);
    process
        .until("the victim is gone", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
                && process.serving("analytics").len() == 3
        })
        .await;
    assert_eq!(process.pool("adhoc").mode, PoolMode::Open);
    let events = world.lock().events.clone();
    let said = events
        .iter()
        .filter(|event| event.starts_with("SpecInvalid"))
        .count();
    assert_eq!(said, 1, "once, not every tick: {events:#?}");
    assert!(
        events.iter().any(|event| event.contains("spec.instances")),
        "{events:#?}"
    );
    let told = world.lock().statuses.iter().any(|status| {
        let conditions = status["conditions"].as_array().unwrap();
        conditions.iter().any(|c| c["reason"] == "SpecInvalid")
    });
    assert!(told);
}

#[tokio::test(start_paused = true)]
async fn s11_a_spec_that_the_store_cannot_hold_holds_its_pool_and_replacement_goes_on_in_it() {
    let (world, store) = given_a_pool_and_machines();
    let (refusing, ports) = ReadOnlyStore::ports(&world, &store);
    let mut process = Process::on(ports, world::settings("a")).await;
    process.converged("analytics", 3).await;
    refusing.set_refuses_desired(true);
    {
        let mut inner = world.lock();
        let pool = inner.pools.get_mut("analytics").unwrap();
        pool.spec["maxSurge"] = json!(2);
        pool.generation = pool.generation.next();
    }
    process
        .until(
            "it is held",
            minutes(1),
            |process| matches!(&process.pool("analytics").mode, PoolMode::Held(why) if why.contains("22P05")),
        )
        .await;
    let victim = process.serving("analytics")[0].clone();
    world.drift_first_node_of(&victim);
    process
        .until("the victim is gone", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
                && process.serving("analytics").len() == 3
        })
        .await;
    let events = world.lock().events.clone();
    let said = events.iter().filter(|event| event.starts_with("SpecInvalid"));
    assert_eq!(said.count(), 1, "once, not every tick: {events:#?}");
    refusing.set_refuses_desired(false);
    process
        .until("it is taken", minutes(1), |process| {
            process.pool("analytics").mode == PoolMode::Open
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_was_never_valid_makes_no_pool_and_says_why() {
    let world = World::default();
    world.add_pool("analytics", |spec| spec["minServing"] = json!(9));
    world.add_nodes("old", 12);
    let process = Process::start(&world, &world::store(), world::settings("a")).await;
    pass(minutes(1)).await;
    let pool = process.pool("analytics");
    assert!(
        matches!(&pool.mode, PoolMode::Held(why) if why.contains("spec.minServing")),
        "{pool:#?}"
    );
    assert_eq!(world.calls("create"), 0);
}

#[tokio::test(start_paused = true)]
async fn the_process_wide_budget_lets_pools_replace_one_after_the_other_without_a_storm_of_ticks() {
    let names = ["analytics", "adhoc", "reports"];
    let (world, mut process) = given_pools_under_a_budget_of_one(&names, 40).await;
    // Every drain takes a while, so that the pools would meet.
    world.lock().owed = 1;
    let victims: Vec<_> = names
        .iter()
        .map(|name| process.serving(name)[0].clone())
        .collect();
    for victim in &victims {
        world.drift_first_node_of(victim);
    }
    pass(seconds(60)).await;
    let ticks = process.status().tick.get();
    pass(seconds(60)).await;
    assert!(
        process.status().tick.get() - ticks <= 15,
        "waiting makes no ticks"
    );
    let replacing = |process: &Process| {
        let beyond = |name: &&str| process.pool(name).instances.len() > 3;
        names.iter().filter(|name| beyond(name)).count()
    };
    assert_eq!(replacing(&process), 1);
    let label = |name: &str| process.pool(name).plan.label;
    assert_eq!(
        names
            .iter()
            .filter(|name| label(name) == "ClusterBudgetSpent")
            .count(),
        2
    );

    world.lock().owed = 0;
    for (name, victim) in names.iter().zip(&victims) {
        process
            .until("the victim is gone", minutes(10), |process| {
                replacing(process) <= 1 && !process.pool(name).instances.contains_key(victim)
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn pools_whose_rounds_are_slow_do_not_make_each_other_tick_for_ever() {
    let names = ["adhoc", "analytics", "reports"];
    let (world, process) = given_pools_under_a_budget_of_one(&names, 40).await;
    // As behind a client that is held to its limits: each round takes a while, and each another while.
    for (name, late) in names.iter().zip([1, 2, 3]) {
        for instance in process.serving(name) {
            world.trouble("workload", instance.as_str(), Trouble::Late(late));
        }
    }
    pass(seconds(7)).await;
    process.handle.hurry();
    pass(seconds(7)).await;
    let (ticks, coalesced) = (
        process.status().tick.get(),
        process.status().counts.coalesced_ticks,
    );
    let looks = world.calls("workload");
    pass(seconds(60)).await;
    assert!(process.status().tick.get() - ticks <= 13, "only the timer ticks");
    assert_eq!(process.status().counts.coalesced_ticks, coalesced);
    assert!(
        world.calls("workload") - looks <= 9 * 13,
        "one look per instance and tick"
    );
}

#[tokio::test(start_paused = true)]
async fn a_converged_pool_writes_nothing() {
    let (world, _, process) = given_three_serving().await;
    pass(minutes(2)).await;
    let (log, events) = {
        let inner = world.lock();
        (inner.log.len(), inner.events.len())
    };
    let statuses = world.calls("status");
    pass(minutes(10)).await;
    let inner = world.lock();
    assert_eq!((inner.log.len(), inner.events.len()), (log, events));
    drop(inner);
    assert_eq!(world.calls("status"), statuses);
    assert_eq!(process.status().counts.coalesced_ticks, 0);
}

#[tokio::test(start_paused = true)]
async fn l6_a_member_that_the_gateway_does_not_hold_takes_no_place_in_the_budget_of_the_cluster() {
    let (world, mut process) = given_pools_under_a_budget_of_one(&["adhoc", "analytics"], 36).await;
    // Another one stands in for it, and it stays until a person looks.
    let forgotten = process.serving("adhoc")[0].clone();
    world.lock().members.remove(&forgotten);
    process
        .until("another one was made in its place", minutes(5), |process| {
            process.pool("adhoc").plan.label == "NotAtTheGateway"
        })
        .await;
    let victim = process.serving("analytics")[0].clone();
    world.drift_first_node_of(&victim);
    process
        .until("the other pool replaces its own", minutes(10), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
        })
        .await;
}
