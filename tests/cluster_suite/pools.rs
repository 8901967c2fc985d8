//! TrinoPools, the Lease and Events.

use std::time::Duration;

use serde_json::{Value, json};
use trino_pool_operator::cluster::facts::{LeaseFacts, Lookup, PoolResource};
use trino_pool_operator::cluster::port::{Cluster, EventRecord, EventSubject, Written};
use trino_pool_operator::pool::ids::{Namespace, ObjectName};

use super::outsider::{ClusterDriver, create, delete, get, merge, namespace, uid, version};

pub fn pool(name: &str) -> Value {
    let template = json!({"spec": {"containers": [{"name": "trino"}]}});
    json!({
        "apiVersion": "trinopool.dev/v1alpha1",
        "kind": "TrinoPool",
        "metadata": {"name": name},
        "spec": {
            "routingGroup": "analytics",
            "instances": 2,
            "release": "483-1",
            "template": {
                "image": "example/trino:483",
                "coordinator": {"podTemplate": template},
                "workers": {"replicas": 2, "podTemplate": template},
                "configFiles": {"coordinator": {"config.properties": "a=b"}, "worker": {"config.properties": "a=b"}},
            },
        },
    })
}

fn status(serving: u32, reason: Option<&str>) -> Value {
    json!({"observedGeneration": 1, "storeId": "s-1", "phases": {"SERVING": serving}, "serving": serving,
        "desired": 2, "minServing": 2, "replacing": 0, "atRisk": 0, "reason": reason, "conditions": []})
}

async fn found(cluster: &dyn Cluster, space: &Namespace, name: &str) -> Option<PoolResource> {
    let pools = cluster.pools().await.unwrap();
    pools
        .items
        .into_iter()
        .find(|pool| pool.namespace == *space && pool.name.as_str() == name)
}

pub async fn a_status_replaces_and_never_touches_the_spec(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let path = format!("/apis/trinopool.dev/v1alpha1/namespaces/{space}/trinopools");
    let made = create(driver, &path, &pool("a")).await;
    let before = found(cluster, &space, "a").await.unwrap();
    assert_eq!((before.uid.as_str(), &before.spec), (uid(&made), &made["spec"]));
    assert_eq!(
        (before.store, before.finalizer, before.deleting),
        (None, false, false)
    );

    let name = ObjectName::from("a");
    let write =
        async |uid: &str, status: &Value| cluster.set_pool_status(&space, &name, &uid.into(), status).await;
    assert_eq!(
        write(uid(&made), &status(1, Some("Surge"))).await,
        Ok(Written::Applied)
    );
    let after = found(cluster, &space, "a").await.unwrap();
    assert_eq!(after.store.unwrap().as_str(), "s-1");
    assert_eq!((after.generation, &after.spec), (before.generation, &before.spec));

    // What the new status does not say is gone.
    assert_eq!(write(uid(&made), &status(2, None)).await, Ok(Written::Applied));
    let (_, whole) = get(driver, &format!("{path}/a")).await;
    assert_eq!(whole["status"]["serving"], 2);
    assert_eq!(whole["status"].get("reason"), None);
    // Saying the same again writes nothing.
    let settled = version(&whole).to_owned();
    assert_eq!(write(uid(&made), &status(2, None)).await, Ok(Written::Applied));
    let (_, whole) = get(driver, &format!("{path}/a")).await;
    assert_eq!(version(&whole), settled);

    // Another TrinoPool under the name gets nothing of the old one's.
    delete(driver, &format!("{path}/a")).await;
    assert_eq!(write(uid(&made), &status(1, None)).await, Ok(Written::Absent));
    create(driver, &path, &pool("a")).await;
    assert!(matches!(
        write(uid(&made), &status(1, None)).await,
        Ok(Written::Conflict(_))
    ));
    assert_eq!(found(cluster, &space, "a").await.unwrap().store, None);
}

