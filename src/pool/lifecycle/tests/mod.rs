//! Tables for every phase. Each starts from the row and the observation that are usual in a phase, with
//! everything well, and bends one thing.

mod candidate;
mod creating;
mod departing;
mod edited;
mod open_steps;
mod properties;
mod serving;

use jiff::Timestamp;

use super::next;
use crate::gateway::model::{Member, MemberAction, MemberPhase, MemberRequest};
use crate::pool::instance::{FailureCause, InstanceRow};
use crate::pool::observation::{Observation, Reading};
use crate::pool::phase::Phase;
use crate::pool::step::{Effect, Next, RowChange, StepContext, WaitReason};
use crate::pool::testing::{self, at};

/// One instance, and everything its next step is decided from.
#[derive(Clone, Debug)]
struct Story {
    row: InstanceRow,
    seen: Observation,
    ctx: StepContext,
    now: Timestamp,
}

impl Story {
    fn of(phase: Phase) -> Self {
        let row = testing::row(phase);
        Self {
            seen: testing::observation(&row),
            row,
            ctx: testing::context(),
            now: at(60),
        }
    }

    fn next(&self) -> Next {
        next(&self.row, &self.seen, &self.ctx, self.now)
    }

    /// The gateway's member moves on, and the row does not know.
    fn gateway_says(&mut self, phase: MemberPhase, generation: u64) -> &mut Member {
        let incarnation = "incarnation-1".into();
        let mut member = testing::member(&testing::handle(phase, generation));
        member.incarnation = incarnation;
        self.seen.member = Reading::Seen(Some(member));
        match &mut self.seen.member {
            Reading::Seen(Some(member)) => member,
            Reading::Seen(None) | Reading::NotAsked | Reading::Unknown(_) => unreachable!(),
        }
    }

    fn silent(&mut self) {
        self.seen.info = Reading::Unknown(testing::fault("Unreachable"));
    }

    fn restarted(&mut self) {
        if let Reading::Seen(info) = &mut self.seen.info {
            info.coordinator = Some("fffff".into());
        }
    }

    fn opens(&mut self, action: MemberAction) -> MemberRequest {
        let request = super::requests::request(&self.row, action, "g0");
        self.ctx.open_step = Some(request.clone());
        request
    }

    /// Follows records until something is done or waited for.
    fn settle_records(&mut self) -> Next {
        for _ in 0..12 {
            match self.next() {
                Next::Record(change) => self.apply(&change),
                done @ (Next::Perform(_) | Next::Wait(_)) => return done,
            }
        }
        panic!("records without end in {}", self.row.phase);
    }

    fn apply(&mut self, change: &RowChange) {
        if let Some(to) = change.to {
            assert!(self.row.phase.permits(to), "{} -> {to}", self.row.phase);
            self.row.phase = to;
            self.row.phase_changed_at = self.now;
        }
        change.changes.apply_to(&mut self.row);
        if change.closes.is_some() {
            self.ctx.open_step = None;
        }
    }
}

fn reason(next: &Next) -> WaitReason {
    match next {
        Next::Wait(waiting) => waiting.reason,
        Next::Record(_) | Next::Perform(_) => panic!("not a wait: {next:?}"),
    }
}

fn effect(next: &Next) -> &Effect {
    match next {
        Next::Perform(effect) => effect,
        Next::Record(_) | Next::Wait(_) => panic!("not an effect: {next:?}"),
    }
}

fn request(next: &Next) -> &MemberRequest {
    match effect(next) {
        Effect::Member(request) => request,
        other @ (Effect::ApplyObjects
        | Effect::EnsureBackend(_)
        | Effect::CheckCandidate
        | Effect::Validate
        | Effect::DeleteObjects
        | Effect::RemoveBackend(_)) => panic!("not a request: {other:?}"),
    }
}

fn change(next: &Next) -> &RowChange {
    match next {
        Next::Record(change) => change,
        Next::Perform(_) | Next::Wait(_) => panic!("not a record: {next:?}"),
    }
}

fn cause(next: &Next) -> FailureCause {
    change(next)
        .changes
        .failure
        .as_ref()
        .map(|failure| failure.cause)
        .expect("a failure")
}
