//! The store as a port: fenced transactions of named writes, and plain reads.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster::facts::ObjectKind;
use crate::gateway::model::MemberRequest;
use crate::pool::desired::{Blueprint, DesiredPool, PoolMode};
use crate::pool::evidence::{Evidence, ReplacementNode};
use crate::pool::ids::{BootId, CoordinatorId, Namespace, TrinoNodeId};
use crate::pool::ids::{
    Digest, Epoch, Generation, Incarnation, InstanceId, NodeName, NodeUid, ObjectUid, OperationId, OwnerId,
    PodUid, PoolId, ReleaseId, Revision, RoutingGroup, SpecGeneration, StepId, StoreId,
};
use crate::pool::instance::{CandidateFailure, FailureCause, InstanceChanges, InstanceRow};
use crate::pool::phase::Phase;

/// Why the store has no answer or refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// (pool, owner, epoch) is not the recorded authority: this process's term over the pool is over.
    #[error("authority over pool {0} is elsewhere")]
    Fenced(PoolId),
    /// The row is not what the write expects: an instance in another phase, or missing.
    #[error("conflict on {0}: {1}")]
    Conflict(String, String),
    /// A journaled step exists with another request.
    #[error("step {0}/{1} was recorded with another request")]
    IntentChanged(OperationId, StepId),
    /// The database refused a forbidden change (evidence is immutable).
    #[error("the database refused: {0}")]
    Forbidden(String),
    /// Not answered, or the outcome of a commit is not known.
    #[error("the store did not answer: {0}")]
    Unavailable(String),
    /// The server accepts no writes now (SQLSTATE 25006 and the like).
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// Older or newer than this binary; says what to do.
    #[error("the store's schema does not fit: {0}")]
    Schema(String),
    /// A stored value cannot be read.
    #[error("stored {0} cannot be read: {1}")]
    Corrupt(String, String),
}

impl StoreError {
    /// Label for metrics and reasons.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Fenced(_) => "Fenced",
            Self::Conflict(..) => "StoreConflict",
            Self::IntentChanged(..) => "IntentChanged",
            Self::Forbidden(_) => "StoreForbidden",
            Self::Unavailable(_) => "StoreUnavailable",
            Self::ReadOnly(_) => "StoreReadOnly",
            Self::Schema(_) => "StoreSchema",
            Self::Corrupt(..) => "StoreCorrupt",
        }
    }
}

/// Proof carried by every fenced write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authority {
    /// Over which pool.
    pub pool: PoolId,
    /// Held by which process and term.
    pub owner: OwnerId,
    /// Under which epoch.
    pub epoch: Epoch,
}

/// What is known of a pool's identity when it is first seen; never changes afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolIdentity {
    /// Key.
    pub id: PoolId,
    /// Where its objects live.
    pub namespace: Namespace,
    /// What the gateway calls it.
    pub routing_group: RoutingGroup,
}

/// One pool as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolRow {
    /// Its immutable identity.
    pub identity: PoolIdentity,
    /// Epoch of the current authority; 0 before the first.
    pub epoch: Epoch,
    /// Owner of the current authority; empty before the first.
    pub owner: OwnerId,
    /// How far the pool's rows had come: see [`Mark`].
    pub revision: Revision,
    /// UID of the TrinoPool whose spec was published last.
    pub resource: Option<ObjectUid>,
    /// Its generation, ordered within one resource UID.
    pub generation: SpecGeneration,
    /// The last good desired state; `Err` says why the stored one cannot be read.
    pub desired: Option<Result<DesiredPool, String>>,
    /// Whether the pool may act on it.
    pub mode: PoolMode,
    /// Remembered candidate failures, at most one entry per cause.
    pub failures: Vec<FailureMemory>,
}

/// Failures of one cause since the last candidate that got through (L5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureMemory {
    /// The class.
    pub cause: FailureCause,
    /// How many in a row.
    pub count: u32,
    /// When the last one happened.
    pub last_at: Timestamp,
    /// What it said.
    pub detail: String,
}

/// Everything the pool's actor reads at a tick.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSnapshot {
    /// The pool.
    pub pool: PoolRow,
    /// Its instances that are not terminal, by (created_at, id).
    pub instances: Vec<InstanceRow>,
    /// Steps whose outcome is not known.
    pub open_steps: Vec<JournalStep>,
    /// Authorized recoveries of instances that are not terminal.
    pub recoveries: Vec<Recovery>,
}

