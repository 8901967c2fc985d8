//! What the audit finds: a closed set of problems, each with its word and what a person does about it.
//!
//! The words are an interface: scripts select by them. Those that the operator knows as faults are spelled as there.

use std::fmt;

use jiff::Timestamp;

use crate::pool::ids::{ClaimName, Namespace, NodeName};
use crate::pool::placement::join;

/// A pod by namespace and name, as far as either can be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Where it is.
    pub namespace: Option<Namespace>,
    /// `metadata.name`, or the UID in words.
    pub name: String,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// What a finding is about. Ordered as a person reads it: pods, nodes, claims, each by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A pod.
    Pod(PodRef),
    /// A node.
    Node(NodeName),
    /// A NodeClaim.
    Claim(ClaimName),
}

/// What is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// `karpenter.sh/do-not-disrupt` is absent or says something else than "true" (K14).
    PodUnprotected {
        /// Its value, exactly as it stands; `None` when it is absent.
        found: Option<String>,
    },
    /// The pod is there and cannot be decoded: its protection is unknown.
    PodUnreadable,
    /// The pod started before the node of that name was created: it ran on another machine (A07).
    PodOlderThanNode,
    /// A pod names the node, and it does not exist.
    NodeAbsent,
    /// The node is there and cannot be decoded, or was not read.
    NodeUnreadable,
    /// No NodeClaim is its owner.
    NodeUnowned,
    /// Several NodeClaims are its owner, or one without a UID.
    NodeOwnersAmbiguous,
    /// Its NodeClaim may be one that is listed and cannot be decoded.
    ClaimUndecodable,
    /// Its NodeClaim is not listed.
    ClaimAbsent,
    /// Node and NodeClaim do not say the same of each other, or the claims are not known.
    PlacementNotProven,
    /// The claim ends protected pods some time after its deletion (K02).
    FiniteGrace {
        /// How long after, as it stands, or what of it cannot be read.
        found: String,
    },
    /// The claim was given no grace, and is being deleted with a forced end all the same: node repair (K16).
    ForcedEnd {
        /// When protected pods end.
        at: Timestamp,
    },
}

impl Problem {
    /// One word for scripts and for the first column. The words are those of the operator's own faults.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::PodUnprotected { .. } => "PodUnprotected",
            Self::PodUnreadable => "PodUnreadable",
            Self::PodOlderThanNode => "PodOlderThanNode",
            Self::NodeAbsent => "NodeAbsent",
            Self::NodeUnreadable => "NodeUnreadable",
            Self::NodeUnowned => "NodeUnowned",
            Self::NodeOwnersAmbiguous => join::OWNERS_AMBIGUOUS,
            Self::ClaimUndecodable => join::CLAIM_UNDECODABLE,
            Self::ClaimAbsent => join::CLAIM_ABSENT,
            Self::PlacementNotProven => join::NOT_PROVEN,
            Self::FiniteGrace { .. } => "FiniteGrace",
            Self::ForcedEnd { .. } => "ForcedEnd",
        }
    }

    /// The value that was found where another one must be, as it stands.
    #[must_use]
    pub fn found(&self) -> Option<String> {
        match self {
            Self::PodUnprotected { found } => found.clone(),
            Self::FiniteGrace { found } => Some(found.clone()),
            Self::ForcedEnd { at } => Some(at.to_string()),
            Self::PodUnreadable
            | Self::PodOlderThanNode
            | Self::NodeAbsent
            | Self::NodeUnreadable
            | Self::NodeUnowned
            | Self::NodeOwnersAmbiguous
            | Self::ClaimUndecodable
            | Self::ClaimAbsent
            | Self::PlacementNotProven => None,
        }
    }

    /// What a person does about it.
    #[must_use]
    pub const fn fix(&self) -> &'static str {
        match self {
            Self::PodUnprotected { .. } => {
                "Where node replacement is on, the operator repairs it with its next look at the pool; if it does not, \
                 see the pool's status. By hand: kubectl -n NAMESPACE annotate pod NAME --overwrite \
                 karpenter.sh/do-not-disrupt=true"
            }
            Self::PodUnreadable => {
                "See the field that is named: kubectl -n NAMESPACE get pod NAME -o yaml. Until it can be read nobody \
                 knows whether the pod is protected."
            }
            Self::PodOlderThanNode => {
                "Another machine took the node's name, so the pod is only what is left of one that ran elsewhere. \
                 Kubernetes removes it within minutes; if it stays, see kubectl -n NAMESPACE get pod NAME -o wide."
            }
            Self::NodeAbsent => {
                "The machine is gone, and its pods are only what is left of it. Kubernetes removes them within \
                 minutes; check again then."
            }
            Self::NodeUnreadable => "See the field that is named: kubectl get node NAME -o yaml.",
            Self::NodeUnowned => {
                "Karpenter does not manage this node, and whoever drains it does not know the annotation. Let the pool's \
                 pod templates select nodes of a NodePool, and roll the pool."
            }
            Self::NodeOwnersAmbiguous => {
                "Find out which NodeClaim made the node (kubectl get nodeclaims -o wide) and take the other owner \
                 reference off the Node."
            }
            Self::ClaimUndecodable => "See the field that is named: kubectl get nodeclaim NAME -o yaml.",
            Self::ClaimAbsent => {
                "So it is for moments while a node is removed: check again. If it stays, Karpenter has lost the node, \
                 and its instance should move: roll the pool."
            }
            Self::PlacementNotProven => {
                "So it is for moments while a node registers: check again. If it stays, compare kubectl get node NAME \
                 -o yaml with its NodeClaim, and read Karpenter's log."
            }
            Self::FiniteGrace { .. } => {
                "Roll the pool onto a NodePool without spec.template.spec.terminationGracePeriod. Do not just take the \
                 field out of the old NodePool: a changed template makes its nodes drift, and with a grace, drift does \
                 not wait for protected pods."
            }
            Self::ForcedEnd { .. } => {
                "Nothing holds Karpenter off any more. See that the pool serves without this instance: kubectl -n \
                 NAMESPACE get trinopools."
            }
        }
    }
}

/// One thing that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub subject: Subject,
    /// What is not as it must be.
    pub problem: Problem,
    /// The node that it concerns, once there is one.
    pub node: Option<NodeName>,
    /// The live pods that it concerns, by name.
    pub pods: Vec<PodRef>,
    /// One sentence for a person.
    pub detail: String,
}
