//! Pods: protection, termination, and whose they are.

use serde_json::{Value, json};
use trino_pool_operator::cluster::facts::{OwnerRef, PodFacts};
use trino_pool_operator::cluster::port::{Cluster, Created, Written};
use trino_pool_operator::pool::ids::{InstanceId, Namespace, ObjectName};

use super::objects::deployment;
use super::outsider::{ClusterDriver, create, delete, get, merge, namespace, until};

const PROTECTION: &str = "karpenter.sh/do-not-disrupt";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"trinopool.dev/instance": "cell-1"}},
        "spec": {"containers": [{"name": "trino", "image": "example/trino:483"}]}})
}

async fn listed(cluster: &dyn Cluster, space: &Namespace, name: &str) -> Option<PodFacts> {
    let pods = cluster.pods(space).await.unwrap();
    assert_eq!(pods.undecodable, vec![]);
    pods.items.into_iter().find(|pod| pod.name.as_str() == name)
}

pub async fn k14_protection_repairs_one_annotation_and_nothing_else(
    cluster: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let space = namespace(driver).await;
    let pods = format!("/api/v1/namespaces/{space}/pods");
    let path = format!("{pods}/p");
    create(driver, &pods, &pod("p")).await;
    let found = async || listed(cluster, &space, "p").await.unwrap();
    let protect = async |seen: &PodFacts, uid: &str| {
        let name = ObjectName::from("p");
        cluster
            .protect_pod(&space, &name, &uid.into(), &seen.resource_version)
            .await
    };
    for weak in [json!("True"), json!("5m"), json!(""), Value::Null] {
        merge(
            driver,
            &path,
            &json!({"metadata": {"annotations": {PROTECTION: weak, "theirs": "kept"}}}),
        )
        .await;
        assert_eq!(found().await.do_not_disrupt.as_deref(), weak.as_str());
        until(driver, "the protection", async || {
            let seen = found().await;
            match protect(&seen, seen.uid.as_str()).await.unwrap() {
                Written::Applied => Some(()),
                Written::Conflict(_) => None,
                other => panic!("{other:?}"),
            }
        })
        .await;
        assert_eq!(found().await.do_not_disrupt.as_deref(), Some("true"));
        let (_, whole) = get(driver, &path).await;
        assert_eq!(whole["metadata"]["annotations"]["theirs"], "kept");
    }
    let stale = found().await;
    merge(
        driver,
        &path,
        &json!({"metadata": {"annotations": {PROTECTION: null}}}),
    )
    .await;
    assert!(matches!(
        protect(&stale, stale.uid.as_str()).await,
        Ok(Written::Conflict(_))
    ));
    let fresh = found().await;
    let other = protect(&fresh, "00000000-0000-0000-0000-000000000000").await;
    assert!(matches!(other, Ok(Written::Conflict(_))), "{other:?}");
    assert_eq!(found().await.do_not_disrupt, None);
}

pub async fn a_terminating_pod_is_still_listed(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let pods = format!("/api/v1/namespaces/{space}/pods");
    let path = format!("{pods}/p");
    let mut body = pod("p");
    body["metadata"]["finalizers"] = json!(["example.test/hold"]);
    create(driver, &pods, &body).await;
    assert!(!listed(cluster, &space, "p").await.unwrap().terminating);
    delete(driver, &path).await;
    let instance = InstanceId::from("cell-1");
    until(driver, "the pod to terminate", async || {
        let workload = cluster.workload(&space, &instance).await.unwrap();
        assert_eq!(workload.pods.len(), 1, "a terminating pod is there");
        workload.pods[0].terminating.then_some(())
    })
    .await;
    merge(driver, &path, &json!({"metadata": {"finalizers": null}})).await;
    until(driver, "the pod to go", async || {
        listed(cluster, &space, "p").await.is_none().then_some(())
    })
    .await;
}

