//! The counts every rule decides by, made once per plan.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::reason::PlanReason;
use super::{InstanceView, PlanInput, PlanTimings};
use crate::gateway::model::MemberPhase;
use crate::pool::backoff::planned_hold;
use crate::pool::floor::{left_without_one, takes_work};
use crate::pool::ids::InstanceId;
use crate::pool::phase::Phase;

/// The pool in numbers. The views are in one fixed order, so that no rule depends on the caller's.
pub(super) struct Census<'a> {
    /// Instances that occupy capacity, by (created_at, id).
    pub(super) live: Vec<&'a InstanceView>,
    /// Rows that serve: phase SERVING, and the gateway does not say otherwise.
    pub(super) serving: u32,
    /// Of these, those without sustained bad readings.
    pub(super) healthy: u32,
    /// Of these, those that answered well when last read: what a drain may count on (S5).
    rows_answering: u32,
    /// What the gateway holds ACTIVE, when it said so.
    gateway_active: Option<u32>,
    /// What it may count among those although a step in flight takes it away.
    leaving: u32,
    /// On the repair budget, in any phase, for life.
    pub(super) repairing: u32,
    /// Occupying capacity and not on the repair budget: what the gateway weighs against desired + surge.
    pub(super) ordinary: u32,
    /// The candidate on the ordinary or surge budget that is being prepared, if there is one: the oldest.
    pub(super) planned_candidate: Option<&'a InstanceView>,
    /// The candidate on the repair budget that is being prepared, if there is one: the oldest.
    pub(super) repair_candidate: Option<&'a InstanceView>,
    /// Candidates of either kind that are being prepared.
    pub(super) candidates: u32,
    /// Candidates of either kind that outlived their deadline, and that nobody may give up for it: they
    /// hold a slot and nothing else (L6). Oldest first.
    pub(super) stuck: Vec<&'a InstanceView>,
    /// Admitted a short while ago, not doubtful: about to serve.
    pub(super) admitted: Vec<&'a InstanceView>,
    /// DRAINING, SEALED or RETIRING, or about to be by a step that is not settled; oldest phase first.
    pub(super) departing: Vec<&'a InstanceView>,
    /// Holding a slot, not to be counted on to serve (again), and not waiting for a repair: departing, not held by
    /// the gateway, asked to go long ago without an answer, given
    /// up, failed and already repaired, of an unknown phase, stuck before its admission, or admitted long
    /// ago and still not eligible.
    pub(super) written_off: Vec<&'a InstanceView>,
}

impl<'a> Census<'a> {
    pub(super) fn of(input: &'a PlanInput) -> Self {
        let mut live: Vec<&InstanceView> = input
            .views
            .iter()
            .filter(|view| view.phase.occupies_capacity())
            .collect();
        live.sort_by(|left, right| by_age(left, right));

        let serving = live.iter().filter(|view| is_serving(view)).count();
        let healthy = live.iter().filter(|view| is_healthy(view)).count();
        let answering = live.iter().filter(|view| is_answering(view)).count();
        let repairing = live.iter().filter(|view| view.repair_for.is_some()).count();
        let (stuck, candidates): (Vec<&InstanceView>, Vec<&InstanceView>) = live
            .iter()
            .copied()
            .filter(|view| view.phase.is_candidate())
            .partition(|view| is_overdue(view, input.now));
        let admitted: Vec<&InstanceView> = live
            .iter()
            .copied()
            .filter(|view| is_about_to_serve(view, &input.timings, input.now))
            .collect();
        let mut departing: Vec<&InstanceView> = live
            .iter()
            .copied()
            .filter(|view| view.phase.is_departing() || view.leaving)
            .collect();
        departing.sort_by(|left, right| (going_since(left), &left.id).cmp(&(going_since(right), &right.id)));
        let written_off = written_off(&live, &input.timings, input.now);

        Self {
            serving: count(serving),
            healthy: count(healthy),
            rows_answering: count(answering),
            gateway_active: input.gateway_active,
            leaving: count(live.iter().filter(|view| is_leaving_active(view)).count()),
            repairing: count(repairing),
            ordinary: count(live.len() - repairing),
            planned_candidate: candidates.iter().copied().find(|view| view.repair_for.is_none()),
            repair_candidate: candidates.iter().copied().find(|view| view.repair_for.is_some()),
            candidates: count(candidates.len()),
            stuck,
            admitted,
            departing,
            written_off,
            live,
        }
    }

    /// Everything that occupies capacity.
    pub(super) fn live_count(&self) -> u32 {
        count(self.live.len())
    }

    /// What is on its way to serving, on either budget.
    pub(super) fn on_the_way(&self) -> u32 {
        self.candidates.saturating_add(count(self.admitted.len()))
    }

    /// What serves, or is on its way to.
    pub(super) fn supply(&self) -> u32 {
        self.serving.saturating_add(self.on_the_way())
    }

