//! How the audit of protection is told: one JSON object whose keys always stand, or a table.
//!
//! The keys and the words of `kind` are an interface. Whatever somebody wrote into an annotation is quoted, so that
//! no value can break a line or drive a terminal.

use std::collections::BTreeSet;

use serde::Serialize;

use super::super::output::wrapped;
use crate::cluster::facts::NamespacedPod;
use crate::cluster::kubernetes::Scope;
use crate::pool::protection_audit::{Audit, Finding, PodRef, Subject};

/// Width of the advice.
const WIDTH: usize = 100;

/// A pod's kind.
const POD: &str = "Pod";

/// What `check --protection` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Report {
    /// Which check this is.
    check: &'static str,
    /// Nothing was found.
    pub(super) passed: bool,
    /// The namespaces that were asked for; null for all.
    namespaces: Option<Vec<String>>,
    /// Those of them that hold no pod with our labels, as a mistyped one does.
    empty_namespaces: Vec<String>,
    pods: Pods,
    nodes: Nodes,
    /// What is not as it must be.
    findings: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Pods {
    live: usize,
    protected: usize,
    unplaced: usize,
    unreadable: usize,
    left_out: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Nodes {
    checked: usize,
    sound: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Row {
    kind: &'static str,
    /// Pod, Node or NodeClaim.
    object: &'static str,
    namespace: Option<String>,
    name: String,
    node: Option<String>,
    /// `namespace/name` of the live pods concerned.
    pods: Vec<String>,
    /// The value found where another one must be.
    found: Option<String>,
    detail: String,
    fix: &'static str,
}

impl Report {
    pub(super) fn of(audit: &Audit, scope: &Scope, pods: &[NamespacedPod]) -> Self {
        let namespaces = match scope {
            Scope::All => None,
            Scope::Namespaces(namespaces) => Some(namespaces.as_slice()),
        };
        let empty = namespaces.unwrap_or_default().iter().filter(|namespace| {
            let inside = |pod: &NamespacedPod| pod.namespace.as_ref() == Some(*namespace);
            !pods.iter().any(inside)
        });
        let empty_namespaces: Vec<String> = empty.map(ToString::to_string).collect();
        Self {
            check: "protection",
            // A namespace that was named and holds nothing of ours is most likely a slip of the pen.
            passed: audit.findings.is_empty() && empty_namespaces.is_empty(),
            empty_namespaces,
            namespaces: namespaces.map(|names| names.iter().map(ToString::to_string).collect()),
            pods: Pods {
                live: audit.live,
                protected: audit.protected,
                unplaced: audit.unplaced,
                unreadable: audit.unreadable,
                left_out: audit.left_out,
            },
            nodes: Nodes {
                checked: audit.nodes,
                sound: audit.sound,
            },
            findings: audit.findings.iter().map(Row::of).collect(),
        }
    }

    /// The verdict first, then a line for each finding, then what to do about each kind of them.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![self.verdict()];
        lines.extend(self.remarks());
        if !self.findings.is_empty() {
            lines.push(String::new());
            lines.extend(self.table());
            lines.push("\nWhat to do".to_owned());
            let mut told = BTreeSet::new();
            for row in self.findings.iter().filter(|row| told.insert(row.kind)) {
                lines.push(format!("  {}\n{}", row.kind, wrapped(row.fix, WIDTH, 4)));
            }
        }
        lines.join("\n")
    }

    fn verdict(&self) -> String {
        let (pods, nodes) = (&self.pods, &self.nodes);
        let counts = format!(
            "{} of {} live pods protected, {} of {} nodes beneath them sound",
            pods.protected, pods.live, nodes.sound, nodes.checked
        );
        match self.findings.len() {
            0 if !self.empty_namespaces.is_empty() => {
                format!("protection: NOTHING FOUND where it was named, {counts}")
            }
            0 if pods.live == 0 => {
                "protection: nothing to judge, no live coordinator or worker pod carries our labels"
                    .to_owned()
            }
            0 => format!("protection: ok, {counts}"),
            1 => format!("protection: 1 FINDING, {counts}"),
            more => format!("protection: {more} FINDINGS, {counts}"),
        }
    }

    /// What the counts alone do not say.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.pods.unplaced > 0 {
            let none = self.pods.unplaced;
            remarks.push(format!(
                "  {none} of them without a node yet, judged by the annotation alone"
            ));
        }
        if self.pods.left_out > 0 {
            let out = self.pods.left_out;
            remarks.push(format!(
                "  {out} more finished or terminating, where no annotation holds anything"
            ));
        }
        if !self.empty_namespaces.is_empty() {
            let names = self.empty_namespaces.join(", ");
            remarks.push(format!("  no such pod at all in --namespace {names}"));
        }
        remarks
    }

    fn table(&self) -> Vec<String> {
        let head = ("FINDING", "OBJECT".to_owned(), "WHAT IS WRONG".to_owned());
        let rows: Vec<_> = std::iter::once(head)
            .chain(self.findings.iter().map(Row::cells))
            .collect();
        let longest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
        let first = longest(&mut rows.iter().map(|row| row.0.chars().count()));
        let second = longest(&mut rows.iter().map(|row| row.1.chars().count()));
        rows.iter()
            .map(|(kind, object, detail)| format!("{kind:<first$}  {object:<second$}  {detail}"))
            .collect()
    }
}

