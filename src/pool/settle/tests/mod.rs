//! Every effect with every outcome.

mod member;

use self::member::{admit, request};
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
    let ctx = context();
    settle(row, effect, outcome, ctx.epoch, &ctx, now)
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
    settle(
        &row(Phase::Preparing),
        &Effect::Validate,
        &outcome,
        ctx.epoch,
        &ctx,
        now,
    )
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

#[test]
fn l4_a_validation_that_could_not_read_never_gives_up_however_late() {
    let settled = validated(
        Validation::Unknown(fault("KubernetesFailed")),
        at(24 * 3600),
        true,
    );
    assert_eq!(
        (settled.change.clone(), reason(&settled)),
        (None, Some(WaitReason::Unknown))
    );
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
