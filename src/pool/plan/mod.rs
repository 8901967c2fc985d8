//! The planner: from what is known of a pool to at most one lifecycle action, and why.
//!
//! Owns the order in which a pool's needs are met. It reads nothing and writes nothing; the same input,
//! in whatever order its views stand, gives the same plan. It never asks for a deletion: a drain is the
//! most it does, and everything after a drain is decided by the instance's own lifecycle.
//!
//! ```text
//!   mode ──▶ repair ──▶ capacity ──▶ replacement ──▶ scale-in
//!            (repair     (live below  (evidence, then   (surplus)
//!             budget)     desired)     rollout; surge)
//! ```
//!
//! Each rule acts, waits for something, or has nothing to do. The first that acts decides; when none
//! acts, the first that waits gives the plan its reason. A rule that waits never hides the ones behind
//! it: one stuck object costs its own slot, not the pool.

mod budget;
mod capacity;
mod census;
mod emptying;
mod places;
mod reason;
mod repair;
mod replacement;
mod scale_in;
#[cfg(test)]
mod tests;
mod urgency;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

pub use self::budget::{holds_a_place, wish};
use self::census::Census;
pub use self::places::{Standing, default_places, permitted};
pub use self::reason::{Cause, Held, PlanReason};
pub use self::urgency::Urgency;
use super::desired::{DesiredPool, PoolMode, Timings};
use super::evidence::Disruption;
use super::floor::serves;
use super::ids::{InstanceId, ReleaseId};
use super::outdated::Outdated;
use super::phase::Phase;
use super::step::Waiting;
use crate::gateway::model::MemberPhase;
use crate::store::port::FailureMemory;

/// Everything a plan depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanInput {
    /// Instances that should serve.
    pub desired: u32,
    /// The serving floor.
    pub min_serving: u32,
    /// Extra instances for planned replacement.
    pub max_surge: u32,
    /// Extra instances for failures.
    pub max_repair: u32,
    /// The desired release.
    pub release: ReleaseId,
    /// Whether the pool may act. `Emptying` lifts the floor and the need of a replacement.
    pub mode: PoolMode,
    /// How long things may take.
    pub timings: PlanTimings,
    /// When this plan is made.
    pub now: Timestamp,
    /// What is remembered of failed candidates.
    pub failures: Vec<FailureMemory>,
    /// The share of the cluster-wide replacement budget that is left for this pool.
    pub budget: ReplacementBudget,
    /// Members that the gateway holds ACTIVE, when it said so in this round.
    pub gateway_active: Option<u32>,
    /// Every instance that is not terminal, in any order.
    pub views: Vec<InstanceView>,
}

impl PlanInput {
    /// The input for a pool's desired state; views, failures and budget still to be filled in.
    #[must_use]
    pub fn new(desired: &DesiredPool, mode: PoolMode, now: Timestamp) -> Self {
        Self {
            desired: desired.instances,
            min_serving: desired.min_serving,
            max_surge: desired.max_surge,
            max_repair: desired.max_repair,
            release: desired.blueprint.release.clone(),
            mode,
            timings: PlanTimings::from(&desired.timings),
            now,
            failures: Vec::new(),
            budget: ReplacementBudget::default(),
            gateway_active: None,
            views: Vec::new(),
        }
    }

    /// Instances that must serve before anything planned is taken away.
    pub(crate) fn target(&self) -> u32 {
        self.desired.max(self.min_serving)
    }
}

/// Durations the planner judges by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanTimings {
    /// Age of a drain beyond which another may start beside it (S7).
    pub drain_stuck_after: Duration,
    /// First pause after a failed candidate.
    pub candidate_backoff: Duration,
    /// Longest such pause, and the rest after an edit.
    pub candidate_backoff_max: Duration,
    /// How long an admitted instance is taken for one that is about to serve. After that it only
    /// occupies its slot: a member that never becomes eligible must not hold the pool up.
    pub admitted_patience: Duration,
}

impl From<&Timings> for PlanTimings {
    fn from(timings: &Timings) -> Self {
        Self {
            drain_stuck_after: timings.drain_stuck_after,
            candidate_backoff: timings.candidate_backoff,
            candidate_backoff_max: timings.candidate_backoff_max,
            admitted_patience: timings.validating_deadline,
        }
    }
}

