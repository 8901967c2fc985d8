//! The durable row of one instance, and the change a decision makes to it.
//!
//! Rows are written only by the store on behalf of the pool's actor. [`InstanceChanges`] is the whole
//! vocabulary of what may change after creation; evidence and further nodes have writes of their own,
//! because they are immutable.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::desired::Blueprint;
use super::evidence::{RecordedEvidence, ReplacementNode};
use super::ids::{
    BackendName, BootId, ContainerId, CoordinatorId, Digest, Epoch, Generation, Incarnation, InstanceId,
    NodeName, ObjectName, ObjectUid, PodUid, PoolId, ReleaseId, TrinoNodeId,
};
use super::phase::Phase;
use crate::gateway::model::{MemberPhase, RetirementKind};

/// One instance as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceRow {
    /// Its identity, never reused.
    pub id: InstanceId,
    /// The pool it belongs to.
    pub pool: PoolId,
    /// The release it was made of.
    pub release: ReleaseId,
    /// Digest of the blueprint's content at creation.
    pub spec_digest: Digest,
    /// The blueprint it was made of; `Err` says why the stored snapshot cannot be read.
    pub blueprint: Result<Blueprint, String>,
    /// Where it stands.
    pub phase: Phase,
    /// Since when.
    pub phase_changed_at: Timestamp,
    /// Epoch of the last phase change.
    pub owner_epoch: Epoch,
    /// The instance this one repairs; such an instance is on the repair budget for life.
    pub repair_for: Option<InstanceId>,
    /// Why it failed, once it did.
    pub failure: Option<CandidateFailure>,
    /// The five objects, once created.
    pub objects: Option<InstanceObjects>,
    /// The process that was registered, once it was.
    pub process: Option<ProcessIdentity>,
    /// The gateway's member, once registered.
    pub member: Option<MemberHandle>,
    /// What validation proved, once it did.
    pub receipt: Option<ValidationReceipt>,
    /// Nodes its pods must not land on, written before the first create and re-used verbatim (L5).
    pub excluded_nodes: Vec<NodeName>,
    /// The immutable evidence.
    pub evidence: RecordedEvidence,
    /// Further nodes seen going, append-only.
    pub replacement_nodes: Vec<ReplacementNode>,
    /// When the row was written.
    pub created_at: Timestamp,
}

impl InstanceRow {
    /// Whether it was created on the repair budget.
    #[must_use]
    pub const fn is_repair(&self) -> bool {
        self.repair_for.is_some()
    }
}

/// Names and UIDs of the five objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceObjects {
    /// Deployment of the coordinator, one replica.
    pub coordinator: ObjectRef,
    /// Deployment of the workers.
    pub workers: ObjectRef,
    /// Service in front of the coordinator.
    pub service: ObjectRef,
    /// ConfigMap of the coordinator.
    pub coordinator_config: ObjectRef,
    /// ConfigMap of the workers.
    pub worker_config: ObjectRef,
}

/// One object, by name and UID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRef {
    /// `metadata.name`.
    pub name: ObjectName,
    /// `metadata.uid`; every delete carries it.
    pub uid: ObjectUid,
}

/// Which process a member is. A restart under the same pod changes `boot`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// UID of the coordinator pod.
    pub pod: PodUid,
    /// Container of the main process; absent when the kubelet had not reported it.
    pub container: Option<ContainerId>,
    /// New at each process start.
    pub boot: BootId,
    /// Trino's node id.
    pub node: TrinoNodeId,
    /// Trino's coordinator id.
    pub coordinator: CoordinatorId,
}

/// The gateway's view of the instance when last recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberHandle {
    /// UUID of this registration.
    pub incarnation: Incarnation,
    /// Its backend registration.
    pub backend: BackendName,
    /// Phase there.
    pub phase: MemberPhase,
    /// Compare-and-set counter there.
    pub generation: Generation,
    /// Kind of retirement, once claimed.
    pub retirement: Option<RetirementKind>,
}

