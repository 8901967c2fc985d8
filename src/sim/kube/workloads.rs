//! The Deployment and ReplicaSet controllers.
//!
//! A changed template makes a second ReplicaSet. Recreate waits until every old pod is gone,
//! terminating ones included; a rolling update replaces pods within its surge and unavailability
//! (pkg/controller/deployment/rolling.go), so that one whose new pods do not become ready keeps its old ones.
//! Terminating pods do not count as replicas, so a pod stuck on a lost node gets a twin (A08).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Turn;
use super::api::validate;
use super::json as j;
use super::objects::{Place, Store, name_hash, place_of};
use super::resource::Resource;

const HASH_LABEL: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Pods by the UID of their ReplicaSet.
type ByOwner = BTreeMap<String, Vec<Arc<Value>>>;

/// Lets both controllers act once, on what the changes after `seen` are about.
pub(super) fn step(turn: &mut Turn<'_>, seen: u64) {
    for place in concerned(turn.store, Resource::Deployments, seen) {
        if let Some(deployment) = turn.store.at(Resource::Deployments, &place).cloned()
            && !j::is_deleting(&deployment)
        {
            reconcile_deployment(turn, &deployment);
        }
    }
    for place in concerned(turn.store, Resource::ReplicaSets, seen) {
        if let Some(set) = turn.store.at(Resource::ReplicaSets, &place).cloned()
            && !j::is_deleting(&set)
        {
            reconcile_set(turn, &set);
        }
    }
}

/// Objects of a kind that changed themselves, or something they control did, at any depth.
fn concerned(store: &Store, resource: Resource, seen: u64) -> BTreeSet<Place> {
    let Some(changes) = store.since(seen) else {
        return store.places(resource);
    };
    let mut concerned = BTreeSet::new();
    let workloads = [Resource::Deployments, Resource::ReplicaSets, Resource::Pods];
    for change in changes.filter(|change| workloads.contains(&change.resource)) {
        let mut spot = Some((change.resource, place_of(&change.object)));
        let mut object = Some(&change.object);
        while let (Some((kind, place)), Some(here)) = (spot, object) {
            if kind == resource {
                concerned.insert(place);
            }
            spot = controller(here).and_then(|uid| store.spot_of(uid)).cloned();
            object = spot.as_ref().and_then(|(kind, place)| store.at(*kind, place));
        }
    }
    concerned
}

/// UID of the controller that made an object.
fn controller(object: &Value) -> Option<&str> {
    j::items(object, &["metadata", "ownerReferences"])
        .iter()
        .find(|owner| owner.get("controller") == Some(&json!(true)))
        .and_then(|owner| j::text(owner, &["uid"]))
}

/// Objects of a kind that this one controls, by place.
fn controlled(store: &Store, resource: Resource, owner: &Value) -> Vec<Arc<Value>> {
    let uid = j::uid(owner);
    store
        .dependents(uid)
        .filter(|(kind, _)| *kind == resource)
        .filter_map(|(kind, place)| store.at(*kind, place))
        .filter(|object| controller(object) == Some(uid))
        .cloned()
        .collect()
}

/// The reference by which a controller owns what it made.
fn owned_by(object: &Value) -> Value {
    json!([{
        "apiVersion": object["apiVersion"],
        "blockOwnerDeletion": true,
        "controller": true,
        "kind": object["kind"],
        "name": j::name(object),
        "uid": j::uid(object),
    }])
}

fn replicas(object: &Value) -> usize {
    j::at(object, &["spec", "replicas"])
        .and_then(Value::as_u64)
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(1)
}

/// A pod that counts as a replica.
fn is_active(pod: &Value) -> bool {
    !j::is_deleting(pod) && !is_finished(pod)
}

/// A pod whose containers ended for good.
pub(super) fn is_finished(pod: &Value) -> bool {
    matches!(j::text(pod, &["status", "phase"]), Some("Succeeded" | "Failed"))
}

fn same_template(set: &Value, template: &Value) -> bool {
    let mut bare = set["spec"]["template"].clone();
    j::remove(&mut bare, &["metadata", "labels", HASH_LABEL]);
    bare == *template
}

