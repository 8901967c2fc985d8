//! Fewer instances than desired: ordinary creates, one at a time.
//!
//! Below `desired` live instances a create needs no budget. An instance that holds a slot and cannot
//! serve again (it drains for hours, or its remains cannot be removed) does not stop the pool: up to
//! `max_surge` such slots are covered from the surge budget (L6). Failed members are not covered here;
//! they have the repair budget.

use super::census::{Census, count};
use super::reason::PlanReason;
use super::{Action, PlanInput, Verdict};

pub(super) fn verdict(input: &PlanInput, census: &Census<'_>) -> Verdict {
    let target = input.target();
    let live = census.live_count();
    if live < target {
        return match census.planned_create_hold(input) {
            Some(hold) => Verdict::Waits(vec![hold]),
            None => Verdict::Acts(
                Action::Create { repair_for: None },
                PlanReason::FillsCapacity {
                    live,
                    desired: target,
                },
                Vec::new(),
            ),
        };
    }
    if census.serving >= target {
        return Verdict::Idle;
    }
    if let Some(candidate) = census.planned_candidate.or(census.repair_candidate) {
        return Verdict::Waits(vec![super::census::in_progress(candidate, input.now)]);
    }
    if let Some(admitted) = census.admitted.first()
        && census.supply() >= target
    {
        return Verdict::Waits(vec![awaits(admitted, input)]);
    }
    if live.saturating_sub(count(census.written_off.len())) >= target {
        return Verdict::Waits(vec![PlanReason::NothingToRepair {
            serving: census.serving,
            target_serving: target,
            live,
        }]);
    }
    let hold = census
        .planned_create_hold(input)
        .or_else(|| census.surge_hold(input, None));
    match hold {
        Some(hold) => Verdict::Waits(vec![hold]),
        None => Verdict::Acts(
            Action::Create { repair_for: None },
            PlanReason::CoversBlocked {
                blocked: census.written_off.iter().map(|view| view.id.clone()).collect(),
                serving: census.serving,
                desired: target,
            },
            Vec::new(),
        ),
    }
}

/// An admitted instance that is about to serve, as a reason to wait.
pub(super) fn awaits(admitted: &super::InstanceView, input: &PlanInput) -> PlanReason {
    PlanReason::AwaitsAdmitted {
        instance: admitted.id.clone(),
        age: super::census::since(admitted.phase_changed_at, input.now),
    }
}
