//! Drains: when one may start, beside what, and what holds it.

use super::*;

fn four_serving_with(drift: &str) -> Vec<InstanceView> {
    ["a", "b", "c", "d"]
        .into_iter()
        .map(|name| {
            if name == drift {
                serving(name).drifted(60)
            } else {
                serving(name)
            }
        })
        .collect()
}

#[test]
fn an_ordinary_rollout_keeps_the_floor() {
    let at_floor = vec![serving("a").old_release(), serving("b"), serving("c")];
    let made = plan(&pool(3, 3, at_floor.clone()));
    assert_eq!(made.action, create());
    insta::assert_snapshot!(made.reason, @"creates a replacement of a: it is of another release");
    assert_eq!(
        plan(&pool(3, 2, at_floor)).action,
        drain("a"),
        "the floor leaves room"
    );
}

#[test]
fn a_configuration_change_is_not_called_a_release() {
    let changed = serving("a").with(|view| view.outdated = Outdated::Spec);
    let made = plan(&pool(
        3,
        3,
        vec![changed, serving("b"), serving("c"), serving("d")],
    ));
    assert_eq!(made.action, drain("a"));
    insta::assert_snapshot!(made.reason, @"drains a, one of 4 serving: its configuration is no longer the desired one");
}

#[test]
fn a11_an_instance_that_somebody_edited_is_replaced_like_an_outdated_one() {
    let edited = serving("a").with(|view| {
        view.outdated = Outdated::Edited;
        view.phase_changed_at = ago(30 * 60);
    });
    let views = vec![edited, serving("b"), serving("c")];
    assert_eq!(plan(&pool(3, 3, views.clone())).action, create());
    let made = plan(&pool(3, 3, [views, vec![serving("d")]].concat()));
    assert_eq!(made.action, drain("a"));
    insta::assert_snapshot!(made.reason, @"drains a, one of 4 serving: somebody edited its Deployment, so what runs is not what was validated");
}

/// A controller that edits each Deployment once its instance serves.
#[test]
fn l5_what_edits_every_replacement_makes_no_pool_roll_without_a_pause() {
    let edited = |name: &str, serves_for: u64| {
        serving(name).with(|view| {
            view.outdated = Outdated::Edited;
            view.phase_changed_at = ago(serves_for);
        })
    };
    // However old the others are: the pool is large, and one takes minutes.
    let all = vec![edited("a", 290 * 60), edited("b", 60), edited("c", 0)];
    let made = plan(&pool(3, 2, all.clone()));
    assert_eq!(made.action, Action::None);
    insta::assert_snapshot!(made.reason, @"somebody edited a Deployment of c, which has served for 0s: nothing is replaced for an edit until that is 30m, so that what edits every Deployment does not make the pool roll without a pause");
    // Neither a node nor a release waits for that.
    let mut leaving = all.clone();
    leaving[2] = leaving[2].clone().drifted(60);
    assert_eq!(plan(&pool(3, 2, leaving)).action, create());
    let mut old = all;
    old[1] = old[1].clone().old_release();
    assert_eq!(plan(&pool(3, 2, old)).action, drain("b"));
}

#[test]
fn a_surplus_goes_although_somebody_edited_it() {
    let edited = serving("d").with(|view| {
        view.outdated = Outdated::Edited;
        view.phase_changed_at = ago(60);
    });
    let views = vec![serving("a"), serving("b"), serving("c"), edited];
    let made = plan(&pool(3, 2, views));
    assert!(
        matches!(made.reason, PlanReason::ScalesIn { .. }),
        "{}",
        made.reason
    );
}

#[test]
fn nothing_planned_is_drained_while_the_pool_is_short() {
    let views = vec![
        serving("a").old_release(),
        serving("b"),
        instance("c", Phase::Suspect),
    ];
    let mut input = pool(3, 1, views);
    input.max_repair = 0;
    input.max_surge = 0;
    assert_eq!(plan(&input).action, Action::None);
}

#[test]
fn s07_a_drain_in_doubt_is_one_in_flight_however_long_it_served_before() {
    let mut views = four_serving_with("b");
    views.push(serving("old").in_doubt(60).since(24 * 3600));
    let made = plan(&pool(3, 2, views.clone()));
    assert_eq!(made.action, Action::None);
    assert!(
        matches!(made.reason, PlanReason::DrainHeldBy { stuck: false, .. }),
        "{}",
        made.reason
    );
    let mut emptied = pool(3, 2, views);
    emptied.mode = PoolMode::Emptying;
    assert_eq!(plan(&emptied).action, Action::None);
}

#[test]
fn s05_a_drain_in_doubt_serves_no_longer() {
    // Four rows serve, and one of them is already asked to go: nothing is left beside the wanted three.
    let mut views = four_serving_with("b");
    views[0] = serving("a").in_doubt(60);
    let input = pool(3, 2, views);
    let census = super::super::census::Census::of(&input);
    assert_eq!((census.serving, census.healthy), (3, 3));
    assert_ne!(plan(&input).action, drain("b"));
}

