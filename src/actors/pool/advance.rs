//! One instance after the other, step by step, until it waits.
//!
//! The rules say what is next; here it is journaled, performed and settled. After a step that succeeded
//! the instance goes on at once with what it sees then, not at the next tick (weakness 20).

use super::Brain;
use super::children::{Job, is_leave};
use super::open_steps::OpenStep;
use crate::actors::messages::Performed;
use crate::gateway::model::{MemberAction, MemberRequest};
use crate::pool::desired::PoolMode;
use crate::pool::floor::takes_work;
use crate::pool::ids::{Epoch, InstanceId};
use crate::pool::lifecycle::{self, Needs};
use crate::pool::observation::{Observation, Reading};
use crate::pool::phase::Phase;
use crate::pool::settle;
use crate::pool::step::{Effect, EffectOutcome, Next, RowChange, StepContext, WaitReason, Waiting};
use crate::store::port::{Committed, StepOutcome, Write};
use crate::telemetry::counters::{COUNTERS, bump};

/// Steps of one instance in one round: more than a whole life has, so only a loop ever meets it.
pub(super) const MAX_STEPS: u32 = 16;

impl Brain {
    /// Takes steps until the instance waits, or waits for an answer.
    pub(super) async fn drive(&mut self, id: &InstanceId) {
        self.steps(id).await;
        self.plan_when_settled().await;
    }

    /// The same without planning, while other instances have yet to take theirs.
    pub(super) async fn steps(&mut self, id: &InstanceId) {
        while self.step(id).await {}
    }

    /// One step; whether another may follow at once.
    async fn step(&mut self, id: &InstanceId) -> bool {
        if !self.may_act() {
            return false;
        }
        let Some(ctx) = self.context(id) else { return false };
        let now = self.ports.clock.now();
        let Some(live) = self.live.get_mut(id) else {
            return false;
        };
        if !live.is_idle() || live.row.phase.is_terminal() {
            return false;
        }
        let Some(seen) = live.seen.clone() else {
            return false;
        };
        if live.steps >= MAX_STEPS {
            return false;
        }
        if live.awaits_plan() {
            // A loss is closed within moments; the planner has to see it first, or nobody repairs it (O05).
            if self.round.is_none() {
                self.hurry();
            }
            return false;
        }
        let next = lifecycle::next(&live.row, &seen, &ctx, now);
        match next {
            Next::Wait(waiting) => {
                self.wait(id, waiting).await;
                false
            }
            Next::Record(change) => {
                live.steps += 1;
                self.record(id, &change).await
            }
            Next::Perform(effect) => {
                live.steps += 1;
                self.perform(id, *effect).await;
                false
            }
        }
    }

    async fn wait(&mut self, id: &InstanceId, waiting: Waiting) {
        let fence = waiting.reason == WaitReason::FenceStep;
        let progressed = self.live.get_mut(id).is_some_and(|live| {
            live.waiting = Some(waiting);
            live.progressed
        });
        if fence && self.wants_a_fence(id) {
            self.raise_epoch().await;
        }
        if progressed && self.round.is_none() {
            // The planner should see it soon.
            if let Some(live) = self.live.get_mut(id) {
                live.progressed = false;
            }
            self.hurry();
        }
    }

    async fn record(&mut self, id: &InstanceId, change: &RowChange) -> bool {
        let writes = self.change_writes(id, change);
        if writes.is_empty() {
            // A change of nothing would be asked for again and again.
            tracing::warn!(pool = %self.pool, instance = %id, "the rules asked for an empty change");
            return false;
        }
        if self.commit(writes).await.is_none() {
            return false;
        }
        self.go_on(id, change.to.is_some()).await
    }

    /// Goes on with what was seen, or looks again when the next decision needs more.
    async fn go_on(&mut self, id: &InstanceId, look_again: bool) -> bool {
        let needs = self.needs(id);
        let Some(live) = self.live.get_mut(id) else {
            return false;
        };
        if live.row.phase.is_terminal() {
            live.retire_actor();
            live.waiting = None;
            self.hurry();
            return false;
        }
        let covered = live.seen.as_ref().is_some_and(|seen| covers(seen, needs));
        if covered && !look_again {
            return true;
        }
        if needs == Needs::default() {
            return live.seen.is_some();
        }
        self.ask(id, Job::Inspect(needs)).await;
        false
    }

