//! A node goes away beneath a serving instance: a replacement first, on the surge budget.

use super::*;

#[test]
fn s05_l07_what_the_gateway_does_not_hold_is_covered_from_surge_and_named() {
    let mut views = vec![serving("a"), serving("b"), serving("c").unregistered()];
    let made = plan(&pool(3, 2, views.clone()));
    assert_eq!(made.action, create());
    assert_eq!(made.reason.label(), "CoversBlocked");
    views.push(serving("new"));
    let made = plan(&pool(3, 2, views.clone()));
    assert_eq!(made.action, Action::None);
    assert!(made.reason.needs_a_person());
    insta::assert_snapshot!(made.reason, @"the gateway does not hold the registration of c and sends no work there; that is covered from the surge budget, and nothing of it is deleted: restore the gateway's database");
    // It stands in for nobody: the next drain needs another one.
    views[0] = serving("a").drifted(60);
    let made = plan(&pool(3, 2, views.clone()));
    assert_eq!(made.action, Action::None);
    assert_eq!(made.reason.label(), "SurgeExhausted");
    let mut roomy = pool(3, 2, views);
    roomy.max_surge = 2;
    assert_eq!(plan(&roomy).action, create());
}

#[test]
fn s05_a_failed_member_that_the_gateway_does_not_hold_is_covered_without_a_repair() {
    for phase in [Phase::Suspect, Phase::Lost, Phase::Draining] {
        let views = vec![serving("a"), serving("b"), instance("c", phase).unregistered()];
        let made = plan(&pool(3, 2, views));
        assert_eq!(made.action, create(), "{phase}");
        assert_eq!(made.reason.label(), "CoversBlocked", "{phase}");
    }
}

#[test]
fn a_replacement_is_made_before_anything_is_drained_whatever_the_floor() {
    for floor in [1, 2, 3] {
        let input = pool(
            3,
            floor,
            vec![serving("a").drifted(60), serving("b"), serving("c")],
        );
        let made = plan(&input);
        assert_eq!(made.action, create(), "floor {floor}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(made.reason, @"creates a replacement of a: a node beneath it has drifted");
        }
    }
}

#[test]
fn s05_only_once_the_replacement_serves_exactly_that_instance_is_drained() {
    let mut views = vec![serving("a"), serving("b").drifted(60), serving("c")];
    views.push(instance("new", Phase::Validating));
    let waiting = plan(&pool(3, 2, views.clone()));
    assert_eq!(waiting.action, Action::None);
    insta::assert_snapshot!(waiting.reason, @"candidate new is VALIDATING for 2m");
    views[3] = instance("new", Phase::Admitted);
    let admitted = plan(&pool(3, 2, views.clone()));
    assert_eq!(admitted.action, Action::None);
    insta::assert_snapshot!(admitted.reason, @"new was admitted 2m ago and is about to serve");
    views[3] = serving("new");
    let serves = plan(&pool(3, 2, views));
    assert_eq!(serves.action, drain("b"));
    insta::assert_snapshot!(serves.reason, @"drains b, one of 4 serving: a node beneath it has drifted");
}

#[test]
fn a_replacement_that_is_doubtful_does_not_count() {
    let views = vec![
        serving("a").drifted(60),
        serving("b"),
        serving("c"),
        serving("new").doubtful(),
    ];
    let made = plan(&pool(3, 2, views));
    assert_eq!(made.action, Action::None);
    insta::assert_snapshot!(made.reason, @"a waits to be drained (a node beneath it has drifted): 3 serve and answer, 4 must; 1 more serve without being known to answer");
}

#[test]
fn without_surge_nothing_is_replaced_and_the_reason_says_what_to_set() {
    let mut input = pool(3, 2, vec![serving("a").drifted(60), serving("b"), serving("c")]);
    input.max_surge = 0;
    let made = plan(&input);
    assert_eq!(made.action, Action::None);
    assert!(made.reason.needs_a_person());
    insta::assert_snapshot!(made.reason, @"a cannot be replaced (a node beneath it has drifted): maxSurge is 0; set spec.maxSurge to at least 1");
}

#[test]
fn evidence_never_spends_the_repair_budget() {
    let mut input = pool(3, 3, vec![serving("a").drifted(60), serving("b"), serving("c")]);
    input.max_surge = 0;
    input.max_repair = 3;
    assert_eq!(plan(&input).action, Action::None);
}

