//! The verdict on the nodes beneath an instance.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::desired::NodeReplacement;
use super::ids::NodeName;
use super::instance::InstanceRow;
use super::observation::{NodeReadings, OwnedWorkload, PlacementReport};

/// The nodes that have to be read before [`inspect`].
#[must_use]
pub fn nodes_of(owned: &OwnedWorkload) -> BTreeSet<NodeName> {
    let _ = owned;
    BTreeSet::new()
}

/// Judges one inspection.
#[must_use]
pub fn inspect(
    row: &InstanceRow,
    owned: &OwnedWorkload,
    readings: &NodeReadings,
    policy: &NodeReplacement,
    now: Timestamp,
) -> PlacementReport {
    let _ = (row, owned, readings, policy, now);
    PlacementReport::default()
}
