//! What the outcome of an effect means for the row and the journal.
//!
//! Owns the mapping, exhaustively: every effect with every outcome it can have. An outcome that cannot
//! belong to its effect counts as an interruption: nothing is known, nothing changes. Pure; the change
//! and the end of the step are committed together by the pool's actor.

mod member;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

pub use self::member::{accepted, handle, registered_process};
use super::ids::Epoch;
use super::instance::{CandidateFailure, FailureCause, InstanceChanges, InstanceRow, ProcessIdentity};
use super::lifecycle::deadline;
use super::observation::{Fault, Validation};
use super::phase::Phase;
use super::step::{
    Apply, Deletion, Effect, EffectOutcome, RowChange, Settled, StepContext, WaitReason, Waiting,
};
use crate::gateway::port::Outcome;
use crate::store::port::StepOutcome;

/// Maps an outcome to the change of the row and the end of the journaled step. `sent` is the epoch under
/// which the effect was begun; `ctx` holds the one in force now.
#[must_use]
pub fn settle(
    row: &InstanceRow,
    effect: &Effect,
    outcome: &EffectOutcome,
    sent: Epoch,
    ctx: &StepContext,
    now: Timestamp,
) -> Settled {
    let scene = Scene { row, sent, ctx, now };
    match (effect, outcome) {
        (Effect::ApplyObjects, EffectOutcome::Applied(apply)) => scene.applied(apply),
        (Effect::EnsureBackend(_), EffectOutcome::Backend(outcome)) => scene.backend(outcome),
        (Effect::Member(request), EffectOutcome::Member(outcome)) => member::settle(scene, request, outcome),
        // The verdict itself is remembered in the context, and judged by the next decision.
        (Effect::CheckCandidate, EffectOutcome::Checked(_)) => Scene::nothing(),
        (Effect::Validate, EffectOutcome::Validated(validation)) => scene.validated(validation),
        (Effect::DeleteObjects, EffectOutcome::Deleted(deletion)) => scene.deleted(deletion),
        // Best effort: a registration that stays behind is harmless, a row that stays behind is not.
        (Effect::RemoveBackend(_), EffectOutcome::Backend(_)) => scene.over(),
        (
            Effect::ApplyObjects
            | Effect::EnsureBackend(_)
            | Effect::Member(_)
            | Effect::CheckCandidate
            | Effect::Validate
            | Effect::DeleteObjects
            | Effect::RemoveBackend(_),
            EffectOutcome::Applied(_)
            | EffectOutcome::Backend(_)
            | EffectOutcome::Member(_)
            | EffectOutcome::Checked(_)
            | EffectOutcome::Validated(_)
            | EffectOutcome::Deleted(_)
            | EffectOutcome::Interrupted,
        ) => scene.waits(
            WaitReason::Unresolved,
            "the effect was interrupted; nothing is known of it".to_owned(),
        ),
    }
}

/// Notes in the context what an outcome confirmed, for the rest of this tick. Called after [`settle`].
pub fn remember(ctx: &mut StepContext, effect: &Effect, outcome: &EffectOutcome) {
    match outcome {
        EffectOutcome::Backend(answer) => {
            if matches!(effect, Effect::EnsureBackend(_)) && answer.accepted().is_some() {
                ctx.confirmed.backend = true;
            }
        }
        EffectOutcome::Deleted(Deletion::Absent) => ctx.confirmed.absent = true,
        EffectOutcome::Checked(report) => ctx.fresh_placement = Some(report.clone()),
        EffectOutcome::Applied(_)
        | EffectOutcome::Member(_)
        | EffectOutcome::Validated(_)
        | EffectOutcome::Deleted(Deletion::Remaining(_) | Deletion::Foreign(_) | Deletion::Unknown(_))
        | EffectOutcome::Interrupted => {}
    }
}

/// What a settlement looks at.
#[derive(Clone, Copy)]
struct Scene<'a> {
    row: &'a InstanceRow,
    sent: Epoch,
    ctx: &'a StepContext,
    now: Timestamp,
}

