//! PREPARING and VALIDATING.

use super::*;
use crate::pool::evidence::{Disruption, Evidence, RecordedEvidence};
use crate::pool::instance::CandidateFailure;
use crate::pool::observation::PlacementReport;
use crate::pool::testing::unknown;
use crate::store::port::StepOutcome;

fn clean() -> PlacementReport {
    PlacementReport {
        clean: true,
        ..PlacementReport::default()
    }
}

/// A candidate whose nodes were checked in this tick.
fn validating() -> Story {
    let mut story = Story::of(Phase::Validating);
    story.ctx.fresh_placement = Some(clean());
    story
}

#[test]
fn a_ready_candidate_is_validated() {
    assert_eq!(
        Story::of(Phase::Preparing).next(),
        Next::perform(Effect::Validate)
    );
}

#[test]
fn w16_its_nodes_are_checked_in_the_same_tick_and_then_it_is_admitted() {
    let mut story = Story::of(Phase::Validating);
    assert_eq!(story.next(), Next::perform(Effect::CheckCandidate));
    story.ctx.fresh_placement = Some(clean());
    let next = story.next();
    let MemberAction::Admit { expected, receipt } = &request(&next).action else {
        panic!("{next:?}");
    };
    assert_eq!(expected.get(), 0);
    assert_eq!(receipt.certificate_hash, "c".repeat(64));
    assert_eq!(receipt.config_revision, "r1", "must equal the registration's");
    assert_eq!((receipt.boot_id.as_str(), receipt.ready_workers), ("abcde", 1));

    let mut unchecked = Story::of(Phase::Validating);
    unchecked.ctx.node_checks = false;
    assert_eq!(request(&unchecked.next()).action.label(), "admit");
}

#[test]
fn l4_a_check_that_is_not_clean_waits_or_ends_the_candidate_and_never_admits() {
    let table: Vec<(&str, PlacementReport, Option<WaitReason>)> = vec![
        (
            "missing pods",
            PlacementReport {
                incomplete: Some("x".into()),
                ..PlacementReport::default()
            },
            Some(WaitReason::PodsNotReady),
        ),
        (
            "an API error beside missing pods",
            PlacementReport {
                incomplete: Some("x".into()),
                faults: vec![testing::fault("KubernetesFailed")],
                ..PlacementReport::default()
            },
            Some(WaitReason::NodesUnproven),
        ),
        (
            "not clean, without a word",
            PlacementReport::default(),
            Some(WaitReason::NodesUnproven),
        ),
        (
            "a leaving node beside an API error",
            PlacementReport {
                invalid: vec![CandidateFailure {
                    cause: FailureCause::NodeLeaving,
                    detail: "node-1".into(),
                }],
                faults: vec![testing::fault("KubernetesFailed")],
                ..PlacementReport::default()
            },
            None,
        ),
    ];
    for (what, report, waits) in table {
        let mut story = Story::of(Phase::Validating);
        story.ctx.fresh_placement = Some(report);
        match waits {
            Some(expected) => assert_eq!(reason(&story.next()), expected, "{what}"),
            None => assert_eq!(cause(&story.next()), FailureCause::NodeLeaving, "{what}"),
        }
    }
}

#[test]
fn l4_an_api_error_never_retires_a_candidate_even_after_its_deadline() {
    let mut story = Story::of(Phase::Validating);
    story.row.receipt.as_mut().unwrap().validated_at = at(3600);
    story.now = at(3601);
    story.ctx.fresh_placement = Some(PlacementReport {
        incomplete: Some("x".into()),
        faults: vec![testing::fault("KubernetesFailed")],
        ..PlacementReport::default()
    });
    assert_eq!(reason(&story.next()), WaitReason::NodesUnproven);
    // Missing pods alone do, in time.
    story.ctx.fresh_placement.as_mut().unwrap().faults.clear();
    assert_eq!(cause(&story.next()), FailureCause::DeadlineExceeded);
}

