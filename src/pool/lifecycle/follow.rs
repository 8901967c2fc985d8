//! The gateway's member has moved further than the row: the row follows, one permitted phase at a time.
//!
//! This is how a lost race, a predecessor's step and a person's hand at the gateway end up in the row.
//! A DRAINED retirement is never read as a loss, nor a FAILED one as a drain.

use super::view::{View, advance};
use crate::gateway::model::{Member, MemberPhase, RetirementKind};
use crate::pool::instance::InstanceChanges;
use crate::pool::phase::Phase;
use crate::pool::settle;
use crate::pool::step::Next;

/// Which way out the gateway took.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    /// By a drain: this far.
    Drain(Phase),
    /// By a failure: this far.
    Failure(Phase),
}

fn course(member: &Member) -> Option<Course> {
    let failed = member.retirement_kind == Some(RetirementKind::Failed);
    match member.phase {
        MemberPhase::Draining => Some(Course::Drain(Phase::Draining)),
        MemberPhase::Sealed => Some(Course::Drain(Phase::Sealed)),
        MemberPhase::Suspect => Some(Course::Failure(Phase::Suspect)),
        MemberPhase::Lost => Some(Course::Failure(Phase::Lost)),
        MemberPhase::Retiring | MemberPhase::Retired if failed => Some(Course::Failure(Phase::Lost)),
        MemberPhase::Retiring | MemberPhase::Retired => Some(Course::Drain(Phase::Retiring)),
        MemberPhase::Preparing | MemberPhase::Active | MemberPhase::Unrecognised => None,
    }
}

/// The next phase of an admitted row on that course; `None` when it is there already.
fn toward(at: Phase, course: Course) -> Option<Phase> {
    let wanted = match (at, course) {
        (Phase::Admitted | Phase::Serving | Phase::Suspect, Course::Drain(_)) => Phase::Draining,
        (Phase::Draining, Course::Drain(Phase::Sealed | Phase::Retiring)) => Phase::Sealed,
        (Phase::Sealed, Course::Drain(Phase::Retiring)) => Phase::Retiring,
        (Phase::Suspect, Course::Failure(Phase::Lost)) => Phase::Lost,
        (Phase::Admitted | Phase::Serving | Phase::Draining | Phase::Sealed, Course::Failure(_)) => {
            Phase::Suspect
        }
        (_, Course::Drain(_) | Course::Failure(_)) => return None,
    };
    at.permits(wanted).then_some(wanted)
}

/// Follows the member, if it is ahead, or records its generation, if only that differs.
pub(super) fn follow(view: View<'_>, member: &Member) -> Option<Next> {
    if let Some(to) = course(member).and_then(|course| toward(view.row.phase, course)) {
        return Some(advance(to, member));
    }
    let handle = settle::handle(member);
    if member.phase != MemberPhase::Unrecognised && view.row.member.as_ref() != Some(&handle) {
        return Some(Next::change(InstanceChanges {
            member: Some(handle),
            ..InstanceChanges::default()
        }));
    }
    None
}
