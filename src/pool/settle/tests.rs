//! Every effect with every outcome.

use super::*;
use crate::gateway::model::{
    AdmissionReceipt, Backend, MemberAction, MemberPhase, MemberRequest, RefusalCode, Registration,
    RetirementKind,
};
use crate::gateway::port::{GatewayFault, Refusal};
use crate::pool::ids::Generation;
use crate::pool::lifecycle::step_id;
use crate::pool::observation::PlacementReport;
use crate::pool::step::instance_operation;
use crate::pool::testing::{self, at, context, fault, handle, member, receipt, retired_as, row};

fn settle_at(row: &InstanceRow, effect: &Effect, outcome: &EffectOutcome, now: Timestamp) -> Settled {
    settle(row, effect, outcome, &context(), now)
}

fn settled(row: &InstanceRow, effect: &Effect, outcome: &EffectOutcome) -> Settled {
    settle_at(row, effect, outcome, at(60))
}

fn to(settled: &Settled) -> Option<Phase> {
    settled.change.as_ref().and_then(|change| change.to)
}

fn cause(settled: &Settled) -> Option<FailureCause> {
    let failure = settled.change.as_ref()?.changes.failure.as_ref()?;
    Some(failure.cause)
}

fn reason(settled: &Settled) -> Option<WaitReason> {
    settled.waiting.as_ref().map(|waiting| waiting.reason)
}

fn request(action: MemberAction) -> MemberRequest {
    MemberRequest {
        instance: testing::ID.into(),
        operation: instance_operation(&testing::ID.into()),
        step: step_id(action.label(), "g1"),
        action,
    }
}

fn expected() -> Generation {
    Generation::new(1)
}

fn register() -> MemberAction {
    MemberAction::Register(Registration {
        backend_name: "analytics-cell-00000001".into(),
        pod_uid: "pod-uid-coordinator".into(),
        boot_id: "abcde".into(),
        config_revision: "r1".into(),
        repair_for: None,
    })
}

fn admit() -> MemberAction {
    MemberAction::Admit {
        expected: expected(),
        receipt: AdmissionReceipt {
            certificate_hash: "c".repeat(64),
            config_revision: "r1".into(),
            auth_revision: "auth".into(),
            pod_uid: "pod-uid-coordinator".into(),
            boot_id: "abcde".into(),
            node_id: "trino-node-1".into(),
            coordinator_id: "abcde".into(),
            ready_workers: 1,
            checks: Vec::new(),
        },
    }
}

fn suspect() -> MemberAction {
    MemberAction::Suspect {
        expected: expected(),
        reason: "x".into(),
    }
}

fn lost() -> MemberAction {
    MemberAction::Lost {
        expected: expected(),
        evidence: crate::gateway::model::LossEvidence::DestructiveOverride { reason: "x".into() },
    }
}

/// A request that stands: where the row is, what is asked, what the gateway answers, where the row goes.
fn accepted_steps() -> Vec<(Phase, MemberAction, MemberPhase, Option<Phase>)> {
    let e = expected();
    vec![
        (
            Phase::Creating,
            register(),
            MemberPhase::Preparing,
            Some(Phase::Preparing),
        ),
        (
            Phase::Validating,
            admit(),
            MemberPhase::Active,
            Some(Phase::Admitted),
        ),
        (
            Phase::Serving,
            MemberAction::Drain { expected: e },
            MemberPhase::Draining,
            Some(Phase::Draining),
        ),
        (
            Phase::Suspect,
            MemberAction::Drain { expected: e },
            MemberPhase::Draining,
            Some(Phase::Draining),
        ),
        (
            Phase::Draining,
            MemberAction::Seal { expected: e },
            MemberPhase::Sealed,
            Some(Phase::Sealed),
        ),
        (
            Phase::Serving,
            suspect(),
            MemberPhase::Suspect,
            Some(Phase::Suspect),
        ),
        (
            Phase::Draining,
            suspect(),
            MemberPhase::Suspect,
            Some(Phase::Suspect),
        ),
        (Phase::Suspect, lost(), MemberPhase::Lost, Some(Phase::Lost)),
        (
            Phase::Sealed,
            MemberAction::Retire { expected: e },
            MemberPhase::Retiring,
            Some(Phase::Retiring),
        ),
        (
            Phase::Preparing,
            MemberAction::Retire { expected: e },
            MemberPhase::Retiring,
            Some(Phase::FailedPreparing),
        ),
        (
            Phase::Validating,
            MemberAction::Retire { expected: e },
            MemberPhase::Retiring,
            Some(Phase::FailedPreparing),
        ),
        (
            Phase::Lost,
            MemberAction::Retire { expected: e },
            MemberPhase::Retiring,
            None,
        ),
        (
            Phase::FailedPreparing,
            MemberAction::Retire { expected: e },
            MemberPhase::Retiring,
            None,
        ),
        (
            Phase::Retiring,
            MemberAction::Retired { expected: e },
            MemberPhase::Retired,
            None,
        ),
        (
            Phase::Lost,
            MemberAction::Retired { expected: e },
            MemberPhase::Retired,
            None,
        ),
    ]
}

