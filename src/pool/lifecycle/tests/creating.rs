//! PENDING and CREATING.

use super::*;
use crate::pool::evidence::{Disruption, RecordedEvidence, ReplacementNode};
use crate::pool::instance::CandidateFailure;
use crate::pool::observation::PlacementReport;
use crate::pool::testing::{minutes, process, unknown};
use crate::store::port::StepOutcome;

#[test]
fn a_pending_row_gets_its_objects() {
    assert_eq!(
        Story::of(Phase::Pending).next(),
        Next::perform(Effect::ApplyObjects)
    );
}

#[test]
fn w06_a_superseded_candidate_is_given_up_in_every_phase() {
    for phase in [Phase::Pending, Phase::Creating] {
        for bend in [
            (|story: &mut Story| story.ctx.desired_release = Some("r2".into())) as fn(&mut Story),
            |story| story.ctx.desired_digest = Some("e".repeat(64).as_str().into()),
        ] {
            let mut story = Story::of(phase);
            bend(&mut story);
            let next = story.next();
            assert_eq!(change(&next).to, Some(Phase::FailedPreparing), "{phase}");
            assert_eq!(cause(&next), FailureCause::Superseded, "{phase}");
        }
    }
}

#[test]
fn without_a_desired_state_nothing_is_superseded() {
    let mut story = Story::of(Phase::Pending);
    story.ctx.desired_release = None;
    story.ctx.desired_digest = None;
    assert_eq!(story.next(), Next::perform(Effect::ApplyObjects));
}

#[test]
fn an_upgrade_that_digests_differently_supersedes_nothing() {
    let mut story = Story::of(Phase::Creating);
    story.row.spec_digest = "0".repeat(64).as_str().into();
    assert!(change(&story.next()).changes.process.is_some());
}

#[test]
fn an_unreadable_blueprint_is_given_up() {
    let mut story = Story::of(Phase::Pending);
    story.row.blueprint = Err("version 9".into());
    assert_eq!(cause(&story.next()), FailureCause::BlueprintUnreadable);
}

#[test]
fn creating_records_the_process_then_the_backend_then_registers() {
    let mut story = Story::of(Phase::Creating);
    let next = story.next();
    assert_eq!(change(&next).changes.process, Some(process()));
    assert_eq!(change(&next).to, None);
    story.apply(change(&next));

    let next = story.next();
    let Effect::EnsureBackend(backend) = effect(&next) else {
        panic!("{next:?}");
    };
    assert_eq!(backend.name.as_str(), "analytics-cell-00000001");
    assert_eq!(backend.proxy_to, "http://cell-00000001.trino.svc:8080");
    assert!(!backend.active);
    story.ctx.confirmed.backend = true;

    let next = story.next();
    let MemberAction::Register(body) = &request(&next).action else {
        panic!("{next:?}");
    };
    assert_eq!(
        (body.pod_uid.as_str(), body.boot_id.as_str()),
        ("pod-uid-coordinator", "abcde")
    );
    assert_eq!(body.config_revision, "r1");
    assert!(request(&next).step.as_str().starts_with("register."));
}

#[test]
fn a_repair_names_whom_it_repairs() {
    let mut story = Story::of(Phase::Creating);
    story.row.repair_for = Some("cell-00000009".into());
    story.ctx.confirmed.backend = true;
    let next = story.settle_records();
    let MemberAction::Register(body) = &request(&next).action else {
        panic!("{next:?}");
    };
    assert_eq!(body.repair_for, Some("cell-00000009".into()));
}