    /// How many would serve and answer after this instance were drained.
    pub(super) fn answering_without(&self, view: &InstanceView) -> u32 {
        let counted = self.rows_answering.saturating_sub(u32::from(is_answering(view)));
        let others = self.leaving.saturating_sub(u32::from(is_leaving_active(view)));
        left_without_one(counted, self.gateway_active, others)
    }

    /// How many a drain may count on: never more than the gateway holds ACTIVE.
    pub(super) fn answering(&self) -> u32 {
        self.gateway_active.map_or(self.rows_answering, |active| {
            self.rows_answering.min(active.saturating_sub(self.leaving))
        })
    }

    /// Members that the gateway does not hold, as a reason.
    pub(super) fn unregistered(&self) -> Option<PlanReason> {
        let unregistered = self.live.iter().filter(|view| view.unregistered);
        let instances: Vec<InstanceId> = unregistered.map(|view| view.id.clone()).collect();
        (!instances.is_empty()).then_some(PlanReason::NotAtTheGateway { instances })
    }

    /// Serving, and not counted where a drain is weighed.
    pub(super) fn not_counted(&self) -> u32 {
        self.serving.saturating_sub(self.answering())
    }

    /// The instance whose live repair names `target`.
    pub(super) fn repair_of(&self, target: &InstanceId) -> Option<&'a InstanceView> {
        self.live
            .iter()
            .copied()
            .find(|view| view.repair_for.as_ref() == Some(target))
    }

    /// Why no drain may start now: one is in flight (S7). A stuck one lets another start beside it as
    /// long as surge room is left, that is, as long as fewer drains than `max_surge` hold a slot that no
    /// repair has taken over.
    pub(super) fn drain_hold(&self, input: &PlanInput) -> Option<PlanReason> {
        let age = |view: &InstanceView| since(going_since(view), input.now);
        let stuck = |view: &InstanceView| is_stuck(view, input.timings.drain_stuck_after, input.now);
        let held_by = |view: &InstanceView, stuck| PlanReason::DrainHeldBy {
            instance: view.id.clone(),
            phase: view.phase,
            outstanding: view.outstanding,
            age: age(view),
            stuck,
        };
        if let Some(moving) = self.departing.iter().find(|view| !stuck(view)) {
            return Some(held_by(moving, false));
        }
        let unrepaired = self
            .departing
            .iter()
            .filter(|view| self.repair_of(&view.id).is_none())
            .count();
        if count(unrepaired) < input.max_surge {
            return None;
        }
        self.departing.first().map(|oldest| held_by(oldest, true))
    }

    /// Why no candidate may be made on the ordinary or surge budget now, whatever the room.
    pub(super) fn planned_create_hold(&self, input: &PlanInput) -> Option<PlanReason> {
        if let Some(candidate) = self.planned_candidate {
            return Some(in_progress(candidate, input.now));
        }
        let timings = &input.timings;
        planned_hold(
            &input.failures,
            timings.candidate_backoff,
            timings.candidate_backoff_max,
            input.now,
        )
        .map(PlanReason::BackingOff)
    }

    /// Why the surge budget has no room for one more, if so.
    pub(super) fn surge_hold(&self, input: &PlanInput, instance: Option<&InstanceId>) -> Option<PlanReason> {
        let limit = surge_limit(input);
        if self.ordinary >= limit {
            if let Some(candidate) = self.stuck.iter().find(|view| view.repair_for.is_none()) {
                return Some(self.stuck_reason(candidate, input));
            }
            return Some(PlanReason::SurgeExhausted {
                instance: instance.cloned(),
                live: self.ordinary,
                limit,
                held_by: self
                    .live
                    .iter()
                    .filter(|view| view.repair_for.is_none() && !is_serving(view))
                    .map(|view| view.id.clone())
                    .collect(),
            });
        }
        self.full(input)
    }

    /// A candidate that outlived its deadline, as a reason: which, for how long, why, and what it costs.
    pub(super) fn stuck_reason(&self, candidate: &InstanceView, input: &PlanInput) -> PlanReason {
        let limit = surge_limit(input);
        PlanReason::CandidateStuck {
            instance: candidate.id.clone(),
            phase: candidate.phase,
            age: since(candidate.phase_changed_at, input.now),
            waiting: candidate.waiting.clone(),
            live: self.ordinary,
            limit,
        }
    }

    /// Why the pool has no room for any instance, on whatever budget, if so.
    pub(super) fn full(&self, input: &PlanInput) -> Option<PlanReason> {
        let limit = input
            .target()
            .saturating_add(input.max_surge)
            .saturating_add(input.max_repair);
        let live = self.live_count();
        (live >= limit).then_some(PlanReason::PoolFull { live, limit })
    }
}

/// How many instances may be live on the ordinary and the surge budget.
fn surge_limit(input: &PlanInput) -> u32 {
    input.target().saturating_add(input.max_surge)
}