impl PoolRow {
    /// The mark that the pool had when this was read.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            epoch: self.epoch,
            owner: self.owner.clone(),
            revision: self.revision,
        }
    }
}

/// How far the rows of one pool have come. As long as a pool's mark is the one it was loaded at, another
/// load would return the same rows, so it is not needed.
///
/// The revision rises by one with every transaction that changes anything of the pool, its own or
/// another's: an authority taken, a commit, a recovery accepted. A commit that changes nothing, a refused
/// one and a read leave it alone. It never falls, so a mark with a lower revision than the loaded one is
/// simply older. Epoch and owner are there because authority is what nobody may miss, not even when it was
/// taken by a binary that knows no revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Epoch of the current authority; 0 before the first.
    pub epoch: Epoch,
    /// Owner of the current authority; empty before the first.
    pub owner: OwnerId,
    /// Counts what changed.
    pub revision: Revision,
}

/// A journaled step.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalStep {
    /// The exact request.
    pub request: MemberRequest,
    /// What is known of it.
    pub outcome: StepOutcome,
    /// How often it was sent.
    pub attempts: u32,
    /// When it was last sent or settled.
    pub at: Timestamp,
}

/// What is known of a journaled step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StepOutcome {
    /// Sent or about to be sent; replay exactly this.
    Unknown,
    /// It stands. Never overwritten.
    Applied,
    /// Answered with a refusal: left no trace; the same step may be begun again with a new request.
    Refused,
}

/// An authorized recovery: a person declared this exact process lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Chosen by the person; idempotency key, `[A-Za-z0-9_.:-]{1,128}`.
    pub operation: OperationId,
    /// Which instance; at most one recovery each, ever.
    pub instance: InstanceId,
    /// The gateway generation they saw.
    pub expected_generation: Generation,
    /// The registration they saw.
    pub incarnation: Incarnation,
    /// The process they saw.
    pub pod_uid: PodUid,
    /// The process they saw.
    pub boot_id: BootId,
    /// The process they saw.
    pub node_id: TrinoNodeId,
    /// The process they saw.
    pub coordinator_id: CoordinatorId,
    /// Who, 1..=320 characters.
    pub requested_by: String,
    /// Why, 1..=256 characters.
    pub reason: String,
    /// When.
    pub created_at: Timestamp,
}

/// A new instance row: written before any object exists, in phase PENDING.
#[derive(Clone, Debug, PartialEq)]
pub struct NewInstance {
    /// Its identity.
    pub id: InstanceId,
    /// The release.
    pub release: ReleaseId,
    /// Digest of the blueprint's content.
    pub spec_digest: Digest,
    /// Snapshot.
    pub blueprint: Blueprint,
    /// The instance it repairs.
    pub repair_for: Option<InstanceId>,
    /// Nodes its pods must avoid, at most 100, most relevant first.
    pub excluded_nodes: Vec<NodeName>,
}

/// One named write. All writes of one commit happen in one transaction, in order, under the fence.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Replace the desired state. A lower generation of the same resource is refused as Conflict.
    PublishDesired {
        /// The resource it comes from.
        resource: ObjectUid,
        /// Its generation.
        generation: SpecGeneration,
        /// The validated state.
        desired: Box<DesiredPool>,
    },
    /// Set whether the pool may act.
    SetMode(PoolMode),
    /// Insert a row in PENDING.
    CreateInstance(Box<NewInstance>),
    /// Move a row along a permitted transition, and change it.
    Advance {
        /// Which.
        instance: InstanceId,
        /// The phase it must have.
        from: Phase,
        /// The phase it gets.
        to: Phase,
        /// What else changes.
        changes: Box<InstanceChanges>,
    },
    /// Change a row in place.
    Update {
        /// Which.
        instance: InstanceId,
        /// What changes.
        changes: Box<InstanceChanges>,
    },
    /// First write wins; a present record, or a terminal phase, keeps what is there.
    RecordEvidence {
        /// Which.
        instance: InstanceId,
        /// The evidence.
        evidence: Evidence,
    },
    /// Appends unless (instance, node UID, claim UID, reason) is there already.
    AppendReplacementNode {
        /// Which.
        instance: InstanceId,
        /// The node.
        node: ReplacementNode,
    },
    /// Journal an intent before its effect.
    BeginStep(MemberRequest),
    /// Journal what came of it.
    FinishStep {
        /// The operation.
        operation: OperationId,
        /// The step.
        step: StepId,
        /// The outcome.
        outcome: StepOutcome,
    },
    /// Remember one more failure of a cause.
    RememberFailure(CandidateFailure),
    /// A candidate got through: forget.
    ForgetFailures,
    /// Record the UID of an orphan of a terminal row before it is deleted (S1).
    RecordOrphan {
        /// Whose label it carries.
        instance: InstanceId,
        /// What it is.
        kind: ObjectKind,
        /// Its UID.
        uid: ObjectUid,
    },
}

