//! What one instance does next: (row, observation, context, now) → one change, one effect, or a typed wait.
//!
//! Owns the order of steps in each phase and every condition on them. Pure: no clock, no I/O. Nothing
//! is ever guessed: a reading that was not asked or not answered is a wait that says so, and the only
//! authority for a request is the row, read back against the gateway's own member. The files follow a life:
//! [`candidate`] until admission, [`serving`] while it takes work, [`departing`] on its way out;
//! [`resolve`] settles a step whose answer was lost, before anything else happens.

mod candidate;
mod creating;
mod departing;
mod doom;
mod follow;
mod requests;
mod resolve;
mod serving;
mod view;

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;

pub use self::requests::{drain_request, step_id};
pub(in crate::pool) use self::resolve::stands;
pub(in crate::pool) use self::view::{View, advance};
use super::desired::Timings;
use super::instance::InstanceRow;
use super::observation::Observation;
use super::phase::Phase;
use super::recovery;
use super::step::{Next, StepContext, WaitReason};
use crate::gateway::model::MemberPhase;

/// How old a validation receipt may be when it is presented: the gateway's own default freshness
/// (protocol section 1.3, `certificateFreshnessSeconds`).
pub const RECEIPT_FRESHNESS: Duration = Duration::from_mins(5);

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
///
/// The complete listing of a namespace is asked for only where absence has to be proven: for a member
/// that fails or is suspect, and for an authorized recovery.
#[must_use]
pub fn needs(row: &InstanceRow, ctx: &StepContext) -> Needs {
    let failing = ctx.failing_for.is_some();
    let recovering = ctx.recovery.is_some();
    let living = Needs {
        workload: true,
        member: true,
        info: true,
        placement: ctx.node_checks,
        ..Needs::default()
    };
    match row.phase {
        Phase::Pending | Phase::Retired | Phase::FailureRetired => Needs::default(),
        // Its pods are still protected, whatever else a newer binary does with it.
        Phase::Unrecognised => Needs {
            workload: true,
            ..Needs::default()
        },
        Phase::Creating => Needs {
            endpoint: true,
            ..living
        },
        Phase::Preparing | Phase::Validating => living,
        Phase::Admitted | Phase::Serving => Needs {
            namespace_pods: failing,
            ..living
        },
        Phase::Draining => Needs {
            obligations: true,
            namespace_pods: failing || recovering,
            ..living
        },
        Phase::Suspect => Needs {
            obligations: recovering,
            namespace_pods: true,
            ..living
        },
        Phase::Sealed => Needs {
            info: false,
            ..living
        },
        Phase::Lost => Needs {
            member: true,
            workload: recovering,
            info: recovering,
            obligations: recovering,
            namespace_pods: recovering,
            ..Needs::default()
        },
        Phase::Retiring => Needs {
            member: true,
            ..Needs::default()
        },
        // An unresolved registration asks whether its coordinator still lives.
        Phase::FailedPreparing => Needs {
            member: true,
            workload: ctx.open_step.is_some(),
            info: ctx.open_step.is_some(),
            ..Needs::default()
        },
    }
}

/// What the instance does next. After a [`Next::Record`] it is asked again with the changed row, and
/// without the open step if the change closes it.
#[must_use]
pub fn next(row: &InstanceRow, observation: &Observation, ctx: &StepContext, now: Timestamp) -> Next {
    let view = View {
        row,
        seen: observation,
        ctx,
        now,
    };
    if let Some(authorized) = &ctx.recovery
        && let Some(next) = recovery::next(view, authorized)
    {
        return next;
    }
    match row.phase {
        Phase::Pending => creating::pending(view),
        Phase::Creating => creating::creating(view),
        Phase::Preparing | Phase::Validating => candidate::registered(view),
        Phase::Admitted | Phase::Serving => serving::serving(view),
        Phase::Suspect => serving::suspect(view),
        Phase::Draining => departing::draining(view),
        Phase::Sealed => departing::sealed(view),
        Phase::Retiring => departing::closing(view),
        Phase::Lost => departing::lost(view),
        Phase::FailedPreparing => departing::failed_preparing(view),
        Phase::Retired | Phase::FailureRetired => view.wait(WaitReason::Settled, "it is over"),
        Phase::Unrecognised => view.wait(
            WaitReason::RowUnreadable,
            "its row is in a phase that this binary does not know",
        ),
    }
}

/// Whether the row permits that its recorded objects are deleted (S1).
///
/// A registered instance's are deletable only after the gateway granted the irreversible claim; one that
/// never got a member only once it was given up.
#[must_use]
pub fn may_delete(row: &InstanceRow) -> bool {
    let claimed = row.member.as_ref().is_some_and(|member| {
        member.retirement.is_some() && matches!(member.phase, MemberPhase::Retiring | MemberPhase::Retired)
    });
    match row.phase {
        Phase::Retiring | Phase::Lost => claimed,
        Phase::FailedPreparing => claimed || row.member.is_none(),
        Phase::Retired | Phase::FailureRetired => true,
        Phase::Pending
        | Phase::Creating
        | Phase::Preparing
        | Phase::Validating
        | Phase::Admitted
        | Phase::Serving
        | Phase::Draining
        | Phase::Sealed
        | Phase::Suspect
        | Phase::Unrecognised => false,
    }
}

/// When the progress deadline of a candidate's phase passes; `None` for every other phase.
///
/// A candidate that goes back and forth between PREPARING and VALIDATING is bounded by its whole life.
#[must_use]
pub fn deadline(row: &InstanceRow, timings: &Timings) -> Option<Timestamp> {
    let whole = timings
        .creating_deadline
        .saturating_mul(2)
        .saturating_add(timings.preparing_deadline)
        .saturating_add(timings.validating_deadline);
    let after = |from: Timestamp, patience: Duration| from.saturating_add(patience).unwrap_or(Timestamp::MAX);
    let phase = match row.phase {
        Phase::Pending | Phase::Creating => {
            return Some(after(row.phase_changed_at, timings.creating_deadline));
        }
        Phase::Preparing => after(row.phase_changed_at, timings.preparing_deadline),
        Phase::Validating => after(row.phase_changed_at, timings.validating_deadline),
        Phase::Admitted
        | Phase::Serving
        | Phase::Draining
        | Phase::Sealed
        | Phase::Retiring
        | Phase::Retired
        | Phase::Suspect
        | Phase::Lost
        | Phase::FailureRetired
        | Phase::FailedPreparing
        | Phase::Unrecognised => return None,
    };
    Some(phase.min(after(row.created_at, whole)))
}
