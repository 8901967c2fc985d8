//! What one instance does next.

use jiff::Timestamp;

use super::instance::InstanceRow;
use super::observation::Observation;
use super::step::{Next, StepContext, WaitReason, Waiting};
use crate::gateway::model::MemberRequest;

/// Which readings [`next`] needs, so that no more is asked.
#[allow(clippy::struct_excessive_bools)] // Independent switches, one per field of an Observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Needs {
    /// `workload` and `owned`.
    pub workload: bool,
    /// `member`.
    pub member: bool,
    /// `obligations`.
    pub obligations: bool,
    /// `info`.
    pub info: bool,
    /// `endpoint`.
    pub endpoint: bool,
    /// `placement`, if node replacement is on.
    pub placement: bool,
    /// `namespace_pods`.
    pub namespace_pods: bool,
}

/// The readings that [`next`] needs for this row.
#[must_use]
pub fn needs(row: &InstanceRow, ctx: &StepContext) -> Needs {
    let _ = (row, ctx);
    Needs::default()
}

/// What the instance does next.
#[must_use]
pub fn next(row: &InstanceRow, observation: &Observation, ctx: &StepContext, now: Timestamp) -> Next {
    let _ = (row, observation, ctx, now);
    Next::Wait(Waiting {
        reason: WaitReason::Unknown,
        detail: String::new(),
        deadline: None,
    })
}

/// The request of a planned drain; `None` when the row holds no member.
#[must_use]
pub fn drain_request(row: &InstanceRow) -> Option<MemberRequest> {
    let _ = row;
    None
}

/// Whether the row permits that its recorded objects are deleted (S1).
#[must_use]
pub const fn may_delete(row: &InstanceRow) -> bool {
    let _ = row;
    false
}
