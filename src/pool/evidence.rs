//! Evidence: the first observed fact that a node under an instance is drifted or being deleted.
//!
//! Written once under the current epoch, never changed, never an authorization to delete (safety rule
//! S3). Further nodes of the same instance are [`ReplacementNode`]s, appended and never rewritten.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::{ClaimName, ClaimUid, NodeName, NodeUid};
use super::instance::InstanceRow;
use super::observation::{LeavingNode, PlacementReport};
use crate::store::port::Write;

/// Why a node is about to go: our own closed words, not the provider's.
///
/// Ordered by urgency: `Deleting` outranks `Drifted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Disruption {
    /// Condition `Drifted` has status `True` on the NodeClaim (Karpenter pkg/apis/v1/nodeclaim_status.go).
    Drifted,
    /// The Node or its NodeClaim carries a deletion timestamp.
    Deleting,
}

impl Disruption {
    /// The stored and shown word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Drifted => "Drifted",
            Self::Deleting => "Deleting",
        }
    }
}

/// The immutable record on an instance row: four identities, the reason, and when it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Name of the node.
    pub node_name: NodeName,
    /// UID of the node: a new machine under the same name is another node.
    pub node_uid: NodeUid,
    /// Name of the NodeClaim that owns the node.
    pub nodeclaim_name: ClaimName,
    /// UID of that NodeClaim.
    pub nodeclaim_uid: ClaimUid,
    /// Why the node is going.
    pub reason: Disruption,
    /// When this process first saw it.
    pub observed_at: Timestamp,
    /// The condition's own reason, such as `NodePoolDrifted`; detail only, absent when it gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Evidence {
    /// Whether all four identities are present, without which the record proves nothing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !(self.node_name.is_empty()
            || self.node_uid.is_empty()
            || self.nodeclaim_name.is_empty()
            || self.nodeclaim_uid.is_empty())
    }
}

/// What the evidence column of a row holds.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum RecordedEvidence {
    /// The column is NULL.
    #[default]
    None,
    /// A valid record.
    Some(Evidence),
    /// The column holds something this binary cannot read; blocks only its own instance (L2), and is
    /// shown as unreadable rather than hidden. Holds a short description, never the raw content.
    Unreadable(String),
}

impl RecordedEvidence {
    /// The valid record, if there is one.
    #[must_use]
    pub const fn valid(&self) -> Option<&Evidence> {
        match self {
            Self::Some(evidence) => Some(evidence),
            Self::None | Self::Unreadable(_) => None,
        }
    }

    /// Whether anything at all is recorded, readable or not.
    #[must_use]
    pub const fn is_present(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// One more node of an instance that was seen going, and may be cordoned on the strength of this row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacementNode {
    /// Name of the node at the time.
    pub node_name: NodeName,
    /// UID of the node.
    pub node_uid: NodeUid,
    /// Name of its NodeClaim.
    pub nodeclaim_name: ClaimName,
    /// UID of its NodeClaim.
    pub nodeclaim_uid: ClaimUid,
    /// The reason seen then.
    pub reason: Disruption,
    /// When it was first seen.
    pub observed_at: Timestamp,
}

impl LeavingNode {
    /// As the immutable record of an instance.
    fn as_evidence(&self, now: Timestamp) -> Evidence {
        Evidence {
            node_name: self.node.clone(),
            node_uid: self.node_uid.clone(),
            nodeclaim_name: self.claim.clone(),
            nodeclaim_uid: self.claim_uid.clone(),
            reason: self.reason,
            observed_at: now,
            detail: self.detail.clone(),
        }
    }

