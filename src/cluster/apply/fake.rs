//! A small in-memory cluster that honours UIDs, for the stories beside it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::Value;

use crate::cluster::facts::{
    ClaimFacts, ClaimInventory, LeaseFacts, Listing, Lookup, NodeFacts, ObjectFacts, ObjectKind, PodFacts,
    PoolResource, ReplicaSetFacts, Undecodable, Workload,
};
use crate::cluster::port::{
    Cluster, ClusterError, CordonMark, Created, EventRecord, Hint, Manifest, Written,
};
use crate::pool::ids::{
    ClaimName, InstanceId, Namespace, NodeName, NodeUid, ObjectName, ObjectUid, PodUid, PoolId,
    ResourceVersion,
};

#[derive(Default)]
pub(super) struct Shelf {
    pub(super) objects: BTreeMap<(ObjectKind, String), ObjectFacts>,
    pub(super) pods: Vec<PodFacts>,
    pub(super) sets: Vec<ReplicaSetFacts>,
    pub(super) undecodable: Vec<Undecodable>,
    /// Answers given instead of the next calls, by "verb name".
    pub(super) instead: BTreeMap<String, ClusterError>,
    pub(super) deny: Option<String>,
    pub(super) keep_on_delete: bool,
    pub(super) calls: Vec<String>,
    pub(super) next_uid: u32,
}

#[derive(Default)]
pub(super) struct Fake(Mutex<Shelf>);

impl Fake {
    pub(super) fn edit<T>(&self, edit: impl FnOnce(&mut Shelf) -> T) -> T {
        edit(&mut self.0.lock().unwrap())
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.edit(|shelf| std::mem::take(&mut shelf.calls))
    }

    fn call(&self, call: String) -> Result<(), ClusterError> {
        self.edit(|shelf| {
            let answer = shelf.instead.remove(&call).map_or(Ok(()), Err);
            shelf.calls.push(call);
            answer
        })
    }
}

fn not_used<T>() -> Result<T, ClusterError> {
    Err(ClusterError::Server("not part of this story".to_owned()))
}

#[async_trait]
impl Cluster for Fake {
    async fn create(&self, manifest: &Manifest) -> Result<Created, ClusterError> {
        let (kind, metadata) = match manifest {
            Manifest::ConfigMap(object) => (ObjectKind::ConfigMap, &object.metadata),
            Manifest::Service(object) => (ObjectKind::Service, &object.metadata),
            Manifest::Deployment(object) => (ObjectKind::Deployment, &object.metadata),
        };
        let name = metadata.name.clone().unwrap();
        self.call(format!("create {name}"))?;
        self.edit(|shelf| {
            if let Some(message) = shelf.deny.clone() {
                return Ok(Created::Denied(message));
            }
            if let Some(found) = shelf.objects.get(&(kind, name.clone())) {
                return Ok(Created::Exists(found.clone()));
            }
            shelf.next_uid += 1;
            let uid = ObjectUid::new(format!("uid-{}", shelf.next_uid));
            let facts = ObjectFacts {
                kind,
                namespace: "trino".into(),
                name: ObjectName::new(name.clone()),
                uid: uid.clone(),
                resource_version: "1".into(),
                labels: metadata.labels.clone().unwrap_or_default(),
                annotations: metadata.annotations.clone().unwrap_or_default(),
                deleting: false,
            };
            shelf.objects.insert((kind, name), facts);
            Ok(Created::Created(uid))
        })
    }

    async fn delete(
        &self,
        kind: ObjectKind,
        _namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
    ) -> Result<Written, ClusterError> {
        self.call(format!("delete {name} {uid}"))?;
        self.edit(|shelf| {
            if let Some(message) = shelf.deny.clone() {
                return Ok(Written::Denied(message));
            }
            let key = (kind, name.to_string());
            match shelf.objects.get(&key) {
                None => Ok(Written::Absent),
                Some(found) if found.uid != *uid => Ok(Written::Conflict("uid".to_owned())),
                Some(_) => {
                    if !shelf.keep_on_delete {
                        shelf.objects.remove(&key);
                    }
                    Ok(Written::Applied)
                }
            }
        })
    }

    async fn object(
        &self,
        kind: ObjectKind,
        _namespace: &Namespace,
        name: &ObjectName,
    ) -> Result<Lookup<ObjectFacts>, ClusterError> {
        self.call(format!("get {name}"))?;
        self.edit(|shelf| {
            Ok(match shelf.objects.get(&(kind, name.to_string())) {
                Some(found) => Lookup::Found(found.clone()),
                None => Lookup::Absent,
            })
        })
    }

    async fn workload(&self, _: &Namespace, instance: &InstanceId) -> Result<Workload, ClusterError> {
        self.call("workload".to_owned())?;
        self.edit(|shelf| {
            Ok(Workload {
                replica_sets: shelf.sets.clone(),
                pods: shelf
                    .pods
                    .iter()
                    .filter(|pod| pod.labels.values().any(|value| value == instance.as_str()))
                    .cloned()
                    .collect(),
                undecodable: shelf.undecodable.clone(),
                ..Workload::default()
            })
        })
    }

    async fn pods(&self, _: &Namespace) -> Result<Listing<PodFacts>, ClusterError> {
        self.call("pods".to_owned())?;
        self.edit(|shelf| {
            Ok(Listing {
                items: shelf.pods.clone(),
                undecodable: Vec::new(),
            })
        })
    }

    async fn pools(&self) -> Result<Listing<PoolResource>, ClusterError> {
        not_used()
    }
    async fn claims(&self) -> Result<ClaimInventory, ClusterError> {
        not_used()
    }
    async fn claim(&self, _: &ClaimName) -> Result<Lookup<ClaimFacts>, ClusterError> {
        not_used()
    }
    async fn node(&self, _: &NodeName) -> Result<Lookup<NodeFacts>, ClusterError> {
        not_used()
    }
    async fn objects(&self, _: &Namespace, _: &PoolId) -> Result<Listing<ObjectFacts>, ClusterError> {
        not_used()
    }
    async fn protect_pod(
        &self,
        _: &Namespace,
        _: &ObjectName,
        _: &PodUid,
        _: &ResourceVersion,
    ) -> Result<Written, ClusterError> {
        not_used()
    }
    async fn cordon_node(
        &self,
        _: &NodeName,
        _: &NodeUid,
        _: &ResourceVersion,
        _: &CordonMark,
    ) -> Result<Written, ClusterError> {
        not_used()
    }
    async fn set_pool_status(
        &self,
        _: &Namespace,
        _: &ObjectName,
        _: &ObjectUid,
        _: &Value,
    ) -> Result<Written, ClusterError> {
        not_used()
    }
    async fn set_pool_finalizer(
        &self,
        _: &Namespace,
        _: &ObjectName,
        _: &ObjectUid,
        _: &ResourceVersion,
        _: bool,
    ) -> Result<Written, ClusterError> {
        not_used()
    }
    async fn publish(&self, _: &EventRecord) -> Result<(), ClusterError> {
        not_used()
    }
    async fn lease(&self, _: &Namespace, _: &ObjectName) -> Result<Lookup<LeaseFacts>, ClusterError> {
        not_used()
    }
    async fn put_lease(
        &self,
        _: &Namespace,
        _: &ObjectName,
        _: Option<&ResourceVersion>,
        _: &LeaseFacts,
    ) -> Result<Written, ClusterError> {
        not_used()
    }
    fn hints(&self, _: bool) -> BoxStream<'static, Hint> {
        stream::pending().boxed()
    }
}
