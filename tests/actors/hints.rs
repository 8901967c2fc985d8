//! Hints from watches: whom they make look early, and that none is lost on what was read before it.

use trino_pool_operator::cluster::port::Hint;
use trino_pool_operator::pool::ids::PoolId;

use crate::given::{given_pools_under_a_budget_of_one, given_three_serving};
use crate::world::{Trouble, World};
use crate::{Process, eventually, minutes, pass, seconds};

const POOLS: [&str; 3] = ["adhoc", "analytics", "reports"];

fn id(pool: &str) -> PoolId {
    PoolId::new(format!("trino/{pool}"))
}

#[tokio::test(start_paused = true)]
async fn a_hint_about_one_pool_makes_no_other_pool_look() {
    let (world, process) = given_pools_under_a_budget_of_one(&POOLS, 40).await;
    pass(minutes(1)).await;
    let looks = async |hint: Option<Hint>| {
        let before = world.calls("workload");
        if let Some(hint) = hint {
            world.hint(&hint);
        }
        // In this time the timer comes once.
        pass(seconds(5)).await;
        world.calls("workload") - before
    };
    let every_pool_once = looks(None).await;
    assert_eq!(every_pool_once, 9, "three instances each");
    assert_eq!(
        looks(Some(Hint::Pod(Some(id("adhoc"))))).await,
        every_pool_once + 3
    );
    assert_eq!(
        looks(Some(Hint::Pool(Some(id("reports"))))).await,
        every_pool_once + 3
    );
    assert_eq!(looks(Some(Hint::Pod(Some(id("nobody"))))).await, every_pool_once);
    // These say of no pool that it is not concerned.
    for hint in [Hint::Pod(None), Hint::Pool(None), Hint::Claim] {
        assert_eq!(looks(Some(hint)).await, 2 * every_pool_once);
    }
    assert_eq!(process.status().counts.coalesced_ticks, 0);
}

#[tokio::test(start_paused = true)]
async fn a_hint_about_a_pool_that_is_new_starts_it_at_once() {
    let (world, _, process) = given_three_serving().await;
    let timer = process.status().tick;
    eventually("no tick of the timer", 10, seconds(1), async || {
        (process.status().tick > timer).then_some(())
    })
    .await;
    world.add_pool("adhoc", |_| {});
    world.hint(&Hint::Pool(Some(id("adhoc"))));
    pass(seconds(2)).await;
    assert!(process.status().pools.contains_key(&id("adhoc")));
}

/// A hint came after a tick of the timer, and the TrinoPools are being listed for it: what happens now is not in
/// the answer. Returns how often they had been listed before.
async fn given_a_listing_under_way(world: &World, process: &Process) -> u64 {
    world.trouble("answer of pools", "", Trouble::Late(1));
    let tick = process.status().tick;
    eventually("no tick of the timer", 100, seconds(1) / 5, async || {
        (process.status().tick > tick).then_some(())
    })
    .await;
    let reads = world.calls("pools");
    world.hint(&Hint::Pod(Some(id("analytics"))));
    eventually("the pools are not listed", 5, seconds(1) / 5, async || {
        (world.calls("pools") > reads).then_some(reads)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_comes_while_the_pools_are_listed_does_not_wait_for_the_timer() {
    let (world, _, process) = given_three_serving().await;
    given_a_listing_under_way(&world, &process).await;
    world.add_pool("adhoc", |_| {});
    world.hint(&Hint::Pool(Some(id("adhoc"))));
    pass(seconds(3)).await;
    assert!(process.status().pools.contains_key(&id("adhoc")));
}

#[tokio::test(start_paused = true)]
async fn any_number_of_hints_during_the_reads_makes_one_more() {
    let (world, _, process) = given_three_serving().await;
    let reads = given_a_listing_under_way(&world, &process).await;
    for hint in [Hint::Pod(Some(id("analytics"))), Hint::Pool(None), Hint::Claim] {
        world.hint(&hint);
    }
    pass(seconds(3)).await;
    assert_eq!(world.calls("pools") - reads, 2);
}
