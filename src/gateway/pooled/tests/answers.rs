//! What answers are taken for.

use super::*;
use crate::gateway::model::{MemberPhase, RefusalCode};

#[tokio::test]
async fn an_answer_is_judged_by_status_and_code_alone() {
    use GatewayFault::{Credential, Unavailable};
    let replayed = {
        let mut body = member_json();
        body["replayed"] = json!(true);
        body
    };
    assert!(matches!(drained(ok(&member_json())).await, Outcome::Applied(_)));
    assert!(matches!(drained(ok(&replayed)).await, Outcome::Replayed(_)));
    for (status, code, verdict) in [
        (409, "POOL_SERVING_FLOOR", RefusalCode::ServingFloor),
        (409, "POOL_STALE_EPOCH", RefusalCode::StaleEpoch),
        (400, "POOL_VALIDATION", RefusalCode::Validation),
        (404, "POOL_DISABLED", RefusalCode::PoolDisabled),
        (
            409,
            "POOL_INVENTED_LATER",
            RefusalCode::Other("POOL_INVENTED_LATER".into()),
        ),
        (
            403,
            "TENANT_NOT_ADMITTED",
            RefusalCode::Other("TENANT_NOT_ADMITTED".into()),
        ),
    ] {
        // The text says the opposite, and is not asked.
        let outcome = drained(Ok(answer(status, Some(code), "{\"replayed\":true}"))).await;
        assert!(
            matches!(&outcome, Outcome::Refused(refusal) if refusal.code == verdict),
            "{outcome:?}"
        );
    }
    for (status, code, fault) in [
        (401, None, Credential { status: 401 }),
        (403, None, Credential { status: 403 }),
        (429, Some("POOL_PHASE"), Unavailable { status: 429 }),
        (500, None, Unavailable { status: 500 }),
        (502, Some("POOL_PHASE"), Unavailable { status: 502 }),
        (503, Some("POOL_PROBE_UNAVAILABLE"), Unavailable { status: 503 }),
        (
            503,
            Some("ROUTING_STATE_UNAVAILABLE"),
            Unavailable { status: 503 },
        ),
        (503, None, Unavailable { status: 503 }),
    ] {
        assert_eq!(
            drained(Ok(answer(status, code, ""))).await,
            Outcome::Unknown(fault),
            "{status} {code:?}"
        );
    }
    for (status, code, body) in [
        (200, None, ""),
        (200, None, "<html>"),
        (200, None, "{}"),
        (204, None, ""),
        (302, None, ""),
        (302, Some("POOL_PHASE"), ""),
        (400, None, "bad"),
        (404, None, "not here"),
        (409, None, "conflict"),
        (409, Some(""), "conflict"),
    ] {
        let outcome = drained(Ok(answer(status, code, body))).await;
        assert!(
            matches!(outcome, Outcome::Unknown(GatewayFault::Protocol(_))),
            "{status} {outcome:?}"
        );
    }
    let mut twice = answer(409, Some("POOL_PHASE"), "");
    twice
        .headers_mut()
        .append(ERROR_HEADER, "POOL_SERVING_FLOOR".parse().unwrap());
    assert!(matches!(
        drained(Ok(twice)).await,
        Outcome::Unknown(GatewayFault::Protocol(_))
    ));
}

