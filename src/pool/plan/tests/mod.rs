//! Pools in a few words, for the planner's tests.

mod budget;
mod convergence;
mod drains;
mod modes;
mod order;
mod places;
mod properties;
mod repairs;
mod surges;
mod urgency;

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Action, EvidenceView, InstanceView, Plan, PlanInput, PlanReason, PlanTimings, ReplacementBudget, plan,
};
use crate::gateway::model::MemberPhase;
use crate::pool::desired::{PoolMode, Timings};
use crate::pool::evidence::Disruption;
use crate::pool::ids::{InstanceId, ReleaseId};
use crate::pool::instance::FailureCause;
use crate::pool::outdated::Outdated;
use crate::pool::phase::Phase;
use crate::pool::step::{WaitReason, Waiting};
use crate::pool::testing::view;
use crate::store::port::FailureMemory;

/// Noon of a day; everything else is told in seconds before it.
pub(super) fn noon() -> Timestamp {
    "2026-12-02T12:00:00Z".parse().unwrap()
}

pub(super) fn ago(seconds: u64) -> Timestamp {
    noon().saturating_sub(Duration::from_secs(seconds)).unwrap()
}

pub(super) fn id(name: &str) -> InstanceId {
    InstanceId::new(name)
}

/// A pool of `desired` with floor `floor`, surge 1, repair 1, and these instances.
pub(super) fn pool(desired: u32, floor: u32, views: Vec<InstanceView>) -> PlanInput {
    PlanInput {
        desired,
        min_serving: floor,
        max_surge: 1,
        max_repair: 1,
        release: ReleaseId::from("r2"),
        mode: PoolMode::Open,
        timings: PlanTimings::from(&Timings::default()),
        now: noon(),
        failures: Vec::new(),
        budget: ReplacementBudget::Unlimited,
        gateway_active: None,
        views,
    }
}

/// An instance as the gateway usually holds one in that phase, an hour old and two minutes in its phase.
pub(super) fn instance(name: &str, phase: Phase) -> InstanceView {
    InstanceView {
        member: member_in(phase),
        phase_changed_at: ago(120),
        ..view(name, phase, ago(3600))
    }
}

pub(super) fn member_in(phase: Phase) -> Option<MemberPhase> {
    match phase {
        Phase::Pending | Phase::Creating | Phase::FailedPreparing | Phase::Unrecognised => None,
        Phase::Preparing | Phase::Validating => Some(MemberPhase::Preparing),
        Phase::Admitted | Phase::Serving => Some(MemberPhase::Active),
        Phase::Draining => Some(MemberPhase::Draining),
        Phase::Sealed => Some(MemberPhase::Sealed),
        Phase::Retiring => Some(MemberPhase::Retiring),
        Phase::Suspect => Some(MemberPhase::Suspect),
        Phase::Lost => Some(MemberPhase::Lost),
        Phase::Retired | Phase::FailureRetired => Some(MemberPhase::Retired),
    }
}

pub(super) fn serving(name: &str) -> InstanceView {
    instance(name, Phase::Serving)
}

impl InstanceView {
    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn drifted(self, observed_ago: u64) -> Self {
        self.leaving(Disruption::Drifted, observed_ago, None)
    }

    pub(super) fn leaving(self, urgency: Disruption, observed_ago: u64, deadline: Option<Timestamp>) -> Self {
        self.with(|view| {
            view.evidence = EvidenceView::Some {
                urgency,
                observed_at: ago(observed_ago),
                deadline,
            };
        })
    }

    pub(super) fn old_release(self) -> Self {
        self.with(|view| view.outdated = Outdated::Release)
    }

    pub(super) fn doubtful(self) -> Self {
        self.with(|view| {
            view.suspected_locally = true;
            view.answering = false;
        })
    }

    /// Its last known reading is bad, and has not been for long; or it was never read in this term.
    pub(super) fn silent(self) -> Self {
        self.with(|view| view.answering = false)
    }

    /// The gateway says that it does not hold its registration.
    pub(super) fn unregistered(self) -> Self {
        self.with(|view| view.unregistered = true)
    }

    /// Asked to go this long ago; the answer was lost.
    pub(super) fn in_doubt(self, seconds: u64) -> Self {
        self.with(|view| {
            view.leaving = true;
            view.leaving_since = Some(ago(seconds));
        })
    }

    pub(super) fn repairs(self, target: &str) -> Self {
        self.with(|view| view.repair_for = Some(id(target)))
    }

    pub(super) fn since(self, seconds: u64) -> Self {
        self.with(|view| view.phase_changed_at = ago(seconds))
    }

    /// A candidate whose deadline passed this long ago, and what it waits for.
    pub(super) fn overdue(self, seconds: u64) -> Self {
        self.with(|view| {
            view.deadline = Some(ago(seconds));
            view.waiting = Some(Waiting {
                reason: WaitReason::NodesUnproven,
                detail: "KubernetesFailed: 500 (node ip-10-0-1-7)".to_owned(),
                deadline: view.deadline,
            });
        })
    }

    pub(super) fn born(self, seconds: u64) -> Self {
        self.with(|view| view.created_at = ago(seconds))
    }
}

pub(super) fn failed(cause: FailureCause, count: u32, seconds_ago: u64) -> FailureMemory {
    FailureMemory {
        cause,
        count,
        last_at: ago(seconds_ago),
        detail: "node ip-10-0-1-7 has no NodeClaim".to_owned(),
    }
}

pub(super) fn create() -> Action {
    Action::Create { repair_for: None }
}

pub(super) fn repair(target: &str) -> Action {
    Action::Create {
        repair_for: Some(id(target)),
    }
}

pub(super) fn drain(name: &str) -> Action {
    Action::Drain(id(name))
}

/// The report as a person reads it.
pub(super) fn told(plan: &Plan) -> String {
    let lines: Vec<String> = plan.report.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
