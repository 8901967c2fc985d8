//! Outcomes of journaled requests to the gateway.

use super::*;

pub(super) fn request(action: MemberAction) -> MemberRequest {
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

pub(super) fn admit() -> MemberAction {
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

/// A refusal of a repetition whose earlier copy was never answered.
fn refuse_repetition(phase: Phase, action: MemberAction, code: RefusalCode, now: Timestamp) -> Settled {
    let outcome = EffectOutcome::Member(Outcome::Refused(Refusal { code }));
    let ctx = StepContext {
        sent_before: true,
        ..context()
    };
    settle(
        &row(phase),
        &Effect::Member(request(action)),
        &outcome,
        ctx.epoch,
        &ctx,
        now,
    )
}

#[test]
fn s9_a_refused_repetition_ends_its_step_only_if_no_earlier_copy_can_land() {
    use RefusalCode as R;
    let drain = || MemberAction::Drain { expected: expected() };
    let late = at(3600 * 24);
    for code in all_codes() {
        let for_good = matches!(code, R::StaleEpoch | R::IntentChanged);
        let compared = matches!(code, R::StaleGeneration | R::Phase | R::Irreversible);
        for (phase, action, ends) in [
            (Phase::Creating, register(), for_good),
            (Phase::Serving, drain(), for_good || compared),
            (Phase::Suspect, drain(), for_good || compared),
            (Phase::Serving, suspect(), for_good || compared),
            (Phase::Draining, suspect(), for_good || compared),
        ] {
            let what = format!("{phase}: {} refused with {code}", action.label());
            let settled = refuse_repetition(phase, action.clone(), code.clone(), late);
            if ends {
                assert_eq!(settled, refuse(phase, action, code.clone(), late), "{what}");
                assert_eq!(settled.step, Some(StepOutcome::Refused), "{what}");
            } else {
                assert_eq!(settled.step, Some(StepOutcome::Unknown), "{what}");
                assert!(settled.waiting.is_some(), "{what}: never at once again");
                assert_eq!(to(&settled), None, "{what}: no phase rests on it");
                assert!(!settled.fenced, "{what}");
            }
        }
    }
}

#[test]
fn s9_what_compare_and_set_decides_is_closed_by_any_refusal() {
    for (phase, action, _, _) in accepted_steps() {
        let judged = match &action {
            MemberAction::Register(_) | MemberAction::Drain { .. } | MemberAction::Suspect { .. } => true,
            MemberAction::Admit { .. }
            | MemberAction::Seal { .. }
            | MemberAction::Lost { .. }
            | MemberAction::Retire { .. }
            | MemberAction::Retired { .. } => false,
        };
        for code in all_codes().into_iter().filter(|_| !judged) {
            assert_eq!(
                refuse_repetition(phase, action.clone(), code.clone(), at(60)),
                refuse(phase, action.clone(), code, at(60))
            );
        }
    }
}

#[test]
fn s8_only_a_fence_of_the_current_epoch_ends_the_term() {
    let outcome = EffectOutcome::Member(Outcome::Refused(Refusal {
        code: RefusalCode::StaleEpoch,
    }));
    let ctx = context();
    let before = crate::pool::ids::Epoch::new(ctx.epoch.get() - 1);
    for (phase, action, _, _) in accepted_steps() {
        let effect = Effect::Member(request(action));
        let row = row(phase);
        let own = settle(&row, &effect, &outcome, before, &ctx, at(60));
        assert!(
            !own.fenced,
            "{phase}: sent before this process raised its own epoch"
        );
        // It left no trace and never will: it is decided again.
        assert_eq!(own.step, Some(StepOutcome::Refused));
        assert_eq!(own.change, None);
        let lost = settle(&row, &effect, &outcome, ctx.epoch, &ctx, at(60));
        assert!(lost.fenced, "{phase}: authority is elsewhere");
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
