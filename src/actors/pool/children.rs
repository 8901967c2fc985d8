//! The pool's instances as it holds them: row, actor, what is outstanding, what was seen.
//!
//! One request at a time per instance, each with a ticket and a deadline. A child that panics or does
//! not answer is replaced at the next request; what it did is settled as interrupted, never guessed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorRef};
use tokio::task::AbortHandle;

use super::Brain;
use crate::actors::instance::{InstanceActor, Subject};
use crate::actors::messages::{CordonRequest, Inspect, InstanceMsg, Order, PoolMsg, Ticket, order_message};
use crate::gateway::model::{Controller, MemberAction, MemberRequest};
use crate::pool::cordon::CordonOrder;
use crate::pool::floor::serves;
use crate::pool::health::HealthTracker;
use crate::pool::ids::{InstanceId, NodeName, TickId};
use crate::pool::instance::InstanceRow;
use crate::pool::lifecycle::Needs;
use crate::pool::observation::{Fault, Observation, PlacementReport};
use crate::pool::phase::Phase;
use crate::pool::step::{Confirmed, Effect, EffectOutcome, Waiting};
use crate::telemetry::counters::{COUNTERS, bump};
use crate::telemetry::events::ActorRestarted;

/// One instance in the pool's memory.
#[derive(Debug)]
// Independent facts of one instance, not states of a machine.
#[allow(clippy::struct_excessive_bools)]
pub(super) struct Live {
    pub(super) row: InstanceRow,
    actor: Option<ActorRef<InstanceMsg>>,
    pub(super) outstanding: Option<Outstanding>,
    queue: VecDeque<Job>,
    /// The last observation of this round.
    pub(super) seen: Option<Arc<Observation>>,
    /// When the look that shows it was asked for, by the monotonic clock: it shows nothing older.
    pub(super) looked_at: Option<Duration>,
    pub(super) health: HealthTracker,
    pub(super) failing_for: Option<Duration>,
    pub(super) probed: bool,
    pub(super) waiting: Option<Waiting>,
    /// The gateway's floor refused its drain at this moment; kept for a while beside `waiting`, which
    /// says what the instance itself waits for.
    pub(super) refused_drain: Option<(Waiting, Duration)>,
    /// The gateway said, when it was last read, that it does not hold the registration that the row records.
    pub(super) unregistered: bool,
    pub(super) confirmed: Confirmed,
    pub(super) fresh_placement: Option<PlacementReport>,
    /// Steps taken in this round.
    pub(super) steps: u32,
    /// Its phase changed since the last plan.
    pub(super) progressed: bool,
    pub(super) faults: Vec<Fault>,
    pub(super) cordon_fault: Option<Fault>,
    /// Protection of a pod that was refused for good, as of the last look that tried.
    pub(super) protection_fault: Option<Fault>,
    pub(super) nodes: Vec<NodeName>,
    /// The last verdict on its nodes, kept between rounds for order and display.
    pub(super) placement: Option<PlacementReport>,
    /// How it shows that somebody edited one of its Deployments, as of the last look that showed them (A11).
    pub(super) edited: Option<Fault>,
    /// What a draining member owed when last asked.
    pub(super) outstanding_work: Option<u64>,
}

/// A request without an answer; its deadline ends with it.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) ticket: Ticket,
    pub(super) what: What,
    /// By the monotonic clock.
    pub(super) asked_at: Duration,
    deadline: AbortHandle,
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.deadline.abort();
    }
}

/// What was asked.
#[derive(Clone, Debug)]
pub(super) enum What {
    Inspection,
    Cordon,
    Effect(Box<Effect>),
}

/// What is to be asked as soon as the instance is free.
#[derive(Debug)]
pub(super) enum Job {
    Inspect(Needs),
    Cordon(Box<CordonOrder>),
    Effect(Box<Effect>),
}

