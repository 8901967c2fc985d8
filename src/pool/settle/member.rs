//! Outcomes of journaled requests to the gateway.

use super::Scene;
use crate::gateway::model::{Member, MemberAction, MemberPhase, MemberRequest, RefusalCode};
use crate::gateway::port::Outcome;
use crate::pool::instance::{FailureCause, InstanceChanges, InstanceRow, MemberHandle, ProcessIdentity};
use crate::pool::phase::Phase;
use crate::pool::recovery;
use crate::pool::step::{RowChange, Settled, WaitReason};
use crate::store::port::StepOutcome;

/// The gateway's member as a row records it.
#[must_use]
pub fn handle(member: &Member) -> MemberHandle {
    MemberHandle {
        incarnation: member.incarnation.clone(),
        backend: member.backend_name.clone(),
        phase: member.phase,
        generation: member.generation,
        retirement: member.retirement_kind,
    }
}

/// The process that was registered: the gateway's identities as they are, with the container that the row
/// recorded for the same process.
#[must_use]
pub fn registered_process(row: &InstanceRow, member: &Member) -> ProcessIdentity {
    let recorded = row
        .process
        .as_ref()
        .filter(|process| process.pod == member.pod_uid && process.boot == member.boot_id);
    ProcessIdentity {
        pod: member.pod_uid.clone(),
        container: recorded.and_then(|process| process.container.clone()),
        boot: member.boot_id.clone(),
        node: member.node_id.clone(),
        coordinator: member.coordinator_id.clone(),
    }
}

/// The member phase that a request asks for.
const fn target(action: &MemberAction) -> MemberPhase {
    match action {
        MemberAction::Register(_) => MemberPhase::Preparing,
        MemberAction::Admit { .. } => MemberPhase::Active,
        MemberAction::Drain { .. } => MemberPhase::Draining,
        MemberAction::Seal { .. } => MemberPhase::Sealed,
        MemberAction::Suspect { .. } => MemberPhase::Suspect,
        MemberAction::Lost { .. } => MemberPhase::Lost,
        MemberAction::Retire { .. } => MemberPhase::Retiring,
        MemberAction::Retired { .. } => MemberPhase::Retired,
    }
}

/// The phase a row gets when a request stands, before it is asked whether that is permitted.
fn phase_after(row: &InstanceRow, action: &MemberAction) -> Option<Phase> {
    match action {
        MemberAction::Register(_) => Some(Phase::Preparing),
        MemberAction::Admit { .. } => Some(Phase::Admitted),
        MemberAction::Drain { .. } => Some(Phase::Draining),
        MemberAction::Seal { .. } => Some(Phase::Sealed),
        MemberAction::Suspect { .. } => Some(Phase::Suspect),
        MemberAction::Lost { .. } => Some(Phase::Lost),
        MemberAction::Retire { .. } => match row.phase {
            Phase::Sealed => Some(Phase::Retiring),
            Phase::Preparing | Phase::Validating => Some(Phase::FailedPreparing),
            // Already where a claim is made from; the member's own phase says that it stands.
            Phase::Pending
            | Phase::Creating
            | Phase::Admitted
            | Phase::Serving
            | Phase::Draining
            | Phase::Retiring
            | Phase::Retired
            | Phase::Suspect
            | Phase::Lost
            | Phase::FailureRetired
            | Phase::FailedPreparing
            | Phase::Unrecognised => None,
        },
        // The row ends once its backend registration is gone as well.
        MemberAction::Retired { .. } => None,
    }
}

/// How a row changes when a request stands with this member.
///
/// A step of an authorized recovery moves the member only: the row follows when the gateway has granted
/// the failed retirement, so that nobody cleans up before that.
#[must_use]
pub fn accepted(row: &InstanceRow, request: &MemberRequest, member: &Member) -> RowChange {
    let registering = matches!(request.action, MemberAction::Register(_));
    let to = phase_after(row, &request.action)
        .filter(|_| !recovery::is_recovery(&request.operation))
        .filter(|to| row.phase.permits(*to));
    // Said once more with the phase that it explains.
    let failure = (to == Some(Phase::FailedPreparing))
        .then(|| row.failure.clone())
        .flatten();
    // A registration that was answered long ago must not rewrite what came after it.
    let late = registering && row.member.is_some();
    RowChange {
        to,
        changes: InstanceChanges {
            process: (registering && !late).then(|| registered_process(row, member)),
            member: (!late).then(|| handle(member)),
            failure,
            ..InstanceChanges::default()
        },
        closes: None,
    }
}

pub(super) fn settle(scene: Scene<'_>, request: &MemberRequest, outcome: &Outcome<Member>) -> Settled {
    match outcome {
        Outcome::Applied(member) | Outcome::Replayed(member) => stands(scene, request, member),
        Outcome::Refused(refusal) => {
            let mut settled = refused(scene, request, &refusal.code);
            if scene.ctx.sent_before && may_still_land(&request.action, &refusal.code) {
                // This copy left no trace; an earlier one, never answered, may still arrive (S9).
                settled.step = Some(StepOutcome::Unknown);
            }
            settled
        }
        Outcome::Unknown(fault) => Scene::stepped(
            StepOutcome::Unknown,
            scene.waiting(WaitReason::Unresolved, fault.to_string()),
        ),
    }
}