/// Planned replacements that may still be started in the whole cluster. Repairs, scale-up and drains
/// for which a replacement already serves never need one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReplacementBudget {
    /// No cluster-wide limit is configured.
    #[default]
    Unlimited,
    /// This many are left.
    Left(u32),
}

/// One instance as the planner sees it.
// Independent facts of one instance, not states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceView {
    /// Which.
    pub id: InstanceId,
    /// Where its row stands.
    pub phase: Phase,
    /// Sustained bad readings that the gateway has not been told about: it does not count as serving
    /// where a drain is weighed, and opens no repair.
    pub suspected_locally: bool,
    /// It answered well when it was last read in this term: only then a drain may count on it (S5).
    pub answering: bool,
    /// The gateway said that it holds no such registration: it gets no work, whatever the row says, and no
    /// repair can name it.
    pub unregistered: bool,
    /// A drain or a suspicion of it is journaled and not settled: queued, under way, or its answer was
    /// lost. Nobody knows whether it still takes work, so it counts as departing.
    pub leaving: bool,
    /// When that step was first sent; sent again and again, it is not younger. `None` without such a step.
    pub leaving_since: Option<Timestamp>,
    /// The member's phase at the gateway when last recorded; `None` before registration.
    pub member: Option<MemberPhase>,
    /// How it compares with the desired blueprint.
    pub outdated: Outdated,
    /// What is recorded of a node going away beneath it.
    pub evidence: EvidenceView,
    /// One of its nodes has a finite termination grace: protection there is not absolute.
    pub at_risk: bool,
    /// The instance it repairs; it is on the repair budget for life.
    pub repair_for: Option<InstanceId>,
    /// When its row was written.
    pub created_at: Timestamp,
    /// Since when it is in its phase.
    pub phase_changed_at: Timestamp,
    /// When the progress deadline of its phase passes; `None` for a phase without one.
    pub deadline: Option<Timestamp>,
    /// What a draining member still owes; `None` when not asked or not answered.
    pub outstanding: Option<u64>,
    /// Why it does nothing now, when it said so last.
    pub waiting: Option<Waiting>,
}

impl InstanceView {
    /// Whether it is counted as serving.
    pub(in crate::pool) const fn serves(&self) -> bool {
        serves(self.phase, self.unregistered)
    }
}

/// Recorded evidence, as far as order and permission depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EvidenceView {
    /// None is recorded.
    #[default]
    None,
    /// A valid record.
    Some {
        /// The live reason: `Deleting` once a drifted node's claim is deleted, whatever was recorded.
        urgency: Disruption,
        /// When it was recorded.
        observed_at: Timestamp,
        /// When the node's protected pods are ended by force, if that is known.
        deadline: Option<Timestamp>,
    },
    /// Something is recorded and cannot be read: blocks its own instance, and only that (L2).
    Unreadable,
}

/// The plan: at most one action, its reason, and what every rule found on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to do.
    pub action: Action,
    /// Why, or why nothing.
    pub reason: PlanReason,
    /// What each rule concluded, in the order in which they were asked.
    pub report: Vec<Line>,
}

/// One lifecycle action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing now.
    None,
    /// Write the row of a new instance; on the repair budget when it repairs one.
    Create {
        /// The instance it repairs.
        repair_for: Option<InstanceId>,
    },
    /// Ask the gateway to drain this one.
    Drain(InstanceId),
}

/// One line of the planning report.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Which rule.
    pub rule: Rule,
    /// What it found.
    pub finding: Finding,
}

/// The rules, in the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Whether the pool may act at all.
    Mode,
    /// Failed members get a replacement on the repair budget.
    Repair,
    /// Fewer instances live than desired.
    Capacity,
    /// Instances under evidence or outdated are replaced.
    Replacement,
    /// More instances serve than desired.
    ScaleIn,
    /// Members that the gateway does not hold. It never acts.
    Members,
    /// Candidates that outlived their deadline and may not be given up. It never acts.
    Candidates,
}

