use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use trino_pool_operator::pool::ids::{Epoch, InstanceId, NodeUid, OwnerId, PoolId, StoreId};
use trino_pool_operator::pool::instance::InstanceRow;
use trino_pool_operator::store::memory::MemoryStore;
use trino_pool_operator::store::port::{
    Authority, Committed, NodeHold, PoolIdentity, PoolSnapshot, Recovery, Store, StoreError, Write,
};

/// A demoted server: it answers reads, and refuses writes; or a database that cannot hold what a spec says;
/// or a pool whose reads make its actor panic.
pub struct ReadOnlyStore {
    inner: Arc<MemoryStore>,
    read_only: AtomicBool,
    refuses_desired: AtomicBool,
    panics: Mutex<String>,
}

impl ReadOnlyStore {
    pub fn new(inner: Arc<MemoryStore>) -> Self {
        Self {
            inner,
            read_only: AtomicBool::new(false),
            refuses_desired: AtomicBool::new(false),
            panics: Mutex::new(String::new()),
        }
    }

    pub fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Relaxed);
    }

    pub fn set_refuses_desired(&self, refuses: bool) {
        self.refuses_desired.store(refuses, Ordering::Relaxed);
    }

    pub fn panic_on(&self, pool: &str) {
        pool.clone_into(&mut self.panics.lock().unwrap());
    }

    fn writable(&self) -> Result<(), StoreError> {
        if self.read_only.load(Ordering::Relaxed) {
            return Err(StoreError::ReadOnly("25006".into()));
        }
        Ok(())
    }
}

#[async_trait]
impl Store for ReadOnlyStore {
    async fn id(&self) -> Result<StoreId, StoreError> {
        self.inner.id().await
    }

    async fn seed(&self, pool: &PoolIdentity) -> Result<(), StoreError> {
        self.writable()?;
        self.inner.seed(pool).await
    }

    async fn pools(&self) -> Result<Vec<PoolIdentity>, StoreError> {
        self.inner.pools().await
    }

    async fn acquire(&self, pool: &PoolId, owner: &OwnerId, above: Epoch) -> Result<Authority, StoreError> {
        self.writable()?;
        self.inner.acquire(pool, owner, above).await
    }

    async fn load(&self, pool: &PoolId) -> Result<PoolSnapshot, StoreError> {
        let panics = self.panics.lock().unwrap().clone();
        assert!(panics != pool.as_str(), "{pool} panics on purpose");
        self.inner.load(pool).await
    }

    async fn commit(
        &self,
        authority: &Authority,
        now: Timestamp,
        writes: &[Write],
    ) -> Result<Vec<Committed>, StoreError> {
        self.writable()?;
        let desired = |write: &Write| matches!(write, Write::PublishDesired { .. });
        if self.refuses_desired.load(Ordering::Relaxed) && writes.iter().any(desired) {
            return Err(StoreError::Corrupt("value".into(), "22P05".into()));
        }
        self.inner.commit(authority, now, writes).await
    }

    async fn instance(&self, instance: &InstanceId) -> Result<Option<InstanceRow>, StoreError> {
        self.inner.instance(instance).await
    }

    async fn request_recovery(
        &self,
        pool: &PoolId,
        min_serving: u32,
        recovery: &Recovery,
    ) -> Result<(), StoreError> {
        self.writable()?;
        self.inner.request_recovery(pool, min_serving, recovery).await
    }

    async fn node_holds(&self, node: &NodeUid) -> Result<Vec<NodeHold>, StoreError> {
        self.inner.node_holds(node).await
    }

    fn statements(&self) -> u64 {
        self.inner.statements()
    }
}