    /// Performs an effect; a member request is journaled first, and what the journal holds is sent.
    pub(super) async fn perform(&mut self, id: &InstanceId, effect: Effect) {
        if let Some(waiting) = self.gateway_gate(&effect) {
            return self.wait(id, waiting).await;
        }
        let effect = match effect {
            Effect::Member(request) => {
                let Some(results) = self.commit(vec![Write::BeginStep(request.clone())]).await else {
                    return;
                };
                let request = match results.into_iter().next() {
                    Some(Committed::Recorded(step)) => match step.outcome {
                        // The recorded request is replayed, whatever was in mind (S9).
                        StepOutcome::Unknown | StepOutcome::Applied => step.request,
                        StepOutcome::Refused => request,
                    },
                    Some(Committed::Done | Committed::Kept) | None => request,
                };
                self.note_suspicion(id, &request);
                Effect::Member(request)
            }
            Effect::ApplyObjects
            | Effect::EnsureBackend(_)
            | Effect::CheckCandidate
            | Effect::Validate
            | Effect::DeleteObjects
            | Effect::RemoveBackend(_) => effect,
        };
        self.ask(id, Job::Effect(Box::new(effect))).await;
    }

    /// Gateway steps wait for the gateway to accept this authority; nothing else does.
    fn gateway_gate(&self, effect: &Effect) -> Option<Waiting> {
        match effect {
            Effect::Member(_) | Effect::EnsureBackend(_) | Effect::RemoveBackend(_) => {}
            Effect::ApplyObjects | Effect::CheckCandidate | Effect::Validate | Effect::DeleteObjects => {
                return None;
            }
        }
        if self.gateway.accepts(self.epoch()) {
            return None;
        }
        let why = self.gateway.fault.as_ref().map_or_else(
            || "it has not been told yet".to_owned(),
            |fault| format!("{}: {}", fault.label, fault.detail),
        );
        Some(Waiting {
            reason: WaitReason::Unknown,
            detail: format!("the gateway has not accepted epoch {}: {why}", self.epoch()),
            deadline: None,
        })
    }

    pub(super) async fn performed(&mut self, performed: Performed) {
        let Performed {
            ticket,
            instance,
            effect,
            outcome,
        } = performed;
        if self.take_outstanding(&instance, ticket, "Performed").is_none() {
            return;
        }
        self.settle(&instance, effect, outcome, ticket.epoch).await;
    }

    /// Records what came of an effect that was begun under an epoch, and goes on.
    pub(super) async fn settle(
        &mut self,
        id: &InstanceId,
        effect: Effect,
        outcome: EffectOutcome,
        sent: Epoch,
    ) {
        bump(
            &COUNTERS.effects,
            &[("effect", effect.label()), ("outcome", label(&outcome))],
        );
        let Some(mut ctx) = self.context(id) else { return };
        let now = self.ports.clock.now();
        let Some(live) = self.live.get(id) else { return };
        let settled = settle::settle(&live.row, &effect, &outcome, sent, &ctx, now);
        settle::remember(&mut ctx, &effect, &outcome);
        if let (Effect::Member(request), Some(StepOutcome::Unknown)) = (&effect, settled.step)
            && is_refused(&outcome)
        {
            self.open_steps.note_refused_in_doubt(request);
        }
        if let Some(live) = self.live.get_mut(id) {
            live.confirmed = ctx.confirmed;
            live.fresh_placement = ctx.fresh_placement;
        }
        if settled.fenced {
            return self.end_term("gateway");
        }
        let mut writes = Vec::new();
        if let (Effect::Member(request), Some(step)) = (&effect, settled.step) {
            writes.push(Write::FinishStep {
                operation: request.operation.clone(),
                step: request.step.clone(),
                outcome: step,
            });
        }
        if let Some(change) = &settled.change {
            writes.extend(self.change_writes(id, change));
        }
        if !writes.is_empty() && self.commit(writes).await.is_none() {
            // The step stays open in the journal and is replayed.
            return self.plan_when_settled().await;
        }
        if let Some(waiting) = settled.waiting {
            let refused = is_drain(&effect) && waiting.reason == WaitReason::ServingFloor;
            let at = self.ports.clock.monotonic();
            let kept = refused.then(|| (waiting.clone(), at));
            self.wait(id, waiting).await;
            if let Some(live) = self.live.get_mut(id) {
                live.refused_drain = kept;
                // It said that it waits: nothing more in this round.
                live.steps = MAX_STEPS;
            }
            self.pump(id).await;
            return self.plan_when_settled().await;
        }
        if self.go_on(id, changes_the_world(&effect)).await {
            self.drive(id).await;
        } else {
            self.plan_when_settled().await;
        }
    }