#[test]
fn a_request_that_stands_moves_the_row_and_closes_the_step() {
    for (phase, action, answer, expected) in accepted_steps() {
        let row = row(phase);
        let what = format!("{phase}: {}", action.label());
        let effect = Effect::Member(request(action));
        let answered = member(&handle(answer, 2));
        for outcome in [
            Outcome::Applied(answered.clone()),
            Outcome::Replayed(answered.clone()),
        ] {
            let settled = settled(&row, &effect, &EffectOutcome::Member(outcome));
            assert_eq!(to(&settled), expected, "{what}");
            assert_eq!(settled.step, Some(StepOutcome::Applied), "{what}");
            assert_eq!(settled.waiting, None, "{what}: goes on at once");
            let recorded = settled.change.unwrap().changes.member.unwrap();
            assert_eq!((recorded.phase, recorded.generation.get()), (answer, 2), "{what}");
        }
    }
}

#[test]
fn a_registration_records_what_the_gateway_saw_and_the_container_we_saw() {
    let mut row = row(Phase::Creating);
    row.process = Some(testing::process());
    let mut answered = member(&handle(MemberPhase::Preparing, 0));
    answered.node_id = "seen-by-the-gateway".into();
    let effect = Effect::Member(request(register()));
    let settled = settled(&row, &effect, &EffectOutcome::Member(Outcome::Applied(answered)));
    let process = settled.change.unwrap().changes.process.unwrap();
    assert_eq!(process.node.as_str(), "seen-by-the-gateway");
    assert_eq!(process.container, testing::process().container);
}

#[test]
fn a_late_answer_to_a_registration_rewrites_nothing() {
    let row = row(Phase::Serving);
    let effect = Effect::Member(request(register()));
    let answered = member(&handle(MemberPhase::Preparing, 0));
    let settled = settled(&row, &effect, &EffectOutcome::Member(Outcome::Replayed(answered)));
    assert_eq!(settled.step, Some(StepOutcome::Applied));
    assert_eq!(settled.change, Some(RowChange::default()));
}

#[test]
fn a_given_up_candidate_carries_its_reason_into_its_phase() {
    let mut row = row(Phase::Validating);
    row.failure = Some(CandidateFailure {
        cause: FailureCause::NodeLeaving,
        detail: "node-1".into(),
    });
    let claim = retired_as(handle(MemberPhase::Retiring, 1), RetirementKind::Drained);
    let effect = Effect::Member(request(MemberAction::Retire { expected: expected() }));
    let settled = settled(
        &row,
        &effect,
        &EffectOutcome::Member(Outcome::Applied(member(&claim))),
    );
    assert_eq!(to(&settled), Some(Phase::FailedPreparing));
    assert_eq!(cause(&settled), Some(FailureCause::NodeLeaving));
}

