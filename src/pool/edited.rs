//! Whether what runs is still what was validated: somebody may have edited a Deployment since (A11).
//!
//! Kubernetes gives every pod template a ReplicaSet of its own, so the ReplicaSets of what validation looked at are
//! what it looked at. Another one that has pods, or should have, is of another template, whoever wrote it: a person who
//! restarts the workers, or a controller that adds a sidecar to every Deployment, also one whose pods never come. An
//! edit *before* the validation is part of what was validated and stands; scaling changes no ReplicaSet, and one whose
//! edit was taken back wants no pods. Pure; nothing is ever written into a Deployment for it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::ids::ObjectUid;
use super::instance::ValidationReceipt;
use super::observation::{Fault, OwnedWorkload, ReplicaSetRef};
use super::ownership::replica_set;

/// The ReplicaSets that run an instance: those that have live pods of it, or should have.
#[must_use]
pub fn replica_sets(owned: &OwnedWorkload) -> BTreeSet<ObjectUid> {
    running(owned).map(|set| set.uid).collect()
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
    let other = running(owned).find(|set| !validated.contains(&set.uid))?;
    Some(Fault {
        label: "TemplateEdited",
        subject: format!("ReplicaSet {}", other.name),
        detail: "somebody edited its Deployment: its pods are not what was validated".to_owned(),
    })
}

fn running(owned: &OwnedWorkload) -> impl Iterator<Item = ReplicaSetRef> {
    let pods = owned.coordinators.iter().chain(&owned.workers);
    let live = pods.filter(|pod| !pod.finished && !pod.terminating);
    live.filter_map(replica_set)
        .chain(owned.wanted_sets.iter().cloned())
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
        insta::assert_snapshot!(fault, @"TemplateEdited: somebody edited its Deployment: its pods are not what was validated (ReplicaSet rs-worker-2)");
    }

    /// A sidecar that a quota or a policy refuses: the old workers are gone, and no new one ever comes.
    #[test]
    fn a11_an_edit_whose_pods_never_come_is_told_too() {
        let mut owned = testing::owned(2);
        owned.workers.clear();
        owned.wanted_sets[1] = ReplicaSetRef {
            name: "rs-worker-2".into(),
            uid: "uid-rs-worker-2".into(),
        };
        assert!(edited(Some(&receipt()), &owned, at(1)).is_some());
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
