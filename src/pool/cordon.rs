//! Which nodes may be cordoned, and under which preconditions.
//!
//! A cordon is `spec.unschedulable=true` on one exact node, by UID and resourceVersion, justified by a
//! durable row for that node. It is never undone here, and it authorizes nothing else. Pure: the reads are
//! handed in, the patch is made elsewhere.

use std::collections::BTreeMap;

use super::evidence::{Disruption, recorded_reason};
use super::ids::{ClaimName, ClaimUid, NodeName, NodeUid, ResourceVersion};
use super::instance::InstanceRow;
use super::observation::{Claims, Fault, LeavingNode, PlacementReport, Reading};
use super::placement::join::{Join, join};
use crate::cluster::facts::{ClaimFacts, NodeFacts};
use crate::cluster::port::CordonMark;

/// One node that a durable row says is going, and that may be cordoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CordonOrder {
    /// Name, to read it by.
    pub node: NodeName,
    /// UID that the row recorded.
    pub node_uid: NodeUid,
    /// Name of the claim, to read it by.
    pub claim: ClaimName,
    /// UID of the claim that the row recorded.
    pub claim_uid: ClaimUid,
    /// Why it is going.
    pub reason: Disruption,
    /// What is written on it.
    pub mark: CordonMark,
}

/// What to do about one [`CordonOrder`], judged from fresh reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CordonVerdict {
    /// Patch exactly this version.
    Patch {
        /// `metadata.resourceVersion` as just read.
        version: ResourceVersion,
        /// The mark to write: ours, or a foreign one kept as it is.
        mark: CordonMark,
    },
    /// Somebody did it already: nothing is written, not even the mark.
    AlreadyUnschedulable,
    /// There is nothing left to cordon: says why.
    Moot(String),
    /// Not provable now; tried again.
    NotProven(Fault),
}

/// The leaving nodes of a clean report that a durable row justifies (S4).
///
/// Call it with the row as it stands *after* its evidence was committed. Only a clean inspection names
/// nodes to cordon (L3), and only a record of exactly this node and claim justifies one.
#[must_use]
pub fn to_cordon(row: &InstanceRow, report: &PlacementReport) -> Vec<CordonOrder> {
    if !report.clean {
        return Vec::new();
    }
    report
        .evidence
        .iter()
        .filter(|leaving| !leaving.unschedulable)
        .filter(|leaving| recorded_reason(row, &leaving.node_uid, &leaving.claim_uid).is_some())
        .map(|leaving| CordonOrder {
            node: leaving.node.clone(),
            node_uid: leaving.node_uid.clone(),
            claim: leaving.claim.clone(),
            claim_uid: leaving.claim_uid.clone(),
            reason: leaving.reason,
            mark: mark(row, leaving),
        })
        .collect()
}

/// `<pool>/<instance>/<claim uid>/<reason>`; the pool is itself `<namespace>/<name>`, so it is read from
/// the right. For people and for listings: no decision is ever made from it.
fn mark(row: &InstanceRow, leaving: &LeavingNode) -> CordonMark {
    CordonMark(format!(
        "{}/{}/{}/{}",
        row.pool,
        row.id,
        leaving.claim_uid,
        leaving.reason.as_str()
    ))
}

