//! What the actors say to each other: plain data, named after what is asked or what happened.
//!
//! Every request to an instance carries a [`Ticket`] and every answer carries it back. An answer whose
//! ticket is not the one outstanding for its instance is stale: it is dropped and counted, and whatever
//! it would have told is read again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;

use super::inventory::{InventoryMsg, Snapshot};
use super::status::{PoolStatus, Probes};
use crate::cluster::facts::{Listing, ObjectFacts, PoolResource};
use crate::cluster::port::{Hint, Written};
use crate::gateway::model::{Controller, MemberRequest, PoolState};
use crate::gateway::port::{GatewayFault, Outcome};
use crate::pool::cordon::CordonOrder;
use crate::pool::desired::NodeReplacement;
use crate::pool::ids::{Epoch, InstanceId, NodeName, PoolId, TickId};
use crate::pool::instance::InstanceRow;
use crate::pool::lifecycle::Needs;
use crate::pool::observation::{Fault, Observation, Reading};
use crate::pool::orphans::Members;
use crate::pool::plan::Urgency;
use crate::pool::step::{Effect, EffectOutcome};
use crate::store::port::Mark;

/// Which round, under which authority, and which of the requests of that pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// The round that asked.
    pub tick: TickId,
    /// The authority it asked under.
    pub epoch: Epoch,
    /// Counts the requests of one pool actor.
    pub serial: u64,
}

/// To the supervisor.
#[derive(Debug)]
pub enum SupervisorMsg {
    /// Leadership changed.
    Leadership(super::leadership::Leadership),
    /// Whoever renews the Lease ended unexpectedly.
    LeadershipDied,
    /// It is time for a tick.
    TickDue,
    /// It is time for the early tick that was armed.
    EarlyTickDue,
    /// Something relevant may have changed.
    Hint(Hint),
    /// A pool wants a tick soon, or somebody wants one for every pool.
    Early(Option<PoolId>),
    /// The TrinoPools and the stored pools were read for a tick.
    PoolsRead(Box<PoolsRead>),
    /// A pool's round ended, or its state changed.
    Report(Box<PoolReport>),
    /// A pool's term is over because authority is elsewhere.
    Fenced(PoolId),
    /// A pool has no effect in flight and starts none.
    Quiet(PoolId),
    /// Stop gracefully; answered with whether the Lease was handed over.
    Stop {
        /// Where the answer goes.
        reply: ractor::RpcReplyPort<bool>,
    },
    /// The grace period is over.
    GraceOver,
    /// The Lease was handed over, or the attempt ended.
    Released,
    /// The state of the inventory, for the status.
    InventoryAge(super::inventory::InventoryAge),
}

/// What a tick starts from.
#[derive(Debug)]
pub struct PoolsRead {
    /// Which tick.
    pub tick: TickId,
    /// All TrinoPools.
    pub resources: Result<Listing<PoolResource>, Fault>,
    /// How far the rows of every pool have come; not asked between two ticks of the timer, after the first. Where it is
    /// unknown every pool asks for itself, and says what comes of it.
    pub stored: Reading<BTreeMap<PoolId, Mark>>,
}

/// A pool as its actor reports it.
#[derive(Debug)]
pub struct PoolReport {
    /// Which.
    pub pool: PoolId,
    /// Everything people see.
    pub status: PoolStatus,
    /// A planned replacement is under way; `None` before its rows were read, which says nothing new.
    pub replacing: Option<bool>,
    /// How urgent the replacement is for which the plan waits for the process-wide budget, if it does.
    pub wants_to_replace: Option<Urgency>,
    /// The resource is gone and no instance is left: the actor may be stopped.
    pub finished: bool,
}

/// To a pool.
#[derive(Debug)]
pub enum PoolMsg {
    /// A tick.
    Tick(Box<TickOrder>),
    /// What authority needs to know was read.
    Surveyed(Box<Survey>),
    /// The gateway answered a configuration.
    Configured {
        /// Which attempt.
        attempt: u64,
        /// What it came to.
        outcome: Outcome<PoolState>,
    },
    /// What the round reads beside its instances.
    Read(Box<RoundRead>),
    /// An instance was inspected.
    Inspected(Box<Inspected>),
    /// A cordon was tried.
    Cordoned(Box<Cordoned>),
    /// An admission was answered.
    Admitted(Box<Performed>),
    /// A retirement claim was answered.
    Retired(Box<Performed>),
    /// Any other effect ended.
    Performed(Box<Performed>),
    /// A request has been outstanding for too long.
    Overdue {
        /// Whose.
        instance: InstanceId,
        /// Which.
        ticket: Ticket,
    },
    /// The round does not wait any longer for inspections, or for effects.
    RoundDue {
        /// Which round.
        tick: TickId,
        /// Which of the two.
        stage: Stage,
    },
    /// A write to the TrinoPool ended.
    ResourceWritten {
        /// What was written.
        what: &'static str,
        /// What it came to.
        result: Result<Written, Fault>,
    },
    /// The pool's labelled objects were listed, for orphans, and the gateway was asked about the instances
    /// among them that have no live row.
    Listed(Result<(Listing<ObjectFacts>, Members), Fault>),
    /// An orphan's deletion ended.
    OrphanDeleted(Result<Written, Fault>),
    /// Start no effect any more, and say when none is in flight.
    Quiesce,
}

/// The parts of a round that do not wait for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Inspections.
    Inspecting,
    /// Effects.
    Advancing,
}

