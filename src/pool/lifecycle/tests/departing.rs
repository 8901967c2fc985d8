//! DRAINING, SEALED, RETIRING, LOST, FAILED_PREPARING.

use super::super::may_delete;
use super::*;
use crate::gateway::model::RetirementKind;
use crate::pool::testing::{handle, obligations, retired_as, unknown};

#[test]
fn t07_a_draining_member_is_sealed_when_all_three_counts_are_zero_and_never_by_time() {
    type Owe = fn(&mut crate::gateway::model::Obligations);
    let owing: Vec<(&str, Owe)> = vec![
        ("a query", |owed| owed.active_queries = 1),
        ("an open transaction", |owed| owed.open_transactions = 1),
        ("a request under way", |owed| owed.pending_requests = 1),
    ];
    for (what, owe) in owing {
        let mut story = Story::of(Phase::Draining);
        story.now = at(3600 * 24 * 30);
        let mut owed = obligations(MemberPhase::Draining, 2, 0);
        // The gateway's advice alone seals nothing.
        owed.ready_to_seal = true;
        owe(&mut owed);
        story.seen.obligations = Reading::Seen(Some(owed));
        let next = story.next();
        assert_eq!(reason(&next), WaitReason::Obligations, "{what}");
        let Next::Wait(waiting) = next else { unreachable!() };
        assert!(waiting.detail.contains('1'), "{}", waiting.detail);
    }
    let next = Story::of(Phase::Draining).next();
    let MemberAction::Seal { expected } = &request(&next).action else {
        panic!("{next:?}");
    };
    assert_eq!(expected.get(), 2);
}

#[test]
fn g01_unknown_or_foreign_obligations_are_waited_for() {
    let mut foreign = obligations(MemberPhase::Draining, 2, 0);
    foreign.incarnation = "incarnation-2".into();
    for reading in [
        Reading::NotAsked,
        unknown(),
        Reading::Seen(None),
        Reading::Seen(Some(foreign)),
    ] {
        let mut story = Story::of(Phase::Draining);
        story.seen.obligations = reading;
        story.seen.namespace_pods = Reading::Seen(vec![]);
        story.silent();
        assert_eq!(reason(&story.next()), WaitReason::Unknown);
    }
    let mut gateway_down = Story::of(Phase::Draining);
    gateway_down.seen.member = unknown();
    assert_eq!(reason(&gateway_down.next()), WaitReason::Unknown);
}

#[test]
fn a_sealed_member_is_claimed_before_anything_is_deleted() {
    let story = Story::of(Phase::Sealed);
    assert_eq!(request(&story.next()).action.label(), "retire");
    assert!(!may_delete(&story.row));
}

#[test]
fn retiring_deletes_then_verifies_then_tells_then_forgets_the_backend() {
    let mut story = Story::of(Phase::Retiring);
    assert_eq!(story.next(), Next::perform(Effect::DeleteObjects));
    // The claim is durable: a gateway outage does not hold up the deletion.
    story.seen.member = unknown();
    assert_eq!(story.next(), Next::perform(Effect::DeleteObjects));
    story.ctx.confirmed.absent = true;
    assert_eq!(reason(&story.next()), WaitReason::Unknown);

    story.gateway_says(MemberPhase::Retiring, 4);
    let next = story.next();
    let MemberAction::Retired { expected } = &request(&next).action else {
        panic!("{next:?}");
    };
    assert_eq!(expected.get(), 4);

    story.gateway_says(MemberPhase::Retired, 5).retirement_kind = Some(RetirementKind::Drained);
    let next = story.next();
    assert_eq!(change(&next).to, None);
    story.apply(change(&next));
    assert_eq!(
        story.next(),
        Next::perform(Effect::RemoveBackend("analytics-cell-00000001".into())),
        "w13"
    );
}

#[test]
fn s1_lost_is_claimed_then_deleted_then_retired() {
    let mut story = Story::of(Phase::Lost);
    assert!(!may_delete(&story.row));
    assert_eq!(request(&story.next()).action.label(), "retire");
    let claim = retired_as(handle(MemberPhase::Retiring, 4), RetirementKind::Failed);
    story.row.member = Some(claim.clone());
    story.seen.member = Reading::Seen(Some(testing::member(&claim)));
    assert!(may_delete(&story.row));
    assert_eq!(story.next(), Next::perform(Effect::DeleteObjects));
    story.ctx.confirmed.absent = true;
    assert_eq!(request(&story.next()).action.label(), "retired");
}

