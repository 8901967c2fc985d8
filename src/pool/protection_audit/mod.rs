//! The audit of protection: what would not hold Karpenter off pods that carry our labels, by name.
//!
//! Owns no rule of its own about what protects ([`super::protection`]) or whose a node is
//! ([`super::placement`]); it asks both of every live pod and of every node beneath one, and lists what is not
//! as it must be. What could not be read is a finding too, never a pass. Pure: it knows no instance row, so it
//! judges pods of pools that no store holds any more as well, and takes a pod's labels for what they say.

mod finding;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use self::finding::{Finding, PodRef, Problem, Subject};
use super::ids::{Namespace, NodeName};
use super::observation::{Fault, NodeReadings, Reading};
use super::placement::join::{self, Join, join};
use super::placement::{deadline, is_older};
use super::protection::{PROTECTED, is_live, is_protected};
use crate::cluster::facts::{ClaimFacts, Grace, NamespacedPod, NodeFacts, PodFacts, Undecodable};
use crate::pool::names::ANNOTATION_DO_NOT_DISRUPT;

/// What the audit came to. Nothing found is what it must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Live pods that could be read: neither finished nor terminating.
    pub live: usize,
    /// Of these, how many are protected without end by their annotation.
    pub protected: usize,
    /// Of these, how many have no node yet.
    pub unplaced: usize,
    /// Finished or terminating pods: no annotation holds anything there, so they are not judged (K15).
    pub left_out: usize,
    /// Pods that could not be read.
    pub unreadable: usize,
    /// Nodes beneath live pods.
    pub nodes: usize,
    /// Of these, how many are owned by exactly one NodeClaim that waits for protected pods without end.
    pub sound: usize,
    /// What is not as it must be, by subject.
    pub findings: Vec<Finding>,
}

/// The nodes that have to be read for an audit: those beneath live pods.
#[must_use]
pub fn nodes_of(pods: &[NamespacedPod]) -> BTreeSet<NodeName> {
    pods.iter()
        .filter_map(|pod| pod.pod.as_ref().ok())
        .filter(|pod| is_live(pod))
        .filter_map(|pod| pod.node.clone())
        .collect()
}

/// Judges every pod, and every node beneath a live one.
///
/// The nodes should be read after the pods, and the claims after the nodes: then what merely appears meanwhile does
/// not look as if it missed something.
#[must_use]
pub fn audit(pods: &[NamespacedPod], readings: &NodeReadings) -> Audit {
    let mut audit = Audit::default();
    let mut by_node: BTreeMap<&NodeName, Vec<(PodRef, &PodFacts)>> = BTreeMap::new();
    for pod in pods {
        match &pod.pod {
            Err(problem) => audit.unreadable(pod.namespace.clone(), problem),
            Ok(facts) if !is_live(facts) => audit.left_out += 1,
            Ok(facts) => {
                let name = PodRef {
                    namespace: pod.namespace.clone(),
                    name: facts.name.to_string(),
                };
                audit.live(&name, facts);
                if let Some(node) = &facts.node {
                    by_node.entry(node).or_default().push((name, facts));
                }
            }
        }
    }
    audit.nodes = by_node.len();
    for (node, mut pods) in by_node {
        pods.sort_by(|one, other| one.0.cmp(&other.0));
        let before = audit.findings.len();
        audit.node(node, &pods, readings);
        audit.sound += usize::from(audit.findings.len() == before);
    }
    audit.findings.sort_by(|one, other| {
        (&one.subject, one.problem.word()).cmp(&(&other.subject, other.problem.word()))
    });
    audit
}

/// As people write it: whole seconds, or whatever finer it is.
fn as_written(length: Duration) -> String {
    if length.subsec_nanos() == 0 {
        format!("{}s", length.as_secs())
    } else {
        format!("{length:?}")
    }
}

impl Audit {
    fn unreadable(&mut self, namespace: Option<Namespace>, undecodable: &Undecodable) {
        self.unreadable += 1;
        let name = undecodable.name.clone().unwrap_or_else(|| {
            let uid = undecodable.uid.as_deref().unwrap_or("unknown");
            format!("(no name, UID {uid})")
        });
        let pod = PodRef { namespace, name };
        self.findings.push(Finding {
            subject: Subject::Pod(pod.clone()),
            problem: Problem::PodUnreadable,
            node: None,
            pods: vec![pod],
            detail: format!("it cannot be read: {}", undecodable.problem),
        });
    }

