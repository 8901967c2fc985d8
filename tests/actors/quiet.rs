//! A process with nothing to do asks little: its reads do not grow with its pools.

use trino_pool_operator::pool::ids::{OwnerId, PoolId};
use trino_pool_operator::store::port::Store;

use crate::world::{self, World};
use crate::{Process, minutes, pass};

#[tokio::test(start_paused = true)]
async fn a_quiet_tick_asks_the_store_once_for_all_pools() {
    let (world, store) = (World::default(), world::store());
    let names = ["adhoc", "analytics", "reports"];
    for name in names {
        world.add_pool(name, |_| {});
    }
    world.add_nodes("old", 36);
    let mut process = Process::start(&world, &store, world::settings("a")).await;
    for name in names {
        process.converged(name, 3).await;
    }
    pass(minutes(1)).await;
    let (statements, tick) = (store.statements(), process.status().tick.get());
    pass(minutes(5)).await;
    let ticks = process.status().tick.get() - tick;
    assert_eq!(ticks, 60, "a tick in 5 s");
    assert_eq!(store.statements() - statements, ticks);
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_rows_somebody_else_changed_reads_them() {
    let (world, store) = (World::default(), world::store());
    world.add_pool("analytics", |_| {});
    world.add_nodes("old", 12);
    let mut process = Process::start(&world, &store, world::settings("a")).await;
    process.converged("analytics", 3).await;
    pass(minutes(1)).await;

    let pool = PoolId::new("trino/analytics");
    let before = store.load(&pool).await.unwrap().pool;
    store
        .acquire(&pool, &OwnerId::new("else"), before.epoch)
        .await
        .unwrap();
    let (statements, tick) = (store.statements(), process.status().tick.get());
    pass(minutes(1)).await;
    let ticks = process.status().tick.get() - tick;
    assert_eq!(
        store.statements() - statements,
        ticks + 1,
        "the rows were read once, and then stood as they were read"
    );
}
