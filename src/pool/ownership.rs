//! Which of the objects that carry an instance's label are provably its own.
//!
//! A label proves nothing: anybody can set one. A pod is ours when its controller is a ReplicaSet, known
//! by UID, whose controller is one of the two Deployments whose UIDs the row recorded. Everything else
//! under the label is a fault for people to look at: never patched, never deleted, never evidence, and it
//! never hides the pods that are ours. Pure; reads facts and writes nothing.

use super::ids::{Epoch, ObjectName, ObjectUid};
use super::instance::{InstanceObjects, InstanceRow, ObjectRef};
use super::observation::{Fault, OwnedWorkload, ReplicaSetRef};
use crate::cluster::facts::{DeploymentFacts, ObjectFacts, OwnerRef, PodFacts, ReplicaSetFacts, Workload};
use crate::pool::names::ANNOTATION_EPOCH;

/// Which Deployment of an instance.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Coordinator,
    Workers,
}

/// Proves pod → ReplicaSet UID → recorded Deployment UID for everything under the instance's label.
///
/// Without recorded objects nothing can be proven: every pod is then a fault.
#[must_use]
pub fn prove(row: &InstanceRow, workload: &Workload, current_epoch: Epoch) -> OwnedWorkload {
    let mut owned = OwnedWorkload::default();
    for item in &workload.undecodable {
        let subject = item
            .name
            .as_deref()
            .or(item.uid.as_deref())
            .unwrap_or("(unnamed)");
        fault(&mut owned, "Undecodable", subject, &item.problem);
    }
    let Some(objects) = &row.objects else {
        for pod in &workload.pods {
            let detail = "the row records no Deployment that could own it";
            fault(&mut owned, "ForeignPod", pod.name.as_str(), detail);
        }
        return owned;
    };
    deployments(&mut owned, objects, workload, current_epoch);
    replica_sets(&mut owned, objects, workload);
    for pod in &workload.pods {
        match owner_of(pod, objects, &workload.replica_sets) {
            Ok(Part::Coordinator) => owned.coordinators.push(pod.clone()),
            Ok(Part::Workers) => owned.workers.push(pod.clone()),
            Err(why) => fault(&mut owned, "ForeignPod", pod.name.as_str(), &why),
        }
    }
    // A stuck one on a lost node and its twin elsewhere are two processes, of which one is registered (A08).
    let coordinators: Vec<_> = owned.coordinators.iter().filter(|pod| !pod.finished).collect();
    if coordinators.len() > 1 {
        let names: Vec<_> = coordinators.iter().map(|pod| pod.name.as_str()).collect();
        let detail = format!("{} coordinator pods exist: {}", names.len(), names.join(", "));
        fault(&mut owned, "SeveralCoordinators", row.id.as_str(), &detail);
    }
    secondary(&mut owned, &workload.services, &[&objects.service]);
    let configs = [&objects.coordinator_config, &objects.worker_config];
    secondary(&mut owned, &workload.config_maps, &configs);
    owned.faults.sort();
    owned
}

fn fault(owned: &mut OwnedWorkload, label: &'static str, subject: &str, detail: &str) {
    owned.faults.push(Fault {
        label,
        subject: subject.to_owned(),
        detail: detail.to_owned(),
    });
}

fn deployments(owned: &mut OwnedWorkload, objects: &InstanceObjects, workload: &Workload, epoch: Epoch) {
    for deployment in &workload.deployments {
        let subject = deployment.object.name.as_str();
        let Some(part) = part_of(objects, &deployment.object.name, &deployment.object.uid) else {
            let detail = format!(
                "Deployment of UID {} is not a recorded one",
                deployment.object.uid
            );
            fault(owned, "ForeignObject", subject, &detail);
            continue;
        };
        if let Err(why) = epoch_fits(deployment, epoch) {
            fault(owned, "StaleEpoch", subject, &why);
        }
        match part {
            Part::Coordinator => owned.coordinator_ready = Some(deployment.ready),
            Part::Workers => {
                owned.workers_ready = Some(deployment.ready);
                owned.workers_wanted = deployment.replicas;
            }
        }
    }
}

fn part_of(objects: &InstanceObjects, name: &ObjectName, uid: &ObjectUid) -> Option<Part> {
    let is = |recorded: &ObjectRef| recorded.name == *name && recorded.uid == *uid;
    if is(&objects.coordinator) {
        Some(Part::Coordinator)
    } else if is(&objects.workers) {
        Some(Part::Workers)
    } else {
        None
    }
}

