//! Reads of one name, and what holds for every request.

use std::time::Duration;

use super::*;
use crate::cluster::facts::Lookup;
use crate::cluster::port::ClusterError;

#[tokio::test]
async fn only_a_404_that_names_the_object_is_absence() {
    let named = Scripted::answering(|_| {
        status(
            404,
            "NotFound",
            "nodes \"n1\" not found",
            &json!({"name": "n1", "kind": "nodes"}),
        )
    });
    assert_eq!(port(&named).node(&"n1".into()).await, Ok(Lookup::Absent));
    let unnamed = Scripted::answering(|_| status(404, "NotFound", "could not find the resource", &json!({})));
    assert_eq!(
        port(&unnamed).claim(&"c1".into()).await,
        Err(ClusterError::KindNotServed(
            "karpenter.sh/v1/nodeclaims".to_owned()
        ))
    );
    let proxy =
        Scripted::answering(|_| Reply::Text(404, "text/html", "<html>nothing here</html>".to_owned()));
    assert_eq!(
        port(&proxy).node(&"n1".into()).await.unwrap_err().label(),
        "KubernetesFailed"
    );
}

#[tokio::test]
async fn one_claim_is_one_named_get() {
    let scripted = Scripted::answering(|_| {
        Reply::Json(
            200,
            json!({"metadata": {"name": "c1", "uid": "u"}, "status": {"nodeName": "n1"}}),
        )
    });
    let found = port(&scripted)
        .claim(&"c1".into())
        .await
        .unwrap()
        .found()
        .unwrap();
    assert_eq!(found.node.unwrap().as_str(), "n1");
    assert_eq!(scripted.lines(), ["GET /apis/karpenter.sh/v1/nodeclaims/c1"]);
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_neither_there_nor_absent() {
    let scripted = Scripted::answering(|_| Reply::Json(200, json!({"metadata": {"name": "n1"}})));
    assert!(matches!(
        port(&scripted).node(&"n1".into()).await,
        Err(ClusterError::Undecodable(_, problem)) if problem == "metadata.uid: missing"
    ));
}

#[tokio::test(start_paused = true)]
async fn every_call_ends_within_ten_seconds() {
    let scripted = Scripted::answering(|_| Reply::Hang);
    let start = tokio::time::Instant::now();
    assert_eq!(
        port(&scripted).node(&"n1".into()).await.unwrap_err().label(),
        "KubernetesUnreachable"
    );
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test]
async fn a_broken_connection_says_what_broke() {
    let scripted = Scripted::answering(|_| Reply::Broken);
    match port(&scripted).node(&"n1".into()).await {
        Err(ClusterError::Unreachable(why)) => assert!(why.contains("reset"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a05_one_429_holds_back_every_caller_for_as_long_as_the_server_asked() {
    let mut answers = 0;
    let scripted = Scripted::answering(move |seen| {
        answers += 1;
        match answers {
            1 => Reply::RetryAfter("7"),
            _ if seen.path.contains("leases") => {
                Reply::Json(200, json!({"metadata": {"resourceVersion": "1"}, "spec": {}}))
            }
            _ => status(404, "NotFound", "gone", &json!({"name": "x"})),
        }
    });
    let cluster = port(&scripted);
    let throttled = ClusterError::Throttled { retry_after: Some(7) };
    assert_eq!(cluster.node(&"n1".into()).await, Err(throttled.clone()));
    // A hundred instances ask, and nothing is sent.
    for _ in 0..100 {
        assert_eq!(cluster.claim(&"c1".into()).await.unwrap_err(), throttled);
    }
    assert_eq!(scripted.log().len(), 1);
    // The Lease is still renewed.
    assert!(cluster.lease(&"trino".into(), &"leader".into()).await.is_ok());
    tokio::time::advance(Duration::from_secs(7)).await;
    assert_eq!(cluster.node(&"n1".into()).await, Ok(Lookup::Absent));
}

#[tokio::test]
async fn the_check_at_start_is_one_small_request() {
    let scripted = Scripted::answering(|_| page(&[], "1", "more"));
    scripted.cluster.check().await.unwrap();
    assert_eq!(
        scripted.lines(),
        ["GET /apis/trinopool.dev/v1alpha1/trinopools?limit=1"]
    );
    let bare = Scripted::answering(|_| Reply::Text(404, "text/plain", "404 page not found".to_owned()));
    assert_eq!(bare.cluster.check().await.unwrap_err().label(), "KindNotServed");
    let token = Scripted::answering(|_| status(401, "Unauthorized", "Unauthorized", &json!({})));
    assert_eq!(
        token.cluster.check().await.unwrap_err().label(),
        "KubernetesForbidden"
    );
}