/// A node that can neither be proven nor refuted, for a day.
#[test]
fn l6_what_cannot_be_proven_waits_in_its_phase_with_its_reason_and_its_age() {
    let unproven = || PlacementReport {
        faults: vec![
            testing::fault("ClaimNotFound"),
            testing::fault("KubernetesFailed"),
        ],
        ..PlacementReport::default()
    };
    let mut story = Story::of(Phase::Validating);
    story.now = at(24 * 3600);
    // Its receipt is long past: validating again would only hide for how long this has been so.
    for placement in [Reading::Seen(unproven()), unknown()] {
        story.seen.placement = placement;
        let Next::Wait(waiting) = story.next() else {
            panic!("{:?}", story.next());
        };
        assert_eq!(waiting.reason, WaitReason::NodesUnproven);
        assert_eq!(
            waiting.deadline,
            Some(at(10 * 60)),
            "the deadline is past, and said"
        );
    }
    // With a young receipt it is looked at afresh, and that look decides.
    story.row.receipt.as_mut().unwrap().validated_at = story.now;
    assert_eq!(story.next(), Next::perform(Effect::CheckCandidate));
    story.ctx.fresh_placement = Some(unproven());
    let Next::Wait(waiting) = story.next() else {
        panic!("{:?}", story.next());
    };
    assert_eq!(waiting.reason, WaitReason::NodesUnproven);
    assert_eq!(waiting.detail, "ClaimNotFound: no answer (x), and 1 more like it");
    // Once it clears, the old receipt is made anew.
    story.row.receipt.as_mut().unwrap().validated_at = at(0);
    story.seen.placement = Reading::Seen(clean());
    assert_eq!(change(&story.next()).to, Some(Phase::Preparing));
    // Without node checks nothing of it counts.
    story.seen.placement = Reading::Seen(unproven());
    story.ctx.node_checks = false;
    assert_eq!(change(&story.next()).to, Some(Phase::Preparing));
}

