//! What happened between two looks at a running story, in words for whoever looks on.
//!
//! Owns what was told already. It reads rows, nodes and pods, and decides nothing. A phase that came and went
//! between two looks is not told.

use std::collections::{BTreeMap, BTreeSet};

use crate::pool::ids::InstanceId;
use crate::pool::phase::Phase;
use crate::sim::invariants::{RowLook, StoreLook};
use crate::sim::kube::view::{NodeView, PodView};

/// More names than these are a number.
const MOST_NAMES: usize = 3;

/// Remembers what it told.
#[derive(Debug, Default)]
pub(super) struct Narrator {
    phases: BTreeMap<InstanceId, Phase>,
    evidence: BTreeSet<InstanceId>,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, bool>,
}

/// What was last seen of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    name: String,
    cordoned: bool,
}

impl Narrator {
    /// Sentences about what is new, in the order in which it happened as far as that can be known.
    pub(super) fn tell(&mut self, rows: &StoreLook, nodes: &[NodeView], pods: &[PodView]) -> Vec<String> {
        let mut told: Vec<String> = self.joined(nodes).into_iter().collect();
        told.extend(self.protected(pods));
        let mut rows: Vec<(&InstanceId, &RowLook)> = rows.rows().collect();
        rows.sort_by_key(|(id, row)| (row.phase_changed_at, *id));
        told.extend(rows.iter().filter_map(|(id, row)| self.evidence(id, row)));
        told.extend(self.cordoned(nodes));
        told.extend(rows.iter().filter_map(|(id, row)| self.phase(id, row, pods)));
        told.extend(self.left(nodes));
        told
    }

    fn joined(&mut self, nodes: &[NodeView]) -> Option<String> {
        let new: Vec<&NodeView> = nodes
            .iter()
            .filter(|node| !self.nodes.contains_key(&node.uid))
            .collect();
        for node in &new {
            let seen = Node {
                name: node.name.clone(),
                cordoned: node.unschedulable,
            };
            self.nodes.insert(node.uid.clone(), seen);
        }
        sentence("joins", "join", &names(&new))
    }

    fn left(&mut self, nodes: &[NodeView]) -> Option<String> {
        let gone: Vec<String> = self
            .nodes
            .keys()
            .filter(|uid| !nodes.iter().any(|node| node.uid == **uid))
            .cloned()
            .collect();
        let gone: Vec<String> = gone
            .iter()
            .filter_map(|uid| self.nodes.remove(uid))
            .map(|node| node.name)
            .collect();
        sentence("is removed by Karpenter", "are removed by Karpenter", &gone)
    }

    fn cordoned(&mut self, nodes: &[NodeView]) -> Option<String> {
        let mut new = Vec::new();
        for node in nodes {
            if let Some(seen) = self.nodes.get_mut(&node.uid) {
                if node.unschedulable && !seen.cordoned {
                    new.push(node);
                }
                seen.cordoned = node.unschedulable;
            }
        }
        sentence("is cordoned", "are cordoned", &names(&new))
    }

    /// Pods that were seen without Karpenter's annotation and have it now.
    fn protected(&mut self, pods: &[PodView]) -> Option<String> {
        let mut new = 0_usize;
        for pod in pods {
            let before = self.pods.insert(pod.uid.clone(), pod.protected);
            new += usize::from(before == Some(false) && pod.protected);
        }
        self.pods.retain(|uid, _| pods.iter().any(|pod| pod.uid == *uid));
        match new {
            0 => None,
            1 => Some("1 pod is now protected from Karpenter".to_owned()),
            many => Some(format!("{many} pods are now protected from Karpenter")),
        }
    }

    fn evidence(&mut self, id: &InstanceId, row: &RowLook) -> Option<String> {
        if !row.evidence.is_present() || !self.evidence.insert(id.clone()) {
            return None;
        }
        Some(match row.evidence.valid() {
            Some(evidence) => said(
                id,
                "EVIDENCE",
                &format!(
                    "node {} is {}; recorded for good",
                    evidence.node_name,
                    evidence.reason.as_str()
                ),
            ),
            None => said(id, "EVIDENCE", "something unreadable is recorded"),
        })
    }

    fn phase(&mut self, id: &InstanceId, row: &RowLook, pods: &[PodView]) -> Option<String> {
        if self.phases.insert(id.clone(), row.phase) == Some(row.phase) {
            return None;
        }
        Some(said(id, &row.phase.to_string(), &meaning(row, id, pods)))
    }
}

fn meaning(row: &RowLook, id: &InstanceId, pods: &[PodView]) -> String {
    let words = match row.phase {
        Phase::Pending if row.repair => "a repair is planned",
        Phase::Pending => "planned",
        Phase::Creating => "its five objects exist, its pods start",
        Phase::Preparing => "registered at the gateway",
        Phase::Validating => "its coordinator and workers are proven",
        Phase::Admitted => "admitted by the gateway",
        Phase::Serving => {
            let own = || {
                pods.iter()
                    .filter(|pod| pod.instance.as_deref() == Some(id.as_str()))
            };
            let protected = own().filter(|pod| pod.protected).count();
            return format!(
                "the gateway sends it queries; {protected} of {} pods are protected from Karpenter",
                own().count()
            );
        }
        Phase::Draining => "no new queries; its own run to their end",
        Phase::Sealed => "nothing is owed any more",
        Phase::Retiring => "retirement is claimed, its objects are deleted",
        Phase::Retired => "gone, and no query with it",
        Phase::Suspect => "the gateway was told that it fails",
        Phase::Lost => "its process has ended",
        Phase::FailureRetired => "gone, after a failure",
        Phase::FailedPreparing => "given up before it was admitted",
        Phase::Unrecognised => "written by a newer version",
    };
    words.to_owned()
}

fn said(id: &InstanceId, what: &str, words: &str) -> String {
    format!("  {id:<14} {what:<16} {words}")
}

fn names(nodes: &[&NodeView]) -> Vec<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

fn sentence(one: &str, many: &str, names: &[String]) -> Option<String> {
    match names {
        [] => None,
        [name] => Some(format!("  node {name} {one}")),
        names if names.len() <= MOST_NAMES => Some(format!("  nodes {} {many}", names.join(", "))),
        names => Some(format!("  {} nodes {many}", names.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, unschedulable: bool) -> NodeView {
        NodeView {
            name: name.into(),
            uid: format!("uid-{name}"),
            node_pool: None,
            claim: None,
            ready: true,
            unschedulable,
            disrupted: false,
            deleting: false,
            pods: 0,
        }
    }

    #[test]
    fn nodes_come_are_cordoned_and_go_and_each_is_told_once() {
        let (mut narrator, rows) = (Narrator::default(), StoreLook::default());
        let mut tell = |nodes: &[NodeView]| narrator.tell(&rows, nodes, &[]).join("\n");
        assert_eq!(tell(&[node("a", false), node("b", false)]), "  nodes a, b join");
        assert_eq!(tell(&[node("a", false), node("b", false)]), "");
        assert_eq!(tell(&[node("a", true), node("b", false)]), "  node a is cordoned");
        assert_eq!(
            tell(&[node("b", false), node("c", false)]),
            "  node c joins\n  node a is removed by Karpenter"
        );
    }

    #[test]
    fn many_nodes_are_a_number() {
        let nodes: Vec<NodeView> = ["a", "b", "c", "d"].map(|name| node(name, false)).into();
        let told = Narrator::default().tell(&StoreLook::default(), &nodes, &[]);
        assert_eq!(told, ["  4 nodes join"]);
    }
}
