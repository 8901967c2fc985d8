//! Which nodes may be cordoned, and under which preconditions.

use super::evidence::Disruption;
use super::ids::{ClaimName, ClaimUid, NodeName, NodeUid, ResourceVersion};
use super::instance::InstanceRow;
use super::observation::{Fault, PlacementReport, Reading};
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

/// The leaving nodes of a clean report that a durable row justifies.
#[must_use]
pub fn to_cordon(row: &InstanceRow, report: &PlacementReport) -> Vec<CordonOrder> {
    let _ = (row, report);
    Vec::new()
}

/// Judges one order from the Node and the NodeClaim as just read by name.
#[must_use]
pub fn judge(
    order: &CordonOrder,
    node: &Reading<Option<NodeFacts>>,
    claim: &Reading<Option<ClaimFacts>>,
) -> CordonVerdict {
    let _ = (order, node, claim);
    CordonVerdict::AlreadyUnschedulable
}
