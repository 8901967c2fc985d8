//! While it takes work: ADMITTED and SERVING, and SUSPECT when it may have ended.

use std::time::Duration;

use super::follow::follow;
use super::view::{View, advance};
use super::{requests, resolve};
use crate::gateway::model::{LossEvidence, Member, MemberAction, MemberPhase};
use crate::pool::floor::{leaves_enough, left_without_one};
use crate::pool::health::{self, Health};
use crate::pool::loss::{self, Proof};
use crate::pool::observation::Reading;
use crate::pool::phase::Phase;
use crate::pool::step::{Effect, Next, WaitReason, Waiting};

/// Longest reason of the protocol, characters.
const REASON_MAX: usize = 256;

/// What the readings say about telling the gateway SUSPECT, which has no way back (S6).
enum Suspicion {
    /// Its last known reading was good.
    None,
    /// It is told: the process ended, or it failed long enough and nothing stands against it.
    Tell(String),
    /// Not now: says why.
    Hold(WaitReason, String),
}

/// ADMITTED and SERVING.
pub(super) fn serving(view: View<'_>) -> Next {
    let suspicion = suspicion(view);
    let member = match view.own_member() {
        Ok(member) => member,
        Err(wait) => return without_member(view, suspicion, wait),
    };
    if let Some(next) = open(view, member, &suspicion) {
        return next;
    }
    if let Some(next) = follow(view, member) {
        return next;
    }
    if member.phase != MemberPhase::Active {
        return view.unexpected(member);
    }
    if view.row.phase == Phase::Admitted && member.eligible {
        return advance(Phase::Serving, member);
    }
    match suspicion {
        Suspicion::Tell(reason) => tell(view, member, &reason),
        Suspicion::Hold(reason, detail) => view.wait(reason, detail),
        Suspicion::None if view.row.phase == Phase::Admitted => view.wait(
            WaitReason::NotEligible,
            "admitted; the gateway does not route to it yet",
        ),
        Suspicion::None => view.wait(WaitReason::Settled, "it serves"),
    }
}

/// A gateway that does not answer stops gateway steps and nothing else.
fn without_member(view: View<'_>, suspicion: Suspicion, wait: Next) -> Next {
    match suspicion {
        Suspicion::None if view.row.phase == Phase::Serving && view.ctx.open_step.is_none() => {
            match &view.seen.member {
                Reading::Seen(_) => wait,
                Reading::NotAsked | Reading::Unknown(_) => view.wait(
                    WaitReason::Settled,
                    "it serves; the gateway did not say so in this pass",
                ),
            }
        }
        Suspicion::Hold(reason, detail) => view.wait(reason, detail),
        Suspicion::None | Suspicion::Tell(_) => wait,
    }
}

/// A request whose answer was lost is sent again only if it would be decided again now: what it asks for
/// cannot be taken back, and the gateway says that it was not applied. Otherwise it is withdrawn, behind a
/// fence: it may be on its way still.
fn open(view: View<'_>, member: &Member, suspicion: &Suspicion) -> Option<Next> {
    let open = view.ctx.open_step.as_ref()?;
    let still_at = |expected| member.phase == MemberPhase::Active && member.generation == expected;
    let withdrawn = match &open.action {
        MemberAction::Suspect { expected, .. } => {
            still_at(*expected) && (view.ctx.refused_in_doubt || !matches!(suspicion, Suspicion::Tell(_)))
        }
        MemberAction::Drain { expected } => {
            still_at(*expected) && (view.ctx.refused_in_doubt || !may_drain(view))
        }
        MemberAction::Register(_)
        | MemberAction::Admit { .. }
        | MemberAction::Seal { .. }
        | MemberAction::Lost { .. }
        | MemberAction::Retire { .. }
        | MemberAction::Retired { .. } => false,
    };
    if withdrawn {
        return Some(resolve::withdrawn(view, open));
    }
    resolve::open(view, member)
}

/// S5 and S6 as the planner judged them, with what is known now.
fn may_drain(view: View<'_>) -> bool {
    let ctx = view.ctx;
    leaves_enough(
        left_without_one(ctx.answering, gateway_active(view), ctx.leaving),
        ctx.target,
        ctx.min_serving,
        view.row.evidence.is_present(),
    )
}

