//! Members fail: a repair on its own budget, named after what the gateway itself holds as failed.

use super::*;

#[test]
fn a_lost_member_is_repaired() {
    let made = plan(&pool(
        3,
        2,
        vec![serving("a"), serving("b"), instance("c", Phase::Lost)],
    ));
    assert_eq!(made.action, repair("c"));
    insta::assert_snapshot!(made.reason, @"creates a repair of c, which the gateway holds as LOST: 2 of 3 serve");
}

#[test]
fn o05_a_pending_planned_candidate_never_delays_a_repair() {
    for phase in [
        Phase::Pending,
        Phase::Creating,
        Phase::Preparing,
        Phase::Validating,
        Phase::FailedPreparing,
    ] {
        let planned = instance("planned", phase).since(3600);
        let views = vec![
            serving("a").drifted(60),
            serving("b"),
            instance("c", Phase::Suspect),
            planned,
        ];
        assert_eq!(plan(&pool(3, 2, views)).action, repair("c"), "{phase}");
    }
}

#[test]
fn o05_a_planned_candidate_may_be_prepared_beside_a_repair() {
    let repairing = instance("r", Phase::Pending).repairs("c");
    let views = vec![
        serving("a").drifted(60),
        serving("b"),
        instance("c", Phase::Suspect),
        repairing,
    ];
    let made = plan(&pool(3, 2, views));
    assert_eq!(made.action, create());
    assert_eq!(made.reason.label(), "Surges");
}

#[test]
fn lost_goes_before_suspect_goes_before_departing_and_then_the_smallest_id() {
    let mut input = pool(
        6,
        1,
        vec![
            instance("a", Phase::Draining),
            instance("b", Phase::Suspect),
            instance("d", Phase::Lost),
            instance("c", Phase::Lost),
            serving("e"),
            serving("f"),
        ],
    );
    input.max_repair = 5;
    input.max_surge = 0;
    for (target, name) in [("c", "r1"), ("d", "r2"), ("b", "r3"), ("a", "r4")] {
        let made = plan(&input);
        assert_eq!(made.action, repair(target), "{}", told(&made));
        input.views.push(serving(name).repairs(target));
    }
    assert_eq!(plan(&input).action, Action::None);
}

#[test]
fn departing_members_are_repaired_serially_when_the_surge_budget_is_gone() {
    let mut input = pool(
        3,
        3,
        (0..4)
            .map(|n| instance(&format!("d{n}"), Phase::Draining))
            .collect(),
    );
    input.max_repair = 3;
    for target in ["d0", "d1", "d2"] {
        assert_eq!(plan(&input).action, repair(target));
        input.views.push(serving(&format!("r-{target}")).repairs(target));
    }
    assert_eq!(input.views.len(), 7);
    assert_eq!(plan(&input).action, Action::None, "three serve as desired");
}

#[test]
fn a_drain_at_the_floor_spends_no_repair_budget() {
    let views = vec![
        serving("a"),
        serving("b"),
        serving("c"),
        instance("d", Phase::Draining),
    ];
    assert_eq!(plan(&pool(3, 3, views)).action, Action::None);
}

#[test]
fn what_a_rollout_drained_is_replaced_on_the_surge_budget() {
    let views = vec![serving("a"), serving("b"), instance("c", Phase::Draining)];
    let made = plan(&pool(3, 2, views));
    assert_eq!(made.action, create());
    insta::assert_snapshot!(made.reason, @"creates an instance on the surge budget: 2 of 3 serve, and c still holds a slot");
}

#[test]
fn local_suspicion_opens_no_repair_and_drains_nothing() {
    let made = plan(&pool(
        3,
        2,
        vec![serving("a"), serving("b"), serving("c").doubtful()],
    ));
    assert_eq!(made.action, Action::None);
    let views = vec![serving("a").old_release(), serving("b"), serving("c").doubtful()];
    assert_eq!(
        plan(&pool(3, 2, views)).action,
        create(),
        "a rollout goes on by surge, not by a drain"
    );
}

#[test]
fn a_repair_names_only_what_the_gateway_holds_as_failed() {
    // The row says SUSPECT, and what the gateway holds is not known: it would refuse the repair.
    let unread = instance("c", Phase::Suspect).with(|view| view.member = None);
    assert_eq!(
        plan(&pool(3, 2, vec![serving("a"), serving("b"), unread])).action,
        Action::None
    );
    // The row says SERVING, and the gateway was told SUSPECT by somebody else.
    let told = serving("c").with(|view| view.member = Some(MemberPhase::Suspect));
    assert_eq!(
        plan(&pool(3, 2, vec![serving("a"), serving("b"), told])).action,
        repair("c")
    );
}

#[test]
fn a_failed_candidate_is_never_repaired() {
    let remains =
        instance("c", Phase::FailedPreparing).with(|view| view.member = Some(MemberPhase::Retiring));
    let mut input = pool(3, 3, vec![serving("a"), serving("b"), remains]);
    input.max_surge = 0;
    assert_eq!(plan(&input).action, Action::None);
}

#[test]
fn repairs_stay_on_their_budget_for_life() {
    let views = vec![
        serving("a"),
        serving("r").repairs("gone"),
        instance("c", Phase::Suspect),
    ];
    let made = plan(&pool(3, 2, views));
    assert_eq!(made.action, Action::None);
    insta::assert_snapshot!(made.reason, @"c waits for repair budget: 1 of at most 1 instances are repairs; raise spec.maxRepair or wait until c is closed");
}

#[test]
fn one_repair_candidate_is_prepared_at_a_time() {
    let mut input = pool(
        4,
        1,
        vec![
            serving("a"),
            instance("b", Phase::Lost),
            instance("c", Phase::Lost),
            serving("d"),
            instance("r", Phase::Creating).repairs("b"),
        ],
    );
    input.max_repair = 2;
    let made = plan(&input);
    assert_eq!(made.action, Action::None);
    insta::assert_snapshot!(told(&made), @r"
    repair waits: candidate r is CREATING for 2m
    capacity waits: candidate r is CREATING for 2m
    replacement: nothing to do
    scale-in: nothing to do
    ");
}

#[test]
fn failures_hold_a_repair_only_once_they_repeat_and_only_briefly() {
    let mut input = pool(3, 2, vec![serving("a"), serving("b"), instance("c", Phase::Lost)]);
    input.failures = vec![failed(FailureCause::NodeLeaving, 2, 1)];
    assert_eq!(plan(&input).action, repair("c"));
    input.failures = vec![failed(FailureCause::NodeLeaving, 9, 1)];
    assert_eq!(plan(&input).reason.label(), "BackingOff");
    input.failures = vec![failed(FailureCause::NodeLeaving, 9, 31)];
    assert_eq!(plan(&input).action, repair("c"));
}

#[test]
fn a_second_failure_behind_a_repaired_one_is_covered() {
    // c failed and r repairs it; then d drains. Both slots are taken, two of three serve.
    let views = vec![
        serving("a"),
        instance("c", Phase::Suspect),
        instance("d", Phase::Draining),
        serving("r").repairs("c"),
    ];
    let made = plan(&pool(3, 2, views));
    assert_eq!(made.action, create(), "{}", told(&made));
}
