//! An authorized recovery: a person declared an exact process lost.
//!
//! Owns the conditions under which that declaration is carried out, and its order: SUSPECT, LOST by
//! DESTRUCTIVE_OVERRIDE, RETIRE, each as the identical request under the operation
//! `admin-recovery:<the person's operation>` whoever leads. The row follows only when the gateway has granted the
//! failed retirement. A clean drain wins to the very end. Node replacement never triggers it, and a
//! failing node API never blocks it (L2). A process that has provably ended is left to the ordinary loss. Pure.

use super::ids::{Generation, OperationId};
use super::lifecycle::{View, advance, stands, step_id};
use super::loss;
use super::observation::Reading;
use super::phase::Phase;
use super::step::{Effect, Next, WaitReason};
use crate::gateway::model::{LossEvidence, Member, MemberAction, MemberPhase, MemberRequest, RetirementKind};
use crate::store::port::Recovery;

const OPERATION_PREFIX: &str = "admin-recovery:";

/// Whether a journaled operation belongs to a recovery.
#[must_use]
pub fn is_recovery(operation: &OperationId) -> bool {
    operation.as_str().starts_with(OPERATION_PREFIX)
}

/// The next step of the recovery; `None` when the ordinary life of the instance goes on instead.
pub(in crate::pool) fn next(view: View<'_>, authorized: &Recovery) -> Option<Next> {
    let foreign_step = |open: &MemberRequest| !is_recovery(&open.operation);
    if view.ctx.open_step.as_ref().is_some_and(foreign_step) {
        // An answer that is still missing is settled first, as ever.
        return None;
    }
    match view.row.phase {
        Phase::Draining | Phase::Suspect | Phase::Lost => {}
        // Sealed or further by a clean drain, or never in a state that can be recovered.
        Phase::Sealed
        | Phase::Retiring
        | Phase::Retired
        | Phase::FailureRetired
        | Phase::Pending
        | Phase::Creating
        | Phase::Preparing
        | Phase::Validating
        | Phase::Admitted
        | Phase::Serving
        | Phase::FailedPreparing
        | Phase::Unrecognised => return None,
    }
    if !names(view, authorized) {
        return Some(held(
            view,
            "the declaration names another process than the row records",
        ));
    }
    let member = match view.own_member() {
        Ok(member) => member,
        Err(wait) => return Some(wait),
    };
    let failed = member.retirement_kind == Some(RetirementKind::Failed);
    let granted = match member.phase {
        MemberPhase::Draining => Granted::Nothing,
        MemberPhase::Suspect => Granted::Suspicion,
        MemberPhase::Lost => Granted::Loss,
        MemberPhase::Retiring if failed => Granted::Retirement,
        MemberPhase::Retired if failed => Granted::End,
        // Cleanly sealed or retired: the drain has won.
        MemberPhase::Sealed | MemberPhase::Retiring | MemberPhase::Retired => return None,
        MemberPhase::Preparing | MemberPhase::Active | MemberPhase::Unrecognised => {
            return Some(view.unexpected(member));
        }
    };
    if member.generation != granted.generation(authorized) {
        let detail = format!(
            "the member is at generation {}, the declaration was made at {}",
            member.generation, authorized.expected_generation
        );
        return Some(held(view, detail));
    }
    if let Some(change) = view
        .ctx
        .open_step
        .as_ref()
        .and_then(|open| stands(view.row, open, member))
    {
        return Some(Next::record(change));
    }
    let Some(request) = request(authorized, granted) else {
        return follow(view, member);
    };
    if granted == Granted::Nothing && nothing_owed(view, member) {
        return None;
    }
    // A proven end needs no declaration, and nobody's permission (K07): neither the floor nor what a dead
    // process owes may hold it. The ordinary loss has the same generations, and finishes it; a request of
    // this recovery whose answer is missing is sent again first, as only its identical body can be.
    let proven = loss::ended(view.row, view.seen).is_some();
    if proven && view.ctx.open_step.is_none() {
        return None;
    }
    if !proven && let Err(why) = preconditions(view, member) {
        return Some(held(view, why));
    }
    Some(Next::perform(Effect::Member(request)))
}

fn held(view: View<'_>, detail: impl Into<String>) -> Next {
    view.wait(WaitReason::RecoveryHeld, detail)
}

/// The failed retirement is granted: the row goes DRAINING → SUSPECT → LOST, and is then closed like any loss.
fn follow(view: View<'_>, member: &Member) -> Option<Next> {
    match view.row.phase {
        Phase::Draining => Some(advance(Phase::Suspect, member)),
        Phase::Suspect => Some(advance(Phase::Lost, member)),
        Phase::Lost
        | Phase::Pending
        | Phase::Creating
        | Phase::Preparing
        | Phase::Validating
        | Phase::Admitted
        | Phase::Serving
        | Phase::Sealed
        | Phase::Retiring
        | Phase::Retired
        | Phase::FailureRetired
        | Phase::FailedPreparing
        | Phase::Unrecognised => None,
    }
}

