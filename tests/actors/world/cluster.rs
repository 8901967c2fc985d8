//! The Kubernetes API of the world: what is listed and read, made, changed and deleted.

use async_trait::async_trait;
use futures::channel::mpsc;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use serde_json::Value;
use trino_pool_operator::cluster::facts::{
    ClaimFacts, ClaimInventory, LeaseFacts, Listing, Lookup, NodeFacts, ObjectFacts, ObjectKind, PodFacts,
    PoolResource, Workload,
};
use trino_pool_operator::cluster::port::{
    Cluster, ClusterError, CordonMark, Created, EventRecord, Hint, Manifest, Written,
};
use trino_pool_operator::pool::ids::{
    ClaimName, InstanceId, Namespace, NodeName, NodeUid, ObjectName, ObjectUid, PodUid, PoolId,
    ResourceVersion, StoreId,
};

use super::{Trouble, World};

const POOL: &str = "trinopool.dev/pool";

fn failed(what: &str) -> ClusterError {
    ClusterError::Server(format!("{what} fails on purpose"))
}

impl World {
    async fn pass(&self, call: &str, subject: &str) -> Result<(), ClusterError> {
        let trouble = |trouble| match trouble {
            Trouble::Throttles(seconds) => ClusterError::Throttled {
                retry_after: Some(seconds),
            },
            Trouble::Fails | Trouble::Hangs | Trouble::Late(_) | Trouble::Panics => failed(call),
        };
        self.gate(call, subject).await.map_err(trouble)
    }
}

#[async_trait]
impl Cluster for World {
    async fn pools(&self) -> Result<Listing<PoolResource>, ClusterError> {
        self.pass("pools", "").await?;
        let items = self.lock().pools.values().cloned().collect();
        // What happens from here on is not in it any more.
        self.pass("answer of pools", "").await?;
        Ok(Listing {
            items,
            undecodable: Vec::new(),
        })
    }

    async fn claims(&self) -> Result<ClaimInventory, ClusterError> {
        self.pass("claims", "").await?;
        Ok(ClaimInventory {
            claims: self.lock().claims.clone(),
            undecodable: Vec::new(),
            resource_version: ResourceVersion::new("1"),
        })
    }

    async fn claim(&self, name: &ClaimName) -> Result<Lookup<ClaimFacts>, ClusterError> {
        self.pass("claim", name.as_str()).await?;
        let inner = self.lock();
        let found = inner.claims.values().find(|claim| claim.name == *name);
        Ok(found.cloned().map_or(Lookup::Absent, Lookup::Found))
    }

    async fn node(&self, name: &NodeName) -> Result<Lookup<NodeFacts>, ClusterError> {
        self.pass("node", name.as_str()).await?;
        let found = self.lock().nodes.get(name).cloned();
        Ok(found.map_or(Lookup::Absent, Lookup::Found))
    }

    async fn workload(
        &self,
        _namespace: &Namespace,
        instance: &InstanceId,
    ) -> Result<Workload, ClusterError> {
        self.pass("workload", instance.as_str()).await?;
        let inner = self.lock();
        let ours = |name: &ObjectName| name.as_str().starts_with(instance.as_str());
        let of = |kind: ObjectKind| -> Vec<ObjectFacts> {
            let items = inner
                .objects
                .iter()
                .filter(|object| object.kind == kind && ours(&object.name));
            items.cloned().collect()
        };
        Ok(Workload {
            deployments: inner
                .deployments
                .iter()
                .filter(|d| ours(&d.object.name))
                .cloned()
                .collect(),
            replica_sets: inner
                .replica_sets
                .iter()
                .filter(|set| ours(&set.name))
                .cloned()
                .collect(),
            pods: inner.pods.iter().filter(|pod| ours(&pod.name)).cloned().collect(),
            services: of(ObjectKind::Service),
            config_maps: of(ObjectKind::ConfigMap),
            undecodable: Vec::new(),
        })
    }

    async fn pods(&self, _namespace: &Namespace) -> Result<Listing<PodFacts>, ClusterError> {
        self.pass("pods", "").await?;
        Ok(Listing {
            items: self.lock().pods.clone(),
            undecodable: Vec::new(),
        })
    }

    async fn objects(
        &self,
        _namespace: &Namespace,
        pool: &PoolId,
    ) -> Result<Listing<ObjectFacts>, ClusterError> {
        self.pass("objects", pool.as_str()).await?;
        let name = pool.as_str().rsplit('/').next().unwrap().to_owned();
        let inner = self.lock();
        let items = inner.objects.iter().filter(|o| o.labels.get(POOL) == Some(&name));
        Ok(Listing {
            items: items.cloned().collect(),
            undecodable: Vec::new(),
        })
    }

    async fn object(
        &self,
        kind: ObjectKind,
        _namespace: &Namespace,
        name: &ObjectName,
    ) -> Result<Lookup<ObjectFacts>, ClusterError> {
        self.pass("object", name.as_str()).await?;
        let inner = self.lock();
        let found = inner.objects.iter().find(|o| o.kind == kind && o.name == *name);
        Ok(found.cloned().map_or(Lookup::Absent, Lookup::Found))
    }

