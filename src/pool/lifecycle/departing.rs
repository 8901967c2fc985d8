//! On its way out: DRAINING, SEALED, RETIRING, LOST and FAILED_PREPARING.
//!
//! One order for all of them: the gateway's irreversible claim, then the deletion of objects, then
//! "retired" (S1). Nothing here has a timer: obligations end, or a person authorizes a recovery.

use super::creating::adopt;
use super::follow::follow;
use super::serving::tell;
use super::view::View;
use super::{may_delete, resolve};
use crate::gateway::model::{Member, MemberAction, MemberPhase, Obligations};
use crate::pool::instance::InstanceChanges;
use crate::pool::loss;
use crate::pool::observation::Reading;
use crate::pool::phase::Phase;
use crate::pool::settle;
use crate::pool::step::{Effect, Next, RowChange, WaitReason};

/// Read-back, open step and following, which come first in every one of these phases.
fn member_first(view: View<'_>) -> Result<&Member, Next> {
    let member = view.own_member()?;
    if let Some(next) = resolve::open(view, member) {
        return Err(next);
    }
    if let Some(next) = follow(view, member) {
        return Err(next);
    }
    Ok(member)
}

/// DRAINING: sealed when nothing is owed, and only by the gateway's own count.
pub(super) fn draining(view: View<'_>) -> Next {
    let member = match member_first(view) {
        Ok(member) => member,
        Err(next) => return next,
    };
    if member.phase != MemberPhase::Draining {
        return view.unexpected(member);
    }
    let owed = match &view.seen.obligations {
        Reading::Seen(Some(owed)) if owed.incarnation == member.incarnation => owed,
        Reading::Seen(_) => {
            return view.wait(
                WaitReason::Unknown,
                "the gateway counted another registration, or none",
            );
        }
        Reading::NotAsked => return view.wait(WaitReason::Unknown, "obligations were not asked for"),
        Reading::Unknown(fault) => return view.unknown(fault),
    };
    if owed.outstanding() == 0 && owed.phase == MemberPhase::Draining {
        // The generation of the row: a lost answer must not change the body.
        let expected = view
            .row
            .member
            .as_ref()
            .map_or(member.generation, |known| known.generation);
        return view.send(MemberAction::Seal { expected }, &format!("g{expected}"));
    }
    // What a dead process owes can never end: that goes by way of loss (K07), as it does anywhere else.
    if let Some(proof) = loss::ended(view.row, view.seen) {
        return tell(view, member, &proof.detail);
    }
    view.wait(WaitReason::Obligations, counts(owed))
}

fn counts(owed: &Obligations) -> String {
    format!(
        "{} queries, {} transactions and {} requests are still owed",
        owed.active_queries, owed.open_transactions, owed.pending_requests
    )
}

/// SEALED: the irreversible claim.
pub(super) fn sealed(view: View<'_>) -> Next {
    let member = match member_first(view) {
        Ok(member) => member,
        Err(next) => return next,
    };
    if member.phase != MemberPhase::Sealed {
        return view.unexpected(member);
    }
    claim(view, member)
}

fn claim(view: View<'_>, member: &Member) -> Next {
    let expected = member.generation;
    view.send(MemberAction::Retire { expected }, &format!("g{expected}"))
}

/// LOST: claim, then delete, then retired.
pub(super) fn lost(view: View<'_>) -> Next {
    if may_delete(view.row) {
        return closing(view);
    }
    let member = match member_first(view) {
        Ok(member) => member,
        Err(next) => return next,
    };
    if member.phase != MemberPhase::Lost {
        return view.unexpected(member);
    }
    claim(view, member)
}

/// FAILED_PREPARING: like LOST, and without a claim only for what never had a member.
pub(super) fn failed_preparing(view: View<'_>) -> Next {
    if view.row.member.is_none() {
        return never_registered(view);
    }
    if may_delete(view.row) {
        return closing(view);
    }
    let member = match member_first(view) {
        Ok(member) => member,
        Err(next) => return next,
    };
    if member.phase != MemberPhase::Preparing {
        // An admitted member is not ours to close from here: said, and left to a person.
        return view.unexpected(member);
    }
    claim(view, member)
}

fn never_registered(view: View<'_>) -> Next {
    // The gateway first: a row that went back in a restored store may be of a member that serves (S1).
    match view.member() {
        Err(wait) => wait,
        Ok(Some(member)) => adopt(view, member),
        Ok(None) => match &view.ctx.open_step {
            Some(open) => resolve::registration(view, open),
            // It never got past PENDING: whatever a lost answer left behind is an orphan of a terminal row.
            None if view.row.objects.is_none() => over(),
            None if view.ctx.confirmed.absent => over(),
            None => Next::perform(Effect::DeleteObjects),
        },
    }
}

fn over() -> Next {
    Next::record(RowChange {
        to: Some(Phase::FailureRetired),
        ..RowChange::default()
    })
}

/// The claim stands: delete, verify, tell the gateway, forget the backend, end.
pub(super) fn closing(view: View<'_>) -> Next {
    if !may_delete(view.row) {
        return view.wait(WaitReason::Unknown, "the row does not hold the gateway's claim");
    }
    if !view.ctx.confirmed.absent {
        return Next::perform(Effect::DeleteObjects);
    }
    let member = match view.own_member() {
        Ok(member) => member,
        Err(wait) => return wait,
    };
    if let Some(next) = resolve::open(view, member) {
        return next;
    }
    match member.phase {
        MemberPhase::Retiring => {
            let expected = member.generation;
            view.send(MemberAction::Retired { expected }, &format!("g{expected}"))
        }
        MemberPhase::Retired => match &view.row.member {
            Some(known) if known.phase == MemberPhase::Retired => {
                Next::perform(Effect::RemoveBackend(known.backend.clone()))
            }
            Some(_) | None => Next::change(InstanceChanges {
                member: Some(settle::handle(member)),
                ..InstanceChanges::default()
            }),
        },
        MemberPhase::Preparing
        | MemberPhase::Active
        | MemberPhase::Draining
        | MemberPhase::Sealed
        | MemberPhase::Suspect
        | MemberPhase::Lost
        | MemberPhase::Unrecognised => view.unexpected(member),
    }
}
