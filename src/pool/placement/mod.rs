//! The verdict on the nodes beneath an instance.
//!
//! Owns the order of judging: evidence is collected from *every* node before anything else is judged, so
//! that neither a missing pod nor an unreadable or cordoned node that sorts first hides a drifted one (L3).
//! Two questions are answered side by side: what makes a *candidate* definitively invalid (L4), and
//! what is wrong or unknown for anybody. Pure: reads nothing, writes nothing, knows no phase.

pub mod join;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use self::join::{Join, join};
use super::desired::{FiniteGrace, NodeReplacement, UnownedNodes};
use super::evidence::Disruption;
use super::ids::NodeName;
use super::instance::{CandidateFailure, FailureCause, InstanceRow};
use super::observation::{AtRisk, Fault, LeavingNode, NodeReadings, OwnedWorkload, PlacementReport, Reading};
use crate::cluster::facts::{ClaimFacts, Grace, NodeFacts, PodFacts, Taint};

/// Clocks of a kubelet and the API server may differ by this much before a pod counts as older than
/// the node it is said to run on.
const CLOCK_SKEW: Duration = Duration::from_secs(10);

/// The nodes that have to be read before [`inspect`]: those of every unfinished pod of ours, terminating
/// ones included.
#[must_use]
pub fn nodes_of(owned: &OwnedWorkload) -> BTreeSet<NodeName> {
    pods(owned).filter_map(|pod| pod.node.clone()).collect()
}

fn pods(owned: &OwnedWorkload) -> impl Iterator<Item = &PodFacts> {
    owned
        .coordinators
        .iter()
        .chain(&owned.workers)
        .filter(|pod| !pod.finished)
}

/// Judges one inspection.
///
/// `clean` in the answer means: every pod is placed, every node and claim was read and proven, and
/// nothing foreign is in between. What the policy merely dislikes about a proven node does not spoil it.
#[must_use]
pub fn inspect(
    row: &InstanceRow,
    owned: &OwnedWorkload,
    readings: &NodeReadings,
    policy: &NodeReplacement,
    now: Timestamp,
) -> PlacementReport {
    let mut pass = Pass::new(policy, now, &owned.faults);
    let mut by_node: BTreeMap<&NodeName, Vec<&PodFacts>> = BTreeMap::new();
    for pod in pods(owned) {
        if let Some(node) = &pod.node {
            by_node.entry(node).or_default().push(pod);
        }
    }
    for (name, pods) in by_node {
        match readings.nodes.get(name) {
            None | Some(Reading::NotAsked) => {
                pass.unknown("NodeNotRead", name, "it was not read".to_owned());
            }
            Some(Reading::Unknown(fault)) => pass.unproven(fault.clone()),
            Some(Reading::Seen(None)) => {
                pass.invalid(FailureCause::NodeLeaving, format!("node {name} no longer exists"));
                pass.unknown(
                    "NodeAbsent",
                    name,
                    "pods name it and it does not exist".to_owned(),
                );
            }
            Some(Reading::Seen(Some(node))) => pass.node(node, &pods, readings),
        }
    }
    pass.report.incomplete = incomplete(row, owned);
    pass.finish()
}

struct Pass<'a> {
    policy: &'a NodeReplacement,
    now: Timestamp,
    report: PlacementReport,
    proven: bool,
}

impl<'a> Pass<'a> {
    fn new(policy: &'a NodeReplacement, now: Timestamp, faults: &[Fault]) -> Self {
        Self {
            policy,
            now,
            report: PlacementReport {
                faults: faults.to_vec(),
                ..PlacementReport::default()
            },
            proven: faults.is_empty(),
        }
    }

    fn unproven(&mut self, fault: Fault) {
        self.proven = false;
        self.report.faults.push(fault);
    }

    fn unknown(&mut self, label: &'static str, node: &NodeName, detail: String) {
        self.unproven(fault(label, node, detail));
    }

    fn invalid(&mut self, cause: FailureCause, detail: String) {
        self.report.invalid.push(CandidateFailure { cause, detail });
    }

