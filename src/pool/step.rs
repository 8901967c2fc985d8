//! The vocabulary between the rules and the actors: what an instance does next, and what came of it.
//!
//! `pool::lifecycle::next` maps (row, observation, context, now) to [`Next`]; `pool::settle::settle` maps
//! (row, effect, outcome, now) to [`Settled`]. Both are pure. The pool's actor journals every
//! [`Effect::Member`] before it is sent and its outcome after, and performs nothing else.

use std::time::Duration;

use jiff::Timestamp;

use super::ids::{Epoch, InstanceId, OperationId, OwnerId, RoutingGroup, StepId};
use super::instance::{InstanceChanges, InstanceObjects};
use super::observation::{Fault, PlacementReport, Validation};
use super::phase::Phase;
use crate::gateway::model::{Backend, Member, MemberRequest, PoolState};
use crate::gateway::port::Outcome;
use crate::store::port::{Recovery, StepOutcome};

/// What every decision about an instance may take into account.
// Independent facts of one instance, not states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, PartialEq)]
pub struct StepContext {
    /// The gateway's name of the pool.
    pub pool: RoutingGroup,
    /// Current authority.
    pub epoch: Epoch,
    /// Current authority.
    pub owner: OwnerId,
    /// Floor.
    pub min_serving: u32,
    /// Members the rows hold as SERVING, this one included if it is, the others without those that leave
    /// by a step that is not settled.
    pub serving: u32,
    /// Other members that a journaled and unsettled drain or suspicion may already have taken away. They
    /// are no longer in `serving`; the gateway may still count them.
    pub leaving: u32,
    /// Another instance of the pool was told SUSPECT in this round.
    pub suspected_another: bool,
    /// Digest of the desired blueprint computed by this binary; `None` while there is none.
    pub desired_digest: Option<super::ids::Digest>,
    /// The desired release.
    pub desired_release: Option<super::ids::ReleaseId>,
    /// Durations.
    pub timings: super::desired::Timings,
    /// Whether candidates' nodes are checked.
    pub node_checks: bool,
    /// Whether suspicion may be sent now (S6): not while several members, or a third of all probed
    /// coordinators, fail in the same window.
    pub probes_trusted: bool,
    /// How long this instance has been failing without interruption; `None` when its last reading was good.
    pub failing_for: Option<Duration>,
    /// The step whose outcome is not known, if any: it is replayed before anything else.
    pub open_step: Option<MemberRequest>,
    /// A copy of it was sent before the last one under the same epoch, and no answer to that came: it may be
    /// on its way.
    pub sent_before: bool,
    /// Its last copy was refused, and an earlier one may be on its way: it is not sent once more.
    pub refused_in_doubt: bool,
    /// An authorized recovery of this instance.
    pub recovery: Option<Recovery>,
    /// The verdict of a fresh candidate check made in this tick.
    pub fresh_placement: Option<PlacementReport>,
    /// How many must serve before anything planned is taken away: what is desired, and at least the floor.
    pub target: u32,
    /// Other members that serve and answered well when last read.
    pub answering: u32,
    /// What the gateway said of the pool in this tick; `None` when it did not say.
    pub gateway_pool: Option<PoolState>,
    /// What the effects of this tick confirmed.
    pub confirmed: Confirmed,
}

/// What effects confirmed. In memory only: a successor simply does them again.
///
/// `settle::remember` fills the first two; the pool's actor sets the third.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Confirmed {
    /// The inactive backend registration stands, seen in this tick.
    pub backend: bool,
    /// The instance's objects, ReplicaSets and pods were verified absent in this tick.
    pub absent: bool,
    /// The gateway accepted the current epoch, the open step was never sent under it, and the member
    /// was read after that: the step can no longer be applied, and what was read says whether it was (S9).
    pub step_fenced: bool,
}

/// What an instance does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Only the row changes.
    Record(Box<RowChange>),
    /// Something is done first.
    Perform(Box<Effect>),
    /// Nothing now, and why.
    Wait(Waiting),
}

impl Next {
    /// The row changes.
    #[must_use]
    pub fn record(change: RowChange) -> Self {
        Self::Record(Box::new(change))
    }

    /// The row changes within its phase.
    #[must_use]
    pub fn change(changes: InstanceChanges) -> Self {
        Self::record(RowChange {
            changes,
            ..RowChange::default()
        })
    }

    /// Something is done.
    #[must_use]
    pub fn perform(effect: Effect) -> Self {
        Self::Perform(Box::new(effect))
    }
}

/// A change of the row.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RowChange {
    /// The phase it gets, if it changes.
    pub to: Option<Phase>,
    /// What else changes.
    pub changes: InstanceChanges,
    /// How a journaled step ends that was settled by reading back instead of by its own answer.
    pub closes: Option<ClosedStep>,
}

/// The end of a journaled step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedStep {
    /// Its operation.
    pub operation: OperationId,
    /// Its step.
    pub step: StepId,
    /// What it came to.
    pub outcome: StepOutcome,
}

/// Something done in the world for one instance, fully specified.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Create or adopt the five objects under their deterministic names.
    ApplyObjects,
    /// Make sure the inactive backend registration stands.
    EnsureBackend(Backend),
    /// Send one journaled request to the gateway.
    Member(MemberRequest),
    /// Read Nodes and NodeClaims of a candidate fresh and by name, just before admission.
    CheckCandidate,
    /// Probe a candidate: image, workers, catalogs, identity.
    Validate,
    /// Delete the recorded objects by UID, then look whether anything is left. Justified by the row's
    /// phase and member (S1), which the executor checks once more.
    DeleteObjects,
    /// Remove the backend registration of a retired member.
    RemoveBackend(super::ids::BackendName),
}

