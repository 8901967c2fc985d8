//! What one inspection of one instance saw. "Unknown" is a value: a reading that failed is a
//! [`Fault`], never an absence.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::evidence::Disruption;
use super::ids::{ClaimName, ClaimUid, NodeName, NodeUid, ObjectName, ObjectUid, PodUid, ResourceVersion};
use super::instance::{CandidateFailure, ProcessIdentity};
use crate::cluster::facts::{ClaimFacts, ClaimInventory, NodeFacts, Workload};
use crate::gateway::model::{Member, Obligations};
use crate::trino::port::CoordinatorInfo;

/// Something was asked and there is no answer, or the answer is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Label for metrics and reasons, CamelCase, from the error that caused it.
    pub label: &'static str,
    /// What it is about: a node, a pod, a listing.
    pub subject: String,
    /// One sentence for a person; no secrets.
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.label, self.detail, self.subject)
    }
}

/// A reading of the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading<T> {
    /// Not asked in this pass.
    NotAsked,
    /// Asked, and this is the answer.
    Seen(T),
    /// Asked, and there is no answer.
    Unknown(Fault),
}

impl<T> Reading<T> {
    /// The answer, if there is one.
    #[must_use]
    pub const fn seen(&self) -> Option<&T> {
        match self {
            Self::Seen(answer) => Some(answer),
            Self::NotAsked | Self::Unknown(_) => None,
        }
    }
}

/// Where a reading of NodeClaims came from.
#[derive(Clone, Debug, PartialEq)]
pub enum Claims {
    /// The tick's shared inventory: complete, so a missing UID means "no such claim then".
    Inventory(Arc<ClaimInventory>),
    /// Fresh named reads, for a candidate: `None` is a 404 that named the object.
    Named(BTreeMap<ClaimName, Reading<Option<ClaimFacts>>>),
    /// No inventory this tick.
    Unknown(Fault),
}

/// Everything one inspection read of the nodes beneath an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReadings {
    /// Nodes by name: `None` is a 404 that named the object.
    pub nodes: BTreeMap<NodeName, Reading<Option<NodeFacts>>>,
    /// Their claims.
    pub claims: Claims,
}

/// The pure verdict on an inspection (rules in `pool::placement`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementReport {
    /// Nodes seen going, from every node that could be proven, whatever else failed (L3); by urgency,
    /// then name.
    pub evidence: Vec<LeavingNode>,
    /// Nodes that make a candidate definitively invalid, by name (L4).
    pub invalid: Vec<CandidateFailure>,
    /// Pods still missing or unscheduled: waiting, not a fault, while CREATING and PREPARING.
    pub incomplete: Option<String>,
    /// Everything that is wrong or unknown.
    pub faults: Vec<Fault>,
    /// Nodes of finite grace under the instance: at risk, with the deadline when it is known.
    pub at_risk: Vec<AtRisk>,
    /// Whether the inspection was complete and clean: only then may a node be cordoned (L3).
    pub clean: bool,
}

/// A proven node that is going, with the claim that proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingNode {
    /// Name.
    pub node: NodeName,
    /// UID.
    pub node_uid: NodeUid,
    /// Version at which it was seen.
    pub node_version: ResourceVersion,
    /// Claim.
    pub claim: ClaimName,
    /// Claim UID.
    pub claim_uid: ClaimUid,
    /// Why.
    pub reason: Disruption,
    /// The condition's own reason.
    pub detail: Option<String>,
    /// Whether it was already unschedulable.
    pub unschedulable: bool,
    /// When Karpenter will end protected pods: annotation, else deletion + grace; `None`: never or unknown.
    pub deadline: Option<Timestamp>,
}

/// An instance's node with a finite termination grace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtRisk {
    /// The node.
    pub node: NodeName,
    /// The forced end, once the claim is being deleted and the time is known.
    pub deadline: Option<Timestamp>,
}

/// A pod of ours that must be protected, with the preconditions of the patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprotected {
    /// Name.
    pub pod: ObjectName,
    /// UID.
    pub uid: PodUid,
    /// Version.
    pub version: ResourceVersion,
    /// What the annotation said instead of "true"; `None` when it was absent.
    pub found: Option<String>,
}

/// The workload after ownership was proven (rules in `pool::ownership`): foreign pods are faults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnedWorkload {
    /// Coordinator pods proven to be ours, terminating ones included.
    pub coordinators: Vec<crate::cluster::facts::PodFacts>,
    /// Worker pods proven to be ours, terminating ones included.
    pub workers: Vec<crate::cluster::facts::PodFacts>,
    /// Ready replicas of the coordinator Deployment; `None` when that Deployment is gone.
    pub coordinator_ready: Option<u32>,
    /// Ready replicas of the worker Deployment; `None` when that Deployment is gone.
    pub workers_ready: Option<u32>,
    /// `spec.replicas` of the worker Deployment.
    pub workers_wanted: Option<u32>,
    /// ReplicaSets of its Deployments that should run pods: `spec.replicas` is above 0.
    pub wanted_sets: Vec<ReplicaSetRef>,
    /// Foreign or unprovable objects, several coordinators.
    pub faults: Vec<Fault>,
}

/// A ReplicaSet, by name and UID: one pod template of a Deployment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplicaSetRef {
    /// `metadata.name`.
    pub name: ObjectName,
    /// `metadata.uid`.
    pub uid: ObjectUid,
}

/// One inspection of one instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// When it was taken.
    pub at: Timestamp,
    /// The raw workload.
    pub workload: Reading<Workload>,
    /// The proven workload, derived from it.
    pub owned: Reading<OwnedWorkload>,
    /// The gateway's member; `None` is its own 404.
    pub member: Reading<Option<Member>>,
    /// What the member owes, asked while draining.
    pub obligations: Reading<Option<Obligations>>,
    /// What the coordinator says about itself.
    pub info: Reading<CoordinatorInfo>,
    /// URL under which the gateway can dial the coordinator; needed only before its registration.
    pub endpoint: Reading<String>,
    /// The verdict on its nodes; `NotAsked` while node replacement is off.
    pub placement: Reading<PlacementReport>,
    /// Pods found unprotected in this pass, protected or not since.
    pub unprotected: Vec<Unprotected>,
    /// Every pod UID of the namespace, complete: asked only for an authorized recovery.
    pub namespace_pods: Reading<Vec<PodUid>>,
}

impl Observation {
    /// An observation that asked nothing yet.
    #[must_use]
    pub const fn blank(at: Timestamp) -> Self {
        Self {
            at,
            workload: Reading::NotAsked,
            owned: Reading::NotAsked,
            member: Reading::NotAsked,
            obligations: Reading::NotAsked,
            info: Reading::NotAsked,
            endpoint: Reading::NotAsked,
            placement: Reading::NotAsked,
            unprotected: Vec::new(),
            namespace_pods: Reading::NotAsked,
        }
    }
}

/// What validation of a candidate came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Validation {
    /// Everything was proven.
    Proven(Box<super::instance::ValidationReceipt>),
    /// Not ready, and why: waits until the phase's deadline.
    NotReady(Fault),
    /// What had to be read could not be: nothing is known of the candidate, so it waits, however long (L4).
    Unknown(Fault),
    /// It is another process than the registered one: the candidate fails.
    OtherProcess(ProcessIdentity),
}