/// Judges one order from the Node and the NodeClaim as just read by name.
#[must_use]
pub fn judge(
    order: &CordonOrder,
    node: &Reading<Option<NodeFacts>>,
    claim: &Reading<Option<ClaimFacts>>,
) -> CordonVerdict {
    let node = match node {
        Reading::Seen(Some(node)) => node,
        Reading::Seen(None) => return CordonVerdict::Moot(format!("node {} is gone", order.node)),
        Reading::NotAsked => return not_read(order, "the node"),
        Reading::Unknown(fault) => return CordonVerdict::NotProven(fault.clone()),
    };
    if node.uid != order.node_uid {
        // A new machine under the old name: the recorded one no longer exists (A07).
        let detail = format!("node {} is another machine now, UID {}", order.node, node.uid);
        return CordonVerdict::Moot(detail);
    }
    if node.unschedulable {
        return CordonVerdict::AlreadyUnschedulable;
    }
    if let Reading::NotAsked = claim {
        return not_read(order, "the NodeClaim");
    }
    let claims = Claims::Named(BTreeMap::from([(order.claim.clone(), claim.clone())]));
    match join(node, &claims) {
        Join::Proven(claim) if claim.uid != order.claim_uid => {
            CordonVerdict::Moot(format!("node {} belongs to another NodeClaim now", order.node))
        }
        Join::Proven(claim) if !node.deleting && claim.deleted_at.is_none() && claim.drifted.is_none() => {
            // Cordoning now would only hold back a node that stays.
            CordonVerdict::Moot(format!("node {} is no longer leaving", order.node))
        }
        Join::Proven(_) if node.resource_version.is_empty() => not_read(order, "the node's resourceVersion"),
        Join::Proven(_) => CordonVerdict::Patch {
            version: node.resource_version.clone(),
            mark: node
                .cordon_mark
                .clone()
                .map_or_else(|| order.mark.clone(), CordonMark),
        },
        Join::Unowned(detail) => CordonVerdict::Moot(detail),
        Join::Contradicted(fault) | Join::Unknown(fault) => CordonVerdict::NotProven(fault),
    }
}

