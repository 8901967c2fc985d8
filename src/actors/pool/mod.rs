//! The actor of one pool: the only writer of its rows, its journal and its evidence.
//!
//! ```text
//!   Tick ─▶ desired ─▶ authority ─▶ inspections ─▶ evidence ─▶ cordons ─▶ advance ─▶ plan ─▶ report
//!          (desired)   (authority)  (children)    (evidence)             (advance)  (planning) (status)
//! ```
//!
//! Everything that can take long is done by its instances or by a task, and comes back as a message, so
//! that one slow answer costs its own instance and nobody else. The store is the one thing it waits
//! for, and never longer than a limit: without the store nothing may be decided.

mod advance;
mod authority;
mod children;
mod desired;
mod evidence;
mod fence;
mod journal;
mod open_steps;
mod orphans;
mod planning;
mod status;
mod tick;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::task::{AbortHandle, JoinSet};

use self::authority::{GatewayLink, World};
use self::children::Live;
use self::journal::StoreFault;
use self::open_steps::OpenSteps;
use self::status::Published;
use self::tick::Round;
use super::inventory::Snapshot;
use super::messages::{PoolMsg, SupervisorMsg, TickOrder};
use super::ports::{Ports, Settings};
use super::status::{Counts, PlanStatus, Probes};
use crate::pool::desired::{DesiredPool, NodeReplacement, PoolMode, Timings};
use crate::pool::ids::{Digest, Epoch, InstanceId, OwnerId, PoolId, StoreId, TickId};
use crate::pool::observation::Fault;
use crate::pool::plan::{Plan, Urgency};
use crate::store::port::{Authority, Mark, PoolIdentity, PoolRow, Recovery};

/// The actor.
#[derive(Debug)]
pub struct PoolActor;

/// Which pool, and under whom.
#[derive(Debug)]
pub struct PoolArguments {
    /// The pool.
    pub pool: PoolId,
    /// This process and term.
    pub owner: OwnerId,
    /// The world.
    pub ports: Ports,
    /// How the process runs.
    pub settings: Settings,
    /// Where reports go.
    pub supervisor: ActorRef<SupervisorMsg>,
}

/// Everything the pool's actor remembers. All of it can be derived again from the store and the world.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // Independent facts about one actor, each named.
pub struct Brain {
    pool: PoolId,
    owner: OwnerId,
    ports: Ports,
    settings: Settings,
    supervisor: ActorRef<SupervisorMsg>,
    myself: ActorRef<PoolMsg>,
    store_id: Option<StoreId>,
    identity: Option<PoolIdentity>,
    seeded: bool,
    authority: Option<Authority>,
    world: World,
    surveying: bool,
    row: Option<PoolRow>,
    /// Digest of the desired blueprint by this binary, renewed with the row.
    desired_digest: Option<Digest>,
    mode: PoolMode,
    live: BTreeMap<InstanceId, Live>,
    open_steps: OpenSteps,
    recoveries: Vec<Recovery>,
    gateway: GatewayLink,
    order: Option<TickOrder>,
    round: Option<Round>,
    snapshot: Option<Arc<Snapshot>>,
    plan: PlanStatus,
    /// The plan of the last round, if one was made.
    last_plan: Option<Plan>,
    /// How urgent the replacement is for which the plan waits for the process-wide budget, if it does.
    wish: Option<Urgency>,
    faults: BTreeMap<&'static str, Fault>,
    store_fault: Option<StoreFault>,
    /// How far the rows had come when they were read; `None` after a commit of our own, and before the first read.
    loaded: Option<Mark>,
    /// A commit's outcome is unknown: nothing is decided until the rows were read again.
    must_reload: bool,
    probes: Probes,
    counts: Counts,
    serial: u64,
    /// A tick that may have brought something new found the round still running.
    coalesced: bool,
    quiescing: bool,
    ended: bool,
    finished: bool,
    /// Writes to the gateway or the API server that are under way beside the instances.
    writes_in_flight: u32,
    /// An answer to taking authority was lost, perhaps after it was taken.
    acquire_unanswered: bool,
    /// The round in which the epoch was last raised (S9).
    raised_in: Option<TickId>,
    /// The round in which SUSPECT was last told, and of whom (S6).
    suspected: Option<(TickId, InstanceId)>,
    orphans_at: Option<Duration>,
    published: Published,
    /// Reads and writes that are under way outside the instances; they end with the actor.
    tasks: JoinSet<()>,
}

