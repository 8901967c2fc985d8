//! The cluster port through an [`Injector`].

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde_json::Value;

use super::{Call, Class, Injector, Port};
use crate::cluster::facts::{
    ClaimFacts, ClaimInventory, LeaseFacts, Listing, Lookup, NodeFacts, ObjectFacts, ObjectKind, PodFacts,
    PoolResource, Workload,
};
use crate::cluster::port::{
    Cluster, ClusterError, CordonMark, Created, EventRecord, Hint, Manifest, Written,
};
use crate::pool::ids::{
    ClaimName, InstanceId, Namespace, NodeName, NodeUid, ObjectName, ObjectUid, PodUid, PoolId,
    ResourceVersion,
};

pub(super) struct FaultyCluster {
    pub(super) inner: Arc<dyn Cluster>,
    pub(super) injector: Injector,
}

fn call(class: Class, method: &'static str, about: impl Into<String>) -> Call {
    Call {
        port: Port::Cluster,
        method,
        class,
        about: about.into(),
    }
}

/// Kind, namespace and name of a manifest.
fn named(manifest: &Manifest) -> String {
    let (kind, metadata) = match manifest {
        Manifest::ConfigMap(object) => ("ConfigMap", &object.metadata),
        Manifest::Service(object) => ("Service", &object.metadata),
        Manifest::Deployment(object) => ("Deployment", &object.metadata),
    };
    format!(
        "{kind} {}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}

#[async_trait]
impl Cluster for FaultyCluster {
    async fn pools(&self) -> Result<Listing<PoolResource>, ClusterError> {
        let call = call(Class::Read, "pools", "");
        self.injector.around(call, &|| self.inner.pools()).await
    }

    async fn claims(&self) -> Result<ClaimInventory, ClusterError> {
        let call = call(Class::Read, "claims", "");
        self.injector.around(call, &|| self.inner.claims()).await
    }

    async fn claim(&self, name: &ClaimName) -> Result<Lookup<ClaimFacts>, ClusterError> {
        let call = call(Class::Read, "claim", name.as_str());
        self.injector.around(call, &|| self.inner.claim(name)).await
    }

    async fn node(&self, name: &NodeName) -> Result<Lookup<NodeFacts>, ClusterError> {
        let call = call(Class::Read, "node", name.as_str());
        self.injector.around(call, &|| self.inner.node(name)).await
    }

    async fn workload(&self, namespace: &Namespace, instance: &InstanceId) -> Result<Workload, ClusterError> {
        let call = call(Class::Read, "workload", format!("{namespace}/{instance}"));
        self.injector
            .around(call, &|| self.inner.workload(namespace, instance))
            .await
    }

    async fn pods(&self, namespace: &Namespace) -> Result<Listing<PodFacts>, ClusterError> {
        let call = call(Class::Read, "pods", namespace.as_str());
        self.injector.around(call, &|| self.inner.pods(namespace)).await
    }

    async fn objects(
        &self,
        namespace: &Namespace,
        pool: &PoolId,
    ) -> Result<Listing<ObjectFacts>, ClusterError> {
        let call = call(Class::Read, "objects", pool.as_str());
        self.injector
            .around(call, &|| self.inner.objects(namespace, pool))
            .await
    }

    async fn object(
        &self,
        kind: ObjectKind,
        namespace: &Namespace,
        name: &ObjectName,
    ) -> Result<Lookup<ObjectFacts>, ClusterError> {
        let call = call(
            Class::Read,
            "object",
            format!("{} {namespace}/{name}", kind.as_str()),
        );
        self.injector
            .around(call, &|| self.inner.object(kind, namespace, name))
            .await
    }

    async fn create(&self, manifest: &Manifest) -> Result<Created, ClusterError> {
        let call = call(Class::Effect, "create", named(manifest));
        self.injector.around(call, &|| self.inner.create(manifest)).await
    }

    async fn delete(
        &self,
        kind: ObjectKind,
        namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
    ) -> Result<Written, ClusterError> {
        let about = format!("{} {namespace}/{name} {uid}", kind.as_str());
        let call = call(Class::Effect, "delete", about);
        self.injector
            .around(call, &|| self.inner.delete(kind, namespace, name, uid))
            .await
    }

    async fn protect_pod(
        &self,
        namespace: &Namespace,
        pod: &ObjectName,
        uid: &PodUid,
        version: &ResourceVersion,
    ) -> Result<Written, ClusterError> {
        let call = call(Class::Effect, "protect_pod", format!("{namespace}/{pod} {uid}"));
        self.injector
            .around(call, &|| self.inner.protect_pod(namespace, pod, uid, version))
            .await
    }

    async fn cordon_node(
        &self,
        node: &NodeName,
        uid: &NodeUid,
        version: &ResourceVersion,
        mark: &CordonMark,
    ) -> Result<Written, ClusterError> {
        let call = call(Class::Effect, "cordon_node", format!("{node} {uid}"));
        self.injector
            .around(call, &|| self.inner.cordon_node(node, uid, version, mark))
            .await
    }

    async fn set_pool_status(
        &self,
        namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
        status: &Value,
    ) -> Result<Written, ClusterError> {
        let call = call(
            Class::Housekeeping,
            "set_pool_status",
            format!("{namespace}/{name}"),
        );
        self.injector
            .around(call, &|| self.inner.set_pool_status(namespace, name, uid, status))
            .await
    }

    async fn set_pool_finalizer(
        &self,
        namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
        version: &ResourceVersion,
        present: bool,
    ) -> Result<Written, ClusterError> {
        let about = format!("{namespace}/{name} present={present}");
        let call = call(Class::Effect, "set_pool_finalizer", about);
        self.injector
            .around(call, &|| {
                self.inner
                    .set_pool_finalizer(namespace, name, uid, version, present)
            })
            .await
    }

    async fn publish(&self, event: &EventRecord) -> Result<(), ClusterError> {
        let about = format!("{} {}", event.reason, event.about);
        let call = call(Class::Housekeeping, "publish", about);
        self.injector.around(call, &|| self.inner.publish(event)).await
    }

    async fn lease(
        &self,
        namespace: &Namespace,
        name: &ObjectName,
    ) -> Result<Lookup<LeaseFacts>, ClusterError> {
        let call = call(Class::Read, "lease", format!("{namespace}/{name}"));
        self.injector
            .around(call, &|| self.inner.lease(namespace, name))
            .await
    }

    async fn put_lease(
        &self,
        namespace: &Namespace,
        name: &ObjectName,
        expected: Option<&ResourceVersion>,
        lease: &LeaseFacts,
    ) -> Result<Written, ClusterError> {
        let about = format!("{namespace}/{name} {:?}", lease.holder);
        let call = call(Class::Housekeeping, "put_lease", about);
        self.injector
            .around(call, &|| self.inner.put_lease(namespace, name, expected, lease))
            .await
    }

    fn hints(&self, claims: bool) -> BoxStream<'static, Hint> {
        self.inner.hints(claims)
    }
}
