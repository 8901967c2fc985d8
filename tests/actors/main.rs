//! Stories through the real actors under virtual time: the memory store, and a small hand-written world
//! behind the ports.

// Everything here is a test, its helpers included.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod doubts;
mod failures;
mod fences;
mod given;
mod hints;
mod inventory;
mod leadership;
mod messages;
mod places;
mod pools;
mod quiet;
mod recovery;
mod replacement;
mod told;
mod world;

use std::sync::Arc;
use std::time::Duration;

use trino_pool_operator::actors::status::PoolStatus;
use trino_pool_operator::actors::{Handle, Ports, ProcessStatus, Settings, start};
use trino_pool_operator::pool::ids::{InstanceId, PoolId};
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::memory::MemoryStore;

use world::World;

/// One running process.
struct Process {
    handle: Handle,
    ports: Ports,
}

impl Process {
    async fn start(world: &World, store: &Arc<MemoryStore>, settings: Settings) -> Self {
        Self::on(world::ports(world, store), settings).await
    }

    async fn on(ports: Ports, settings: Settings) -> Self {
        let handle = start(ports.clone(), settings).await.unwrap();
        Self { handle, ports }
    }

    fn status(&self) -> ProcessStatus {
        self.handle.status.borrow().clone()
    }

    fn pool(&self, name: &str) -> PoolStatus {
        let id = PoolId::new(format!("trino/{name}"));
        self.status().pools.get(&id).cloned().unwrap_or_default()
    }

    fn serving(&self, name: &str) -> Vec<InstanceId> {
        let pool = self.pool(name);
        let serving = pool.instances.iter().filter(|(_, i)| i.phase == Phase::Serving);
        serving.map(|(id, _)| id.clone()).collect()
    }

    /// The first instance of the pool that is none of these.
    fn newcomer(&self, name: &str, known: &[InstanceId]) -> Option<InstanceId> {
        let pool = self.pool(name);
        pool.instances.keys().find(|id| !known.contains(id)).cloned()
    }

    /// Waits, in virtual time, until the status says so; fails with the status after `limit`.
    async fn until(&mut self, what: &str, limit: Duration, holds: impl Fn(&Self) -> bool) {
        let end = tokio::time::Instant::now() + limit;
        while !holds(self) {
            let left = end.saturating_duration_since(tokio::time::Instant::now());
            let changed = tokio::time::timeout(left, self.handle.status.changed()).await;
            assert!(
                changed.is_ok_and(|changed| changed.is_ok()),
                "not within {limit:?}: {what}\n{:#?}",
                self.status()
            );
        }
    }

    async fn draining(&mut self, name: &str, instance: &InstanceId) {
        self.until(&format!("{instance} drains"), minutes(3), |process| {
            process.pool(name).instances[instance].phase == Phase::Draining
        })
        .await;
    }

    async fn converged(&mut self, name: &str, count: usize) {
        self.until("everything serves", minutes(5), |process| {
            process.serving(name).len() == count && process.pool(name).instances.len() == count
        })
        .await;
    }
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// Lets the process run for a while.
async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Looks before each of at most so many rounds, and lets the round pass when there is nothing to see yet; fails when
/// there never is, and says what did not happen.
async fn eventually<T>(never: &str, rounds: u32, round: Duration, look: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..rounds {
        if let Some(seen) = look().await {
            return seen;
        }
        pass(round).await;
    }
    panic!("{never}, in {rounds} rounds of {round:?}");
}