    async fn create(&self, manifest: &Manifest) -> Result<Created, ClusterError> {
        let (kind, meta) = match manifest {
            Manifest::ConfigMap(object) => (ObjectKind::ConfigMap, &object.metadata),
            Manifest::Service(object) => (ObjectKind::Service, &object.metadata),
            Manifest::Deployment(object) => (ObjectKind::Deployment, &object.metadata),
        };
        let name = meta.name.clone().unwrap();
        self.pass("create", &name).await?;
        let mut inner = self.lock();
        let known = inner
            .objects
            .iter()
            .find(|o| o.kind == kind && o.name.as_str() == name);
        if let Some(known) = known {
            return Ok(Created::Exists(known.clone()));
        }
        let facts = inner.object(kind, meta);
        inner.log.push(format!("create {} {name}", kind.as_str()));
        if let Manifest::Deployment(deployment) = manifest {
            let spec = deployment.spec.clone().unwrap();
            inner.run(&facts, spec.replicas.unwrap(), &spec.template);
        }
        inner.objects.push(facts.clone());
        Ok(Created::Created(facts.uid))
    }

    async fn delete(
        &self,
        kind: ObjectKind,
        _namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
    ) -> Result<Written, ClusterError> {
        self.pass("delete", name.as_str()).await?;
        let mut inner = self.lock();
        let Some(at) = inner
            .objects
            .iter()
            .position(|o| o.kind == kind && o.name == *name)
        else {
            return Ok(Written::Absent);
        };
        if inner.objects[at].uid != *uid {
            return Ok(Written::Conflict("another UID".into()));
        }
        inner.objects.remove(at);
        inner.log.push(format!("delete {} {name}", kind.as_str()));
        if kind == ObjectKind::Deployment {
            inner.deployments.retain(|d| d.object.uid != *uid);
            inner.replica_sets.retain(|set| set.owners[0].uid != uid.as_str());
            let prefix = format!("{name}-rs");
            inner.pods.retain(|pod| !pod.name.as_str().starts_with(&prefix));
        }
        Ok(Written::Applied)
    }

    async fn protect_pod(
        &self,
        _namespace: &Namespace,
        pod: &ObjectName,
        uid: &PodUid,
        version: &ResourceVersion,
    ) -> Result<Written, ClusterError> {
        self.pass("protect_pod", pod.as_str()).await?;
        let mut inner = self.lock();
        let Some(pod) = inner.pods.iter_mut().find(|known| known.name == *pod) else {
            return Ok(Written::Absent);
        };
        if pod.uid != *uid || pod.resource_version != *version {
            return Ok(Written::Conflict("changed".into()));
        }
        pod.do_not_disrupt = Some("true".into());
        Ok(Written::Applied)
    }

    async fn cordon_node(
        &self,
        node: &NodeName,
        uid: &NodeUid,
        version: &ResourceVersion,
        mark: &CordonMark,
    ) -> Result<Written, ClusterError> {
        self.pass("cordon_node", node.as_str()).await?;
        let mut inner = self.lock();
        let Some(found) = inner.nodes.get_mut(node) else {
            return Ok(Written::Absent);
        };
        if found.uid != *uid || found.resource_version != *version {
            return Ok(Written::Conflict("changed".into()));
        }
        found.unschedulable = true;
        found.cordon_mark = Some(mark.0.clone());
        inner.log.push(format!("cordon {node}"));
        Ok(Written::Applied)
    }

    async fn set_pool_status(
        &self,
        _namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
        status: &Value,
    ) -> Result<Written, ClusterError> {
        self.pass("status", name.as_str()).await?;
        let mut inner = self.lock();
        inner.statuses.push(status.clone());
        let Some(pool) = inner.pools.get_mut(name.as_str()).filter(|pool| pool.uid == *uid) else {
            return Ok(Written::Absent);
        };
        pool.store = status["storeId"].as_str().map(StoreId::new);
        Ok(Written::Applied)
    }

    async fn set_pool_finalizer(
        &self,
        _namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
        _version: &ResourceVersion,
        present: bool,
    ) -> Result<Written, ClusterError> {
        self.pass("finalizer", name.as_str()).await?;
        let mut inner = self.lock();
        let Some(pool) = inner.pools.get_mut(name.as_str()).filter(|pool| pool.uid == *uid) else {
            return Ok(Written::Absent);
        };
        pool.finalizer = present;
        if pool.deleting && !present {
            inner.pools.remove(name.as_str());
        }
        Ok(Written::Applied)
    }

    async fn publish(&self, event: &EventRecord) -> Result<(), ClusterError> {
        self.lock()
            .events
            .push(format!("{} {}", event.reason, event.message));
        Ok(())
    }

    async fn lease(&self, _: &Namespace, name: &ObjectName) -> Result<Lookup<LeaseFacts>, ClusterError> {
        self.pass("lease", name.as_str()).await?;
        Ok(self.lock().lease.clone().map_or(Lookup::Absent, Lookup::Found))
    }

    async fn put_lease(
        &self,
        _namespace: &Namespace,
        name: &ObjectName,
        expected: Option<&ResourceVersion>,
        lease: &LeaseFacts,
    ) -> Result<Written, ClusterError> {
        let writer = lease.holder.clone().unwrap_or_default();
        self.pass("put_lease", &format!("{name} {writer}")).await?;
        let mut inner = self.lock();
        let current = inner.lease.as_ref().map(|lease| lease.resource_version.clone());
        if current.as_ref() != expected {
            return Ok(Written::Conflict("another version".into()));
        }
        let version = ResourceVersion::new(inner.next("lease"));
        inner.lease = Some(LeaseFacts {
            resource_version: version,
            ..lease.clone()
        });
        Ok(Written::Applied)
    }

    fn hints(&self, _: bool) -> BoxStream<'static, Hint> {
        let (listener, hints) = mpsc::unbounded();
        self.lock().hints.push(listener);
        // It never ends, whoever listens.
        hints.chain(stream::pending()).boxed()
    }
}
