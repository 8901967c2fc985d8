//! Each operation of the port as its requests.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::future::try_join_all;
use futures::stream::BoxStream;
use futures::try_join;
use http::Method;
use serde_json::{Value, json};

use super::answer::Answer;
use super::exchange::Content;
use super::listing::{Complete, list};
use super::merge::difference;
use super::path::{
    CLAIMS, CONFIG_MAPS, DEPLOYMENTS, LEASES, NODES, PODS, POOLS, REPLICA_SETS, Resource, SERVICES,
};
use super::throttle::Lane;
use super::{KubernetesCluster, Scope, event, watch};
use crate::cluster::decode::{self, DecodeError};
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
use crate::pool::names::{
    ANNOTATION_DO_NOT_DISRUPT, ANNOTATION_NODE_REPLACEMENT, DO_NOT_DISRUPT, FINALIZER, LABEL_INSTANCE,
    LABEL_POOL, MANAGED_BY, pool_name,
};

impl KubernetesCluster {
    /// Reads one object as JSON.
    async fn read(&self, lane: Lane, resource: Resource, path: &str) -> Result<Lookup<Value>, ClusterError> {
        match self.exchange.get(lane, path).await? {
            Answer::Success(value) => Ok(Lookup::Found(value)),
            Answer::Refused(refusal) => refusal.of_read(resource).map(|()| Lookup::Absent),
        }
    }

    /// Reads one object as facts.
    async fn look_up<T>(
        &self,
        lane: Lane,
        resource: Resource,
        path: &str,
        decode: impl Fn(&Value) -> Result<T, DecodeError>,
    ) -> Result<Lookup<T>, ClusterError> {
        match self.read(lane, resource, path).await? {
            Lookup::Absent => Ok(Lookup::Absent),
            Lookup::Found(value) => decode(&value)
                .map(Lookup::Found)
                .map_err(|error| ClusterError::Undecodable(path.to_owned(), error.to_string())),
        }
    }

    /// Sends a write that needs no answer but its verdict.
    async fn write(
        &self,
        lane: Lane,
        method: Method,
        resource: Resource,
        path: &str,
        content: Content,
        body: &Value,
    ) -> Result<Written, ClusterError> {
        match self
            .exchange
            .send(lane, method, path, Some((content, body)))
            .await?
        {
            Answer::Success(_) => Ok(Written::Applied),
            Answer::Refused(refusal) => refusal.of_write(resource),
        }
    }

    /// Merges `change` into one object, if it still is the object of that UID and version.
    async fn merge(
        &self,
        resource: Resource,
        path: &str,
        seen: Seen<'_>,
        mut change: Value,
    ) -> Result<Written, ClusterError> {
        if seen.uid.is_empty() || seen.version.is_empty() {
            // Kubernetes takes an empty precondition for none.
            return Ok(Written::Conflict(
                "no UID or version to bind the write to".to_owned(),
            ));
        }
        if let Some(fields) = change.as_object_mut() {
            let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("uid".to_owned(), json!(seen.uid));
                metadata.insert("resourceVersion".to_owned(), json!(seen.version));
            }
        }
        let path = format!("{path}?fieldManager={MANAGED_BY}");
        self.write(
            Lane::Ordinary,
            Method::PATCH,
            resource,
            &path,
            Content::MergePatch,
            &change,
        )
        .await
    }
}

/// The object that a write is meant for, as it was read.
#[derive(Clone, Copy)]
struct Seen<'a> {
    uid: &'a str,
    version: &'a str,
}

fn manifest(manifest: &Manifest) -> Result<(ObjectKind, Value), ClusterError> {
    let (kind, value) = match manifest {
        Manifest::ConfigMap(object) => (ObjectKind::ConfigMap, serde_json::to_value(object)),
        Manifest::Service(object) => (ObjectKind::Service, serde_json::to_value(object)),
        Manifest::Deployment(object) => (ObjectKind::Deployment, serde_json::to_value(object)),
    };
    let value =
        value.map_err(|error| ClusterError::Undecodable(kind.as_str().to_owned(), error.to_string()))?;
    Ok((kind, value))
}

