//! Paged listings (A01), their failures (K09) and odd objects in them (A06).

use super::*;
use crate::cluster::port::ClusterError;
use crate::pool::ids::ClaimUid;

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid-{name}")}})
}

fn names(from: usize, count: usize) -> Vec<Value> {
    (from..from + count).map(|n| claim(&format!("c{n}"))).collect()
}

#[tokio::test]
async fn a01_pages_are_followed_to_the_end_without_a_resource_version() {
    let scripted = Scripted::answering(|seen| match seen.query("continue").as_deref() {
        None => page(&names(0, 2), "70", "t/1=="),
        Some("t%2F1%3D%3D") => page(&[], "70", "t2"),
        Some("t2") => page(&names(2, 1), "71", ""),
        Some(other) => panic!("unknown token {other}"),
    });
    let inventory = port(&scripted).claims().await.unwrap();
    assert_eq!(inventory.claims.len(), 3, "an empty page with a token is legal");
    assert_eq!(inventory.resource_version.as_str(), "70");
    for seen in scripted.log() {
        assert_eq!(seen.query("limit").as_deref(), Some("500"));
        assert_eq!(seen.query("resourceVersion"), None);
        assert_eq!(seen.accept, "application/json");
    }
}

#[tokio::test]
async fn a01_an_expired_listing_begins_again_and_mixes_nothing() {
    let mut expired = false;
    let scripted = Scripted::answering(move |seen| match seen.query("continue").as_deref() {
        None if expired => page(&names(1, 1), "80", "again"),
        None => page(&names(0, 1), "70", "t1"),
        Some("t1") => {
            expired = true;
            Reply::Json(
                410,
                json!({"kind": "Status", "code": 410, "reason": "Expired", "metadata": {"continue": "inc"}}),
            )
        }
        Some("again") => page(&names(2, 1), "80", ""),
        Some(other) => panic!("the inconsistent rest was asked for: {other}"),
    });
    let inventory = port(&scripted).claims().await.unwrap();
    let uids: Vec<&str> = inventory.claims.keys().map(ClaimUid::as_str).collect();
    assert_eq!(uids, ["uid-c1", "uid-c2"], "nothing of the first run is left");
    assert_eq!(scripted.log().len(), 4);
}

#[tokio::test]
async fn a01_a_listing_that_always_expires_ends_after_three_restarts() {
    let scripted = Scripted::answering(|seen| match seen.query("continue") {
        None => page(&names(0, 1), "70", "t1"),
        Some(_) => status(410, "Expired", "too old", &json!({})),
    });
    assert_eq!(port(&scripted).claims().await, Err(ClusterError::Expired));
    assert_eq!(scripted.log().len(), 8);
}

#[tokio::test]
async fn a01_a_token_that_does_not_advance_is_an_error() {
    let scripted = Scripted::answering(|_| page(&names(0, 1), "70", "same"));
    assert!(matches!(
        port(&scripted).claims().await,
        Err(ClusterError::Server(_))
    ));
    assert_eq!(scripted.log().len(), 2);
}

#[tokio::test]
async fn a01_ten_thousand_claims_are_listed_and_fifty_thousand_and_one_are_not() {
    let with = |total: usize| {
        Scripted::answering(move |seen| {
            let from = seen
                .query("continue")
                .map_or(0, |token| token.parse::<usize>().unwrap());
            let next = from + 500;
            let token = if next < total {
                next.to_string()
            } else {
                String::new()
            };
            page(&names(from, 500.min(total - from)), "70", &token)
        })
    };
    assert_eq!(port(&with(10_001)).claims().await.unwrap().claims.len(), 10_001);
    assert_eq!(
        port(&with(50_001)).claims().await,
        Err(ClusterError::TooMany(50_000))
    );
}

