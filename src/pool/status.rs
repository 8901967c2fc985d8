//! What a pool's actor writes into `status` of its TrinoPool: a pure summary of rows, plan and faults.
//!
//! Nothing is decided by it, and nothing reads it back except `storeId`. A condition keeps its
//! `lastTransitionTime` for as long as its status stays the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::desired::{DesiredPool, PoolMode};
use super::ids::{InstanceId, SpecGeneration, StoreId};
use super::observation::Fault;
use super::phase::Phase;
use super::plan::{Action, EvidenceView, InstanceView, Plan, PlanReason};
use crate::cluster::resource::TrinoPoolStatus;

/// Longest message of a condition; Kubernetes' own limit is 32 KiB.
const MESSAGE_MAX: usize = 1000;

/// Everything a status says.
#[derive(Clone, Copy, Debug)]
pub struct StatusInput<'a> {
    /// `metadata.generation` that was looked at, valid or not.
    pub generation: SpecGeneration,
    /// The store that acts for the pool.
    pub store: Option<&'a StoreId>,
    /// Whether the pool may act.
    pub mode: &'a PoolMode,
    /// The desired state in force, if there ever was one.
    pub desired: Option<&'a DesiredPool>,
    /// Every instance that is not terminal.
    pub views: &'a [InstanceView],
    /// The plan of this tick; `None` when it was not reached.
    pub plan: Option<&'a Plan>,
    /// Node replacement, as it stands.
    pub node_replacement: &'a NodeReplacementState,
    /// What node replacement may not do, so that it works worse than it could; needs a person.
    pub impediment: Option<&'a Fault>,
    /// So much fails at once that the fault may be ours (S6).
    pub probes_blind: bool,
    /// Why the gateway could not be used in this tick: a label and a sentence. Its steps wait, nothing else does (S11).
    pub gateway: Option<(&'a str, &'a str)>,
    /// When this is written.
    pub now: Timestamp,
    /// The conditions that stand now, for their transition times.
    pub previous: &'a [Condition],
}

/// Whether node replacement works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeReplacementState {
    /// Off: the process flag or `spec.nodeReplacement.enabled` is not true. Says which.
    Off(String),
    /// The process flag is on, and no desired state is known that could say the rest.
    Unknown,
    /// On, and its prerequisites hold.
    Active,
    /// On, and a hard prerequisite fails: a label and a sentence.
    Blocked {
        /// CamelCase.
        reason: String,
        /// What to do.
        message: String,
    },
}

/// The status of a pool. Pure; conditions stand in a fixed order.
#[must_use]
pub fn pool_status(input: &StatusInput<'_>) -> TrinoPoolStatus {
    if input.mode.trusts_its_store() {
        return derived(input);
    }
    // What a store that is not the pool's knows is about another world's instances.
    derived(&StatusInput {
        desired: None,
        views: &[],
        probes_blind: false,
        impediment: None,
        ..*input
    })
}

fn derived(input: &StatusInput<'_>) -> TrinoPoolStatus {
    let mut phases: BTreeMap<String, u32> = BTreeMap::new();
    for view in input.views {
        *phases.entry(view.phase.as_str().to_owned()).or_default() += 1;
    }
    // What the gateway does not hold takes no work, whatever its row says.
    let serving = count(input.views, InstanceView::serves);
    let replacing = count(input.views, |view| {
        view.phase == Phase::Serving && view.evidence != EvidenceView::None
    });
    let (reason, message) = headline(input);
    let claims = [
        ready(input, serving),
        progressing(input),
        node_replacement(input),
        blocked(input),
        frozen(input.mode),
    ];
    TrinoPoolStatus {
        observed_generation: i64::try_from(input.generation.get()).unwrap_or(i64::MAX),
        store_id: input.store.map(ToString::to_string),
        // Without a desired state nobody knows what should be there, and perhaps not what is: zero would be a claim.
        phases: input.desired.map(|_| phases),
        serving: input.desired.map(|_| serving),
        desired: input.desired.map(|desired| desired.instances),
        min_serving: input.desired.map(|desired| desired.min_serving),
        replacing: input.desired.map(|_| replacing),
        at_risk: input.desired.map(|_| at_risk(input.views)),
        forced_end_at: forced_end(input.views).map(|(_, at)| at.to_string()),
        reason: Some(reason),
        message: Some(short(&message)),
        conditions: claims
            .into_iter()
            .map(|claim| claim.into_condition(input))
            .collect(),
    }
}

