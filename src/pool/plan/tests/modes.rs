//! Whether a pool may act at all.

use super::*;
use crate::pool::desired::FreezeReason;
use crate::pool::step::{WaitReason, Waiting};

fn wanting() -> PlanInput {
    pool(3, 2, vec![serving("a").drifted(60), instance("b", Phase::Lost)])
}

fn in_mode(mode: PoolMode, views: Vec<InstanceView>) -> PlanInput {
    PlanInput {
        mode,
        ..pool(3, 2, views)
    }
}

#[test]
fn s11_a_frozen_pool_creates_and_drains_nothing_and_says_why() {
    for why in [
        FreezeReason::Missing,
        FreezeReason::IdentityChanged("spec.routingGroup is b, was a".to_owned()),
        FreezeReason::StoreMismatch,
        FreezeReason::WentBackwards,
    ] {
        let made = plan(&PlanInput {
            mode: PoolMode::Frozen(why),
            ..wanting()
        });
        assert_eq!(made.action, Action::None);
        assert_eq!(made.reason.label(), "Frozen");
        assert!(made.reason.needs_a_person());
    }
    let mode = PoolMode::Frozen(FreezeReason::IdentityChanged(
        "spec.routingGroup is b, was a".to_owned(),
    ));
    insta::assert_snapshot!(
        plan(&PlanInput { mode, ..wanting() }).reason,
        @"frozen, creates and drains nothing: the TrinoPool describes another pool: spec.routingGroup is b, was a"
    );
}

#[test]
fn a_retained_pool_is_left_alone() {
    let made = plan(&PlanInput {
        mode: PoolMode::Retained,
        ..wanting()
    });
    assert_eq!(made.action, Action::None);
    insta::assert_snapshot!(made.reason, @"the TrinoPool is gone or being deleted, and its instances are kept: they go on serving, and none is created or drained; create the TrinoPool again to manage them, or, where it still stands under deletionPolicy Drain, set spec.confirmEmpty to its UID to empty the pool");
}

#[test]
fn s11_a_held_pool_goes_on_with_its_last_good_desired_state() {
    let held = PoolMode::Held("spec.instances: is 0".to_owned());
    assert_eq!(
        plan(&PlanInput {
            mode: held,
            ..wanting()
        }),
        plan(&wanting())
    );
    assert_ne!(plan(&wanting()).action, Action::None);
}

#[test]
fn s11_no_desired_count_never_means_zero() {
    let made = plan(&pool(0, 0, vec![serving("a"), serving("b")]));
    assert_eq!(made.action, Action::None);
    insta::assert_snapshot!(made.reason, @"there is no desired count, which never means zero: set spec.instances to at least 1");
}

#[test]
fn a_pool_that_is_emptied_drains_everything_one_at_a_time_and_creates_nothing() {
    let mut input = in_mode(
        PoolMode::Emptying,
        vec![
            serving("a").born(9000),
            serving("b").doubtful(),
            instance("c", Phase::Lost),
        ],
    );
    assert_eq!(plan(&input).action, drain("b"), "what answers badly goes first");
    input.views[1] = instance("b", Phase::Draining);
    assert_eq!(plan(&input).reason.label(), "DrainHeldBy");
    input.views[1] = instance("b", Phase::Draining).since(7200);
    assert_eq!(
        plan(&input).action,
        drain("a"),
        "a stuck one does not hold the next, not even the last"
    );
    input.views[0] = instance("a", Phase::Sealed);
    insta::assert_snapshot!(plan(&input).reason, @"nothing serves any more, 3 still on the way out");
    input.views.clear();
    insta::assert_snapshot!(plan(&input).reason, @"the pool is empty");
}

#[test]
fn a_last_member_that_the_gateway_keeps_is_a_matter_for_a_person() {
    let refused = serving("a").with(|view| {
        view.waiting = Some(Waiting {
            reason: WaitReason::ServingFloor,
            detail: "POOL_SERVING_FLOOR".to_owned(),
            deadline: None,
        });
    });
    let made = plan(&in_mode(PoolMode::Emptying, vec![refused]));
    assert_eq!(made.action, Action::None);
    assert!(made.reason.needs_a_person());
    insta::assert_snapshot!(made.reason, @"the gateway does not drain a, its last serving member: authorize its recovery, or remove the pool at the gateway");
}

#[test]
fn a_new_pool_is_filled_one_by_one() {
    let mut input = pool(2, 1, Vec::new());
    let made = plan(&input);
    assert_eq!(made.action, create());
    insta::assert_snapshot!(made.reason, @"creates an instance: 0 of 2 desired are there");
    input.views.push(instance("a", Phase::Creating));
    assert_eq!(plan(&input).action, Action::None);
    input.views[0] = instance("a", Phase::Admitted);
    assert_eq!(
        plan(&input).action,
        create(),
        "an admitted instance holds nothing up"
    );
    input.views[0] = serving("a");
    input.views.push(serving("b"));
    assert_eq!(plan(&input).reason, PlanReason::Converged { serving: 2 });
}
