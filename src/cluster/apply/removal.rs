//! Deleting the recorded objects by UID, and proving that nothing of the instance is left.

use super::{fault, named};
use crate::cluster::facts::{Lookup, ObjectKind, PodFacts};
use crate::cluster::port::{Cluster, Written};
use crate::pool::ids::{InstanceId, Namespace};
use crate::pool::instance::{InstanceObjects, ObjectRef};
use crate::pool::observation::Fault;
use crate::pool::step::Deletion;

/// Coordinator first, so that no new work is accepted while the workers go; configuration last, since
/// pods that are still ending may read it.
fn in_order(objects: &InstanceObjects) -> [(ObjectKind, &ObjectRef); 5] {
    [
        (ObjectKind::Deployment, &objects.coordinator),
        (ObjectKind::Deployment, &objects.workers),
        (ObjectKind::Service, &objects.service),
        (ObjectKind::ConfigMap, &objects.coordinator_config),
        (ObjectKind::ConfigMap, &objects.worker_config),
    ]
}

/// Deletes the five objects, each with its recorded UID as precondition, then looks whether anything of
/// the instance is left. The caller has made sure that the row permits it (S1). An object of that name
/// with another UID is left alone, and so is everything after it.
pub async fn delete_all(
    cluster: &dyn Cluster,
    namespace: &Namespace,
    instance: &InstanceId,
    objects: &InstanceObjects,
) -> Deletion {
    for (kind, object) in in_order(objects) {
        if let Err(stopped) = delete_one(cluster, kind, namespace, object).await {
            return stopped;
        }
    }
    verify_absent(cluster, namespace, instance, objects).await
}

async fn delete_one(
    cluster: &dyn Cluster,
    kind: ObjectKind,
    namespace: &Namespace,
    object: &ObjectRef,
) -> Result<(), Deletion> {
    let subject = named(kind, namespace, &object.name);
    if object.uid.is_empty() || object.name.is_empty() {
        // Without both, a delete would not be bound to the object that was recorded.
        return Err(Deletion::Foreign(format!("{subject} has no recorded UID")));
    }
    match cluster.delete(kind, namespace, &object.name, &object.uid).await {
        Ok(Written::Applied | Written::Absent) => Ok(()),
        Ok(Written::Denied(message)) => Err(Deletion::Remaining(format!(
            "{subject}: deletion denied: {message}"
        ))),
        // What stands in the way decides: another object, or our own in the middle of a change.
        Ok(Written::Conflict(message)) => match cluster.object(kind, namespace, &object.name).await {
            Ok(Lookup::Absent) => Ok(()),
            Ok(Lookup::Found(found)) if found.uid != object.uid => Err(foreign(&subject, object, &found.uid)),
            Ok(Lookup::Found(_)) => Err(Deletion::Unknown(Fault {
                label: "DeleteConflict",
                subject,
                detail: message,
            })),
            Err(error) => Err(Deletion::Unknown(fault(subject, &error))),
        },
        Err(error) => Err(Deletion::Unknown(fault(subject, &error))),
    }
}

fn foreign(subject: &str, recorded: &ObjectRef, found: &crate::pool::ids::ObjectUid) -> Deletion {
    Deletion::Foreign(format!(
        "{subject} carries UID {found}; recorded is {}",
        recorded.uid
    ))
}

/// Whether everything of the instance is gone: all five objects by name and UID, every ReplicaSet and
/// pod with the instance's label, and every pod that looks like the instance's without it. A terminating
/// pod is still there (A08).
pub async fn verify_absent(
    cluster: &dyn Cluster,
    namespace: &Namespace,
    instance: &InstanceId,
    objects: &InstanceObjects,
) -> Deletion {
    let mut remaining: Vec<String> = Vec::new();
    for (kind, object) in in_order(objects) {
        let subject = named(kind, namespace, &object.name);
        match cluster.object(kind, namespace, &object.name).await {
            Ok(Lookup::Absent) => {}
            Ok(Lookup::Found(found)) if found.uid == object.uid => remaining.push(subject),
            Ok(Lookup::Found(found)) => return foreign(&subject, object, &found.uid),
            Err(error) => return Deletion::Unknown(fault(subject, &error)),
        }
    }
    match cluster.workload(namespace, instance).await {
        Err(error) => {
            return Deletion::Unknown(fault(format!("objects of {namespace}/{instance}"), &error));
        }
        Ok(workload) => {
            if let Some(bad) = workload.undecodable.first() {
                return Deletion::Unknown(Fault {
                    label: "Undecodable",
                    subject: format!("objects of {namespace}/{instance}"),
                    detail: format!("{}: {}", bad.name.as_deref().unwrap_or("?"), bad.problem),
                });
            }
            remaining.extend(
                workload
                    .replica_sets
                    .iter()
                    .map(|set| format!("ReplicaSet {}", set.name)),
            );
            remaining.extend(workload.pods.iter().map(|pod| format!("pod {}", pod.name)));
        }
    }
    if remaining.is_empty() {
        // Labels can be removed from a pod that lives on; its name and its owner's name cannot. Only now,
        // when everything else is gone, is the whole namespace worth reading.
        match cluster.pods(namespace).await {
            Err(error) => return Deletion::Unknown(fault(format!("pods of {namespace}"), &error)),
            Ok(pods) => {
                remaining.extend(
                    pods.items
                        .iter()
                        .filter(|pod| looks_like(pod, instance))
                        .map(|pod| format!("pod {} without its label", pod.name)),
                );
                remaining.extend(
                    pods.undecodable
                        .iter()
                        .filter(|pod| pod.name.as_deref().is_none_or(|name| is_of(name, instance)))
                        .map(|pod| format!("unreadable pod {}", pod.name.as_deref().unwrap_or("?"))),
                );
            }
        }
    }
    if remaining.is_empty() {
        Deletion::Absent
    } else {
        Deletion::Remaining(remaining.join(", "))
    }
}

fn looks_like(pod: &PodFacts, instance: &InstanceId) -> bool {
    is_of(pod.name.as_str(), instance) || pod.owners.iter().any(|owner| is_of(&owner.name, instance))
}

/// Pods and ReplicaSets are named `<id>-coordinator-…` and `<id>-worker-…`.
fn is_of(name: &str, instance: &InstanceId) -> bool {
    name.strip_prefix(instance.as_str())
        .is_some_and(|rest| rest.starts_with("-coordinator-") || rest.starts_with("-worker-"))
}