    /// Everything a decision about this instance may take into account.
    pub(super) fn context(&self, id: &InstanceId) -> Option<StepContext> {
        let identity = self.identity.as_ref()?;
        let live = self.live.get(id)?;
        let desired = self.desired();
        // S5 and S6 are lifted for a pool that is being emptied.
        let emptying = self.mode == PoolMode::Emptying;
        let open = self.open_steps.of(id).next();
        let mut confirmed = live.confirmed;
        confirmed.step_fenced = open.is_some_and(|open| self.step_fenced(live, open));
        Some(StepContext {
            pool: identity.routing_group.clone(),
            epoch: self.epoch(),
            owner: self.owner.clone(),
            min_serving: if emptying {
                0
            } else {
                desired.map_or(1, |desired| desired.min_serving)
            },
            serving: self.serving_beside(id),
            leaving: self.leaving_beside(id),
            suspected_another: self.suspected_another(id),
            desired_digest: self.desired_digest.clone(),
            desired_release: desired.map(|desired| desired.blueprint.release.clone()),
            timings: self.timings(),
            node_checks: self.nodes().is_some(),
            probes_trusted: self.probes_trusted(),
            failing_for: live.failing_for,
            sent_before: open.is_some_and(OpenStep::has_earlier_copy),
            refused_in_doubt: open.is_some_and(|open| open.refused_in_doubt),
            open_step: open.map(|open| open.request.clone()),
            recovery: self
                .recoveries
                .iter()
                .find(|recovery| recovery.instance == *id)
                .cloned(),
            fresh_placement: live.fresh_placement.clone(),
            target: if emptying {
                0
            } else {
                desired.map_or(1, |desired| desired.instances.max(desired.min_serving))
            },
            answering: self.answering_beside(id),
            gateway_pool: self.gateway.pool.clone(),
            confirmed,
        })
    }

    /// Instances whose rows serve, and of which the gateway does not say that it does not hold them.
    pub(super) fn serving(&self) -> u32 {
        let serving = self.live.values().filter(|live| live.serves());
        u32::try_from(serving.count()).unwrap_or(u32::MAX)
    }

    /// Of these, those that no step in flight may have taken away; `id` itself counts in any case.
    fn serving_beside(&self, id: &InstanceId) -> u32 {
        let gone = self
            .live
            .iter()
            .filter(|(other, live)| live.serves() && *other != id && self.is_leaving(other));
        let gone = u32::try_from(gone.count()).unwrap_or(u32::MAX);
        self.serving().saturating_sub(gone)
    }

    /// Others that serve, that no step in flight may have taken away, and that answered well when last read.
    fn answering_beside(&self, id: &InstanceId) -> u32 {
        let answering = self.live.iter().filter(|(other, live)| {
            let at_the_gateway = live.row.member.as_ref().map(|member| member.phase);
            takes_work(live.row.phase, at_the_gateway, live.unregistered)
                && *other != id
                && live.health.is_well()
                && !self.is_leaving(other)
        });
        u32::try_from(answering.count()).unwrap_or(u32::MAX)
    }

    /// Others that the gateway may still count as serving although a step in flight takes them away.
    fn leaving_beside(&self, id: &InstanceId) -> u32 {
        let leaving = self.live.iter().filter(|(other, live)| {
            let counted = matches!(live.row.phase, Phase::Admitted | Phase::Serving);
            counted && *other != id && self.is_leaving(other)
        });
        u32::try_from(leaving.count()).unwrap_or(u32::MAX)
    }

    /// Whether a drain or a suspicion of an instance that may still take work is journaled and not settled.
    pub(super) fn is_leaving(&self, id: &InstanceId) -> bool {
        let Some(live) = self.live.get(id) else {
            return false;
        };
        let may_work = matches!(live.row.phase, Phase::Admitted | Phase::Serving | Phase::Suspect);
        let journaled = || {
            let mut own = self.open_steps.of(id);
            own.any(|open| is_leave(&open.request.action))
        };
        may_work && (live.sends_away() || journaled())
    }

