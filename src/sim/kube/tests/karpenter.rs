//! What Karpenter does to nodes, and what stops it.

use super::*;

#[test]
fn pending_pods_become_claims_nodes_and_ready_pods() {
    let mut fleet = Fleet::with(0, &NodePoolPlan::default());
    fleet.deploy("app", 3, &json!({}));
    fleet.pass(40);
    let pods = fleet.kube.pods();
    assert_eq!(pods.len(), 3);
    assert!(pods.iter().all(|pod| pod.ready && pod.container_id.is_some()));
    assert_eq!(fleet.kube.claims().len(), 3, "one claim per pod, none in excess");
    let node = fleet
        .kube
        .object(Resource::Nodes, "", pods[0].node.as_ref().unwrap())
        .unwrap();
    let owner = &node["metadata"]["ownerReferences"][0];
    assert_eq!(owner["kind"], "NodeClaim");
    assert!(owner.get("controller").is_none());
    assert_eq!(
        node["spec"]["providerID"],
        json!(format!("kwok://{}", j::name(&node)))
    );
    let deployment = fleet.kube.object(Resource::Deployments, "trino", "app").unwrap();
    assert_eq!(deployment["status"]["readyReplicas"], 3);
}

#[test]
fn a_changed_template_drifts_every_node_at_once_and_protected_ones_stay() {
    let mut fleet = Fleet::with(3, &NodePoolPlan::default());
    fleet.deploy("app", 3, &protected());
    fleet.pass(20);
    fleet.kube.change_node_pool_template("default");
    fleet.pass(1);
    assert_eq!(fleet.kube.counts().drifted, 3);
    fleet.pass(300);
    assert_eq!(fleet.kube.claims().len(), 3);
    assert!(
        fleet
            .kube
            .nodes()
            .iter()
            .all(|node| !node.disrupted && !node.deleting)
    );
    assert_eq!(fleet.acts("karpenter", Resource::Pods), 0);
    let blocked = fleet
        .kube
        .objects(Resource::Events)
        .iter()
        .any(|event| event["reason"] == "DisruptionBlocked");
    assert!(blocked);
    fleet.kube.revert_node_pool_template("default");
    fleet.pass(1);
    assert_eq!(fleet.kube.counts().drifted, 0);
    let claim = &fleet.kube.objects(Resource::NodeClaims)[0];
    assert!(
        j::condition(claim, "Drifted").is_none(),
        "the entry is gone, not False"
    );
}

#[test]
fn an_unprotected_drifted_node_is_tainted_replaced_and_gone() {
    let mut fleet = Fleet::with(3, &NodePoolPlan::default());
    fleet.deploy("app", 3, &protected());
    fleet.pass(20);
    let old: Vec<String> = fleet.kube.claims().into_iter().map(|claim| claim.name).collect();
    fleet.kube.change_node_pool_template("default");
    let pod = fleet.kube.pods()[0].clone();
    let patch = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": null}}});
    assert_eq!(patch_pod(&mut fleet, &pod.name, &patch).0, 200);
    fleet.pass(11);
    let node = pod.node.clone().unwrap();
    let tainted = fleet.kube.nodes().into_iter().find(|entry| entry.name == node);
    assert!(tainted.is_some_and(|node| node.disrupted && !node.unschedulable && !node.deleting));
    let claim = fleet.claim_of(&node);
    let reason = fleet.kube.object(Resource::NodeClaims, "", &claim).unwrap();
    assert_eq!(
        j::condition(&reason, "DisruptionReason").unwrap()["reason"],
        "Drifted"
    );
    assert_eq!(
        fleet.kube.claims().len(),
        4,
        "the replacement is launched before anything is deleted"
    );
    fleet.pass(60);
    assert!(!fleet.kube.nodes().iter().any(|entry| entry.name == node));
    let remaining = fleet.kube.claims();
    assert_eq!(
        remaining.iter().filter(|claim| old.contains(&claim.name)).count(),
        2
    );
    assert_eq!(fleet.kube.pods().iter().filter(|pod| pod.ready).count(), 3);
    assert_eq!(
        fleet.acts("test", Resource::Nodes),
        0,
        "nobody asked for it over the API"
    );
}

