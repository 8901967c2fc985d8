//! A store that tells how each call went, whichever store it is.
//!
//! Owns nothing but the store it wraps. Metrics hang here: one [`Operation`] member per call, one label
//! per write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::port::{
    Authority, Committed, Connections, Mark, NodeHold, PoolIdentity, PoolSnapshot, Recovery, Store,
    StoreError, Write,
};
use crate::clock::Clock;
use crate::pool::ids::{Epoch, InstanceId, NodeUid, OwnerId, PoolId, StoreId};
use crate::pool::instance::InstanceRow;

/// The calls of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// [`Store::id`]
    Id,
    /// [`Store::seed`]
    Seed,
    /// [`Store::pools`]
    Pools,
    /// [`Store::marks`]
    Marks,
    /// [`Store::acquire`]
    Acquire,
    /// [`Store::load`]
    Load,
    /// [`Store::commit`]
    Commit,
    /// [`Store::instance`]
    Instance,
    /// [`Store::request_recovery`]
    RequestRecovery,
    /// [`Store::node_holds`]
    NodeHolds,
}

impl Operation {
    /// Label for metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Seed => "seed",
            Self::Pools => "pools",
            Self::Marks => "marks",
            Self::Acquire => "acquire",
            Self::Load => "load",
            Self::Commit => "commit",
            Self::Instance => "instance",
            Self::RequestRecovery => "request_recovery",
            Self::NodeHolds => "node_holds",
        }
    }
}

/// Who is told.
pub trait StoreMeter: Send + Sync + 'static {
    /// A call ended after `took`; `failure` is the label of its error.
    fn called(&self, operation: Operation, took: Duration, failure: Option<&'static str>);

    /// A write was part of a commit that stands.
    fn wrote(&self, write: &'static str);
}

/// A store and who is told about its calls.
pub struct MeasuredStore {
    store: Arc<dyn Store>,
    meter: Arc<dyn StoreMeter>,
    clock: Arc<dyn Clock>,
}

impl MeasuredStore {
    /// Wraps a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, meter: Arc<dyn StoreMeter>, clock: Arc<dyn Clock>) -> Self {
        Self { store, meter, clock }
    }

    async fn measure<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let started = self.clock.monotonic();
        let result = call.await;
        let took = self.clock.monotonic().saturating_sub(started);
        self.meter
            .called(operation, took, result.as_ref().err().map(StoreError::label));
        result
    }
}

#[async_trait]
impl Store for MeasuredStore {
    async fn id(&self) -> Result<StoreId, StoreError> {
        self.measure(Operation::Id, self.store.id()).await
    }

    async fn seed(&self, pool: &PoolIdentity) -> Result<(), StoreError> {
        self.measure(Operation::Seed, self.store.seed(pool)).await
    }

    async fn pools(&self) -> Result<Vec<PoolIdentity>, StoreError> {
        self.measure(Operation::Pools, self.store.pools()).await
    }

    async fn marks(&self) -> Result<BTreeMap<PoolId, Mark>, StoreError> {
        self.measure(Operation::Marks, self.store.marks()).await
    }

    async fn acquire(&self, pool: &PoolId, owner: &OwnerId, above: Epoch) -> Result<Authority, StoreError> {
        self.measure(Operation::Acquire, self.store.acquire(pool, owner, above))
            .await
    }

    async fn load(&self, pool: &PoolId) -> Result<PoolSnapshot, StoreError> {
        self.measure(Operation::Load, self.store.load(pool)).await
    }

    async fn commit(
        &self,
        authority: &Authority,
        now: Timestamp,
        writes: &[Write],
    ) -> Result<Vec<Committed>, StoreError> {
        let call = self.store.commit(authority, now, writes);
        let results = self.measure(Operation::Commit, call).await?;
        for write in writes {
            self.meter.wrote(write.label());
        }
        Ok(results)
    }

    async fn instance(&self, instance: &InstanceId) -> Result<Option<InstanceRow>, StoreError> {
        self.measure(Operation::Instance, self.store.instance(instance))
            .await
    }

    async fn request_recovery(
        &self,
        pool: &PoolId,
        min_serving: u32,
        recovery: &Recovery,
    ) -> Result<(), StoreError> {
        let call = self.store.request_recovery(pool, min_serving, recovery);
        self.measure(Operation::RequestRecovery, call).await
    }

    async fn node_holds(&self, node: &NodeUid) -> Result<Vec<NodeHold>, StoreError> {
        self.measure(Operation::NodeHolds, self.store.node_holds(node))
            .await
    }

    fn statements(&self) -> u64 {
        self.store.statements()
    }

    fn connections(&self) -> Connections {
        self.store.connections()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::clock::SystemClock;
    use crate::store::memory::MemoryStore;

    #[derive(Default)]
    struct Heard(Mutex<Vec<(&'static str, Option<&'static str>)>>);

    impl StoreMeter for Heard {
        fn called(&self, operation: Operation, _took: Duration, failure: Option<&'static str>) {
            self.0.lock().unwrap().push((operation.label(), failure));
        }

        fn wrote(&self, write: &'static str) {
            self.0.lock().unwrap().push((write, None));
        }
    }

    #[tokio::test]
    async fn every_call_is_heard_with_its_failure_and_every_standing_write() {
        let heard = Arc::new(Heard::default());
        let store = MeasuredStore::new(
            Arc::new(MemoryStore::new(StoreId::new("s"))),
            heard.clone(),
            Arc::new(SystemClock::new()),
        );
        let identity = PoolIdentity {
            id: PoolId::new("ns/a"),
            namespace: "ns".into(),
            routing_group: "a".into(),
        };
        store.seed(&identity).await.unwrap();
        let mut authority = store
            .acquire(&identity.id, &OwnerId::new("me"), Epoch::default())
            .await
            .unwrap();
        let writes = [Write::ForgetFailures];
        store
            .commit(&authority, Timestamp::UNIX_EPOCH, &writes)
            .await
            .unwrap();
        authority.epoch = authority.epoch.next();
        store
            .commit(&authority, Timestamp::UNIX_EPOCH, &writes)
            .await
            .unwrap_err();
        assert_eq!(
            *heard.0.lock().unwrap(),
            [
                ("seed", None),
                ("acquire", None),
                ("commit", None),
                ("forget_failures", None),
                ("commit", Some("Fenced")),
            ]
        );
    }
}
