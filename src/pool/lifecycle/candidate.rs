//! From a registered member to an accepted admission: PREPARING and VALIDATING.

use super::creating::pods_ready;
use super::doom::{fresh_check, is_overdue, outlived, reason, retire, still_unproven, wait_or_expire};
use super::requests::{admission, admission_attempt};
use super::view::View;
use super::{RECEIPT_FRESHNESS, resolve};
use crate::gateway::model::{Member, MemberAction, MemberPhase, MemberRequest};
use crate::pool::edited::edited;
use crate::pool::instance::{CandidateFailure, FailureCause, InstanceChanges, ValidationReceipt};
use crate::pool::observation::Reading;
use crate::pool::phase::Phase;
use crate::pool::settle;
use crate::pool::step::{ClosedStep, Effect, Next, RowChange, WaitReason};
use crate::store::port::StepOutcome;

/// PREPARING and VALIDATING: what the gateway holds decides first, whatever the nodes look like (S10).
pub(super) fn registered(view: View<'_>) -> Next {
    let member = match view.own_member() {
        Ok(member) => member,
        Err(wait) => return wait,
    };
    let open = view.ctx.open_step.as_ref();
    if let Some(change) = open.and_then(|open| resolve::stands(view.row, open, member)) {
        return Next::record(change);
    }
    match member.phase {
        MemberPhase::Preparing => {}
        MemberPhase::Active
        | MemberPhase::Draining
        | MemberPhase::Sealed
        | MemberPhase::Suspect
        | MemberPhase::Lost => return admitted(view, member),
        MemberPhase::Retiring | MemberPhase::Retired => return claimed(view, member),
        MemberPhase::Unrecognised => return view.unexpected(member),
    }
    match open.map(|open| (open, &open.action)) {
        None => decide(view, member),
        // Not applied as far as the gateway knows: it is judged like a new one before it is sent again.
        Some((open, MemberAction::Admit { .. })) => admit_again(view, member, open),
        Some((
            open,
            MemberAction::Register(_)
            | MemberAction::Drain { .. }
            | MemberAction::Seal { .. }
            | MemberAction::Suspect { .. }
            | MemberAction::Lost { .. }
            | MemberAction::Retire { .. }
            | MemberAction::Retired { .. },
        )) => resolve::replay(open),
    }
}

/// An admission was accepted, by whomever: it is never erased by what is known of the nodes now.
fn admitted(view: View<'_>, member: &Member) -> Next {
    let to = if view.row.phase == Phase::Preparing {
        Phase::Validating
    } else {
        Phase::Admitted
    };
    Next::record(RowChange {
        to: Some(to),
        changes: InstanceChanges {
            member: Some(settle::handle(member)),
            ..InstanceChanges::default()
        },
        closes: overtaken(view, |action| matches!(action, MemberAction::Admit { .. })),
    })
}

/// The retirement won: the candidate is never admitted.
fn claimed(view: View<'_>, member: &Member) -> Next {
    let failure = reason(view).unwrap_or_else(|| CandidateFailure {
        cause: FailureCause::GatewayRefused,
        detail: "the gateway retired it before it was admitted".to_owned(),
    });
    Next::record(RowChange {
        to: Some(Phase::FailedPreparing),
        changes: InstanceChanges {
            member: Some(settle::handle(member)),
            failure: Some(failure),
            ..InstanceChanges::default()
        },
        closes: overtaken(view, |action| matches!(action, MemberAction::Retire { .. })),
    })
}

/// The open step beside a race that is decided: it is what won, or its generation is past for good.
fn overtaken(view: View<'_>, won: impl Fn(&MemberAction) -> bool) -> Option<ClosedStep> {
    let open = view.ctx.open_step.as_ref()?;
    view.closed(if won(&open.action) {
        StepOutcome::Applied
    } else {
        StepOutcome::Refused
    })
}

