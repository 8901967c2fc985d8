//! Why a candidate is given up, and how: never by deleting first.
//!
//! A candidate that never got a member is given up by its row alone. A registered one fails only by way of
//! the gateway's RETIRE of a PREPARING member, which races an admission by compare-and-set: whoever
//! wins decides (S10). The reason is made durable before that request is sent, so that a successor goes on
//! with the same intent, and facts that clear later change nothing.

use super::view::View;
use crate::gateway::model::{Member, MemberAction};
use crate::pool::evidence::RecordedEvidence;
use crate::pool::instance::{CandidateFailure, FailureCause, InstanceChanges};
use crate::pool::observation::{PlacementReport, Reading};
use crate::pool::outdated::blueprint_digest;
use crate::pool::phase::Phase;
use crate::pool::step::{Effect, Next, RowChange, WaitReason};
use crate::store::port::StepOutcome;

/// The reason for which this candidate is given up, if there is one.
pub(super) fn reason(view: View<'_>) -> Option<CandidateFailure> {
    view.row
        .failure
        .clone()
        .or_else(|| recorded_evidence(view))
        .or_else(|| superseded(view))
        .or_else(|| {
            let seen = view.seen.placement.seen();
            invalid_node(view, view.ctx.fresh_placement.as_ref().or(seen))
        })
        .or_else(|| restarted(view))
}

fn recorded_evidence(view: View<'_>) -> Option<CandidateFailure> {
    let detail = match &view.row.evidence {
        RecordedEvidence::None => {
            let further = view.row.replacement_nodes.first()?;
            format!(
                "its node {} is leaving ({})",
                further.node_name,
                further.reason.as_str()
            )
        }
        RecordedEvidence::Some(evidence) => {
            format!(
                "its node {} is leaving ({})",
                evidence.node_name,
                evidence.reason.as_str()
            )
        }
        RecordedEvidence::Unreadable(why) => format!("evidence is recorded that cannot be read: {why}"),
    };
    Some(CandidateFailure {
        cause: FailureCause::NodeLeaving,
        detail,
    })
}

/// Both digests are made by the running binary, so that an upgrade supersedes nothing.
fn superseded(view: View<'_>) -> Option<CandidateFailure> {
    let blueprint = match &view.row.blueprint {
        Ok(blueprint) => blueprint,
        Err(why) => {
            return Some(CandidateFailure {
                cause: FailureCause::BlueprintUnreadable,
                detail: format!("its stored blueprint cannot be read: {why}"),
            });
        }
    };
    let other_release = view
        .ctx
        .desired_release
        .as_ref()
        .is_some_and(|release| *release != view.row.release);
    let other_content = view
        .ctx
        .desired_digest
        .as_ref()
        .is_some_and(|digest| *digest != blueprint_digest(blueprint));
    (other_release || other_content).then(|| CandidateFailure {
        cause: FailureCause::Superseded,
        detail: if other_release {
            format!("release {} is no longer desired", view.row.release)
        } else {
            "the desired blueprint has changed".to_owned()
        },
    })
}

fn invalid_node(view: View<'_>, report: Option<&PlacementReport>) -> Option<CandidateFailure> {
    if !view.ctx.node_checks {
        return None;
    }
    report?.invalid.first().cloned()
}

/// Another process than the registered one; only a registration ties a candidate to a process.
fn restarted(view: View<'_>) -> Option<CandidateFailure> {
    let process = view.row.process.as_ref()?;
    view.row.member.as_ref()?;
    let boot = view
        .seen
        .info
        .seen()
        .and_then(crate::trino::port::CoordinatorInfo::boot);
    let detail = match boot {
        Some(boot) if boot != process.boot => {
            format!("process {boot} answers, registered was {}", process.boot)
        }
        Some(_) | None => {
            let owned = view.seen.owned.seen()?;
            let pod = owned.coordinators.iter().find(|pod| pod.uid == process.pod);
            if pod.is_some_and(|pod| !pod.finished) {
                return None;
            }
            format!("its registered pod {} is gone", process.pod)
        }
    };
    Some(CandidateFailure {
        cause: FailureCause::ProcessRestarted,
        detail,
    })
}

