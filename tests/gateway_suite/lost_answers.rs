//! Silence is not a verdict: a lost answer is resolved by read-back or by the identical request (S9).

use http::Method;
use trino_pool_operator::gateway::model::{MemberPhase, RefusalCode};
use trino_pool_operator::gateway::port::{GatewayFault, Outcome};
use trino_pool_operator::pool::ids::{InstanceId, StepId};
use trino_pool_operator::sim::gateway::faults::{Loss, Outage};

use crate::stage::{
    Stage, admit, applied, drain, in_phase, leader, pool, refused, register, replayed, request, retire,
    settings,
};
use crate::stories;

stories! {
    a_lost_registration_answer_is_replayed_even_when_the_coordinator_is_gone;
    a_lost_admission_answer_is_replayed_or_read_back;
    a_request_that_never_arrived_is_applied_by_its_replay;
    a_lost_configuration_answer_is_replayed;
    a_lost_backend_answer_is_found_again;
    an_outage_answers_nothing_and_changes_nothing;
    g01_a_gateway_error_during_a_drain_is_unknown_and_never_read_as_nothing_owed;
    an_unknown_registration_is_fenced_by_a_higher_epoch;
}

async fn a_lost_registration_answer_is_replayed_even_when_the_coordinator_is_gone(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.coordinator("cell-a").await;
    stage
        .host()
        .sim
        .faults
        .lose_next(Loss::Response, Method::POST, "/members");
    let step = || stage.step("cell-a", "register", register("cell-a", None));
    let unknown = step().await;
    assert!(
        matches!(unknown, Outcome::Unknown(GatewayFault::Unreachable(_))),
        "{unknown:?}"
    );

    stage.host().fleet.processes.clear();
    let recovered = replayed(step().await);
    in_phase(&recovered, MemberPhase::Preparing, 0);
    // A first admission, in contrast, needs the process.
    let admission = stage.step("cell-a", "admit", admit(&recovered)).await;
    assert_eq!(
        admission,
        Outcome::Unknown(GatewayFault::Unavailable { status: 503 })
    );
    in_phase(&stage.member("cell-a").await, MemberPhase::Preparing, 0);
}

async fn a_lost_admission_answer_is_replayed_or_read_back(stage: &Stage) {
    stage.configured(1, 1).await;
    let member = stage.prepared("cell-a").await;
    stage
        .host()
        .sim
        .faults
        .lose_next(Loss::Response, Method::POST, "/admit");
    let step = || stage.step("cell-a", "admit", admit(&member));
    assert!(matches!(step().await, Outcome::Unknown(_)));
    in_phase(&stage.member("cell-a").await, MemberPhase::Active, 1);
    // The process need not live for that.
    stage.host().fleet.processes.remove(&crate::stage::url("cell-a"));
    in_phase(&replayed(step().await), MemberPhase::Active, 1);
    // The replay returns what was recorded, whatever happened to the member since.
    stage.serving("cell-b").await;
    applied(stage.step("cell-a", "drain", drain(1)).await);
    in_phase(&replayed(step().await), MemberPhase::Active, 1);
    in_phase(&stage.member("cell-a").await, MemberPhase::Draining, 2);
}

async fn a_request_that_never_arrived_is_applied_by_its_replay(stage: &Stage) {
    stage.configured(1, 1).await;
    let member = stage.prepared("cell-a").await;
    stage
        .host()
        .sim
        .faults
        .lose_next(Loss::Request, Method::POST, "/admit");
    let step = || stage.step("cell-a", "admit", admit(&member));
    assert!(matches!(step().await, Outcome::Unknown(_)));
    in_phase(&stage.member("cell-a").await, MemberPhase::Preparing, 0);
    in_phase(&applied(step().await), MemberPhase::Active, 1);
}