fn suspicion(view: View<'_>) -> Suspicion {
    if let Some(Proof { detail, .. }) = loss::ended(view.row, view.seen) {
        return Suspicion::Tell(detail);
    }
    if let Some(detail) = loss::replaced(view.row, view.seen) {
        return Suspicion::Tell(detail);
    }
    let Some(failing) = view.ctx.failing_for else {
        return Suspicion::None;
    };
    let seconds = failing.as_secs();
    if failing < view.ctx.timings.suspect_after {
        return Suspicion::Hold(
            WaitReason::Doubtful,
            format!("it has been failing for {seconds} s"),
        );
    }
    // What it did earlier says nothing about now, and there is no way back.
    if let Health::Good | Health::Unknown(_) = health::read(view.row, view.seen) {
        return Suspicion::Hold(
            WaitReason::Doubtful,
            format!("it was failing for {seconds} s, and this round does not say that it still does"),
        );
    }
    if !view.ctx.probes_trusted {
        return Suspicion::Hold(
            WaitReason::ProbesBlind,
            format!("it has been failing for {seconds} s, and so do too many others at once"),
        );
    }
    if view.ctx.suspected_another {
        // What the next one rests on has to be read after the last one was told.
        return Suspicion::Hold(
            WaitReason::ProbesBlind,
            format!("it has been failing for {seconds} s; another one was told SUSPECT in this round"),
        );
    }
    if left_without_it(view) < view.ctx.min_serving {
        return Suspicion::Hold(
            WaitReason::ServingFloor,
            format!(
                "it has been failing for {seconds} s; without it fewer than {} would serve",
                view.ctx.min_serving
            ),
        );
    }
    Suspicion::Tell(format!("failing for {seconds} s"))
}

/// Members that would still be ACTIVE: the lower of what the rows and the gateway say. The gateway may
/// not have seen yet what is on its way to it.
fn left_without_it(view: View<'_>) -> u32 {
    let own = u32::from(view.row.phase == Phase::Serving);
    let by_rows = view.ctx.serving.saturating_sub(own);
    left_without_one(by_rows, gateway_active(view), view.ctx.leaving)
}

fn gateway_active(view: View<'_>) -> Option<u32> {
    view.ctx.gateway_pool.as_ref().map(|pool| pool.serving_members)
}

/// Tells the gateway, once and for all.
pub(super) fn tell(view: View<'_>, member: &Member, reason: &str) -> Next {
    let expected = member.generation;
    view.send(
        MemberAction::Suspect {
            expected,
            reason: reason.chars().take(REASON_MAX).collect(),
        },
        &format!("g{expected}"),
    )
}

/// SUSPECT: LOST on proof, else a drain when it has been suspect for long enough. Never back.
pub(super) fn suspect(view: View<'_>) -> Next {
    let member = match view.own_member() {
        Ok(member) => member,
        Err(wait) => return wait,
    };
    if let Some(next) = resolve::open(view, member) {
        return next;
    }
    if let Some(next) = follow(view, member) {
        return next;
    }
    if member.phase != MemberPhase::Suspect {
        return view.unexpected(member);
    }
    if let Some(proof) = loss::ended(view.row, view.seen) {
        return declare_lost(view, member, &proof);
    }
    let drains_at = after(view, view.ctx.timings.suspect_drain_after);
    if view.now >= drains_at {
        return match requests::drain_request(view.row) {
            Some(request) => Next::perform(Effect::Member(request)),
            None => view.wait(WaitReason::Unknown, "the row records no registration"),
        };
    }
    Next::Wait(Waiting {
        reason: WaitReason::AwaitingProof,
        detail: "nothing proves that its process has ended; it is drained if that stays so".to_owned(),
        deadline: Some(drains_at),
    })
}

fn after(view: View<'_>, patience: Duration) -> jiff::Timestamp {
    view.row
        .phase_changed_at
        .saturating_add(patience)
        .unwrap_or(jiff::Timestamp::MAX)
}

/// The four identities are the registration's own; the proof must be of that process and no other.
fn declare_lost(view: View<'_>, member: &Member, proof: &Proof) -> Next {
    let same = view
        .row
        .process
        .as_ref()
        .is_some_and(|process| process.pod == member.pod_uid && process.boot == member.boot_id);
    if !same {
        return view.wait(
            WaitReason::Refused,
            "the gateway registered another process than the row records",
        );
    }
    let expected = member.generation;
    view.send(
        MemberAction::Lost {
            expected,
            evidence: LossEvidence::ProcessTerminated {
                pod_uid: member.pod_uid.clone(),
                boot_id: member.boot_id.clone(),
                node_id: member.node_id.clone(),
                coordinator_id: member.coordinator_id.clone(),
                source: proof.source.to_owned(),
            },
        },
        &format!("g{expected}"),
    )
}