#[test]
fn s05_nothing_is_drained_while_the_last_reading_of_what_would_stay_is_bad_or_missing() {
    // One bad reading is too little to make another one, and enough not to count on it.
    let mut views = four_serving_with("b");
    views[3] = serving("d").silent();
    let made = plan(&pool(3, 2, views.clone()));
    assert_eq!(made.action, Action::None);
    insta::assert_snapshot!(made.reason, @"b waits to be drained (a node beneath it has drifted): 3 serve and answer, 4 must; 1 more serve without being known to answer");
    views[3] = serving("d");
    views[1] = serving("b").drifted(60).silent();
    assert_eq!(
        plan(&pool(3, 2, views)).action,
        drain("b"),
        "the others stay and answer"
    );
    // Neither a rollout nor a surplus uses up what does not answer.
    let rollout = vec![serving("a").old_release(), serving("b"), serving("c").silent()];
    assert_eq!(plan(&pool(3, 2, rollout)).action, Action::None);
    let surplus = vec![
        serving("a"),
        serving("b"),
        serving("c").silent(),
        serving("d").silent(),
    ];
    assert_eq!(plan(&pool(3, 2, surplus)).action, Action::None);
}

#[test]
fn s05_never_more_are_counted_than_the_gateway_holds_active() {
    let mut input = pool(3, 2, four_serving_with("b"));
    for (active, action) in [
        (5, drain("b")),
        (4, drain("b")),
        (3, Action::None),
        (0, Action::None),
    ] {
        input.gateway_active = Some(active);
        assert_eq!(plan(&input).action, action, "{active} are ACTIVE");
    }
    input.gateway_active = Some(3);
    insta::assert_snapshot!(plan(&input).reason, @"b waits to be drained (a node beneath it has drifted): 3 serve and answer, 4 must; 1 more serve without being known to answer");
}

#[test]
fn drains_go_one_at_a_time() {
    let mut views = four_serving_with("b");
    views.push(
        instance("old", Phase::Draining)
            .since(600)
            .with(|view| view.outstanding = Some(3)),
    );
    let made = plan(&pool(3, 2, views));
    assert_eq!(made.action, Action::None);
    insta::assert_snapshot!(made.reason, @"the next drain waits for old, DRAINING for 10m, 3 obligations left");
    assert!(!made.reason.needs_a_person());
}

#[test]
fn s07_a_stuck_drain_lets_another_start_while_surge_room_is_left() {
    let mut views = four_serving_with("b");
    views.push(instance("old", Phase::Draining).since(3 * 3600));
    let mut input = pool(3, 2, views);
    input.max_surge = 2;
    assert_eq!(plan(&input).action, drain("b"));
    input.max_surge = 1;
    let held = plan(&input);
    assert_eq!(held.action, Action::None);
    assert!(held.reason.needs_a_person());
    insta::assert_snapshot!(held.reason, @"the next drain waits for old, DRAINING for 3h00m, obligations not known; it is past drainStuckAfter and no surge room is left: raise spec.maxSurge, or authorize its recovery");
}

#[test]
fn l06_a_departure_in_doubt_for_too_long_holds_its_own_place_and_nothing_else() {
    let mut views = four_serving_with("b");
    views.push(serving("old").in_doubt(3 * 3600).since(24 * 3600));
    let mut input = pool(3, 2, views);
    input.max_surge = 2;
    assert_eq!(plan(&input).action, drain("b"));
    input.max_surge = 1;
    let held = plan(&input);
    assert_eq!(held.action, Action::None);
    assert!(held.reason.needs_a_person());
    insta::assert_snapshot!(held.reason, @"the next drain waits for old, SERVING and asked to go 3h00m ago without an answer; it is past drainStuckAfter and no surge room is left: raise spec.maxSurge, or authorize its recovery");
    // It serves nobody all the same: without another one beside the wanted three nothing goes.
    input.max_surge = 2;
    input.views.remove(0);
    assert_ne!(plan(&input).action, drain("b"));
}

#[test]
fn l06_a_departure_in_doubt_for_too_long_is_covered() {
    let doubt = |seconds| vec![serving("a"), serving("b"), serving("old").in_doubt(seconds)];
    let made = plan(&pool(3, 2, doubt(60)));
    assert_eq!(made.action, Action::None, "its answer may still come");
    let made = plan(&pool(3, 2, doubt(3 * 3600)));
    assert_eq!(made.action, create());
    assert_eq!(made.reason.label(), "CoversBlocked");
}

#[test]
fn s07_a_stuck_drain_whose_place_a_repair_took_takes_no_surge_room() {
    let mut views = four_serving_with("b");
    views[3] = serving("d").repairs("old");
    views.push(instance("old", Phase::Draining).since(3 * 3600));
    assert_eq!(plan(&pool(3, 2, views)).action, drain("b"));
}

