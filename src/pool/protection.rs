//! Which pods of ours are not protected against voluntary disruption.
//!
//! Owns one test: the value of `karpenter.sh/do-not-disrupt`. Until Karpenter 1.11 exactly "true"
//! protects; from 1.12 a positive duration protects for a while as well (kubernetes-sigs/karpenter
//! pkg/utils/pod/scheduling.go). A pod of ours is protected without end or not at all, so anything but
//! "true" is repaired. Pure; the patch is made elsewhere, with the preconditions given here.

use super::observation::{OwnedWorkload, Unprotected};
use crate::cluster::facts::PodFacts;

/// The one value that protects in every version and without end.
pub const PROTECTED: &str = "true";

/// Pods of ours that are not protected and that a patch would help.
///
/// A terminating or finished pod is left out: the annotation no longer holds anything there.
#[must_use]
pub fn unprotected(owned: &OwnedWorkload) -> Vec<Unprotected> {
    owned
        .coordinators
        .iter()
        .chain(&owned.workers)
        .filter(|pod| is_live(pod) && !is_protected(pod))
        .map(|pod| Unprotected {
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            version: pod.resource_version.clone(),
            found: pod.do_not_disrupt.clone(),
        })
        .collect()
}

/// Whether the annotation holds voluntary disruption off this pod. Never true for a pod that is
/// already terminating (aws/karpenter-provider-aws#7259).
#[must_use]
pub fn is_protected(pod: &PodFacts) -> bool {
    is_live(pod) && pod.do_not_disrupt.as_deref() == Some(PROTECTED)
}

/// Whether Karpenter looks at the annotation at all: it waits neither for a finished pod nor for one that is
/// terminating (kubernetes-sigs/karpenter pkg/utils/pod/scheduling.go).
#[must_use]
pub const fn is_live(pod: &PodFacts) -> bool {
    !pod.finished && !pod.terminating
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::testing;

    fn owned_with(value: Option<&str>) -> OwnedWorkload {
        let mut owned = testing::owned(1);
        owned.coordinators[0].do_not_disrupt = value.map(str::to_owned);
        owned
    }

    #[test]
    fn k14_only_the_exact_word_true_protects() {
        assert_eq!(unprotected(&owned_with(Some("true"))), []);
        let weak = [
            "True", "TRUE", " true", "true ", "1", "yes", "", "5m", "2h30m", "24h", "-5m", "0s", "forever",
        ];
        for value in weak.map(Some).into_iter().chain([None]) {
            let found = unprotected(&owned_with(value));
            assert_eq!(found.len(), 1, "{value:?}");
            assert_eq!(found[0].found.as_deref(), value);
            assert_eq!(found[0].uid.as_str(), "pod-uid-coordinator");
            assert!(!found[0].version.is_empty());
        }
    }

    #[test]
    fn k15_a_terminating_or_finished_pod_is_neither_patched_nor_protected() {
        for (terminating, finished) in [(true, false), (false, true), (true, true)] {
            for value in [Some("true"), None] {
                let mut owned = owned_with(value);
                owned.coordinators[0].terminating = terminating;
                owned.coordinators[0].finished = finished;
                assert_eq!(unprotected(&owned), []);
                assert!(!is_protected(&owned.coordinators[0]));
            }
        }
    }

    #[test]
    fn workers_are_protected_as_well() {
        let mut owned = testing::owned(2);
        owned.workers[1].do_not_disrupt = None;
        assert_eq!(unprotected(&owned).len(), 1);
    }
}
