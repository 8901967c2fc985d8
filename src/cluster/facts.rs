//! Facts about Kubernetes objects, decoded leniently and reduced to what a rule needs.
//!
//! A missing optional field is `None` or empty; an object that cannot be decoded at all is reported as
//! [`Undecodable`] and never read as absent.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::pool::ids::{
    ClaimName, ClaimUid, ContainerId, Namespace, NodeName, NodeUid, ObjectName, ObjectUid, PodUid,
    ProviderId, ResourceVersion, SpecGeneration, StoreId,
};

/// A read of one name: a 404 that names the object is an answer, anything else is an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup<T> {
    /// It is there.
    Found(T),
    /// The API server said that this object does not exist, with its kind still served.
    Absent,
}

impl<T> Lookup<T> {
    /// The object, if it was found.
    #[must_use]
    pub fn found(self) -> Option<T> {
        match self {
            Self::Found(found) => Some(found),
            Self::Absent => None,
        }
    }
}

/// A whole listing: what decoded, and what did not.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing<T> {
    /// Decoded items, in the server's order.
    pub items: Vec<T>,
    /// Items that are present and unreadable.
    pub undecodable: Vec<Undecodable>,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            undecodable: Vec::new(),
        }
    }
}

/// An object that is present and cannot be decoded: unknown, not absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// `metadata.name`, when at least that could be read.
    pub name: Option<String>,
    /// `metadata.uid`, when that could be read.
    pub uid: Option<String>,
    /// Which field, and why.
    pub problem: String,
}

/// The kinds of an instance's own objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// v1
    ConfigMap,
    /// v1
    Service,
    /// apps/v1
    Deployment,
}

impl ObjectKind {
    /// The kind as Kubernetes spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Service => "Service",
            Self::Deployment => "Deployment",
        }
    }
}

/// An `ownerReferences` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRef {
    /// `apiVersion`, group and version.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `name`.
    pub name: String,
    /// `uid`.
    pub uid: String,
    /// `controller`; Karpenter sets none on a Node (pkg/utils/nodeclaim/nodeclaim.go).
    pub controller: bool,
}

impl OwnerRef {
    /// The API group, without the version.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }
}

/// Metadata of one of our own objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// What it is.
    pub kind: ObjectKind,
    /// Where it is.
    pub namespace: Namespace,
    /// Its name.
    pub name: ObjectName,
    /// Its identity.
    pub uid: ObjectUid,
    /// Its version.
    pub resource_version: ResourceVersion,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

/// A Deployment of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentFacts {
    /// Identity, labels, annotations.
    pub object: ObjectFacts,
    /// `spec.replicas`; absent is not zero.
    pub replicas: Option<u32>,
    /// `status.readyReplicas`, 0 when absent.
    pub ready: u32,
    /// `metadata.generation`: rises when anybody edits the spec.
    pub generation: u64,
}

/// A ReplicaSet, as far as ownership needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSetFacts {
    /// `metadata.name`.
    pub name: ObjectName,
    /// `metadata.uid`.
    pub uid: ObjectUid,
    /// `metadata.ownerReferences`.
    pub owners: Vec<OwnerRef>,
    /// `spec.replicas`: above 0 for the templates that should run, also while no pod of theirs comes.
    pub wanted: u32,
}

