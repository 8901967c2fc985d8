//! An instance's own objects.

use serde_json::{Value, json};
use trino_pool_operator::cluster::apply::{Expected, apply, delete_all};
use trino_pool_operator::cluster::facts::{Lookup, ObjectKind};
use trino_pool_operator::cluster::port::{Cluster, Created, Manifest, Written};
use trino_pool_operator::pool::ids::{Digest, Epoch, InstanceId, Namespace, ObjectName, ObjectUid, PoolId};
use trino_pool_operator::pool::step::{Apply, Deletion};

use super::outsider::{ClusterDriver, namespace, until};

fn config_map(body: Value) -> Manifest {
    Manifest::ConfigMap(serde_json::from_value(body).unwrap())
}

fn service(body: Value) -> Manifest {
    Manifest::Service(serde_json::from_value(body).unwrap())
}

pub fn deployment(body: Value) -> Manifest {
    Manifest::Deployment(serde_json::from_value(body).unwrap())
}

async fn created(cluster: &dyn Cluster, manifest: &Manifest) -> ObjectUid {
    match cluster.create(manifest).await.unwrap() {
        Created::Created(uid) => uid,
        other => panic!("{other:?}"),
    }
}

pub async fn an_object_is_created_once_and_deleted_by_uid(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let name = ObjectName::from("config");
    let manifest = config_map(json!({"metadata": {"name": "config", "namespace": space.as_str(),
        "labels": {"a": "b"}}, "data": {"k": "v"}}));
    let uid = created(cluster, &manifest).await;
    match cluster.create(&manifest).await.unwrap() {
        Created::Exists(found) => {
            assert_eq!((&found.uid, found.labels["a"].as_str()), (&uid, "b"));
            assert_eq!((found.kind, found.deleting), (ObjectKind::ConfigMap, false));
        }
        other => panic!("{other:?}"),
    }
    let delete = async |uid: &str| {
        cluster
            .delete(ObjectKind::ConfigMap, &space, &name, &uid.into())
            .await
    };
    let other = delete("00000000-0000-0000-0000-000000000000").await;
    assert!(matches!(other, Ok(Written::Conflict(_))), "{other:?}");
    let standing = cluster
        .object(ObjectKind::ConfigMap, &space, &name)
        .await
        .unwrap();
    assert_eq!(standing.found().unwrap().uid, uid);
    assert_eq!(delete(uid.as_str()).await, Ok(Written::Applied));
    assert_eq!(
        cluster.object(ObjectKind::ConfigMap, &space, &name).await,
        Ok(Lookup::Absent)
    );
    assert_eq!(delete(uid.as_str()).await, Ok(Written::Absent));
}

pub async fn a_new_object_under_an_old_name_has_another_uid(
    cluster: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let space = namespace(driver).await;
    let name = ObjectName::from("config");
    let manifest = config_map(json!({"metadata": {"name": "config", "namespace": space.as_str()}}));
    let old = created(cluster, &manifest).await;
    let gone = cluster.delete(ObjectKind::ConfigMap, &space, &name, &old).await;
    assert_eq!(gone, Ok(Written::Applied));
    let new = created(cluster, &manifest).await;
    assert_ne!(new, old);
    let stale = cluster.delete(ObjectKind::ConfigMap, &space, &name, &old).await;
    assert!(matches!(stale, Ok(Written::Conflict(_))), "{stale:?}");
    let standing = cluster
        .object(ObjectKind::ConfigMap, &space, &name)
        .await
        .unwrap();
    assert_eq!(standing.found().unwrap().uid, new);
}

