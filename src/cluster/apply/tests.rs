//! Stories about the five objects.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::fake::Fake;
use super::*;
use crate::cluster::facts::{ObjectFacts, OwnerRef, PodFacts, ReplicaSetFacts, Undecodable};
use crate::cluster::port::Manifest;
use crate::pool::ids::{Digest, Epoch};
use crate::pool::instance::InstanceObjects;
use crate::pool::step::{Apply, Deletion};

const ID: &str = "cell-1a2b3c4d";

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn metadata(suffix: &str, epoch: u64) -> ObjectMeta {
    ObjectMeta {
        name: Some(format!("{ID}{suffix}")),
        namespace: Some("trino".to_owned()),
        labels: Some(texts(&[
            ("app.kubernetes.io/managed-by", "trino-pool-operator"),
            ("trinopool.dev/instance", ID),
        ])),
        annotations: Some(texts(&[
            ("trinopool.dev/spec-digest", "d1"),
            ("trinopool.dev/authority-epoch", &epoch.to_string()),
        ])),
        ..ObjectMeta::default()
    }
}

fn manifests(epoch: u64) -> Vec<Manifest> {
    let config_map = |suffix| {
        Manifest::ConfigMap(Box::new(ConfigMap {
            metadata: metadata(suffix, epoch),
            ..ConfigMap::default()
        }))
    };
    let deployment = |suffix| {
        Manifest::Deployment(Box::new(Deployment {
            metadata: metadata(suffix, epoch),
            ..Deployment::default()
        }))
    };
    vec![
        config_map("-coordinator-config"),
        config_map("-worker-config"),
        Manifest::Service(Box::new(Service {
            metadata: metadata("", epoch),
            ..Service::default()
        })),
        deployment("-coordinator"),
        deployment("-worker"),
    ]
}

fn expected(epoch: u64) -> Expected {
    Expected {
        instance: ID.into(),
        digest: Digest::from("d1"),
        epoch: Epoch::new(epoch),
    }
}

async fn applied(fake: &Fake, epoch: u64) -> InstanceObjects {
    match apply(fake, &manifests(epoch), &expected(epoch)).await {
        Apply::Complete(objects) => objects,
        other => panic!("{other:?}"),
    }
}

async fn deleted(fake: &Fake, objects: &InstanceObjects) -> Deletion {
    delete_all(fake, &"trino".into(), &ID.into(), objects).await
}

#[tokio::test]
async fn all_five_are_created_in_order_and_adopted_the_second_time() {
    let fake = Fake::default();
    let first = applied(&fake, 3).await;
    let creates: Vec<String> = fake.calls();
    assert_eq!(
        creates.first().unwrap(),
        "create cell-1a2b3c4d-coordinator-config"
    );
    assert_eq!(creates.last().unwrap(), "create cell-1a2b3c4d-worker");
    assert_eq!(first.coordinator.uid.as_str(), "uid-4");
    assert_eq!(applied(&fake, 3).await, first, "nothing new, the same UIDs");
}

#[tokio::test]
async fn w10_objects_of_an_older_epoch_are_adopted_when_their_content_is_the_same() {
    let fake = Fake::default();
    let before = applied(&fake, 3).await;
    assert_eq!(applied(&fake, 9).await, before);
    let epochs: Vec<String> = fake.edit(|shelf| {
        shelf
            .objects
            .values()
            .map(|object| object.annotations["trinopool.dev/authority-epoch"].clone())
            .collect()
    });
    assert_eq!(epochs, ["3"; 5], "adoption writes nothing");
}

#[tokio::test]
async fn an_object_that_is_not_ours_is_refused_and_says_why() {
    type Spoil = fn(&mut ObjectFacts);
    let cases: [(Spoil, &str); 6] = [
        (
            |object| drop(object.labels.remove("app.kubernetes.io/managed-by")),
            "managed by",
        ),
        (
            |object| {
                object
                    .labels
                    .insert("trinopool.dev/instance".to_owned(), "cell-00000000".to_owned());
            },
            "cell-00000000",
        ),
        (
            |object| {
                object
                    .annotations
                    .insert("trinopool.dev/authority-epoch".to_owned(), "10".to_owned());
            },
            "newer epoch 10",
        ),
        (
            |object| {
                object
                    .annotations
                    .insert("trinopool.dev/authority-epoch".to_owned(), "-1".to_owned());
            },
            "no readable epoch",
        ),
        (
            |object| drop(object.annotations.remove("trinopool.dev/authority-epoch")),
            "no readable epoch",
        ),
        (
            |object| {
                object
                    .annotations
                    .insert("trinopool.dev/spec-digest".to_owned(), "d2".to_owned());
            },
            "other content",
        ),
    ];
    for (spoil, why) in cases {
        let fake = Fake::default();
        applied(&fake, 9).await;
        fake.calls();
        fake.edit(|shelf| {
            let key = (ObjectKind::Service, ID.to_owned());
            spoil(shelf.objects.get_mut(&key).unwrap());
        });
        match apply(&fake, &manifests(9), &expected(9)).await {
            Apply::Foreign(message) => assert!(message.contains(why), "{message}"),
            other => panic!("{why}: {other:?}"),
        }
        assert_eq!(
            fake.calls().len(),
            3,
            "nothing after the foreign object is touched"
        );
    }
}