#[test]
fn several_are_replaced_one_candidate_at_a_time_up_to_the_surge_budget() {
    let drifting = || {
        vec![
            serving("a").drifted(90),
            serving("b").drifted(60),
            serving("c").drifted(30),
        ]
    };
    let mut input = pool(3, 3, drifting());
    input.max_surge = 2;
    input.views.push(serving("n1"));
    assert_eq!(plan(&input).action, drain("a"), "the first replacement serves");
    input.views[0] = instance("a", Phase::Draining).drifted(90);
    assert_eq!(
        plan(&input).action,
        create(),
        "the next one is prepared beside the drain"
    );
    input.views.push(serving("n2"));
    let held = plan(&input);
    assert_eq!(
        held.action,
        Action::None,
        "one drain at a time, and no third surge"
    );
    assert_eq!(held.reason.label(), "DrainHeldBy");
}

#[test]
fn w18_an_admitted_instance_that_never_becomes_eligible_does_not_wedge_the_pool() {
    let stuck = instance("stuck", Phase::Admitted).since(3600);
    let mut input = pool(
        3,
        2,
        vec![serving("a").drifted(60), serving("b"), serving("c"), stuck],
    );
    let full = plan(&input);
    insta::assert_snapshot!(full.reason, @"the replacement of a waits for surge budget: 4 of at most 4 live, slots are held by stuck");
    input.max_surge = 2;
    assert_eq!(
        plan(&input).action,
        create(),
        "the pool goes on up to its surge budget"
    );
}

#[test]
fn w06_a_candidate_that_is_stuck_says_so_and_for_how_long() {
    let stuck = instance("stuck", Phase::Creating).since(7400).with(|view| {
        view.waiting = Some(crate::pool::step::Waiting {
            reason: crate::pool::step::WaitReason::PodsNotReady,
            detail: "2 of 3 pods are not scheduled".to_owned(),
            deadline: None,
        });
    });
    let made = plan(&pool(
        3,
        2,
        vec![serving("a").drifted(60), serving("b"), serving("c"), stuck],
    ));
    insta::assert_snapshot!(made.reason, @"candidate stuck is CREATING for 2h03m: 2 of 3 pods are not scheduled");
}

#[test]
fn o02_a_cordon_that_is_refused_leaves_at_most_one_waiting_candidate() {
    // The planner knows nothing of cordons: the replacement starts at once, and no second one does.
    let mut input = pool(
        3,
        3,
        vec![
            serving("a").drifted(7200),
            serving("b").drifted(7200),
            serving("c"),
        ],
    );
    input.max_surge = 3;
    assert_eq!(plan(&input).action, create());
    input.views.push(instance("n1", Phase::Pending).since(7000));
    assert_eq!(plan(&input).action, Action::None);
}

#[test]
fn w07_candidates_that_fail_are_not_made_again_at_once() {
    let mut input = pool(3, 2, vec![serving("a").drifted(60), serving("b"), serving("c")]);
    input.failures = vec![failed(FailureCause::NodeUnowned, 3, 100)];
    let made = plan(&input);
    assert_eq!(made.action, Action::None);
    insta::assert_snapshot!(made.reason, @"the next candidate waits until 2026-12-02T12:00:20Z: 3 failed in a row with NodeUnowned, the last one said: node ip-10-0-1-7 has no NodeClaim");
    input.now = ago(0).saturating_add(Duration::from_secs(20)).unwrap();
    assert_eq!(plan(&input).action, create());
}

#[test]
fn the_cluster_wide_budget_holds_replacements_and_nothing_else() {
    let mut input = pool(3, 2, vec![serving("a").drifted(60), serving("b"), serving("c")]);
    input.budget = ReplacementBudget::Left(0);
    insta::assert_snapshot!(plan(&input).reason, @"the replacement of a waits: as many planned replacements as the cluster-wide budget allows are under way");
    input.budget = ReplacementBudget::Left(1);
    assert_eq!(plan(&input).action, create());
    input.budget = ReplacementBudget::Left(0);
    input.views.push(serving("new"));
    assert_eq!(plan(&input).action, drain("a"), "a drain needs no token");
    input.views = vec![serving("a")];
    assert_eq!(plan(&input).action, create(), "neither does what is missing");
    input.views = vec![serving("a"), serving("b"), instance("c", Phase::Lost)];
    assert_eq!(plan(&input).action, repair("c"), "nor a repair");
}

#[test]
fn a_failed_candidate_that_cannot_be_removed_does_not_stop_the_pool() {
    let remains = instance("remains", Phase::FailedPreparing).since(90_000);
    let made = plan(&pool(3, 3, vec![serving("a"), serving("b"), remains]));
    assert_eq!(made.action, create());
    insta::assert_snapshot!(made.reason, @"creates an instance on the surge budget: 2 of 3 serve, and remains still holds a slot");
}