#[test]
fn k14_only_the_exact_word_true_protects() {
    for value in ["True", "TRUE", " true", "1", "", "5m", "forever"] {
        let mut fleet = Fleet::with(1, &NodePoolPlan::default());
        fleet.deploy("app", 1, &json!({"karpenter.sh/do-not-disrupt": value}));
        fleet.pass(20);
        fleet.kube.change_node_pool_template("default");
        fleet.pass(60);
        assert!(
            fleet.kube.claims().iter().all(|claim| !claim.drifted),
            "{value:?} protected the node"
        );
    }
}

#[test]
fn k15_a_terminating_pod_protects_nothing_but_is_waited_for() {
    let mut fleet = Fleet::with(1, &NodePoolPlan::default());
    fleet.kube.options.stop_delay = Duration::from_secs(25);
    fleet.deploy("app", 1, &protected());
    fleet.pass(20);
    let node = fleet.kube.nodes()[0].name.clone();
    let claim = fleet.claim_of(&node);
    let background = json!({"propagationPolicy": "Background"});
    fleet.send(
        "DELETE",
        "/apis/apps/v1/namespaces/trino/deployments/app",
        &background,
    );
    fleet.pass(3);
    assert!(fleet.kube.pods()[0].terminating && !fleet.kube.pods()[0].protected);
    fleet.kube.delete_claim(&claim, fleet.now);
    fleet.pass(10);
    assert_eq!(fleet.kube.claims().len(), 1, "its object still exists");
    fleet.pass(30);
    assert!(fleet.kube.claims().is_empty() && fleet.kube.nodes().is_empty());
}

#[test]
fn a_deleted_claim_waits_for_a_protected_pod_as_recorded() {
    let mut fleet = Fleet::with(1, &NodePoolPlan::default());
    fleet.deploy("app", 1, &protected());
    fleet.pass(20);
    let node = fleet.kube.nodes()[0].name.clone();
    let claim = fleet.claim_of(&node);
    fleet.kube.delete(Resource::NodeClaims, "", &claim, fleet.now);
    fleet.pass(3600);
    let held = fleet.kube.object(Resource::NodeClaims, "", &claim).unwrap();
    assert_eq!(j::condition(&held, "Drained").unwrap()["status"], "Unknown");
    assert_eq!(held["metadata"]["generation"], 2);
    let node = fleet
        .kube
        .nodes()
        .into_iter()
        .find(|entry| entry.name == node)
        .unwrap();
    assert!(node.deleting && node.disrupted && !node.unschedulable);
    let pod = fleet.kube.pods()[0].clone();
    let patch = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": null}}});
    patch_pod(&mut fleet, &pod.name, &patch);
    fleet.pass(10);
    assert!(!fleet.kube.claims().iter().any(|entry| entry.name == claim));
}

#[test]
fn k02_a_finite_grace_lets_drift_pass_protection_and_ends_the_pod_at_the_deadline() {
    let plan = NodePoolPlan {
        termination_grace: Some("10m0s".to_owned()),
        ..NodePoolPlan::default()
    };
    let mut fleet = Fleet::with(1, &plan);
    fleet.deploy("app", 1, &protected());
    fleet.pass(20);
    let pod = fleet.kube.pods()[0].clone();
    let claim = fleet.claim_of(pod.node.as_ref().unwrap());
    fleet.kube.change_node_pool_template("default");
    fleet.pass(60);
    let held = fleet.kube.object(Resource::NodeClaims, "", &claim).unwrap();
    let deleted = j::time(&held, &["metadata", "deletionTimestamp"]).expect("drift went ahead");
    let deadline = j::annotation(&held, "karpenter.sh/nodeclaim-termination-timestamp").unwrap();
    assert_eq!(deadline, j::stamp(j::later(deleted, Duration::from_mins(10))));
    fleet.pass(300);
    assert!(
        fleet
            .kube
            .pods()
            .iter()
            .any(|entry| entry.uid == pod.uid && !entry.terminating)
    );
    fleet.pass(300);
    assert!(!fleet.kube.pods().iter().any(|entry| entry.uid == pod.uid));
    assert_eq!(fleet.acts("karpenter", Resource::Pods), 1);
}