#[tokio::test]
async fn k09_a_failing_listing_is_unknown_and_never_empty() {
    type Case = (fn() -> Reply, &'static str);
    let cases: [Case; 7] = [
        (
            || {
                status(
                    500,
                    "InternalError",
                    "conversion webhook for karpenter.sh/v1beta1 failed",
                    &json!({}),
                )
            },
            "KubernetesFailed",
        ),
        (
            || Reply::Text(404, "text/plain", "404 page not found\n".to_owned()),
            "KindNotServed",
        ),
        (
            || {
                status(
                    404,
                    "NotFound",
                    "the server could not find the requested resource",
                    &json!({}),
                )
            },
            "KindNotServed",
        ),
        (
            || {
                status(
                    403,
                    "Forbidden",
                    "User \"x\" cannot list resource \"nodeclaims\"",
                    &json!({}),
                )
            },
            "KubernetesForbidden",
        ),
        (
            || Reply::Text(200, "text/html", "<html>log in</html>".to_owned()),
            "KubernetesFailed",
        ),
        (
            || Reply::Text(200, "application/json", "{\"items\": [{\"metada".to_owned()),
            "KubernetesFailed",
        ),
        (|| Reply::Json(200, json!({"kind": "Status"})), "KubernetesFailed"),
    ];
    for (reply, label) in cases {
        let first = Scripted::answering(move |_| reply());
        assert_eq!(port(&first).claims().await.unwrap_err().label(), label);
        // Page two fails after a good page one that held the drifted claim.
        let second = Scripted::answering(move |seen| match seen.query("continue") {
            None => page(&names(0, 1), "70", "t1"),
            Some(_) => reply(),
        });
        assert_eq!(port(&second).claims().await.unwrap_err().label(), label);
    }
    let torn = Scripted::answering(|_| Reply::Torn("{\"items\": ["));
    assert_eq!(
        port(&torn).claims().await.unwrap_err().label(),
        "KubernetesUnreachable"
    );
}

#[tokio::test]
async fn k09_it_recovers_without_a_restart() {
    let mut failures = 3;
    let scripted = Scripted::answering(move |_| {
        failures -= 1;
        if failures >= 0 {
            status(500, "InternalError", "conversion webhook", &json!({}))
        } else {
            page(&names(0, 1), "70", "")
        }
    });
    for _ in 0..3 {
        assert!(port(&scripted).claims().await.is_err());
    }
    assert_eq!(port(&scripted).claims().await.unwrap().claims.len(), 1);
}

#[tokio::test]
async fn a06_an_odd_object_costs_only_itself() {
    let scripted = Scripted::answering(|_| {
        let items = [
            claim("good"),
            json!({"metadata": {"name": "bad-1", "uid": "B1"}, "status": {"conditions": "oops"}}),
            json!({"metadata": {"name": "drifted", "uid": "D"},
                "status": {"conditions": [{"type": "Drifted", "status": "True"}]}}),
        ];
        page(&items, "70", "")
    });
    let inventory = port(&scripted).claims().await.unwrap();
    assert!(inventory.claims[&ClaimUid::from("D")].drifted.is_some());
    assert_eq!(inventory.claims.len(), 2);
    assert_eq!(inventory.undecodable.len(), 1);
    assert_eq!(inventory.undecodable[0].uid.as_deref(), Some("B1"));
}

#[tokio::test]
async fn a_null_list_is_an_empty_one() {
    let scripted = Scripted::answering(|_| Reply::Json(200, json!({"items": null, "metadata": {}})));
    assert!(port(&scripted).claims().await.unwrap().claims.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_never_ends_is_given_up() {
    let scripted = Scripted::answering(|_| Reply::Hang);
    let start = tokio::time::Instant::now();
    assert_eq!(
        port(&scripted).claims().await.unwrap_err().label(),
        "KubernetesUnreachable"
    );
    assert_eq!(start.elapsed().as_secs(), 10, "each page has its deadline");
}

#[tokio::test]
async fn the_workload_of_one_instance_is_five_selected_listings() {
    let scripted = Scripted::answering(|seen| {
        let kind = seen
            .path
            .split(['/', '?'])
            .find(|part| part.ends_with('s') && *part != "apis" && *part != "apps" && *part != "namespaces");
        let mut item = json!({"metadata": {"name": kind, "uid": "u", "namespace": "trino"}});
        if kind == Some("services") {
            item["metadata"]["labels"] = json!("oops");
        }
        page(&[item], "1", "")
    });
    let workload = port(&scripted)
        .workload(&"trino".into(), &"cell-1".into())
        .await
        .unwrap();
    assert_eq!(workload.deployments[0].object.name.as_str(), "deployments");
    assert_eq!(workload.replica_sets[0].name.as_str(), "replicasets");
    assert_eq!(workload.pods[0].name.as_str(), "pods");
    assert_eq!(workload.config_maps[0].name.as_str(), "configmaps");
    assert_eq!((workload.services.len(), workload.undecodable.len()), (0, 1));
    for seen in scripted.log() {
        assert_eq!(
            seen.query("labelSelector").as_deref(),
            Some("trinopool.dev%2Finstance%3Dcell-1")
        );
        assert!(seen.path.contains("/namespaces/trino/"), "{}", seen.path);
    }
}

#[tokio::test]
async fn a_workload_with_one_unknown_part_is_unknown() {
    let scripted = Scripted::answering(|seen| {
        if seen.path.contains("replicasets") {
            Reply::Broken
        } else {
            page(&[], "1", "")
        }
    });
    let workload = port(&scripted).workload(&"trino".into(), &"cell-1".into()).await;
    assert_eq!(workload.unwrap_err().label(), "KubernetesUnreachable");
}

#[tokio::test]
async fn objects_of_a_pool_are_selected_by_its_name_alone() {
    let scripted = Scripted::answering(|seen| {
        if seen.path.contains("services") {
            page(
                &[json!({"metadata": {"name": "x", "uid": "u", "namespace": "trino"}})],
                "1",
                "",
            )
        } else {
            page(&[], "1", "")
        }
    });
    let objects = port(&scripted)
        .objects(&"trino".into(), &"trino/analytics".into())
        .await
        .unwrap();
    assert_eq!(objects.items.len(), 1);
    assert_eq!(objects.items[0].kind, crate::cluster::facts::ObjectKind::Service);
    assert_eq!(scripted.log().len(), 3);
    for seen in scripted.log() {
        assert_eq!(
            seen.query("labelSelector").as_deref(),
            Some("trinopool.dev%2Fpool%3Danalytics")
        );
    }
}

#[tokio::test]
async fn pools_are_listed_in_every_namespace_of_the_scope() {
    let scope = Scope::Namespaces(vec!["a".into(), "b".into()]);
    let scripted = Scripted::with(scope, |seen| {
        let namespace = seen.path.split('/').nth(5).unwrap().to_owned();
        page(
            &[json!({"metadata": {"name": "p", "uid": "u", "namespace": namespace}})],
            "1",
            "",
        )
    });
    let pools = port(&scripted).pools().await.unwrap();
    let seen: Vec<&str> = pools.items.iter().map(|pool| pool.namespace.as_str()).collect();
    assert_eq!(seen, ["a", "b"]);
    let all = Scripted::answering(|_| page(&[], "1", ""));
    port(&all).pools().await.unwrap();
    assert_eq!(
        all.lines(),
        ["GET /apis/trinopool.dev/v1alpha1/trinopools?limit=500"]
    );
}
