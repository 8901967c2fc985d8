//! What a pool's actor writes into `status` of its TrinoPool: a pure summary of rows, plan and faults.
//!
//! Nothing is decided by it, and nothing reads it back except `storeId`. A condition keeps its
//! `lastTransitionTime` for as long as its status stays the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::desired::{DesiredPool, PoolMode};
use super::ids::{SpecGeneration, StoreId};
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
    let mut phases: BTreeMap<String, u32> = BTreeMap::new();
    for view in input.views {
        *phases.entry(view.phase.as_str().to_owned()).or_default() += 1;
    }
    // What the gateway does not hold takes no work, whatever its row says.
    let serving = count(input.views, |view| {
        view.phase == Phase::Serving && !view.unregistered
    });
    let (desired, floor) = input
        .desired
        .map_or((0, 0), |desired| (desired.instances, desired.min_serving));
    let (reason, message) = headline(input);
    let claims = [
        ready(input, serving, floor),
        progressing(input),
        node_replacement(input.node_replacement),
        blocked(input),
        frozen(input.mode),
    ];
    TrinoPoolStatus {
        observed_generation: i64::try_from(input.generation.get()).unwrap_or(i64::MAX),
        store_id: input.store.map(ToString::to_string),
        phases,
        serving,
        desired,
        min_serving: floor,
        replacing: count(input.views, |view| {
            view.phase == Phase::Serving && view.evidence != EvidenceView::None
        }),
        at_risk: count(input.views, |view| view.phase == Phase::Serving && view.at_risk),
        reason: Some(reason),
        message: Some(short(&message)),
        conditions: claims
            .into_iter()
            .map(|claim| claim.into_condition(input))
            .collect(),
    }
}

/// One condition before its time is known.
struct Claim {
    kind: &'static str,
    holds: bool,
    reason: String,
    message: String,
}

