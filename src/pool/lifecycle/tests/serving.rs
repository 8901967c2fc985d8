//! ADMITTED, SERVING and SUSPECT.

use super::*;
use crate::gateway::model::LossEvidence;
use crate::pool::ids::PodUid;
use crate::pool::testing::{minutes, unknown};

fn failing(phase: Phase, for_minutes: u64) -> Story {
    let mut story = Story::of(phase);
    story.silent();
    story.ctx.failing_for = Some(minutes(for_minutes));
    story
}

#[test]
fn w18_admitted_serves_once_the_gateway_routes_to_it_and_says_so_until_then() {
    let mut story = Story::of(Phase::Admitted);
    assert_eq!(change(&story.next()).to, Some(Phase::Serving));
    story.gateway_says(MemberPhase::Active, 1).eligible = false;
    assert_eq!(reason(&story.next()), WaitReason::NotEligible);
    // Its health is looked after meanwhile, whatever keeps it from being eligible.
    story.silent();
    story.ctx.failing_for = Some(minutes(3));
    assert_eq!(request(&story.next()).action.label(), "suspect");
}

#[test]
fn a_healthy_member_just_serves() {
    assert_eq!(reason(&Story::of(Phase::Serving).next()), WaitReason::Settled);
}

#[test]
fn w02_g03_suspicion_needs_sustained_bad_readings_not_an_old_phase() {
    let mut story = Story::of(Phase::Serving);
    story.now = at(3600 * 24 * 7);
    story.silent();
    story.ctx.failing_for = Some(std::time::Duration::ZERO);
    assert_eq!(reason(&story.next()), WaitReason::Doubtful);
    story.ctx.failing_for = Some(minutes(2));
    let next = story.next();
    let MemberAction::Suspect { expected, reason } = &request(&next).action else {
        panic!("{next:?}");
    };
    assert_eq!(expected.get(), 1);
    assert!(!reason.is_empty());
}

#[test]
fn s6_suspicion_is_held_back_while_probes_are_blind_or_the_floor_would_break() {
    let mut blind = failing(Phase::Serving, 10);
    blind.ctx.probes_trusted = false;
    assert_eq!(reason(&blind.next()), WaitReason::ProbesBlind);

    let mut floor = failing(Phase::Serving, 10);
    floor.ctx.serving = 2;
    assert_eq!(reason(&floor.next()), WaitReason::ServingFloor);
    floor.ctx.serving = 3;
    assert_eq!(request(&floor.next()).action.label(), "suspect");
    // The gateway counts fewer than the rows: the lower number decides.
    floor.ctx.gateway_pool = Some(pool_state(2, 2));
    assert_eq!(reason(&floor.next()), WaitReason::ServingFloor);
    floor.ctx.gateway_pool = Some(pool_state(3, 2));
    assert_eq!(request(&floor.next()).action.label(), "suspect");
}

#[test]
fn s6_the_floor_counts_what_is_already_on_its_way_out() {
    let mut story = failing(Phase::Serving, 10);
    story.ctx.serving = 4;
    story.ctx.gateway_pool = Some(pool_state(3, 2));
    assert_eq!(request(&story.next()).action.label(), "suspect");
    story.ctx.leaving = 1;
    assert_eq!(reason(&story.next()), WaitReason::ServingFloor);
}

#[test]
fn s6_only_one_member_is_suspected_by_time_in_a_round() {
    let mut story = failing(Phase::Serving, 10);
    story.ctx.suspected_another = true;
    assert_eq!(reason(&story.next()), WaitReason::ProbesBlind);
    story.seen.namespace_pods = Reading::Seen(vec![]);
    assert_eq!(
        request(&story.next()).action.label(),
        "suspect",
        "proof is not by time"
    );
}

