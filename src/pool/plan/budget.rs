//! Whether a pool holds a place in the replacement budget of the whole cluster, and how urgently it waits for one.
//!
//! Told to the supervisor, which gives the places out (`places`); the plan itself only learns how many are left.

use jiff::Timestamp;

use super::census::{count, is_stuck, written_off};
use super::{Finding, InstanceView, Plan, PlanReason, PlanTimings, Urgency};
use crate::pool::phase::Phase;

/// Whether a planned replacement is under way: a member departs, or more than are desired hold a slot of which
/// something is still expected. Other pools must not wait for what may never move (L6): a drain that is stuck holds
/// no place, nor does what the pool has written off (a candidate past its deadline or given up, a member that is
/// failed and repaired, never became eligible, or is not held by the gateway).
///
/// While nothing is on its way to serving, the surplus itself is what moves next. It does not where the pool drains
/// nothing (`acts` is false: it stands still, or may not act), where a drain is stuck, or where a failed member makes
/// up the number. Without a desired state (`desired` is `None`) nothing is replaced; a drain that was begun is still
/// under way.
#[must_use]
pub fn holds_a_place(
    views: &[InstanceView],
    desired: Option<u32>,
    acts: bool,
    timings: &PlanTimings,
    now: Timestamp,
) -> bool {
    let live: Vec<&InstanceView> = views
        .iter()
        .filter(|view| view.phase.occupies_capacity())
        .collect();
    let stuck = |view: &InstanceView| is_stuck(view, timings.drain_stuck_after, now);
    let departs = |view: &&InstanceView| view.phase.is_departing() && !view.unregistered;
    if live.iter().filter(|view| departs(view)).any(|view| !stuck(view)) {
        return true;
    }
    let Some(desired) = desired else { return false };
    let idle = written_off(&live, timings, now);
    let expected = live
        .iter()
        .filter(|view| !idle.iter().any(|idle| idle.id == view.id));
    let on_the_way = |view: &&&InstanceView| view.phase.is_candidate() || view.phase == Phase::Admitted;
    if expected.clone().any(|view| on_the_way(&view)) {
        return count(expected.count()) > desired;
    }
    let serving = expected.filter(|view| view.phase == Phase::Serving);
    acts && !live.iter().any(|view| stuck(view)) && count(serving.count()) > desired
}

/// How urgent the replacement is that a pool would start if it had a place, whatever else it waits for; `None` when
/// a place would change nothing.
#[must_use]
pub fn wish(plan: &Plan) -> Option<Urgency> {
    let wishes = plan.report.iter().filter_map(|line| match &line.finding {
        Finding::Waits(PlanReason::ClusterBudgetSpent { urgency, .. }) => Some(*urgency),
        Finding::Waits(_) | Finding::Idle | Finding::Acts(_) => None,
    });
    wishes.min()
}