/// Whether its deadline has passed and counts. Not while too many probes fail at once: then the fault is likely
/// ours.
pub(super) fn is_overdue(view: View<'_>) -> bool {
    let deadline = super::deadline(view.row, &view.ctx.timings);
    view.ctx.probes_trusted && deadline.is_some_and(|deadline| view.now >= deadline)
}

/// Waits, or gives the candidate up when its deadline has passed.
pub(super) fn wait_or_expire(view: View<'_>, reason: WaitReason, detail: String) -> Next {
    if !is_overdue(view) {
        return view.wait(reason, detail);
    }
    give_up(view, outlived(view, &detail))
}

/// The reason of a candidate that is given up for its deadline.
pub(super) fn outlived(view: View<'_>, detail: &str) -> CandidateFailure {
    CandidateFailure {
        cause: FailureCause::DeadlineExceeded,
        detail: format!("{} outlived its deadline: {detail}", view.row.phase),
    }
}

/// Gives up a candidate whose reason is not durable yet, or that needs no claim.
pub(super) fn give_up(view: View<'_>, failure: CandidateFailure) -> Next {
    let unregistered = matches!(view.row.phase, Phase::Pending | Phase::Creating);
    Next::record(RowChange {
        to: unregistered.then_some(Phase::FailedPreparing),
        changes: InstanceChanges {
            failure: Some(failure),
            ..InstanceChanges::default()
        },
        closes: None,
    })
}

/// Gives up a registered candidate whose member is PREPARING: first the durable reason, then the claim.
///
/// An admission that is still under way is closed in the journal here: should it land after all, it wins
/// or loses against the claim at the gateway, and the next read-back tells.
pub(super) fn retire(view: View<'_>, member: &Member, failure: CandidateFailure) -> Next {
    let open = view.ctx.open_step.is_some();
    if view.row.failure.is_none() || open {
        return Next::record(RowChange {
            to: None,
            changes: InstanceChanges {
                failure: Some(failure),
                ..InstanceChanges::default()
            },
            closes: view.closed(StepOutcome::Refused),
        });
    }
    let expected = member.generation;
    view.send(MemberAction::Retire { expected }, &format!("g{expected}"))
}

/// Whether the fresh check lets the candidate pass; otherwise what happens instead.
pub(super) fn fresh_check(view: View<'_>) -> Result<(), Next> {
    if !view.ctx.node_checks {
        return Ok(());
    }
    let Some(report) = &view.ctx.fresh_placement else {
        return Err(Next::perform(Effect::CheckCandidate));
    };
    if let Some(wait) = unproven(view, report) {
        return Err(wait);
    }
    match &report.incomplete {
        Some(missing) => Err(wait_or_expire(view, WaitReason::PodsNotReady, missing.clone())),
        None => Ok(()),
    }
}

/// Whether the nodes stay unproven by what this round's own inspection saw, without another look.
///
/// Asked where a receipt has grown too old: validating again would only begin the phase anew, and with it
/// its age and its deadline, while what holds the candidate up is something else.
pub(super) fn still_unproven(view: View<'_>) -> Option<Next> {
    if !view.ctx.node_checks {
        return None;
    }
    match &view.seen.placement {
        Reading::Seen(report) => unproven(view, report),
        Reading::Unknown(fault) => Some(view.wait(WaitReason::NodesUnproven, fault.to_string())),
        Reading::NotAsked => None,
    }
}

/// An API error, alone or beside missing pods, and a join that stays unknown are reported and retried, and
/// never retire (L4). The wait has no end of its own; what ends at the deadline is that it holds up
/// others (L6, `pool::plan::census`).
fn unproven(view: View<'_>, report: &PlacementReport) -> Option<Next> {
    let detail = match report.faults.as_slice() {
        [] if report.clean || report.incomplete.is_some() => return None,
        [] => "its nodes could not be proven".to_owned(),
        [only] => only.to_string(),
        [first, others @ ..] => format!("{first}, and {} more like it", others.len()),
    };
    Some(view.wait(WaitReason::NodesUnproven, detail))
}