#[test]
fn an_answer_about_somebody_else_or_another_phase_is_no_answer() {
    let row = row(Phase::Serving);
    let effect = Effect::Member(request(MemberAction::Drain { expected: expected() }));
    let mut other_instance = member(&handle(MemberPhase::Draining, 2));
    other_instance.instance_id = "cell-9".into();
    let mut other_registration = member(&handle(MemberPhase::Draining, 2));
    other_registration.incarnation = "incarnation-9".into();
    let other_phase = member(&handle(MemberPhase::Sealed, 2));
    let unknown_phase = member(&handle(MemberPhase::Unrecognised, 2));
    for answered in [other_instance, other_registration, other_phase, unknown_phase] {
        let settled = settled(&row, &effect, &EffectOutcome::Member(Outcome::Applied(answered)));
        assert_eq!(settled.change, None);
        assert_eq!(settled.step, Some(StepOutcome::Unknown));
        assert_eq!(reason(&settled), Some(WaitReason::Unresolved));
    }
}

fn refuse(phase: Phase, action: MemberAction, code: RefusalCode, now: Timestamp) -> Settled {
    let outcome = EffectOutcome::Member(Outcome::Refused(Refusal { code }));
    settle_at(&row(phase), &Effect::Member(request(action)), &outcome, now)
}

fn all_codes() -> Vec<RefusalCode> {
    vec![
        RefusalCode::PoolDisabled,
        RefusalCode::StaleEpoch,
        RefusalCode::IntentChanged,
        RefusalCode::StaleGeneration,
        RefusalCode::Phase,
        RefusalCode::Irreversible,
        RefusalCode::ServingFloor,
        RefusalCode::SurgeBudget,
        RefusalCode::RepairBudget,
        RefusalCode::NotCertified,
        RefusalCode::PublicationBarrier,
        RefusalCode::EvidenceRequired,
        RefusalCode::Validation,
        RefusalCode::NotFound,
        RefusalCode::IdentityConflict,
        RefusalCode::ApiMode,
        RefusalCode::NotDrained,
        RefusalCode::Other("POOL_NEW".into()),
    ]
}

#[test]
fn a_refusal_left_no_trace_and_waits_with_its_reason() {
    for (phase, action, _, _) in accepted_steps() {
        for code in all_codes() {
            let settled = refuse(phase, action.clone(), code.clone(), at(60));
            let what = format!("{phase}: {} refused with {code}", action.label());
            assert_eq!(settled.step, Some(StepOutcome::Refused), "{what}");
            assert!(settled.waiting.is_some(), "{what}: never at once again");
            assert_eq!(settled.fenced, code == RefusalCode::StaleEpoch, "{what}");
            let moved = to(&settled);
            let again = phase == Phase::Validating && code == RefusalCode::NotCertified;
            assert_eq!(moved, again.then_some(Phase::Preparing), "{what}");
        }
    }
}

#[test]
fn refusals_are_told_apart() {
    let drain = MemberAction::Drain { expected: expected() };
    let seal = MemberAction::Seal { expected: expected() };
    let table = [
        (
            Phase::Serving,
            drain.clone(),
            RefusalCode::ServingFloor,
            WaitReason::ServingFloor,
        ),
        (
            Phase::Draining,
            seal,
            RefusalCode::NotDrained,
            WaitReason::Obligations,
        ),
        (
            Phase::Serving,
            drain.clone(),
            RefusalCode::StaleGeneration,
            WaitReason::Unresolved,
        ),
        (Phase::Serving, drain, RefusalCode::Phase, WaitReason::Unresolved),
        (
            Phase::Suspect,
            lost(),
            RefusalCode::EvidenceRequired,
            WaitReason::AwaitingProof,
        ),
        (
            Phase::Validating,
            admit(),
            RefusalCode::NotCertified,
            WaitReason::NotValidated,
        ),
        (
            Phase::Creating,
            register(),
            RefusalCode::SurgeBudget,
            WaitReason::Refused,
        ),
    ];
    for (phase, action, code, expected) in table {
        let settled = refuse(phase, action, code.clone(), at(60));
        assert_eq!(reason(&settled), Some(expected), "{code}");
    }
}

