//! What a person reads of a pool.

use super::*;
use crate::pool::desired::FreezeReason;
use crate::pool::evidence::Disruption;
use crate::pool::ids::Namespace;
use crate::pool::plan::{PlanInput, plan};
use crate::pool::step::{WaitReason, Waiting};
use crate::pool::testing;
use crate::pool::validate::{example_spec, validate};

fn now() -> Timestamp {
    "2026-12-02T12:00:00Z".parse().unwrap()
}

fn desired() -> DesiredPool {
    validate(&Namespace::from("trino"), &example_spec("analytics")).unwrap()
}

fn view(name: &str, phase: Phase) -> InstanceView {
    testing::view(name, phase, now())
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
        impediment: None,
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
        (Some(3), Some(3), Some(2), Some(1))
    );
    assert_eq!(status.at_risk, Some(0));
    assert_eq!(status.phases, Some(BTreeMap::from([("SERVING".to_owned(), 3)])));
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
    let frozen = PoolMode::Frozen(FreezeReason::WentBackwards);
    let status = status(&frozen, &serving(&["a"]), false);
    let condition = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Frozen")
        .unwrap();
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_str()),
        ("True", "WentBackwards")
    );
    let ready = &status.conditions[0];
    assert_eq!(
        (ready.type_.as_str(), ready.reason.as_str()),
        ("Ready", "BelowFloor")
    );
}

/// What a status counts, as the resource carries it.
fn counts(status: &TrinoPoolStatus) -> Vec<String> {
    let body = serde_json::to_value(status).unwrap();
    let told = [
        "phases",
        "serving",
        "desired",
        "minServing",
        "replacing",
        "atRisk",
    ];
    let told = told.into_iter().filter(|key| body.get(key).is_some());
    told.map(str::to_owned).collect()
}

#[test]
fn o06_the_rows_of_another_world_are_not_told_as_this_pools() {
    let frozen = PoolMode::Frozen(FreezeReason::StoreMismatch);
    let mut views = serving(&["a", "b", "c"]);
    views.push(view("d", Phase::Draining));
    let status = status(&frozen, &views, true);
    assert_eq!(counts(&status), [""; 0]);
    insta::assert_snapshot!(told(&status), @r"
    StoreMismatch
    Ready=Unknown StoreMismatch: frozen, creates and drains nothing: the store is not the one that made these instances: start the operator with that one, which status.storeId names
    Progressing=False Frozen: frozen, creates and drains nothing: the store is not the one that made these instances: start the operator with that one, which status.storeId names
    NodeReplacement=True Active: instances are replaced before the nodes beneath them are disrupted
    Blocked=True StoreMismatch: frozen, creates and drains nothing: the store is not the one that made these instances: start the operator with that one, which status.storeId names
    Frozen=True StoreMismatch: frozen, creates and drains nothing: the store is not the one that made these instances: start the operator with that one, which status.storeId names
    ");
}

#[test]
fn a_store_that_knows_nothing_of_the_pool_claims_nothing() {
    let status = pool_status(&StatusInput {
        generation: SpecGeneration::new(4),
        store: None,
        mode: &PoolMode::Frozen(FreezeReason::StoreMismatch),
        desired: None,
        views: &[],
        plan: None,
        node_replacement: &NodeReplacementState::Unknown,
        impediment: None,
        probes_blind: false,
        gateway: None,
        now: now(),
        previous: &[],
    });
    assert_eq!(counts(&status), [""; 0]);
    insta::assert_snapshot!(told(&status), @r"
    StoreMismatch
    Ready=Unknown StoreMismatch: frozen, creates and drains nothing: the store is not the one that made these instances: start the operator with that one, which status.storeId names
    Progressing=False NotPlanned: no plan was made in this tick
    NodeReplacement=Unknown NoDesiredState: no desired state is known; until one is, nothing is protected or replaced
    Blocked=True StoreMismatch: frozen, creates and drains nothing: the store is not the one that made these instances: start the operator with that one, which status.storeId names
    Frozen=True StoreMismatch: frozen, creates and drains nothing: the store is not the one that made these instances: start the operator with that one, which status.storeId names
    ");
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
    assert_eq!(status.serving, Some(2));
    assert_eq!(status.conditions[0].reason, "BelowFloor");
}

#[test]
fn s5_l7_a_member_that_the_gateway_does_not_hold_is_not_said_to_serve() {
    let mut views = serving(&["a", "b", "c"]);
    views[2].unregistered = true;
    let status = status(&PoolMode::Open, &views, false);
    assert_eq!(status.serving, Some(2));
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
        impediment: None,
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

/// What the condition NodeReplacement says of these instances, and of what it may not do.
fn node_replacement_of(views: &[InstanceView], impediment: Option<&Fault>) -> String {
    let status = pool_status(&StatusInput {
        generation: SpecGeneration::new(4),
        store: None,
        mode: &PoolMode::Open,
        desired: Some(&desired()),
        views,
        plan: None,
        node_replacement: &NodeReplacementState::Active,
        impediment,
        probes_blind: false,
        gateway: None,
        now: now(),
        previous: &[],
    });
    let told = told(&status);
    let line = told.lines().find(|line| line.starts_with("NodeReplacement"));
    line.unwrap().to_owned()
}

#[test]
fn k02_protection_that_is_not_absolute_is_said_and_its_end_is_shown() {
    let mut views = serving(&["a", "b", "c"]);
    views[1].at_risk = true;
    insta::assert_snapshot!(
        node_replacement_of(&views, None),
        @"NodeReplacement=True AtRisk: 1 serve on nodes with a terminationGracePeriod, at whose end Karpenter ends protected pods too"
    );
    views[1].phase = Phase::Draining;
    views[1].evidence = EvidenceView::Some {
        urgency: Disruption::Deleting,
        observed_at: now(),
        deadline: Some("2026-12-02T12:20:00Z".parse().unwrap()),
    };
    insta::assert_snapshot!(
        node_replacement_of(&views, None),
        @"NodeReplacement=True ForcedEnd: Karpenter ends pods of b by force at 2026-12-02T12:20:00Z, whatever protects them: its NodeClaim is being deleted and has a terminationGracePeriod"
    );
    let status = status(&PoolMode::Open, &views, false);
    assert_eq!(status.forced_end_at.as_deref(), Some("2026-12-02T12:20:00Z"));
}

#[test]
fn l2_what_node_replacement_may_not_do_is_said_while_the_rest_goes_on() {
    let fault = Fault {
        label: "CordonDenied",
        subject: "node n-1".to_owned(),
        detail: "nodes \"n-1\" is forbidden: cannot patch".to_owned(),
    };
    insta::assert_snapshot!(
        node_replacement_of(&serving(&["a", "b", "c"]), Some(&fault)),
        @r#"NodeReplacement=True CordonDenied: node n-1: nodes "n-1" is forbidden: cannot patch; everything else goes on"#
    );
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
        impediment: None,
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