fn reconcile_deployment(turn: &mut Turn<'_>, deployment: &Value) {
    let sets = controlled(turn.store, Resource::ReplicaSets, deployment);
    let pods: ByOwner = sets
        .iter()
        .map(|set| {
            (
                j::uid(set).to_owned(),
                controlled(turn.store, Resource::Pods, set),
            )
        })
        .collect();
    let template = &deployment["spec"]["template"];
    let current = sets.iter().find(|set| same_template(set, template));
    let old: Vec<&Arc<Value>> = sets
        .iter()
        .filter(|set| current.is_none_or(|current| j::uid(current) != j::uid(set)))
        .collect();
    let pods_of = |set: &Value| pods.get(j::uid(set)).map_or(&[][..], Vec::as_slice);
    let desired = replicas(deployment);
    if j::text(deployment, &["spec", "strategy", "type"]) == Some("Recreate") {
        for set in &old {
            scale(turn, set, 0);
        }
        let emptied = |set: &&Arc<Value>| pods_of(set).iter().all(|pod| is_finished(pod));
        if old.iter().all(emptied) {
            match current {
                Some(current) => scale(turn, current, desired),
                None => create_set(turn, deployment, sets.len() + 1, desired),
            }
        }
    } else {
        roll(turn, deployment, &sets, current, &old, &pods);
    }
    let all: Vec<&Arc<Value>> = sets.iter().flat_map(|set| pods_of(set)).collect();
    update_deployment_status(turn, deployment, current.map(|set| pods_of(set)), &all);
}

/// One step of a rolling update: the current set grows into the surge, the others shrink by what is not
/// needed for the availability, pods that are not ready first.
fn roll(
    turn: &mut Turn<'_>,
    deployment: &Value,
    sets: &[Arc<Value>],
    current: Option<&Arc<Value>>,
    old: &[&Arc<Value>],
    pods: &ByOwner,
) {
    let desired = replicas(deployment);
    let (surge, unavailable) = allowance(deployment, desired);
    let ready =
        |set: &Value| ready_pods(pods.get(j::uid(set)).map_or(&[][..], Vec::as_slice)).min(replicas(set));
    let planned: usize = sets.iter().map(|set| replicas(set)).sum();
    let room = (desired + surge).saturating_sub(planned);
    let Some(current) = current else {
        create_set(turn, deployment, sets.len() + 1, room.min(desired));
        return;
    };
    let has = replicas(current);
    scale(turn, current, desired.min(has + room));

    let needed = desired.saturating_sub(unavailable);
    let mut surplus = planned.saturating_sub(needed + (has - ready(current)));
    let available: usize = sets.iter().map(|set| ready(set)).sum();
    let mut spare = available.saturating_sub(needed);
    for set in old {
        let unready = (replicas(set) - ready(set)).min(surplus);
        surplus -= unready;
        let healthy = ready(set).min(spare).min(surplus);
        spare -= healthy;
        surplus -= healthy;
        scale(turn, set, replicas(set) - unready - healthy);
    }
}

/// How many pods a rolling update may have beyond the desired ones, and how many of those may be missing.
fn allowance(deployment: &Value, desired: usize) -> (usize, usize) {
    // In hundredths of a pod, since one of the two is rounded up and the other down.
    let percents = |field: &str| match j::at(deployment, &["spec", "strategy", "rollingUpdate", field]) {
        Some(Value::String(text)) => text
            .strip_suffix('%')
            .and_then(|percent| percent.parse::<usize>().ok())
            .unwrap_or(25)
            .saturating_mul(desired),
        Some(count) => count
            .as_u64()
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(0)
            .saturating_mul(100),
        None => desired.saturating_mul(25),
    };
    match (
        percents("maxSurge").div_ceil(100),
        percents("maxUnavailable") / 100,
    ) {
        (0, 0) => (0, 1),
        allowed => allowed,
    }
}

fn ready_pods(pods: &[Arc<Value>]) -> usize {
    pods.iter()
        .filter(|pod| is_active(pod) && j::is_true(pod, "Ready"))
        .count()
}

fn scale(turn: &mut Turn<'_>, set: &Value, to: usize) {
    if replicas(set) != to {
        turn.store
            .edit(Resource::ReplicaSets, j::namespace(set), j::name(set), |set| {
                j::set(set, &["spec", "replicas"], json!(to));
                j::set(
                    set,
                    &[
                        "metadata",
                        "annotations",
                        "deployment.kubernetes.io/desired-replicas",
                    ],
                    json!(to.to_string()),
                );
            });
    }
}