#[test]
fn a_publication_barrier_is_a_waiting_reason_however_long_it_lasts() {
    let settled = refuse(
        Phase::Validating,
        admit(),
        RefusalCode::PublicationBarrier,
        at(3600 * 24),
    );
    assert_eq!(settled.change, None);
    assert_eq!(reason(&settled), Some(WaitReason::PublicationBarrier));
    assert_eq!(settled.waiting.and_then(|waiting| waiting.deadline), None);
}

#[test]
fn l6_w06b_what_stays_refused_gives_the_candidate_up_in_time() {
    let late = at(3600 * 24);
    for (phase, action) in [(Phase::Creating, register()), (Phase::Validating, admit())] {
        for code in [
            RefusalCode::SurgeBudget,
            RefusalCode::IdentityConflict,
            RefusalCode::NotFound,
        ] {
            assert_eq!(cause(&refuse(phase, action.clone(), code.clone(), at(60))), None);
            let settled = refuse(phase, action.clone(), code, late);
            assert_eq!(cause(&settled), Some(FailureCause::GatewayRefused));
            assert_eq!(
                to(&settled),
                None,
                "by way of a read-back and, if registered, the claim"
            );
        }
        let settled = refuse(phase, action, RefusalCode::Validation, at(60));
        assert_eq!(
            cause(&settled),
            Some(FailureCause::GatewayRefused),
            "the same body can never pass"
        );
    }
    let settled = refuse(Phase::Validating, admit(), RefusalCode::NotCertified, late);
    assert_eq!(cause(&settled), Some(FailureCause::GatewayRefused));
    assert_eq!(to(&settled), None);
    // Nothing but a candidate is ever given up.
    let drain = MemberAction::Drain { expected: expected() };
    assert_eq!(
        refuse(Phase::Serving, drain, RefusalCode::Validation, late).change,
        None
    );
}

#[test]
fn s9_no_answer_changes_nothing_and_leaves_the_step_open() {
    for (phase, action, _, _) in accepted_steps() {
        for fault in [
            GatewayFault::Unreachable("cut".into()),
            GatewayFault::Unavailable { status: 503 },
            GatewayFault::Protocol("html".into()),
            GatewayFault::Credential { status: 403 },
        ] {
            let outcome = EffectOutcome::Member(Outcome::Unknown(fault));
            let settled = settled(&row(phase), &Effect::Member(request(action.clone())), &outcome);
            assert_eq!(settled.change, None, "{phase}");
            assert_eq!(settled.step, Some(StepOutcome::Unknown));
            assert_eq!(reason(&settled), Some(WaitReason::Unresolved));
        }
    }
}

#[test]
fn objects_are_recorded_adopted_or_the_row_is_given_up() {
    let pending = row(Phase::Pending);
    let apply = |apply: Apply, now| {
        settle_at(
            &pending,
            &Effect::ApplyObjects,
            &EffectOutcome::Applied(apply),
            now,
        )
    };
    let complete = apply(Apply::Complete(testing::objects()), at(60));
    assert_eq!(to(&complete), Some(Phase::Creating));
    assert_eq!(complete.change.unwrap().changes.objects, Some(testing::objects()));
    assert_eq!(complete.step, None, "not journaled");

    let foreign = apply(Apply::Foreign("Service cell-1".into()), at(60));
    assert_eq!(
        (to(&foreign), cause(&foreign)),
        (Some(Phase::FailedPreparing), Some(FailureCause::ForeignObject))
    );
    let refused = apply(Apply::Refused("admission".into()), at(60));
    assert_eq!(cause(&refused), Some(FailureCause::BlueprintUnreadable));

    let unknown = apply(Apply::Unknown(fault("KubernetesUnreachable")), at(60));
    assert_eq!(
        (unknown.change.clone(), reason(&unknown)),
        (None, Some(WaitReason::Unknown))
    );
    assert_eq!(unknown.waiting.unwrap().deadline, Some(at(15 * 60)));
    let late = apply(Apply::Unknown(fault("KubernetesUnreachable")), at(15 * 60));
    assert_eq!(
        (to(&late), cause(&late)),
        (Some(Phase::FailedPreparing), Some(FailureCause::DeadlineExceeded))
    );
}

