//! Leadership, the tick, and the life of every pool actor.
//!
//! Owns the tick counter, the process-wide replacement budget and the restart of dead actors. It reads
//! the TrinoPools once per tick for all pools. It writes nothing but its status, and decides nothing
//! about an instance.

mod due;
mod slots;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use self::due::Due;
use self::slots::{Ending, Slot};
use super::faults;
use super::inventory::{InventoryMsg, NodeClaimInventory};
use super::leadership::{self, Command, Leadership};
use super::messages::{PoolMsg, PoolReport, PoolsRead, SupervisorMsg};
use super::ports::{Ports, Settings};
use super::status::ProcessStatus;
use crate::pool::ids::{PoolId, TickId};
use crate::pool::observation::{Fault, Reading};
use crate::store::port::Mark;
use crate::telemetry::events::{ActorRestarted, LeadershipChanged};

/// Why the actors could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The supervisor did not come up.
    #[error("the supervisor did not start: {0}")]
    Supervisor(String),
}

/// A running process. Dropping it does not stop the actors; [`Handle::stop`] does.
#[derive(Debug)]
pub struct Handle {
    supervisor: ActorRef<SupervisorMsg>,
    join: JoinHandle<()>,
    /// Everything the process knows about itself, renewed after every report of a pool.
    pub status: watch::Receiver<ProcessStatus>,
}

impl Handle {
    /// Starts no further effect, waits for those in flight within the grace period, and hands the Lease
    /// over only if none is left. Returns whether it was handed over.
    pub async fn stop(self) -> bool {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let asked = self.supervisor.send_message(SupervisorMsg::Stop {
            reply: RpcReplyPort::from(sender),
        });
        let released = match asked {
            Ok(()) => receiver.await.unwrap_or(false),
            Err(_) => false,
        };
        if let Err(error) = self.join.await {
            tracing::warn!(error = %error, "the supervisor did not end cleanly");
        }
        released
    }

    /// Ends every actor at once, in the middle of whatever it does: what a crash of the process is.
    pub async fn crash(self) {
        self.supervisor.get_cell().kill();
        // A killed task ends with an error or without; both are the end.
        let _ = self.join.await;
    }

    /// Waits until the supervisor ends by itself, which it never should.
    pub async fn ended(&mut self) {
        // The reason was logged where it happened.
        let _ = (&mut self.join).await;
    }

    /// Asks for a tick as soon as the least gap allows.
    pub fn hurry(&self) {
        // A dead supervisor has nothing to hurry.
        let _ = self.supervisor.send_message(SupervisorMsg::Early(None));
    }
}

/// Starts leadership and, while it is held, every pool.
pub async fn start(ports: Ports, settings: Settings) -> Result<Handle, StartError> {
    let (sender, status) = watch::channel(ProcessStatus::default());
    let arguments = Arguments {
        ports,
        settings,
        status: sender,
    };
    let (supervisor, join) = Supervisor::spawn(None, Supervisor, arguments)
        .await
        .map_err(|error| StartError::Supervisor(error.to_string()))?;
    Ok(Handle {
        supervisor,
        join,
        status,
    })
}

struct Supervisor;

struct Arguments {
    ports: Ports,
    settings: Settings,
    status: watch::Sender<ProcessStatus>,
}

#[allow(clippy::struct_excessive_bools)] // Independent facts about the process, each named.
pub(super) struct State {
    ports: Ports,
    settings: Settings,
    status: watch::Sender<ProcessStatus>,
    inventory: ActorRef<InventoryMsg>,
    commands: Option<mpsc::Sender<Command>>,
    leading: bool,
    term: u64,
    tick: TickId,
    last_tick: Option<Duration>,
    /// The early tick that is armed, if one is; its time runs from the end of the reads under way.
    early: Option<Due>,
    /// The tick whose reads are under way, if they are.
    reading: Option<Due>,
    stored_read: bool,
    /// How far the rows of each pool had come at the last regular tick; empty when the store did not answer.
    marks: BTreeMap<PoolId, Mark>,
    slots: BTreeMap<PoolId, Slot>,
    stopping: Option<RpcReplyPort<bool>>,
    /// Timers, the hint stream, leadership and reads in flight: they end with the actor.
    tasks: JoinSet<()>,
}

