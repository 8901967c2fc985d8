//! Failed members get a replacement on the repair budget, beside whatever planned candidate there is.
//!
//! A repair names a member that the gateway itself holds LOST, SUSPECT or departing; local suspicion
//! opens none. A departing member is repaired only when nothing else covers it: its own replacement is
//! planned work and belongs to the surge budget.

use super::census::{Census, count, in_progress};
use super::reason::{Held, PlanReason};
use super::{Action, InstanceView, PlanInput, Verdict};
use crate::gateway::model::MemberPhase;
use crate::pool::backoff::repair_hold;
use crate::pool::phase::Phase;

pub(super) fn verdict(input: &PlanInput, census: &Census<'_>) -> Verdict {
    let target = input.target();
    if census.serving >= target {
        return Verdict::Idle;
    }
    let Some((held, member)) = unrepaired(census) else {
        return Verdict::Idle;
    };
    if held == Held::Departing && is_covered(input, census) {
        return Verdict::Idle;
    }
    // What is already about to serve as a repair may be all that is missing.
    let on_the_way = census
        .admitted
        .iter()
        .filter(|view| view.repair_for.is_some())
        .count();
    if census.serving.saturating_add(count(on_the_way)) >= target {
        return Verdict::Idle;
    }
    if let Some(candidate) = census.repair_candidate {
        return Verdict::Waits(vec![in_progress(candidate, input.now)]);
    }
    if census.repairing >= input.max_repair {
        return Verdict::Waits(vec![PlanReason::RepairBudgetExhausted {
            target: member.id.clone(),
            repairing: census.repairing,
            limit: input.max_repair,
        }]);
    }
    if let Some(full) = census.full(input) {
        return Verdict::Waits(vec![full]);
    }
    if let Some(hold) = repair_hold(&input.failures, input.timings.candidate_backoff, input.now) {
        return Verdict::Waits(vec![PlanReason::BackingOff(hold)]);
    }
    Verdict::Acts(
        Action::Create {
            repair_for: Some(member.id.clone()),
        },
        PlanReason::Repairs {
            target: member.id.clone(),
            held,
            serving: census.serving,
            target_serving: target,
        },
        Vec::new(),
    )
}

/// The member to repair: LOST before SUSPECT before departing, then the smallest id; never one that a
/// live instance already repairs.
fn unrepaired<'a>(census: &Census<'a>) -> Option<(Held, &'a InstanceView)> {
    census
        .live
        .iter()
        .copied()
        .filter_map(|view| Some((held_as(view)?, view)))
        .filter(|(_, view)| census.repair_of(&view.id).is_none())
        .min_by(|left, right| (left.0, &left.1.id).cmp(&(right.0, &right.1.id)))
}

/// As what the gateway holds it, if that opens a repair. The gateway accepts a repair for exactly these; what it
/// does not hold at all is covered from the surge budget.
fn held_as(view: &InstanceView) -> Option<Held> {
    if view.unregistered {
        return None;
    }
    match view.phase {
        // Never admitted, so never missed; or closed; or nothing this binary understands.
        Phase::Pending
        | Phase::Creating
        | Phase::Preparing
        | Phase::Validating
        | Phase::FailedPreparing
        | Phase::Retired
        | Phase::FailureRetired
        | Phase::Unrecognised => return None,
        // LOST at the gateway turns into RETIRING and RETIRED while its objects are removed.
        Phase::Lost => return view.member.map(|_| Held::Lost),
        Phase::Admitted
        | Phase::Serving
        | Phase::Draining
        | Phase::Sealed
        | Phase::Retiring
        | Phase::Suspect => {}
    }
    match view.member? {
        MemberPhase::Lost => Some(Held::Lost),
        MemberPhase::Suspect => Some(Held::Suspect),
        MemberPhase::Draining | MemberPhase::Sealed | MemberPhase::Retiring => Some(Held::Departing),
        MemberPhase::Preparing | MemberPhase::Active | MemberPhase::Retired | MemberPhase::Unrecognised => {
            None
        }
    }
}

/// Whether departing members are covered without the repair budget: by what is on its way, or by a
/// planned create that may start now. Below the floor only repairs count, since planned work may wait.
fn is_covered(input: &PlanInput, census: &Census<'_>) -> bool {
    let planned_may_start =
        census.planned_create_hold(input).is_none() && census.surge_hold(input, None).is_none();
    if planned_may_start {
        return true;
    }
    if census.serving >= input.min_serving {
        return census.supply() >= input.target();
    }
    let repairs = census
        .admitted
        .iter()
        .chain(census.repair_candidate.iter())
        .filter(|view| view.repair_for.is_some())
        .count();
    census.serving.saturating_add(count(repairs)) >= input.min_serving
}
