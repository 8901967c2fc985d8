//! Why a plan does what it does, or nothing: typed, and in words an operator can act on (L7).

mod text;

use std::fmt;
use std::time::Duration;

use super::urgency::Urgency;
use crate::pool::backoff::Hold;
use crate::pool::desired::{FreezeReason, PoolMode};
use crate::pool::evidence::Disruption;
use crate::pool::ids::InstanceId;
use crate::pool::phase::Phase;
use crate::pool::step::Waiting;

/// Why one instance is to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A node beneath it goes away.
    Node(Disruption),
    /// It is of another release.
    Release,
    /// It is of another configuration.
    Configuration,
    /// Somebody edited what was made of its blueprint.
    Edited,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node(Disruption::Drifted) => "a node beneath it has drifted",
            Self::Node(Disruption::Deleting) => "a node beneath it is being deleted",
            Self::Release => "it is of another release",
            Self::Configuration => "its configuration is no longer the desired one",
            Self::Edited => "somebody edited its Deployment, so what runs is not what was validated",
        })
    }
}

/// As what the gateway holds a member that needs a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// Declared dead.
    Lost,
    /// Excluded from new work.
    Suspect,
    /// Draining, sealed or being retired.
    Departing,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "LOST",
            Self::Suspect => "SUSPECT",
            Self::Departing => "departing",
        })
    }
}

/// The reason of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanReason {
    /// Creates: a member is lost to the pool.
    Repairs {
        /// Which.
        target: InstanceId,
        /// As what the gateway holds it.
        held: Held,
        /// Serving now.
        serving: u32,
        /// Wanted.
        target_serving: u32,
    },
    /// Creates: fewer live than desired.
    FillsCapacity {
        /// Live now.
        live: u32,
        /// Wanted.
        desired: u32,
    },
    /// Creates on the surge budget: instances that no longer serve still hold their slots.
    CoversBlocked {
        /// Those instances.
        blocked: Vec<InstanceId>,
        /// Serving now.
        serving: u32,
        /// Wanted.
        desired: u32,
    },
    /// Creates on the surge budget: a replacement of this one.
    Surges {
        /// Which is to be replaced.
        instance: InstanceId,
        /// Why.
        cause: Cause,
    },
    /// Drains: its replacement serves, or the floor permits it.
    Drains {
        /// Which.
        instance: InstanceId,
        /// Why.
        cause: Cause,
        /// Serving and answering before.
        serving: u32,
    },
    /// Drains: more serve than desired.
    ScalesIn {
        /// Which.
        instance: InstanceId,
        /// Serving and answering before.
        serving: u32,
        /// Wanted.
        desired: u32,
    },
    /// Drains: the pool is being emptied.
    Empties {
        /// Which.
        instance: InstanceId,
        /// Serving before.
        serving: u32,
    },
    /// Nothing: everything serves as desired.
    Converged {
        /// Serving.
        serving: u32,
    },
    /// Nothing: the pool may not act.
    Frozen(FreezeReason),
    /// Nothing: the resource is gone under `Retain`, or is being deleted under `Drain` and nobody confirmed that the
    /// pool may be emptied.
    Retained,
    /// Nothing: there is no desired count, which never means zero.
    NoDesiredCount,
    /// Nothing is left to drain.
    Emptied {
        /// Instances still on their way out.
        leaving: u32,
    },
    /// Waits: the gateway does not drain its last serving member.
    LastMemberHeld {
        /// Which.
        instance: InstanceId,
    },
    /// Waits: candidates are prepared one at a time.
    CandidateInProgress {
        /// Which.
        instance: InstanceId,
        /// Where it stands.
        phase: Phase,
        /// For how long.
        age: Duration,
        /// What it says it waits for.
        waiting: Option<String>,
    },
    /// Beside everything else: a candidate outlived its deadline and may not be given up (L4, L6). It holds
    /// its slot and is no longer waited for; without room beside it nothing else can be made.
    CandidateStuck {
        /// Which.
        instance: InstanceId,
        /// Where it stands.
        phase: Phase,
        /// For how long.
        age: Duration,
        /// What it waits for, when it said so.
        waiting: Option<Waiting>,
        /// Live and not on the repair budget.
        live: u32,
        /// How many that may be.
        limit: u32,
    },
    /// Waits: an admitted instance is about to serve.
    AwaitsAdmitted {
        /// Which.
        instance: InstanceId,
        /// For how long.
        age: Duration,
    },
    /// Waits: candidates failed, and the next one is held back.
    BackingOff(Hold),
    /// Waits: the cluster-wide replacement budget is spent.
    ClusterBudgetSpent {
        /// Which would be replaced.
        instance: InstanceId,
        /// How urgently.
        urgency: Urgency,
    },
    /// Waits for a change of the spec: `maxSurge` 0 leaves no room for a replacement.
    SurgeZero {
        /// Which would be replaced.
        instance: InstanceId,
        /// Why.
        cause: Cause,
    },
    /// Waits: every slot is taken.
    SurgeExhausted {
        /// Which would be replaced, when it is one.
        instance: Option<InstanceId>,
        /// Live and not on the repair budget.
        live: u32,
        /// How many that may be.
        limit: u32,
        /// Those that hold a slot without serving, or about to serve.
        held_by: Vec<InstanceId>,
    },
    /// Waits: the repair budget is spent.
    RepairBudgetExhausted {
        /// Which would be repaired.
        target: InstanceId,
        /// On the repair budget now.
        repairing: u32,
        /// How many that may be.
        limit: u32,
    },
    /// Waits: the pool is full up to surge and repair.
    PoolFull {
        /// Live.
        live: u32,
        /// How many that may be.
        limit: u32,
    },
    /// Waits: too few serve, and nothing may be replaced for it yet.
    NothingToRepair {
        /// Serving now.
        serving: u32,
        /// Wanted.
        target_serving: u32,
        /// Live.
        live: u32,
    },
    /// Waits: planned drains go one at a time.
    DrainHeldBy {
        /// The drain in flight.
        instance: InstanceId,
        /// Where it stands.
        phase: Phase,
        /// What it still owes, when that is known.
        outstanding: Option<u64>,
        /// For how long it departs, or since it was first asked to.
        age: Duration,
        /// Older than `drainStuckAfter`, and no surge room is left beside it.
        stuck: bool,
    },
    /// Waits: the drain would leave fewer than permitted.
    AwaitsCapacity {
        /// Which would be drained.
        instance: InstanceId,
        /// Why.
        cause: Cause,
        /// Serving and answering now.
        serving: u32,
        /// How many must be before it may be drained.
        needed: u32,
        /// Serving ones whose last known reading is bad, or that were not read in this term: not counted.
        not_counted: u32,
    },
    /// Waits: an ordinary drain leaves the next replacement to an instance whose node goes away.
    YieldsToEvidence {
        /// Which would be drained.
        instance: InstanceId,
        /// Whose replacement is on its way.
        evidence: InstanceId,
    },
    /// Waits: somebody edited Deployments, one of them of an instance that has served for a short time only. What edits
    /// one may edit its replacement too, so that no pause would be between them.
    RestsAfterEdit {
        /// The one that has served for the shortest time.
        instance: InstanceId,
        /// How long it has served.
        served: Duration,
        /// How long it must have.
        rest: Duration,
    },
    /// Beside everything else, for a person: the gateway itself says that it does not hold the registration of
    /// these instances, as after its database was restored. They serve no longer.
    NotAtTheGateway {
        /// Those instances.
        instances: Vec<InstanceId>,
    },
    /// Waits for a person: what is stored of these instances cannot be read, so no rollout moves them.
    RolloutBlocked {
        /// Those instances.
        instances: Vec<InstanceId>,
    },
}