impl Actor for Supervisor {
    type Msg = SupervisorMsg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMsg>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let Arguments {
            ports,
            settings,
            status,
        } = arguments;
        let (inventory, _) =
            NodeClaimInventory::spawn_linked(None, NodeClaimInventory, ports.clone(), myself.get_cell())
                .await?;
        let mut state = State {
            ports,
            settings,
            status,
            inventory,
            commands: None,
            leading: false,
            term: 0,
            tick: TickId::default(),
            last_tick: None,
            early: None,
            reading: None,
            stored_read: false,
            marks: BTreeMap::new(),
            slots: BTreeMap::new(),
            stopping: None,
            tasks: JoinSet::new(),
        };
        state.start_timer(&myself);
        state.start_hints(&myself);
        state.start_leadership(&myself);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        message: SupervisorMsg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMsg::Leadership(change) => state.leadership(&myself, change),
            SupervisorMsg::LeadershipDied => state.leadership_died(&myself),
            SupervisorMsg::TickDue => state.tick_due(&myself, Due::timer()),
            SupervisorMsg::EarlyTickDue => state.early_tick_due(&myself),
            SupervisorMsg::Hint(hint) => state.arm_early(&myself, Due::hinted(hint)),
            SupervisorMsg::Early(None) => state.arm_early(&myself, Due::news_for_all()),
            SupervisorMsg::Early(Some(pool)) => state.asked_by(&myself, pool),
            SupervisorMsg::PoolsRead(read) => state.pools_read(&myself, *read).await,
            SupervisorMsg::Report(report) => state.report(&myself, *report),
            SupervisorMsg::Fenced(pool) => state.ended(&pool, &Ending::Fenced),
            SupervisorMsg::Quiet(pool) => {
                if let Some(slot) = state.slots.get_mut(&pool) {
                    slot.quiet = true;
                }
                state.finish_stop_when_quiet(&myself);
            }
            SupervisorMsg::Stop { reply } => state.stop(&myself, reply),
            SupervisorMsg::GraceOver => {
                state.kill_pools("the grace period is over");
                state.end(&myself, false);
            }
            SupervisorMsg::Released => state.end(&myself, true),
            SupervisorMsg::InventoryAge(age) => {
                state.status.send_modify(|status| status.inventory = age);
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let (cell, ending) = match event {
            SupervisionEvent::ActorFailed(cell, error) => (cell, Ending::Failed(error.to_string())),
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                (cell, Ending::Stopped(reason.unwrap_or_default()))
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        if cell.get_id() == state.inventory.get_id() {
            ActorRestarted {
                kind: "inventory",
                name: "nodeclaims",
                reason: "failed",
                detail: ending.detail(),
            }
            .emit();
            let ports = state.ports.clone();
            let (inventory, _) =
                NodeClaimInventory::spawn_linked(None, NodeClaimInventory, ports, myself.get_cell()).await?;
            state.inventory = inventory;
            return Ok(());
        }
        let pool = state
            .slots
            .iter()
            .find(|(_, slot)| slot.is(cell.get_id()))
            .map(|(pool, _)| pool.clone());
        if let Some(pool) = pool {
            state.ended(&pool, &ending);
            state.finish_stop_when_quiet(&myself);
        }
        Ok(())
    }
}

impl State {
    fn start_timer(&mut self, myself: &ActorRef<SupervisorMsg>) {
        let (clock, tick, myself) = (self.ports.clock.clone(), self.settings.tick, myself.clone());
        self.tasks.spawn(async move {
            loop {
                clock.sleep(tick).await;
                if myself.send_message(SupervisorMsg::TickDue).is_err() {
                    return;
                }
            }
        });
    }

    fn start_hints(&mut self, myself: &ActorRef<SupervisorMsg>) {
        let (mut hints, myself) = (
            self.ports.cluster.hints(self.settings.node_replacement),
            myself.clone(),
        );
        self.tasks.spawn(async move {
            while let Some(hint) = hints.next().await {
                if myself.send_message(SupervisorMsg::Hint(hint)).is_err() {
                    return;
                }
            }
        });
    }