#[test]
fn what_is_missing_is_said_and_waited_for_until_the_deadline() {
    type Row = (&'static str, fn(&mut Story), WaitReason, &'static str);
    let table: Vec<Row> = vec![
        (
            "no coordinator ready",
            |story| owned(story, |owned| owned.coordinator_ready = Some(0)),
            WaitReason::PodsNotReady,
            "coordinator",
        ),
        (
            "unschedulable",
            |story| {
                owned(story, |owned| {
                    owned.workers_ready = Some(0);
                    owned.workers[0].ready = false;
                    owned.workers[0].unschedulable_because = Some("0/3 nodes are available".into());
                });
            },
            WaitReason::PodsNotReady,
            "0/3 nodes are available",
        ),
        (
            "image pull",
            |story| {
                owned(story, |owned| {
                    owned.workers_ready = Some(0);
                    owned.workers[0].ready = false;
                    if let Some(status) = owned.workers[0].containers.get_mut("trino") {
                        status.waiting = Some("ImagePullBackOff".into());
                    }
                });
            },
            WaitReason::PodsNotReady,
            "ImagePullBackOff",
        ),
        (
            "some workers",
            |story| owned(story, |owned| owned.workers_wanted = Some(3)),
            WaitReason::PodsNotReady,
            "1 of 3",
        ),
        (
            "no answer",
            Story::silent,
            WaitReason::CoordinatorNotReady,
            "no answer",
        ),
        (
            "T04 it answers and still starts",
            |story| info(story, |info| info.ready = false),
            WaitReason::CoordinatorNotReady,
            "starts",
        ),
        (
            "no identity (Trino 476)",
            |story| info(story, |info| info.coordinator = None),
            WaitReason::CoordinatorNotReady,
            "483",
        ),
    ];
    for (what, bend, expected, says) in table {
        let mut story = Story::of(Phase::Creating);
        bend(&mut story);
        let next = story.next();
        assert_eq!(reason(&next), expected, "{what}");
        let Next::Wait(waiting) = next else { unreachable!() };
        assert!(waiting.detail.contains(says), "{what}: {}", waiting.detail);
        assert_eq!(waiting.deadline, Some(at(15 * 60)), "{what}");

        story.now = at(15 * 60);
        let next = story.next();
        assert_eq!(cause(&next), FailureCause::DeadlineExceeded, "w06 {what}");
        assert_eq!(change(&next).to, Some(Phase::FailedPreparing), "w06 {what}");

        story.ctx.probes_trusted = false;
        assert_eq!(reason(&story.next()), expected, "{what}: the fault may be ours");
    }
}

fn owned(story: &mut Story, bend: impl Fn(&mut crate::pool::observation::OwnedWorkload)) {
    if let Reading::Seen(owned) = &mut story.seen.owned {
        bend(owned);
    }
}

fn info(story: &mut Story, bend: impl Fn(&mut crate::trino::port::CoordinatorInfo)) {
    if let Reading::Seen(info) = &mut story.seen.info {
        bend(info);
    }
}

#[test]
fn a08_a_second_coordinator_pod_is_never_registered() {
    let mut story = Story::of(Phase::Creating);
    owned(&mut story, |owned| {
        let mut twin = owned.coordinators[0].clone();
        twin.uid = "pod-uid-b".into();
        owned.coordinators[0].terminating = true;
        owned.coordinators.push(twin);
    });
    assert_eq!(reason(&story.next()), WaitReason::PodsNotReady);
}

#[test]
fn l4_an_outage_never_gives_a_candidate_up_however_long_it_lasts() {
    type Bend = fn(&mut Story);
    let outages: Vec<(&str, Bend)> = vec![
        ("gateway", |story| story.seen.member = unknown()),
        ("gateway not asked", |story| story.seen.member = Reading::NotAsked),
        ("Kubernetes", |story| story.seen.owned = unknown()),
        ("coordinator not asked", |story| {
            story.seen.info = Reading::NotAsked;
        }),
    ];
    for (what, bend) in outages {
        let mut story = Story::of(Phase::Creating);
        story.now = at(3600 * 24);
        bend(&mut story);
        assert_eq!(reason(&story.next()), WaitReason::Unknown, "{what}");
    }
}

