//! Whether a pool holds a place in the replacement budget of the whole cluster.
//!
//! Told to the supervisor, which gives the places out; the plan itself only learns how many are left.

use std::time::Duration;

use jiff::Timestamp;

use super::InstanceView;
use super::census::{count, is_overdue, is_stuck};

/// Whether a planned replacement is under way: a member departs, or more live on the ordinary and the surge budget
/// than are desired. A drain that is stuck holds no place, nor does a candidate past its deadline, nor a member that
/// the gateway does not hold: other pools must not wait for them (L6). `stuck_after`: age of a drain beyond which it
/// is stuck. Without a desired state nothing is replaced; a drain that was begun is still under way.
#[must_use]
pub fn holds_a_place(
    views: &[InstanceView],
    desired: Option<u32>,
    stuck_after: Duration,
    now: Timestamp,
) -> bool {
    let moving: Vec<&InstanceView> = views
        .iter()
        .filter(|view| view.phase.occupies_capacity() && !view.unregistered)
        .filter(|view| !is_stuck(view, stuck_after, now) && !is_overdue(view, now))
        .collect();
    let departing = moving.iter().any(|view| view.phase.is_departing());
    let ordinary = moving.iter().filter(|view| view.repair_for.is_none()).count();
    departing || desired.is_some_and(|desired| count(ordinary) > desired)
}