#[async_trait]
impl Cluster for KubernetesCluster {
    async fn pools(&self) -> Result<Listing<PoolResource>, ClusterError> {
        let scopes = self.scope.each();
        let lists = scopes
            .into_iter()
            .map(|namespace| list(&self.exchange, POOLS, namespace, None, decode::pool));
        let mut all = Listing::default();
        for complete in try_join_all(lists).await? {
            all.items.extend(complete.listing.items);
            all.undecodable.extend(complete.listing.undecodable);
        }
        Ok(all)
    }

    async fn claims(&self) -> Result<ClaimInventory, ClusterError> {
        let Complete { listing, version } = list(&self.exchange, CLAIMS, None, None, decode::claim).await?;
        let claims: BTreeMap<_, _> = listing
            .items
            .into_iter()
            .map(|claim| (claim.uid.clone(), claim))
            .collect();
        Ok(ClaimInventory {
            claims,
            undecodable: listing.undecodable,
            resource_version: version,
        })
    }

    async fn claim(&self, name: &ClaimName) -> Result<Lookup<ClaimFacts>, ClusterError> {
        let path = CLAIMS.one(None, name.as_str());
        self.look_up(Lane::Ordinary, CLAIMS, &path, decode::claim).await
    }

    async fn node(&self, name: &NodeName) -> Result<Lookup<NodeFacts>, ClusterError> {
        let path = NODES.one(None, name.as_str());
        self.look_up(Lane::Ordinary, NODES, &path, decode::node).await
    }

    async fn workload(&self, namespace: &Namespace, instance: &InstanceId) -> Result<Workload, ClusterError> {
        let selector = format!("{LABEL_INSTANCE}={instance}");
        let (exchange, namespace, selector) = (&self.exchange, Some(namespace), Some(selector.as_str()));
        let (deployments, replica_sets, pods, services, config_maps) = try_join!(
            list(exchange, DEPLOYMENTS, namespace, selector, decode::deployment),
            list(exchange, REPLICA_SETS, namespace, selector, decode::replica_set),
            list(exchange, PODS, namespace, selector, decode::pod),
            list(exchange, SERVICES, namespace, selector, |value| {
                decode::object(ObjectKind::Service, value)
            }),
            list(exchange, CONFIG_MAPS, namespace, selector, |value| {
                decode::object(ObjectKind::ConfigMap, value)
            }),
        )?;
        let mut undecodable = deployments.listing.undecodable;
        undecodable.extend(replica_sets.listing.undecodable);
        undecodable.extend(pods.listing.undecodable);
        undecodable.extend(services.listing.undecodable);
        undecodable.extend(config_maps.listing.undecodable);
        Ok(Workload {
            deployments: deployments.listing.items,
            replica_sets: replica_sets.listing.items,
            pods: pods.listing.items,
            services: services.listing.items,
            config_maps: config_maps.listing.items,
            undecodable,
        })
    }

    async fn pods(&self, namespace: &Namespace) -> Result<Listing<PodFacts>, ClusterError> {
        let complete = list(&self.exchange, PODS, Some(namespace), None, decode::pod).await?;
        Ok(complete.listing)
    }

    async fn objects(
        &self,
        namespace: &Namespace,
        pool: &PoolId,
    ) -> Result<Listing<ObjectFacts>, ClusterError> {
        // A label value holds only the name; the namespace says the rest.
        let name = pool_name(pool).unwrap_or(pool.as_str());
        let selector = format!("{LABEL_POOL}={name}");
        let kinds = [ObjectKind::Deployment, ObjectKind::Service, ObjectKind::ConfigMap];
        let lists = kinds.into_iter().map(|kind| {
            list(
                &self.exchange,
                Resource::of(kind),
                Some(namespace),
                Some(&selector),
                move |value| decode::object(kind, value),
            )
        });
        let mut all = Listing::default();
        for complete in try_join_all(lists).await? {
            all.items.extend(complete.listing.items);
            all.undecodable.extend(complete.listing.undecodable);
        }
        Ok(all)
    }