impl Live {
    pub(super) fn new(row: InstanceRow) -> Self {
        let row_is_lost = row.phase == Phase::Lost;
        Self {
            row,
            actor: None,
            outstanding: None,
            queue: VecDeque::new(),
            seen: None,
            looked_at: None,
            health: HealthTracker::default(),
            failing_for: None,
            probed: false,
            waiting: None,
            refused_drain: None,
            unregistered: false,
            confirmed: Confirmed::default(),
            fresh_placement: None,
            steps: 0,
            // A loss that a predecessor recorded was perhaps never planned for.
            progressed: row_is_lost,
            faults: Vec::new(),
            cordon_fault: None,
            protection_fault: None,
            nodes: Vec::new(),
            placement: None,
            edited: None,
            outstanding_work: None,
        }
    }

    /// A new round begins: what was seen and confirmed in the last one no longer counts.
    pub(super) fn begin_round(&mut self) {
        self.steps = 0;
        self.confirmed = Confirmed::default();
        self.fresh_placement = None;
        self.probed = false;
        self.seen = None;
    }

    /// Its row serves, and the gateway does not say that it does not hold it.
    pub(super) fn serves(&self) -> bool {
        serves(self.row.phase, self.unregistered)
    }

    /// Nothing is outstanding and nothing is queued.
    pub(super) fn is_idle(&self) -> bool {
        self.outstanding.is_none() && self.queue.is_empty()
    }

    /// Nothing but cordons is outstanding or queued. A drain does not wait for the end of those (L2): a
    /// node that nobody may cordon would never be left.
    pub(super) fn only_cordons(&self) -> bool {
        let outstanding = self.outstanding.as_ref();
        outstanding.is_none_or(|asked| matches!(asked.what, What::Cordon))
            && self.queue.iter().all(|job| matches!(job, Job::Cordon(_)))
    }

    /// A drain or a suspicion is queued or under way.
    pub(super) fn sends_away(&self) -> bool {
        let under_way = self.outstanding.as_ref().is_some_and(|asked| match &asked.what {
            What::Effect(effect) => sends_away(effect),
            What::Inspection | What::Cordon => false,
        });
        under_way || self.queue.iter().any(is_departure)
    }

    /// Takes back a drain or a suspicion that waited in the queue and was not sent. Its step is open, so
    /// the rules judge it anew, with what is known now, and send it or close it (S5, S6).
    pub(super) fn reconsider_departure(&mut self) {
        self.queue.retain(|job| !is_departure(job));
    }

    /// Whether planning waits for it: its own steps of this round are under way. A cordon is never
    /// waited for (L2), and neither is what an earlier round left behind.
    pub(super) fn holds_plan(&self, round: TickId) -> bool {
        match &self.outstanding {
            Some(outstanding) => match outstanding.what {
                What::Inspection | What::Effect(_) => outstanding.ticket.tick == round,
                What::Cordon => false,
            },
            None => !self.queue.is_empty(),
        }
    }

    /// It was lost since the last plan.
    pub(super) fn awaits_plan(&self) -> bool {
        self.progressed && self.row.phase == Phase::Lost
    }

    pub(super) fn performing(&self) -> Option<&'static str> {
        self.outstanding
            .as_ref()
            .map(|outstanding| match &outstanding.what {
                What::Inspection => "inspect",
                What::Cordon => "cordon",
                What::Effect(effect) => effect.label(),
            })
    }

    /// Ends the actor, whatever it does. Its answers become stale.
    pub(super) fn retire_actor(&mut self) {
        if let Some(actor) = self.actor.take() {
            actor.get_cell().kill();
        }
    }
}

fn is_departure(job: &Job) -> bool {
    match job {
        Job::Effect(effect) => sends_away(effect),
        Job::Inspect(_) | Job::Cordon(_) => false,
    }
}

fn sends_away(effect: &Effect) -> bool {
    member_request(effect).is_some_and(|request| is_leave(&request.action))
}

/// The journaled request that an effect sends, if it does.
fn member_request(effect: &Effect) -> Option<&MemberRequest> {
    match effect {
        Effect::Member(request) => Some(request),
        Effect::ApplyObjects
        | Effect::EnsureBackend(_)
        | Effect::CheckCandidate
        | Effect::Validate
        | Effect::DeleteObjects
        | Effect::RemoveBackend(_) => None,
    }
}

