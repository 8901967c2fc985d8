//! A step whose answer was lost: read back, then adopt what stands or send the identical request again.
//!
//! Adopting needs certainty: the member is exactly one generation on, in exactly the phase the request
//! asks for. In every other case the identical request is sent again, which is always safe: the gateway
//! answers with what it recorded, or refuses by compare-and-set (S9). What may not be sent again is fenced
//! before it is closed: until then the request may be on its way.

use super::doom::{is_overdue, outlived};
use super::view::View;
use crate::gateway::model::{Member, MemberAction, MemberPhase, MemberRequest};
use crate::pool::ids::Generation;
use crate::pool::instance::{InstanceChanges, InstanceRow};
use crate::pool::phase::Phase;
use crate::pool::recovery;
use crate::pool::settle;
use crate::pool::step::{Effect, Next, RowChange, WaitReason};
use crate::store::port::StepOutcome;

/// The open step of a row with a member, settled before anything else is decided; `None` when there is none.
pub(super) fn open(view: View<'_>, member: &Member) -> Option<Next> {
    let open = view.ctx.open_step.as_ref()?;
    if let Some(change) = stands(view.row, open, member) {
        return Some(Next::record(change));
    }
    if !recovery::is_recovery(&open.operation) {
        return Some(replay(open));
    }
    Some(if view.ctx.recovery.is_some() {
        // The recovery itself would have sent it again: it has declined, because the drain ends by itself (L1).
        withdrawn(view, open)
    } else {
        // Only with the authorization at hand, whose conditions are judged anew each time.
        view.wait(
            WaitReason::Unresolved,
            "a step of an authorized recovery waits for its authorization to be read",
        )
    })
}

/// Sends the identical request again.
pub(super) fn replay(open: &MemberRequest) -> Next {
    Next::perform(Effect::Member(open.clone()))
}

/// What an open step came to, if the member as read back proves that it stands.
pub(in crate::pool) fn stands(row: &InstanceRow, open: &MemberRequest, member: &Member) -> Option<RowChange> {
    let proven = match &open.action {
        MemberAction::Register(body) => member.pod_uid == body.pod_uid && member.boot_id == body.boot_id,
        MemberAction::Admit { expected, .. } => reached(member, *expected, MemberPhase::Active),
        MemberAction::Drain { expected } => reached(member, *expected, MemberPhase::Draining),
        MemberAction::Seal { expected } => reached(member, *expected, MemberPhase::Sealed),
        MemberAction::Suspect { expected, .. } => reached(member, *expected, MemberPhase::Suspect),
        MemberAction::Lost { expected, .. } => reached(member, *expected, MemberPhase::Lost),
        MemberAction::Retire { expected } => reached(member, *expected, MemberPhase::Retiring),
        MemberAction::Retired { expected } => reached(member, *expected, MemberPhase::Retired),
    };
    proven.then(|| RowChange {
        closes: Some(crate::pool::step::ClosedStep {
            operation: open.operation.clone(),
            step: open.step.clone(),
            outcome: StepOutcome::Applied,
        }),
        ..settle::accepted(row, open, member)
    })
}

fn reached(member: &Member, expected: Generation, phase: MemberPhase) -> bool {
    member.generation == expected.next() && member.phase == phase
}

/// An open registration while the gateway says that it knows no such member (S9).
///
/// A 404 alone closes nothing: the request may still be on its way. While the coordinator it names lives and
/// the candidate is wanted, the identical body is sent again; otherwise the pool raises its epoch, after
/// which it can never be applied, and reads back once more. A candidate that is overdue is given up in the same
/// change that closes its registration: else it would be registered anew, and fenced anew, for ever (L6).
pub(super) fn registration(view: View<'_>, open: &MemberRequest) -> Next {
    let MemberAction::Register(body) = &open.action else {
        // Nothing else can be open before there is a member.
        return view.wait(
            WaitReason::Unresolved,
            format!("step {} is open and the gateway knows no member", open.step),
        );
    };
    let boot = view
        .seen
        .info
        .seen()
        .and_then(crate::trino::port::CoordinatorInfo::boot);
    let overdue = is_overdue(view) && view.row.phase.permits(Phase::FailedPreparing);
    if view.row.failure.is_some() || overdue {
        let why = format!(
            "the answer to registering process {} was lost, and its candidate is given up",
            body.boot_id
        );
        let given_up = RowChange {
            to: overdue.then_some(Phase::FailedPreparing),
            changes: InstanceChanges {
                // Said with the phase that it explains, also if it was known before: so the pool remembers it (L5).
                failure: overdue.then(|| {
                    let known = view.row.failure.clone();
                    known.unwrap_or_else(|| outlived(view, "the gateway never answered"))
                }),
                ..InstanceChanges::default()
            },
            closes: None,
        };
        return fenced(view, given_up, why);
    }
    if boot.as_ref() == Some(&body.boot_id) {
        return replay(open);
    }
    let why = format!(
        "the answer to registering process {} was lost and that process does not answer",
        body.boot_id
    );
    fenced(view, RowChange::default(), why)
}

/// An open request that was not applied as far as the gateway says, and that would not be made again now.
///
/// It may still arrive. So it stays open, and its member counts as gone, until the epoch it was sent under
/// is past at the gateway; a read after that is what says that it left no trace.
pub(super) fn withdrawn(view: View<'_>, open: &MemberRequest) -> Next {
    let why = format!(
        "the answer to {} was lost, and it is no longer wanted; it may still arrive",
        open.step
    );
    fenced(view, RowChange::default(), why)
}

/// Closes the open step with a change of the row once it can never be applied any more; until then asks for
/// the fence, and says why.
fn fenced(view: View<'_>, then: RowChange, why: String) -> Next {
    if view.ctx.confirmed.step_fenced {
        return Next::record(RowChange {
            closes: view.closed(StepOutcome::Refused),
            ..then
        });
    }
    view.wait(WaitReason::FenceStep, why)
}
