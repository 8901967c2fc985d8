//! What is told, and in which order.

mod deletion;
mod drift;
mod nodes;
mod off;
pub mod permissions;
mod pools;
mod protection;
mod servers;
mod turns;

use std::collections::BTreeSet;

use crate::Story;
use crate::scene::Scene;

/// Told at once.
pub const TOGETHER: &[Story] = &[
    drift::EVERY_NODE,
    drift::WITHDRAWN,
    deletion::OF_A_CLAIM,
    deletion::OF_A_NODE,
    deletion::BY_EXPIRY,
    nodes::OF_FINITE_GRACE,
    nodes::BY_HAND,
    nodes::CORDONED_BY_A_PERSON,
    nodes::NONE_TO_BE_HAD,
    protection::TAKEN_AWAY,
    protection::KARPENTER_WAS_FASTER,
    off::TOUCHES_NOTHING,
    off::LOSES_QUERIES,
    permissions::NO_CORDON,
    permissions::NO_INVENTORY,
    permissions::NO_PROTECTION,
    pools::EMPTIED,
    pools::HELD,
    turns::KILLED,
    turns::PAUSED,
    servers::STORE,
];

/// Told after them, one by one: they take away what all others need.
pub const ALONE: &[Story] = &[servers::KUBERNETES];

/// The first instance, and a set of it alone.
fn victim(scene: &Scene) -> (String, BTreeSet<String>) {
    let first = scene.instances().into_iter().next().unwrap();
    (first.clone(), BTreeSet::from([first]))
}