#[test]
fn s6_suspicion_by_time_needs_a_bad_reading_in_this_very_round() {
    let mut story = failing(Phase::Serving, 10);
    story.seen.owned = unknown();
    assert_eq!(
        reason(&story.next()),
        WaitReason::Doubtful,
        "Kubernetes does not answer"
    );
    let mut story = failing(Phase::Serving, 10);
    story.seen.info = Reading::NotAsked;
    assert_eq!(reason(&story.next()), WaitReason::Doubtful, "it was not probed");
}

fn pool_state(serving: u32, floor: u32) -> crate::gateway::model::PoolState {
    crate::gateway::model::PoolState {
        controller_epoch: crate::pool::ids::Epoch::new(7),
        min_serving: floor,
        desired_members: 3,
        max_surge: 1,
        max_repair: 1,
        desired_revision: "r1".into(),
        serving_members: serving,
        replayed: false,
    }
}

#[test]
fn t05_proof_needs_neither_time_nor_floor_nor_trusted_probes() {
    let mut story = Story::of(Phase::Serving);
    story.ctx.serving = 1;
    story.ctx.probes_trusted = false;
    story.restarted();
    assert_eq!(
        request(&story.next()).action.label(),
        "suspect",
        "another boot under the same pod"
    );

    let mut story = failing(Phase::Serving, 0);
    story.ctx.serving = 1;
    story.seen.namespace_pods = Reading::Seen(vec![PodUid::from("other")]);
    assert_eq!(
        request(&story.next()).action.label(),
        "suspect",
        "w03 its pod is gone"
    );
}

#[test]
fn w03_an_externally_deleted_deployment_is_noticed_and_its_absence_asked_for() {
    let mut story = Story::of(Phase::Serving);
    assert!(!super::super::needs(&story.row, &story.ctx).namespace_pods);
    if let Reading::Seen(owned) = &mut story.seen.owned {
        *owned = crate::pool::observation::OwnedWorkload::default();
    }
    story.silent();
    assert!(matches!(
        crate::pool::health::read(&story.row, &story.seen),
        crate::pool::health::Health::Bad(_)
    ));
    story.ctx.failing_for = Some(std::time::Duration::ZERO);
    assert!(super::super::needs(&story.row, &story.ctx).namespace_pods);
    story.seen.namespace_pods = Reading::Seen(vec![]);
    assert_eq!(request(&story.next()).action.label(), "suspect");
}

#[test]
fn l2_a_gateway_outage_stops_gateway_steps_and_nothing_else() {
    let mut story = Story::of(Phase::Serving);
    story.seen.member = unknown();
    assert_eq!(reason(&story.next()), WaitReason::Settled);
    let mut story = failing(Phase::Serving, 10);
    story.seen.member = unknown();
    assert_eq!(
        reason(&story.next()),
        WaitReason::Unknown,
        "it cannot be told now"
    );
}

#[test]
fn infrastructure_lookups_never_block_health() {
    let mut story = failing(Phase::Serving, 10);
    story.seen.placement = unknown();
    assert_eq!(request(&story.next()).action.label(), "suspect");
}

#[test]
fn the_row_follows_whatever_happened_at_the_gateway() {
    use crate::gateway::model::RetirementKind::{Drained, Failed};
    let cases = [
        (Phase::Serving, MemberPhase::Draining, None, Phase::Draining),
        (Phase::Serving, MemberPhase::Suspect, None, Phase::Suspect),
        (Phase::Admitted, MemberPhase::Sealed, None, Phase::Draining),
        (Phase::Draining, MemberPhase::Sealed, None, Phase::Sealed),
        (Phase::Draining, MemberPhase::Suspect, None, Phase::Suspect),
        (
            Phase::Draining,
            MemberPhase::Retiring,
            Some(Drained),
            Phase::Sealed,
        ),
        (
            Phase::Sealed,
            MemberPhase::Retiring,
            Some(Drained),
            Phase::Retiring,
        ),
        (Phase::Sealed, MemberPhase::Retiring, Some(Failed), Phase::Suspect),
        (Phase::Suspect, MemberPhase::Lost, Some(Failed), Phase::Lost),
        (Phase::Suspect, MemberPhase::Draining, None, Phase::Draining),
        (Phase::Suspect, MemberPhase::Retired, Some(Failed), Phase::Lost),
        (
            Phase::Suspect,
            MemberPhase::Retiring,
            Some(Drained),
            Phase::Draining,
        ),
    ];
    for (from, gateway, kind, to) in cases {
        let mut story = Story::of(from);
        story.gateway_says(gateway, 9).retirement_kind = kind;
        let next = story.next();
        assert_eq!(change(&next).to, Some(to), "{from}, gateway {gateway:?} {kind:?}");
        assert!(from.permits(to));
    }
}