/// An object made under a newer epoch means that this process is no longer the authority.
fn epoch_fits(deployment: &DeploymentFacts, current: Epoch) -> Result<(), String> {
    let written = deployment.object.annotations.get(ANNOTATION_EPOCH);
    let Some(text) = written else {
        return Err("it carries no authority epoch".to_owned());
    };
    match text.parse::<u64>() {
        Ok(epoch) if epoch <= current.get() => Ok(()),
        Ok(epoch) => Err(format!("made under epoch {epoch}, ours is {current}")),
        Err(_) => Err("its authority epoch is not a number".to_owned()),
    }
}

fn replica_sets(owned: &mut OwnedWorkload, objects: &InstanceObjects, workload: &Workload) {
    for set in &workload.replica_sets {
        let subject = set.name.as_str();
        let Some(part) = controller(&set.owners)
            .filter(|owner| owner.group() == "apps" && owner.kind == "Deployment")
            .and_then(|owner| part_of(objects, &owner.name.as_str().into(), &owner.uid.as_str().into()))
        else {
            fault(
                owned,
                "ForeignObject",
                subject,
                "ReplicaSet of no recorded Deployment",
            );
            continue;
        };
        // Left behind by an orphaning delete it keeps its pods alive: to be seen before "retired" (A10).
        let deployment_stands = match part {
            Part::Coordinator => owned.coordinator_ready.is_some(),
            Part::Workers => owned.workers_ready.is_some(),
        };
        if !deployment_stands {
            fault(owned, "OrphanReplicaSet", subject, "its Deployment is gone");
        }
        if set.wanted > 0 {
            owned.wanted_sets.push(ReplicaSetRef {
                name: set.name.clone(),
                uid: set.uid.clone(),
            });
        }
    }
}

/// The ReplicaSet that made a pod, if one did.
pub(super) fn replica_set(pod: &PodFacts) -> Option<ReplicaSetRef> {
    controller(&pod.owners).map(|owner| ReplicaSetRef {
        name: owner.name.as_str().into(),
        uid: owner.uid.as_str().into(),
    })
}

fn controller(owners: &[OwnerRef]) -> Option<&OwnerRef> {
    owners.iter().find(|owner| owner.controller)
}

fn owner_of(pod: &PodFacts, objects: &InstanceObjects, sets: &[ReplicaSetFacts]) -> Result<Part, String> {
    if pod.uid.is_empty() || pod.resource_version.is_empty() {
        return Err("it carries no UID or no resourceVersion".to_owned());
    }
    let owner = controller(&pod.owners).ok_or("nothing controls it")?;
    if owner.group() != "apps" || owner.kind != "ReplicaSet" || owner.uid.is_empty() {
        return Err(format!("its controller is {} {}", owner.kind, owner.name));
    }
    let set = sets
        .iter()
        .find(|set| set.uid.as_str() == owner.uid && set.name.as_str() == owner.name)
        .ok_or_else(|| format!("its ReplicaSet {} of UID {} is not ours", owner.name, owner.uid))?;
    let deployment = controller(&set.owners)
        .filter(|owner| owner.group() == "apps" && owner.kind == "Deployment")
        .ok_or_else(|| format!("no Deployment controls its ReplicaSet {}", set.name))?;
    let (name, uid) = (deployment.name.as_str().into(), deployment.uid.as_str().into());
    part_of(objects, &name, &uid)
        .ok_or_else(|| format!("its Deployment {name} of UID {uid} is not a recorded one"))
}