fn validated(validation: Validation, now: Timestamp, trusted: bool) -> Settled {
    let mut ctx = context();
    ctx.probes_trusted = trusted;
    let outcome = EffectOutcome::Validated(validation);
    settle(&row(Phase::Preparing), &Effect::Validate, &outcome, &ctx, now)
}

#[test]
fn a_proven_candidate_gets_its_receipt() {
    let settled = validated(Validation::Proven(Box::new(receipt())), at(60), true);
    assert_eq!(to(&settled), Some(Phase::Validating));
    assert_eq!(settled.change.unwrap().changes.receipt, Some(receipt()));

    let mut containerless = row(Phase::Preparing);
    containerless.process.as_mut().unwrap().container = None;
    let outcome = EffectOutcome::Validated(Validation::Proven(Box::new(receipt())));
    let settled = self::settled(&containerless, &Effect::Validate, &outcome);
    assert_eq!(settled.change.unwrap().changes.process, Some(testing::process()));
}

#[test]
fn t05_proof_about_another_process_gives_the_candidate_up() {
    let mut other = receipt();
    other.process.boot = "zzzzz".into();
    for validation in [
        Validation::Proven(Box::new(other.clone())),
        Validation::OtherProcess(other.process.clone()),
    ] {
        let settled = validated(validation, at(60), true);
        assert_eq!(cause(&settled), Some(FailureCause::ProcessRestarted));
        assert_eq!(to(&settled), None, "by way of the claim");
        assert_eq!(settled.waiting, None);
    }
}

#[test]
fn l6_what_never_validates_is_given_up_unless_our_own_probes_are_blind() {
    let not_ready = || Validation::NotReady(fault("CatalogsDiffer"));
    let waits = validated(not_ready(), at(60), true);
    assert_eq!(
        (waits.change.clone(), reason(&waits)),
        (None, Some(WaitReason::NotValidated))
    );
    let late = validated(not_ready(), at(10 * 60), true);
    assert_eq!(cause(&late), Some(FailureCause::DeadlineExceeded));
    let blind = validated(not_ready(), at(10 * 60), false);
    assert_eq!(blind.change, None);
}

fn backend() -> Effect {
    Effect::EnsureBackend(Backend {
        name: "b".into(),
        proxy_to: "http://x".into(),
        external_url: None,
        routing_group: "analytics".into(),
        active: false,
    })
}

#[test]
fn a_backend_that_stands_lets_the_registration_follow() {
    let creating = row(Phase::Creating);
    for outcome in [Outcome::Applied(()), Outcome::Replayed(())] {
        let outcome = EffectOutcome::Backend(outcome);
        assert_eq!(settled(&creating, &backend(), &outcome), Scene::nothing());
        let mut ctx = context();
        remember(&mut ctx, &backend(), &outcome);
        assert!(ctx.confirmed.backend);
    }
    let refused = EffectOutcome::Backend(Outcome::Refused(Refusal {
        code: RefusalCode::IdentityConflict,
    }));
    assert_eq!(
        reason(&settled(&creating, &backend(), &refused)),
        Some(WaitReason::Refused)
    );
    let late = settle_at(&creating, &backend(), &refused, at(15 * 60));
    assert_eq!(cause(&late), Some(FailureCause::GatewayRefused));
    let silent = EffectOutcome::Backend(Outcome::Unknown(GatewayFault::Unreachable("cut".into())));
    let waits = settle_at(&creating, &backend(), &silent, at(15 * 60));
    assert_eq!(
        (waits.change.clone(), reason(&waits)),
        (None, Some(WaitReason::Unresolved))
    );
    let mut ctx = context();
    for outcome in [refused, silent] {
        remember(&mut ctx, &backend(), &outcome);
    }
    assert_eq!(ctx, context());
}