impl Scene<'_> {
    const fn nothing() -> Settled {
        Settled {
            change: None,
            step: None,
            waiting: None,
            fenced: false,
        }
    }

    fn waiting(self, reason: WaitReason, detail: String) -> Waiting {
        Waiting {
            reason,
            detail,
            deadline: deadline(self.row, &self.ctx.timings),
        }
    }

    fn waits(self, reason: WaitReason, detail: String) -> Settled {
        Settled {
            waiting: Some(self.waiting(reason, detail)),
            ..Self::nothing()
        }
    }

    fn unknown(self, fault: &Fault) -> Settled {
        self.waits(WaitReason::Unknown, fault.to_string())
    }

    fn changed(self, to: Phase, changes: InstanceChanges) -> Settled {
        Settled {
            change: Some(RowChange {
                to: self.row.phase.permits(to).then_some(to),
                changes,
                closes: None,
            }),
            ..Self::nothing()
        }
    }

    /// Whether the candidate has outlived its deadline.
    fn expired(self) -> bool {
        deadline(self.row, &self.ctx.timings).is_some_and(|deadline| self.now >= deadline)
    }

    /// Gives a candidate up: at once without a member, else by its durable reason, which the next decision
    /// acts upon by way of the gateway.
    fn given_up(self, cause: FailureCause, detail: String) -> RowChange {
        let unregistered = self.row.phase == Phase::Pending;
        RowChange {
            to: unregistered.then_some(Phase::FailedPreparing),
            changes: InstanceChanges {
                failure: Some(CandidateFailure { cause, detail }),
                ..InstanceChanges::default()
            },
            closes: None,
        }
    }

    fn gives_up(self, cause: FailureCause, detail: String) -> Settled {
        Settled {
            change: Some(self.given_up(cause, detail)),
            ..Self::nothing()
        }
    }

    fn applied(self, apply: &Apply) -> Settled {
        match apply {
            Apply::Complete(objects) => self.changed(
                Phase::Creating,
                InstanceChanges {
                    objects: Some(objects.clone()),
                    ..InstanceChanges::default()
                },
            ),
            Apply::Foreign(what) => self.gives_up(FailureCause::ForeignObject, what.clone()),
            Apply::Refused(why) => self.gives_up(FailureCause::BlueprintUnreadable, why.clone()),
            Apply::Unknown(fault) if self.expired() => self.gives_up(
                FailureCause::DeadlineExceeded,
                format!("its objects could not be made in time: {}", fault.detail),
            ),
            Apply::Unknown(fault) => self.unknown(fault),
        }
    }

    fn backend(self, outcome: &Outcome<()>) -> Settled {
        match outcome {
            Outcome::Applied(()) | Outcome::Replayed(()) => Self::nothing(),
            Outcome::Refused(refusal) if self.expired() => self.gives_up(
                FailureCause::GatewayRefused,
                format!("its backend registration: {refusal}"),
            ),
            Outcome::Refused(refusal) => self.waits(
                WaitReason::Refused,
                format!("its backend registration: {refusal}"),
            ),
            Outcome::Unknown(fault) => self.waits(WaitReason::Unresolved, fault.to_string()),
        }
    }

    fn validated(self, validation: &Validation) -> Settled {
        let registered = self.row.process.as_ref();
        match validation {
            Validation::Proven(receipt) => match registered {
                Some(process) if same(process, &receipt.process) => self.changed(
                    Phase::Validating,
                    InstanceChanges {
                        // The kubelet may have named the container only now; a later loss is proven by it.
                        process: (process.container.is_none() && receipt.process.container.is_some())
                            .then(|| receipt.process.clone()),
                        receipt: Some((**receipt).clone()),
                        ..InstanceChanges::default()
                    },
                ),
                Some(_) | None => self.restarted(&receipt.process),
            },
            Validation::NotReady(fault) if self.expired() && self.ctx.probes_trusted => self.gives_up(
                FailureCause::DeadlineExceeded,
                format!("{} outlived its deadline: {}", self.row.phase, fault.detail),
            ),
            Validation::NotReady(fault) => self.waits(
                WaitReason::NotValidated,
                format!("{}: {}", fault.label, fault.detail),
            ),
            Validation::Unknown(fault) => self.unknown(fault),
            Validation::OtherProcess(seen) => self.restarted(seen),
        }
    }

    fn restarted(self, seen: &ProcessIdentity) -> Settled {
        let detail = format!(
            "process {} in pod {} is not the registered one",
            seen.boot, seen.pod
        );
        self.gives_up(FailureCause::ProcessRestarted, detail)
    }

    fn deleted(self, deletion: &Deletion) -> Settled {
        match deletion {
            Deletion::Absent => Self::nothing(),
            Deletion::Remaining(what) => self.waits(WaitReason::ObjectsRemain, what.clone()),
            Deletion::Foreign(what) => self.waits(WaitReason::ForeignObject, what.clone()),
            Deletion::Unknown(fault) => self.unknown(fault),
        }
    }

    fn over(self) -> Settled {
        let to = if self.row.phase == Phase::Retiring {
            Phase::Retired
        } else {
            Phase::FailureRetired
        };
        self.changed(to, InstanceChanges::default())
    }

    fn stepped(step: StepOutcome, waiting: Waiting) -> Settled {
        Settled {
            step: Some(step),
            waiting: Some(waiting),
            ..Self::nothing()
        }
    }
}

/// The same process, as far as the registration names it.
fn same(a: &ProcessIdentity, b: &ProcessIdentity) -> bool {
    a.pod == b.pod && a.boot == b.boot
}