impl Write {
    /// Label for metrics: one per database operation.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::PublishDesired { .. } => "publish_desired",
            Self::SetMode(_) => "set_mode",
            Self::CreateInstance(_) => "create_instance",
            Self::Advance { .. } => "advance",
            Self::Update { .. } => "update",
            Self::RecordEvidence { .. } => "record_evidence",
            Self::AppendReplacementNode { .. } => "append_replacement_node",
            Self::BeginStep(_) => "begin_step",
            Self::FinishStep { .. } => "finish_step",
            Self::RememberFailure(_) => "remember_failure",
            Self::ForgetFailures => "forget_failures",
            Self::RecordOrphan { .. } => "record_orphan",
        }
    }
}

/// What one write came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Committed {
    /// Changed.
    Done,
    /// Nothing to change: evidence, node or orphan already recorded.
    Kept,
    /// The step is journaled earlier: this is what is recorded. When its outcome is Unknown the
    /// recorded request must be replayed, whatever the caller had in mind.
    Recorded(Box<JournalStep>),
}

impl Committed {
    /// Whether the write changed anything: a step that is replayed has one attempt more, one that stands
    /// is left alone.
    #[must_use]
    pub fn changed(&self) -> bool {
        match self {
            Self::Done => true,
            Self::Kept => false,
            Self::Recorded(step) => step.outcome == StepOutcome::Unknown,
        }
    }
}

/// A node that some pool's row holds on to (S4: decided from every pool's rows).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHold {
    /// The pool.
    pub pool: PoolId,
    /// The instance.
    pub instance: InstanceId,
    /// Its phase.
    pub phase: Phase,
    /// The node.
    pub node: NodeName,
}

/// Connections of a store to its database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Open ones.
    pub open: u32,
    /// Open ones that nobody uses now.
    pub idle: u32,
    /// How many there may be.
    pub most: u32,
}

/// The store.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The identity of this store.
    async fn id(&self) -> Result<StoreId, StoreError>;

    /// Inserts the pool row if it is not there: the only unfenced write.
    async fn seed(&self, pool: &PoolIdentity) -> Result<(), StoreError>;

    /// All pools, ever.
    async fn pools(&self) -> Result<Vec<PoolIdentity>, StoreError>;

    /// The marks of all pools, in one statement: which pools have to be loaded again, for the whole process
    /// at once.
    async fn marks(&self) -> Result<BTreeMap<PoolId, Mark>, StoreError>;

    /// Takes authority: epoch = 1 + max(stored, `above`).
    async fn acquire(&self, pool: &PoolId, owner: &OwnerId, above: Epoch) -> Result<Authority, StoreError>;

    /// The pool, its live instances, open steps and recoveries, from one consistent read.
    async fn load(&self, pool: &PoolId) -> Result<PoolSnapshot, StoreError>;

    /// Performs the writes in one fenced transaction. `now` becomes every timestamp they set.
    /// One result per write, in order; on an error nothing was written, unless it is `Unavailable`.
    async fn commit(
        &self,
        authority: &Authority,
        now: Timestamp,
        writes: &[Write],
    ) -> Result<Vec<Committed>, StoreError>;

    /// One instance, terminal ones included.
    async fn instance(&self, instance: &InstanceId) -> Result<Option<InstanceRow>, StoreError>;

    /// Accepts a recovery under the pool's row lock: the row is DRAINING with exactly these identities,
    /// and at least `min_serving` instances serve. The same intent again is accepted again.
    async fn request_recovery(
        &self,
        pool: &PoolId,
        min_serving: u32,
        recovery: &Recovery,
    ) -> Result<(), StoreError>;

    /// Every row, of every pool, whose evidence or further nodes name this node UID.
    async fn node_holds(&self, node: &NodeUid) -> Result<Vec<NodeHold>, StoreError>;

    /// Statements sent to the database since this store was opened.
    fn statements(&self) -> u64;

    /// Its connections; none where there is no database.
    fn connections(&self) -> Connections {
        Connections::default()
    }
}