    fn live(&mut self, name: &PodRef, pod: &PodFacts) {
        self.live += 1;
        self.unplaced += usize::from(pod.node.is_none());
        if is_protected(pod) {
            self.protected += 1;
            return;
        }
        let stands = match &pod.do_not_disrupt {
            // Whatever somebody wrote there, it stays on this line.
            Some(value) => format!("is {value:?}"),
            None => "is absent".to_owned(),
        };
        self.findings.push(Finding {
            subject: Subject::Pod(name.clone()),
            problem: Problem::PodUnprotected {
                found: pod.do_not_disrupt.clone(),
            },
            node: pod.node.clone(),
            pods: vec![name.clone()],
            detail: format!("{ANNOTATION_DO_NOT_DISRUPT} {stands}; only {PROTECTED:?} protects"),
        });
    }

    fn node(&mut self, name: &NodeName, pods: &[(PodRef, &PodFacts)], readings: &NodeReadings) {
        let (problem, detail) = match readings.nodes.get(name) {
            Some(Reading::Seen(Some(node))) => return self.seen(node, pods, readings),
            Some(Reading::Seen(None)) => (
                Problem::NodeAbsent,
                "pods name it, and it does not exist".to_owned(),
            ),
            Some(Reading::Unknown(fault)) => (
                Problem::NodeUnreadable,
                format!("it cannot be read: {}", fault.detail),
            ),
            None | Some(Reading::NotAsked) => (Problem::NodeUnreadable, "it was not read".to_owned()),
        };
        self.on_node(Subject::Node(name.clone()), problem, name, pods, detail);
    }

    fn seen(&mut self, node: &NodeFacts, pods: &[(PodRef, &PodFacts)], readings: &NodeReadings) {
        let name = &node.name;
        let (older, beneath): (Vec<_>, Vec<_>) =
            pods.iter().cloned().partition(|(_, pod)| is_older(pod, node));
        for pod in &older {
            self.on_node(
                Subject::Pod(pod.0.clone()),
                Problem::PodOlderThanNode,
                name,
                std::slice::from_ref(pod),
                format!("it started before node {name} was created"),
            );
        }
        if beneath.is_empty() {
            return;
        }
        match join(node, &readings.claims) {
            Join::Proven(claim) => self.claim(claim, name, &beneath),
            Join::Unowned(detail) => {
                self.on_node(
                    Subject::Node(name.clone()),
                    Problem::NodeUnowned,
                    name,
                    &beneath,
                    detail,
                );
            }
            Join::Contradicted(fault) | Join::Unknown(fault) => self.unproven(node, &beneath, fault),
        }
    }

    fn unproven(&mut self, node: &NodeFacts, pods: &[(PodRef, &PodFacts)], fault: Fault) {
        let subject = Subject::Node(node.name.clone());
        let (subject, problem, detail) = match (fault.label, join::claim_name(node)) {
            (join::OWNERS_AMBIGUOUS, _) => (subject, Problem::NodeOwnersAmbiguous, fault.detail),
            (join::CLAIM_ABSENT, _) => (subject, Problem::ClaimAbsent, fault.detail),
            (join::CLAIM_UNDECODABLE, Some(claim)) => (
                Subject::Claim(claim),
                Problem::ClaimUndecodable,
                format!(
                    "it owns node {}, and a NodeClaim cannot be read: {}",
                    node.name, fault.detail
                ),
            ),
            // Whatever else keeps it from being proven.
            (_, _) => (subject, Problem::PlacementNotProven, fault.detail),
        };
        self.on_node(subject, problem, &node.name, pods, detail);
    }

    fn claim(&mut self, claim: &ClaimFacts, node: &NodeName, pods: &[(PodRef, &PodFacts)]) {
        let found = match &claim.grace {
            Grace::Unlimited => None,
            Grace::Finite(length) => Some((as_written(*length), "")),
            Grace::Unreadable(text) => Some((text.clone(), ", which is no duration and counts as finite")),
        };
        let (problem, detail) = match (found, deadline(claim)) {
            (None, None) => return,
            (None, Some(at)) => (
                Problem::ForcedEnd { at },
                format!("it is being deleted, and ends protected pods on node {node} at {at}"),
            ),
            (Some((found, remark)), at) => {
                let end = match at {
                    Some(at) => {
                        format!("it is being deleted, and ends protected pods on node {node} at {at}")
                    }
                    None => format!("once deleted, it ends protected pods on node {node} after that time"),
                };
                let detail = format!("terminationGracePeriod is {found:?}{remark}; {end}");
                (Problem::FiniteGrace { found }, detail)
            }
        };
        self.on_node(Subject::Claim(claim.name.clone()), problem, node, pods, detail);
    }

    fn on_node(
        &mut self,
        subject: Subject,
        problem: Problem,
        node: &NodeName,
        pods: &[(PodRef, &PodFacts)],
        detail: String,
    ) {
        self.findings.push(Finding {
            subject,
            problem,
            node: Some(node.clone()),
            pods: pods.iter().map(|(name, _)| name.clone()).collect(),
            detail,
        });
    }
}
