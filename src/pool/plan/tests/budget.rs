//! What holds a place in the budget of the whole cluster, and what must not.

use std::time::Duration;

use super::super::budget::holds_a_place;
use super::{ago, instance, noon, serving};
use crate::pool::phase::Phase;
use crate::pool::plan::InstanceView;

const STUCK_AFTER: Duration = Duration::from_mins(30);

fn holds(views: &[InstanceView], desired: Option<u32>) -> bool {
    holds_a_place(views, desired, STUCK_AFTER, noon())
}

#[test]
fn a_surge_and_a_drain_hold_a_place_until_they_are_over() {
    let at_rest = vec![serving("a"), serving("b")];
    assert!(!holds(&at_rest, Some(2)));
    let mut surging = at_rest.clone();
    surging.push(instance("c", Phase::Preparing));
    assert!(holds(&surging, Some(2)));
    let mut draining = at_rest;
    draining.push(instance("c", Phase::Draining));
    assert!(holds(&draining, Some(3)));
}

#[test]
fn a_repair_holds_none() {
    let mut views = vec![serving("a")];
    views.push(instance("b", Phase::Lost));
    let mut repair = instance("c", Phase::Preparing);
    repair.repair_for = Some("b".into());
    views.push(repair);
    assert!(!holds(&views, Some(2)));
}

#[test]
fn l6_nobody_waits_for_what_is_stuck() {
    let mut drain = instance("c", Phase::Draining);
    drain.phase_changed_at = ago(STUCK_AFTER.as_secs());
    let mut asked = instance("c", Phase::Serving);
    asked.leaving = true;
    asked.leaving_since = Some(ago(STUCK_AFTER.as_secs()));
    let mut candidate = instance("c", Phase::Validating);
    candidate.deadline = Some(noon());
    let mut unknown = instance("c", Phase::Serving);
    unknown.unregistered = true;
    for stuck in [drain, asked, candidate, unknown] {
        let mut views = vec![serving("a"), serving("b")];
        views.push(stuck);
        assert!(!holds(&views, Some(2)), "{:?}", views[2]);
    }
}

#[test]
fn l6_an_old_member_whose_drain_is_only_queued_is_not_stuck() {
    let mut queued = instance("c", Phase::Serving);
    queued.phase_changed_at = ago(86_400);
    queued.leaving = true;
    let mut views = vec![serving("a"), serving("b")];
    views.push(queued);
    assert!(holds(&views, Some(2)));
}

#[test]
fn l6_a_pool_whose_desired_state_is_unknown_holds_none_for_ever() {
    let mut views = vec![serving("a"), serving("b")];
    assert!(!holds(&views, None));
    views.push(instance("c", Phase::Draining));
    assert!(holds(&views, None), "what was begun goes on");
}