/// Whether a candidate outlived the deadline of its phase. One that may be given up for that no longer is a
/// candidate when a plan is made; what is left may not be: an API error, a join that stays unknown, a
/// gateway that does not answer.
pub(super) fn is_overdue(view: &InstanceView, now: Timestamp) -> bool {
    view.phase.is_candidate() && view.deadline.is_some_and(|deadline| now >= deadline)
}

/// A candidate in progress, as a reason to wait.
pub(super) fn in_progress(candidate: &InstanceView, now: Timestamp) -> PlanReason {
    PlanReason::CandidateInProgress {
        instance: candidate.id.clone(),
        phase: candidate.phase,
        age: since(candidate.phase_changed_at, now),
        waiting: candidate.waiting.as_ref().map(|waiting| waiting.detail.clone()),
    }
}

/// Since when it departs, or was first asked to: the age of a serving phase is that of its service.
pub(super) fn going_since(view: &InstanceView) -> Timestamp {
    match view.leaving_since {
        Some(asked) if !view.phase.is_departing() => asked,
        Some(_) | None => view.phase_changed_at,
    }
}

/// Whether a drain in flight has been so for too long, or a step that may have begun one. What is only about to be
/// sent never has: the age of its phase is that of its service.
pub(super) fn is_stuck(view: &InstanceView, stuck_after: Duration, now: Timestamp) -> bool {
    let asked = view.phase.is_departing() || view.leaving_since.is_some();
    asked && since(going_since(view), now) >= stuck_after
}

/// Whether a row serves, and no step that is not settled takes it away.
pub(super) fn is_serving(view: &InstanceView) -> bool {
    takes_work(view.phase, view.member, view.unregistered) && !view.leaving
}

/// Whether it counts where a replacement is weighed: without sustained bad readings.
pub(super) fn is_healthy(view: &InstanceView) -> bool {
    is_serving(view) && !view.suspected_locally
}

/// Whether it counts where a drain is weighed: a single bad reading may make a drain wait, and costs nothing.
fn is_answering(view: &InstanceView) -> bool {
    is_healthy(view) && view.answering
}

/// Whether the gateway may count it as ACTIVE although a step that is not settled takes it away.
fn is_leaving_active(view: &InstanceView) -> bool {
    view.leaving && matches!(view.phase, Phase::Admitted | Phase::Serving)
}

/// Of what is live, that which holds a slot and is not to be counted on ([`Census::written_off`]).
pub(super) fn written_off<'a>(
    live: &[&'a InstanceView],
    timings: &PlanTimings,
    now: Timestamp,
) -> Vec<&'a InstanceView> {
    let repaired: BTreeSet<&InstanceId> = live.iter().filter_map(|view| view.repair_for.as_ref()).collect();
    let gone = |view: &&InstanceView| is_written_off(view, repaired.contains(&view.id), timings, now);
    live.iter().copied().filter(gone).collect()
}

fn is_about_to_serve(view: &InstanceView, timings: &PlanTimings, now: Timestamp) -> bool {
    view.phase == Phase::Admitted
        && !view.suspected_locally
        && !view.leaving
        && !view.unregistered
        && since(view.phase_changed_at, now) < timings.admitted_patience
}

fn is_written_off(view: &InstanceView, repaired: bool, timings: &PlanTimings, now: Timestamp) -> bool {
    match view.phase {
        Phase::Draining | Phase::Sealed | Phase::Retiring | Phase::FailedPreparing | Phase::Unrecognised => {
            true
        }
        // The gateway takes no repair of what it does not hold.
        Phase::Suspect | Phase::Lost => repaired || view.unregistered,
        Phase::Admitted => !is_about_to_serve(view, timings, now),
        Phase::Serving => {
            view.unregistered
                || is_departed_at_the_gateway(view)
                || is_stuck(view, timings.drain_stuck_after, now)
        }
        Phase::Pending | Phase::Creating | Phase::Preparing | Phase::Validating => is_overdue(view, now),
        Phase::Retired | Phase::FailureRetired => false,
    }
}

fn is_departed_at_the_gateway(view: &InstanceView) -> bool {
    view.member.is_some_and(|member| match member {
        MemberPhase::Draining
        | MemberPhase::Sealed
        | MemberPhase::Retiring
        | MemberPhase::Retired
        | MemberPhase::Unrecognised => true,
        MemberPhase::Preparing | MemberPhase::Active | MemberPhase::Suspect | MemberPhase::Lost => false,
    })
}

/// Oldest first; the id decides between equals.
pub(super) fn by_age(left: &InstanceView, right: &InstanceView) -> Ordering {
    (left.created_at, &left.id).cmp(&(right.created_at, &right.id))
}

/// Time since `then`; zero when the clock went back.
pub(super) fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

pub(super) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
