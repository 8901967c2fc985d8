//! Deployments, pods and machines; recorded start states; determinism.

use super::*;

#[test]
fn deletion_cascades_in_the_background_and_waits_in_the_foreground() {
    let mut fleet = Fleet::with(2, &NodePoolPlan::default());
    fleet.deploy("app", 2, &json!({}));
    fleet.pass(20);
    let path = "/apis/apps/v1/namespaces/trino/deployments/app";
    fleet.send("DELETE", path, &json!({"propagationPolicy": "Background"}));
    assert!(fleet.kube.object(Resource::Deployments, "trino", "app").is_none());
    assert_eq!(fleet.kube.pods().len(), 2);
    fleet.pass(10);
    assert!(fleet.kube.pods().is_empty() && fleet.kube.objects(Resource::ReplicaSets).is_empty());
    fleet.deploy("app", 2, &json!({}));
    fleet.pass(20);
    fleet.send("DELETE", path, &json!({"propagationPolicy": "Foreground"}));
    assert!(fleet.kube.object(Resource::Deployments, "trino", "app").is_some());
    fleet.pass(20);
    assert!(fleet.kube.object(Resource::Deployments, "trino", "app").is_none());
    assert!(fleet.kube.pods().is_empty());
}

#[test]
fn a_changed_template_recreates_through_a_second_replica_set() {
    let mut fleet = Fleet::with(1, &NodePoolPlan::default());
    fleet.deploy("app", 1, &json!({}));
    fleet.pass(20);
    let first = fleet.kube.pods()[0].clone();
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"x": "2"}}}}});
    fleet.send("PATCH", "/apis/apps/v1/namespaces/trino/deployments/app", &patch);
    for _ in 0..30 {
        fleet.pass(1);
        assert!(fleet.kube.pods().len() <= 1, "Recreate never runs two");
    }
    assert_eq!(fleet.kube.objects(Resource::ReplicaSets).len(), 2);
    assert_ne!(fleet.kube.pods()[0].uid, first.uid);
}

#[test]
fn a_rolling_update_keeps_its_availability_and_ends_with_the_new_pods() {
    let mut fleet = Fleet::with(6, &NodePoolPlan::default());
    let path = "/apis/apps/v1/namespaces/trino/deployments/app";
    let mut body = deployment("app", 4, &json!({}));
    body["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": "30%", "maxUnavailable": "30%"}});
    fleet.send("POST", "/apis/apps/v1/namespaces/trino/deployments", &body);
    fleet.pass(20);
    let first: Vec<String> = fleet.kube.pods().into_iter().map(|pod| pod.uid).collect();
    assert_eq!(first.len(), 4);
    let edited = json!({"spec": {"template": {"metadata": {"annotations": {"x": "2"}}}}});
    fleet.send("PATCH", path, &edited);
    for _ in 0..60 {
        fleet.pass(1);
        let pods = fleet.kube.pods();
        let kept = pods.iter().filter(|pod| !pod.terminating);
        // 30% of four is a surge of two, rounded up, and one that may be missing, rounded down.
        assert!(kept.clone().count() <= 6);
        assert!(kept.filter(|pod| pod.ready).count() >= 3);
    }
    let last = fleet.kube.pods();
    assert_eq!(last.len(), 4);
    assert!(last.iter().all(|pod| pod.ready && !first.contains(&pod.uid)));
    assert_eq!(fleet.kube.objects(Resource::ReplicaSets).len(), 2);
}

#[test]
fn a_restarted_container_has_a_new_id_and_remembers_its_end() {
    let mut fleet = Fleet::with(1, &NodePoolPlan::default());
    fleet.deploy("app", 1, &json!({}));
    fleet.pass(20);
    let before = fleet.kube.pods()[0].clone();
    assert!(
        fleet
            .kube
            .restart_container("trino", &before.name, 137, "OOMKilled", fleet.now)
    );
    let after = fleet.kube.pods()[0].clone();
    assert_eq!(after.uid, before.uid);
    assert_ne!(after.container_id, before.container_id);
    assert!(!after.ready);
    let pod = fleet.kube.object(Resource::Pods, "trino", &before.name).unwrap();
    let status = &pod["status"]["containerStatuses"][0];
    assert_eq!(status["restartCount"], 1);
    assert_eq!(
        status["lastState"]["terminated"]["containerID"],
        json!(before.container_id)
    );
    fleet.pass(10);
    assert!(fleet.kube.pods()[0].ready);
}

#[test]
fn a_held_pod_is_ready_only_when_the_world_says_so() {
    let mut fleet = Fleet::with(1, &NodePoolPlan::default());
    fleet.kube.options.readiness_held = Some(("app".to_owned(), "app".to_owned()));
    fleet.deploy("app", 1, &json!({}));
    fleet.pass(60);
    let pod = fleet.kube.pods()[0].clone();
    assert!(pod.container_id.is_some() && !pod.ready);
    fleet.kube.set_container_ready(&pod.uid, true);
    fleet.pass(1);
    assert!(fleet.kube.pods()[0].ready);
    fleet.kube.set_container_ready(&pod.uid, false);
    fleet.pass(1);
    assert!(!fleet.kube.pods()[0].ready);
}