#[test]
fn a_failed_candidate_with_a_member_needs_the_claim_as_well() {
    let mut story = Story::of(Phase::FailedPreparing);
    story.row.member = Some(handle(MemberPhase::Preparing, 0));
    story.gateway_says(MemberPhase::Preparing, 0);
    assert!(!may_delete(&story.row));
    assert_eq!(request(&story.next()).action.label(), "retire");
    // Claimed by a predecessor whose checkpoint was lost.
    story.gateway_says(MemberPhase::Retiring, 1).retirement_kind = Some(RetirementKind::Drained);
    assert_eq!(story.settle_records(), Next::perform(Effect::DeleteObjects));
    // Admitted by somebody: left to a person.
    let mut admitted = Story::of(Phase::FailedPreparing);
    admitted.row.member = Some(handle(MemberPhase::Preparing, 0));
    admitted.gateway_says(MemberPhase::Active, 1);
    assert_eq!(
        {
            let next = admitted.settle_records();
            reason(&next)
        },
        WaitReason::Unknown
    );
}

#[test]
fn a_failed_candidate_that_never_registered_is_read_back_then_deleted() {
    let mut story = Story::of(Phase::FailedPreparing);
    story.row.member = None;
    story.row.process = None;
    for silent in [unknown(), Reading::NotAsked] {
        story.seen.member = silent;
        assert_eq!(reason(&story.next()), WaitReason::Unknown);
    }
    story.seen.member = Reading::Seen(None);
    assert_eq!(story.next(), Next::perform(Effect::DeleteObjects));
    story.ctx.confirmed.absent = true;
    assert_eq!(change(&story.next()).to, Some(Phase::FailureRetired));

    // The gateway knows it after all: then it takes the claim.
    story.gateway_says(MemberPhase::Preparing, 0);
    let next = story.next();
    assert_eq!(change(&next).to, None);
    assert!(change(&next).changes.member.is_some());
    story.apply(change(&next));
    assert_eq!(request(&story.next()).action.label(), "retire");
}

#[test]
fn a_row_that_never_got_objects_ends_at_once() {
    let mut story = Story::of(Phase::FailedPreparing);
    story.row.member = None;
    story.row.objects = None;
    story.seen.member = Reading::Seen(None);
    assert_eq!(change(&story.next()).to, Some(Phase::FailureRetired));
}

#[test]
fn s1_a_row_from_before_its_registration_is_not_over_while_the_gateway_holds_its_member() {
    let mut story = Story::of(Phase::FailedPreparing);
    story.row.member = None;
    story.row.process = None;
    story.row.objects = None;
    for silent in [unknown(), Reading::NotAsked] {
        story.seen.member = silent;
        assert_eq!(reason(&story.next()), WaitReason::Unknown);
    }
    // The store was restored to a state in which this serving instance was PENDING.
    story.gateway_says(MemberPhase::Active, 1);
    let next = story.next();
    assert_eq!(change(&next).to, None);
    assert!(change(&next).changes.member.is_some());
    let settled = story.settle_records();
    assert_eq!(reason(&settled), WaitReason::Unknown, "left to a person");
    assert_eq!(story.row.phase, Phase::FailedPreparing);
    assert!(!may_delete(&story.row));
}

#[test]
fn t02_what_remains_is_deleted_again_and_again() {
    let story = Story::of(Phase::Retiring);
    for _ in 0..3 {
        assert_eq!(story.next(), Next::perform(Effect::DeleteObjects));
    }
}

#[test]
fn a_terminal_row_does_nothing() {
    for phase in [Phase::Retired, Phase::FailureRetired] {
        let story = Story::of(phase);
        assert_eq!(reason(&story.next()), WaitReason::Settled);
        assert_eq!(
            super::super::needs(&story.row, &story.ctx),
            super::super::Needs::default()
        );
    }
}

#[test]
fn s1_deletion_is_permitted_only_where_the_claim_is_durable() {
    for phase in Phase::KNOWN {
        let row = testing::row(phase);
        let expected = matches!(
            phase,
            Phase::Retiring | Phase::FailedPreparing | Phase::Retired | Phase::FailureRetired
        );
        assert_eq!(may_delete(&row), expected, "{phase}");
        let mut unclaimed = row;
        if let Some(member) = &mut unclaimed.member {
            member.retirement = None;
        }
        if !phase.is_terminal() {
            assert!(!may_delete(&unclaimed), "{phase} without the claim");
        }
    }
}
