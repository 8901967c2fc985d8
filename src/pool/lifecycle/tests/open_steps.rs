//! Steps whose answer was lost.

use super::*;
use crate::pool::ids::Generation;
use crate::pool::testing::unknown;
use crate::store::port::StepOutcome;

fn expected(generation: u64) -> Generation {
    Generation::new(generation)
}

struct Lost {
    phase: Phase,
    action: MemberAction,
    reached: (MemberPhase, u64),
    to: Option<Phase>,
}

fn lost_steps() -> Vec<Lost> {
    let case = |phase, action, reached, to| Lost {
        phase,
        action,
        reached,
        to,
    };
    vec![
        case(
            Phase::Serving,
            MemberAction::Drain {
                expected: expected(1),
            },
            (MemberPhase::Draining, 2),
            Some(Phase::Draining),
        ),
        case(
            Phase::Serving,
            MemberAction::Suspect {
                expected: expected(1),
                reason: "x".into(),
            },
            (MemberPhase::Suspect, 2),
            Some(Phase::Suspect),
        ),
        case(
            Phase::Draining,
            MemberAction::Seal {
                expected: expected(2),
            },
            (MemberPhase::Sealed, 3),
            Some(Phase::Sealed),
        ),
        case(
            Phase::Sealed,
            MemberAction::Retire {
                expected: expected(3),
            },
            (MemberPhase::Retiring, 4),
            Some(Phase::Retiring),
        ),
        case(
            Phase::Preparing,
            MemberAction::Retire {
                expected: expected(0),
            },
            (MemberPhase::Retiring, 1),
            Some(Phase::FailedPreparing),
        ),
        case(
            Phase::Lost,
            MemberAction::Retire {
                expected: expected(3),
            },
            (MemberPhase::Retiring, 4),
            None,
        ),
        case(
            Phase::Suspect,
            MemberAction::Drain {
                expected: expected(2),
            },
            (MemberPhase::Draining, 3),
            Some(Phase::Draining),
        ),
    ]
}

#[test]
fn s9_what_stands_is_adopted_and_the_step_closed() {
    for lost in lost_steps() {
        let mut story = Story::of(lost.phase);
        let sent = story.opens(lost.action.clone());
        story.gateway_says(lost.reached.0, lost.reached.1);
        let next = story.next();
        assert_eq!(change(&next).to, lost.to, "{}", sent.step);
        let closed = change(&next).closes.clone().unwrap();
        assert_eq!((closed.step, closed.outcome), (sent.step, StepOutcome::Applied));
        let member = change(&next).changes.member.clone().unwrap();
        assert_eq!((member.phase, member.generation.get()), lost.reached);
    }
}

#[test]
fn s9_what_does_not_stand_is_sent_again_identically() {
    for lost in lost_steps() {
        let mut story = Story::of(lost.phase);
        if lost.phase == Phase::Serving {
            // Decided again now.
            story.ctx.failing_for = Some(testing::minutes(10));
            story.silent();
        }
        let sent = story.opens(lost.action.clone());
        assert_eq!(
            story.next(),
            Next::perform(Effect::Member(sent.clone())),
            "{}",
            sent.step
        );
        // Moved on by somebody else: only the gateway can tell whether ours was first.
        story.gateway_says(lost.reached.0, 9);
        if lost.phase != Phase::Preparing {
            assert_eq!(story.next(), Next::perform(Effect::Member(sent)));
        }
    }
}

#[test]
fn an_open_step_waits_for_the_gateway_to_be_read() {
    for lost in lost_steps() {
        let mut story = Story::of(lost.phase);
        let sent = story.opens(lost.action.clone());
        for reading in [unknown(), Reading::NotAsked] {
            story.seen.member = reading;
            assert_eq!(reason(&story.next()), WaitReason::Unknown, "{}", sent.step);
        }
    }
}

#[test]
fn an_open_retired_step_follows_verified_absence() {
    let mut story = Story::of(Phase::Retiring);
    let sent = story.opens(MemberAction::Retired {
        expected: expected(4),
    });
    assert_eq!(story.next(), Next::perform(Effect::DeleteObjects));
    story.ctx.confirmed.absent = true;
    assert_eq!(story.next(), Next::perform(Effect::Member(sent)));
    story.gateway_says(MemberPhase::Retired, 5);
    assert_eq!(
        change(&story.next()).closes.as_ref().map(|closed| closed.outcome),
        Some(StepOutcome::Applied)
    );
}

#[test]
fn s6_a_suspicion_that_was_not_told_yet_is_taken_back_when_the_member_is_well() {
    let mut story = Story::of(Phase::Serving);
    story.opens(MemberAction::Suspect {
        expected: expected(1),
        reason: "x".into(),
    });
    let next = story.next();
    assert_eq!(
        change(&next).closes.as_ref().map(|closed| closed.outcome),
        Some(StepOutcome::Refused)
    );
    assert_eq!(change(&next).to, None);
    story.apply(change(&next));
    assert_eq!(reason(&story.next()), WaitReason::Settled);
}

#[test]
fn s5_a_drain_that_was_not_applied_is_left_to_the_planner_when_its_condition_is_gone() {
    let mut story = Story::of(Phase::Serving);
    let sent = story.opens(MemberAction::Drain {
        expected: expected(1),
    });
    assert_eq!(
        story.next(),
        Next::perform(Effect::Member(sent.clone())),
        "an ordinary rollout"
    );
    story.ctx.serving = 2;
    assert!(change(&story.next()).closes.is_some(), "the floor");

    // The infrastructure asks for it: only while a replacement really serves.
    let mut story = Story::of(Phase::Serving);
    story.row.evidence = crate::pool::evidence::RecordedEvidence::Unreadable("x".into());
    story.opens(MemberAction::Drain {
        expected: expected(1),
    });
    assert!(change(&story.next()).closes.is_some());
    story.ctx.serving = 4;
    assert!(matches!(effect(&story.next()), Effect::Member(_)));
}
