//! The listing of pods by our labels, over namespaces.

use super::*;
use crate::cluster::port::ClusterError;
use crate::pool::ids::Namespace;

fn pod(namespace: &str, name: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}")}})
}

/// What our label selector is, escaped as it must be.
const SELECTOR: &str = "app.kubernetes.io%2Fmanaged-by%3Dtrino-pool-operator%2Capp.kubernetes.io%2Fcomponent\
                        %20in%20%28coordinator%2Cworker%29";

#[tokio::test]
async fn pods_of_the_whole_cluster_are_listed_by_label_page_by_page_with_their_namespaces() {
    let scripted = Scripted::answering(|seen| match seen.query("continue").as_deref() {
        None => page(&[pod("a", "x")], "70", "t1"),
        Some(_) => page(&[pod("b", "x")], "70", ""),
    });
    let pods = scripted.cluster.labelled_pods().await.unwrap();
    let named: Vec<_> = pods
        .iter()
        .map(|found| {
            (
                found.namespace.as_ref().unwrap().as_str(),
                found.pod.as_ref().unwrap().uid.as_str(),
            )
        })
        .collect();
    assert_eq!(named, [("a", "uid-x"), ("b", "uid-x")]);
    let log = scripted.log();
    assert_eq!(log.len(), 2);
    for seen in log {
        assert!(seen.line().starts_with("GET /api/v1/pods?"), "{}", seen.line());
        assert_eq!(seen.query("labelSelector").as_deref(), Some(SELECTOR));
    }
}

#[tokio::test]
async fn chosen_namespaces_are_listed_one_by_one_and_all_must_answer() {
    let scope = Scope::Namespaces(vec![Namespace::new("a"), Namespace::new("b")]);
    let scripted = Scripted::with(scope.clone(), |_| page(&[], "70", ""));
    assert_eq!(scripted.cluster.labelled_pods().await, Ok(Vec::new()));
    let paths: Vec<_> = scripted
        .log()
        .iter()
        .map(|seen| seen.path.split_once('?').unwrap().0.to_owned())
        .collect();
    assert_eq!(paths, ["/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods"]);
    let half = Scripted::with(scope, |seen| {
        if seen.path.contains("/b/") {
            let message =
                "pods is forbidden: User \"u\" cannot list resource \"pods\" in the namespace \"b\"";
            status(403, "Forbidden", message, &json!({}))
        } else {
            page(&[pod("a", "x")], "70", "")
        }
    });
    assert!(matches!(
        half.cluster.labelled_pods().await,
        Err(ClusterError::Forbidden(message)) if message.contains("namespace \"b\"")
    ));
}

#[tokio::test]
async fn a06_a_pod_that_cannot_be_decoded_is_listed_by_name_and_costs_only_itself() {
    let mut odd = pod("a", "odd");
    odd["spec"] = json!({"nodeName": 7});
    let homeless = json!({"metadata": {"name": "homeless", "uid": "u"}});
    let scripted = Scripted::answering(move |_| {
        page(
            &[odd.clone(), pod("a", "good"), homeless.clone(), json!({})],
            "70",
            "",
        )
    });
    let pods = scripted.cluster.labelled_pods().await.unwrap();
    let said: Vec<_> = pods
        .iter()
        .map(|found| {
            let namespace = found.namespace.as_ref().map(Namespace::as_str);
            let problem = found.pod.as_ref().err();
            let name = problem.and_then(|problem| problem.name.as_deref());
            (namespace, name, problem.map(|problem| problem.problem.as_str()))
        })
        .collect();
    assert_eq!(
        said,
        [
            (Some("a"), Some("odd"), Some("spec.nodeName: not a text")),
            (Some("a"), None, None),
            (None, Some("homeless"), Some("metadata.namespace: missing")),
            (None, None, Some("metadata.name: missing")),
        ]
    );
}