#[tokio::test]
async fn an_object_of_ours_that_is_being_deleted_is_waited_for() {
    let fake = Fake::default();
    applied(&fake, 9).await;
    fake.edit(|shelf| {
        let key = (ObjectKind::Deployment, format!("{ID}-worker"));
        shelf.objects.get_mut(&key).unwrap().deleting = true;
    });
    match apply(&fake, &manifests(9), &expected(9)).await {
        Apply::Unknown(fault) => assert_eq!(fault.label, "ObjectBeingDeleted"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_a_denial_is_final() {
    let fake = Fake::default();
    fake.edit(|shelf| {
        shelf.instead.insert(
            format!("create {ID}"),
            ClusterError::Unreachable("connection reset".to_owned()),
        );
    });
    match apply(&fake, &manifests(1), &expected(1)).await {
        Apply::Unknown(fault) => {
            assert_eq!(fault.label, "KubernetesUnreachable");
            assert_eq!(fault.subject, format!("Service trino/{ID}"));
        }
        other => panic!("{other:?}"),
    }
    fake.edit(|shelf| shelf.deny = Some("webhook says no".to_owned()));
    match apply(&fake, &manifests(1), &expected(1)).await {
        Apply::Refused(message) => assert!(message.contains("webhook says no"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn manifests_outside_the_five_are_never_sent() {
    let fake = Fake::default();
    let mut stray = manifests(1);
    stray[0] = Manifest::ConfigMap(Box::new(ConfigMap {
        metadata: metadata("-shared", 1),
        ..ConfigMap::default()
    }));
    assert!(matches!(
        apply(&fake, &stray, &expected(1)).await,
        Apply::Refused(_)
    ));
    assert_eq!(fake.calls(), Vec::<String>::new());
    let four = &manifests(1)[..4];
    assert!(matches!(
        apply(&fake, four, &expected(1)).await,
        Apply::Refused(_)
    ));
}

#[tokio::test]
async fn deletion_goes_coordinator_workers_service_configs_each_by_uid() {
    let fake = Fake::default();
    let objects = applied(&fake, 1).await;
    fake.calls();
    assert_eq!(deleted(&fake, &objects).await, Deletion::Absent);
    let deletes: Vec<String> = fake
        .calls()
        .into_iter()
        .filter(|call| call.starts_with("delete"))
        .collect();
    assert_eq!(
        deletes,
        [
            "delete cell-1a2b3c4d-coordinator uid-4",
            "delete cell-1a2b3c4d-worker uid-5",
            "delete cell-1a2b3c4d uid-3",
            "delete cell-1a2b3c4d-coordinator-config uid-1",
            "delete cell-1a2b3c4d-worker-config uid-2",
        ]
    );
    assert_eq!(
        deleted(&fake, &objects).await,
        Deletion::Absent,
        "and again is no harm"
    );
}

#[tokio::test]
async fn another_uid_under_the_name_stops_everything_after_it() {
    let fake = Fake::default();
    let objects = applied(&fake, 1).await;
    let mut stale = objects.clone();
    stale.workers.uid = "uid-of-yesterday".into();
    fake.calls();
    match deleted(&fake, &stale).await {
        Deletion::Foreign(message) => assert!(message.contains("uid-5"), "{message}"),
        other => panic!("{other:?}"),
    }
    let left: usize = fake.edit(|shelf| shelf.objects.len());
    assert_eq!(left, 4, "only the coordinator Deployment went");
    stale.coordinator.uid = "".into();
    assert!(matches!(deleted(&fake, &stale).await, Deletion::Foreign(_)));
}

#[tokio::test]
async fn a_denied_or_lost_delete_is_not_absence() {
    let fake = Fake::default();
    let objects = applied(&fake, 1).await;
    fake.edit(|shelf| shelf.deny = Some("policy".to_owned()));
    assert!(
        matches!(deleted(&fake, &objects).await, Deletion::Remaining(message) if message.contains("policy"))
    );
    fake.edit(|shelf| {
        shelf.deny = None;
        let error = ClusterError::Throttled { retry_after: Some(1) };
        shelf.instead.insert(format!("delete {ID} uid-3"), error);
    });
    match deleted(&fake, &objects).await {
        Deletion::Unknown(fault) => assert_eq!(fault.label, "KubernetesThrottled"),
        other => panic!("{other:?}"),
    }
}

fn pod(name: &str, label: bool) -> PodFacts {
    PodFacts {
        name: name.into(),
        uid: "p".into(),
        resource_version: "1".into(),
        labels: if label {
            texts(&[("trinopool.dev/instance", ID)])
        } else {
            BTreeMap::new()
        },
        owners: Vec::new(),
        do_not_disrupt: None,
        node: None,
        finished: false,
        terminating: true,
        ready: false,
        ip: None,
        started_at: None,
        containers: BTreeMap::new(),
        config_maps: Vec::new(),
        unschedulable_because: None,
    }
}

#[tokio::test]
async fn w11_absence_needs_all_five_objects_and_every_replica_set_and_pod_gone() {
    let fake = Fake::default();
    let objects = applied(&fake, 1).await;
    let remaining = |outcome: Deletion, what: &str| match outcome {
        Deletion::Remaining(message) => assert!(message.contains(what), "{message}"),
        other => panic!("{what}: {other:?}"),
    };

    // Background deletion has not removed a ConfigMap yet.
    fake.edit(|shelf| shelf.keep_on_delete = true);
    remaining(
        deleted(&fake, &objects).await,
        "ConfigMap trino/cell-1a2b3c4d-worker-config",
    );
    fake.edit(|shelf| shelf.keep_on_delete = false);

    // A ReplicaSet that could still make pods.
    fake.edit(|shelf| {
        shelf.sets.push(ReplicaSetFacts {
            name: "cell-1a2b3c4d-worker-abc".into(),
            uid: "r".into(),
            owners: Vec::new(),
            wanted: 1,
        });
    });
    remaining(deleted(&fake, &objects).await, "ReplicaSet");
    fake.edit(|shelf| shelf.sets.clear());

    // A terminating pod is present.
    fake.edit(|shelf| shelf.pods = vec![pod("cell-1a2b3c4d-worker-abc-1", true)]);
    remaining(deleted(&fake, &objects).await, "pod cell-1a2b3c4d-worker-abc-1");

    // So is one whose labels somebody removed, by its name or by its owner's.
    fake.edit(|shelf| shelf.pods = vec![pod("cell-1a2b3c4d-coordinator-abc-1", false)]);
    remaining(deleted(&fake, &objects).await, "without its label");
    let mut owned = pod("renamed", false);
    owned.owners.push(OwnerRef {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: "cell-1a2b3c4d-worker-abc".to_owned(),
        uid: "r".to_owned(),
        controller: true,
    });
    fake.edit(|shelf| shelf.pods = vec![owned]);
    remaining(deleted(&fake, &objects).await, "pod renamed");

    // Somebody else's pods are nothing to us.
    fake.edit(|shelf| {
        shelf.pods = vec![
            pod("cell-ffffffff-worker-x-1", false),
            pod("cell-1a2b3c4d", false),
        ];
    });
    assert_eq!(deleted(&fake, &objects).await, Deletion::Absent);

    // An object that cannot be read, or a listing that fails, proves nothing.
    fake.edit(|shelf| {
        shelf.undecodable.push(Undecodable {
            name: None,
            uid: None,
            problem: "status: not an object".to_owned(),
        });
    });
    assert!(
        matches!(deleted(&fake, &objects).await, Deletion::Unknown(fault) if fault.label == "Undecodable")
    );
    fake.edit(|shelf| {
        shelf.undecodable.clear();
        shelf.instead.insert("pods".to_owned(), ClusterError::Expired);
    });
    assert!(
        matches!(deleted(&fake, &objects).await, Deletion::Unknown(fault) if fault.label == "ListExpired")
    );
}

#[tokio::test]
async fn a_new_object_under_an_old_name_is_not_our_absence() {
    let fake = Fake::default();
    let objects = applied(&fake, 1).await;
    assert_eq!(deleted(&fake, &objects).await, Deletion::Absent);
    let again = applied(&fake, 1).await;
    assert_ne!(again.service, objects.service);
    let outcome = verify_absent(&fake, &"trino".into(), &ID.into(), &objects).await;
    assert!(matches!(outcome, Deletion::Foreign(_)), "{outcome:?}");
}
