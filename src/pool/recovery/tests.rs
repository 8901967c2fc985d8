//! A person declared the draining member's exact process lost.

use jiff::Timestamp;

use super::*;
use crate::gateway::model::PoolState;
use crate::pool::ids::{Epoch, PodUid};
use crate::pool::instance::InstanceRow;
use crate::pool::lifecycle;
use crate::pool::observation::Observation;
use crate::pool::settle;
use crate::pool::step::{EffectOutcome, RowChange, StepContext};
use crate::pool::testing::{self, at, handle, member, obligations, unknown};
use crate::store::port::StepOutcome;

struct Story {
    row: InstanceRow,
    seen: Observation,
    ctx: StepContext,
    now: Timestamp,
}

fn declaration() -> Recovery {
    let process = testing::process();
    Recovery {
        operation: "op-1".into(),
        instance: testing::ID.into(),
        expected_generation: Generation::new(2),
        incarnation: "incarnation-1".into(),
        pod_uid: process.pod,
        boot_id: process.boot,
        node_id: process.node,
        coordinator_id: process.coordinator,
        requested_by: "a@example.org".into(),
        reason: "leaked transaction".into(),
        created_at: at(0),
    }
}

/// DRAINING with leaked queries that nobody asks for; three serve, the floor is two.
fn story() -> Story {
    let row = testing::row(Phase::Draining);
    let mut ctx = testing::context();
    ctx.recovery = Some(declaration());
    ctx.gateway_pool = Some(PoolState {
        controller_epoch: Epoch::new(7),
        min_serving: 2,
        desired_members: 3,
        max_surge: 1,
        max_repair: 1,
        desired_revision: "r1".into(),
        serving_members: 3,
        replayed: false,
    });
    let mut story = Story {
        seen: testing::observation(&row),
        row,
        ctx,
        now: at(60),
    };
    story.gateway_says(MemberPhase::Draining, 2, None);
    story
}

impl Story {
    fn gateway_says(&mut self, phase: MemberPhase, generation: u64, kind: Option<RetirementKind>) {
        let mut answered = member(&handle(phase, generation));
        answered.retirement_kind = kind;
        self.seen.member = Reading::Seen(Some(answered));
        self.seen.obligations = Reading::Seen(Some(obligations(phase, generation, 1)));
    }

    fn owes(&mut self, bend: impl Fn(&mut crate::gateway::model::Obligations)) {
        if let Reading::Seen(Some(owed)) = &mut self.seen.obligations {
            bend(owed);
        }
    }

    fn next(&self) -> Next {
        lifecycle::next(&self.row, &self.seen, &self.ctx, self.now)
    }

    fn apply(&mut self, change: &RowChange) {
        if let Some(to) = change.to {
            assert!(self.row.phase.permits(to));
            self.row.phase = to;
        }
        change.changes.apply_to(&mut self.row);
        if change.closes.is_some() {
            self.ctx.open_step = None;
        }
    }
}

fn sent(next: &Next) -> &MemberRequest {
    match next {
        Next::Perform(effect) => match &**effect {
            Effect::Member(request) => request,
            other => panic!("{}", other.label()),
        },
        Next::Record(_) | Next::Wait(_) => panic!("{next:?}"),
    }
}

fn held_because(next: &Next) -> &str {
    match next {
        Next::Wait(waiting) if waiting.reason == WaitReason::RecoveryHeld => &waiting.detail,
        Next::Wait(_) | Next::Record(_) | Next::Perform(_) => panic!("{next:?}"),
    }
}

#[test]
fn the_whole_recovery_from_draining_to_the_end_of_the_row() {
    let mut story = story();
    let steps = [
        ("recovery-suspect.g2", MemberPhase::Suspect, 3, None),
        ("recovery-lost.g3", MemberPhase::Lost, 4, None),
        (
            "recovery-retire.g4",
            MemberPhase::Retiring,
            5,
            Some(RetirementKind::Failed),
        ),
    ];
    for (step, reached, generation, kind) in steps {
        let next = story.next();
        let request = sent(&next).clone();
        assert_eq!(request.step.as_str(), step);
        assert_eq!(request.operation.as_str(), "admin-recovery:op-1");
        if let MemberAction::Lost { evidence, .. } = &request.action {
            let reason = "leaked transaction".to_owned();
            assert_eq!(*evidence, LossEvidence::DestructiveOverride { reason });
        }
        story.gateway_says(reached, generation, kind);
        let Reading::Seen(Some(answered)) = story.seen.member.clone() else {
            panic!()
        };
        let outcome = EffectOutcome::Member(crate::gateway::port::Outcome::Applied(answered));
        let settled = settle::settle(
            &story.row,
            &Effect::Member(request),
            &outcome,
            story.ctx.epoch,
            &story.ctx,
            story.now,
        );
        let change = settled.change.unwrap();
        assert_eq!(change.to, None, "the row waits for the failed retirement");
        story.apply(&change);
        assert_eq!(story.row.phase, Phase::Draining);
    }
    assert!(!lifecycle::may_delete(&story.row));
    for phase in [Phase::Suspect, Phase::Lost] {
        let Next::Record(change) = story.next() else {
            panic!()
        };
        assert_eq!(change.to, Some(phase));
        story.apply(&change);
    }
    assert!(lifecycle::may_delete(&story.row), "the claim stands: S1");
    assert_eq!(story.next(), Next::perform(Effect::DeleteObjects));
    story.ctx.confirmed.absent = true;
    assert!(matches!(sent(&story.next()).action, MemberAction::Retired { .. }));
}