/// A pod that carries an instance's label, ours or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// `metadata.name`.
    pub name: ObjectName,
    /// `metadata.uid`.
    pub uid: PodUid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.ownerReferences`.
    pub owners: Vec<OwnerRef>,
    /// Value of `karpenter.sh/do-not-disrupt`, exactly as it stands.
    pub do_not_disrupt: Option<String>,
    /// `spec.nodeName`; empty or absent is `None`.
    pub node: Option<NodeName>,
    /// `status.phase` is Succeeded or Failed.
    pub finished: bool,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// Condition Ready is True.
    pub ready: bool,
    /// `status.podIP`.
    pub ip: Option<String>,
    /// `status.startTime`.
    pub started_at: Option<Timestamp>,
    /// The status of each container, by name.
    pub containers: BTreeMap<String, ContainerFacts>,
    /// UIDs of ConfigMaps are not in a pod; the names its volumes mount are.
    pub config_maps: Vec<ObjectName>,
    /// Message of condition PodScheduled when it is False: why it is still pending.
    pub unschedulable_because: Option<String>,
}

/// A pod of a listing over many namespaces, which is not lost when it cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespacedPod {
    /// `metadata.namespace`; `None` when even that cannot be read.
    pub namespace: Option<Namespace>,
    /// The pod, or what of it could be read.
    pub pod: Result<PodFacts, Undecodable>,
}

/// One container's status.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ContainerFacts {
    /// `spec.containers[].image`, what was asked for.
    pub image: Option<String>,
    /// `containerID` while it runs.
    pub running: Option<ContainerId>,
    /// `restartCount`.
    pub restarts: u32,
    /// `lastState.terminated.containerID`.
    pub last_terminated: Option<ContainerId>,
    /// `state.terminated.containerID`: ended and not restarted.
    pub terminated: Option<ContainerId>,
    /// `state.waiting.reason`, such as ImagePullBackOff.
    pub waiting: Option<String>,
}

/// Everything of one instance in its namespace, by our instance label. Ownership is not yet proven.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Workload {
    /// Deployments with the label.
    pub deployments: Vec<DeploymentFacts>,
    /// ReplicaSets with the label.
    pub replica_sets: Vec<ReplicaSetFacts>,
    /// Pods with the label, terminating ones included.
    pub pods: Vec<PodFacts>,
    /// Services with the label.
    pub services: Vec<ObjectFacts>,
    /// ConfigMaps with the label.
    pub config_maps: Vec<ObjectFacts>,
    /// Objects with the label that could not be decoded: the inventory is incomplete.
    pub undecodable: Vec<Undecodable>,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// `key`.
    pub key: String,
    /// `value`, empty when absent.
    pub value: String,
    /// `effect`.
    pub effect: String,
}

/// A Node, as far as placement and cordons need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// `metadata.name`.
    pub name: NodeName,
    /// `metadata.uid`.
    pub uid: NodeUid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.creationTimestamp`.
    pub created_at: Option<Timestamp>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.ownerReferences`.
    pub owners: Vec<OwnerRef>,
    /// `spec.providerID`; empty is `None`.
    pub provider_id: Option<ProviderId>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// Value of our own cordon annotation, if any.
    pub cordon_mark: Option<String>,
    /// Condition Ready is True.
    pub ready: bool,
}

/// A Karpenter NodeClaim, projected (karpenter.sh/v1, pkg/apis/v1/nodeclaim.go).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFacts {
    /// `metadata.name`.
    pub name: ClaimName,
    /// `metadata.uid`.
    pub uid: ClaimUid,
    /// `metadata.deletionTimestamp`.
    pub deleted_at: Option<Timestamp>,
    /// `status.nodeName`; empty is `None` (a launching claim).
    pub node: Option<NodeName>,
    /// `status.providerID`; empty is `None`.
    pub provider_id: Option<ProviderId>,
    /// Some when a condition `Drifted` has status exactly `True`; holds that condition's reason.
    pub drifted: Option<Option<String>>,
    /// Some when a condition `DisruptionReason` is True; holds its reason.
    pub disruption: Option<Option<String>>,
    /// Condition `Registered` is False with reason MultipleNodesFound.
    pub ambiguous: bool,
    /// `spec.terminationGracePeriod`.
    pub grace: Grace,
    /// Annotation `karpenter.sh/nodeclaim-termination-timestamp`, when it parses.
    pub termination_at: Option<Timestamp>,
}

/// A NodeClaim's termination grace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grace {
    /// Absent: protected pods are waited for without end.
    Unlimited,
    /// Karpenter ends protected pods this long after deletion.
    Finite(Duration),
    /// Present and not a duration: treated as finite, length unknown.
    Unreadable(String),
}

/// The NodeClaim inventory at one moment: one per tick, shared by all pools.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimInventory {
    /// Claims by UID.
    pub claims: BTreeMap<ClaimUid, ClaimFacts>,
    /// Claims that are present and unreadable.
    pub undecodable: Vec<Undecodable>,
    /// Resource version of the listing.
    pub resource_version: ResourceVersion,
}

impl Default for ClaimInventory {
    /// No claim, of no listing.
    fn default() -> Self {
        Self {
            claims: BTreeMap::new(),
            undecodable: Vec::new(),
            resource_version: ResourceVersion::new(""),
        }
    }
}

/// The TrinoPool resource as read: its spec is not validated yet.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolResource {
    /// Where it is.
    pub namespace: Namespace,
    /// Its name.
    pub name: ObjectName,
    /// Its identity; a new resource under the same name is another one.
    pub uid: ObjectUid,
    /// Its version.
    pub resource_version: ResourceVersion,
    /// `metadata.generation`.
    pub generation: SpecGeneration,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Our finalizer is on it.
    pub finalizer: bool,
    /// `spec`, raw: validated by `pool::validate`.
    pub spec: Value,
    /// `status.storeId`: which store acted for it last.
    pub store: Option<StoreId>,
}

/// A coordination Lease, as far as leadership needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFacts {
    /// `metadata.resourceVersion`; a write carries it.
    pub resource_version: ResourceVersion,
    /// `spec.holderIdentity`; empty or absent is `None`: released.
    pub holder: Option<String>,
    /// `spec.leaseDurationSeconds`.
    pub duration: Duration,
    /// `spec.renewTime`; compared for change only, never with our clock.
    pub renewed_at: Option<Timestamp>,
    /// `spec.leaseTransitions`.
    pub transitions: u32,
}
