//! The store port through an [`Injector`].

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Call, Class, Injector, Port};
use crate::pool::ids::{Epoch, InstanceId, NodeUid, OwnerId, PoolId, StoreId};
use crate::pool::instance::InstanceRow;
use crate::store::port::{
    Authority, Committed, Mark, NodeHold, PoolIdentity, PoolSnapshot, Recovery, Store, StoreError, Write,
};

pub(super) struct FaultyStore {
    pub(super) inner: Arc<dyn Store>,
    pub(super) injector: Injector,
}

const fn call(class: Class, method: &'static str, about: String) -> Call {
    Call {
        port: Port::Store,
        method,
        class,
        about,
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn id(&self) -> Result<StoreId, StoreError> {
        let call = call(Class::Read, "id", String::new());
        self.injector.around(call, &|| self.inner.id()).await
    }

    async fn seed(&self, pool: &PoolIdentity) -> Result<(), StoreError> {
        let call = call(Class::Effect, "seed", pool.id.to_string());
        self.injector.around(call, &|| self.inner.seed(pool)).await
    }

    async fn pools(&self) -> Result<Vec<PoolIdentity>, StoreError> {
        let call = call(Class::Read, "pools", String::new());
        self.injector.around(call, &|| self.inner.pools()).await
    }

    async fn marks(&self) -> Result<BTreeMap<PoolId, Mark>, StoreError> {
        let call = call(Class::Read, "marks", String::new());
        self.injector.around(call, &|| self.inner.marks()).await
    }

    async fn acquire(&self, pool: &PoolId, owner: &OwnerId, above: Epoch) -> Result<Authority, StoreError> {
        let call = call(Class::Effect, "acquire", format!("{pool} {owner} above {above}"));
        self.injector
            .around(call, &|| self.inner.acquire(pool, owner, above))
            .await
    }

    async fn load(&self, pool: &PoolId) -> Result<PoolSnapshot, StoreError> {
        let call = call(Class::Read, "load", pool.to_string());
        self.injector.around(call, &|| self.inner.load(pool)).await
    }

    async fn commit(
        &self,
        authority: &Authority,
        now: Timestamp,
        writes: &[Write],
    ) -> Result<Vec<Committed>, StoreError> {
        let labels: Vec<&str> = writes.iter().map(Write::label).collect();
        let about = format!(
            "{} epoch {} {}",
            authority.pool,
            authority.epoch,
            labels.join("+")
        );
        let call = call(Class::Effect, "commit", about);
        self.injector
            .around(call, &|| self.inner.commit(authority, now, writes))
            .await
    }

    async fn instance(&self, instance: &InstanceId) -> Result<Option<InstanceRow>, StoreError> {
        let call = call(Class::Read, "instance", instance.to_string());
        self.injector
            .around(call, &|| self.inner.instance(instance))
            .await
    }

    async fn request_recovery(
        &self,
        pool: &PoolId,
        min_serving: u32,
        recovery: &Recovery,
    ) -> Result<(), StoreError> {
        let call = call(Class::Effect, "request_recovery", recovery.instance.to_string());
        self.injector
            .around(call, &|| self.inner.request_recovery(pool, min_serving, recovery))
            .await
    }

    async fn node_holds(&self, node: &NodeUid) -> Result<Vec<NodeHold>, StoreError> {
        let call = call(Class::Read, "node_holds", node.to_string());
        self.injector.around(call, &|| self.inner.node_holds(node)).await
    }

    fn statements(&self) -> u64 {
        self.inner.statements()
    }
}
