//! What a write carries, and what its answer means.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;
use crate::cluster::facts::{LeaseFacts, ObjectKind};
use crate::cluster::port::{ClusterError, CordonMark, Created, EventRecord, EventSubject, Manifest, Written};

fn done() -> Reply {
    Reply::Json(200, json!({"kind": "Status", "status": "Success"}))
}

#[tokio::test]
async fn k14_protection_touches_one_annotation_and_names_the_pod_it_saw() {
    let scripted = Scripted::answering(|_| done());
    let written = port(&scripted)
        .protect_pod(&"trino".into(), &"p".into(), &"P1".into(), &"42".into())
        .await;
    assert_eq!(written, Ok(Written::Applied));
    let [seen] = scripted.log().try_into().unwrap();
    assert_eq!(
        seen.line(),
        "PATCH /api/v1/namespaces/trino/pods/p?fieldManager=trino-pool-operator"
    );
    assert_eq!(seen.content, "application/merge-patch+json");
    assert_eq!(
        seen.body,
        json!({"metadata": {"uid": "P1", "resourceVersion": "42",
            "annotations": {"karpenter.sh/do-not-disrupt": "true"}}})
    );
}

#[tokio::test]
async fn a07_a_cordon_names_the_exact_node_and_another_one_refuses_it() {
    let scripted = Scripted::answering(|_| {
        status(
            409,
            "Conflict",
            "Precondition failed: UID in precondition: N1",
            &json!({"name": "n1"}),
        )
    });
    let mark = CordonMark("trino/analytics/cell-1/C1/Drifted".to_owned());
    let written = port(&scripted)
        .cordon_node(&"n1".into(), &"N1".into(), &"7".into(), &mark)
        .await;
    assert!(matches!(written, Ok(Written::Conflict(_))));
    let [seen] = scripted.log().try_into().unwrap();
    assert_eq!(
        seen.body,
        json!({"metadata": {"uid": "N1", "resourceVersion": "7",
            "annotations": {"trinopool.dev/node-replacement": "trino/analytics/cell-1/C1/Drifted"}},
            "spec": {"unschedulable": true}})
    );
    // The other form of the same refusal.
    let immutable = Scripted::answering(|_| {
        status(
            422,
            "Invalid",
            "Node \"n1\" is invalid: metadata.uid: Invalid value: \"N1\": field is immutable",
            &json!({"name": "n1", "causes": [{"field": "metadata.uid"}]}),
        )
    });
    let written = port(&immutable)
        .cordon_node(&"n1".into(), &"N1".into(), &"7".into(), &mark)
        .await;
    assert!(matches!(written, Ok(Written::Conflict(_))));
}

#[tokio::test]
async fn a_write_without_its_precondition_is_never_sent() {
    let scripted = Scripted::answering(|_| done());
    let cluster = port(&scripted);
    let (trino, name) = ("trino".into(), "x".into());
    let mark = CordonMark(String::new());
    for written in [
        cluster.protect_pod(&trino, &name, &"".into(), &"1".into()).await,
        cluster.protect_pod(&trino, &name, &"u".into(), &"".into()).await,
        cluster
            .cordon_node(&"n".into(), &"u".into(), &"".into(), &mark)
            .await,
        cluster
            .delete(ObjectKind::Service, &trino, &name, &"".into())
            .await,
        cluster.put_lease(&trino, &name, Some(&"".into()), &lease()).await,
    ] {
        assert!(matches!(written, Ok(Written::Conflict(_))), "{written:?}");
    }
    assert!(scripted.log().is_empty());
}

#[tokio::test]
async fn a_delete_is_bound_to_the_uid_and_goes_in_the_background() {
    let scripted = Scripted::answering(|_| done());
    let written = port(&scripted)
        .delete(
            ObjectKind::Deployment,
            &"trino".into(),
            &"x-worker".into(),
            &"D1".into(),
        )
        .await;
    assert_eq!(written, Ok(Written::Applied));
    let [seen] = scripted.log().try_into().unwrap();
    assert_eq!(
        seen.line(),
        "DELETE /apis/apps/v1/namespaces/trino/deployments/x-worker"
    );
    assert_eq!(seen.body["preconditions"], json!({"uid": "D1"}));
    assert_eq!(seen.body["propagationPolicy"], "Background");
}