fn names(view: View<'_>, authorized: &Recovery) -> bool {
    let process = view.row.process.as_ref().is_some_and(|process| {
        process.pod == authorized.pod_uid
            && process.boot == authorized.boot_id
            && process.node == authorized.node_id
            && process.coordinator == authorized.coordinator_id
    });
    let registration = view
        .row
        .member
        .as_ref()
        .is_some_and(|member| member.incarnation == authorized.incarnation);
    process && registration && authorized.instance == view.row.id
}

fn nothing_owed(view: View<'_>, member: &Member) -> bool {
    match &view.seen.obligations {
        Reading::Seen(Some(owed)) => owed.incarnation == member.incarnation && owed.outstanding() == 0,
        Reading::Seen(None) | Reading::NotAsked | Reading::Unknown(_) => false,
    }
}

/// What must hold before each of the three requests, judged anew each time.
fn preconditions(view: View<'_>, member: &Member) -> Result<(), String> {
    if view.row.objects.is_none() {
        return Err("the row does not record its objects".to_owned());
    }
    let pool = view
        .ctx
        .gateway_pool
        .as_ref()
        .ok_or("the gateway did not say how many members serve")?;
    let floor = pool.min_serving.max(view.ctx.min_serving);
    if pool.serving_members < floor {
        return Err(format!(
            "{} members serve, the floor is {floor}",
            pool.serving_members
        ));
    }
    let owed = match &view.seen.obligations {
        Reading::Seen(Some(owed)) => owed,
        Reading::Seen(None) | Reading::NotAsked => return Err("obligations were not read".to_owned()),
        Reading::Unknown(fault) => return Err(format!("obligations are not known: {}", fault.detail)),
    };
    if owed.incarnation != member.incarnation || owed.generation != member.generation {
        return Err("obligations were counted for another state of the member".to_owned());
    }
    // Only queries that nobody asks for any more: the live process may be given up.
    let idle = owed.pending_requests == 0 && owed.open_transactions == 0;
    if idle && (member.phase != MemberPhase::Draining || is_the_admitted_process(view)) {
        return Ok(());
    }
    let process = view.row.process.as_ref().ok_or("the row records no process")?;
    match &view.seen.namespace_pods {
        Reading::Seen(pods) if !pods.contains(&process.pod) => Ok(()),
        Reading::Seen(_) => Err(format!(
            "clients still use it, and its pod {} still exists",
            process.pod
        )),
        Reading::NotAsked => Err("the namespace's pods were not read".to_owned()),
        Reading::Unknown(fault) => Err(format!("whether its pod exists is not known: {}", fault.detail)),
    }
}

/// Exactly one coordinator pod, the registered one, not ending, with the registered container and process.
fn is_the_admitted_process(view: View<'_>) -> bool {
    let Some(process) = &view.row.process else {
        return false;
    };
    view.seen
        .owned
        .seen()
        .and_then(|owned| view.live_process(owned))
        .is_some_and(|live| {
            live.pod == process.pod && live.boot == process.boot && live.container == process.container
        })
}

/// How far the gateway has gone along with a recovery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Granted {
    Nothing,
    Suspicion,
    Loss,
    Retirement,
    End,
}

impl Granted {
    /// The generation that the member has then: one above the declaration's for each step.
    const fn generation(self, authorized: &Recovery) -> Generation {
        let steps = match self {
            Self::Nothing => 0,
            Self::Suspicion => 1,
            Self::Loss => 2,
            Self::Retirement => 3,
            Self::End => 4,
        };
        Generation::new(authorized.expected_generation.get().saturating_add(steps))
    }
}

/// What is asked of the gateway next; `None` once the failed retirement is granted.
fn request(authorized: &Recovery, granted: Granted) -> Option<MemberRequest> {
    let expected = granted.generation(authorized);
    let (step, action) = match granted {
        Granted::Nothing => (
            "recovery-suspect",
            MemberAction::Suspect {
                expected,
                reason: authorized.reason.clone(),
            },
        ),
        Granted::Suspicion => (
            "recovery-lost",
            MemberAction::Lost {
                expected,
                evidence: LossEvidence::DestructiveOverride {
                    reason: authorized.reason.clone(),
                },
            },
        ),
        Granted::Loss => ("recovery-retire", MemberAction::Retire { expected }),
        Granted::Retirement | Granted::End => return None,
    };
    Some(MemberRequest {
        instance: authorized.instance.clone(),
        operation: OperationId::new(format!("{OPERATION_PREFIX}{}", authorized.operation)),
        step: step_id(step, &format!("g{expected}")),
        action,
    })
}

#[cfg(test)]
mod tests;
