//! The whole life of a member, and the budgets of its pool (protocol section 9: A.3, B, C).

use std::time::Duration;

use trino_pool_operator::gateway::model::{MemberPhase, RefusalCode, RetirementKind};
use trino_pool_operator::gateway::port::Outcome;
use trino_pool_operator::pool::ids::{InstanceId, RoutingGroup};

use crate::stage::{
    Stage, admit, applied, backend, drain, in_phase, pool, refused, register, replayed, request, retire,
    retired, seal,
};
use crate::stories;

stories! {
    a_member_lives_from_registration_to_verified_absence;
    an_unknown_pool_or_member_is_an_answer_and_not_a_fault;
    a_pool_grows_to_its_size_and_one_surge;
    planned_drains_stop_at_the_floor;
    new_statements_reach_active_members_only;
    a_candidate_that_never_served_is_retired_at_once;
    an_active_member_cannot_be_retired;
    a_backend_is_registered_once_and_never_changed;
    a_gateway_that_keeps_registrations_says_so;
    steps_of_one_name_in_two_pools_are_unrelated;
}

async fn a_member_lives_from_registration_to_verified_absence(stage: &Stage) {
    stage.configured(1, 1).await;
    in_phase(&stage.prepared("cell-a").await, MemberPhase::Preparing, 0);
    let admitted = stage
        .step("cell-a", "admit", admit(&stage.member("cell-a").await))
        .await;
    let admitted = applied(admitted);
    in_phase(&admitted, MemberPhase::Active, 1);
    assert!(admitted.eligible);
    stage.serving("cell-b").await;

    in_phase(
        &applied(stage.step("cell-a", "drain", drain(1)).await),
        MemberPhase::Draining,
        2,
    );
    assert!(stage.obligations("cell-a").await.ready_to_seal);
    in_phase(
        &applied(stage.step("cell-a", "seal", seal(2)).await),
        MemberPhase::Sealed,
        3,
    );
    let claimed = applied(stage.step("cell-a", "retire", retire(3)).await);
    in_phase(&claimed, MemberPhase::Retiring, 4);
    assert_eq!(claimed.retirement_kind, Some(RetirementKind::Drained));
    in_phase(
        &applied(stage.step("cell-a", "retired", retired(4)).await),
        MemberPhase::Retired,
        5,
    );

    let all = stage.gateway.members(&pool()).await.unwrap();
    let shown: Vec<_> = all
        .iter()
        .map(|member| (member.instance_id.as_str(), member.phase))
        .collect();
    assert_eq!(
        shown,
        [("cell-a", MemberPhase::Retired), ("cell-b", MemberPhase::Active)]
    );
    assert_eq!(
        refused(stage.step("cell-a", "drain-2", drain(5)).await),
        RefusalCode::Irreversible
    );
}

async fn an_unknown_pool_or_member_is_an_answer_and_not_a_fault(stage: &Stage) {
    assert_eq!(stage.gateway.pool(&pool()).await, Ok(None));
    assert_eq!(stage.gateway.members(&pool()).await, Ok(Vec::new()));
    stage.configured(1, 1).await;
    let nobody = InstanceId::new("cell:none");
    assert_eq!(stage.gateway.member(&pool(), &nobody).await, Ok(None));
    assert_eq!(stage.gateway.obligations(&pool(), &nobody).await, Ok(None));
    assert_eq!(
        refused(stage.step("cell-none", "drain", drain(0)).await),
        RefusalCode::NotFound
    );

    let unregistered = stage.step("cell-a", "register", register("cell-a", None)).await;
    assert_eq!(
        refused(unregistered),
        RefusalCode::NotFound,
        "no backend of that name"
    );

    // A colon in an id survives the path.
    in_phase(&stage.prepared("cell:x").await, MemberPhase::Preparing, 0);
    in_phase(&stage.member("cell:x").await, MemberPhase::Preparing, 0);
}

async fn a_pool_grows_to_its_size_and_one_surge(stage: &Stage) {
    stage.configured(2, 2).await;
    // While it is below its floor, members are admitted one by one.
    for instance in ["cell-a", "cell-b", "cell-c"] {
        stage.serving(instance).await;
    }
    assert_eq!(stage.serving_count().await, 3);
    stage.coordinator("cell-d").await;
    let step = request("cell-d", "register", register("cell-d", None));
    let first_leader = crate::stage::leader(1);
    let send = || stage.gateway.send(&first_leader, &step);
    assert_eq!(refused(send().await), RefusalCode::SurgeBudget);

    // A refusal leaves no trace: the same step is applied once there is room, and then replays.
    applied(stage.step("cell-a", "drain", drain(1)).await);
    assert_eq!(
        refused(send().await),
        RefusalCode::SurgeBudget,
        "a draining member keeps its slot"
    );
    applied(stage.step("cell-a", "seal", seal(2)).await);
    applied(stage.step("cell-a", "retire", retire(3)).await);
    applied(stage.step("cell-a", "retired", retired(4)).await);
    let first = applied(send().await);
    let again = replayed(send().await);
    assert_eq!(first.incarnation, again.incarnation);
}