#[tokio::test]
async fn every_refusal_of_a_write_is_told_apart() {
    type Case = (fn() -> Reply, fn(&Result<Written, ClusterError>) -> bool);
    let cases: [Case; 8] = [
        (
            || status(404, "NotFound", "gone", &json!({"name": "x"})),
            |written| *written == Ok(Written::Absent),
        ),
        (
            || status(404, "NotFound", "no such resource", &json!({})),
            |written| matches!(written, Err(ClusterError::KindNotServed(_))),
        ),
        (
            || status(409, "Conflict", "changed", &json!({})),
            |written| matches!(written, Ok(Written::Conflict(_))),
        ),
        (
            || {
                status(
                    403,
                    "Forbidden",
                    "admission webhook \"w\" denied the request: no",
                    &json!({}),
                )
            },
            |written| matches!(written, Ok(Written::Denied(_))),
        ),
        (
            || {
                status(
                    403,
                    "Forbidden",
                    "User \"u\" cannot delete resource \"services\"",
                    &json!({}),
                )
            },
            |written| matches!(written, Err(ClusterError::Forbidden(_))),
        ),
        (
            || Reply::RetryAfter("3"),
            |written| *written == Err(ClusterError::Throttled { retry_after: Some(3) }),
        ),
        (
            || status(504, "Timeout", "request did not complete", &json!({})),
            |written| matches!(written, Err(ClusterError::Server(_))),
        ),
        (
            || Reply::Broken,
            |written| matches!(written, Err(ClusterError::Unreachable(_))),
        ),
    ];
    for (index, (reply, holds)) in cases.into_iter().enumerate() {
        let scripted = Scripted::answering(move |_| reply());
        let written = port(&scripted)
            .delete(ObjectKind::Service, &"trino".into(), &"x".into(), &"u".into())
            .await;
        assert!(holds(&written), "case {index}: {written:?}");
    }
}

fn worker() -> Manifest {
    Manifest::Deployment(Box::new(Deployment {
        metadata: ObjectMeta {
            name: Some("x-worker".to_owned()),
            namespace: Some("trino".to_owned()),
            ..ObjectMeta::default()
        },
        ..Deployment::default()
    }))
}

#[tokio::test]
async fn a_create_sends_the_whole_object_and_reads_its_uid() {
    let scripted = Scripted::answering(|seen| {
        let mut created = seen.body.clone();
        created["metadata"]["uid"] = json!("D1");
        Reply::Json(201, created)
    });
    assert_eq!(
        port(&scripted).create(&worker()).await,
        Ok(Created::Created("D1".into()))
    );
    let [seen] = scripted.log().try_into().unwrap();
    assert_eq!(
        seen.line(),
        "POST /apis/apps/v1/namespaces/trino/deployments?fieldManager=trino-pool-operator"
    );
    assert_eq!(
        (&seen.body["kind"], &seen.body["apiVersion"]),
        (&json!("Deployment"), &json!("apps/v1"))
    );
}

#[tokio::test]
async fn a_name_that_is_taken_is_read_back() {
    let scripted = Scripted::answering(|seen| match seen.method.as_str() {
        "POST" => status(
            409,
            "AlreadyExists",
            "already exists",
            &json!({"name": "x-worker"}),
        ),
        _ => Reply::Json(
            200,
            json!({"metadata": {"name": "x-worker", "namespace": "trino", "uid": "D0", "labels": {"a": "b"}}}),
        ),
    });
    match port(&scripted).create(&worker()).await {
        Ok(Created::Exists(found)) => {
            assert_eq!((found.uid.as_str(), found.labels["a"].as_str()), ("D0", "b"));
        }
        other => panic!("{other:?}"),
    }
    let gone = Scripted::answering(|seen| match seen.method.as_str() {
        "POST" => status(
            409,
            "AlreadyExists",
            "already exists",
            &json!({"name": "x-worker"}),
        ),
        _ => status(404, "NotFound", "gone", &json!({"name": "x-worker"})),
    });
    assert!(
        port(&gone).create(&worker()).await.is_err(),
        "no verdict: it is tried again"
    );
    let missing = Scripted::answering(|_| {
        status(
            404,
            "NotFound",
            "namespaces \"trino\" not found",
            &json!({"name": "trino", "kind": "namespaces"}),
        )
    });
    assert!(matches!(
        port(&missing).create(&worker()).await,
        Ok(Created::Denied(_))
    ));
    let lost = Scripted::answering(|_| Reply::Broken);
    assert_eq!(
        port(&lost).create(&worker()).await.unwrap_err().label(),
        "KubernetesUnreachable"
    );
}

fn trino_pool() -> Value {
    json!({"metadata": {"name": "a", "namespace": "trino", "uid": "T1", "resourceVersion": "9",
        "finalizers": ["theirs"]}, "status": {"serving": 2, "old": true}})
}

