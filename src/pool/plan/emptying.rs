//! The pool is being emptied on a person's confirmed word: S5 and S6 are lifted, nothing is created, and
//! what serves is drained one at a time. A stuck drain does not hold the next one.

use super::census::{Census, by_age, going_since, is_serving, is_stuck, since};
use super::reason::PlanReason;
use super::{Action, InstanceView, PlanInput, Verdict};
use crate::pool::step::WaitReason;

pub(super) fn verdict(input: &PlanInput, census: &Census<'_>) -> Verdict {
    // Those that already fail first, so that the healthy ones serve longest; then the oldest.
    let next = census
        .live
        .iter()
        .copied()
        .filter(|view| is_serving(view))
        .min_by(|left, right| {
            right
                .suspected_locally
                .cmp(&left.suspected_locally)
                .then_with(|| by_age(left, right))
        });
    let Some(next) = next else {
        return Verdict::Waits(vec![PlanReason::Emptied {
            leaving: census.live_count(),
        }]);
    };
    let moving = census
        .departing
        .iter()
        .find(|view| !is_stuck(view, input.timings.drain_stuck_after, input.now));
    if let Some(moving) = moving {
        return Verdict::Waits(vec![PlanReason::DrainHeldBy {
            instance: moving.id.clone(),
            phase: moving.phase,
            outstanding: moving.outstanding,
            age: since(going_since(moving), input.now),
            stuck: false,
        }]);
    }
    if census.serving == 1 && refused_by_the_floor(next) {
        return Verdict::Waits(vec![PlanReason::LastMemberHeld {
            instance: next.id.clone(),
        }]);
    }
    Verdict::Acts(
        Action::Drain(next.id.clone()),
        PlanReason::Empties {
            instance: next.id.clone(),
            serving: census.serving,
        },
        Vec::new(),
    )
}

/// The gateway keeps a floor of at least one, whatever we ask for.
fn refused_by_the_floor(view: &InstanceView) -> bool {
    view.waiting
        .as_ref()
        .is_some_and(|waiting| waiting.reason == WaitReason::ServingFloor)
}