pub async fn invalid_content_is_denied(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let at = |name: &str| json!({"name": name, "namespace": space.as_str()});
    for manifest in [
        config_map(json!({"metadata": at("Not_A_Name")})),
        service(json!({"metadata": at("no-ports"), "spec": {"ports": []}})),
        deployment(json!({"metadata": at("mismatch"), "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "c"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}})),
        config_map(json!({"metadata": {"name": "config", "namespace": "no-such-namespace"}})),
    ] {
        match cluster.create(&manifest).await {
            Ok(Created::Denied(message)) => assert!(!message.is_empty()),
            other => panic!("{manifest:?}: {other:?}"),
        }
    }
}

pub async fn objects_are_found_by_the_pools_label(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let labelled = |name: &str, pool: &str| json!({"name": name, "namespace": space.as_str(), "labels": {"trinopool.dev/pool": pool}});
    let ports = json!([{"name": "http", "port": 8080}]);
    created(
        cluster,
        &config_map(json!({"metadata": labelled("a", "analytics")})),
    )
    .await;
    created(cluster, &config_map(json!({"metadata": labelled("b", "adhoc")}))).await;
    created(
        cluster,
        &service(json!({"metadata": labelled("c", "analytics"), "spec": {"ports": ports}})),
    )
    .await;
    let pool = PoolId::new(format!("{space}/analytics"));
    let found = cluster.objects(&space, &pool).await.unwrap();
    assert_eq!(found.undecodable, vec![]);
    let mut names: Vec<(ObjectKind, &str)> = found
        .items
        .iter()
        .map(|object| (object.kind, object.name.as_str()))
        .collect();
    names.sort_unstable();
    assert_eq!(names, [(ObjectKind::ConfigMap, "a"), (ObjectKind::Service, "c")]);
}

const ID: &str = "cell-1a2b3c4d";

/// A small instance. `epoch` is that of whoever creates it.
pub fn instance(space: &Namespace, epoch: u64) -> (Vec<Manifest>, Expected) {
    let labels = json!({"trinopool.dev/instance": ID, "app.kubernetes.io/managed-by": "trino-pool-operator"});
    let metadata = |suffix: &str| {
        json!({"name": format!("{ID}{suffix}"), "namespace": space.as_str(), "labels": labels,
            "annotations": {"trinopool.dev/spec-digest": "d1", "trinopool.dev/authority-epoch": epoch.to_string()}})
    };
    let workload = |component: &str, replicas: u32| {
        let mut selector = labels.clone();
        selector["app.kubernetes.io/component"] = json!(component);
        deployment(json!({"metadata": metadata(&format!("-{component}")), "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": selector},
                "spec": {"containers": [{"name": "trino", "image": "example/trino:483"}]}}}}))
    };
    let manifests = vec![
        config_map(json!({"metadata": metadata("-coordinator-config")})),
        config_map(json!({"metadata": metadata("-worker-config")})),
        service(json!({"metadata": metadata(""), "spec": {"ports": [{"name": "http", "port": 8080}]}})),
        workload("coordinator", 1),
        workload("worker", 2),
    ];
    let expected = Expected {
        instance: InstanceId::from(ID),
        digest: Digest::from("d1"),
        epoch: Epoch::new(epoch),
    };
    (manifests, expected)
}

pub async fn an_instance_is_applied_adopted_and_removed(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let (manifests, expected) = instance(&space, 3);
    let objects = match apply(cluster, &manifests, &expected).await {
        Apply::Complete(objects) => objects,
        other => panic!("{other:?}"),
    };
    // The next leader finds them and takes them over as they are.
    let (manifests, expected) = instance(&space, 4);
    assert_eq!(
        apply(cluster, &manifests, &expected).await,
        Apply::Complete(objects.clone())
    );
    // One that was deposed does not.
    let (manifests, expected) = instance(&space, 2);
    assert!(matches!(
        apply(cluster, &manifests, &expected).await,
        Apply::Foreign(_)
    ));

    // A new object under one of the names is nobody's to delete by the old record.
    let mut stale = objects.clone();
    stale.workers.uid = "00000000-0000-0000-0000-000000000000".into();
    let stopped = delete_all(cluster, &space, &ID.into(), &stale).await;
    assert!(matches!(stopped, Deletion::Foreign(_)), "{stopped:?}");
    let service = cluster
        .object(ObjectKind::Service, &space, &objects.service.name)
        .await
        .unwrap();
    assert!(service.found().is_some(), "what comes after it was left alone");

    until(
        driver,
        "everything of the instance to go",
        async || match delete_all(cluster, &space, &ID.into(), &objects).await {
            Deletion::Absent => Some(()),
            Deletion::Remaining(_) => None,
            other => panic!("{other:?}"),
        },
    )
    .await;
    let left = cluster.workload(&space, &ID.into()).await.unwrap();
    assert_eq!(left, trino_pool_operator::cluster::facts::Workload::default());
}
