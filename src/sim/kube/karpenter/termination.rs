//! Termination of deleted claims and nodes: taint, evict what is unprotected, wait for the rest, then
//! take the machine, the Node and the claim away.
//!
//! Without a grace a protected pod is waited for as long as it lives. With one, the deadline stands in
//! an annotation, and pods are deleted in time to be gone by then (K02).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::Turn;
use super::super::json as j;
use super::super::resource::Resource;
use super::{FINALIZER, Karpenter, TERMINATION_AT, drainable, is_protected, node_of, taint};

/// A pod that should have been gone for this long is not waited for any more.
const STUCK: Duration = Duration::from_mins(1);

impl Karpenter {
    /// Moves every deleted claim and node on.
    pub(super) fn terminate(&mut self, turn: &mut Turn<'_>) {
        for node in self.due_nodes(turn.store) {
            if j::is_deleting(&node) && j::has_finalizer(&node, FINALIZER) {
                delete_claim_of(turn, &node);
            }
        }
        for claim in self.due_claims(turn.store) {
            if j::is_deleting(&claim) && j::has_finalizer(&claim, FINALIZER) {
                self.terminate_claim(turn, &claim);
            }
        }
    }

    fn terminate_claim(&mut self, turn: &mut Turn<'_>, claim: &Value) {
        let deadline = announce_deadline(turn, claim);
        let Some(node) = node_of(turn, claim) else {
            self.finish_claim(turn, claim);
            return;
        };
        if !j::is_deleting(&node) {
            turn.destroy(Resource::Nodes, &node, "karpenter", None);
        }
        let now = turn.now;
        turn.store.edit(Resource::Nodes, "", j::name(&node), |node| {
            taint(node);
            j::set(
                node,
                &[
                    "metadata",
                    "labels",
                    "node.kubernetes.io/exclude-from-external-load-balancers",
                ],
                json!("karpenter"),
            );
        });
        let waiting = self.drain(turn, &node, deadline);
        if waiting {
            turn.store
                .edit(Resource::NodeClaims, "", j::name(claim), |claim| {
                    j::set_condition(claim, "Drained", "Unknown", "Draining", "Draining", now);
                });
            return;
        }
        turn.store
            .edit(Resource::NodeClaims, "", j::name(claim), |claim| {
                for kind in ["Drained", "VolumesDetached", "InstanceTerminating"] {
                    j::set_condition(claim, kind, "True", kind, "", now);
                }
            });
        if self.stuck.contains(j::uid(claim)) {
            return;
        }
        turn.store.edit(Resource::Nodes, "", j::name(&node), |node| {
            j::drop_finalizer(node, FINALIZER);
        });
        self.finish_claim(turn, claim);
    }

    fn finish_claim(&mut self, turn: &mut Turn<'_>, claim: &Value) {
        if !self.stuck.contains(j::uid(claim)) {
            turn.store
                .edit(Resource::NodeClaims, "", j::name(claim), |claim| {
                    j::drop_finalizer(claim, FINALIZER);
                });
        }
    }

    /// Evicts what may be evicted; whether any pod still has to be waited for.
    fn drain(&mut self, turn: &mut Turn<'_>, node: &Value, deadline: Option<Timestamp>) -> bool {
        let now = turn.now;
        let pods: Vec<Arc<Value>> = drainable(turn, j::name(node))
            .into_iter()
            .filter(|pod| {
                let overdue = j::time(pod, &["metadata", "deletionTimestamp"])
                    .is_some_and(|ends| now >= j::later(ends, STUCK));
                !overdue
            })
            .collect();
        for pod in &pods {
            let grace = j::at(pod, &["spec", "terminationGracePeriodSeconds"])
                .and_then(Value::as_u64)
                .unwrap_or(30);
            let left = deadline.map(|deadline| {
                let left = deadline.duration_since(now);
                u64::try_from(left.as_secs()).unwrap_or(0)
            });
            // A pod that somebody deleted already is only waited for, unless it would outlast the deadline.
            let ends = j::time(pod, &["metadata", "deletionTimestamp"]);
            let in_time = ends.is_some_and(|ends| deadline.is_none_or(|deadline| ends <= deadline));
            if in_time {
                continue;
            }
            if left.is_some_and(|left| left <= grace) {
                // In time to be gone at the deadline, protected or not.
                turn.destroy(Resource::Pods, pod, "karpenter", left);
            } else if ends.is_some() {
                // Its turn comes when its remaining time equals its grace.
            } else if is_protected(pod) {
                let why = format!("Failed to drain node, pod {} is protected", j::name(pod));
                self.events.publish(turn, node, "Warning", "FailedDraining", &why);
            } else {
                turn.evict(pod, "karpenter");
            }
        }
        !pods.is_empty()
    }
}

/// A node with Karpenter's finalizer takes its claim with it.
fn delete_claim_of(turn: &mut Turn<'_>, node: &Value) {
    let owner = j::items(node, &["metadata", "ownerReferences"])
        .iter()
        .find(|owner| j::text(owner, &["kind"]) == Some("NodeClaim"))
        .and_then(|owner| j::text(owner, &["uid"]));
    let claim = owner.and_then(|owner| turn.store.by_uid(owner)).cloned();
    match claim {
        Some(claim) if !j::is_deleting(&claim) => {
            turn.destroy(Resource::NodeClaims, &claim, "karpenter", None);
        }
        Some(_) => {}
        None => {
            turn.store.edit(Resource::Nodes, "", j::name(node), |node| {
                j::drop_finalizer(node, FINALIZER);
            });
        }
    }
}

/// Writes the deadline of a finite grace on the claim, once, and says it.
fn announce_deadline(turn: &mut Turn<'_>, claim: &Value) -> Option<Timestamp> {
    if let Some(said) = j::time(claim, &["metadata", "annotations", TERMINATION_AT]) {
        return Some(said);
    }
    let grace = j::text(claim, &["spec", "terminationGracePeriod"]).and_then(j::go_duration)?;
    let deleted = j::time(claim, &["metadata", "deletionTimestamp"])?;
    let deadline = j::later(deleted, grace);
    turn.store
        .edit(Resource::NodeClaims, "", j::name(claim), |claim| {
            j::set(
                claim,
                &["metadata", "annotations", TERMINATION_AT],
                json!(j::stamp(deadline)),
            );
        });
    Some(deadline)
}