#[tokio::test]
async fn no_answer_is_no_verdict() {
    for error in [
        TransportError::NotConnected("refused".into()),
        TransportError::Broken("reset".into()),
        TransportError::TimedOut(std::time::Duration::from_secs(10)),
        TransportError::TooLong(1),
    ] {
        let outcome = drained(Err(error)).await;
        assert!(
            matches!(outcome, Outcome::Unknown(GatewayFault::Unreachable(_))),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn an_answer_about_somebody_else_is_a_fault() {
    for (field, value) in [
        ("poolId", json!("adhoc")),
        ("instanceId", json!("cell-b")),
        ("poolId", Value::Null),
        ("protocolVersion", json!(2)),
        ("protocolVersion", Value::Null),
        ("incarnation", json!("")),
        ("generation", json!("3")),
    ] {
        let mut body = member_json();
        body[field] = value;
        let outcome = drained(ok(&body)).await;
        assert!(
            matches!(outcome, Outcome::Unknown(GatewayFault::Protocol(_))),
            "{field}: {outcome:?}"
        );
        let read = Canned::with([ok(&body)])
            .gateway()
            .member(&controller().pool, &"cell-a".into())
            .await;
        assert!(
            matches!(read, Err(GatewayFault::Protocol(_))),
            "{field}: {read:?}"
        );
    }
    let mut stranger = member_json();
    stranger["poolId"] = json!("adhoc");
    let list = json!([member_json(), stranger]);
    let listed = Canned::with([ok(&list)])
        .gateway()
        .members(&controller().pool)
        .await;
    assert!(matches!(listed, Err(GatewayFault::Protocol(_))), "{listed:?}");
}

#[tokio::test]
async fn g03_a_phase_word_that_is_not_known_is_none_of_the_known_phases() {
    let mut body = member_json();
    body["phase"] = json!("HEALTHY-ISH");
    let read = Canned::with([ok(&body)])
        .gateway()
        .member(&controller().pool, &"cell-a".into())
        .await;
    assert_eq!(read.unwrap().unwrap().phase, MemberPhase::Unrecognised);
}

#[tokio::test]
async fn only_the_gateways_own_not_found_is_an_absence() {
    let pool = controller().pool;
    let absent = Canned::with([Ok(answer(404, Some("POOL_NOT_FOUND"), "no"))]);
    assert_eq!(absent.gateway().member(&pool, &"cell-a".into()).await, Ok(None));
    for (status, code) in [
        (404, None),
        (404, Some("POOL_DISABLED")),
        (409, Some("POOL_NOT_FOUND")),
        (410, Some("POOL_NOT_FOUND")),
    ] {
        let read = Canned::with([Ok(answer(status, code, "no"))])
            .gateway()
            .member(&pool, &"cell-a".into())
            .await;
        assert!(
            matches!(read, Err(GatewayFault::Protocol(_))),
            "{status} {code:?}: {read:?}"
        );
    }
}

#[tokio::test]
async fn g01_an_error_text_is_never_read_as_obligations() {
    let answers = [
        answer(500, None, "Number of active backends found zero"),
        answer(200, None, "Number of active backends found zero"),
        answer(200, None, "{}"),
        answer(
            200,
            None,
            json!({"protocolVersion": 1, "instanceId": "cell-a"}).to_string(),
        ),
    ];
    for answer in answers {
        let canned = Canned::with([Ok(answer)]);
        let read = canned
            .gateway()
            .obligations(&controller().pool, &"cell-a".into())
            .await;
        assert!(read.is_err(), "{read:?}");
    }
}

#[tokio::test]
async fn a_configuration_that_is_not_echoed_is_no_verdict() {
    let configure = |body: Value| async move {
        let canned = Canned::with([ok(&body)]);
        let outcome = canned
            .gateway()
            .configure(&controller(), &"e7.s1".into(), &settings())
            .await;
        (outcome, canned.sent())
    };
    let (outcome, sent) = configure(pool_json()).await;
    assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
    let body = json!({
        "operationId": "pool-config", "stepId": "e7.s1", "controllerEpoch": 7, "ownerIdentity": "ctl-a",
        "apiMode": "POOLED", "minServing": 1, "desiredMembers": 2, "maxSurge": 1, "maxRepair": 1,
        "desiredRevision": "r1", "tenantAdmissionEnabled": false,
    });
    assert_eq!(
        sent,
        [("PUT".to_owned(), "/gateway/v1/pools/analytics".to_owned(), body)]
    );
    for (field, value) in [
        ("minServing", json!(2)),
        ("desiredMembers", json!(3)),
        ("maxSurge", json!(0)),
        ("maxRepair", json!(0)),
        ("desiredRevision", json!("r0")),
        ("controllerEpoch", json!(8)),
        ("apiMode", json!("LEGACY")),
        ("poolId", json!("adhoc")),
    ] {
        let mut body = pool_json();
        body[field] = value;
        let (outcome, _) = configure(body).await;
        assert!(
            matches!(outcome, Outcome::Unknown(GatewayFault::Protocol(_))),
            "{field}: {outcome:?}"
        );
    }
}