#[test]
fn l4_a_proven_invalid_node_is_definitive_and_an_unknown_one_is_not() {
    let invalid = PlacementReport {
        invalid: vec![CandidateFailure {
            cause: FailureCause::NodeUnowned,
            detail: "node-1".into(),
        }],
        faults: vec![testing::fault("KubernetesFailed")],
        incomplete: Some("1 of 2".into()),
        ..PlacementReport::default()
    };
    let mut story = Story::of(Phase::Creating);
    story.seen.placement = Reading::Seen(invalid.clone());
    let next = story.next();
    assert_eq!(cause(&next), FailureCause::NodeUnowned);
    assert_eq!(change(&next).to, Some(Phase::FailedPreparing));

    story.ctx.node_checks = false;
    assert!(change(&story.next()).changes.failure.is_none(), "off means off");

    let mut story = Story::of(Phase::Creating);
    story.seen.placement = Reading::Seen(PlacementReport {
        invalid: Vec::new(),
        ..invalid
    });
    assert!(change(&story.next()).changes.failure.is_none());
    story.seen.placement = unknown();
    assert!(change(&story.next()).changes.failure.is_none());
}

#[test]
fn recorded_evidence_gives_a_candidate_up_even_if_it_cannot_be_read() {
    let mut unreadable = Story::of(Phase::Creating);
    unreadable.row.evidence = RecordedEvidence::Unreadable("x".into());
    let mut further = Story::of(Phase::Creating);
    further.row.replacement_nodes.push(ReplacementNode {
        node_name: "node-1".into(),
        node_uid: "u".into(),
        nodeclaim_name: "c".into(),
        nodeclaim_uid: "cu".into(),
        reason: Disruption::Drifted,
        observed_at: at(0),
    });
    for story in [unreadable, further] {
        assert_eq!(cause(&story.next()), FailureCause::NodeLeaving);
    }
}

#[test]
fn a_member_that_the_gateway_holds_already_is_adopted_as_it_is() {
    let mut story = Story::of(Phase::Creating);
    story.row.process = Some(process());
    let member = story.gateway_says(MemberPhase::Preparing, 0);
    member.node_id = "another-node".into();
    let next = story.next();
    let change = change(&next);
    assert_eq!(change.to, Some(Phase::Preparing));
    let adopted = change.changes.process.clone().unwrap();
    assert_eq!(adopted.node.as_str(), "another-node");
    assert_eq!(adopted.container, process().container);
    assert_eq!(
        change.changes.member.as_ref().map(|member| member.phase),
        Some(MemberPhase::Preparing)
    );

    story.gateway_says(MemberPhase::Preparing, 0).instance_id = "cell-9".into();
    assert_eq!(reason(&story.next()), WaitReason::Refused);
}

fn registering() -> (Story, MemberRequest) {
    let mut story = Story::of(Phase::Creating);
    story.ctx.confirmed.backend = true;
    let Next::Perform(sent) = story.settle_records() else {
        panic!("no registration");
    };
    let Effect::Member(request) = *sent else {
        panic!("no registration");
    };
    story.ctx.open_step = Some(request.clone());
    (story, request)
}

#[test]
fn s9_an_unknown_registration_is_sent_again_while_its_coordinator_lives() {
    let (mut story, sent) = registering();
    assert_eq!(story.next(), Next::perform(Effect::Member(sent.clone())));
    // Whatever else is known of the candidate by now.
    story.ctx.desired_release = Some("r2".into());
    assert_eq!(story.next(), Next::perform(Effect::Member(sent)));
}

#[test]
fn l6_a_registration_that_is_never_answered_gives_its_candidate_up_behind_a_fence() {
    let (mut story, sent) = registering();
    story.now = at(3600);
    story.ctx.probes_trusted = false;
    let again = Next::perform(Effect::Member(sent.clone()));
    assert_eq!(story.next(), again, "the fault is likely ours");
    story.ctx.probes_trusted = true;
    assert_eq!(reason(&story.next()), WaitReason::FenceStep);
    story.ctx.confirmed.step_fenced = true;
    let next = story.next();
    let closed = change(&next).closes.clone().unwrap();
    assert_eq!((closed.step, closed.outcome), (sent.step, StepOutcome::Refused));
    assert_eq!(change(&next).to, Some(Phase::FailedPreparing));
    assert_eq!(cause(&next), FailureCause::DeadlineExceeded);
}

