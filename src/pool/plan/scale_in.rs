//! More serve than desired, and nothing is to be replaced: the surplus drains, one by one.
//!
//! What is at risk goes first, then repair members (their budget is for failures, and they hold it for
//! life), then the oldest. Never below desired, and so never below the floor. What is stored
//! unreadably is left alone.

use super::census::{Census, by_age, is_serving};
use super::reason::PlanReason;
use super::replacement::pending;
use super::{Action, EvidenceView, InstanceView, PlanInput, Verdict};
use crate::pool::outdated::Outdated;

pub(super) fn verdict(input: &PlanInput, census: &Census<'_>) -> Verdict {
    let target = input.target();
    if census.serving <= target || pending(input, census) > 0 {
        return Verdict::Idle;
    }
    let surplus = census
        .live
        .iter()
        .copied()
        .filter(|view| is_serving(view) && is_readable(view))
        .filter(|view| census.answering_without(view) >= target)
        .min_by(|left, right| {
            right
                .at_risk
                .cmp(&left.at_risk)
                .then_with(|| right.repair_for.is_some().cmp(&left.repair_for.is_some()))
                .then_with(|| by_age(left, right))
        });
    let Some(surplus) = surplus else {
        return Verdict::Idle;
    };
    match census.drain_hold(input) {
        Some(hold) => Verdict::Waits(vec![hold]),
        None => Verdict::Acts(
            Action::Drain(surplus.id.clone()),
            PlanReason::ScalesIn {
                instance: surplus.id.clone(),
                serving: census.answering(),
                desired: target,
            },
            Vec::new(),
        ),
    }
}

fn is_readable(view: &InstanceView) -> bool {
    view.outdated != Outdated::Unreadable && view.evidence != EvidenceView::Unreadable
}