impl PlanReason {
    /// Why a pool in this mode creates and drains nothing at all, if so. *Held* is not such a mode: the last good
    /// desired state stays in force, and replacement and repair go on (S11).
    pub(in crate::pool) fn standstill(mode: &PoolMode) -> Option<Self> {
        match mode {
            PoolMode::Frozen(why) => Some(Self::Frozen(why.clone())),
            PoolMode::Retained => Some(Self::Retained),
            PoolMode::Open | PoolMode::Held(_) | PoolMode::Emptying => None,
        }
    }

    /// Label for metrics, conditions and Events.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Repairs { .. } => "Repairs",
            Self::FillsCapacity { .. } => "FillsCapacity",
            Self::CoversBlocked { .. } => "CoversBlocked",
            Self::Surges { .. } => "Surges",
            Self::Drains { .. } => "Drains",
            Self::ScalesIn { .. } => "ScalesIn",
            Self::Empties { .. } => "Empties",
            Self::Converged { .. } => "Converged",
            Self::Frozen(_) => "Frozen",
            Self::Retained => "Retained",
            Self::NoDesiredCount => "NoDesiredCount",
            Self::Emptied { .. } => "Emptied",
            Self::LastMemberHeld { .. } => "LastMemberHeld",
            Self::CandidateInProgress { .. } => "CandidateInProgress",
            Self::CandidateStuck { .. } => "CandidateStuck",
            Self::AwaitsAdmitted { .. } => "AwaitsAdmitted",
            Self::BackingOff(_) => "BackingOff",
            Self::ClusterBudgetSpent { .. } => "ClusterBudgetSpent",
            Self::SurgeZero { .. } => "SurgeZero",
            Self::SurgeExhausted { .. } => "SurgeExhausted",
            Self::RepairBudgetExhausted { .. } => "RepairBudgetExhausted",
            Self::PoolFull { .. } => "PoolFull",
            Self::NothingToRepair { .. } => "NothingToRepair",
            Self::DrainHeldBy { .. } => "DrainHeldBy",
            Self::AwaitsCapacity { .. } => "AwaitsCapacity",
            Self::YieldsToEvidence { .. } => "YieldsToEvidence",
            Self::RestsAfterEdit { .. } => "RestsAfterEdit",
            Self::NotAtTheGateway { .. } => "NotAtTheGateway",
            Self::RolloutBlocked { .. } => "RolloutBlocked",
        }
    }

    /// Whether a person has to do something before this ends.
    #[must_use]
    pub const fn needs_a_person(&self) -> bool {
        match self {
            Self::Frozen(_)
            | Self::Retained
            | Self::NoDesiredCount
            | Self::LastMemberHeld { .. }
            | Self::CandidateStuck { .. }
            | Self::SurgeZero { .. }
            | Self::NotAtTheGateway { .. }
            | Self::RolloutBlocked { .. } => true,
            Self::DrainHeldBy { stuck, .. } => *stuck,
            Self::Repairs { .. }
            | Self::FillsCapacity { .. }
            | Self::CoversBlocked { .. }
            | Self::Surges { .. }
            | Self::Drains { .. }
            | Self::ScalesIn { .. }
            | Self::Empties { .. }
            | Self::Converged { .. }
            | Self::Emptied { .. }
            | Self::CandidateInProgress { .. }
            | Self::AwaitsAdmitted { .. }
            | Self::BackingOff(_)
            | Self::ClusterBudgetSpent { .. }
            | Self::SurgeExhausted { .. }
            | Self::RepairBudgetExhausted { .. }
            | Self::PoolFull { .. }
            | Self::NothingToRepair { .. }
            | Self::AwaitsCapacity { .. }
            | Self::YieldsToEvidence { .. }
            | Self::RestsAfterEdit { .. } => false,
        }
    }
}