#[test]
fn w17_a_phase_that_this_binary_does_not_know_is_never_advanced() {
    let story = Story::of(Phase::Unrecognised);
    assert_eq!(reason(&story.next()), WaitReason::RowUnreadable);
    for phase in [
        Phase::Serving,
        Phase::Suspect,
        Phase::Draining,
        Phase::Sealed,
        Phase::Preparing,
    ] {
        let mut story = failing(phase, 60);
        story.now = at(3600 * 24);
        story.seen.namespace_pods = Reading::Seen(vec![]);
        story.gateway_says(MemberPhase::Unrecognised, 1);
        assert_eq!(reason(&story.next()), WaitReason::Unknown, "{phase}");
    }
}

#[test]
fn a_suspect_is_lost_on_proof_with_the_registrations_own_identities() {
    let mut story = failing(Phase::Suspect, 10);
    assert_eq!(reason(&story.next()), WaitReason::AwaitingProof);
    story.seen.namespace_pods = Reading::Seen(vec![]);
    let next = story.next();
    let MemberAction::Lost { expected, evidence } = &request(&next).action else {
        panic!("{next:?}");
    };
    assert_eq!(expected.get(), 2);
    assert_eq!(
        *evidence,
        LossEvidence::ProcessTerminated {
            pod_uid: "pod-uid-coordinator".into(),
            boot_id: "abcde".into(),
            node_id: "trino-node-1".into(),
            coordinator_id: "abcde".into(),
            source: "kubernetes-pod-absent".into(),
        }
    );
}

#[test]
fn proof_about_another_process_than_the_registered_one_is_not_presented() {
    let mut story = failing(Phase::Suspect, 10);
    story.seen.namespace_pods = Reading::Seen(vec![]);
    if let Reading::Seen(Some(member)) = &mut story.seen.member {
        member.boot_id = "other".into();
    }
    assert_eq!(reason(&story.next()), WaitReason::Refused);
}

#[test]
fn a_suspect_without_proof_is_drained_after_its_time_and_never_serves_again() {
    let mut story = Story::of(Phase::Suspect);
    let Next::Wait(waiting) = story.next() else {
        panic!()
    };
    assert_eq!(waiting.deadline, Some(at(15 * 60)));
    story.now = at(15 * 60);
    assert_eq!(request(&story.next()).action.label(), "drain");
    // Perfectly healthy again: there is no way back.
    assert_eq!(story.ctx.failing_for, None);
}

#[test]
fn k07_the_loss_of_a_draining_member_does_not_wait_for_what_can_never_end() {
    let mut story = failing(Phase::Draining, 10);
    story.seen.obligations = Reading::Seen(Some(testing::obligations(MemberPhase::Draining, 2, 3)));
    assert_eq!(
        reason(&story.next()),
        WaitReason::Obligations,
        "silence is no proof"
    );
    story.seen.namespace_pods = Reading::Seen(vec![]);
    assert_eq!(request(&story.next()).action.label(), "suspect");
    // Nothing owed: the clean drain wins.
    story.seen.obligations = Reading::Seen(Some(testing::obligations(MemberPhase::Draining, 2, 0)));
    assert_eq!(request(&story.next()).action.label(), "seal");
}