    /// When the journaled step that may have taken an instance away was first sent, as far as is known.
    pub(super) fn leaving_since(&self, id: &InstanceId) -> Option<jiff::Timestamp> {
        let own = self.open_steps.of(id);
        own.filter(|open| is_leave(&open.request.action))
            .map(|open| open.since)
            .min()
    }

    fn note_suspicion(&mut self, id: &InstanceId, request: &MemberRequest) {
        if let (MemberAction::Suspect { .. }, Some(order)) = (&request.action, &self.order) {
            self.suspected = Some((order.tick, id.clone()));
        }
    }

    /// Whether another instance was told SUSPECT in this round (S6).
    fn suspected_another(&self, id: &InstanceId) -> bool {
        let now = self.order.as_ref().map(|order| order.tick);
        self.suspected
            .as_ref()
            .is_some_and(|(tick, other)| Some(*tick) == now && other != id)
    }
}

const fn is_refused(outcome: &EffectOutcome) -> bool {
    matches!(
        outcome,
        EffectOutcome::Member(crate::gateway::port::Outcome::Refused(_))
    )
}

fn is_drain(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Member(MemberRequest {
            action: MemberAction::Drain { .. },
            ..
        })
    )
}

/// Whether what was seen before the effect may be out of date after it.
const fn changes_the_world(effect: &Effect) -> bool {
    match effect {
        Effect::ApplyObjects | Effect::Member(_) | Effect::DeleteObjects | Effect::RemoveBackend(_) => true,
        Effect::EnsureBackend(_) | Effect::CheckCandidate | Effect::Validate => false,
    }
}

/// Whether everything that is needed was asked, answered or not.
fn covers(seen: &Observation, needs: Needs) -> bool {
    let asked = |needed: bool, not_asked: bool| !needed || !not_asked;
    asked(needs.workload, seen.workload == Reading::NotAsked)
        && asked(needs.member, seen.member == Reading::NotAsked)
        && asked(needs.obligations, seen.obligations == Reading::NotAsked)
        && asked(needs.info, seen.info == Reading::NotAsked)
        && asked(needs.endpoint, seen.endpoint == Reading::NotAsked)
        && asked(needs.placement, seen.placement == Reading::NotAsked)
        && asked(needs.namespace_pods, seen.namespace_pods == Reading::NotAsked)
}

fn label(outcome: &EffectOutcome) -> &'static str {
    use crate::gateway::port::Outcome;
    use crate::pool::observation::Validation;
    use crate::pool::step::{Apply, Deletion};
    match outcome {
        EffectOutcome::Applied(Apply::Complete(_)) => "complete",
        EffectOutcome::Applied(Apply::Foreign(_)) | EffectOutcome::Deleted(Deletion::Foreign(_)) => "foreign",
        EffectOutcome::Applied(Apply::Refused(_))
        | EffectOutcome::Backend(Outcome::Refused(_))
        | EffectOutcome::Member(Outcome::Refused(_)) => "refused",
        EffectOutcome::Applied(Apply::Unknown(_))
        | EffectOutcome::Deleted(Deletion::Unknown(_))
        | EffectOutcome::Backend(Outcome::Unknown(_))
        | EffectOutcome::Member(Outcome::Unknown(_))
        | EffectOutcome::Validated(Validation::Unknown(_)) => "unknown",
        EffectOutcome::Backend(Outcome::Applied(())) | EffectOutcome::Member(Outcome::Applied(_)) => {
            "applied"
        }
        EffectOutcome::Backend(Outcome::Replayed(())) | EffectOutcome::Member(Outcome::Replayed(_)) => {
            "replayed"
        }
        EffectOutcome::Checked(_) => "checked",
        EffectOutcome::Validated(Validation::Proven(_)) => "proven",
        EffectOutcome::Validated(Validation::NotReady(_)) => "not_ready",
        EffectOutcome::Validated(Validation::OtherProcess(_)) => "other_process",
        EffectOutcome::Deleted(Deletion::Absent) => "absent",
        EffectOutcome::Deleted(Deletion::Remaining(_)) => "remaining",
        EffectOutcome::Interrupted => "interrupted",
    }
}