#[test]
fn a08_pods_of_a_lost_node_stay_terminating_and_get_a_twin() {
    let mut fleet = Fleet::with(2, &NodePoolPlan::default());
    fleet.deploy("app", 1, &json!({}));
    fleet.pass(20);
    let pod = fleet.kube.pods()[0].clone();
    fleet.kube.lose_node(pod.node.as_ref().unwrap(), fleet.now);
    fleet.pass(400);
    let pods = fleet.kube.pods();
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().any(|entry| entry.uid == pod.uid && entry.terminating));
    assert!(pods.iter().any(|entry| entry.uid != pod.uid && entry.ready));
    fleet.kube.find_node(pod.node.as_ref().unwrap(), fleet.now);
    fleet.pass(5);
    assert_eq!(fleet.kube.pods().len(), 1);
}

#[test]
fn a_cordoned_node_takes_no_new_pods() {
    let mut fleet = Fleet::with(2, &NodePoolPlan::default());
    let cordoned = fleet.kube.nodes()[0].name.clone();
    fleet.kube.set_unschedulable(&cordoned, true);
    fleet.deploy("app", 1, &json!({}));
    fleet.pass(20);
    assert_ne!(fleet.kube.pods()[0].node.as_deref(), Some(cordoned.as_str()));
}

#[test]
fn the_recorded_objects_are_a_start_state_that_stays_as_recorded() {
    let mut fleet = Fleet::empty(5);
    fleet.now = "2026-12-02T05:10:00Z".parse().unwrap();
    for recorded in [
        include_str!("../../../../tests/fixtures/karpenter/nodeclaims-drifted.json"),
        include_str!("../../../../tests/fixtures/karpenter/nodes-drifted.json"),
        include_str!("../../../../tests/fixtures/karpenter/workload-clean.json"),
    ] {
        let list: Value = serde_json::from_str(recorded).unwrap();
        let expected = list["items"].as_array().unwrap().len();
        assert_eq!(fleet.kube.load_list(&list, fleet.now), expected);
    }
    let pods: Vec<String> = fleet.kube.pods().into_iter().map(|pod| pod.uid).collect();
    fleet.pass(120);
    assert_eq!(fleet.kube.counts().drifted, 3);
    let after: Vec<String> = fleet.kube.pods().into_iter().map(|pod| pod.uid).collect();
    assert_eq!(after, pods, "protected pods stay where they were");
    assert_eq!(
        fleet.kube.objects(Resource::ReplicaSets).len(),
        1,
        "the template is recognized"
    );
    assert_eq!(fleet.kube.claims().len(), 3);
    assert!(fleet.kube.nodes().iter().all(|node| !node.disrupted));
}

#[test]
fn our_claims_have_the_shape_of_recorded_ones() {
    let mut fleet = Fleet::with(1, &NodePoolPlan::default());
    fleet.kube.change_node_pool_template("default");
    fleet.kube.set_node_pool_budget("default", "0");
    fleet.pass(2);
    let recorded: Value = serde_json::from_str(include_str!(
        "../../../../tests/fixtures/karpenter/nodeclaims-drifted.json"
    ))
    .unwrap();
    let recorded = &recorded["items"][0];
    let ours = &fleet.kube.objects(Resource::NodeClaims)[0];
    let keys = |object: &Value, path: &[&str]| -> Vec<String> {
        let map = j::map(object, path).unwrap();
        map.keys()
            .cloned()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect()
    };
    assert_eq!(keys(ours, &["metadata"]), keys(recorded, &["metadata"]));
    assert_eq!(
        keys(ours, &["metadata", "annotations"]),
        keys(recorded, &["metadata", "annotations"])
    );
    assert_eq!(keys(ours, &["spec"]), keys(recorded, &["spec"]));
    let drifted = |object: &Value| {
        let mut entry = j::condition(object, "Drifted").unwrap().clone();
        j::remove(&mut entry, &["lastTransitionTime"]);
        entry
    };
    assert_eq!(drifted(ours), drifted(recorded));
}

#[test]
fn the_same_seed_makes_the_same_bytes() {
    let story = |seed: u64| {
        let mut fleet = Fleet::empty(seed);
        fleet
            .kube
            .create_node_pool("default", &NodePoolPlan::default(), fleet.now);
        let request = Request::get("/api/v1/pods?watch=true&resourceVersion=0")
            .body(Bytes::new())
            .unwrap();
        let claims = Request::get("/apis/karpenter.sh/v1/nodeclaims?watch=true&resourceVersion=0")
            .body(Bytes::new())
            .unwrap();
        let mut pods = fleet.kube.open_watch(&request, fleet.now).unwrap().unwrap();
        let mut nodes = fleet.kube.open_watch(&claims, fleet.now).unwrap().unwrap();
        fleet.deploy("app", 4, &json!({}));
        let mut bytes = Vec::new();
        for second in 0..200 {
            if second == 60 {
                fleet.kube.change_node_pool_template("default");
            }
            fleet.pass(1);
            for cursor in [&mut pods, &mut nodes] {
                bytes.extend(fleet.kube.poll_watch(cursor, fleet.now).concat());
            }
        }
        bytes
    };
    let first = story(11);
    assert!(first.len() > 10_000);
    assert!(first == story(11));
    assert!(first != story(12));
}
