//! What is owed to clients keeps a member from being sealed (protocol section 4; 9: A.1, A.4).

use std::time::Duration;

use trino_pool_operator::gateway::model::{MemberPhase, RefusalCode};

use crate::stage::{Stage, applied, drain, in_phase, json, refused, retire, seal, url};
use crate::stories;

stories! {
    a_running_query_is_owed_until_its_retention_ends;
    a_continuation_stays_with_the_draining_process;
    a_forgotten_query_ends_when_its_client_is_told_so;
    a_cancelled_query_ends;
    a_transaction_stays_with_its_process_until_it_is_closed;
    g02_work_that_slips_in_reopens_the_wait;
    an_answer_that_was_lost_is_owed_for_ever;
    a_sealed_member_takes_no_continuation;
    another_user_gets_nothing;
}

const RETENTION: Duration = Duration::from_mins(2);

/// Two members, of which the first has the only query; the first is draining.
async fn draining_with_query(stage: &Stage) -> http::Response<bytes::Bytes> {
    stage.configured(1, 1).await;
    stage.serving("cell-a").await;
    let page = stage.submit("SELECT 1", None).await;
    stage.serving("cell-b").await;
    applied(stage.step("cell-a", "drain", drain(1)).await);
    page
}

async fn a_running_query_is_owed_until_its_retention_ends(stage: &Stage) {
    let page = draining_with_query(stage).await;
    let seal = || stage.step("cell-a", "seal", seal(2));
    assert_eq!(stage.obligations("cell-a").await.active_queries, 1);
    assert_eq!(refused(seal().await), RefusalCode::NotDrained);

    let last = stage.follow("GET", &page).await;
    assert_eq!(json(&last)["stats"]["state"], "FINISHED");
    stage.advance(RETENTION.saturating_sub(Duration::from_secs(1)));
    assert_eq!(
        stage.obligations("cell-a").await.active_queries,
        1,
        "a lost last page may be asked again"
    );
    assert_eq!(refused(seal().await), RefusalCode::NotDrained);
    stage.advance(Duration::from_secs(1));
    assert!(stage.obligations("cell-a").await.ready_to_seal);
    in_phase(&applied(seal().await), MemberPhase::Sealed, 3);
}

async fn a_continuation_stays_with_the_draining_process(stage: &Stage) {
    let page = draining_with_query(stage).await;
    stage.host().fleet.processes.get_mut(&url("cell-a")).unwrap().held = true;
    for _ in 0..3 {
        let next = stage.follow("GET", &page).await;
        assert_eq!(json(&next)["data"][0][0], "cell-a");
    }
}

async fn a_forgotten_query_ends_when_its_client_is_told_so(stage: &Stage) {
    let page = draining_with_query(stage).await;
    stage.host().fleet.forget_queries();
    stage.advance(RETENTION * 10);
    assert_eq!(
        stage.obligations("cell-a").await.active_queries,
        1,
        "no timer ends a query"
    );
    assert_eq!(stage.follow("GET", &page).await.status(), 404);
    stage.advance(RETENTION);
    assert_eq!(stage.obligations("cell-a").await.active_queries, 0);
}

async fn a_cancelled_query_ends(stage: &Stage) {
    let page = draining_with_query(stage).await;
    assert_eq!(stage.follow("DELETE", &page).await.status(), 204);
    stage.advance(RETENTION);
    assert_eq!(stage.obligations("cell-a").await.outstanding(), 0);
}

async fn a_transaction_stays_with_its_process_until_it_is_closed(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.serving("cell-a").await;
    let started = stage.submit("START TRANSACTION", None).await;
    let id = started.headers()["x-trino-started-transaction-id"]
        .to_str()
        .unwrap()
        .to_owned();
    stage.serving("cell-b").await;
    applied(stage.step("cell-a", "drain", drain(1)).await);

    let inside = stage.submit("SELECT 1", Some(&id)).await;
    assert_eq!(json(&inside)["data"][0][0], "cell-a");
    let outside = stage.submit("SELECT 1", None).await;
    assert_eq!(json(&outside)["data"][0][0], "cell-b");
    stage.follow("GET", &inside).await;
    stage.advance(RETENTION);
    let owed = stage.obligations("cell-a").await;
    assert_eq!((owed.open_transactions, owed.active_queries), (1, 0));
    assert_eq!(
        refused(stage.step("cell-a", "seal", seal(2)).await),
        RefusalCode::NotDrained
    );

    assert_eq!(stage.submit("COMMIT", Some(&id)).await.status(), 200);
    stage.advance(RETENTION);
    applied(stage.step("cell-a", "seal", seal(2)).await);
    let late = stage.submit("SELECT 1", Some(&id)).await;
    assert_eq!(late.status(), 409);
}

async fn g02_work_that_slips_in_reopens_the_wait(stage: &Stage) {
    let page = draining_with_query(stage).await;
    stage.follow("GET", &page).await;
    stage.advance(RETENTION);
    let seen = stage.obligations("cell-a").await;
    assert!(seen.ready_to_seal);

    // A client that missed the last page asks again, after zero was seen and before the seal.
    assert_eq!(stage.follow("GET", &page).await.status(), 404);
    assert_eq!(stage.obligations("cell-a").await.active_queries, 1);
    let seal = || stage.step("cell-a", "seal", seal(2));
    assert_eq!(
        refused(seal().await),
        RefusalCode::NotDrained,
        "the seal counts for itself"
    );
    stage.advance(RETENTION);
    in_phase(&applied(seal().await), MemberPhase::Sealed, 3);
}

async fn an_answer_that_was_lost_is_owed_for_ever(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.serving("cell-a").await;
    stage.host().fleet.lose_next_answer = true;
    assert_eq!(stage.submit("SELECT 1", None).await.status(), 502);
    stage.serving("cell-b").await;
    applied(stage.step("cell-a", "drain", drain(1)).await);
    stage.advance(RETENTION * 1000);
    assert_eq!(stage.obligations("cell-a").await.pending_requests, 1);
    assert_eq!(
        refused(stage.step("cell-a", "seal", seal(2)).await),
        RefusalCode::NotDrained
    );
}

async fn a_sealed_member_takes_no_continuation(stage: &Stage) {
    let page = draining_with_query(stage).await;
    stage.follow("GET", &page).await;
    stage.advance(RETENTION);
    applied(stage.step("cell-a", "seal", seal(2)).await);
    let late = stage.follow("GET", &page).await;
    assert_eq!(late.status(), 409);
    assert_eq!(late.headers()["x-trino-gateway-error"], "ROUTING_STATE_SEALED");
    applied(stage.step("cell-a", "retire", retire(3)).await);
    assert_eq!(stage.follow("GET", &page).await.status(), 409);
}

async fn another_user_gets_nothing(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.serving("cell-a").await;
    let page = stage.submit("SELECT 1", None).await;
    for (authorization, status) in [("Basic Ym9iOmJvYg==", 403), ("Basic YWxpY2U6YWxpY2U=", 200)] {
        let next = stage.follow_as(authorization, &page).await;
        assert_eq!(next.status(), status, "{authorization}");
    }
}