type Doom = (&'static str, fn(&mut Story), FailureCause);

fn dooms() -> Vec<Doom> {
    vec![
        (
            "superseded",
            |story| story.ctx.desired_release = Some("r2".into()),
            FailureCause::Superseded,
        ),
        (
            "evidence",
            |story| {
                story.row.evidence = RecordedEvidence::Some(Evidence {
                    node_name: "node-1".into(),
                    node_uid: "u".into(),
                    nodeclaim_name: "c".into(),
                    nodeclaim_uid: "cu".into(),
                    reason: Disruption::Drifted,
                    observed_at: at(0),
                    detail: None,
                });
            },
            FailureCause::NodeLeaving,
        ),
        (
            "a cordoned node",
            |story| {
                story.seen.placement = Reading::Seen(PlacementReport {
                    invalid: vec![CandidateFailure {
                        cause: FailureCause::NodeCordoned,
                        detail: "node-1".into(),
                    }],
                    ..PlacementReport::default()
                });
            },
            FailureCause::NodeCordoned,
        ),
        (
            "T05 another process",
            Story::restarted,
            FailureCause::ProcessRestarted,
        ),
        (
            "its registered pod is gone",
            |story| {
                if let Reading::Seen(owned) = &mut story.seen.owned {
                    owned.coordinators[0].uid = "pod-uid-b".into();
                }
            },
            FailureCause::ProcessRestarted,
        ),
        (
            "given up before",
            |story| {
                story.row.failure = Some(CandidateFailure {
                    cause: FailureCause::DeadlineExceeded,
                    detail: "late".into(),
                });
            },
            FailureCause::DeadlineExceeded,
        ),
    ]
}

#[test]
fn a_registered_candidate_is_given_up_by_the_gateways_claim_and_nothing_before_it() {
    for phase in [Phase::Preparing, Phase::Validating] {
        for (what, bend, expected) in dooms() {
            let mut story = Story::of(phase);
            bend(&mut story);
            if story.row.failure.is_none() {
                let next = story.next();
                assert_eq!(cause(&next), expected, "{what}");
                assert_eq!(change(&next).to, None, "{phase}, {what}: the claim comes first");
                story.apply(change(&next));
            }
            let next = story.next();
            let MemberAction::Retire { expected } = &request(&next).action else {
                panic!("{phase}, {what}: {next:?}");
            };
            assert_eq!(expected.get(), 0);
            assert!(!super::super::may_delete(&story.row));
        }
    }
}

#[test]
fn a_durable_reason_is_carried_through_when_the_fact_clears_or_the_leader_changes() {
    let mut story = Story::of(Phase::Validating);
    story.ctx.desired_release = Some("r2".into());
    let next = story.next();
    story.apply(change(&next));
    story.ctx.desired_release = Some("r1".into());
    story.ctx.owner = "owner-2".into();
    assert_eq!(request(&story.next()).action.label(), "retire");
}

#[test]
fn s10_an_admission_that_won_is_never_erased() {
    for (what, bend, _) in dooms() {
        for phase in [Phase::Preparing, Phase::Validating] {
            let mut story = Story::of(phase);
            bend(&mut story);
            story.gateway_says(MemberPhase::Active, 1);
            // Even though a retirement is under way.
            let retire = MemberAction::Retire {
                expected: crate::pool::ids::Generation::new(0),
            };
            story.opens(retire);
            let mut phases = vec![story.row.phase];
            while let Next::Record(change) = story.next() {
                story.apply(&change);
                phases.push(story.row.phase);
                assert!(phases.len() < 6, "{what}: {phases:?}");
                if story.row.phase == Phase::Serving {
                    break;
                }
            }
            assert!(phases.contains(&Phase::Admitted), "{what}: {phases:?}");
            assert_eq!(story.row.phase, Phase::Serving, "{what}");
            assert_eq!(story.ctx.open_step, None);
        }
    }
}

#[test]
fn s10_a_candidate_whose_retirement_won_is_never_admitted() {
    for phase in [Phase::Preparing, Phase::Validating] {
        for gateway in [MemberPhase::Retiring, MemberPhase::Retired] {
            let mut story = Story::of(phase);
            story.ctx.fresh_placement = Some(clean());
            let member = story.gateway_says(gateway, 1);
            member.retirement_kind = Some(crate::gateway::model::RetirementKind::Drained);
            let next = story.next();
            assert_eq!(change(&next).to, Some(Phase::FailedPreparing));
            assert_eq!(cause(&next), FailureCause::GatewayRefused);
            story.apply(change(&next));
            assert!(super::super::may_delete(&story.row), "the claim stands");
        }
    }
}

#[test]
fn w06b_a_receipt_that_does_not_fit_any_more_is_made_anew() {
    type Bend = fn(&mut Story);
    let bends: Vec<(&str, Bend)> = vec![
        ("too old", |story| story.now = at(301)),
        ("none", |story| story.row.receipt = None),
        ("of another process", |story| {
            if let Some(receipt) = &mut story.row.receipt {
                receipt.process.boot = "zzzzz".into();
            }
        }),
    ];
    for (what, bend) in bends {
        let mut story = validating();
        bend(&mut story);
        assert_eq!(change(&story.next()).to, Some(Phase::Preparing), "{what}");
    }
    let mut young = validating();
    young.now = at(299);
    assert_eq!(request(&young.next()).action.label(), "admit");
}

#[test]
fn preparing_waits_with_a_reason_and_a_deadline() {
    type Row = (&'static str, fn(&mut Story), WaitReason);
    let table: Vec<Row> = vec![
        ("no answer", Story::silent, WaitReason::CoordinatorNotReady),
        (
            "T04 still starting",
            |story| {
                if let Reading::Seen(info) = &mut story.seen.info {
                    info.ready = false;
                }
            },
            WaitReason::CoordinatorNotReady,
        ),
        (
            "workers missing",
            |story| {
                if let Reading::Seen(owned) = &mut story.seen.owned {
                    owned.workers_ready = Some(0);
                }
            },
            WaitReason::PodsNotReady,
        ),
    ];
    for (what, bend, expected) in table {
        let mut story = Story::of(Phase::Preparing);
        bend(&mut story);
        assert_eq!(reason(&story.next()), expected, "{what}");
        story.now = at(10 * 60);
        let next = story.next();
        assert_eq!(cause(&next), FailureCause::DeadlineExceeded, "l6 {what}");
        assert_eq!(change(&next).to, None, "by way of the claim");
    }
}

#[test]
fn w06b_a_candidate_that_can_be_admitted_is_admitted_even_after_its_deadline() {
    // A barrier or an outage held it back; the wait was stated, and it is over.
    let mut story = validating();
    story.now = at(3600 * 5);
    story.row.receipt.as_mut().unwrap().validated_at = at(3600 * 5 - 1);
    assert_eq!(request(&story.next()).action.label(), "admit");
}

/// Validated, its admission sent and not answered, five hours old.
fn unanswered_admission() -> (Story, MemberRequest) {
    let mut story = validating();
    let sent = request(&story.next()).clone();
    story.ctx.open_step = Some(sent.clone());
    story.now = at(3600 * 5);
    (story, sent)
}

#[test]
fn l6_a_candidate_that_hangs_while_its_admission_is_unanswered_is_claimed_past_its_deadline() {
    type Bend = fn(&mut Story);
    let bends: Vec<(&str, Bend)> = vec![
        ("no answer", Story::silent),
        ("it still starts", |story| {
            if let Reading::Seen(info) = &mut story.seen.info {
                info.ready = false;
            }
        }),
        ("a worker is missing", |story| {
            if let Reading::Seen(owned) = &mut story.seen.owned {
                owned.workers_ready = Some(0);
            }
        }),
    ];
    for (what, bend) in bends {
        let (mut story, sent) = unanswered_admission();
        bend(&mut story);
        story.now = at(60);
        assert_eq!(
            story.next(),
            Next::perform(Effect::Member(sent.clone())),
            "{what}: in time"
        );
        story.now = at(3600 * 5);
        let mut blind = story.clone();
        blind.ctx.probes_trusted = false;
        assert_eq!(
            blind.next(),
            Next::perform(Effect::Member(sent)),
            "{what}: the fault may be ours"
        );

        let next = story.next();
        assert_eq!(cause(&next), FailureCause::DeadlineExceeded, "{what}");
        assert_eq!(change(&next).to, None, "{what}: by way of the claim");
        story.apply(change(&next));
        let claim = story.next();
        let MemberAction::Retire { expected } = &request(&claim).action else {
            panic!("{what}: {claim:?}");
        };
        assert_eq!(
            expected.get(),
            0,
            "{what}: the generation that the admission expects"
        );
        // The admission had landed first: it won.
        story.gateway_says(MemberPhase::Active, 1);
        assert_eq!(change(&story.next()).to, Some(Phase::Admitted), "{what}");
    }
}

#[test]
fn l6_an_unanswered_admission_of_a_candidate_that_is_well_is_sent_again_however_late() {
    let (story, sent) = unanswered_admission();
    assert_eq!(story.next(), Next::perform(Effect::Member(sent.clone())));
    // Nor does a reading that is missing retire it (L4).
    let (mut story, _) = unanswered_admission();
    story.seen.owned = unknown();
    story.seen.info = Reading::NotAsked;
    assert_eq!(story.next(), Next::perform(Effect::Member(sent)));
}

#[test]
fn unknown_readings_are_waited_out() {
    type Bend = fn(&mut Story);
    let bends: Vec<(&str, Bend)> = vec![
        ("member", |story| story.seen.member = unknown()),
        ("member not asked", |story| story.seen.member = Reading::NotAsked),
        ("workload", |story| story.seen.owned = unknown()),
    ];
    for (what, bend) in bends {
        let mut story = Story::of(Phase::Preparing);
        story.now = at(3600 * 24);
        bend(&mut story);
        assert_eq!(reason(&story.next()), WaitReason::Unknown, "{what}");
    }
    // Placement from the shared inventory is not needed here: the check before admission is fresh.
    let mut story = Story::of(Phase::Preparing);
    story.seen.placement = unknown();
    assert_eq!(story.next(), Next::perform(Effect::Validate));
}

#[test]
fn a_member_of_another_registration_is_never_acted_upon() {
    for phase in [
        Phase::Preparing,
        Phase::Validating,
        Phase::Serving,
        Phase::Draining,
        Phase::Sealed,
        Phase::Suspect,
    ] {
        let mut story = Story::of(phase);
        if let Reading::Seen(Some(member)) = &mut story.seen.member {
            member.incarnation = "incarnation-2".into();
        }
        assert_eq!(reason(&story.next()), WaitReason::NotAtTheGateway, "{phase}");
        story.seen.member = Reading::Seen(None);
        assert_eq!(
            reason(&story.next()),
            WaitReason::NotAtTheGateway,
            "{phase}: unknown to the gateway"
        );
    }
}

#[test]
fn a_lost_admission_is_sent_again_only_after_a_fresh_check() {
    let mut story = Story::of(Phase::Validating);
    story.ctx.fresh_placement = Some(clean());
    let sent = request(&story.next()).clone();
    story.ctx.fresh_placement = None;
    story.ctx.open_step = Some(sent.clone());
    assert_eq!(story.next(), Next::perform(Effect::CheckCandidate));
    story.ctx.fresh_placement = Some(clean());
    assert_eq!(story.next(), Next::perform(Effect::Member(sent.clone())));

    // A node went bad meanwhile: the step is closed, the claim is sent, and the gateway decides the race.
    story.ctx.fresh_placement = Some(PlacementReport {
        invalid: vec![CandidateFailure {
            cause: FailureCause::NodeLeaving,
            detail: "node-1".into(),
        }],
        ..PlacementReport::default()
    });
    let next = story.next();
    assert_eq!(
        change(&next).closes.as_ref().map(|closed| closed.outcome),
        Some(StepOutcome::Refused)
    );
    assert_eq!(cause(&next), FailureCause::NodeLeaving);
    story.apply(change(&next));
    assert_eq!(request(&story.next()).action.label(), "retire");

    // It had landed after all: adopted.
    story.ctx.open_step = Some(sent);
    story.gateway_says(MemberPhase::Active, 1);
    let next = story.next();
    assert_eq!(change(&next).to, Some(Phase::Admitted));
    assert_eq!(
        change(&next).closes.as_ref().map(|closed| closed.outcome),
        Some(StepOutcome::Applied)
    );
}

#[test]
fn w12_a_step_that_stood_is_never_journaled_as_refused() {
    // Admitted, and drained by a successor's hand, before the answer was ever read.
    let mut story = validating();
    let sent = request(&story.next()).clone();
    story.ctx.open_step = Some(sent);
    story.gateway_says(MemberPhase::Draining, 2);
    let next = story.next();
    assert_eq!(
        change(&next).closes.as_ref().map(|closed| closed.outcome),
        Some(StepOutcome::Applied)
    );
}