    async fn object(
        &self,
        kind: ObjectKind,
        namespace: &Namespace,
        name: &ObjectName,
    ) -> Result<Lookup<ObjectFacts>, ClusterError> {
        let resource = Resource::of(kind);
        let path = resource.one(Some(namespace), name.as_str());
        self.look_up(Lane::Ordinary, resource, &path, |value| {
            decode::object(kind, value)
        })
        .await
    }

    async fn create(&self, object: &Manifest) -> Result<Created, ClusterError> {
        let (kind, body) = manifest(object)?;
        let part = |key: &str| {
            let text = body.get("metadata").and_then(|metadata| metadata.get(key));
            text.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (namespace, name) = (Namespace::new(part("namespace")), ObjectName::new(part("name")));
        if namespace.is_empty() || name.is_empty() {
            return Ok(Created::Denied(
                "a manifest needs a namespace and a name".to_owned(),
            ));
        }
        let resource = Resource::of(kind);
        let path = format!("{}?fieldManager={MANAGED_BY}", resource.all(Some(&namespace)));
        let sent = self
            .exchange
            .send(Lane::Ordinary, Method::POST, &path, Some((Content::Json, &body)))
            .await?;
        let refusal = match sent {
            Answer::Success(created) => {
                return decode::object(kind, &created)
                    .map(|facts| Created::Created(facts.uid))
                    .map_err(|error| ClusterError::Undecodable(name.to_string(), error.to_string()));
            }
            Answer::Refused(refusal) => refusal,
        };
        match refusal.code {
            409 => match self.object(kind, &namespace, &name).await? {
                Lookup::Found(found) => Ok(Created::Exists(found)),
                Lookup::Absent => Err(ClusterError::Server(format!(
                    "{name} existed and then did not: {}",
                    refusal.message
                ))),
            },
            // Here a 404 that names something names the namespace.
            404 if refusal.names_object => Ok(Created::Denied(refusal.message)),
            _ => match refusal.of_write(resource)? {
                Written::Denied(message) | Written::Conflict(message) => Ok(Created::Denied(message)),
                Written::Applied | Written::Absent => {
                    Err(ClusterError::Server(format!("no verdict on creating {name}")))
                }
            },
        }
    }

    async fn delete(
        &self,
        kind: ObjectKind,
        namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
    ) -> Result<Written, ClusterError> {
        if uid.is_empty() {
            // An empty precondition is no precondition.
            return Ok(Written::Conflict("no UID to delete by".to_owned()));
        }
        let resource = Resource::of(kind);
        let path = resource.one(Some(namespace), name.as_str());
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid.as_str()},
            "propagationPolicy": "Background",
        });
        self.write(
            Lane::Ordinary,
            Method::DELETE,
            resource,
            &path,
            Content::Json,
            &options,
        )
        .await
    }

    async fn protect_pod(
        &self,
        namespace: &Namespace,
        pod: &ObjectName,
        uid: &PodUid,
        version: &ResourceVersion,
    ) -> Result<Written, ClusterError> {
        let seen = Seen {
            uid: uid.as_str(),
            version: version.as_str(),
        };
        let change = json!({"metadata": {"annotations": {ANNOTATION_DO_NOT_DISRUPT: DO_NOT_DISRUPT}}});
        let path = PODS.one(Some(namespace), pod.as_str());
        self.merge(PODS, &path, seen, change).await
    }

    async fn cordon_node(
        &self,
        node: &NodeName,
        uid: &NodeUid,
        version: &ResourceVersion,
        mark: &CordonMark,
    ) -> Result<Written, ClusterError> {
        let seen = Seen {
            uid: uid.as_str(),
            version: version.as_str(),
        };
        let change = json!({
            "metadata": {"annotations": {ANNOTATION_NODE_REPLACEMENT: mark.0}},
            "spec": {"unschedulable": true},
        });
        self.merge(NODES, &NODES.one(None, node.as_str()), seen, change)
            .await
    }

    async fn set_pool_status(
        &self,
        namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
        status: &Value,
    ) -> Result<Written, ClusterError> {
        let path = POOLS.one(Some(namespace), name.as_str());
        let Lookup::Found(current) = self.read(Lane::Ordinary, POOLS, &path).await? else {
            return Ok(Written::Absent);
        };
        if current.pointer("/metadata/uid").and_then(Value::as_str) != Some(uid.as_str()) {
            return Ok(Written::Conflict(
                "another TrinoPool stands under that name".to_owned(),
            ));
        }
        // A merge patch would keep what an earlier status said and this one does not, so the difference
        // is sent, bound to the version it was taken from.
        let before = current.get("status").cloned().unwrap_or_else(|| json!({}));
        let Some(change) = difference(&before, status) else {
            return Ok(Written::Applied);
        };
        let version = current
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str);
        let seen = Seen {
            uid: uid.as_str(),
            version: version.unwrap_or_default(),
        };
        let change = json!({"status": change});
        self.merge(POOLS, &format!("{path}/status"), seen, change).await
    }

    async fn set_pool_finalizer(
        &self,
        namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
        version: &ResourceVersion,
        present: bool,
    ) -> Result<Written, ClusterError> {
        let path = POOLS.one(Some(namespace), name.as_str());
        let Lookup::Found(current) = self.read(Lane::Ordinary, POOLS, &path).await? else {
            return Ok(Written::Absent);
        };
        let standing: Vec<&str> = current
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            .map(|finalizers| finalizers.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        // A merge patch replaces the whole list, so others' finalizers are sent along, and the version
        // that the caller saw makes sure that they are the same ones.
        let mut wanted: Vec<&str> = standing.iter().copied().filter(|one| *one != FINALIZER).collect();
        if present {
            wanted.push(FINALIZER);
        }
        let seen = Seen {
            uid: uid.as_str(),
            version: version.as_str(),
        };
        let change = json!({"metadata": {"finalizers": wanted}});
        self.merge(POOLS, &path, seen, change).await
    }

    async fn publish(&self, event: &EventRecord) -> Result<(), ClusterError> {
        event::publish(&self.exchange, event, self.clock.now()).await
    }

    async fn lease(
        &self,
        namespace: &Namespace,
        name: &ObjectName,
    ) -> Result<Lookup<LeaseFacts>, ClusterError> {
        let path = LEASES.one(Some(namespace), name.as_str());
        self.look_up(Lane::Lease, LEASES, &path, decode::lease).await
    }

    async fn put_lease(
        &self,
        namespace: &Namespace,
        name: &ObjectName,
        expected: Option<&ResourceVersion>,
        lease: &LeaseFacts,
    ) -> Result<Written, ClusterError> {
        let spec = decode::encode_lease_spec(lease);
        let Some(version) = expected else {
            let body = json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name.as_str(), "namespace": namespace.as_str()},
                "spec": spec,
            });
            let path = LEASES.all(Some(namespace));
            return self
                .write(Lane::Lease, Method::POST, LEASES, &path, Content::Json, &body)
                .await;
        };
        if version.is_empty() {
            // Kubernetes takes an empty version for "whatever stands there".
            return Ok(Written::Conflict("no version to replace".to_owned()));
        }
        // A patch of every field, not a PUT: that creates a Lease that is not there, whatever version it names.
        let body = json!({"metadata": {"resourceVersion": version.as_str()}, "spec": spec});
        let path = LEASES.one(Some(namespace), name.as_str());
        self.write(
            Lane::Lease,
            Method::PATCH,
            LEASES,
            &path,
            Content::MergePatch,
            &body,
        )
        .await
    }

    fn hints(&self, claims: bool) -> BoxStream<'static, Hint> {
        let namespaces = match &self.scope {
            Scope::All => None,
            Scope::Namespaces(namespaces) => Some(namespaces.as_slice()),
        };
        watch::hints(&self.exchange, namespaces, claims)
    }
}