    fn as_further(&self, now: Timestamp) -> ReplacementNode {
        ReplacementNode {
            node_name: self.node.clone(),
            node_uid: self.node_uid.clone(),
            nodeclaim_name: self.claim.clone(),
            nodeclaim_uid: self.claim_uid.clone(),
            reason: self.reason,
            observed_at: now,
        }
    }
}

/// The durable writes that an inspection calls for; none when it brought nothing new.
///
/// The most urgent leaving node becomes the evidence of a row that has none; every other one is appended,
/// and so is a recorded node that went from Drifted to Deleting. A present record, even an unreadable one,
/// is never written again: the database would refuse it. A partial report is as good as a whole one (L3).
#[must_use]
pub fn records(row: &InstanceRow, report: &PlacementReport, now: Timestamp) -> Vec<Write> {
    if !row.phase.needs_its_nodes() {
        return Vec::new();
    }
    let mut writes = Vec::new();
    let mut proven = report.evidence.iter().filter(|leaving| {
        // Without all four identities it proves nothing.
        leaving.as_evidence(now).is_complete()
    });
    if !row.evidence.is_present()
        && let Some(first) = proven.next()
    {
        writes.push(Write::RecordEvidence {
            instance: row.id.clone(),
            evidence: first.as_evidence(now),
        });
    }
    for further in proven.filter(|leaving| is_news(row, leaving)) {
        writes.push(Write::AppendReplacementNode {
            instance: row.id.clone(),
            node: further.as_further(now),
        });
    }
    writes
}

/// The most urgent reason that is durable for this node and claim, if any.
#[must_use]
pub fn recorded_reason(row: &InstanceRow, node: &NodeUid, claim: &ClaimUid) -> Option<Disruption> {
    let first = row
        .evidence
        .valid()
        .map(|evidence| (&evidence.node_uid, &evidence.nodeclaim_uid, evidence.reason));
    row.replacement_nodes
        .iter()
        .map(|further| (&further.node_uid, &further.nodeclaim_uid, further.reason))
        .chain(first)
        .filter(|(node_uid, claim_uid, _)| *node_uid == node && *claim_uid == claim)
        .map(|(_, _, reason)| reason)
        .max()
}

fn is_news(row: &InstanceRow, leaving: &LeavingNode) -> bool {
    recorded_reason(row, &leaving.node_uid, &leaving.claim_uid).is_none_or(|known| known < leaving.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::phase::Phase;
    use crate::pool::testing::{at, row};

    fn leaving(number: u32, reason: Disruption) -> LeavingNode {
        LeavingNode {
            node: format!("node-{number}").as_str().into(),
            node_uid: format!("uid-node-{number}").as_str().into(),
            node_version: "21".into(),
            claim: format!("claim-{number}").as_str().into(),
            claim_uid: format!("uid-claim-{number}").as_str().into(),
            reason,
            detail: Some("NodePoolDrifted".into()),
            unschedulable: false,
            deadline: None,
        }
    }

    fn report(evidence: Vec<LeavingNode>) -> PlacementReport {
        PlacementReport {
            evidence,
            ..PlacementReport::default()
        }
    }

    fn see(row: &mut InstanceRow, seen: &PlacementReport, now: Timestamp) {
        let writes = records(row, seen, now);
        apply(row, writes);
    }

    fn apply(row: &mut InstanceRow, writes: Vec<Write>) {
        for write in writes {
            match write {
                Write::RecordEvidence { evidence, .. } => row.evidence = RecordedEvidence::Some(evidence),
                Write::AppendReplacementNode { node, .. } => row.replacement_nodes.push(node),
                other => panic!("{}", other.label()),
            }
        }
    }

    #[test]
    fn w08_the_first_node_is_the_evidence_and_every_further_one_is_kept() {
        let mut row = row(Phase::Serving);
        let seen = report(vec![
            leaving(3, Disruption::Deleting),
            leaving(1, Disruption::Drifted),
        ]);
        let writes = records(&row, &seen, at(5));
        assert_eq!(
            writes.iter().map(Write::label).collect::<Vec<_>>(),
            ["record_evidence", "append_replacement_node"]
        );
        apply(&mut row, writes);
        let evidence = row.evidence.valid().unwrap();
        assert_eq!(evidence.node_name.as_str(), "node-3");
        assert_eq!(
            (evidence.reason, evidence.observed_at),
            (Disruption::Deleting, at(5))
        );
        assert_eq!(evidence.detail.as_deref(), Some("NodePoolDrifted"));
        assert_eq!(row.replacement_nodes[0].node_name.as_str(), "node-1");
        assert_eq!(
            records(&row, &seen, at(10)),
            [],
            "a pass that brings nothing new writes nothing"
        );
    }

    #[test]
    fn urgency_rises_beside_the_evidence_and_never_in_it() {
        let mut row = row(Phase::Serving);
        see(&mut row, &report(vec![leaving(1, Disruption::Drifted)]), at(0));
        let deleting = report(vec![leaving(1, Disruption::Deleting)]);
        see(&mut row, &deleting, at(5));
        assert_eq!(
            row.evidence.valid().map(|evidence| evidence.reason),
            Some(Disruption::Drifted)
        );
        assert_eq!(row.replacement_nodes.len(), 1);
        assert_eq!(records(&row, &deleting, at(10)), []);
        assert_eq!(
            records(&row, &report(vec![leaving(1, Disruption::Drifted)]), at(15)),
            []
        );
    }

    #[test]
    fn w15_drift_that_clears_changes_nothing_and_evidence_is_never_written_again() {
        let mut row = row(Phase::Serving);
        see(&mut row, &report(vec![leaving(1, Disruption::Drifted)]), at(0));
        assert_eq!(records(&row, &report(vec![]), at(5)), []);
        row.evidence = RecordedEvidence::Unreadable("not JSON".into());
        let writes = records(&row, &report(vec![leaving(1, Disruption::Drifted)]), at(5));
        assert!(matches!(writes.as_slice(), [Write::AppendReplacementNode { .. }]));
    }

    #[test]
    fn a07_a_new_machine_under_the_old_name_is_a_fact_of_its_own() {
        let mut row = row(Phase::Serving);
        see(&mut row, &report(vec![leaving(1, Disruption::Drifted)]), at(0));
        let mut new = leaving(1, Disruption::Drifted);
        new.node_uid = "uid-new-machine".into();
        assert_eq!(records(&row, &report(vec![new]), at(5)).len(), 1);
    }

    #[test]
    fn k07_a_row_that_is_over_collects_nothing() {
        for phase in Phase::KNOWN {
            let writes = records(
                &row(phase),
                &report(vec![leaving(1, Disruption::Deleting)]),
                at(0),
            );
            assert_eq!(writes.is_empty(), !phase.needs_its_nodes(), "{phase}");
        }
    }

    #[test]
    fn an_incomplete_identity_is_never_recorded() {
        let mut nameless = leaving(1, Disruption::Drifted);
        nameless.claim_uid = "".into();
        assert_eq!(records(&row(Phase::Serving), &report(vec![nameless]), at(0)), []);
    }
}