impl Effect {
    /// Label for metrics and logs.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::ApplyObjects => "apply_objects",
            Self::EnsureBackend(_) => "ensure_backend",
            Self::Member(request) => request.action.label(),
            Self::CheckCandidate => "check_candidate",
            Self::Validate => "validate",
            Self::DeleteObjects => "delete_objects",
            Self::RemoveBackend(_) => "remove_backend",
        }
    }
}

/// What came of an effect. A missing answer is `Unknown`, inside or beside the specific result.
#[derive(Clone, Debug, PartialEq)]
pub enum EffectOutcome {
    /// Of [`Effect::ApplyObjects`].
    Applied(Apply),
    /// Of [`Effect::EnsureBackend`] and [`Effect::RemoveBackend`].
    Backend(Outcome<()>),
    /// Of [`Effect::Member`].
    Member(Outcome<Member>),
    /// Of [`Effect::CheckCandidate`].
    Checked(PlacementReport),
    /// Of [`Effect::Validate`].
    Validated(Validation),
    /// Of [`Effect::DeleteObjects`].
    Deleted(Deletion),
    /// The executor died or was replaced in the middle: nothing is known.
    Interrupted,
}

/// What creating or adopting the objects came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Apply {
    /// All five stand under these UIDs.
    Complete(InstanceObjects),
    /// An object of that name is not ours, or was made under a newer epoch: says which.
    Foreign(String),
    /// The blueprint cannot be rendered, or an object was refused for good.
    Refused(String),
    /// Not finished; tried again.
    Unknown(Fault),
}

/// What deleting the objects came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// Objects, ReplicaSets and pods are verified absent.
    Absent,
    /// Still there: says what.
    Remaining(String),
    /// An object of that name carries another UID: left alone, and so is everything after it.
    Foreign(String),
    /// Not finished; tried again.
    Unknown(Fault),
}

/// What an outcome means for the row and the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// How the row changes, if it does.
    pub change: Option<RowChange>,
    /// How the journaled step ends; `None` for effects that are not journaled.
    pub step: Option<StepOutcome>,
    /// Whether to go on at once (`None`) or wait, and why.
    pub waiting: Option<Waiting>,
    /// Authority is elsewhere: the pool's term ends.
    pub fenced: bool,
}

/// Why an instance does nothing now: typed, and in words an operator can act on (L7).
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// The class.
    pub reason: WaitReason,
    /// One sentence.
    pub detail: String,
    /// When the phase's progress deadline passes, if it has one.
    pub deadline: Option<Timestamp>,
}

/// Classes of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitReason {
    /// Nothing is to be done: it serves, or it is terminal.
    Settled,
    /// Pods are not scheduled or not ready.
    PodsNotReady,
    /// The coordinator does not answer, or still starts.
    CoordinatorNotReady,
    /// Validation has not passed yet.
    NotValidated,
    /// The gateway holds admissions back while a publication is open.
    PublicationBarrier,
    /// Obligations are owed.
    Obligations,
    /// Objects are being deleted.
    ObjectsRemain,
    /// A reading is missing.
    Unknown,
    /// The nodes beneath a candidate were looked at and could not be proven: an API error, or a join that
    /// stays unknown. Retried for as long as it lasts; it never gives the candidate up (L4), and past the
    /// phase's deadline the candidate holds nothing but its own slot (L6).
    NodesUnproven,
    /// An answer is missing; the identical request is replayed.
    Unresolved,
    /// The gateway refused; tried again.
    Refused,
    /// The gateway itself says that it does not hold this registration: it knows no such member, or another
    /// incarnation. Nothing is sent about it, and nothing of it is deleted.
    NotAtTheGateway,
    /// The gateway's floor refuses.
    ServingFloor,
    /// It fails, and is not told to the gateway yet.
    Doubtful,
    /// Too much fails at once: the fault may be ours.
    ProbesBlind,
    /// It is suspect, and neither proven dead nor old enough for a drain.
    AwaitingProof,
    /// The stored row cannot be read.
    RowUnreadable,
    /// The recovery's preconditions do not hold.
    RecoveryHeld,
    /// An object under its name is not ours.
    ForeignObject,
    /// Admitted, and the gateway does not route to it yet.
    NotEligible,
    /// A request whose answer was lost and that may not be sent again: a registration whose coordinator
    /// is gone, a drain or a suspicion that is no longer wanted. The pool has to raise its epoch at the
    /// gateway, so that the request can never be applied, and read the member back (S9).
    FenceStep,
}

impl WaitReason {
    /// Label for metrics and reasons.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Settled => "Settled",
            Self::PodsNotReady => "PodsNotReady",
            Self::CoordinatorNotReady => "CoordinatorNotReady",
            Self::NotValidated => "NotValidated",
            Self::PublicationBarrier => "PublicationBarrier",
            Self::Obligations => "Obligations",
            Self::ObjectsRemain => "ObjectsRemain",
            Self::Unknown => "Unknown",
            Self::NodesUnproven => "NodesUnproven",
            Self::Unresolved => "Unresolved",
            Self::Refused => "Refused",
            Self::NotAtTheGateway => "NotAtTheGateway",
            Self::ServingFloor => "ServingFloor",
            Self::Doubtful => "Doubtful",
            Self::ProbesBlind => "ProbesBlind",
            Self::AwaitingProof => "AwaitingProof",
            Self::RowUnreadable => "RowUnreadable",
            Self::RecoveryHeld => "RecoveryHeld",
            Self::ForeignObject => "ForeignObject",
            Self::NotEligible => "NotEligible",
            Self::FenceStep => "FenceStep",
        }
    }
}

/// Names the journaled operation of an instance's ordinary life.
#[must_use]
pub fn instance_operation(instance: &InstanceId) -> OperationId {
    OperationId::new(format!("instance:{instance}"))
}