pub async fn our_finalizer_stands_beside_others(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let path = format!("/apis/trinopool.dev/v1alpha1/namespaces/{space}/trinopools");
    let mut body = pool("a");
    body["metadata"]["finalizers"] = json!(["example.test/theirs"]);
    create(driver, &path, &body).await;
    let name = ObjectName::from("a");
    let set = async |seen: &PoolResource, present: bool| {
        cluster
            .set_pool_finalizer(&space, &name, &seen.uid, &seen.resource_version, present)
            .await
    };
    let stale = found(cluster, &space, "a").await.unwrap();
    merge(
        driver,
        &format!("{path}/a"),
        &json!({"metadata": {"labels": {"touched": "yes"}}}),
    )
    .await;
    assert!(matches!(set(&stale, true).await, Ok(Written::Conflict(_))));

    let fresh = found(cluster, &space, "a").await.unwrap();
    assert_eq!(set(&fresh, true).await, Ok(Written::Applied));
    let held = found(cluster, &space, "a").await.unwrap();
    assert!(held.finalizer);
    delete(driver, &format!("{path}/a")).await;
    let going = found(cluster, &space, "a").await.unwrap();
    assert!(going.deleting && going.finalizer);
    assert_eq!(set(&going, false).await, Ok(Written::Applied));
    let (_, whole) = get(driver, &format!("{path}/a")).await;
    assert_eq!(whole["metadata"]["finalizers"], json!(["example.test/theirs"]));
    merge(
        driver,
        &format!("{path}/a"),
        &json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert_eq!(found(cluster, &space, "a").await, None);
}

pub async fn a_lease_is_won_once_and_replaced_by_version(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let name = ObjectName::from("leader");
    let lease = |holder: Option<&str>, transitions: u32| LeaseFacts {
        resource_version: "".into(),
        holder: holder.map(str::to_owned),
        duration: Duration::from_secs(15),
        renewed_at: Some("2031-01-01T00:00:00.25Z".parse().unwrap()),
        transitions,
    };
    let read = async || cluster.lease(&space, &name).await.unwrap();
    assert_eq!(read().await, Lookup::Absent);
    let first = lease(Some("pod-a"), 0);
    assert_eq!(
        cluster.put_lease(&space, &name, None, &first).await,
        Ok(Written::Applied)
    );
    let late = cluster
        .put_lease(&space, &name, None, &lease(Some("pod-b"), 0))
        .await;
    assert!(matches!(late, Ok(Written::Conflict(_))), "{late:?}");

    let held = read().await.found().unwrap();
    assert_eq!(
        (held.holder.as_deref(), held.duration),
        (Some("pod-a"), Duration::from_secs(15))
    );
    assert_eq!(held.renewed_at, first.renewed_at);
    let expected = Some(&held.resource_version);
    let renewed = cluster
        .put_lease(&space, &name, expected, &lease(Some("pod-a"), 1))
        .await;
    assert_eq!(renewed, Ok(Written::Applied));
    let stolen = cluster
        .put_lease(&space, &name, expected, &lease(Some("pod-b"), 2))
        .await;
    assert!(matches!(stolen, Ok(Written::Conflict(_))), "{stolen:?}");

    let held = read().await.found().unwrap();
    assert_eq!((held.holder.as_deref(), held.transitions), (Some("pod-a"), 1));
    let expected = Some(&held.resource_version);
    let released = cluster.put_lease(&space, &name, expected, &lease(None, 1)).await;
    assert_eq!(released, Ok(Written::Applied));
    assert_eq!(read().await.found().unwrap().holder, None);
    delete(
        driver,
        &format!("/apis/coordination.k8s.io/v1/namespaces/{space}/leases/leader"),
    )
    .await;
    let gone = cluster
        .put_lease(&space, &name, expected, &lease(Some("pod-a"), 2))
        .await;
    assert_eq!(gone, Ok(Written::Absent));
}

pub async fn an_event_said_twice_is_one_event(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let path = format!("/apis/trinopool.dev/v1alpha1/namespaces/{space}/trinopools");
    let made = create(driver, &path, &pool("a")).await;
    let event = |message: &str| EventRecord {
        about: EventSubject::Pool(space.clone(), "a".into(), uid(&made).into()),
        warning: true,
        reason: "SpecInvalid".to_owned(),
        message: message.to_owned(),
    };
    for message in [
        "spec.instances: too many",
        "spec.instances: too many",
        "spec.release: missing",
    ] {
        cluster.publish(&event(message)).await.unwrap();
    }
    let (_, events) = get(driver, &format!("/api/v1/namespaces/{space}/events")).await;
    let mut counts: Vec<(&str, u64)> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["involvedObject"]["uid"].as_str() == Some(uid(&made)))
        .map(|event| {
            (
                event["message"].as_str().unwrap(),
                event["count"].as_u64().unwrap(),
            )
        })
        .collect();
    counts.sort_unstable();
    assert_eq!(
        counts,
        [("spec.instances: too many", 2), ("spec.release: missing", 1)]
    );
}
