//! Which of the objects that carry an instance's label are provably its own.

use super::ids::Epoch;
use super::instance::InstanceRow;
use super::observation::OwnedWorkload;
use crate::cluster::facts::Workload;

/// Proves pod → ReplicaSet UID → recorded Deployment UID.
#[must_use]
pub fn prove(row: &InstanceRow, workload: &Workload, current_epoch: Epoch) -> OwnedWorkload {
    let _ = (row, workload, current_epoch);
    OwnedWorkload::default()
}