    fn node(&mut self, node: &NodeFacts, pods: &[&PodFacts], readings: &NodeReadings) {
        // A new machine under an old name: pods started before it existed ran somewhere else (A07).
        let older: Vec<_> = pods.iter().filter(|pod| is_older(pod, node)).collect();
        if let Some(pod) = older.first() {
            let detail = format!("pod {} started before this node was created", pod.name);
            self.unknown("PodOlderThanNode", &node.name, detail);
            if older.len() == pods.len() {
                return;
            }
        }
        if let Some(word) = disruption_taint(&node.taints) {
            self.invalid(
                FailureCause::NodeLeaving,
                format!("node {} carries the taint {word}", node.name),
            );
        }
        if node.unschedulable {
            self.invalid(
                FailureCause::NodeCordoned,
                format!("node {} is cordoned", node.name),
            );
        }
        match join(node, &readings.claims) {
            Join::Proven(claim) => self.proven_node(node, claim),
            Join::Unowned(detail) => {
                self.leaving_unproven(node);
                if self.policy.unowned_nodes == UnownedNodes::Reject {
                    self.report
                        .faults
                        .push(fault("NodeUnowned", &node.name, detail.clone()));
                    self.invalid(FailureCause::NodeUnowned, detail);
                }
            }
            Join::Contradicted(fault) => {
                self.leaving_unproven(node);
                self.invalid(
                    FailureCause::NodeUnowned,
                    format!("node {}: {}", node.name, fault.detail),
                );
                self.unproven(fault);
            }
            Join::Unknown(fault) => {
                self.leaving_unproven(node);
                self.unproven(fault);
            }
        }
    }

    /// Being deleted is plain to see on the node itself; without its claim it is no evidence.
    fn leaving_unproven(&mut self, node: &NodeFacts) {
        if node.deleting {
            self.invalid(
                FailureCause::NodeLeaving,
                format!("node {} is being deleted", node.name),
            );
        }
    }

    fn proven_node(&mut self, node: &NodeFacts, claim: &ClaimFacts) {
        let deadline = deadline(claim);
        if let Some((reason, detail)) = leaving(node, claim) {
            self.invalid(
                FailureCause::NodeLeaving,
                format!(
                    "node {} is leaving ({}), NodeClaim {}",
                    node.name,
                    reason.as_str(),
                    claim.name
                ),
            );
            self.report.evidence.push(LeavingNode {
                node: node.name.clone(),
                node_uid: node.uid.clone(),
                node_version: node.resource_version.clone(),
                claim: claim.name.clone(),
                claim_uid: claim.uid.clone(),
                reason,
                detail,
                unschedulable: node.unschedulable,
                deadline,
            });
        }
        if let Some(reason) = &claim.disruption {
            // A command that may still be taken back: no evidence, but nothing new belongs here (K11).
            let word = reason.as_deref().unwrap_or("no reason given");
            self.invalid(
                FailureCause::NodeLeaving,
                format!("NodeClaim {} is being disrupted ({word})", claim.name),
            );
        }
        self.grace(node, claim, deadline);
    }

    /// With a finite grace the annotation alone protects nothing (kubernetes-sigs/karpenter#1702).
    fn grace(&mut self, node: &NodeFacts, claim: &ClaimFacts, deadline: Option<Timestamp>) {
        let length = match &claim.grace {
            Grace::Unlimited => return,
            Grace::Finite(length) => Some(*length),
            Grace::Unreadable(_) => None,
        };
        self.report.at_risk.push(AtRisk {
            node: node.name.clone(),
            deadline,
        });
        let accepted = match (self.policy.finite_grace, length) {
            (FiniteGrace::Reject, _) | (FiniteGrace::AcceptAtLeast(_), None) => false,
            (FiniteGrace::AcceptAtLeast(least), Some(length)) => length >= least,
        };
        if accepted {
            return;
        }
        let shown = match &claim.grace {
            Grace::Finite(length) => format!("{} s", length.as_secs()),
            Grace::Unreadable(text) => format!("unreadable {text:?}"),
            Grace::Unlimited => String::new(),
        };
        let detail = format!(
            "node {}: NodeClaim {} has a finite terminationGracePeriod ({shown}), at which protected pods end",
            node.name, claim.name
        );
        self.report
            .faults
            .push(fault("FiniteGrace", &node.name, detail.clone()));
        self.invalid(FailureCause::NodeFiniteGrace, detail);
    }