/// What candidate validation proved; the gateway's `receipt` is filled from it and from nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidationReceipt {
    /// SHA-256 over every proven fact below.
    pub certificate: Digest,
    /// The process that was proven.
    pub process: ProcessIdentity,
    /// Digest of the immutable ConfigMaps that the pods were seen to mount, and whose catalogs
    /// `SHOW CATALOGS` listed exactly.
    pub config_revision: String,
    /// Digest of the access-control part of the same ConfigMaps.
    pub auth_revision: String,
    /// Workers that both Kubernetes and the coordinator counted.
    pub ready_workers: u32,
    /// Names of the checks that passed, in the gateway's vocabulary.
    pub checks: Vec<String>,
    /// When they passed.
    pub validated_at: Timestamp,
    /// ReplicaSets of the pods that were looked at. Another one that runs is of an edited template (A11). `None` in a
    /// receipt of an operator that did not record them: of such an instance nothing is said. Not in the certificate:
    /// the gateway is told nothing of it.
    #[serde(default)]
    pub replica_sets: Option<BTreeSet<ObjectUid>>,
}

/// Why a candidate was given up. The cause decides which failures count as "the same" for backoff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateFailure {
    /// The class.
    pub cause: FailureCause,
    /// One sentence an operator can act on; names nodes and claims, holds no secrets.
    pub detail: String,
}

/// Classes of candidate failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FailureCause {
    /// One of its nodes is drifted, being deleted or tainted as disrupted.
    NodeLeaving,
    /// One of its nodes is cordoned.
    NodeCordoned,
    /// One of its nodes is not provably owned by a NodeClaim.
    NodeUnowned,
    /// One of its nodes has a finite termination grace that the policy refuses.
    NodeFiniteGrace,
    /// The desired release or blueprint moved on. Rows written before 0.1.0 may call it a template that was edited.
    #[serde(alias = "TemplateEdited")]
    Superseded,
    /// The coordinator restarted between registration and admission.
    ProcessRestarted,
    /// A phase outlived its deadline.
    DeadlineExceeded,
    /// Objects of that name exist and are not ours.
    ForeignObject,
    /// The stored blueprint cannot be rendered.
    BlueprintUnreadable,
    /// The gateway refused it for good.
    GatewayRefused,
}

impl FailureCause {
    /// Label for metrics, Events and reasons.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodeLeaving => "NodeLeaving",
            Self::NodeCordoned => "NodeCordoned",
            Self::NodeUnowned => "NodeUnowned",
            Self::NodeFiniteGrace => "NodeFiniteGrace",
            Self::Superseded => "Superseded",
            Self::ProcessRestarted => "ProcessRestarted",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::ForeignObject => "ForeignObject",
            Self::BlueprintUnreadable => "BlueprintUnreadable",
            Self::GatewayRefused => "GatewayRefused",
        }
    }
}

/// A partial update of a row: `None` leaves a field as it is. Evidence, further nodes, the blueprint,
/// the excluded nodes and the repair target are not here: they never change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceChanges {
    /// Record the five objects.
    pub objects: Option<InstanceObjects>,
    /// Record the registered process.
    pub process: Option<ProcessIdentity>,
    /// Record the gateway's view.
    pub member: Option<MemberHandle>,
    /// Record what validation proved.
    pub receipt: Option<ValidationReceipt>,
    /// Record why it failed.
    pub failure: Option<CandidateFailure>,
}

impl InstanceChanges {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The row after this change. The store performs the same change durably.
    pub fn apply_to(&self, row: &mut InstanceRow) {
        if let Some(objects) = &self.objects {
            row.objects = Some(objects.clone());
        }
        if let Some(process) = &self.process {
            row.process = Some(process.clone());
        }
        if let Some(member) = &self.member {
            row.member = Some(member.clone());
        }
        if let Some(receipt) = &self.receipt {
            row.receipt = Some(receipt.clone());
        }
        if let Some(failure) = &self.failure {
            row.failure = Some(failure.clone());
        }
    }
}
