//! Kubernetes as a port. Every write carries a precondition or a deterministic name; caches may serve
//! the reads that say so, since a stale read can then only cause a refused write.

use std::fmt;

use async_trait::async_trait;
use futures::stream::BoxStream;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::Value;

use super::facts::{
    ClaimFacts, ClaimInventory, LeaseFacts, Listing, Lookup, NodeFacts, ObjectFacts, ObjectKind, PodFacts,
    PoolResource, Workload,
};
use crate::pool::ids::{
    ClaimName, InstanceId, Namespace, NodeName, NodeUid, ObjectName, ObjectUid, PodUid, PoolId,
    ResourceVersion,
};

/// Why a read has no answer, or a write no verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// No connection, a cut connection, or no answer within the deadline.
    #[error("the API server did not answer: {0}")]
    Unreachable(String),
    /// 429; `retry_after` in seconds when the server said so.
    #[error("the API server throttles us")]
    Throttled {
        /// `Retry-After`, seconds.
        retry_after: Option<u64>,
    },
    /// 401 or 403: a permission is missing.
    #[error("not permitted: {0}")]
    Forbidden(String),
    /// 404 for a whole kind: the CRD is not installed, or not served now.
    #[error("the API server does not serve {0}")]
    KindNotServed(String),
    /// 410 that a bounded number of restarts did not get past.
    #[error("the listing expired while it was read")]
    Expired,
    /// 5xx or an answer that is not Kubernetes.
    #[error("the API server failed: {0}")]
    Server(String),
    /// Present and unreadable: unknown, not absent.
    #[error("{0} cannot be decoded: {1}")]
    Undecodable(String, String),
    /// A listing exceeds the documented cap.
    #[error("more than {0} objects listed")]
    TooMany(usize),
}

impl ClusterError {
    /// Label for metrics and reasons.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "KubernetesUnreachable",
            Self::Throttled { .. } => "KubernetesThrottled",
            Self::Forbidden(_) => "KubernetesForbidden",
            Self::KindNotServed(_) => "KindNotServed",
            Self::Expired => "ListExpired",
            Self::Server(_) => "KubernetesFailed",
            Self::Undecodable(..) => "Undecodable",
            Self::TooMany(_) => "TooMany",
        }
    }
}

/// What a write came to. `Err(ClusterError)` beside it means no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Done.
    Applied,
    /// The object changed since it was read, or is another one: 409, or 422 about the UID.
    Conflict(String),
    /// It is not there.
    Absent,
    /// Refused for good: admission denial or invalid content, with the server's message.
    Denied(String),
}

/// What a create came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// Created now, under this UID.
    Created(ObjectUid),
    /// An object of that name exists: adopt it or refuse it by its facts.
    Exists(ObjectFacts),
    /// Refused for good, with the server's message.
    Denied(String),
}

/// One of an instance's five objects, ready to be created.
#[derive(Clone, Debug, PartialEq)]
pub enum Manifest {
    /// v1
    ConfigMap(Box<ConfigMap>),
    /// v1
    Service(Box<Service>),
    /// apps/v1
    Deployment(Box<Deployment>),
}

/// The mark of our own cordon: pool, instance, NodeClaim UID and reason, as one annotation value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CordonMark(pub String);

/// A hint that something relevant changed; never a fact. It names the pool where the object says it, so that
/// one pool's pods are no news to the others; `None` when any may be concerned: the object does not say, or a
/// watch began anew and may have missed something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hint {
    /// A TrinoPool changed: this one.
    Pool(Option<PoolId>),
    /// A pod of ours changed: one of this pool's, by its namespace and label.
    Pod(Option<PoolId>),
    /// A NodeClaim changed. Any pool may run on its node, and a claim does not say which does.
    Claim,
}

/// An Event to publish on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// What it is about.
    pub about: EventSubject,
    /// Warning, or Normal.
    pub warning: bool,
    /// CamelCase reason.
    pub reason: String,
    /// One sentence for a person.
    pub message: String,
}

/// What an Event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSubject {
    /// A TrinoPool.
    Pool(Namespace, ObjectName, ObjectUid),
    /// A Pod.
    Pod(Namespace, ObjectName, PodUid),
    /// A Node.
    Node(NodeName, NodeUid),
}

