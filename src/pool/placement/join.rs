//! Node → NodeClaim: which claim provably owns a node.
//!
//! A node belongs to a claim only when four facts agree: the owner reference's UID, the claim's name,
//! `status.nodeName` and the provider ID on both sides. The owner reference is decided by API group and
//! kind, whatever the version: after an upgrade nodes still say `karpenter.sh/v1beta1`, and the UID names
//! the same object (aws/karpenter-provider-aws#6905). Karpenter sets no controller flag on it
//! (kubernetes-sigs/karpenter pkg/utils/nodeclaim/nodeclaim.go). Nothing ever joins on an empty string.

use std::collections::BTreeSet;

use crate::cluster::facts::{ClaimFacts, NodeFacts, OwnerRef, Undecodable};
use crate::pool::ids::{ClaimName, ClaimUid};
use crate::pool::observation::{Claims, Fault, Reading};

/// API group of NodeClaims.
pub const KARPENTER: &str = "karpenter.sh";
/// Kind of a NodeClaim.
pub const NODE_CLAIM: &str = "NodeClaim";

/// Label of a fault: the node names several NodeClaims as its owner, or one without a UID.
pub const OWNERS_AMBIGUOUS: &str = "NodeOwnersAmbiguous";
/// Label of a fault: the owner is not among the claims that could be read, and may be one that could not.
pub const CLAIM_UNDECODABLE: &str = "ClaimUndecodable";
/// Label of a fault: the owner is not listed, though every claim could be read.
pub const CLAIM_ABSENT: &str = "ClaimAbsent";
/// Label of a fault: node and claim do not say the same of each other.
pub const NOT_PROVEN: &str = "PlacementNotProven";

/// Whose a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum Join<'a> {
    /// This claim provably owns it.
    Proven(&'a ClaimFacts),
    /// No NodeClaim is named as its owner, or the named one is absent by a 404 of its own.
    Unowned(String),
    /// Both were read fresh and contradict each other.
    Contradicted(Fault),
    /// Not provable now: a reading is missing, or the two were not read at the same moment.
    Unknown(Fault),
}

/// Resolves a node to its claim.
#[must_use]
pub fn join<'a>(node: &NodeFacts, claims: &'a Claims) -> Join<'a> {
    let unknown = |label, detail| Join::Unknown(fault(node, label, detail));
    let owner = match owner(node) {
        Ok(Some(owner)) => owner,
        Ok(None) => return Join::Unowned(format!("no NodeClaim owns node {}", node.name)),
        Err(detail) => return unknown(OWNERS_AMBIGUOUS, detail),
    };
    match claims {
        Claims::Unknown(why) => Join::Unknown(why.clone()),
        Claims::Inventory(inventory) => {
            let uid = ClaimUid::new(&owner.uid);
            let Some(claim) = inventory.claims.get(&uid) else {
                return match inventory.undecodable.iter().find(|item| may_be(item, owner)) {
                    Some(item) => unknown(CLAIM_UNDECODABLE, item.problem.clone()),
                    None => unknown(CLAIM_ABSENT, format!("NodeClaim {} is not listed", owner.name)),
                };
            };
            match agree(node, owner, claim) {
                Ok(()) => Join::Proven(claim),
                // The inventory may be older than the node: never definitive.
                Err(why) => Join::Unknown(why),
            }
        }
        Claims::Named(read) => match read.get(&ClaimName::new(&owner.name)) {
            None | Some(Reading::NotAsked) => {
                unknown("ClaimNotRead", format!("NodeClaim {} was not read", owner.name))
            }
            Some(Reading::Unknown(why)) => Join::Unknown(why.clone()),
            Some(Reading::Seen(None)) => Join::Unowned(format!("its NodeClaim {} is gone", owner.name)),
            Some(Reading::Seen(Some(claim))) => match agree(node, owner, claim) {
                Ok(()) => Join::Proven(claim),
                // Registration fills these in a moment after the node appears.
                Err(why) if claim.node.is_none() || claim.provider_id.is_none() => Join::Unknown(why),
                Err(why) => Join::Contradicted(why),
            },
        },
    }
}

/// The claim to read by name for this node, if it names one unambiguously.
#[must_use]
pub fn claim_name(node: &NodeFacts) -> Option<ClaimName> {
    owner(node)
        .ok()
        .flatten()
        .map(|owner| ClaimName::new(&owner.name))
}

fn owner(node: &NodeFacts) -> Result<Option<&OwnerRef>, String> {
    let owners: Vec<_> = node
        .owners
        .iter()
        .filter(|owner| owner.group() == KARPENTER && owner.kind == NODE_CLAIM)
        .collect();
    let uids: BTreeSet<_> = owners.iter().map(|owner| owner.uid.as_str()).collect();
    if uids.len() > 1 {
        return Err(format!("{} NodeClaims own node {}", uids.len(), node.name));
    }
    match owners.first() {
        Some(owner) if owner.uid.is_empty() => Err(format!(
            "the owner reference of node {} to {} has no UID",
            node.name, owner.name
        )),
        Some(owner) => Ok(Some(owner)),
        None => Ok(None),
    }
}

fn agree(node: &NodeFacts, owner: &OwnerRef, claim: &ClaimFacts) -> Result<(), Fault> {
    let differs = |detail: String| Err(fault(node, NOT_PROVEN, detail));
    if claim.uid.as_str() != owner.uid || claim.name.as_str() != owner.name {
        return differs(format!(
            "owner is NodeClaim {} of UID {}, found {} of UID {}",
            owner.name, owner.uid, claim.name, claim.uid
        ));
    }
    if claim.ambiguous {
        return differs(format!("NodeClaim {} matches several nodes", claim.name));
    }
    if claim.node.as_ref() != Some(&node.name) {
        return differs(format!(
            "NodeClaim {} says node {}",
            claim.name,
            claim.node.as_ref().map_or("(none)", |name| name.as_str())
        ));
    }
    match (&node.provider_id, &claim.provider_id) {
        (Some(here), Some(there)) if here == there => Ok(()),
        (here, there) => differs(format!(
            "provider ID of the node is {}, of NodeClaim {} is {}",
            here.as_ref().map_or("(none)", |id| id.as_str()),
            claim.name,
            there.as_ref().map_or("(none)", |id| id.as_str())
        )),
    }
}

/// An unreadable claim is unknown, not absent (kube-rs/kube#774): it may be the one we look for.
fn may_be(item: &Undecodable, owner: &OwnerRef) -> bool {
    match (&item.uid, &item.name) {
        (Some(uid), _) => *uid == owner.uid,
        (None, Some(name)) => *name == owner.name,
        (None, None) => true,
    }
}

fn fault(node: &NodeFacts, label: &'static str, detail: String) -> Fault {
    Fault {
        label,
        subject: node.name.to_string(),
        detail,
    }
}