impl Row {
    fn of(finding: &Finding) -> Self {
        let (object, namespace, name) = match &finding.subject {
            Subject::Pod(pod) => (
                POD,
                pod.namespace.as_ref().map(ToString::to_string),
                pod.name.clone(),
            ),
            Subject::Node(node) => ("Node", None, node.to_string()),
            Subject::Claim(claim) => ("NodeClaim", None, claim.to_string()),
        };
        Self {
            kind: finding.problem.word(),
            object,
            namespace,
            name,
            node: finding.node.as_ref().map(ToString::to_string),
            pods: finding.pods.iter().map(PodRef::to_string).collect(),
            found: finding.problem.found(),
            detail: finding.detail.clone(),
            fix: finding.problem.fix(),
        }
    }

    fn cells(&self) -> (&'static str, String, String) {
        let object = match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.object, self.name),
            None => format!("{} {}", self.object, self.name),
        };
        let detail = if self.object == POD {
            self.detail.clone()
        } else {
            // Whose trouble it is cannot be seen from the object.
            format!("{} (pods: {})", self.detail, self.pods.join(", "))
        };
        (self.kind, object, detail)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::facts::{Grace, PodFacts, Undecodable};
    use crate::pool::observation::Reading;
    use crate::pool::protection_audit::audit;
    use crate::pool::testing::{claim, node, pod, readings};

    fn placed(name: &str, node: &str) -> NamespacedPod {
        NamespacedPod {
            namespace: Some("trino".into()),
            pod: Ok(pod(name, node)),
        }
    }

    fn bent(name: &str, node: &str, bend: impl FnOnce(&mut PodFacts)) -> NamespacedPod {
        let mut placed = placed(name, node);
        bend(placed.pod.as_mut().unwrap());
        placed
    }

    /// Pods, nodes and claims of everything that a night can bring.
    fn night() -> Report {
        let pods = [
            placed("cell-1a2b3c4d-coordinator-1", "node-1"),
            bent("cell-1a2b3c4d-worker-1", "node-2", |pod| {
                pod.do_not_disrupt = Some("5m\u{1b}[2J\n".into());
            }),
            bent("cell-1a2b3c4d-worker-2", "node-3", |pod| {
                pod.do_not_disrupt = None;
            }),
            bent("cell-1a2b3c4d-worker-3", "", |pod| pod.node = None),
            bent("cell-1a2b3c4d-worker-4", "node-9", |pod| pod.terminating = true),
            NamespacedPod {
                namespace: Some("trino".into()),
                pod: Err(Undecodable {
                    name: Some("cell-1a2b3c4d-worker-5".into()),
                    uid: None,
                    problem: "metadata.uid: missing".into(),
                }),
            },
        ];
        let mut finite = claim(1);
        finite.grace = Grace::Finite(Duration::from_mins(30));
        let mut bare = node(3);
        bare.owners.clear();
        let mut readings = readings(vec![node(1), bare], vec![finite]);
        readings.nodes.insert("node-2".into(), Reading::Seen(None));
        let scope = Scope::Namespaces(vec!["trino".into(), "trnio".into()]);
        Report::of(&audit(&pods, &readings), &scope, &pods)
    }

    #[test]
    fn a_person_reads_the_verdict_the_names_and_what_to_do() {
        insta::assert_snapshot!(night().text(), @r#"
        protection: 6 FINDINGS, 2 of 4 live pods protected, 0 of 3 nodes beneath them sound
          1 of them without a node yet, judged by the annotation alone
          1 more finished or terminating, where no annotation holds anything
          no such pod at all in --namespace trnio

        FINDING         OBJECT                            WHAT IS WRONG
        PodUnprotected  Pod trino/cell-1a2b3c4d-worker-1  karpenter.sh/do-not-disrupt is "5m\u{1b}[2J\n"; only "true" protects
        PodUnprotected  Pod trino/cell-1a2b3c4d-worker-2  karpenter.sh/do-not-disrupt is absent; only "true" protects
        PodUnreadable   Pod trino/cell-1a2b3c4d-worker-5  it cannot be read: metadata.uid: missing
        NodeAbsent      Node node-2                       pods name it, and it does not exist (pods: trino/cell-1a2b3c4d-worker-1)
        NodeUnowned     Node node-3                       no NodeClaim owns node node-3 (pods: trino/cell-1a2b3c4d-worker-2)
        FiniteGrace     NodeClaim claim-1                 terminationGracePeriod is "1800s"; once deleted, it ends protected pods on node node-1 after that time (pods: trino/cell-1a2b3c4d-coordinator-1)

        What to do
          PodUnprotected
            Where node replacement is on, the operator repairs it with its next look at the pool; if it does
            not, see the pool's status. By hand: kubectl -n NAMESPACE annotate pod NAME --overwrite
            karpenter.sh/do-not-disrupt=true
          PodUnreadable
            See the field that is named: kubectl -n NAMESPACE get pod NAME -o yaml. Until it can be read
            nobody knows whether the pod is protected.
          NodeAbsent
            The machine is gone, and its pods are only what is left of it. Kubernetes removes them within
            minutes; check again then.
          NodeUnowned
            Karpenter does not manage this node, and whoever drains it does not know the annotation. Let the
            pool's pod templates select nodes of a NodePool, and roll the pool.
          FiniteGrace
            Roll the pool onto a NodePool without spec.template.spec.terminationGracePeriod. Do not just
            take the field out of the old NodePool: a changed template makes its nodes drift, and with a
            grace, drift does not wait for protected pods.
        "#);
    }

    #[test]
    fn scripts_find_the_same_keys_whatever_was_found() {
        let night = serde_json::to_value(night()).unwrap();
        let calm = Report::of(&Audit::default(), &Scope::All, &[]);
        let calm = serde_json::to_value(calm).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(keys(&night), keys(&calm));
        let rows = night["findings"].as_array().unwrap();
        assert_eq!(
            rows.iter().map(keys).collect::<Vec<_>>(),
            vec![keys(&rows[0]); rows.len()]
        );
        insta::assert_json_snapshot!(rows[0], @r#"
        {
          "detail": "karpenter.sh/do-not-disrupt is \"5m\\u{1b}[2J\\n\"; only \"true\" protects",
          "fix": "Where node replacement is on, the operator repairs it with its next look at the pool; if it does not, see the pool's status. By hand: kubectl -n NAMESPACE annotate pod NAME --overwrite karpenter.sh/do-not-disrupt=true",
          "found": "5m\u001b[2J\n",
          "kind": "PodUnprotected",
          "name": "cell-1a2b3c4d-worker-1",
          "namespace": "trino",
          "node": "node-2",
          "object": "Pod",
          "pods": [
            "trino/cell-1a2b3c4d-worker-1"
          ]
        }
        "#);
        assert_eq!((&calm["passed"], &calm["namespaces"]), (&true.into(), &().into()));
        assert_eq!(night["passed"], false);
        assert_eq!(night["namespaces"], serde_json::json!(["trino", "trnio"]));
        assert_eq!(night["empty_namespaces"], serde_json::json!(["trnio"]));
    }

    #[test]
    fn no_pod_at_all_is_said_and_is_not_called_protected() {
        let calm = Report::of(&Audit::default(), &Scope::All, &[]);
        assert!(calm.passed);
        insta::assert_snapshot!(calm.text(), @"protection: nothing to judge, no live coordinator or worker pod carries our labels");
    }

    #[test]
    fn what_is_protected_fits_one_line() {
        let pods = [placed("coordinator", "node-1"), placed("worker", "node-2")];
        let readings = readings(vec![node(1), node(2)], vec![claim(1), claim(2)]);
        let report = Report::of(&audit(&pods, &readings), &Scope::All, &pods);
        insta::assert_snapshot!(report.text(), @"protection: ok, 2 of 2 live pods protected, 2 of 2 nodes beneath them sound");
    }
}