pub async fn ownership_leads_from_pod_to_deployment_by_uid(
    cluster: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let space = namespace(driver).await;
    let labels = json!({"trinopool.dev/instance": "cell-2"});
    let manifest = deployment(json!({
        "metadata": {"name": "cell-2-worker", "namespace": space.as_str(), "labels": labels},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": {PROTECTION: "true"}},
                "spec": {"containers": [{"name": "trino", "image": "example/trino:483"}]}}},
    }));
    let uid = match cluster.create(&manifest).await.unwrap() {
        Created::Created(uid) => uid,
        other => panic!("{other:?}"),
    };
    let instance = InstanceId::from("cell-2");
    let workload = until(driver, "two pods", async || {
        let workload = cluster.workload(&space, &instance).await.unwrap();
        (workload.pods.len() == 2).then_some(workload)
    })
    .await;
    assert_eq!(workload.undecodable, vec![]);
    let [deployment] = workload.deployments.as_slice() else {
        panic!("{:?}", workload.deployments);
    };
    assert_eq!((&deployment.object.uid, deployment.replicas), (&uid, Some(2)));
    let [set] = workload.replica_sets.as_slice() else {
        panic!("{:?}", workload.replica_sets);
    };
    let controller = |owners: &[OwnerRef]| {
        let owner = owners.iter().find(|owner| owner.controller).unwrap();
        assert_eq!(owner.group(), "apps");
        (owner.kind.clone(), owner.name.clone(), owner.uid.clone())
    };
    assert_eq!(
        controller(&set.owners),
        (
            "Deployment".to_owned(),
            "cell-2-worker".to_owned(),
            uid.to_string()
        )
    );
    for pod in &workload.pods {
        assert_eq!(
            controller(&pod.owners),
            ("ReplicaSet".to_owned(), set.name.to_string(), set.uid.to_string())
        );
        assert_eq!(
            pod.do_not_disrupt.as_deref(),
            Some("true"),
            "protected from birth"
        );
        assert_eq!(
            pod.containers["trino"].image.as_deref(),
            Some("example/trino:483")
        );
    }
}

pub async fn during_a_roll_two_sets_own_pods_of_one_deployment(
    cluster: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let space = namespace(driver).await;
    let labels = json!({"trinopool.dev/instance": "cell-3"});
    let manifest = deployment(json!({
        "metadata": {"name": "cell-3-worker", "namespace": space.as_str(), "labels": labels},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "trino", "image": "example/trino:483"}]}}},
    }));
    cluster.create(&manifest).await.unwrap();
    let instance = InstanceId::from("cell-3");
    let seen = async |pods: usize, sets: usize| {
        let workload = cluster.workload(&space, &instance).await.unwrap();
        (workload.pods.len() == pods && workload.replica_sets.len() == sets).then_some(workload)
    };
    let before = until(driver, "two pods of one set", async || seen(2, 1).await).await;

    // Somebody edits the template. No node is there, so no new pod becomes ready and the old ones stay.
    let path = format!("/apis/apps/v1/namespaces/{space}/deployments/cell-3-worker");
    let template = json!({"metadata": {"annotations": {"edited": "by hand"}}});
    merge(driver, &path, &json!({"spec": {"template": template}})).await;
    let after = until(driver, "a third pod, of a second set", async || seen(3, 2).await).await;
    assert_eq!(after.deployments[0].object.uid, before.deployments[0].object.uid);
    assert!(after.deployments[0].generation > before.deployments[0].generation);
    let owner = |owners: &[OwnerRef]| owners.iter().find(|owner| owner.controller).unwrap().uid.clone();
    for set in &after.replica_sets {
        assert_eq!(owner(&set.owners), after.deployments[0].object.uid.as_str());
    }
    let of_old_set = |pod: &&PodFacts| owner(&pod.owners) == before.replica_sets[0].uid.as_str();
    let (old, new): (Vec<_>, Vec<_>) = after.pods.iter().partition(of_old_set);
    assert_eq!((old.len(), new.len()), (2, 1));
    assert!(
        old.iter()
            .all(|pod| before.pods.iter().any(|before| before.uid == pod.uid))
    );
    let sets: Vec<&str> = after.replica_sets.iter().map(|set| set.uid.as_str()).collect();
    assert!(sets.contains(&owner(&new[0].owners).as_str()));
}

pub async fn only_the_exact_word_true_is_ready(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let pods = format!("/api/v1/namespaces/{space}/pods");
    create(driver, &pods, &pod("p")).await;
    for (conditions, ready) in [
        (json!([{"type": "Ready", "status": "true"}]), false),
        (json!([{"type": "Ready", "status": "Unknown"}]), false),
        (json!([{"type": "ready", "status": "True"}]), false),
        (
            json!([{"type": "example.test/Odd", "status": "Maybe"}, {"type": "Ready", "status": "True"}]),
            true,
        ),
    ] {
        let status = json!({"status": {"conditions": conditions}});
        merge(driver, &format!("{pods}/p/status"), &status).await;
        assert_eq!(
            listed(cluster, &space, "p").await.unwrap().ready,
            ready,
            "{conditions}"
        );
    }
}