#[test]
fn w13_the_backend_is_forgotten_at_the_end_whatever_the_gateway_says() {
    let effect = Effect::RemoveBackend("b".into());
    for (phase, end) in [
        (Phase::Retiring, Phase::Retired),
        (Phase::Lost, Phase::FailureRetired),
        (Phase::FailedPreparing, Phase::FailureRetired),
    ] {
        for outcome in [
            Outcome::Applied(()),
            Outcome::Refused(Refusal {
                code: RefusalCode::Other("409".into()),
            }),
            Outcome::Unknown(GatewayFault::Unreachable("cut".into())),
        ] {
            let settled = settled(&row(phase), &effect, &EffectOutcome::Backend(outcome));
            assert_eq!(to(&settled), Some(end), "{phase}");
        }
    }
    // Removing it confirms nothing about a registration.
    let mut ctx = context();
    remember(&mut ctx, &effect, &EffectOutcome::Backend(Outcome::Applied(())));
    assert!(!ctx.confirmed.backend);
}

#[test]
fn a08_w11_absence_is_remembered_and_everything_else_waits() {
    let retiring = row(Phase::Retiring);
    let delete = |deletion: Deletion| {
        let outcome = EffectOutcome::Deleted(deletion);
        let mut ctx = context();
        remember(&mut ctx, &Effect::DeleteObjects, &outcome);
        (
            settled(&retiring, &Effect::DeleteObjects, &outcome),
            ctx.confirmed.absent,
        )
    };
    assert_eq!(delete(Deletion::Absent), (Scene::nothing(), true));
    for (deletion, expected) in [
        (
            Deletion::Remaining("pod x terminating".into()),
            WaitReason::ObjectsRemain,
        ),
        (Deletion::Foreign("Service".into()), WaitReason::ForeignObject),
        (
            Deletion::Unknown(fault("KubernetesUnreachable")),
            WaitReason::Unknown,
        ),
    ] {
        let (settled, absent) = delete(deletion);
        assert_eq!(
            (settled.change.clone(), reason(&settled), absent),
            (None, Some(expected), false)
        );
    }
}

#[test]
fn a_fresh_check_is_remembered_for_the_next_decision() {
    let report = PlacementReport {
        clean: true,
        ..PlacementReport::default()
    };
    let outcome = EffectOutcome::Checked(report.clone());
    let validating = row(Phase::Validating);
    assert_eq!(
        settled(&validating, &Effect::CheckCandidate, &outcome),
        Scene::nothing()
    );
    let mut ctx = context();
    remember(&mut ctx, &Effect::CheckCandidate, &outcome);
    assert_eq!(ctx.fresh_placement, Some(report));
}

#[test]
fn an_outcome_that_cannot_belong_to_its_effect_counts_as_an_interruption() {
    let effects = [
        Effect::ApplyObjects,
        backend(),
        Effect::Member(request(admit())),
        Effect::CheckCandidate,
        Effect::Validate,
        Effect::DeleteObjects,
        Effect::RemoveBackend("b".into()),
    ];
    let outcomes = [
        EffectOutcome::Applied(Apply::Complete(testing::objects())),
        EffectOutcome::Backend(Outcome::Applied(())),
        EffectOutcome::Member(Outcome::Applied(member(&handle(MemberPhase::Active, 2)))),
        EffectOutcome::Checked(PlacementReport::default()),
        EffectOutcome::Validated(Validation::Proven(Box::new(receipt()))),
        EffectOutcome::Deleted(Deletion::Absent),
    ];
    // Row i of outcomes belongs to effect i; a removed backend answers like an ensured one.
    for (e, effect) in effects.iter().enumerate() {
        for (o, outcome) in outcomes.iter().enumerate() {
            let belongs = o == e || (e == 6 && o == 1);
            let settled = settled(&row(Phase::Validating), effect, outcome);
            let nothing = settled.change.is_none() && settled.step.is_none();
            let interrupted = nothing && reason(&settled) == Some(WaitReason::Unresolved);
            assert_eq!(interrupted, !belongs, "{} with {outcome:?}", effect.label());
        }
    }
}