impl Actor for PoolActor {
    type Msg = PoolMsg;
    type State = Brain;
    type Arguments = PoolArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<PoolMsg>,
        arguments: PoolArguments,
    ) -> Result<Brain, ActorProcessingErr> {
        Ok(Brain::new(myself, arguments))
    }

    async fn handle(
        &self,
        _myself: ActorRef<PoolMsg>,
        message: PoolMsg,
        brain: &mut Brain,
    ) -> Result<(), ActorProcessingErr> {
        if brain.ended {
            return Ok(());
        }
        match message {
            PoolMsg::Tick(order) => brain.tick(*order).await,
            PoolMsg::Surveyed(survey) => brain.surveyed(*survey).await,
            PoolMsg::Configured { attempt, outcome } => brain.configured(attempt, outcome),
            PoolMsg::Read(read) => brain.round_read(*read).await,
            PoolMsg::Inspected(inspected) => brain.inspected(*inspected).await,
            PoolMsg::Cordoned(cordoned) => brain.cordoned(*cordoned).await,
            PoolMsg::Admitted(performed) | PoolMsg::Retired(performed) | PoolMsg::Performed(performed) => {
                brain.performed(*performed).await;
            }
            PoolMsg::Overdue { instance, ticket } => brain.overdue(&instance, ticket).await,
            PoolMsg::RoundDue { tick, stage } => brain.round_due(tick, stage).await,
            PoolMsg::ResourceWritten { what, result } => brain.resource_written(what, result),
            PoolMsg::Listed(objects) => brain.listed(objects).await,
            PoolMsg::OrphanDeleted(result) => brain.orphan_deleted(result),
            PoolMsg::Quiesce => brain.quiescing = true,
        }
        brain.say_if_quiet();
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<PoolMsg>,
        event: SupervisionEvent,
        brain: &mut Brain,
    ) -> Result<(), ActorProcessingErr> {
        if brain.ended {
            return Ok(());
        }
        let (cell, why) = match event {
            SupervisionEvent::ActorFailed(cell, error) => (cell, error.to_string()),
            SupervisionEvent::ActorTerminated(cell, _, reason) => (cell, reason.unwrap_or_default()),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        brain.child_died(cell.get_id(), &why).await;
        brain.say_if_quiet();
        Ok(())
    }
}

impl Brain {
    fn new(myself: ActorRef<PoolMsg>, arguments: PoolArguments) -> Self {
        let PoolArguments {
            pool,
            owner,
            ports,
            settings,
            supervisor,
        } = arguments;
        Self {
            pool,
            owner,
            ports,
            settings,
            supervisor,
            myself,
            store_id: None,
            identity: None,
            seeded: false,
            authority: None,
            world: World::default(),
            surveying: false,
            row: None,
            desired_digest: None,
            mode: PoolMode::default(),
            live: BTreeMap::new(),
            open_steps: OpenSteps::default(),
            recoveries: Vec::new(),
            gateway: GatewayLink::default(),
            order: None,
            round: None,
            snapshot: None,
            plan: PlanStatus::default(),
            last_plan: None,
            wish: None,
            faults: BTreeMap::new(),
            store_fault: None,
            loaded: None,
            must_reload: false,
            probes: Probes::default(),
            counts: Counts::default(),
            serial: 0,
            coalesced: false,
            quiescing: false,
            ended: false,
            finished: false,
            writes_in_flight: 0,
            acquire_unanswered: false,
            raised_in: None,
            suspected: None,
            orphans_at: None,
            published: Published::default(),
            tasks: JoinSet::new(),
        }
    }