impl fmt::Display for EventSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(namespace, name, _) => write!(f, "TrinoPool {namespace}/{name}"),
            Self::Pod(namespace, name, _) => write!(f, "Pod {namespace}/{name}"),
            Self::Node(name, _) => write!(f, "Node {name}"),
        }
    }
}

/// A Kubernetes cluster. All calls have a deadline of their own (10 s in the kube-rs adapter).
#[async_trait]
pub trait Cluster: Send + Sync + 'static {
    /// All TrinoPools of the namespaces this process serves.
    async fn pools(&self) -> Result<Listing<PoolResource>, ClusterError>;

    /// All NodeClaims, paged; an error if any page fails.
    async fn claims(&self) -> Result<ClaimInventory, ClusterError>;

    /// One NodeClaim, fresh.
    async fn claim(&self, name: &ClaimName) -> Result<Lookup<ClaimFacts>, ClusterError>;

    /// One Node, fresh.
    async fn node(&self, name: &NodeName) -> Result<Lookup<NodeFacts>, ClusterError>;

    /// Everything that carries the instance's label in that namespace; an error if any part is unknown.
    async fn workload(&self, namespace: &Namespace, instance: &InstanceId) -> Result<Workload, ClusterError>;

    /// Every pod of a namespace, unfiltered and complete: the only proof that a pod is gone.
    async fn pods(&self, namespace: &Namespace) -> Result<Listing<PodFacts>, ClusterError>;

    /// All objects that carry the pool's label, for orphans, adoption and the epoch floor (S1, S8).
    async fn objects(
        &self,
        namespace: &Namespace,
        pool: &PoolId,
    ) -> Result<Listing<ObjectFacts>, ClusterError>;

    /// One object of ours by name.
    async fn object(
        &self,
        kind: ObjectKind,
        namespace: &Namespace,
        name: &ObjectName,
    ) -> Result<Lookup<ObjectFacts>, ClusterError>;

    /// Creates one object under its deterministic name.
    async fn create(&self, manifest: &Manifest) -> Result<Created, ClusterError>;

    /// Deletes one object, background propagation, with its UID as precondition.
    async fn delete(
        &self,
        kind: ObjectKind,
        namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
    ) -> Result<Written, ClusterError>;

    /// Sets `karpenter.sh/do-not-disrupt: "true"` on one pod, UID and resourceVersion as preconditions.
    async fn protect_pod(
        &self,
        namespace: &Namespace,
        pod: &ObjectName,
        uid: &PodUid,
        version: &ResourceVersion,
    ) -> Result<Written, ClusterError>;

    /// Sets `spec.unschedulable` and our mark on one node, UID and resourceVersion as preconditions.
    async fn cordon_node(
        &self,
        node: &NodeName,
        uid: &NodeUid,
        version: &ResourceVersion,
        mark: &CordonMark,
    ) -> Result<Written, ClusterError>;

    /// Replaces `status` of a TrinoPool, UID as precondition.
    async fn set_pool_status(
        &self,
        namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
        status: &Value,
    ) -> Result<Written, ClusterError>;

    /// Adds or removes our finalizer on a TrinoPool, UID and resourceVersion as preconditions.
    async fn set_pool_finalizer(
        &self,
        namespace: &Namespace,
        name: &ObjectName,
        uid: &ObjectUid,
        version: &ResourceVersion,
        present: bool,
    ) -> Result<Written, ClusterError>;

    /// Publishes an Event; losing one is not a fault.
    async fn publish(&self, event: &EventRecord) -> Result<(), ClusterError>;

    /// The leadership Lease.
    async fn lease(
        &self,
        namespace: &Namespace,
        name: &ObjectName,
    ) -> Result<Lookup<LeaseFacts>, ClusterError>;

    /// Creates the Lease (`expected` = None) or replaces that exact version of it; one that is gone stays gone.
    async fn put_lease(
        &self,
        namespace: &Namespace,
        name: &ObjectName,
        expected: Option<&ResourceVersion>,
        lease: &LeaseFacts,
    ) -> Result<Written, ClusterError>;

    /// Hints that something changed. May be empty for ever: ticks do not depend on it.
    /// Without `claims` NodeClaims are neither listed nor watched: node replacement is off.
    fn hints(&self, claims: bool) -> BoxStream<'static, Hint>;
}
