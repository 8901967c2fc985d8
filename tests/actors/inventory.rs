//! The NodeClaim inventory alone: one refresh per tick, failures as facts, patience with the server.

use std::sync::Arc;

use ractor::{Actor, ActorRef};
use trino_pool_operator::actors::inventory::{InventoryMsg, NodeClaimInventory, Snapshot};
use trino_pool_operator::pool::ids::TickId;

use crate::world::{self, Trouble, World};
use crate::{pass, seconds};

async fn inventory(world: &World) -> ActorRef<InventoryMsg> {
    let ports = world::ports(world, &world::store());
    let (inventory, _) = NodeClaimInventory::spawn(None, NodeClaimInventory, ports)
        .await
        .unwrap();
    inventory
}

async fn get(inventory: &ActorRef<InventoryMsg>, tick: u64) -> Arc<Snapshot> {
    let tick = TickId::new(tick);
    ractor::call!(inventory, |reply| InventoryMsg::Get { tick, reply }).unwrap()
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_tick_share_one_refresh_and_one_snapshot() {
    let world = World::default();
    world.add_nodes("n", 3);
    let inventory = inventory(&world).await;
    let (one, two, three) = tokio::join!(get(&inventory, 1), get(&inventory, 1), get(&inventory, 1));
    assert!(Arc::ptr_eq(&one, &two) && Arc::ptr_eq(&two, &three));
    assert_eq!(world.calls("claims"), 1);
    assert_eq!(one.claims.as_ref().unwrap().claims.len(), 3);
    let later = get(&inventory, 2).await;
    assert_eq!(world.calls("claims"), 2);
    assert!(!Arc::ptr_eq(&one, &later));
}

#[tokio::test(start_paused = true)]
async fn k09_a_failed_refresh_is_a_fact_in_the_snapshot_and_its_age_goes_on_rising() {
    let world = World::default();
    world.add_nodes("n", 3);
    let inventory = inventory(&world).await;
    get(&inventory, 1).await;
    world.trouble("claims", "", Trouble::Fails);
    pass(seconds(20)).await;
    let snapshot = get(&inventory, 2).await;
    assert_eq!(snapshot.claims.as_ref().unwrap_err().label, "KubernetesFailed");
    assert_eq!(snapshot.age, Some(seconds(20)));
    world.calm();
    pass(seconds(60)).await;
    let snapshot = get(&inventory, 3).await;
    assert!(snapshot.claims.is_ok());
    assert_eq!(snapshot.age, Some(seconds(0)));
}

#[tokio::test(start_paused = true)]
async fn a05_a_throttled_inventory_asks_again_when_the_server_said_and_backs_off_otherwise() {
    let world = World::default();
    let inventory = inventory(&world).await;
    world.trouble("claims", "", Trouble::Throttles(7));
    get(&inventory, 1).await;
    for tick in 2..8 {
        pass(seconds(1)).await;
        assert!(get(&inventory, tick).await.claims.is_err());
    }
    assert_eq!(world.calls("claims"), 1, "not before seven seconds");
    pass(seconds(1)).await;
    get(&inventory, 8).await;
    assert_eq!(world.calls("claims"), 2);

    world.calm();
    world.trouble("claims", "", Trouble::Fails);
    let before = world.calls("claims");
    for tick in 9..129 {
        pass(seconds(5)).await;
        get(&inventory, tick).await;
    }
    let asked = world.calls("claims") - before;
    assert!((8..40).contains(&asked), "{asked} lists in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_panics_or_hangs_does_not_end_the_inventory() {
    let world = World::default();
    let inventory = inventory(&world).await;
    world.trouble("claims", "", Trouble::Panics);
    assert!(get(&inventory, 1).await.claims.is_err());
    world.calm();
    world.trouble("claims", "", Trouble::Hangs);
    assert!(get(&inventory, 2).await.claims.is_err());
    world.calm();
    pass(seconds(60)).await;
    assert!(get(&inventory, 3).await.claims.is_ok());
}