    fn start_leadership(&mut self, supervisor: &ActorRef<SupervisorMsg>) {
        let myself = supervisor.clone();
        let tell = move |change| {
            // A dead supervisor leads nothing.
            let _ = myself.send_message(SupervisorMsg::Leadership(change));
        };
        if !self.settings.lease.elect {
            tell(Leadership::Gained { term: 1 });
            return;
        }
        let (sender, receiver) = mpsc::channel(4);
        self.commands = Some(sender);
        let (owner, lease) = (self.settings.owner.clone(), self.settings.lease.clone());
        let driver = leadership::drive(self.ports.clone(), owner, lease, receiver, tell);
        let supervisor = supervisor.clone();
        self.spawn(async move {
            if AssertUnwindSafe(driver).catch_unwind().await.is_err() {
                let _ = supervisor.send_message(SupervisorMsg::LeadershipDied);
            }
        });
    }

    /// Without a driver nobody renews: nothing may run until another one holds the Lease.
    fn leadership_died(&mut self, myself: &ActorRef<SupervisorMsg>) {
        let reason = "the leadership driver died".to_owned();
        self.leadership(myself, Leadership::Lost { reason });
        self.start_leadership(myself);
    }

    fn leadership(&mut self, myself: &ActorRef<SupervisorMsg>, change: Leadership) {
        match change {
            Leadership::Gained { term } => {
                LeadershipChanged {
                    what: "gained",
                    detail: "",
                }
                .emit();
                self.leading = true;
                self.term = term;
                self.stored_read = false;
                self.marks.clear();
                self.arm_early(myself, Due::news_for_all());
            }
            Leadership::Lost { reason } => {
                LeadershipChanged {
                    what: "lost",
                    detail: &reason,
                }
                .emit();
                self.leading = false;
                self.kill_pools(&reason);
                self.slots.clear();
            }
        }
        let (leader, term) = (self.leading, self.term);
        self.status.send_modify(|status| {
            status.leader = leader;
            status.term = term;
            if !leader {
                status.pools.clear();
            }
        });
    }

    /// An early tick as soon as the least gap allows; any number of hints make one.
    fn arm_early(&mut self, myself: &ActorRef<SupervisorMsg>, due: Due) {
        if !self.leading || self.stopping.is_some() {
            return;
        }
        if let Some(armed) = &mut self.early {
            return armed.join(due);
        }
        self.early = Some(due);
        if self.reading.is_none() {
            self.time_early(myself);
        }
    }

    /// Lets the time of the armed early tick run, if one is armed.
    pub(super) fn time_early(&mut self, myself: &ActorRef<SupervisorMsg>) {
        if self.early.is_none() {
            return;
        }
        let since = self.last_tick.map_or(self.settings.min_tick_gap, |last| {
            self.ports.clock.monotonic().saturating_sub(last)
        });
        let wait = self.settings.min_tick_gap.saturating_sub(since);
        let (clock, myself) = (self.ports.clock.clone(), myself.clone());
        self.spawn(async move {
            clock.sleep(wait).await;
            let _ = myself.send_message(SupervisorMsg::EarlyTickDue);
        });
    }

    /// What a pool asks for is about itself, not about what is being read: a tick whose orders are not sent yet
    /// serves it.
    fn asked_by(&mut self, myself: &ActorRef<SupervisorMsg>, pool: PoolId) {
        let due = Due::news_for(pool);
        match &mut self.reading {
            Some(reading) => reading.join(due),
            None => self.arm_early(myself, due),
        }
    }

    fn early_tick_due(&mut self, myself: &ActorRef<SupervisorMsg>) {
        // What came during the reads may be missing in them: it waits until they end.
        if self.reading.is_some() {
            return;
        }
        if let Some(due) = self.early.take() {
            self.tick_due(myself, due);
        }
    }