fn decide(view: View<'_>, member: &Member) -> Next {
    if let Some(failure) = reason(view) {
        return retire(view, member, failure);
    }
    if view.row.phase == Phase::Preparing {
        return prepare(view);
    }
    match usable_receipt(view) {
        Ok(receipt) => match fresh_check(view) {
            Ok(()) => view.send(
                MemberAction::Admit {
                    expected: member.generation,
                    receipt: admission(view.row, receipt),
                },
                &admission_attempt(receipt),
            ),
            Err(next) => next,
        },
        // Proven anew where it stands, so that its deadline stays what it was, however often somebody edits.
        Err(Unusable::Outrun) => prepare(view),
        // Validated again rather than refused for ever, once that can lead to an admission.
        Err(Unusable::Absent | Unusable::OtherProcess | Unusable::TooOld) => still_unproven(view)
            .unwrap_or_else(|| {
                Next::record(RowChange {
                    to: Some(Phase::Preparing),
                    ..RowChange::default()
                })
            }),
    }
}

fn admit_again(view: View<'_>, member: &Member, open: &MemberRequest) -> Next {
    if let Some(failure) = reason(view).or_else(|| hangs(view)) {
        return retire(view, member, failure);
    }
    // Only the very same body can be sent again, and it tells of pods that were there.
    if let Some(other) = view
        .row
        .receipt
        .as_ref()
        .and_then(|receipt| outrun(view, receipt))
    {
        return wait_or_expire(view, WaitReason::PodsNotReady, other);
    }
    match fresh_check(view) {
        Ok(()) => resolve::replay(open),
        Err(next) => next,
    }
}

/// Why an admission without an answer is no longer waited for past the deadline (L6): what the gateway
/// probes before it admits is not well, so that it goes on answering nothing and refusing nothing.
///
/// The claim that follows is safe whatever became of the admission: both expect the same generation.
fn hangs(view: View<'_>) -> Option<CandidateFailure> {
    if !is_overdue(view) {
        return None;
    }
    let missing = view.seen.owned.seen().and_then(|owned| pods_ready(owned).err());
    let silent = || match &view.seen.info {
        Reading::Seen(info) if !info.ready => Some("it still starts".to_owned()),
        Reading::Seen(_) | Reading::NotAsked => None,
        Reading::Unknown(fault) => Some(format!("it does not answer: {}", fault.detail)),
    };
    let detail = missing.or_else(silent)?;
    Some(outlived(view, &detail))
}

fn prepare(view: View<'_>) -> Next {
    let owned = match view.owned() {
        Ok(owned) => owned,
        Err(wait) => return wait,
    };
    if let Err(missing) = pods_ready(owned) {
        return wait_or_expire(view, WaitReason::PodsNotReady, missing);
    }
    match &view.seen.info {
        Reading::Seen(info) if info.ready => Next::perform(Effect::Validate),
        Reading::Seen(_) => wait_or_expire(
            view,
            WaitReason::CoordinatorNotReady,
            "it still starts".to_owned(),
        ),
        Reading::NotAsked => view.wait(WaitReason::Unknown, "its coordinator was not probed"),
        Reading::Unknown(fault) => wait_or_expire(
            view,
            WaitReason::CoordinatorNotReady,
            format!("it does not answer: {}", fault.detail),
        ),
    }
}

/// Why a receipt is not presented.
enum Unusable {
    Absent,
    OtherProcess,
    TooOld,
    /// It is not what runs: a Deployment was edited (A11), or pods are missing.
    Outrun,
}

/// The receipt, if it is of the registered process and of the pods that run, and young enough.
fn usable_receipt(view: View<'_>) -> Result<&ValidationReceipt, Unusable> {
    let receipt = view.row.receipt.as_ref().ok_or(Unusable::Absent)?;
    let same =
        view.row.process.as_ref().is_some_and(|process| {
            process.pod == receipt.process.pod && process.boot == receipt.process.boot
        });
    if !same {
        return Err(Unusable::OtherProcess);
    }
    let expires = receipt.validated_at.saturating_add(RECEIPT_FRESHNESS);
    if !expires.is_ok_and(|expires| view.now < expires) {
        return Err(Unusable::TooOld);
    }
    match outrun(view, receipt) {
        None => Ok(receipt),
        Some(_) => Err(Unusable::Outrun),
    }
}

/// What runs instead of what the receipt is about, as far as it was seen after it.
fn outrun(view: View<'_>, receipt: &ValidationReceipt) -> Option<String> {
    let owned = view
        .seen
        .owned
        .seen()
        .filter(|_| view.seen.at > receipt.validated_at)?;
    let edited = edited(Some(receipt), owned, view.seen.at).map(|fault| fault.to_string());
    edited.or_else(|| pods_ready(owned).err())
}