fn not_read(order: &CordonOrder, what: &str) -> CordonVerdict {
    CordonVerdict::NotProven(Fault {
        label: "CordonNotProven",
        subject: order.node.to_string(),
        detail: format!("{what} was not read"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::evidence::{Evidence, RecordedEvidence, ReplacementNode};
    use crate::pool::phase::Phase;
    use crate::pool::testing::{self, at, claim, node, row};

    fn leaving(number: u32) -> LeavingNode {
        let (node, claim) = (node(number), claim(number));
        LeavingNode {
            node: node.name,
            node_uid: node.uid,
            node_version: node.resource_version,
            claim: claim.name,
            claim_uid: claim.uid,
            reason: Disruption::Drifted,
            detail: None,
            unschedulable: false,
            deadline: None,
        }
    }

    fn report(evidence: Vec<LeavingNode>) -> PlacementReport {
        PlacementReport {
            evidence,
            clean: true,
            ..PlacementReport::default()
        }
    }

    fn recorded(number: u32) -> InstanceRow {
        let (node, claim) = (node(number), claim(number));
        let mut row = row(Phase::Serving);
        row.evidence = RecordedEvidence::Some(Evidence {
            node_name: node.name,
            node_uid: node.uid,
            nodeclaim_name: claim.name,
            nodeclaim_uid: claim.uid,
            reason: Disruption::Drifted,
            observed_at: at(0),
            detail: None,
        });
        row
    }

    fn order() -> CordonOrder {
        to_cordon(&recorded(1), &report(vec![leaving(1)])).remove(0)
    }

    fn drifted() -> ClaimFacts {
        let mut claim = claim(1);
        claim.drifted = Some(None);
        claim
    }

    fn judged(node: NodeFacts, claim: ClaimFacts) -> CordonVerdict {
        judge(&order(), &Reading::Seen(Some(node)), &Reading::Seen(Some(claim)))
    }

    #[test]
    fn r04_a_cordon_needs_a_durable_row_for_that_very_node() {
        assert_eq!(to_cordon(&row(Phase::Serving), &report(vec![leaving(1)])), []);
        let mut row = recorded(1);
        assert_eq!(to_cordon(&row, &report(vec![leaving(2)])), []);
        row.replacement_nodes.push(ReplacementNode {
            node_name: "node-2".into(),
            node_uid: "uid-node-2".into(),
            nodeclaim_name: "claim-2".into(),
            nodeclaim_uid: "uid-claim-2".into(),
            reason: Disruption::Deleting,
            observed_at: at(0),
        });
        let orders = to_cordon(&row, &report(vec![leaving(1), leaving(2)]));
        let nodes: Vec<_> = orders.iter().map(|order| order.node.as_str()).collect();
        assert_eq!(nodes, ["node-1", "node-2"]);
        assert_eq!(
            orders[0].mark.0,
            "trino/analytics/cell-00000001/uid-claim-1/Drifted"
        );
    }

    #[test]
    fn l3_only_a_clean_inspection_cordons() {
        let mut partial = report(vec![leaving(1)]);
        partial.clean = false;
        assert_eq!(to_cordon(&recorded(1), &partial), []);
    }

    #[test]
    fn a_fresh_and_proven_node_is_patched_at_its_version() {
        assert_eq!(
            judged(node(1), drifted()),
            CordonVerdict::Patch {
                version: "21".into(),
                mark: order().mark
            }
        );
    }

    #[test]
    fn a07_another_machine_under_the_same_name_is_left_alone() {
        let mut other = node(1);
        other.uid = "uid-new".into();
        assert!(matches!(judged(other, drifted()), CordonVerdict::Moot(_)));
        let gone = judge(&order(), &Reading::Seen(None), &Reading::Seen(Some(drifted())));
        assert!(matches!(gone, CordonVerdict::Moot(_)));
    }

    #[test]
    fn o04_w14_a_node_cordoned_by_somebody_is_not_touched() {
        let mut cordoned = node(1);
        cordoned.unschedulable = true;
        assert_eq!(judged(cordoned, drifted()), CordonVerdict::AlreadyUnschedulable);
        let mut seen = leaving(1);
        seen.unschedulable = true;
        assert_eq!(to_cordon(&recorded(1), &report(vec![seen])), []);
        // Uncordoned by hand while it carries another pool's mark: cordoned again, the mark stays.
        let mut marked = node(1);
        marked.cordon_mark = Some("trino/adhoc/cell-00000009/uid/Drifted".into());
        assert_eq!(
            judged(marked, drifted()),
            CordonVerdict::Patch {
                version: "21".into(),
                mark: CordonMark("trino/adhoc/cell-00000009/uid/Drifted".into())
            }
        );
    }

    #[test]
    fn o02_a_node_uncordoned_by_hand_is_cordoned_again() {
        let mut uncordoned = node(1);
        uncordoned.cordon_mark = Some(order().mark.0);
        assert!(matches!(
            judged(uncordoned, drifted()),
            CordonVerdict::Patch { .. }
        ));
    }

    #[test]
    fn a_node_whose_drift_cleared_is_not_held_back() {
        assert!(matches!(judged(node(1), claim(1)), CordonVerdict::Moot(_)));
    }

    #[test]
    fn what_is_unknown_or_contradicts_is_not_proven() {
        let down = Fault {
            label: "KubernetesUnreachable",
            subject: "node-1".into(),
            detail: "no answer".into(),
        };
        let seen = Reading::Seen(Some(node(1)));
        for (node, claim) in [
            (Reading::Unknown(down.clone()), Reading::Seen(Some(drifted()))),
            (Reading::NotAsked, Reading::Seen(Some(drifted()))),
            (seen.clone(), Reading::Unknown(down.clone())),
            (seen, Reading::NotAsked),
        ] {
            let verdict = judge(&order(), &node, &claim);
            assert!(matches!(verdict, CordonVerdict::NotProven(_)), "{verdict:?}");
        }
        let mut moved = drifted();
        moved.provider_id = Some("kwok:///elsewhere".into());
        assert!(matches!(judged(node(1), moved), CordonVerdict::NotProven(_)));
        let mut unversioned = node(1);
        unversioned.resource_version = "".into();
        assert!(matches!(
            judged(unversioned, drifted()),
            CordonVerdict::NotProven(_)
        ));
        let mut other = drifted();
        other.uid = "uid-claim-9".into();
        let mut adopted = node(1);
        adopted.owners = vec![testing::owner(
            "karpenter.sh/v1",
            "NodeClaim",
            "claim-1",
            "uid-claim-9",
            false,
        )];
        assert!(matches!(judged(adopted, other), CordonVerdict::Moot(_)));
    }
}
