//! Whether a pool holds a place in the replacement budget of the whole cluster, and whether it waits for one.
//!
//! Told to the supervisor, which gives the places out; the plan itself only learns how many are left.

use jiff::Timestamp;

use super::census::{count, is_stuck, written_off};
use super::{Finding, InstanceView, Plan, PlanReason, PlanTimings};
use crate::pool::desired::PoolMode;

/// Whether a planned replacement is under way: a member departs, or more than are desired hold a slot of which
/// something is still expected. Other pools must not wait for what may never move (L6): a drain that is stuck holds
/// no place, nor does what the pool has written off (a candidate past its deadline or given up, a member that is
/// failed and repaired, never became eligible, or is not held by the gateway).
///
/// A pool that stands still drains nothing, so that a surplus of serving members stays what it is: only a candidate
/// that goes on by itself is under way there. Without a desired state (`desired` is `None`) nothing is replaced; a
/// drain that was begun is still under way.
#[must_use]
pub fn holds_a_place(
    views: &[InstanceView],
    desired: Option<u32>,
    mode: &PoolMode,
    timings: &PlanTimings,
    now: Timestamp,
) -> bool {
    let live: Vec<&InstanceView> = views
        .iter()
        .filter(|view| view.phase.occupies_capacity())
        .collect();
    let departs = |view: &&InstanceView| {
        view.phase.is_departing() && !view.unregistered && !is_stuck(view, timings.drain_stuck_after, now)
    };
    if live.iter().any(departs) {
        return true;
    }
    let Some(desired) = desired else { return false };
    let idle = written_off(&live, timings, now);
    let expected: Vec<&&InstanceView> = live
        .iter()
        .filter(|view| !idle.iter().any(|idle| idle.id == view.id))
        .collect();
    let goes_on =
        PlanReason::standstill(mode).is_none() || expected.iter().any(|view| view.phase.is_candidate());
    count(expected.len()) > desired && goes_on
}

/// Whether a pool would replace something if it had a place, whatever else it waits for.
#[must_use]
pub fn waits_for_a_place(plan: &Plan) -> bool {
    plan.report.iter().any(|line| match &line.finding {
        Finding::Waits(PlanReason::ClusterBudgetSpent { .. }) => true,
        Finding::Waits(_) | Finding::Idle | Finding::Acts(_) => false,
    })
}