    fn tick_due(&mut self, myself: &ActorRef<SupervisorMsg>, mut due: Due) {
        if !self.leading || self.stopping.is_some() {
            return;
        }
        if let Some(reading) = &mut self.reading {
            // The timer again: the orders are not sent yet, so they serve this as well.
            return reading.join(due);
        }
        let now = self.ports.clock.monotonic();
        if self
            .last_tick
            .is_some_and(|last| now.saturating_sub(last) < self.settings.min_tick_gap)
        {
            return self.arm_early(myself, due);
        }
        self.last_tick = Some(now);
        self.tick = self.tick.next();
        // What came before the reads is served by them.
        if let Some(early) = self.early.take() {
            due.join(early);
        }
        // Between two ticks of the timer a pool knows its own commits, and nobody else's are awaited.
        let read_stored = due.is_regular() || !self.stored_read;
        self.reading = Some(due);
        let (ports, tick, myself) = (self.ports.clone(), self.tick, myself.clone());
        let limit = self.settings.inspection_budget;
        let inventory = self.inventory.clone();
        self.spawn(async move {
            let stored = async {
                if !read_stored {
                    return Reading::NotAsked;
                }
                // One statement for the whole process.
                let marks = ports.guarded(limit, ports.store.marks()).await;
                faults::reading(marks, "pools", limit, faults::of_store)
            };
            let (resources, stored) =
                tokio::join!(biased; ports.guarded(limit, ports.cluster.pools()), stored);
            let resources = match resources {
                Some(Ok(listing)) => Ok(listing),
                Some(Err(error)) => Err(Fault {
                    label: error.label(),
                    subject: "trinopools".to_owned(),
                    detail: error.to_string(),
                }),
                None => Err(Fault {
                    label: "KubernetesUnreachable",
                    subject: "trinopools".to_owned(),
                    detail: format!("no answer within {limit:?}"),
                }),
            };
            let read = PoolsRead {
                tick,
                resources,
                stored,
            };
            let _ = myself.send_message(SupervisorMsg::PoolsRead(Box::new(read)));
            let age = async move { ractor::call!(inventory, |reply| InventoryMsg::Age { reply }) };
            if let Some(Ok(age)) = ports.within(limit, age).await {
                let _ = myself.send_message(SupervisorMsg::InventoryAge(age));
            }
        });
    }

    fn report(&mut self, myself: &ActorRef<SupervisorMsg>, report: PoolReport) {
        let now = self.ports.clock.monotonic();
        let pool = report.pool.clone();
        let Some(slot) = self.slots.get_mut(&pool) else {
            return;
        };
        let failing_since = slot.take(report);
        if failing_since.is_some_and(|since| now.saturating_sub(since) >= self.settings.lease.duration) {
            self.yield_leadership();
        }
        self.publish(&pool);
        for waiting in self.newly_permitted() {
            self.asked_by(myself, waiting);
        }
    }

    /// Fenced writes failed for a whole lease duration: another process may reach the store (R04).
    fn yield_leadership(&mut self) {
        let Some(commands) = &self.commands else { return };
        let command = Command::Release {
            sit_out: true,
            reason: "the store took no write for a whole lease duration".to_owned(),
            done: None,
        };
        if commands.try_send(command).is_err() {
            // It is being released already.
            return;
        }
        LeadershipChanged {
            what: "yielded",
            detail: "the store took no write for a whole lease duration",
        }
        .emit();
    }

    fn stop(&mut self, myself: &ActorRef<SupervisorMsg>, reply: RpcReplyPort<bool>) {
        self.stopping = Some(reply);
        for slot in self.slots.values_mut() {
            slot.quiet = false;
            slot.tell(PoolMsg::Quiesce);
        }
        let (clock, grace, supervisor) = (self.ports.clock.clone(), self.settings.stop_grace, myself.clone());
        self.spawn(async move {
            clock.sleep(grace).await;
            let _ = supervisor.send_message(SupervisorMsg::GraceOver);
        });
        self.finish_stop_when_quiet(myself);
    }

    fn finish_stop_when_quiet(&mut self, myself: &ActorRef<SupervisorMsg>) {
        if self.stopping.is_none() || self.slots.values().any(Slot::is_busy) {
            return;
        }
        self.kill_pools("stopping");
        let Some(commands) = self.commands.take() else {
            return self.end(myself, true);
        };
        let myself = myself.clone();
        self.spawn(async move {
            let (done, released) = tokio::sync::oneshot::channel();
            let command = Command::Release {
                sit_out: false,
                reason: "stopping".to_owned(),
                done: Some(done),
            };
            if commands.send(command).await.is_ok() {
                // A driver that ended has nothing to hand over.
                let _ = released.await;
            }
            let _ = myself.send_message(SupervisorMsg::Released);
        });
    }

    fn end(&mut self, myself: &ActorRef<SupervisorMsg>, released: bool) {
        let Some(reply) = self.stopping.take() else { return };
        let _ = reply.send(released);
        myself.stop(Some("stopped".to_owned()));
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(task);
    }
}

/// The fault of a pool whose resource is present and unreadable.
fn undecodable(problem: &str) -> Fault {
    Fault {
        label: "Undecodable",
        subject: "trinopool".to_owned(),
        detail: problem.to_owned(),
    }
}