async fn a_lost_configuration_answer_is_replayed(stage: &Stage) {
    stage
        .host()
        .sim
        .faults
        .lose_next(Loss::Response, Method::PUT, "/analytics");
    let take = || async {
        let step = StepId::new("e1");
        stage.gateway.configure(&leader(1), &step, &settings(2, 1)).await
    };
    assert!(matches!(take().await, Outcome::Unknown(_)));
    assert!(matches!(take().await, Outcome::Replayed(_)));
}

async fn a_lost_backend_answer_is_found_again(stage: &Stage) {
    stage
        .host()
        .sim
        .faults
        .lose_next(Loss::Response, Method::POST, "/modify/add");
    let ensure = || async {
        stage
            .gateway
            .ensure_backend(&crate::stage::backend("cell-a"))
            .await
    };
    assert!(matches!(ensure().await, Outcome::Unknown(_)));
    assert_eq!(ensure().await, Outcome::Replayed(()));
}

async fn an_outage_answers_nothing_and_changes_nothing(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.serving("cell-a").await;
    stage.serving("cell-b").await;
    for (outage, expected) in [(Outage::Silent, None), (Outage::Unavailable, Some(503))] {
        stage.host().sim.faults.outage = outage;
        let outcome = stage.step("cell-a", "drain", drain(1)).await;
        match expected {
            None => assert!(
                matches!(outcome, Outcome::Unknown(GatewayFault::Unreachable(_))),
                "{outcome:?}"
            ),
            Some(status) => assert_eq!(outcome, Outcome::Unknown(GatewayFault::Unavailable { status })),
        }
        assert!(stage.gateway.pool(&pool()).await.is_err());
        // Clients are not concerned.
        assert_eq!(stage.submit("SELECT 1", None).await.status(), 200);
    }
    stage.host().sim.faults.outage = Outage::None;
    in_phase(&stage.member("cell-a").await, MemberPhase::Active, 1);
}

async fn g01_a_gateway_error_during_a_drain_is_unknown_and_never_read_as_nothing_owed(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.serving("cell-a").await;
    stage.serving("cell-b").await;
    applied(stage.step("cell-a", "drain", drain(1)).await);
    stage.host().sim.faults.outage = Outage::Unavailable;
    let instance = InstanceId::new("cell-a");
    let owed = stage.gateway.obligations(&pool(), &instance).await;
    assert_eq!(owed, Err(GatewayFault::Unavailable { status: 503 }));
    assert!(
        stage.gateway.member(&pool(), &instance).await.is_err(),
        "an error is not an absence"
    );
    assert!(
        stage.gateway.members(&pool()).await.is_err(),
        "an error is not an empty pool"
    );
}

async fn an_unknown_registration_is_fenced_by_a_higher_epoch(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.coordinator("cell-a").await;
    // The request is somewhere on its way, and the member is not known yet.
    stage
        .host()
        .sim
        .faults
        .lose_next(Loss::Request, Method::POST, "/members");
    let late = request("cell-a", "register", register("cell-a", None));
    assert!(matches!(
        stage.gateway.send(&leader(1), &late).await,
        Outcome::Unknown(_)
    ));
    assert_eq!(
        stage.gateway.member(&pool(), &InstanceId::new("cell-a")).await,
        Ok(None)
    );

    let raised = stage
        .gateway
        .configure(&leader(2), &StepId::new("e2"), &settings(1, 1))
        .await;
    assert!(matches!(raised, Outcome::Applied(_)), "{raised:?}");
    // It arrives after all, under its old epoch.
    assert_eq!(
        refused(stage.gateway.send(&leader(1), &late).await),
        RefusalCode::StaleEpoch
    );
    assert_eq!(
        stage.gateway.member(&pool(), &InstanceId::new("cell-a")).await,
        Ok(None)
    );
    let nothing = stage
        .gateway
        .send(&leader(2), &request("cell-a", "retire", retire(0)))
        .await;
    assert_eq!(refused(nothing), RefusalCode::NotFound);
}