async fn planned_drains_stop_at_the_floor(stage: &Stage) {
    stage.configured(4, 2).await;
    let cells = ["cell-a", "cell-b", "cell-c", "cell-d"];
    for instance in cells {
        stage.serving(instance).await;
    }
    // Three drains at once, of which two have room.
    let (a, b, c) = tokio::join!(
        stage.step("cell-a", "drain", drain(1)),
        stage.step("cell-b", "drain", drain(1)),
        stage.step("cell-c", "drain", drain(1)),
    );
    let outcomes = [a, b, c];
    let applied = outcomes
        .iter()
        .filter(|outcome| outcome.accepted().is_some())
        .count();
    assert_eq!(applied, 2, "{outcomes:?}");
    for outcome in outcomes
        .into_iter()
        .filter(|outcome| outcome.accepted().is_none())
    {
        assert_eq!(refused(outcome), RefusalCode::ServingFloor);
    }
    assert_eq!(stage.serving_count().await, 2);
}

async fn new_statements_reach_active_members_only(stage: &Stage) {
    stage.configured(1, 1).await;
    let nobody = stage.submit("SELECT 1", None).await;
    assert_eq!(nobody.status(), 503);
    assert_eq!(
        nobody.headers()["x-trino-gateway-error"],
        "ROUTING_STATE_NOT_ACTIVE"
    );

    stage.serving("cell-a").await;
    stage.serving("cell-b").await;
    applied(stage.step("cell-a", "drain", drain(1)).await);
    for _ in 0..20 {
        let page = crate::stage::json(&stage.submit("SELECT 1", None).await);
        assert_eq!(page["data"][0][0], "cell-b");
    }
    assert_eq!(stage.obligations("cell-a").await.outstanding(), 0);
    assert_eq!(stage.obligations("cell-b").await.active_queries, 20);
}

async fn a_candidate_that_never_served_is_retired_at_once(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.prepared("cell-a").await;
    let claimed = applied(stage.step("cell-a", "retire", retire(0)).await);
    in_phase(&claimed, MemberPhase::Retiring, 1);
    assert_eq!(claimed.retirement_kind, Some(RetirementKind::Drained));
    in_phase(
        &applied(stage.step("cell-a", "retired", retired(1)).await),
        MemberPhase::Retired,
        2,
    );
}

async fn an_active_member_cannot_be_retired(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.serving("cell-a").await;
    assert_eq!(
        refused(stage.step("cell-a", "retire", retire(1)).await),
        RefusalCode::Phase
    );
    assert_eq!(
        refused(stage.step("cell-a", "drain", drain(1)).await),
        RefusalCode::ServingFloor
    );
    in_phase(&stage.member("cell-a").await, MemberPhase::Active, 1);
}

async fn a_backend_is_registered_once_and_never_changed(stage: &Stage) {
    assert_eq!(
        stage.gateway.ensure_backend(&backend("cell-a")).await,
        Outcome::Applied(())
    );
    assert_eq!(
        stage.gateway.ensure_backend(&backend("cell-a")).await,
        Outcome::Replayed(())
    );
    let mut elsewhere = backend("cell-a");
    elsewhere.proxy_to = "http://10.0.0.9:8080".into();
    assert_eq!(
        refused(stage.gateway.ensure_backend(&elsewhere).await),
        RefusalCode::IdentityConflict
    );
    let mut other_group = backend("cell-a");
    other_group.routing_group = RoutingGroup::new("adhoc");
    assert_eq!(
        refused(stage.gateway.ensure_backend(&other_group).await),
        RefusalCode::IdentityConflict
    );
}

async fn a_gateway_that_keeps_registrations_says_so(stage: &Stage) {
    stage.coordinator("cell-a").await;
    refused(stage.gateway.remove_backend(&backend("cell-a").name).await);
    assert_eq!(
        stage.gateway.ensure_backend(&backend("cell-a")).await,
        Outcome::Replayed(())
    );
}

async fn steps_of_one_name_in_two_pools_are_unrelated(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.serving("cell-a").await;
    let mut other = crate::stage::leader(1);
    other.pool = RoutingGroup::new("adhoc pool/ü");
    let step = trino_pool_operator::pool::ids::StepId::new("e1");
    let outcome = stage
        .gateway
        .configure(&other, &step, &crate::stage::settings(1, 1))
        .await;
    assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
    let drain = request("cell-a", "admit", drain(1));
    assert_eq!(
        refused(stage.gateway.send(&other, &drain).await),
        RefusalCode::NotFound
    );
    stage.advance(Duration::from_secs(1));
    assert_eq!(stage.gateway.members(&other.pool).await, Ok(Vec::new()));
}