#[test]
fn s9_a_candidate_that_was_given_up_is_not_registered_once_more() {
    let (mut story, _) = registering();
    story.row.failure = Some(CandidateFailure {
        cause: FailureCause::GatewayRefused,
        detail: "register was refused with POOL_VALIDATION".into(),
    });
    assert_eq!(reason(&story.next()), WaitReason::FenceStep);
    story.ctx.confirmed.step_fenced = true;
    let next = story.next();
    assert!(change(&next).closes.is_some());
    story.apply(change(&next));
    story.ctx.open_step = None;
    assert_eq!(change(&story.next()).to, Some(Phase::FailedPreparing));
}

#[test]
fn l5_a_candidate_given_up_behind_its_fence_says_why_with_its_phase() {
    let (mut story, _) = registering();
    // Refused for good or for too long, while an earlier copy was out: the reason is durable, the step open.
    story.row.failure = Some(CandidateFailure {
        cause: FailureCause::GatewayRefused,
        detail: "register was refused with POOL_SURGE_BUDGET".into(),
    });
    story.now = at(3600);
    story.ctx.confirmed.step_fenced = true;
    let next = story.next();
    assert_eq!(change(&next).to, Some(Phase::FailedPreparing));
    assert_eq!(
        cause(&next),
        FailureCause::GatewayRefused,
        "or no pool remembers it"
    );
}

#[test]
fn s9_an_unknown_registration_is_never_closed_on_a_404_but_fenced_and_read_back() {
    for gone in [Story::silent as fn(&mut Story), Story::restarted] {
        let (mut story, sent) = registering();
        gone(&mut story);
        assert_eq!(reason(&story.next()), WaitReason::FenceStep);
        story.ctx.confirmed.step_fenced = true;
        let next = story.next();
        let closed = change(&next).closes.clone().unwrap();
        assert_eq!((closed.step, closed.outcome), (sent.step, StepOutcome::Refused));
        assert_eq!(change(&next).to, None);
        // Only now may it be given up.
        story.apply(change(&next));
        story.ctx.desired_release = Some("r2".into());
        assert_eq!(change(&story.next()).to, Some(Phase::FailedPreparing));
    }
}

#[test]
fn s9_a_registration_that_landed_is_adopted_and_its_step_closed() {
    let (mut story, sent) = registering();
    story.gateway_says(MemberPhase::Preparing, 0);
    let next = story.next();
    assert_eq!(change(&next).to, Some(Phase::Preparing));
    let closed = change(&next).closes.clone().unwrap();
    assert_eq!(
        (closed.operation, closed.step, closed.outcome),
        (sent.operation, sent.step, StepOutcome::Applied)
    );
}

#[test]
fn how_the_gateway_dials_it_must_be_known() {
    let mut story = Story::of(Phase::Creating);
    story.row.process = Some(process());
    story.seen.endpoint = unknown();
    assert_eq!(reason(&story.next()), WaitReason::Unknown);
}

#[test]
fn the_deadline_of_a_whole_candidate_bounds_going_back_and_forth() {
    let mut row = testing::row(Phase::Preparing);
    row.phase_changed_at = at(3000);
    let timings = crate::pool::desired::Timings::default();
    let whole = at(50 * 60);
    assert_eq!(super::super::deadline(&row, &timings), Some(whole));
    row.created_at = at(3000);
    assert_eq!(
        super::super::deadline(&row, &timings),
        Some(at(3000).checked_add(minutes(10)).unwrap())
    );
}