fn create_set(turn: &mut Turn<'_>, deployment: &Value, revision: usize, count: usize) {
    let mut template = deployment["spec"]["template"].clone();
    let digest = Sha256::digest(template.to_string().as_bytes());
    let hash = name_hash(&digest, 9);
    j::set(&mut template, &["metadata", "labels", HASH_LABEL], json!(hash));
    let mut selector = deployment["spec"]["selector"].clone();
    j::set(&mut selector, &["matchLabels", HASH_LABEL], json!(hash));
    let desired = replicas(deployment);
    let set = json!({
        "metadata": {
            "name": format!("{}-{hash}", j::name(deployment)),
            "labels": template["metadata"]["labels"],
            "annotations": {
                "deployment.kubernetes.io/desired-replicas": desired.to_string(),
                "deployment.kubernetes.io/max-replicas": (desired + desired.div_ceil(4)).to_string(),
                REVISION: revision.to_string(),
            },
            "ownerReferences": owned_by(deployment),
        },
        "spec": {"replicas": count, "selector": selector, "template": template},
        "status": {"replicas": 0},
    });
    let namespace = j::namespace(deployment);
    turn.store
        .create(Resource::ReplicaSets, namespace, set, turn.now, turn.rng);
    turn.store.edit(
        Resource::Deployments,
        namespace,
        j::name(deployment),
        |deployment| {
            j::set(
                deployment,
                &["metadata", "annotations", REVISION],
                json!(revision.to_string()),
            );
        },
    );
}

fn update_deployment_status(
    turn: &mut Turn<'_>,
    deployment: &Value,
    current: Option<&[Arc<Value>]>,
    all: &[&Arc<Value>],
) {
    let active = all.iter().filter(|pod| is_active(pod)).count();
    let ready = all
        .iter()
        .filter(|pod| is_active(pod) && j::is_true(pod, "Ready"))
        .count();
    let updated = current.map_or(0, |pods| pods.iter().filter(|pod| is_active(pod)).count());
    let terminating = all.iter().filter(|pod| j::is_deleting(pod)).count();
    let available = ready >= replicas(deployment);
    let now = turn.now;
    turn.store.edit(
        Resource::Deployments,
        j::namespace(deployment),
        j::name(deployment),
        |deployment| {
            let generation = deployment["metadata"]["generation"].clone();
            j::set(deployment, &["status", "observedGeneration"], generation);
            for (field, count) in [
                ("replicas", active),
                ("readyReplicas", ready),
                ("availableReplicas", ready),
                ("updatedReplicas", updated),
            ] {
                counted(deployment, field, count);
            }
            j::set(deployment, &["status", "terminatingReplicas"], json!(terminating));
            let (status, reason, message) = if available {
                (
                    "True",
                    "MinimumReplicasAvailable",
                    "Deployment has minimum availability.",
                )
            } else {
                (
                    "False",
                    "MinimumReplicasUnavailable",
                    "Deployment does not have minimum availability.",
                )
            };
            j::set_condition(deployment, "Available", status, reason, message, now);
        },
    );
}

/// Counts in a status are omitted while they are zero.
fn counted(object: &mut Value, field: &str, count: usize) {
    if count == 0 {
        j::remove(object, &["status", field]);
    } else {
        j::set(object, &["status", field], json!(count));
    }
}

fn reconcile_set(turn: &mut Turn<'_>, set: &Value) {
    let pods = controlled(turn.store, Resource::Pods, set);
    let mut active: Vec<&Arc<Value>> = pods.iter().filter(|pod| is_active(pod)).collect();
    let desired = replicas(set);
    for _ in active.len()..desired {
        create_pod(turn, set);
    }
    // Unbound, then unready, then youngest pods go first.
    active.sort_by_key(|pod| {
        (
            j::text(pod, &["spec", "nodeName"]).is_some(),
            j::is_true(pod, "Ready"),
            std::cmp::Reverse(j::time(pod, &["metadata", "creationTimestamp"])),
        )
    });
    let surplus = active.len().saturating_sub(desired);
    for pod in active.iter().take(surplus) {
        turn.destroy(Resource::Pods, pod, "replicaset-controller", None);
    }
    let ready = ready_pods(&pods);
    let terminating = pods.iter().filter(|pod| j::is_deleting(pod)).count();
    let count = active.len();
    turn.store
        .edit(Resource::ReplicaSets, j::namespace(set), j::name(set), |set| {
            let generation = set["metadata"]["generation"].clone();
            j::set(set, &["status", "observedGeneration"], generation);
            j::set(set, &["status", "replicas"], json!(count));
            for (field, count) in [
                ("fullyLabeledReplicas", count),
                ("readyReplicas", ready),
                ("availableReplicas", ready),
            ] {
                counted(set, field, count);
            }
            j::set(set, &["status", "terminatingReplicas"], json!(terminating));
        });
}

fn create_pod(turn: &mut Turn<'_>, set: &Value) {
    let mut pod = set["spec"]["template"].clone();
    j::set(
        &mut pod,
        &["metadata", "generateName"],
        json!(format!("{}-", j::name(set))),
    );
    j::set(&mut pod, &["metadata", "ownerReferences"], owned_by(set));
    validate::defaults(Resource::Pods, &mut pod, turn.rng);
    turn.store
        .create(Resource::Pods, j::namespace(set), pod, turn.now, turn.rng);
}