/// Requests after which a member takes no new work.
pub(super) const fn is_leave(action: &MemberAction) -> bool {
    match action {
        MemberAction::Drain { .. } | MemberAction::Suspect { .. } => true,
        MemberAction::Register(_)
        | MemberAction::Admit { .. }
        | MemberAction::Seal { .. }
        | MemberAction::Lost { .. }
        | MemberAction::Retire { .. }
        | MemberAction::Retired { .. } => false,
    }
}

impl Brain {
    /// Asks an instance for something, now or as soon as it is free.
    pub(super) async fn ask(&mut self, id: &InstanceId, job: Job) {
        if let Some(live) = self.live.get_mut(id) {
            live.queue.push_back(job);
        }
        self.pump(id).await;
    }

    /// Sends the next queued request, if the instance is free.
    pub(super) async fn pump(&mut self, id: &InstanceId) {
        if self.quiescing || self.ended {
            if let Some(live) = self.live.get_mut(id) {
                live.queue.clear();
            }
            return;
        }
        let Some(live) = self.live.get(id) else { return };
        if live.outstanding.is_some() || live.queue.is_empty() {
            return;
        }
        let Some(order) = &self.order else { return };
        let (tick, inventory) = (order.tick, order.inventory.clone());
        let Some(identity) = &self.identity else { return };
        let epoch = self.epoch();
        let controller = Controller {
            pool: identity.routing_group.clone(),
            epoch,
            owner: self.owner.clone(),
        };
        let Some(actor) = self.child(id).await else { return };
        let nodes = self.nodes();
        let budget = self.settings.inspection_budget;
        let patience = self.settings.effect_deadline;
        self.serial += 1;
        let ticket = Ticket {
            tick,
            epoch,
            serial: self.serial,
        };
        let Some(live) = self.live.get_mut(id) else { return };
        let Some(job) = live.queue.pop_front() else { return };
        let row = Arc::new(live.row.clone());
        let mut sent = None;
        let (what, message, limit) = match job {
            Job::Inspect(needs) => {
                let order = Inspect {
                    ticket,
                    row,
                    needs,
                    nodes,
                    inventory,
                    budget,
                };
                // The child gives every reading up at its budget; only a broken one is later.
                let message = InstanceMsg::Inspect(Box::new(order));
                (What::Inspection, message, budget * 2)
            }
            Job::Cordon(order) => {
                let request = CordonRequest {
                    ticket,
                    order: *order,
                };
                (What::Cordon, InstanceMsg::Cordon(Box::new(request)), patience)
            }
            Job::Effect(effect) => {
                sent = member_request(&effect).cloned();
                let order = Order {
                    ticket,
                    row,
                    effect: (*effect).clone(),
                    controller,
                    nodes,
                };
                (What::Effect(effect), order_message(order), patience)
            }
        };
        if let Some(request) = &sent {
            self.open_steps.note_sent(request, epoch);
        }
        let asked_at = self.ports.clock.monotonic();
        // A child that died meanwhile is noticed by supervision, which settles what is outstanding.
        let _ = actor.send_message(message);
        let instance = id.clone();
        let deadline = self.remind(limit, PoolMsg::Overdue { instance, ticket });
        if let Some(live) = self.live.get_mut(id) {
            live.outstanding = Some(Outstanding {
                ticket,
                what,
                asked_at,
                deadline,
            });
        }
    }

    async fn child(&mut self, id: &InstanceId) -> Option<ActorRef<InstanceMsg>> {
        if let Some(actor) = &self.live.get(id)?.actor {
            return Some(actor.clone());
        }
        let identity = self.identity.as_ref()?;
        let subject = Subject {
            pool: self.pool.clone(),
            group: identity.routing_group.clone(),
            namespace: identity.namespace.clone(),
            instance: id.clone(),
            ports: self.ports.clone(),
            reply_to: self.myself.clone(),
        };
        match InstanceActor::spawn_linked(None, InstanceActor, subject, self.myself.get_cell()).await {
            Ok((actor, _)) => {
                self.live.get_mut(id)?.actor = Some(actor.clone());
                Some(actor)
            }
            Err(error) => {
                tracing::warn!(pool = %self.pool, instance = %id, error = %error, "an instance actor did not start");
                None
            }
        }
    }