#[tokio::test]
async fn a_status_replaces_the_old_one_with_what_differs() {
    let scripted = Scripted::answering(|seen| match seen.method.as_str() {
        "GET" => Reply::Json(200, trino_pool()),
        _ => done(),
    });
    let cluster = port(&scripted);
    let status = json!({"serving": 3});
    let (trino, name, uid) = ("trino".into(), "a".into(), "T1".into());
    assert_eq!(
        cluster.set_pool_status(&trino, &name, &uid, &status).await,
        Ok(Written::Applied)
    );
    let seen = scripted.log().pop().unwrap();
    assert!(seen.path.contains("/trinopools/a/status?"), "{}", seen.path);
    assert_eq!(
        seen.body,
        json!({"metadata": {"uid": "T1", "resourceVersion": "9"}, "status": {"serving": 3, "old": null}})
    );
    // Nothing differs: nothing is written.
    let same = json!({"serving": 2, "old": true});
    assert_eq!(
        cluster.set_pool_status(&trino, &name, &uid, &same).await,
        Ok(Written::Applied)
    );
    assert_eq!(scripted.log().len(), 3);
    // A new TrinoPool under the old name gets nothing of the old one's status.
    let stranger = cluster
        .set_pool_status(&trino, &name, &"T0".into(), &status)
        .await;
    assert!(matches!(stranger, Ok(Written::Conflict(_))));
    assert_eq!(scripted.log().len(), 4);
}

#[tokio::test]
async fn a_finalizer_leaves_those_of_others_alone() {
    let scripted = Scripted::answering(|seen| match seen.method.as_str() {
        "GET" => Reply::Json(200, trino_pool()),
        _ => done(),
    });
    let cluster = port(&scripted);
    for (present, wanted) in [
        (true, json!(["theirs", "trinopool.dev/pool"])),
        (false, json!(["theirs"])),
    ] {
        let written = cluster
            .set_pool_finalizer(&"trino".into(), &"a".into(), &"T1".into(), &"9".into(), present)
            .await;
        assert_eq!(written, Ok(Written::Applied));
        let seen = scripted.log().pop().unwrap();
        assert_eq!(
            seen.body,
            json!({"metadata": {"uid": "T1", "resourceVersion": "9", "finalizers": wanted}})
        );
    }
}

fn lease() -> LeaseFacts {
    LeaseFacts {
        resource_version: "ignored".into(),
        holder: Some("pod-a".to_owned()),
        duration: std::time::Duration::from_secs(15),
        renewed_at: Some("2031-01-01T00:00:00Z".parse().unwrap()),
        transitions: 1,
    }
}

#[tokio::test]
async fn a_lease_is_created_once_and_then_replaced_by_version() {
    let scripted = Scripted::answering(|seen| match seen.method.as_str() {
        "POST" => status(409, "AlreadyExists", "already exists", &json!({"name": "leader"})),
        _ => done(),
    });
    let cluster = port(&scripted);
    let (trino, name) = ("trino".into(), "leader".into());
    let created = cluster.put_lease(&trino, &name, None, &lease()).await;
    assert!(
        matches!(created, Ok(Written::Conflict(_))),
        "somebody else was first"
    );
    let replaced = cluster
        .put_lease(&trino, &name, Some(&"8".into()), &lease())
        .await;
    assert_eq!(replaced, Ok(Written::Applied));
    let seen = scripted.log().pop().unwrap();
    assert_eq!(
        seen.line(),
        "PATCH /apis/coordination.k8s.io/v1/namespaces/trino/leases/leader"
    );
    assert_eq!(seen.body["metadata"]["resourceVersion"], "8");
    assert_eq!(seen.body["spec"]["renewTime"], "2031-01-01T00:00:00.000000Z");
}

#[tokio::test]
async fn the_same_event_again_counts_up() {
    let event = EventRecord {
        about: EventSubject::Node("n1".into(), "N1".into()),
        warning: true,
        reason: "Cordoned".to_owned(),
        message: "cordoned for cell-1".to_owned(),
    };
    let mut made = false;
    let scripted = Scripted::answering(move |seen| match seen.method.as_str() {
        "POST" if made => status(409, "AlreadyExists", "already exists", &json!({"name": "e"})),
        "POST" => {
            made = true;
            Reply::Json(201, seen.body.clone())
        }
        "GET" => Reply::Json(200, json!({"metadata": {"resourceVersion": "5"}, "count": 4})),
        _ => done(),
    });
    port(&scripted).publish(&event).await.unwrap();
    port(&scripted).publish(&event).await.unwrap();
    let log = scripted.log();
    assert_eq!(log[0].path, "/api/v1/namespaces/default/events");
    assert_eq!(log[0].body["involvedObject"]["uid"], "N1");
    assert_eq!(log[0].body["type"], "Warning");
    assert_eq!(log[0].body["metadata"]["name"], log[1].body["metadata"]["name"]);
    assert_eq!(
        (log[3].method.as_str(), &log[3].body["count"]),
        ("PATCH", &json!(5))
    );
    let other = EventRecord {
        message: "x".repeat(5_000),
        about: EventSubject::Pool("trino".into(), "a-".repeat(126).as_str().into(), "T".into()),
        ..event
    };
    port(&scripted).publish(&other).await.unwrap();
    let body = scripted.log()[4].body.clone();
    assert!(body["metadata"]["name"].as_str().unwrap().len() <= 253);
    assert!(!body["metadata"]["name"].as_str().unwrap().contains("-."));
    assert_eq!(body["message"].as_str().unwrap().len(), 1_024);
}