/// A tick for one pool.
#[derive(Clone, Debug)]
pub struct TickOrder {
    /// Which.
    pub tick: TickId,
    /// The pool's TrinoPool.
    pub resource: ResourceReading,
    /// A hint, or this pool itself, asked for it: something may be new since the round that it meets.
    pub early: bool,
    /// Where NodeClaims are read.
    pub inventory: ActorRef<InventoryMsg>,
    /// Coordinators probed by all other pools in their last rounds.
    pub other_probes: Probes,
    /// How far the pool's rows had come when the store was last asked; `None`: not known, or no row.
    pub mark: Option<Mark>,
    /// The process-wide budget has room for this pool to start replacing.
    pub may_replace: bool,
}

/// The TrinoPool at a tick.
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceReading {
    /// As read.
    Present(Box<PoolResource>),
    /// Not in a complete listing.
    Absent,
    /// Not known.
    Unreadable(Fault),
}

/// What authority is taken from (S8).
#[derive(Debug)]
pub struct Survey {
    /// For which tick.
    pub tick: TickId,
    /// The gateway's epoch; `None` when it does not know the pool.
    pub gateway: Result<Option<Epoch>, GatewayFault>,
    /// Members the gateway holds that are neither RETIRED nor LOST.
    pub members: Result<Vec<InstanceId>, GatewayFault>,
    /// Our labelled objects.
    pub objects: Result<Listing<ObjectFacts>, Fault>,
}

/// What a round reads beside its instances.
#[derive(Debug)]
pub struct RoundRead {
    /// For which tick.
    pub tick: TickId,
    /// The pool at the gateway; `None` when the gateway does not know it.
    pub gateway: Result<Option<PoolState>, Fault>,
    /// The NodeClaims, when node replacement is on and something runs.
    pub inventory: Option<Arc<Snapshot>>,
}

/// To an instance.
#[derive(Debug)]
pub enum InstanceMsg {
    /// Look.
    Inspect(Box<Inspect>),
    /// Cordon one exact node.
    Cordon(Box<CordonRequest>),
    /// Send an admission.
    Admit(Box<Order>),
    /// Send a retirement claim.
    Retire(Box<Order>),
    /// Do anything else.
    Perform(Box<Order>),
}

/// What to look at.
#[derive(Debug)]
pub struct Inspect {
    /// The request.
    pub ticket: Ticket,
    /// The row.
    pub row: Arc<InstanceRow>,
    /// What the rules need to know.
    pub needs: Needs,
    /// The pool's node-replacement policy, `None` while it is off: nothing is protected or judged then.
    pub nodes: Option<NodeReplacement>,
    /// Where NodeClaims are read.
    pub inventory: ActorRef<InventoryMsg>,
    /// How long it may take; what has not answered by then is unknown.
    pub budget: Duration,
}

/// What was seen.
#[derive(Debug)]
pub struct Inspected {
    /// The request.
    pub ticket: Ticket,
    /// Whose.
    pub instance: InstanceId,
    /// What was seen.
    pub observation: Observation,
    /// What went wrong beside the readings: pods that could not be protected.
    pub faults: Vec<Fault>,
    /// Nodes it runs on.
    pub nodes: Vec<NodeName>,
}

/// A node to cordon: durable on the instance's row, seen going in a clean inspection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CordonRequest {
    /// The request.
    pub ticket: Ticket,
    /// Which node, by UID, and what is written on it.
    pub order: CordonOrder,
}

/// What a cordon came to.
#[derive(Debug)]
pub struct Cordoned {
    /// The request.
    pub ticket: Ticket,
    /// Whose row justified it.
    pub instance: InstanceId,
    /// Which node.
    pub order: CordonOrder,
    /// What came of it.
    pub outcome: CordonOutcome,
}

/// What a cordon came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CordonOutcome {
    /// Cordoned now.
    Applied,
    /// Nothing to do: it is unschedulable already, or the fresh read says it must be left alone.
    LeftAlone(String),
    /// The node changed since it was read; tried again.
    Conflict(String),
    /// Refused for good: by an admission webhook, or for want of a permission.
    Denied(String),
    /// Not known; tried again.
    Unknown(Fault),
}

impl CordonOutcome {
    /// Label for metrics and logs.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Applied => "Applied",
            Self::LeftAlone(_) => "LeftAlone",
            Self::Conflict(_) => "Conflict",
            Self::Denied(_) => super::faults::CORDON_DENIED,
            Self::Unknown(_) => "Unknown",
        }
    }
}

/// An effect to perform.
#[derive(Debug)]
pub struct Order {
    /// The request.
    pub ticket: Ticket,
    /// The row that justifies it.
    pub row: Arc<InstanceRow>,
    /// What to do.
    pub effect: Effect,
    /// Current authority, for the gateway and for new objects.
    pub controller: Controller,
    /// The pool's node-replacement policy, `None` while it is off.
    pub nodes: Option<NodeReplacement>,
}

/// What an effect came to.
#[derive(Debug)]
pub struct Performed {
    /// The request.
    pub ticket: Ticket,
    /// Whose.
    pub instance: InstanceId,
    /// What was done.
    pub effect: Effect,
    /// What came of it.
    pub outcome: EffectOutcome,
}

/// The message an order travels as.
#[must_use]
pub fn order_message(order: Order) -> InstanceMsg {
    use crate::gateway::model::MemberAction;
    let order = Box::new(order);
    match &order.effect {
        Effect::Member(MemberRequest {
            action: MemberAction::Admit { .. },
            ..
        }) => InstanceMsg::Admit(order),
        Effect::Member(MemberRequest {
            action: MemberAction::Retire { .. },
            ..
        }) => InstanceMsg::Retire(order),
        Effect::Member(_)
        | Effect::ApplyObjects
        | Effect::EnsureBackend(_)
        | Effect::CheckCandidate
        | Effect::Validate
        | Effect::DeleteObjects
        | Effect::RemoveBackend(_) => InstanceMsg::Perform(order),
    }
}