/// Whether a condition holds: the words of Kubernetes.
#[derive(Clone, Copy)]
enum Holds {
    True,
    False,
    Unknown,
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// One condition before its time is known.
struct Claim {
    kind: &'static str,
    holds: Holds,
    reason: String,
    message: String,
}

impl Claim {
    fn new(
        kind: &'static str,
        holds: impl Into<Holds>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            holds: holds.into(),
            reason: reason.into(),
            message: message.into(),
        }
    }

    fn into_condition(self, input: &StatusInput<'_>) -> Condition {
        let status = match self.holds {
            Holds::True => "True",
            Holds::False => "False",
            Holds::Unknown => "Unknown",
        };
        let since = input
            .previous
            .iter()
            .find(|previous| previous.type_ == self.kind && previous.status == status)
            .map_or(Time(input.now), |previous| previous.last_transition_time.clone());
        Condition {
            type_: self.kind.to_owned(),
            status: status.to_owned(),
            reason: self.reason,
            message: short(&self.message),
            last_transition_time: since,
            observed_generation: i64::try_from(input.generation.get()).ok(),
        }
    }
}

/// The one reason that `kubectl get` shows: what a person should look at first.
fn headline(input: &StatusInput<'_>) -> (String, String) {
    if input.probes_blind {
        return probes_blind();
    }
    if let PoolMode::Held(problems) = input.mode {
        return ("SpecInvalid".to_owned(), problems.clone());
    }
    if let Some((label, message)) = standstill(input.mode) {
        return (label.to_owned(), message);
    }
    if let Some((label, detail)) = input.gateway {
        let message = format!("{detail}; steps that need the gateway wait, everything else goes on");
        return (label.to_owned(), message);
    }
    planned(input)
}

/// Why the pool as a whole creates and drains nothing, if so: a label and a sentence.
pub(crate) fn standstill(mode: &PoolMode) -> Option<(&'static str, String)> {
    let reason = PlanReason::standstill(mode)?;
    let label = match mode {
        PoolMode::Frozen(why) => why.label(),
        PoolMode::Retained | PoolMode::Open | PoolMode::Held(_) | PoolMode::Emptying => reason.label(),
    };
    Some((label, reason.to_string()))
}

fn planned(input: &StatusInput<'_>) -> (String, String) {
    match input.plan {
        Some(plan) => (plan.reason.label().to_owned(), plan.reason.to_string()),
        None => (
            "NotPlanned".to_owned(),
            "no plan was made in this tick".to_owned(),
        ),
    }
}

fn probes_blind() -> (String, String) {
    (
        "ProbesBlind".to_owned(),
        "several coordinators fail at once: the fault may lie between this operator and them, so none is told \
         to the gateway; check this operator's own network first"
            .to_owned(),
    )
}

fn ready(input: &StatusInput<'_>, serving: u32) -> Claim {
    if input.probes_blind {
        let (reason, message) = probes_blind();
        return Claim::new("Ready", false, reason, message);
    }
    let Some(floor) = input.desired.map(|desired| desired.min_serving) else {
        return match standstill(input.mode) {
            // What serves is another store's knowledge, or nobody's.
            Some((label, message)) => Claim::new("Ready", Holds::Unknown, label, message),
            None => Claim::new("Ready", false, "NoDesiredState", "no valid spec was ever read"),
        };
    };
    let doubtful = count(input.views, |view| view.serves() && view.suspected_locally);
    let healthy = serving.saturating_sub(doubtful);
    let message = format!("{healthy} of {serving} serving answer well, the floor is {floor}");
    if healthy >= floor {
        Claim::new("Ready", true, "FloorKept", message)
    } else {
        Claim::new("Ready", false, "BelowFloor", message)
    }
}

fn progressing(input: &StatusInput<'_>) -> Claim {
    let moving = count(input.views, |view| view.phase != Phase::Serving);
    let (reason, message) = planned(input);
    let acts = input.plan.is_some_and(|plan| plan.action != Action::None);
    Claim::new("Progressing", acts || moving > 0, reason, message)
}