#[test]
fn a_lost_answer_is_adopted_or_sent_again_identically_under_the_same_conditions() {
    let mut story = story();
    let first = sent(&story.next()).clone();
    story.ctx.open_step = Some(first.clone());
    assert_eq!(*sent(&story.next()), first);
    story.ctx.owner = "successor".into();
    assert_eq!(*sent(&story.next()), first, "whoever leads");
    story.ctx.gateway_pool.as_mut().unwrap().serving_members = 1;
    assert!(held_because(&story.next()).contains("floor"), "judged anew");
    story.gateway_says(MemberPhase::Suspect, 3, None);
    let Next::Record(change) = story.next() else {
        panic!()
    };
    assert!(change.closes.is_some());
    assert_eq!(change.to, None);
    // Without its authorization at hand an open step of a recovery only waits.
    story.ctx.recovery = None;
    story.gateway_says(MemberPhase::Draining, 2, None);
    assert!(matches!(story.next(), Next::Wait(waiting) if waiting.reason == WaitReason::Unresolved));
}

#[test]
fn l1_a_lost_request_is_withdrawn_behind_its_fence_once_nothing_is_owed_any_more() {
    let mut story = story();
    story.ctx.open_step = Some(sent(&story.next()).clone());
    story.owes(|owed| owed.active_queries = 0);
    assert!(matches!(story.next(), Next::Wait(waiting) if waiting.reason == WaitReason::FenceStep));
    story.ctx.confirmed.step_fenced = true;
    let Next::Record(change) = story.next() else {
        panic!()
    };
    let closed = change.closes.clone().unwrap();
    assert_eq!(closed.step.as_str(), "recovery-suspect.g2");
    assert_eq!((closed.outcome, change.to), (StepOutcome::Refused, None));
    story.apply(&change);
    assert_eq!(sent(&story.next()).action.label(), "seal");
}

#[test]
fn l1_a_lost_request_goes_on_when_something_is_owed_again_before_its_fence() {
    let mut story = story();
    let first = sent(&story.next()).clone();
    story.ctx.open_step = Some(first.clone());
    story.owes(|owed| owed.active_queries = 0);
    assert!(matches!(story.next(), Next::Wait(_)));
    story.owes(|owed| owed.active_queries = 1);
    assert_eq!(*sent(&story.next()), first);
}

#[test]
fn l1_a_lost_request_does_not_hold_a_member_that_was_sealed_cleanly() {
    for phase in [Phase::Draining, Phase::Sealed] {
        let mut story = story();
        story.ctx.open_step = Some(sent(&story.next()).clone());
        story.row.phase = phase;
        story.gateway_says(MemberPhase::Sealed, 3, None);
        assert!(matches!(story.next(), Next::Wait(waiting) if waiting.reason == WaitReason::FenceStep));
    }
}

#[test]
fn a_clean_drain_wins_to_the_very_end() {
    let mut story = story();
    story.owes(|owed| owed.active_queries = 0);
    assert!(matches!(sent(&story.next()).action, MemberAction::Seal { .. }));
    for (phase, kind) in [
        (MemberPhase::Sealed, None),
        (MemberPhase::Retiring, Some(RetirementKind::Drained)),
        (MemberPhase::Retired, Some(RetirementKind::Drained)),
    ] {
        story.gateway_says(phase, 3, kind);
        let Next::Record(change) = story.next() else {
            panic!("{phase:?}")
        };
        assert_eq!(change.to, Some(Phase::Sealed));
    }
}

#[test]
fn it_is_held_when_anything_differs_from_what_the_person_saw() {
    type Bend = fn(&mut Recovery);
    let bends: Vec<(&str, Bend)> = vec![
        ("pod", |seen| seen.pod_uid = "other".into()),
        ("boot", |seen| seen.boot_id = "other".into()),
        ("node", |seen| seen.node_id = "other".into()),
        ("coordinator", |seen| seen.coordinator_id = "other".into()),
        ("registration", |seen| seen.incarnation = "other".into()),
        ("generation", |seen| seen.expected_generation = Generation::new(1)),
    ];
    for (what, bend) in bends {
        let mut story = story();
        bend(story.ctx.recovery.as_mut().unwrap());
        assert!(!held_because(&story.next()).is_empty(), "{what}");
    }
}

