//! A store that misbehaves on demand, in front of the real one in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use trino_pool_operator::actors::Ports;
use trino_pool_operator::pool::ids::{Epoch, InstanceId, NodeUid, OwnerId, PoolId, StoreId};
use trino_pool_operator::pool::instance::InstanceRow;
use trino_pool_operator::store::memory::MemoryStore;
use trino_pool_operator::store::port::{
    Authority, Committed, Mark, NodeHold, PoolIdentity, PoolSnapshot, Recovery, Store, StoreError, Write,
};

use super::World;

/// A demoted server: it answers reads, and refuses writes; or a database that cannot hold what a spec says;
/// or a pool whose reads make its actor panic;
/// or one whose answers to taking authority are lost, or that does not give it.
pub struct ReadOnlyStore {
    inner: Arc<MemoryStore>,
    read_only: AtomicBool,
    refuses_desired: AtomicBool,
    loses_acquires: AtomicBool,
    hears_acquires: AtomicBool,
    panics: Mutex<String>,
}

impl ReadOnlyStore {
    fn new(inner: Arc<MemoryStore>) -> Self {
        Self {
            inner,
            read_only: AtomicBool::new(false),
            refuses_desired: AtomicBool::new(false),
            loses_acquires: AtomicBool::new(false),
            hears_acquires: AtomicBool::new(true),
            panics: Mutex::new(String::new()),
        }
    }

    pub fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Relaxed);
    }

    pub fn set_refuses_desired(&self, refuses: bool) {
        self.refuses_desired.store(refuses, Ordering::Relaxed);
    }

    /// Authority is taken, and nobody is told.
    pub fn set_loses_acquires(&self, loses: bool) {
        self.loses_acquires.store(loses, Ordering::Relaxed);
    }

    /// Whether a request for authority arrives.
    pub fn set_hears_acquires(&self, hears: bool) {
        self.hears_acquires.store(hears, Ordering::Relaxed);
    }

    pub fn panic_on(&self, pool: &str) {
        pool.clone_into(&mut self.panics.lock().unwrap());
    }

    /// The ports of one process in this world, over such a store in front of this one.
    pub fn ports(world: &World, store: &Arc<MemoryStore>) -> (Arc<Self>, Ports) {
        let faulty = Arc::new(Self::new(store.clone()));
        let ports = Ports {
            store: faulty.clone(),
            ..super::ports(world, store)
        };
        (faulty, ports)
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

    async fn marks(&self) -> Result<BTreeMap<PoolId, Mark>, StoreError> {
        self.inner.marks().await
    }

    async fn acquire(&self, pool: &PoolId, owner: &OwnerId, above: Epoch) -> Result<Authority, StoreError> {
        self.writable()?;
        if !self.hears_acquires.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("it did not arrive".into()));
        }
        let taken = self.inner.acquire(pool, owner, above).await;
        if self.loses_acquires.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("the answer was lost".into()));
        }
        taken
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
