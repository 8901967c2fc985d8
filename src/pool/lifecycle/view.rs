//! Everything one decision looks at, and the few ways in which it ends.

use jiff::Timestamp;

use super::requests::request;
use crate::gateway::model::{Member, MemberAction};
use crate::pool::instance::{InstanceChanges, InstanceRow, ProcessIdentity};
use crate::pool::observation::{Fault, Observation, OwnedWorkload, Reading};
use crate::pool::phase::Phase;
use crate::pool::settle;
use crate::pool::step::{ClosedStep, Effect, Next, RowChange, StepContext, WaitReason, Waiting};
use crate::store::port::StepOutcome;

/// Row, observation, context and time of one decision.
#[derive(Clone, Copy)]
pub(in crate::pool) struct View<'a> {
    pub row: &'a InstanceRow,
    pub seen: &'a Observation,
    pub ctx: &'a StepContext,
    pub now: Timestamp,
}

impl<'a> View<'a> {
    pub fn wait(self, reason: WaitReason, detail: impl Into<String>) -> Next {
        Next::Wait(Waiting {
            reason,
            detail: detail.into(),
            deadline: super::deadline(self.row, &self.ctx.timings),
        })
    }

    /// Sends one request; `attempt` tells it from another of the same action.
    pub fn send(self, action: MemberAction, attempt: &str) -> Next {
        Next::perform(Effect::Member(request(self.row, action, attempt)))
    }

    /// The open step, closed.
    pub fn closed(self, outcome: StepOutcome) -> Option<ClosedStep> {
        self.ctx.open_step.as_ref().map(|open| ClosedStep {
            operation: open.operation.clone(),
            step: open.step.clone(),
            outcome,
        })
    }

    /// The gateway's answer about the member, or why there is none.
    pub fn member(self) -> Result<Option<&'a Member>, Next> {
        match &self.seen.member {
            Reading::Seen(member) => Ok(member.as_ref()),
            Reading::NotAsked => Err(self.wait(WaitReason::Unknown, "the gateway was not asked")),
            Reading::Unknown(fault) => Err(self.unknown(fault)),
        }
    }

    /// The member of exactly this registration: anybody else's is never acted upon.
    pub fn own_member(self) -> Result<&'a Member, Next> {
        let Some(member) = self.member()? else {
            return Err(self.wait(
                WaitReason::NotAtTheGateway,
                "the gateway does not know the member that it registered",
            ));
        };
        match &self.row.member {
            Some(known) if known.incarnation == member.incarnation => Ok(member),
            Some(known) => Err(self.wait(
                WaitReason::NotAtTheGateway,
                format!(
                    "the gateway holds registration {}, the row {}",
                    member.incarnation, known.incarnation
                ),
            )),
            None => Err(self.wait(WaitReason::Unknown, "the row records no registration")),
        }
    }

    pub fn owned(self) -> Result<&'a OwnedWorkload, Next> {
        match &self.seen.owned {
            Reading::Seen(owned) => Ok(owned),
            Reading::NotAsked => Err(self.wait(WaitReason::Unknown, "its objects were not read")),
            Reading::Unknown(fault) => Err(self.unknown(fault)),
        }
    }

    pub fn unknown(self, fault: &Fault) -> Next {
        self.wait(WaitReason::Unknown, fault.to_string())
    }

    /// A member phase in which nothing of what was intended can be done.
    pub fn unexpected(self, member: &Member) -> Next {
        self.wait(
            WaitReason::Unknown,
            format!(
                "the gateway's member is {:?} while the row is {}",
                member.phase, self.row.phase
            ),
        )
    }

    /// The identity of the live coordinator, once Kubernetes and the coordinator itself have told all of it.
    pub fn live_process(self, owned: &OwnedWorkload) -> Option<ProcessIdentity> {
        let info = self.seen.info.seen()?;
        let pod = super::creating::live_coordinator(owned)?;
        let container = self.row.blueprint.as_ref().ok().and_then(|blueprint| {
            pod.containers
                .get(&blueprint.container)
                .and_then(|status| status.running.clone())
        });
        Some(ProcessIdentity {
            pod: pod.uid.clone(),
            container,
            boot: info.boot()?,
            node: info.node.clone()?,
            coordinator: info.coordinator.clone()?,
        })
    }
}

/// Moves the row to a phase, with the gateway's member as just read.
pub(in crate::pool) fn advance(to: Phase, member: &Member) -> Next {
    Next::record(RowChange {
        to: Some(to),
        changes: InstanceChanges {
            member: Some(settle::handle(member)),
            ..InstanceChanges::default()
        },
        closes: None,
    })
}