#[test]
fn its_conditions_are_the_floor_the_obligations_and_the_process() {
    type Row = (&'static str, fn(&mut Story), bool);
    let table: Vec<Row> = vec![
        ("as it is", |_| {}, true),
        (
            "below the gateway's floor",
            |s| s.ctx.gateway_pool.as_mut().unwrap().min_serving = 4,
            false,
        ),
        ("below the configured floor", |s| s.ctx.min_serving = 4, false),
        (
            "the gateway does not say who serves",
            |s| s.ctx.gateway_pool = None,
            false,
        ),
        ("obligations unknown", |s| s.seen.obligations = unknown(), false),
        (
            "obligations of another generation",
            |s| s.owes(|owed| owed.generation = Generation::new(9)),
            false,
        ),
        (
            "a client still asks",
            |s| s.owes(|owed| owed.pending_requests = 1),
            false,
        ),
        (
            "a transaction is open",
            |s| s.owes(|owed| owed.open_transactions = 1),
            false,
        ),
        (
            "a transaction is open, and its pod is absent",
            |s| {
                s.owes(|owed| owed.open_transactions = 1);
                s.seen.namespace_pods = Reading::Seen(vec![PodUid::from("other")]);
            },
            true,
        ),
        (
            "a transaction is open, and its pod exists",
            |s| {
                s.owes(|owed| owed.open_transactions = 1);
                s.seen.namespace_pods = Reading::Seen(vec![PodUid::from("pod-uid-coordinator")]);
            },
            false,
        ),
        (
            "the live process cannot be checked",
            |s| s.seen.info = unknown(),
            false,
        ),
        (
            "the live pod cannot be checked, and is absent",
            |s| {
                s.owes(|owed| owed.pending_requests = 1);
                s.seen.owned = unknown();
                s.seen.namespace_pods = Reading::Seen(vec![]);
            },
            true,
        ),
        ("no objects are recorded", |s| s.row.objects = None, false),
        ("l2 the node APIs fail", |s| s.seen.placement = unknown(), true),
    ];
    for (what, bend, proceeds) in table {
        let mut story = story();
        bend(&mut story);
        let next = story.next();
        if proceeds {
            assert_eq!(sent(&next).step.as_str(), "recovery-suspect.g2", "{what}");
        } else {
            assert!(!held_because(&next).is_empty(), "{what}");
        }
    }
}

#[test]
fn k07_a_proven_loss_is_never_held_by_a_declaration() {
    let mut story = story();
    // Nobody serves, a client still asks: the declaration's own conditions do not hold.
    story.ctx.gateway_pool.as_mut().unwrap().serving_members = 0;
    story.owes(|owed| owed.pending_requests = 1);
    assert!(!held_because(&story.next()).is_empty());
    story.seen.info = unknown();
    story.seen.namespace_pods = Reading::Seen(vec![]);
    let steps = [
        ("suspect.g2", MemberPhase::Suspect, 3, None),
        ("lost.g3", MemberPhase::Lost, 4, None),
        (
            "retire.g4",
            MemberPhase::Retiring,
            5,
            Some(RetirementKind::Failed),
        ),
    ];
    for (step, reached, generation, kind) in steps {
        let request = loop {
            match story.next() {
                Next::Record(change) => story.apply(&change),
                done @ (Next::Perform(_) | Next::Wait(_)) => break sent(&done).clone(),
            }
        };
        assert_eq!(request.step.as_str(), step);
        assert!(!is_recovery(&request.operation));
        story.gateway_says(reached, generation, kind);
    }
    assert_eq!(story.row.phase, Phase::Lost);
}

#[test]
fn k07_a_recovery_under_way_is_not_held_either_once_the_end_is_proven() {
    let mut story = story();
    let first = sent(&story.next()).clone();
    story.ctx.open_step = Some(first.clone());
    story.ctx.gateway_pool.as_mut().unwrap().serving_members = 0;
    assert!(held_because(&story.next()).contains("floor"));
    story.seen.info = unknown();
    story.seen.namespace_pods = Reading::Seen(vec![]);
    assert_eq!(*sent(&story.next()), first, "the identical request");
}

#[test]
fn past_draining_an_idle_member_needs_no_live_process() {
    let mut story = story();
    story.gateway_says(MemberPhase::Suspect, 3, None);
    story.seen.info = unknown();
    assert_eq!(sent(&story.next()).step.as_str(), "recovery-lost.g3");
    story.owes(|owed| owed.pending_requests = 1);
    assert!(!held_because(&story.next()).is_empty());
}

#[test]
fn a_missing_answer_of_the_ordinary_life_is_settled_first() {
    let mut story = story();
    let mut seal = lifecycle::drain_request(&story.row).unwrap();
    seal.action = MemberAction::Seal {
        expected: Generation::new(2),
    };
    story.ctx.open_step = Some(seal.clone());
    assert_eq!(*sent(&story.next()), seal);
}

#[test]
fn outside_a_drain_a_declaration_changes_nothing() {
    for phase in [Phase::Serving, Phase::Preparing, Phase::Sealed, Phase::Retiring] {
        let row = testing::row(phase);
        let seen = testing::observation(&row);
        let mut ctx = testing::context();
        let without = lifecycle::next(&row, &seen, &ctx, at(60));
        ctx.recovery = Some(declaration());
        assert_eq!(lifecycle::next(&row, &seen, &ctx, at(60)), without, "{phase}");
    }
}
