//! Registrations of the older API.

use super::*;
use crate::gateway::model::RefusalCode;

#[tokio::test]
async fn backends_are_compared_by_name_url_group_and_activity() {
    let wanted = Backend {
        name: "analytics-cell-a".into(),
        proxy_to: "http://cell-a:8080".into(),
        external_url: None,
        routing_group: "analytics".into(),
        active: false,
    };
    let entry = |url: &str, active: bool| {
        json!({"name": "analytics-cell-a", "proxyTo": url, "externalUrl": url,
            "routingGroup": "analytics", "active": active})
    };
    let ensure = |list: Value, add: Option<Response<Bytes>>| {
        let wanted = wanted.clone();
        async move {
            let canned = Canned::with([ok(&list)].into_iter().chain(add.map(Ok)));
            (
                canned.gateway().ensure_backend(&wanted).await,
                canned.sent().len(),
            )
        }
    };
    let conflict = Outcome::Refused(crate::gateway::port::Refusal {
        code: RefusalCode::IdentityConflict,
    });
    let added = || Some(answer(200, None, "{}"));
    let strange = json!([{"what": "is this"}, entry("http://cell-a:8080/", false)]);
    assert_eq!(ensure(strange, None).await, (Outcome::Replayed(()), 1));
    assert_eq!(
        ensure(json!([entry("http://cell-a:8080", true)]), None).await,
        (conflict.clone(), 1)
    );
    assert_eq!(
        ensure(json!([entry("http://cell-b:8080", false)]), None).await,
        (conflict.clone(), 1)
    );
    assert_eq!(ensure(json!([]), added()).await, (Outcome::Applied(()), 2));
    assert_eq!(
        ensure(json!([]), Some(answer(409, None, "taken"))).await,
        (conflict, 2)
    );
    let (broken, _) = ensure(json!({"not": "a list"}), None).await;
    assert!(
        matches!(broken, Outcome::Unknown(GatewayFault::Protocol(_))),
        "{broken:?}"
    );
}

#[tokio::test]
async fn a_removal_sends_the_bare_name_and_tolerates_a_gateway_that_keeps_it() {
    let canned = Canned::with([Ok(answer(409, None, "kept"))]);
    let outcome = canned.gateway().remove_backend(&"analytics-cell-a".into()).await;
    assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    let requests = canned.requests.lock().unwrap();
    assert_eq!(requests[0].headers()["content-type"], "text/plain");
    assert_eq!(requests[0].body().as_ref(), b"analytics-cell-a");
}