impl Claim {
    fn new(kind: &'static str, holds: bool, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            holds,
            reason: reason.into(),
            message: message.into(),
        }
    }

    fn into_condition(self, input: &StatusInput<'_>) -> Condition {
        let status = if self.holds { "True" } else { "False" };
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
    if let Some((label, detail)) = input.gateway {
        let message = format!("{detail}; steps that need the gateway wait, everything else goes on");
        return (label.to_owned(), message);
    }
    planned(input)
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

fn ready(input: &StatusInput<'_>, serving: u32, floor: u32) -> Claim {
    if input.probes_blind {
        let (reason, message) = probes_blind();
        return Claim::new("Ready", false, reason, message);
    }
    if input.desired.is_none() {
        return Claim::new("Ready", false, "NoDesiredState", "no valid spec was ever read");
    }
    let doubtful = count(input.views, |view| {
        view.phase == Phase::Serving && view.suspected_locally && !view.unregistered
    });
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

fn node_replacement(state: &NodeReplacementState) -> Claim {
    const KIND: &str = "NodeReplacement";
    match state {
        NodeReplacementState::Off(why) => Claim::new(KIND, false, "Off", why.clone()),
        NodeReplacementState::Active => Claim::new(
            KIND,
            true,
            "Active",
            "instances are replaced before the nodes beneath them are disrupted",
        ),
        NodeReplacementState::Blocked { reason, message } => {
            Claim::new(KIND, false, "Blocked", format!("{reason}: {message}"))
        }
    }
}

/// Something does not end by itself.
fn blocked(input: &StatusInput<'_>) -> Claim {
    const KIND: &str = "Blocked";
    if let PoolMode::Held(problems) = input.mode {
        let message = format!("the last valid spec stays in force: {problems}");
        return Claim::new(KIND, true, "SpecInvalid", message);
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
    match mode {
        PoolMode::Frozen(why) => {
            let reason = PlanReason::Frozen(why.clone());
            Claim::new(KIND, true, why.label(), reason.to_string())
        }
        PoolMode::Retained => Claim::new(KIND, true, "Retained", PlanReason::Retained.to_string()),
        PoolMode::Open | PoolMode::Held(_) | PoolMode::Emptying => {
            Claim::new(KIND, false, "NotFrozen", "the pool may create and drain")
        }
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
mod tests {
    use super::*;
    use crate::pool::desired::FreezeReason;
    use crate::pool::evidence::Disruption;
    use crate::pool::ids::Namespace;
    use crate::pool::outdated::Outdated;
    use crate::pool::plan::{PlanInput, plan};
    use crate::pool::step::{WaitReason, Waiting};
    use crate::pool::validate::{example_spec, validate};

    fn now() -> Timestamp {
        "2026-12-02T12:00:00Z".parse().unwrap()
    }

    fn desired() -> DesiredPool {
        validate(&Namespace::from("trino"), &example_spec("analytics")).unwrap()
    }

    fn view(name: &str, phase: Phase) -> InstanceView {
        InstanceView {
            id: name.into(),
            phase,
            suspected_locally: false,
            answering: true,
            unregistered: false,
            leaving: false,
            leaving_since: None,
            member: None,
            outdated: Outdated::No,
            evidence: EvidenceView::None,
            at_risk: false,
            repair_for: None,
            created_at: now(),
            phase_changed_at: now(),
            deadline: None,
            outstanding: None,
            waiting: None,
        }
    }

    fn serving(names: &[&str]) -> Vec<InstanceView> {
        names.iter().map(|name| view(name, Phase::Serving)).collect()
    }

    fn status(mode: &PoolMode, views: &[InstanceView], probes_blind: bool) -> TrinoPoolStatus {
        let desired = desired();
        let mut input = PlanInput::new(&desired, mode.clone(), now());
        input.views = views.to_vec();
        let plan = plan(&input);
        pool_status(&StatusInput {
            generation: SpecGeneration::new(4),
            store: Some(&StoreId::from("store-1")),
            mode,
            desired: Some(&desired),
            views,
            plan: Some(&plan),
            node_replacement: &NodeReplacementState::Active,
            probes_blind,
            gateway: None,
            now: now(),
            previous: &[],
        })
    }

    fn told(status: &TrinoPoolStatus) -> String {
        let mut lines = vec![status.reason.clone().unwrap()];
        lines.extend(status.conditions.iter().map(|condition| {
            let Condition {
                type_,
                status,
                reason,
                message,
                ..
            } = condition;
            format!("{type_}={status} {reason}: {message}")
        }));
        lines.join("\n")
    }

    #[test]
    fn a_pool_whose_node_drifts_as_a_person_reads_it() {
        let mut views = serving(&["a", "b", "c"]);
        views[0].evidence = EvidenceView::Some {
            urgency: Disruption::Drifted,
            observed_at: now(),
            deadline: None,
        };
        let status = status(&PoolMode::Open, &views, false);
        assert_eq!(
            (
                status.serving,
                status.desired,
                status.min_serving,
                status.replacing
            ),
            (3, 3, 2, 1)
        );
        assert_eq!(status.phases, BTreeMap::from([("SERVING".to_owned(), 3)]));
        assert_eq!(status.observed_generation, 4);
        assert_eq!(status.store_id.as_deref(), Some("store-1"));
        insta::assert_snapshot!(told(&status), @r"
        Surges
        Ready=True FloorKept: 3 of 3 serving answer well, the floor is 2
        Progressing=True Surges: creates a replacement of a: a node beneath it has drifted
        NodeReplacement=True Active: instances are replaced before the nodes beneath them are disrupted
        Blocked=False NotBlocked: nothing waits for a person
        Frozen=False NotFrozen: the pool may create and drain
        ");
    }

    #[test]
    fn an_invalid_spec_is_named_while_the_pool_goes_on() {
        let held = PoolMode::Held("spec.instances: is 0; use a whole number from 1 to 1000".to_owned());
        insta::assert_snapshot!(told(&status(&held, &serving(&["a", "b", "c"]), false)), @r"
        SpecInvalid
        Ready=True FloorKept: 3 of 3 serving answer well, the floor is 2
        Progressing=False Converged: nothing to do: 3 serve as desired
        NodeReplacement=True Active: instances are replaced before the nodes beneath them are disrupted
        Blocked=True SpecInvalid: the last valid spec stays in force: spec.instances: is 0; use a whole number from 1 to 1000
        Frozen=False NotFrozen: the pool may create and drain
        ");
    }

    #[test]
    fn a_frozen_pool_says_so_and_what_to_do() {
        let frozen = PoolMode::Frozen(FreezeReason::StoreMismatch);
        let status = status(&frozen, &serving(&["a"]), false);
        let condition = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Frozen")
            .unwrap();
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_str()),
            ("True", "StoreMismatch")
        );
        let ready = &status.conditions[0];
        assert_eq!(
            (ready.type_.as_str(), ready.reason.as_str()),
            ("Ready", "BelowFloor")
        );
    }

    #[test]
    fn l06_a_candidate_that_is_stuck_is_told_also_while_another_is_made() {
        let mut views = serving(&["a", "b"]);
        let mut stuck = view("stuck", Phase::Validating);
        stuck.deadline = Some(now());
        stuck.waiting = Some(Waiting {
            reason: WaitReason::NodesUnproven,
            detail: "KubernetesFailed: 500 (node n-1)".to_owned(),
            deadline: stuck.deadline,
        });
        views.push(stuck);
        insta::assert_snapshot!(told(&status(&PoolMode::Open, &views, false)), @"
        CoversBlocked
        Ready=True FloorKept: 2 of 2 serving answer well, the floor is 2
        Progressing=True CoversBlocked: creates an instance on the surge budget: 2 of 3 serve, and stuck still holds a slot
        NodeReplacement=True Active: instances are replaced before the nodes beneath them are disrupted
        Blocked=True CandidateStuck: candidate stuck is VALIDATING for 0s, past its deadline, and is kept: NodesUnproven, KubernetesFailed: 500 (node n-1); others may be made beside it, 3 of at most 4 are live
        Frozen=False NotFrozen: the pool may create and drain
        ");
    }

    #[test]
    fn s06_a_blind_operator_is_not_ready_and_blames_itself_first() {
        let status = status(&PoolMode::Open, &serving(&["a", "b", "c"]), true);
        assert_eq!(status.reason.as_deref(), Some("ProbesBlind"));
        assert_eq!(status.conditions[0].status, "False");
        assert_eq!(status.conditions[0].reason, "ProbesBlind");
    }

    #[test]
    fn a_doubtful_member_is_not_counted_towards_the_floor() {
        let mut views = serving(&["a", "b"]);
        views[1].suspected_locally = true;
        let status = status(&PoolMode::Open, &views, false);
        assert_eq!(status.serving, 2);
        assert_eq!(status.conditions[0].reason, "BelowFloor");
    }

    #[test]
    fn s5_l7_a_member_that_the_gateway_does_not_hold_is_not_said_to_serve() {
        let mut views = serving(&["a", "b", "c"]);
        views[2].unregistered = true;
        let status = status(&PoolMode::Open, &views, false);
        assert_eq!(status.serving, 2);
        assert_ne!(status.reason.as_deref(), Some("Converged"));
        let blocked = status
            .conditions
            .iter()
            .find(|known| known.type_ == "Blocked")
            .unwrap();
        assert_eq!(
            blocked.reason, "NotAtTheGateway",
            "whatever is done about it meanwhile"
        );
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let before = status(&PoolMode::Open, &serving(&["a", "b", "c"]), false).conditions;
        let desired = desired();
        let later = now().saturating_add(std::time::Duration::from_mins(1)).unwrap();
        let views = serving(&["a"]);
        let after = pool_status(&StatusInput {
            generation: SpecGeneration::new(5),
            store: None,
            mode: &PoolMode::Open,
            desired: Some(&desired),
            views: &views,
            plan: None,
            node_replacement: &NodeReplacementState::Active,
            probes_blind: false,
            gateway: None,
            now: later,
            previous: &before,
        });
        let time = |kind: &str| {
            let found = after
                .conditions
                .iter()
                .find(|condition| condition.type_ == kind)
                .unwrap();
            found.last_transition_time.0
        };
        assert_eq!(time("Ready"), later);
        assert_eq!(time("NodeReplacement"), now());
    }

    #[test]
    fn s11_a_gateway_that_is_down_is_what_a_person_sees_first() {
        let views = serving(&["a", "b", "c"]);
        let status = pool_status(&StatusInput {
            generation: SpecGeneration::new(4),
            store: None,
            mode: &PoolMode::Open,
            desired: Some(&desired()),
            views: &views,
            plan: None,
            node_replacement: &NodeReplacementState::Active,
            probes_blind: false,
            gateway: Some(("GatewayUnreachable", "connection refused")),
            now: now(),
            previous: &[],
        });
        assert_eq!(status.reason.as_deref(), Some("GatewayUnreachable"));
        assert_eq!(
            status.message.as_deref(),
            Some("connection refused; steps that need the gateway wait, everything else goes on")
        );
        assert_eq!(status.conditions[0].reason, "FloorKept", "it serves all the same");
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let cut = short(&"é".repeat(2000));
        assert_eq!(cut.chars().count(), MESSAGE_MAX);
        assert!(cut.ends_with('…'));
    }
}