fn secondary(owned: &mut OwnedWorkload, found: &[ObjectFacts], recorded: &[&ObjectRef]) {
    for object in found {
        if !recorded
            .iter()
            .any(|recorded| recorded.name == object.name && recorded.uid == object.uid)
        {
            let detail = format!(
                "{} of UID {} is not a recorded one",
                object.kind.as_str(),
                object.uid
            );
            fault(owned, "ForeignObject", object.name.as_str(), &detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::testing::{self, owner};

    fn labels(owned: &OwnedWorkload) -> Vec<&'static str> {
        owned.faults.iter().map(|fault| fault.label).collect()
    }

    fn prove_now(workload: &Workload) -> OwnedWorkload {
        prove(
            &testing::row(crate::pool::phase::Phase::Serving),
            workload,
            Epoch::new(7),
        )
    }

    #[test]
    fn a_whole_workload_is_proven_without_a_fault() {
        let owned = prove_now(&testing::workload(2));
        assert_eq!(owned.faults, []);
        assert_eq!((owned.coordinators.len(), owned.workers.len()), (1, 2));
        assert_eq!(owned.coordinator_ready, Some(1));
        assert_eq!((owned.workers_ready, owned.workers_wanted), (Some(2), Some(2)));
    }

    #[test]
    fn a10_foreign_pods_with_our_label_are_faults_and_hide_nothing() {
        let cases: Vec<(&str, Vec<OwnerRef>)> = vec![
            ("owned by nobody", vec![]),
            (
                "another ReplicaSet",
                vec![owner("apps/v1", "ReplicaSet", "rs-x", "R9", true)],
            ),
            (
                "our ReplicaSet's name, another UID",
                vec![owner("apps/v1", "ReplicaSet", "rs-coordinator", "R9", true)],
            ),
            (
                "a StatefulSet",
                vec![owner("apps/v1", "StatefulSet", "s", "uid-rs-coordinator", true)],
            ),
            (
                "our ReplicaSet, but not as controller",
                vec![owner(
                    "apps/v1",
                    "ReplicaSet",
                    "rs-coordinator",
                    "uid-rs-coordinator",
                    false,
                )],
            ),
        ];
        for (what, owners) in cases {
            let mut workload = testing::workload(1);
            let mut foreign = testing::pod("pod-x", "node-1");
            foreign.owners = owners;
            workload.pods.push(foreign);
            let owned = prove_now(&workload);
            assert_eq!(labels(&owned), ["ForeignPod"], "{what}");
            assert_eq!((owned.coordinators.len(), owned.workers.len()), (1, 1), "{what}");
        }
    }

    #[test]
    fn a10_of_two_owners_the_controller_decides() {
        let mut workload = testing::workload(1);
        workload.pods[0]
            .owners
            .insert(0, owner("apps/v1", "ReplicaSet", "rs-x", "R9", false));
        assert_eq!(prove_now(&workload).coordinators.len(), 1);
    }

    #[test]
    fn a10_a_replica_set_whose_deployment_is_gone_is_an_orphan() {
        let mut workload = testing::workload(1);
        workload.deployments.remove(0);
        let owned = prove_now(&workload);
        assert_eq!(labels(&owned), ["OrphanReplicaSet"]);
        assert_eq!(owned.coordinator_ready, None);
        // Its pods are still ours: they would count against "absent".
        assert_eq!(owned.coordinators.len(), 1);
    }

    /// The pods of an edited template are ours all the same: still protected, still counted, still to be absent.
    #[test]
    fn a11_a_second_replica_set_of_a_recorded_deployment_is_ours() {
        let mut workload = testing::workload(1);
        let mut second = workload.replica_sets[0].clone();
        second.name = "rs-coordinator-2".into();
        second.uid = "uid-rs-coordinator-2".into();
        workload.replica_sets.push(second);
        workload.pods[0].owners[0].name = "rs-coordinator-2".into();
        workload.pods[0].owners[0].uid = "uid-rs-coordinator-2".into();
        let owned = prove_now(&workload);
        assert_eq!(owned.faults, []);
        assert_eq!(owned.coordinators.len(), 1);
    }

    #[test]
    fn a08_two_coordinator_pods_are_reported_and_both_kept() {
        let mut workload = testing::workload(1);
        workload.pods[0].terminating = true;
        let mut twin = workload.pods[0].clone();
        twin.name = "coordinator-b".into();
        twin.uid = "pod-uid-b".into();
        twin.terminating = false;
        workload.pods.push(twin);
        let owned = prove_now(&workload);
        assert_eq!(labels(&owned), ["SeveralCoordinators"]);
        assert_eq!(owned.coordinators.len(), 2);
    }

    #[test]
    fn an_object_of_a_newer_epoch_or_another_uid_is_a_fault() {
        let mut workload = testing::workload(1);
        workload.deployments[0]
            .object
            .annotations
            .insert(ANNOTATION_EPOCH.to_owned(), "8".to_owned());
        workload.services[0].uid = "another".into();
        workload.deployments[1].object.uid = "another".into();
        let owned = prove_now(&workload);
        assert!(labels(&owned).contains(&"StaleEpoch"));
        let foreign = labels(&owned)
            .iter()
            .filter(|label| **label == "ForeignObject")
            .count();
        assert_eq!(foreign, 2, "the Service and the worker Deployment");
        assert!(labels(&owned).contains(&"OrphanReplicaSet"));
        assert_eq!(
            owned.workers_wanted, None,
            "a Deployment of another UID is not ours to count"
        );
    }

    #[test]
    fn nothing_is_proven_without_recorded_objects() {
        let mut row = testing::row(crate::pool::phase::Phase::Pending);
        row.objects = None;
        let owned = prove(&row, &testing::workload(1), Epoch::new(7));
        assert_eq!((owned.coordinators.len(), owned.workers.len()), (0, 0));
        assert_eq!(labels(&owned), ["ForeignPod", "ForeignPod"]);
    }

    #[test]
    fn a06_an_undecodable_object_is_reported() {
        let mut workload = testing::workload(1);
        workload.undecodable.push(crate::cluster::facts::Undecodable {
            name: Some("bad-1".into()),
            uid: None,
            problem: "status: not an object".into(),
        });
        assert_eq!(labels(&prove_now(&workload)), ["Undecodable"]);
    }
}
