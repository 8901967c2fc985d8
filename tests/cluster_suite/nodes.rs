//! Nodes: the exact one or none.

use serde_json::{Value, json};
use trino_pool_operator::cluster::facts::{Lookup, NodeFacts};
use trino_pool_operator::cluster::port::{Cluster, CordonMark, Written};
use trino_pool_operator::pool::ids::NodeName;

use super::outsider::{ClusterDriver, create, delete, merge, uid, until};

const NODES: &str = "/api/v1/nodes";
const MARK: &str = "trinopool.dev/node-replacement";

fn node(name: &NodeName) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name.as_str()},
        "spec": {"providerID": format!("kwok://{name}")}})
}

async fn found(cluster: &dyn Cluster, name: &NodeName) -> NodeFacts {
    cluster.node(name).await.unwrap().found().unwrap()
}

pub async fn a_cordon_needs_the_exact_node_and_version(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let name = NodeName::new(driver.unique("cordon"));
    create(driver, NODES, &node(&name)).await;
    let path = format!("{NODES}/{name}");
    let mark = CordonMark("trino/analytics/cell-1a2b3c4d/claim-uid/Drifted".to_owned());
    let cordon = async |seen: &NodeFacts, uid: &str| {
        cluster
            .cordon_node(&name, &uid.into(), &seen.resource_version, &mark)
            .await
    };

    // Somebody changed the node after it was read.
    let stale = found(cluster, &name).await;
    merge(
        driver,
        &path,
        &json!({"metadata": {"labels": {"touched": "yes"}}}),
    )
    .await;
    assert!(matches!(
        cordon(&stale, stale.uid.as_str()).await,
        Ok(Written::Conflict(_))
    ));
    // It is not the node that was meant, at whatever version.
    let fresh = found(cluster, &name).await;
    assert!(matches!(
        cordon(&fresh, "00000000-0000-0000-0000-000000000000").await,
        Ok(Written::Conflict(_))
    ));
    let untouched = found(cluster, &name).await;
    assert!(!untouched.unschedulable && untouched.cordon_mark.is_none());

    // The controllers of a real cluster may come in between: then the node is read again.
    until(driver, "the cordon", async || {
        let seen = found(cluster, &name).await;
        match cordon(&seen, seen.uid.as_str()).await.unwrap() {
            Written::Applied => Some(()),
            Written::Conflict(_) => None,
            other => panic!("{other:?}"),
        }
    })
    .await;
    let cordoned = found(cluster, &name).await;
    assert!(cordoned.unschedulable);
    assert_eq!(cordoned.cordon_mark.as_deref(), Some(mark.0.as_str()));

    delete(driver, &path).await;
    assert_eq!(cluster.node(&name).await, Ok(Lookup::Absent));
    assert_eq!(
        cordon(&cordoned, cordoned.uid.as_str()).await,
        Ok(Written::Absent)
    );
}

pub async fn a07_a_new_node_under_an_old_name_is_left_alone(
    cluster: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let name = NodeName::new(driver.unique("reused"));
    create(driver, NODES, &node(&name)).await;
    let old = found(cluster, &name).await;
    delete(driver, &format!("{NODES}/{name}")).await;
    let made = create(driver, NODES, &node(&name)).await;
    let new = found(cluster, &name).await;
    assert_eq!(new.uid.as_str(), uid(&made));
    assert_ne!(new.uid, old.uid);
    assert!(new.created_at >= old.created_at);
    for version in [&old.resource_version, &new.resource_version] {
        let written = cluster
            .cordon_node(&name, &old.uid, version, &CordonMark("x".to_owned()))
            .await;
        assert!(matches!(written, Ok(Written::Conflict(_))), "{written:?}");
    }
    let after = found(cluster, &name).await;
    assert!(
        !after.unschedulable && after.cordon_mark.is_none(),
        "{MARK} is not set"
    );
    delete(driver, &format!("{NODES}/{name}")).await;
}

pub async fn a_node_carries_its_owners_and_taints(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let name = NodeName::new(driver.unique("owned"));
    let mut body = node(&name);
    body["metadata"]["ownerReferences"] = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "name": "c1", "uid": "11111111-2222-3333-4444-555555555555", "blockOwnerDeletion": true}]);
    // An owner that does not exist would be collected; a finalizer keeps the node for as long as we look.
    body["metadata"]["finalizers"] = json!(["example.test/hold"]);
    body["spec"]["taints"] = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
    create(driver, NODES, &body).await;
    let seen = found(cluster, &name).await;
    let owner = seen.owners.first().unwrap();
    assert_eq!(
        (owner.group(), owner.kind.as_str(), owner.name.as_str()),
        ("karpenter.sh", "NodeClaim", "c1")
    );
    assert!(!owner.controller);
    assert_eq!(seen.provider_id.unwrap().as_str(), format!("kwok://{name}"));
    let disrupted = seen
        .taints
        .iter()
        .find(|taint| taint.key == "karpenter.sh/disrupted")
        .unwrap();
    assert_eq!(
        (disrupted.value.as_str(), disrupted.effect.as_str()),
        ("", "NoSchedule")
    );

    let path = format!("{NODES}/{name}");
    delete(driver, &path).await;
    assert!(found(cluster, &name).await.deleting);
    merge(driver, &path, &json!({"metadata": {"finalizers": null}})).await;
    until(driver, "the node to go", async || {
        match cluster.node(&name).await.unwrap() {
            Lookup::Absent => Some(()),
            Lookup::Found(_) => None,
        }
    })
    .await;
}