    /// The desired state in force: the last good one, whatever the resource says now.
    fn desired(&self) -> Option<&DesiredPool> {
        self.row.as_ref()?.desired.as_ref()?.as_ref().ok()
    }

    /// The pool's own timings, or the defaults while nothing is known of what it desires.
    fn timings(&self) -> Timings {
        self.desired()
            .map_or_else(Timings::default, |desired| desired.timings.clone())
    }

    /// The node-replacement policy, while both switches are on.
    fn nodes(&self) -> Option<NodeReplacement> {
        let policy = &self.desired()?.node_replacement;
        (self.settings.node_replacement && policy.enabled).then(|| policy.clone())
    }

    fn epoch(&self) -> Epoch {
        self.authority
            .as_ref()
            .map_or_else(Epoch::default, |authority| authority.epoch)
    }

    /// Whether anything may be decided and done now. Looking, and protecting pods, goes on without.
    fn may_act(&self) -> bool {
        !self.ended
            && !self.quiescing
            && !self.must_reload
            && self.store_fault.is_none()
            && self.authority.is_some()
    }

    /// Starts something that answers by a message. When it does not answer, or panics, `otherwise` is
    /// the answer: nothing is waited for that will never come.
    fn start(
        &mut self,
        otherwise: PoolMsg,
        task: impl Future<Output = PoolMsg> + Send + 'static,
    ) -> AbortHandle {
        let (ports, myself) = (self.ports.clone(), self.myself.clone());
        let limit = self.settings.effect_deadline;
        self.reap();
        self.tasks.spawn(async move {
            let message = ports.guarded(limit, task).await.unwrap_or(otherwise);
            // Fails only when this actor is gone, and then nobody waits.
            let _ = myself.send_message(message);
        })
    }

    /// Says something to this actor after a while.
    fn remind(&mut self, after: Duration, message: PoolMsg) -> AbortHandle {
        let (clock, myself) = (self.ports.clock.clone(), self.myself.clone());
        self.reap();
        self.tasks.spawn(async move {
            clock.sleep(after).await;
            let _ = myself.send_message(message);
        })
    }

    fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    /// Asks for a tick soon.
    fn hurry(&self) {
        // A dead supervisor takes this actor with it.
        let early = SupervisorMsg::Early(Some(self.pool.clone()));
        let _ = self.supervisor.send_message(early);
    }

    /// The term over this pool is over: nothing more is done, and the supervisor is told.
    fn end_term(&mut self, refused_by: &'static str) {
        if self.ended {
            return;
        }
        self.ended = true;
        crate::telemetry::events::AuthorityLost {
            pool: &self.pool,
            epoch: self.epoch(),
            refused_by,
        }
        .emit();
        let fenced = SupervisorMsg::Fenced(self.pool.clone());
        let _ = self.supervisor.send_message(fenced);
        self.myself.stop(Some("authority is elsewhere".to_owned()));
    }

    fn say_if_quiet(&self) {
        if self.quiescing && self.writes_in_flight == 0 && self.live.values().all(Live::is_idle) {
            let quiet = SupervisorMsg::Quiet(self.pool.clone());
            let _ = self.supervisor.send_message(quiet);
        }
    }

    /// Remembers or forgets a fault of the pool itself; its beginning and its end are logged.
    fn note(&mut self, about: &'static str, fault: Option<Fault>) {
        match fault {
            Some(fault) => {
                let known = self.faults.get(about);
                // What is wrong with a spec stands in the detail; elsewhere that may be an age or a count.
                let same = |known: &Fault| {
                    known.label == fault.label && (about != "resource" || known.detail == fault.detail)
                };
                if !known.is_some_and(same) {
                    let Fault {
                        label,
                        subject,
                        detail,
                    } = &fault;
                    tracing::warn!(pool = %self.pool, about, label, subject, detail, "fault of the pool");
                }
                self.faults.insert(about, fault);
            }
            None => {
                if let Some(fault) = self.faults.remove(about) {
                    tracing::info!(pool = %self.pool, about, label = fault.label, "fault of the pool is over");
                }
            }
        }
    }
}
