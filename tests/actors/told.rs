//! What a TrinoPool is told of its pool where the obvious words would be wrong.

use serde_json::Value;
use trino_pool_operator::pool::desired::{FreezeReason, PoolMode};
use trino_pool_operator::pool::ids::StoreId;

use crate::given::given_three_serving;
use crate::world::{self, World};
use crate::{Process, minutes, pass};

/// The status as it stands, and one condition of it.
fn told(world: &World, kind: &str) -> (Value, Value) {
    let status = world.lock().statuses.last().unwrap().clone();
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|known| known["type"] == kind).unwrap();
    let found = found.clone();
    (status, found)
}

#[tokio::test(start_paused = true)]
async fn o06_a_store_of_another_world_is_not_believed_although_it_has_rows() {
    let (world, store, process) = given_three_serving().await;
    process.handle.crash().await;
    // Meanwhile another store acted for the pool.
    let other = StoreId::new("store-b");
    world.lock().pools.get_mut("analytics").unwrap().store = Some(other);
    let mut process = Process::start(&world, &store, world::settings("b")).await;
    process
        .until("it is frozen", minutes(1), |process| {
            process.pool("analytics").mode == PoolMode::Frozen(FreezeReason::StoreMismatch)
        })
        .await;
    pass(minutes(1)).await;
    let (status, ready) = told(&world, "Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&"Unknown".into(), &"StoreMismatch".into())
    );
    assert_eq!(status["storeId"], "store-b");
    for count in [
        "phases",
        "serving",
        "desired",
        "minServing",
        "replacing",
        "atRisk",
    ] {
        assert_eq!(status.get(count), None, "{count}");
    }
    let pool = process.pool("analytics");
    assert_eq!((pool.desired, pool.floor), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_under_drain_that_nobody_confirmed_is_told_what_would_empty_the_pool() {
    let (world, _, process) = given_three_serving().await;
    {
        let mut inner = world.lock();
        let pool = inner.pools.get_mut("analytics").unwrap();
        pool.spec["deletionPolicy"] = "Drain".into();
        pool.deleting = true;
    }
    pass(minutes(2)).await;
    assert_eq!(process.serving("analytics").len(), 3);
    for kind in ["Blocked", "Frozen"] {
        let (_, condition) = told(&world, kind);
        let message = condition["message"].as_str().unwrap();
        assert!(message.contains("being deleted"), "{message}");
        assert!(message.contains("set spec.confirmEmpty to its UID"), "{message}");
    }
    let fault = process.pool("analytics").faults;
    assert!(
        fault.iter().any(|fault| fault.detail.contains("uid-analytics")),
        "the fault says which UID: {fault:#?}"
    );
}
