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

/// A suspicion of a member that is well again, and a drain that the floor forbids by now: neither would be
/// decided again.
fn withdrawn() -> Vec<(Story, MemberRequest)> {
    let mut suspicion = Story::of(Phase::Serving);
    let told = suspicion.opens(MemberAction::Suspect {
        expected: expected(1),
        reason: "x".into(),
    });
    let mut drain = Story::of(Phase::Serving);
    let sent = drain.opens(MemberAction::Drain {
        expected: expected(1),
    });
    drain.ctx.answering = 1;
    vec![(suspicion, told), (drain, sent)]
}

#[test]
fn s9_a_withdrawn_request_is_never_closed_on_a_reading_alone_but_fenced_and_read_back() {
    for (mut story, sent) in withdrawn() {
        // It may be on its way still, however long the member is seen ACTIVE.
        for minute in [1, 10, 60 * 24] {
            story.now = at(60 * minute);
            assert_eq!(reason(&story.next()), WaitReason::FenceStep, "{}", sent.step);
        }
        story.ctx.confirmed.step_fenced = true;
        let next = story.next();
        let closed = change(&next).closes.clone().unwrap();
        assert_eq!((closed.step, closed.outcome), (sent.step, StepOutcome::Refused));
        assert_eq!(change(&next).to, None);
        story.apply(change(&next));
        assert_eq!(reason(&story.next()), WaitReason::Settled);
    }
}

#[test]
fn s9_a_withdrawn_request_that_landed_before_the_fence_is_adopted() {
    for (story, sent) in withdrawn() {
        for fenced in [false, true] {
            let mut story = story.clone();
            story.ctx.confirmed.step_fenced = fenced;
            let suspicion = matches!(sent.action, MemberAction::Suspect { .. });
            let (member, to) = if suspicion {
                (MemberPhase::Suspect, Phase::Suspect)
            } else {
                (MemberPhase::Draining, Phase::Draining)
            };
            story.gateway_says(member, 2);
            let next = story.next();
            assert_eq!(change(&next).to, Some(to), "{}", sent.step);
            let outcome = change(&next).closes.as_ref().map(|closed| closed.outcome);
            assert_eq!(outcome, Some(StepOutcome::Applied));
        }
    }
}

#[test]
fn s9_a_withdrawn_request_is_sent_again_when_it_is_wanted_again_before_its_fence() {
    let [(mut suspicion, told), (mut drain, sent)] = <[_; 2]>::try_from(withdrawn()).unwrap();
    suspicion.silent();
    suspicion.ctx.failing_for = Some(testing::minutes(10));
    assert_eq!(suspicion.next(), Next::perform(Effect::Member(told)));
    drain.ctx.answering = 2;
    assert_eq!(drain.next(), Next::perform(Effect::Member(sent)));
}

#[test]
fn s9_without_a_reading_a_withdrawn_request_stays_open_even_behind_its_fence() {
    for (mut story, sent) in withdrawn() {
        story.ctx.confirmed.step_fenced = true;
        for reading in [unknown(), Reading::NotAsked] {
            story.seen.member = reading;
            assert!(matches!(story.next(), Next::Wait(_)), "{}", sent.step);
        }
    }
}

#[test]
fn s5_an_open_drain_is_sent_again_only_while_its_condition_holds() {
    let mut story = Story::of(Phase::Serving);
    let sent = story.opens(MemberAction::Drain {
        expected: expected(1),
    });
    assert_eq!(
        story.next(),
        Next::perform(Effect::Member(sent)),
        "an ordinary rollout"
    );
    story.ctx.answering = 1;
    assert_eq!(reason(&story.next()), WaitReason::FenceStep, "the floor");

    // The infrastructure asks for it: only while a replacement really serves.
    let mut story = Story::of(Phase::Serving);
    story.row.evidence = crate::pool::evidence::RecordedEvidence::Unreadable("x".into());
    story.opens(MemberAction::Drain {
        expected: expected(1),
    });
    assert_eq!(reason(&story.next()), WaitReason::FenceStep);
    story.ctx.answering = 3;
    assert!(matches!(effect(&story.next()), Effect::Member(_)));
}

#[test]
fn s9_what_was_refused_while_an_earlier_copy_is_out_is_fenced_and_not_sent_again() {
    let [(mut suspicion, _), (mut drain, _)] = <[_; 2]>::try_from(withdrawn()).unwrap();
    suspicion.silent();
    suspicion.ctx.failing_for = Some(testing::minutes(10));
    drain.ctx.answering = 2;
    for mut story in [suspicion, drain] {
        assert!(matches!(effect(&story.next()), Effect::Member(_)), "wanted");
        story.ctx.refused_in_doubt = true;
        assert_eq!(reason(&story.next()), WaitReason::FenceStep);
    }
}