    /// Takes the outstanding request that an answer belongs to. A stale answer is counted and dropped.
    pub(super) fn take_outstanding(
        &mut self,
        id: &InstanceId,
        ticket: Ticket,
        kind: &'static str,
    ) -> Option<Outstanding> {
        if let Some(live) = self.live.get_mut(id)
            && let Some(outstanding) = live.outstanding.take_if(|asked| asked.ticket == ticket)
        {
            return Some(outstanding);
        }
        self.counts.stale_messages += 1;
        bump(&COUNTERS.stale_messages, &[("kind", kind)]);
        tracing::debug!(pool = %self.pool, instance = %id, kind, ?ticket, "a stale message was dropped");
        None
    }

    /// A request has been outstanding for too long: its executor is replaced.
    pub(super) async fn overdue(&mut self, id: &InstanceId, ticket: Ticket) {
        let Some(live) = self.live.get(id) else { return };
        let asked = live.outstanding.as_ref();
        if asked.is_none_or(|asked| asked.ticket != ticket) {
            return;
        }
        ActorRestarted {
            kind: "instance",
            name: id.as_str(),
            reason: "hung",
            detail: live.performing().unwrap_or_default(),
        }
        .emit();
        self.counts.instances_hung += 1;
        self.interrupted(id, "InstanceHung", "did not answer in time")
            .await;
    }

    /// A child ended by itself.
    pub(super) async fn child_died(&mut self, actor: ActorId, why: &str) {
        let is_it = |live: &Live| live.actor.as_ref().is_some_and(|own| own.get_id() == actor);
        let found = self.live.iter().find(|(_, live)| is_it(live));
        // Not found: one that was replaced before.
        let Some(id) = found.map(|(id, _)| id.clone()) else {
            return;
        };
        ActorRestarted {
            kind: "instance",
            name: id.as_str(),
            reason: "panicked",
            detail: why,
        }
        .emit();
        self.counts.instances_panicked += 1;
        self.interrupted(&id, "InstancePanicked", why).await;
    }

    /// Whatever was outstanding ended without an answer; the instance rests until the next round.
    async fn interrupted(&mut self, id: &InstanceId, label: &'static str, why: &str) {
        let Some(live) = self.live.get_mut(id) else { return };
        live.retire_actor();
        live.queue.clear();
        live.steps = super::advance::MAX_STEPS;
        live.faults.push(Fault {
            label,
            subject: id.to_string(),
            detail: why.to_owned(),
        });
        let Some(outstanding) = live.outstanding.take() else {
            return;
        };
        match outstanding.what.clone() {
            What::Inspection => {
                live.seen = None;
                self.inspection_ended(id).await;
            }
            What::Cordon => self.rest(id).await,
            What::Effect(effect) => {
                let sent = outstanding.ticket.epoch;
                self.settle(id, *effect, EffectOutcome::Interrupted, sent).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::lifecycle::drain_request;
    use crate::pool::testing::row;

    fn draining() -> Live {
        let mut live = Live::new(row(Phase::Serving));
        let request = drain_request(&live.row).unwrap();
        live.queue
            .push_back(Job::Effect(Box::new(Effect::Member(request))));
        live
    }

    #[test]
    fn s7_a_queued_drain_counts_and_is_judged_anew_before_it_is_sent() {
        let mut live = draining();
        assert!(live.sends_away());
        assert!(!live.only_cordons(), "no second drain is started over it");
        live.queue.push_front(Job::Inspect(Needs::default()));
        live.reconsider_departure();
        assert!(!live.sends_away());
        assert_eq!(live.queue.len(), 1, "everything else stays queued");
    }

    #[test]
    fn a_free_instance_may_be_drained_and_one_being_looked_at_may_not() {
        let mut live = Live::new(row(Phase::Serving));
        assert!(live.only_cordons());
        live.queue.push_back(Job::Inspect(Needs::default()));
        assert!(!live.only_cordons());
    }
}
