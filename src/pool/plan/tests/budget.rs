//! What holds a place in the budget of the whole cluster, and what must not.

use std::time::Duration;

use super::super::budget::{holds_a_place, wish};
use super::{ago, instance, noon, plan, pool, serving};
use crate::pool::desired::Timings;
use crate::pool::evidence::Disruption;
use crate::pool::phase::Phase;
use crate::pool::plan::{Cause, InstanceView, PlanReason, PlanTimings, ReplacementBudget, Urgency};

const STUCK_AFTER: Duration = Duration::from_mins(30);

fn holds(views: &[InstanceView], desired: Option<u32>) -> bool {
    holds_if(true, views, desired)
}

fn holds_if(acts: bool, views: &[InstanceView], desired: Option<u32>) -> bool {
    let timings = PlanTimings::from(&Timings::default());
    assert_eq!(timings.drain_stuck_after, STUCK_AFTER);
    holds_a_place(views, desired, acts, &timings, noon())
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
    // Admitted long ago, and its coordinator never got eligible at the gateway.
    let mut ineligible = instance("c", Phase::Admitted);
    ineligible.phase_changed_at = ago(86_400);
    // Its objects can't be removed.
    let given_up = instance("c", Phase::FailedPreparing);
    for stuck in [drain, asked, candidate, unknown, ineligible, given_up] {
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

#[test]
fn l6_a_pool_that_drains_nothing_holds_a_place_only_while_something_goes_on_by_itself() {
    let mut views = vec![serving("a"), serving("b"), serving("c")];
    assert!(holds(&views, Some(2)), "it would drain one");
    assert!(!holds_if(false, &views, Some(2)));
    for goes_on in [Phase::Preparing, Phase::Admitted, Phase::Draining] {
        views[2] = instance("c", goes_on);
        assert!(holds_if(false, &views, Some(2)), "{goes_on}");
    }
}

#[test]
fn l6_a_surplus_that_waits_for_a_stuck_drain_or_that_a_failed_member_makes_holds_none() {
    let mut drain = instance("d", Phase::Draining);
    drain.phase_changed_at = ago(STUCK_AFTER.as_secs());
    for beside in [drain, instance("d", Phase::Lost), instance("d", Phase::Suspect)] {
        let mut views = vec![serving("a"), serving("b"), beside];
        assert!(!holds(&views, Some(2)), "{:?}", views[2]);
        views.push(instance("e", Phase::Preparing));
        assert!(
            holds(&views, Some(2)),
            "its replacement is on the way: {:?}",
            views[2]
        );
    }
    let mut views = vec![
        serving("a"),
        serving("b"),
        serving("c"),
        instance("d", Phase::Draining),
    ];
    views[3].phase_changed_at = ago(STUCK_AFTER.as_secs());
    assert!(!holds(&views, Some(2)));
}

#[test]
fn a_pool_that_once_had_a_repair_surges_on_a_place_like_any_other() {
    let mut once = serving("b");
    once.repair_for = Some("gone".into());
    let mut views = vec![serving("a"), once];
    assert!(!holds(&views, Some(2)));
    views.push(instance("c", Phase::Preparing));
    assert!(holds(&views, Some(2)));
}

#[test]
fn a_wish_for_a_place_is_seen_behind_another_wait() {
    let mut input = pool(
        2,
        1,
        vec![serving("a").drifted(60), instance("b", Phase::Suspect)],
    );
    input.max_repair = 0;
    input.max_surge = 2;
    input.budget = ReplacementBudget::Left(0);
    let made = plan(&input);
    assert!(
        !matches!(made.reason, PlanReason::ClusterBudgetSpent { .. }),
        "{}",
        made.reason
    );
    let drifted = Urgency::new(Cause::Node(Disruption::Drifted), None, false, ago(60));
    assert_eq!(wish(&made), Some(drifted), "{made:?}");
    input.budget = ReplacementBudget::Unlimited;
    assert_eq!(wish(&plan(&input)), None);
}

#[test]
fn a_wish_is_as_urgent_as_the_most_urgent_instance() {
    let end = noon().saturating_add(Duration::from_mins(5)).unwrap();
    let mut input = pool(
        4,
        3,
        vec![
            serving("a").old_release(),
            serving("b").drifted(900),
            serving("c").leaving(Disruption::Deleting, 10, Some(end)),
            serving("d").leaving(Disruption::Deleting, 800, None),
        ],
    );
    input.budget = ReplacementBudget::Left(0);
    let forced = Urgency::new(Cause::Node(Disruption::Deleting), Some(end), false, ago(10));
    assert_eq!(wish(&plan(&input)), Some(forced));
}