#[test]
fn a_phase_of_a_newer_binary_occupies_its_slot_and_is_never_touched() {
    let unknown = || instance("future", Phase::Unrecognised);
    assert_eq!(
        plan(&pool(3, 3, vec![serving("a"), serving("b"), unknown()])).action,
        create()
    );
    let mut full = pool(
        3,
        3,
        vec![serving("a").drifted(60), serving("b"), serving("c"), unknown()],
    );
    assert_eq!(
        plan(&full).action,
        Action::None,
        "it counts against the surge budget"
    );
    full.views[0] = serving("a");
    insta::assert_snapshot!(plan(&full).reason, @"nothing to do: 3 serve as desired");
}

#[test]
fn w06_a_stuck_candidate_stops_neither_repairs_nor_rollouts_nor_scale_in() {
    let beside = |mut views: Vec<InstanceView>| {
        views.push(instance("stuck", Phase::Preparing).since(90_000));
        plan(&pool(3, 2, views)).action
    };
    assert_eq!(
        beside(vec![serving("a"), serving("b"), instance("c", Phase::Lost)]),
        repair("c")
    );
    assert_eq!(
        beside(vec![serving("a").old_release(), serving("b"), serving("c")]),
        drain("a")
    );
    assert_eq!(
        beside(vec![
            serving("a").born(9000),
            serving("b"),
            serving("c"),
            serving("d")
        ]),
        drain("a")
    );
}

#[test]
fn l06_a_candidate_past_its_deadline_is_named_with_cause_and_age_when_no_room_is_left() {
    let stuck = instance("stuck", Phase::Validating).since(1500).overdue(900);
    let made = plan(&pool(
        3,
        2,
        vec![serving("a").drifted(60), serving("b"), serving("c"), stuck],
    ));
    assert_eq!(made.action, Action::None);
    assert!(made.reason.needs_a_person());
    insta::assert_snapshot!(made.reason, @"candidate stuck is VALIDATING for 25m, past its deadline, and is kept: NodesUnproven, KubernetesFailed: 500 (node ip-10-0-1-7); no room is left beside it, 4 of at most 4 are live: mend what it waits for, or raise spec.maxSurge");
}

#[test]
fn l06_a_candidate_past_its_deadline_is_no_longer_waited_for_while_surge_room_is_left() {
    let stuck = || instance("stuck", Phase::Validating).since(1500).overdue(900);
    let mut input = pool(
        3,
        2,
        vec![serving("a").drifted(60), serving("b"), serving("c"), stuck()],
    );
    input.max_surge = 2;
    let made = plan(&input);
    assert_eq!(made.action, create());
    insta::assert_snapshot!(told(&made), @"
    candidates waits: candidate stuck is VALIDATING for 25m, past its deadline, and is kept: NodesUnproven, KubernetesFailed: 500 (node ip-10-0-1-7); others may be made beside it, 4 of at most 5 are live
    repair: nothing to do
    capacity: nothing to do
    replacement acts: creates a replacement of a: a node beneath it has drifted
    ");
    // The next one is prepared, and again one at a time.
    input.views.push(instance("next", Phase::Creating));
    assert_eq!(plan(&input).reason.label(), "CandidateInProgress");
    // It serves, and the drifted one goes, whatever becomes of the stuck one.
    input.views[4] = serving("next");
    assert_eq!(plan(&input).action, drain("a"));
    // A whole pool that is otherwise as desired still says that one is stuck.
    input.views.remove(0);
    assert_eq!(plan(&input).reason.label(), "CandidateStuck");
    // Until its deadline it is the one that is being prepared.
    let early =
        stuck().with(|view| view.deadline = Some(noon().saturating_add(Duration::from_secs(1)).unwrap()));
    let waits = plan(&PlanInput {
        views: vec![serving("a").drifted(60), serving("b"), serving("c"), early],
        ..input
    });
    assert_eq!(waits.reason.label(), "CandidateInProgress");
}

#[test]
fn l06_a_pool_that_comes_up_goes_on_beside_a_candidate_past_its_deadline() {
    let stuck = || instance("stuck", Phase::Validating).since(1500).overdue(900);
    let mut input = pool(3, 2, vec![serving("a"), stuck()]);
    assert_eq!(plan(&input).action, create(), "the third of three");
    input.views.push(serving("b"));
    let covered = plan(&input);
    assert_eq!(
        covered.action,
        create(),
        "its place is covered on the surge budget"
    );
    assert_eq!(covered.reason.label(), "CoversBlocked");
    // A repair that is stuck neither counts as on its way nor keeps the planned one waiting.
    let stuck_repair = stuck().repairs("c");
    let views = vec![
        serving("a"),
        serving("b"),
        instance("c", Phase::Lost),
        stuck_repair,
    ];
    assert_eq!(plan(&pool(3, 3, views)).action, create());
}
