//! Whether what runs is still what was validated: somebody may have edited a Deployment since (A11).
//!
//! Kubernetes gives every pod template a ReplicaSet of its own, so the ReplicaSets of the pods that validation
//! looked at are what it looked at. Pods of another one run another template, whoever wrote it: a person who
//! restarts the workers, or a controller that adds a sidecar to every Deployment. An edit *before* the validation is
//! part of what was validated and stands; scaling, or an edit that was taken back, changes no ReplicaSet of a
//! running pod. Pure; nothing is ever written into a Deployment for it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::ids::ObjectUid;
use super::instance::ValidationReceipt;
use super::observation::{Fault, OwnedWorkload};
use super::ownership::replica_set;
use crate::cluster::facts::PodFacts;

/// The ReplicaSets of an instance's live pods.
#[must_use]
pub fn replica_sets(owned: &OwnedWorkload) -> BTreeSet<ObjectUid> {
    let sets = live(owned).filter_map(replica_set);
    sets.map(|(_, uid)| uid).collect()
}

/// How it shows that somebody edited a Deployment since the receipt; `None` while it does not, or where nothing can
/// be said: no receipt, one that names no ReplicaSets, or a look (`seen_at`) no younger than the receipt.
#[must_use]
pub fn edited(
    receipt: Option<&ValidationReceipt>,
    owned: &OwnedWorkload,
    seen_at: Timestamp,
) -> Option<Fault> {
    let receipt = receipt.filter(|receipt| seen_at > receipt.validated_at)?;
    let validated = receipt.replica_sets.as_ref()?;
    let foreign = live(owned).find_map(|pod| {
        let (set, uid) = replica_set(pod)?;
        (!validated.contains(&uid)).then_some((pod, set))
    });
    foreign.map(|(pod, set)| Fault {
        label: "TemplateEdited",
        subject: format!("pod {}", pod.name),
        detail: format!("somebody edited its Deployment: it is of ReplicaSet {set}, which was not validated"),
    })
}

fn live(owned: &OwnedWorkload) -> impl Iterator<Item = &PodFacts> {
    let pods = owned.coordinators.iter().chain(&owned.workers);
    pods.filter(|pod| !pod.finished && !pod.terminating)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::testing::{self, at};

    fn receipt() -> ValidationReceipt {
        ValidationReceipt {
            replica_sets: Some(replica_sets(&testing::owned(2))),
            ..testing::receipt()
        }
    }

    fn restarted() -> OwnedWorkload {
        let mut owned = testing::owned(2);
        owned.workers[1].owners[0].name = "rs-worker-2".into();
        owned.workers[1].owners[0].uid = "uid-rs-worker-2".into();
        owned
    }

    #[test]
    fn a11_pods_of_another_replica_set_say_that_the_template_was_edited() {
        let fault = edited(Some(&receipt()), &restarted(), at(1)).unwrap();
        insta::assert_snapshot!(fault, @"TemplateEdited: somebody edited its Deployment: it is of ReplicaSet rs-worker-2, which was not validated (pod worker-2)");
    }

    #[test]
    fn a11_scaling_alone_is_no_template_edit() {
        assert_eq!(edited(Some(&receipt()), &testing::owned(2), at(1)), None);
        assert_eq!(edited(Some(&receipt()), &testing::owned(7), at(1)), None);
    }

    #[test]
    fn a11_an_edit_before_the_validation_is_part_of_what_was_validated() {
        let receipt = ValidationReceipt {
            replica_sets: Some(replica_sets(&restarted())),
            ..testing::receipt()
        };
        assert_eq!(edited(Some(&receipt), &restarted(), at(1)), None);
    }

    #[test]
    fn a11_an_edit_that_was_taken_back_is_none() {
        let mut owned = restarted();
        owned.workers[1].terminating = true;
        assert_eq!(edited(Some(&receipt()), &owned, at(1)), None);
    }

    #[test]
    fn a11_where_no_replica_sets_were_recorded_nothing_is_said_so_that_an_upgrade_replaces_nothing() {
        let older: ValidationReceipt = {
            let mut value = serde_json::to_value(receipt()).unwrap();
            value.as_object_mut().unwrap().remove("replica_sets").unwrap();
            serde_json::from_value(value).unwrap()
        };
        assert_eq!(edited(Some(&older), &restarted(), at(1)), None);
        assert_eq!(edited(None, &restarted(), at(1)), None);
    }

    #[test]
    fn a_look_before_the_validation_says_nothing_of_it() {
        assert_eq!(edited(Some(&receipt()), &restarted(), at(0)), None);
    }
}