fn stands(scene: Scene<'_>, request: &MemberRequest, member: &Member) -> Settled {
    let registering = matches!(request.action, MemberAction::Register(_));
    let ours = member.instance_id == scene.row.id
        && scene
            .row
            .member
            .as_ref()
            .is_none_or(|known| registering || known.incarnation == member.incarnation);
    if !ours || member.phase != target(&request.action) {
        // Not an answer to this request: it is read back like no answer at all.
        return Scene::stepped(
            StepOutcome::Unknown,
            scene.waiting(
                WaitReason::Unresolved,
                format!(
                    "the answer to {} is about {} in {:?}",
                    request.step, member.instance_id, member.phase
                ),
            ),
        );
    }
    Settled {
        change: Some(accepted(scene.row, request, member)),
        step: Some(StepOutcome::Applied),
        ..Scene::nothing()
    }
}

fn refused(scene: Scene<'_>, request: &MemberRequest, code: &RefusalCode) -> Settled {
    let detail = format!("{} was refused with {code}", request.step);
    let waits = |reason| Scene::stepped(StepOutcome::Refused, scene.waiting(reason, detail.clone()));
    match code {
        // Sent before this process raised its own epoch: its own fence, not another leader's. What the gateway
        // refuses for its epoch it had not recorded, and now never will; it is decided again.
        RefusalCode::StaleEpoch if scene.sent < scene.ctx.epoch => waits(WaitReason::Refused),
        RefusalCode::StaleEpoch => Settled {
            fenced: true,
            ..waits(WaitReason::Refused)
        },
        // Lost by compare-and-set, or applied under another body: what stands is read back.
        RefusalCode::StaleGeneration
        | RefusalCode::Phase
        | RefusalCode::Irreversible
        | RefusalCode::IntentChanged => waits(WaitReason::Unresolved),
        RefusalCode::ServingFloor => waits(WaitReason::ServingFloor),
        RefusalCode::NotDrained => waits(WaitReason::Obligations),
        RefusalCode::EvidenceRequired => waits(WaitReason::AwaitingProof),
        // A waiting reason and never a failure, however long it lasts.
        RefusalCode::PublicationBarrier => {
            let mut settled = waits(WaitReason::PublicationBarrier);
            if let Some(waiting) = &mut settled.waiting {
                waiting.deadline = None;
            }
            settled
        }
        RefusalCode::NotCertified => not_certified(scene, request, detail),
        RefusalCode::Validation => candidate_refused(scene, request, detail, true),
        RefusalCode::PoolDisabled
        | RefusalCode::SurgeBudget
        | RefusalCode::RepairBudget
        | RefusalCode::NotFound
        | RefusalCode::IdentityConflict
        | RefusalCode::ApiMode
        | RefusalCode::Other(_) => candidate_refused(scene, request, detail, false),
    }
}

/// Whether a copy of a refused request that was sent earlier may yet be applied, and would be unwelcome then.
///
/// Not when every copy compares with a generation that is past, names an epoch that is past, or has the body that
/// was refused for itself. Not either when the row follows whatever the member becomes.
const fn may_still_land(action: &MemberAction, code: &RefusalCode) -> bool {
    let joins = match action {
        MemberAction::Register(_) => true,
        MemberAction::Drain { .. } | MemberAction::Suspect { .. } => false,
        MemberAction::Admit { .. }
        | MemberAction::Seal { .. }
        | MemberAction::Lost { .. }
        | MemberAction::Retire { .. }
        | MemberAction::Retired { .. } => return false,
    };
    match code {
        RefusalCode::StaleEpoch | RefusalCode::IntentChanged => false,
        // Generations only rise, and another phase is another generation; a registration has none to compare with.
        RefusalCode::StaleGeneration | RefusalCode::Phase | RefusalCode::Irreversible => joins,
        RefusalCode::PoolDisabled
        | RefusalCode::ServingFloor
        | RefusalCode::SurgeBudget
        | RefusalCode::RepairBudget
        | RefusalCode::NotCertified
        | RefusalCode::PublicationBarrier
        | RefusalCode::EvidenceRequired
        | RefusalCode::Validation
        | RefusalCode::NotFound
        | RefusalCode::IdentityConflict
        | RefusalCode::ApiMode
        | RefusalCode::NotDrained
        | RefusalCode::Other(_) => true,
    }
}

/// The receipt no longer fits: proven again, or given up when its time is over.
fn not_certified(scene: Scene<'_>, request: &MemberRequest, detail: String) -> Settled {
    let mut settled = candidate_refused(scene, request, detail.clone(), false);
    if settled.change.is_none() && scene.row.phase == Phase::Validating {
        settled.change = Some(RowChange {
            to: Some(Phase::Preparing),
            ..RowChange::default()
        });
        settled.waiting = Some(scene.waiting(WaitReason::NotValidated, detail));
    }
    settled
}

/// A refused registration or admission is tried again until the candidate's deadline, or never if the
/// same body can never pass. Anything else is simply tried again.
fn candidate_refused(scene: Scene<'_>, request: &MemberRequest, detail: String, for_good: bool) -> Settled {
    let joining = matches!(
        request.action,
        MemberAction::Register(_) | MemberAction::Admit { .. }
    );
    let mut settled = Scene::stepped(
        StepOutcome::Refused,
        scene.waiting(WaitReason::Refused, detail.clone()),
    );
    if joining && scene.row.failure.is_none() && (for_good || scene.expired()) {
        settled.change = Some(scene.given_up(FailureCause::GatewayRefused, detail));
    }
    settled
}