#[test]
fn w04_evidence_that_must_wait_does_not_block_a_rollout_behind_it() {
    let views = vec![serving("a").drifted(60), serving("b").old_release(), serving("c")];
    let mut input = pool(3, 2, views);
    input.max_surge = 0;
    let made = plan(&input);
    assert_eq!(made.action, drain("b"));
    insta::assert_snapshot!(told(&made), @r"
    repair: nothing to do
    capacity: nothing to do
    replacement waits: a cannot be replaced (a node beneath it has drifted): maxSurge is 0; set spec.maxSurge to at least 1
    replacement acts: drains b, one of 3 serving: it is of another release
    ");
}

#[test]
fn a_rollout_does_not_eat_the_replacement_of_an_instance_under_evidence() {
    let mut views = vec![serving("a").drifted(60), serving("b").old_release(), serving("c")];
    assert_eq!(
        plan(&pool(3, 2, views.clone())).action,
        create(),
        "evidence goes first"
    );
    views.push(instance("new", Phase::Creating));
    let made = plan(&pool(3, 2, views.clone()));
    assert_eq!(made.action, Action::None);
    insta::assert_snapshot!(told(&made), @r"
    repair: nothing to do
    capacity: nothing to do
    replacement waits: candidate new is CREATING for 2m
    replacement waits: the rollout of b leaves the next replacement to a, whose node goes away
    scale-in: nothing to do
    ");
    views[3] = serving("new");
    assert_eq!(plan(&pool(3, 2, views)).action, drain("a"));
}

#[test]
fn only_unreadable_records_block_and_only_their_own_instance() {
    let unreadable = serving("a")
        .with(|view| view.evidence = EvidenceView::Unreadable)
        .old_release();
    let blocked = plan(&pool(3, 2, vec![unreadable.clone(), serving("b"), serving("c")]));
    assert_eq!(blocked.action, Action::None);
    insta::assert_snapshot!(blocked.reason, @"what is stored of a cannot be read, so no rollout moves it: see the instance's faults");
    let sibling = vec![unreadable, serving("b").old_release(), serving("c")];
    assert_eq!(plan(&pool(3, 2, sibling)).action, drain("b"));
}

#[test]
fn evidence_outweighs_a_blueprint_that_cannot_be_read() {
    let view = serving("a")
        .with(|view| view.outdated = Outdated::Unreadable)
        .drifted(60);
    assert_eq!(
        plan(&pool(3, 2, vec![view, serving("b"), serving("c")])).action,
        create()
    );
}

#[test]
fn k02_a_serving_instance_at_risk_is_moved_by_an_ordinary_rollout() {
    let at_risk = serving("b").old_release().with(|view| view.at_risk = true);
    let made = plan(&pool(
        3,
        2,
        vec![serving("a").old_release().born(9000), at_risk, serving("c")],
    ));
    assert_eq!(
        made.action,
        drain("b"),
        "and goes first, although another one is older"
    );
    let healthy = serving("b").with(|view| view.at_risk = true);
    assert_eq!(
        plan(&pool(3, 2, vec![serving("a"), healthy, serving("c")])).action,
        Action::None
    );
}

#[test]
fn w09_the_surplus_is_drained_one_by_one() {
    let views = || {
        vec![
            serving("old").born(9000),
            serving("young").born(10),
            serving("repaired").born(20).repairs("gone"),
            serving("risky").born(15).with(|view| view.at_risk = true),
        ]
    };
    let mut input = pool(1, 1, views());
    for (name, left) in [("risky", 3), ("repaired", 2), ("old", 1)] {
        let made = plan(&input);
        assert_eq!(made.action, drain(name));
        assert_eq!(made.reason.label(), "ScalesIn");
        input.views.retain(|view| view.id != id(name));
        assert_eq!(input.views.len(), left);
    }
    let made = plan(&input);
    insta::assert_snapshot!(made.reason, @"nothing to do: 1 serve as desired");
}

#[test]
fn w09_the_surplus_waits_while_anything_is_to_be_replaced() {
    let views = vec![
        serving("a").born(9000),
        serving("b").old_release(),
        serving("c"),
        serving("d"),
    ];
    assert_eq!(plan(&pool(3, 2, views)).action, drain("b"));
}

#[test]
fn w09_a_doubtful_instance_is_not_a_surplus() {
    let views = vec![serving("a"), serving("b"), serving("c").doubtful()];
    assert_eq!(
        plan(&pool(2, 1, views)).action,
        drain("c"),
        "it is the one to go: two healthy ones stay"
    );
    let views = vec![serving("a"), serving("b").doubtful(), serving("c").doubtful()];
    assert_eq!(plan(&pool(2, 1, views)).action, Action::None);
}