fn node_replacement(input: &StatusInput<'_>) -> Claim {
    const KIND: &str = "NodeReplacement";
    match input.node_replacement {
        NodeReplacementState::Off(why) => Claim::new(KIND, false, "Off", why.clone()),
        NodeReplacementState::Unknown => Claim::new(
            KIND,
            Holds::Unknown,
            "NoDesiredState",
            "no desired state is known; until one is, nothing is protected or replaced",
        ),
        NodeReplacementState::Active => {
            let (reason, message) = active(input);
            Claim::new(KIND, true, reason, message)
        }
        NodeReplacementState::Blocked { reason, message } => {
            Claim::new(KIND, false, "Blocked", format!("{reason}: {message}"))
        }
    }
}

/// How well it works: the most urgent that a person should know.
fn active(input: &StatusInput<'_>) -> (String, String) {
    if let Some((instance, at)) = forced_end(input.views) {
        let message = format!(
            "Karpenter ends pods of {instance} by force at {at}, whatever protects them: its NodeClaim is being deleted \
             and has a terminationGracePeriod"
        );
        return ("ForcedEnd".to_owned(), message);
    }
    if let Some(Fault {
        label,
        subject,
        detail,
    }) = input.impediment
    {
        return (
            (*label).to_owned(),
            format!("{subject}: {detail}; everything else goes on"),
        );
    }
    let at_risk = at_risk(input.views);
    if at_risk > 0 {
        let message = format!(
            "{at_risk} serve on nodes with a terminationGracePeriod, at whose end Karpenter ends protected pods too"
        );
        return ("AtRisk".to_owned(), message);
    }
    let message = "instances are replaced before the nodes beneath them are disrupted";
    ("Active".to_owned(), message.to_owned())
}

/// How many serve where protection is not absolute.
fn at_risk(views: &[InstanceView]) -> u32 {
    count(views, |view| view.phase == Phase::Serving && view.at_risk)
}

/// The first forced end of an instance that serves or still drains, and whose it is.
fn forced_end(views: &[InstanceView]) -> Option<(&InstanceId, Timestamp)> {
    let needs_them = |view: &&InstanceView| view.phase == Phase::Serving || view.phase.is_departing();
    let ends = views
        .iter()
        .filter(needs_them)
        .filter_map(|view| match view.evidence {
            EvidenceView::Some { deadline, .. } => Some((&view.id, deadline?)),
            EvidenceView::None | EvidenceView::Unreadable => None,
        });
    ends.min_by_key(|(id, at)| (*at, *id))
}

/// Something does not end by itself.
fn blocked(input: &StatusInput<'_>) -> Claim {
    const KIND: &str = "Blocked";
    if let PoolMode::Held(problems) = input.mode {
        let message = format!("the last valid spec stays in force: {problems}");
        return Claim::new(KIND, true, "SpecInvalid", message);
    }
    // Also before there is a plan: a store that knows nothing of the pool cannot make one.
    if let Some((label, message)) = standstill(input.mode) {
        return Claim::new(KIND, true, label, message);
    }
    match input.plan.map(|plan| &plan.reason) {
        Some(reason) if reason.needs_a_person() => Claim::new(KIND, true, reason.label(), reason.to_string()),
        Some(_) | None => match unreadable(input.plan) {
            Some(reason) => Claim::new(KIND, true, reason.label(), reason.to_string()),
            None => Claim::new(KIND, false, "NotBlocked", "nothing waits for a person"),
        },
    }
}

/// A wait that needs a person and stands behind one that does not.
fn unreadable(plan: Option<&Plan>) -> Option<&PlanReason> {
    plan?.report.iter().find_map(|line| match &line.finding {
        super::plan::Finding::Waits(reason) => reason.needs_a_person().then_some(reason),
        super::plan::Finding::Idle | super::plan::Finding::Acts(_) => None,
    })
}

fn frozen(mode: &PoolMode) -> Claim {
    const KIND: &str = "Frozen";
    match standstill(mode) {
        Some((label, message)) => Claim::new(KIND, true, label, message),
        None => Claim::new(KIND, false, "NotFrozen", "the pool may create and drain"),
    }
}

fn count(views: &[InstanceView], test: impl Fn(&InstanceView) -> bool) -> u32 {
    u32::try_from(views.iter().filter(|view| test(view)).count()).unwrap_or(u32::MAX)
}

fn short(message: &str) -> String {
    if message.chars().count() <= MESSAGE_MAX {
        return message.to_owned();
    }
    let mut short: String = message.chars().take(MESSAGE_MAX - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests;