#[test]
fn k05_a_launching_claim_and_a_node_without_provider_never_join() {
    let mut fleet = Fleet::with(0, &NodePoolPlan::default());
    let labels = std::collections::BTreeMap::new();
    fleet.kube.add_unowned_node("bare-1", &labels, fleet.now);
    fleet.deploy("app", 2, &protected());
    fleet.pass(3);
    let launching = fleet.kube.claims();
    assert_eq!(launching.len(), 1);
    assert_eq!(launching[0].node, None);
    fleet.kube.delete_claim(&launching[0].name, fleet.now);
    fleet.pass(2);
    let bare = fleet
        .kube
        .nodes()
        .into_iter()
        .find(|node| node.name == "bare-1")
        .unwrap();
    assert!(
        !bare.deleting && !bare.disrupted,
        "an empty provider ID joins nothing"
    );
}

#[test]
fn k07_a_held_claim_stays_deleting_for_ever() {
    let mut fleet = Fleet::with(1, &NodePoolPlan::default());
    let claim = fleet.kube.claims()[0].name.clone();
    fleet.kube.hold_claim(&claim);
    fleet.kube.delete_claim(&claim, fleet.now);
    fleet.pass(600);
    let revision = fleet.kube.revision();
    fleet.pass(600);
    assert!(fleet.kube.claims()[0].deleting);
    assert_eq!(
        fleet.kube.revision(),
        revision,
        "and nothing is written meanwhile"
    );
}

#[test]
fn k13_an_aborted_disruption_takes_taint_and_reason_back() {
    let mut fleet = Fleet::with(1, &NodePoolPlan::default());
    fleet.deploy("app", 1, &json!({}));
    fleet.pass(20);
    fleet.kube.change_node_pool_template("default");
    while !fleet.kube.nodes().iter().any(|node| node.disrupted) {
        fleet.pass(1);
    }
    fleet.kube.abort_disruptions(fleet.now);
    assert!(fleet.kube.nodes().iter().all(|node| !node.disrupted));
    let claims = fleet.kube.objects(Resource::NodeClaims);
    assert!(
        claims
            .iter()
            .all(|claim| j::condition(claim, "DisruptionReason").is_none())
    );
    assert!(claims.iter().any(|claim| j::is_true(claim, "Drifted")));
}

#[test]
fn a_budget_of_zero_drifts_and_replaces_nothing() {
    let plan = NodePoolPlan {
        budget: Some("0".to_owned()),
        ..NodePoolPlan::default()
    };
    let mut fleet = Fleet::with(2, &plan);
    fleet.kube.change_node_pool_template("default");
    fleet.pass(120);
    assert_eq!(fleet.kube.counts().drifted, 2);
    fleet.kube.set_node_pool_budget("default", "2");
    fleet.pass(30);
    assert_eq!(fleet.kube.counts().nodes, 0, "empty drifted nodes go together");
}

#[test]
fn without_capacity_no_node_is_disrupted_and_pods_stay_pending() {
    let mut fleet = Fleet::with(1, &NodePoolPlan::default());
    fleet.deploy("app", 1, &json!({}));
    fleet.pass(20);
    fleet.kube.set_capacity("default", Some(1));
    fleet.kube.change_node_pool_template("default");
    fleet.deploy("more", 5, &json!({}));
    fleet.pass(120);
    assert_eq!(fleet.kube.claims().len(), 1);
    assert!(fleet.kube.nodes().iter().all(|node| !node.disrupted));
    assert_eq!(fleet.kube.counts().pending, 4);
    fleet.kube.set_capacity("default", None);
    fleet.pass(120);
    assert_eq!(fleet.kube.counts().pending, 0);
}

#[test]
fn an_expired_claim_is_deleted_although_its_pod_is_protected() {
    let plan = NodePoolPlan {
        expire_after: Some("1h".to_owned()),
        ..NodePoolPlan::default()
    };
    let mut fleet = Fleet::with(1, &plan);
    fleet.deploy("app", 1, &protected());
    fleet.pass(60);
    assert!(!fleet.kube.claims()[0].deleting);
    fleet.pass(3600);
    assert!(fleet.kube.claims()[0].deleting);
    assert_eq!(
        fleet.kube.pods()[0].node,
        Some(fleet.kube.nodes()[0].name.clone())
    );
}