    fn finish(mut self) -> PlacementReport {
        self.report
            .evidence
            .sort_by(|a, b| (Reverse(a.reason), &a.node).cmp(&(Reverse(b.reason), &b.node)));
        self.report.faults.sort();
        self.report.clean = self.proven && self.report.incomplete.is_none();
        for risk in &mut self.report.at_risk {
            // A forced end that has passed is shown as what it is: now.
            risk.deadline = risk.deadline.map(|deadline| deadline.max(self.now));
        }
        self.report
    }
}

fn fault(label: &'static str, node: &NodeName, detail: String) -> Fault {
    Fault {
        label,
        subject: node.to_string(),
        detail,
    }
}

/// Whether the pod ran before this node existed: then it ran on another machine of the same name (A07).
pub(super) fn is_older(pod: &PodFacts, node: &NodeFacts) -> bool {
    let (Some(started), Some(created)) = (pod.started_at, node.created_at) else {
        return false;
    };
    started
        .saturating_add(CLOCK_SKEW)
        .is_ok_and(|started| started < created)
}

/// Why a proven node is going: our own closed words, and the condition's own reason as detail.
fn leaving(node: &NodeFacts, claim: &ClaimFacts) -> Option<(Disruption, Option<String>)> {
    let drifted = claim.drifted.as_ref();
    if node.deleting || claim.deleted_at.is_some() {
        // Why it is being deleted, when it drifted first.
        return Some((Disruption::Deleting, drifted.cloned().flatten()));
    }
    drifted.map(|reason| (Disruption::Drifted, reason.clone()))
}

/// When Karpenter ends protected pods: its own annotation, else deletion plus grace.
pub(super) fn deadline(claim: &ClaimFacts) -> Option<Timestamp> {
    let deleted_at = claim.deleted_at?;
    claim.termination_at.or_else(|| match claim.grace {
        Grace::Finite(grace) => deleted_at.checked_add(grace).ok(),
        Grace::Unlimited | Grace::Unreadable(_) => None,
    })
}

/// Both spellings of "is being disrupted" (kubernetes-sigs/karpenter pkg/apis/v1/taints.go; before 1.0
/// the key was `karpenter.sh/disruption` with the value `disrupting`). A taint is taken back when the
/// command fails: it invalidates candidates and is never evidence.
fn disruption_taint(taints: &[Taint]) -> Option<&'static str> {
    taints
        .iter()
        .find_map(|taint| match (taint.key.as_str(), taint.value.as_str()) {
            ("karpenter.sh/disrupted", _) => Some("karpenter.sh/disrupted"),
            ("karpenter.sh/disruption", "disrupting") => Some("karpenter.sh/disruption=disrupting"),
            _ => None,
        })
}

/// What is still missing: waiting, not a fault, while a candidate is made.
fn incomplete(row: &InstanceRow, owned: &OwnedWorkload) -> Option<String> {
    let placed = |pods: &[PodFacts]| {
        pods.iter()
            .filter(|pod| !pod.finished && !pod.terminating && pod.node.is_some())
            .count()
    };
    if owned.coordinator_ready.is_none() {
        return Some(format!("the coordinator Deployment of {} does not exist", row.id));
    }
    let Some(wanted) = owned.workers_wanted else {
        return Some(format!(
            "the worker Deployment of {} does not exist or says no replicas",
            row.id
        ));
    };
    let (coordinators, workers) = (placed(&owned.coordinators), placed(&owned.workers));
    if coordinators != 1 {
        return Some(format!("{coordinators} coordinator pods are placed, 1 is wanted"));
    }
    if usize::try_from(wanted) != Ok(workers) {
        return Some(format!("{workers} worker pods are placed, {wanted} are wanted"));
    }
    None
}