impl Rule {
    /// The rule's name in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Repair => "repair",
            Self::Capacity => "capacity",
            Self::Replacement => "replacement",
            Self::ScaleIn => "scale-in",
            Self::Members => "members",
            Self::Candidates => "candidates",
        }
    }
}

/// What a rule found.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// Nothing to do.
    Idle,
    /// It waits, and for what.
    Waits(PlanReason),
    /// It acts.
    Acts(PlanReason),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.rule.as_str();
        match &self.finding {
            Finding::Idle => write!(f, "{rule}: nothing to do"),
            Finding::Waits(reason) => write!(f, "{rule} waits: {reason}"),
            Finding::Acts(reason) => write!(f, "{rule} acts: {reason}"),
        }
    }
}

/// What a rule decided, before the planner writes it down.
enum Verdict {
    Idle,
    Waits(Vec<PlanReason>),
    Acts(Action, PlanReason, Vec<PlanReason>),
}

/// Plans. Pure, total, independent of the order of the views.
#[must_use]
pub fn plan(input: &PlanInput) -> Plan {
    let census = Census::of(input);
    if let Some(reason) = forbidden(input) {
        return Plan {
            action: Action::None,
            report: vec![Line {
                rule: Rule::Mode,
                finding: Finding::Waits(reason.clone()),
            }],
            reason,
        };
    }
    let unregistered = census.unregistered().map(|reason| (Rule::Members, reason));
    if input.mode == PoolMode::Emptying {
        let verdicts = vec![(Rule::ScaleIn, emptying::verdict(input, &census))];
        return decide(&census, unregistered.into_iter().collect(), verdicts);
    }
    let stuck = census
        .stuck
        .iter()
        .map(|candidate| (Rule::Candidates, census.stuck_reason(candidate, input)));
    decide(
        &census,
        unregistered.into_iter().chain(stuck).collect(),
        vec![
            (Rule::Repair, repair::verdict(input, &census)),
            (Rule::Capacity, capacity::verdict(input, &census)),
            (Rule::Replacement, replacement::verdict(input, &census)),
            (Rule::ScaleIn, scale_in::verdict(input, &census)),
        ],
    )
}

/// Why the pool may not act at all, if so.
fn forbidden(input: &PlanInput) -> Option<PlanReason> {
    // A pool that is emptied needs no count.
    let countless = || input.desired == 0 && input.mode != PoolMode::Emptying;
    PlanReason::standstill(&input.mode).or_else(|| countless().then_some(PlanReason::NoDesiredCount))
}

/// The first rule that acts decides. Members that the gateway does not hold and candidates that are stuck are
/// told beside whatever is done, and give the plan its reason only when nothing else does.
fn decide(census: &Census<'_>, beside: Vec<(Rule, PlanReason)>, verdicts: Vec<(Rule, Verdict)>) -> Plan {
    let converged = PlanReason::Converged {
        serving: census.serving,
    };
    let quiet = beside.first().map_or(converged, |(_, reason)| reason.clone());
    let told = |(rule, reason)| Line {
        rule,
        finding: Finding::Waits(reason),
    };
    let mut report: Vec<Line> = beside.into_iter().map(told).collect();
    let mut waits_for = None;
    for (rule, verdict) in verdicts {
        let mut waits = |reasons: Vec<PlanReason>, report: &mut Vec<Line>| {
            for reason in reasons {
                if waits_for.is_none() {
                    waits_for = Some(reason.clone());
                }
                report.push(Line {
                    rule,
                    finding: Finding::Waits(reason),
                });
            }
        };
        match verdict {
            Verdict::Idle => report.push(Line {
                rule,
                finding: Finding::Idle,
            }),
            Verdict::Waits(reasons) => waits(reasons, &mut report),
            Verdict::Acts(action, reason, before) => {
                waits(before, &mut report);
                report.push(Line {
                    rule,
                    finding: Finding::Acts(reason.clone()),
                });
                return Plan {
                    action,
                    reason,
                    report,
                };
            }
        }
    }
    Plan {
        action: Action::None,
        reason: waits_for.unwrap_or(quiet),
        report,
    }
}
