//! Every recorded object decodes to what it says, and odd shapes to what they must mean.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cluster::facts::{
    ClaimFacts, DeploymentFacts, Grace, LeaseFacts, Listing, NodeFacts, ObjectKind, PodFacts, ReplicaSetFacts,
};
use crate::pool::ids::ObjectName;

fn recorded(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/fixtures/karpenter/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    if let Some(lines) = name.strip_suffix(".jsonl").map(|_| text.lines()) {
        return lines
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["object"].clone())
            .collect();
    }
    let value: Value = serde_json::from_str(&text).unwrap();
    match value["items"].as_array() {
        Some(items) => items.clone(),
        None => vec![value],
    }
}

fn claims(name: &str) -> Vec<ClaimFacts> {
    recorded(name).iter().map(|value| claim(value).unwrap()).collect()
}

fn nodes(name: &str) -> Vec<NodeFacts> {
    recorded(name).iter().map(|value| node(value).unwrap()).collect()
}

#[test]
fn recorded_nodes_and_claims_point_at_each_other() {
    for (nodes, claims) in [
        (nodes("nodes-clean.json"), claims("nodeclaims-clean.json")),
        (nodes("nodes-drifted.json"), claims("nodeclaims-drifted.json")),
    ] {
        assert_eq!((nodes.len(), claims.len()), (3, 3));
        for node in &nodes {
            let owner = node.owners.first().unwrap();
            assert_eq!(
                (owner.group(), owner.kind.as_str()),
                ("karpenter.sh", "NodeClaim")
            );
            assert!(!owner.controller, "Karpenter sets no controller flag");
            let claim = claims
                .iter()
                .find(|claim| claim.uid.as_str() == owner.uid)
                .unwrap();
            assert_eq!(claim.name.as_str(), owner.name);
            assert_eq!(claim.node.as_ref(), Some(&node.name));
            assert!(claim.provider_id.is_some());
            assert_eq!(claim.provider_id, node.provider_id);
            assert!(node.ready && !node.unschedulable && !node.deleting && node.created_at.is_some());
            assert_eq!(node.cordon_mark, None);
        }
    }
}

#[test]
fn recorded_claims_drift_only_where_karpenter_said_so() {
    for claim in claims("nodeclaims-clean.json") {
        assert_eq!(
            (claim.drifted, claim.deleted_at, claim.grace),
            (None, None, Grace::Unlimited)
        );
    }
    for claim in claims("nodeclaims-drifted.json") {
        assert_eq!(claim.drifted, Some(Some("NodePoolDrifted".to_owned())));
        assert_eq!((claim.disruption, claim.ambiguous), (None, false));
    }
}

#[test]
fn recorded_deletion_of_a_protected_node() {
    let [claim] = claims("nodeclaim-deleting-protected.json").try_into().unwrap();
    assert_eq!(claim.deleted_at, Some("2026-12-02T05:06:44Z".parse().unwrap()));
    assert_eq!(claim.termination_at, None);
    let [node] = nodes("node-deleting-protected.json").try_into().unwrap();
    assert!(node.deleting && !node.unschedulable);
    assert_eq!(node.taints.len(), 1);
    assert_eq!(node.taints[0].key, "karpenter.sh/disrupted");
    assert_eq!(
        (node.taints[0].value.as_str(), node.taints[0].effect.as_str()),
        ("", "NoSchedule")
    );
}

#[test]
fn recorded_finite_grace() {
    let [claim] = claims("nodeclaim-finite-grace.json").try_into().unwrap();
    assert_eq!(claim.grace, Grace::Finite(Duration::from_mins(10)));
}

#[test]
fn recorded_workload_decodes_by_kind_and_is_linked_by_uid() {
    let mut pods: Vec<PodFacts> = Vec::new();
    let mut sets: Vec<ReplicaSetFacts> = Vec::new();
    let mut deployments: Vec<DeploymentFacts> = Vec::new();
    for value in recorded("workload-clean.json") {
        match value["kind"].as_str().unwrap() {
            "Pod" => pods.push(pod(&value).unwrap()),
            "ReplicaSet" => sets.push(replica_set(&value).unwrap()),
            "Deployment" => deployments.push(deployment(&value).unwrap()),
            other => panic!("unexpected {other}"),
        }
    }
    assert_eq!((pods.len(), sets.len(), deployments.len()), (3, 1, 1));
    assert_eq!(sets[0].owners[0].uid, deployments[0].object.uid.as_str());
    assert_eq!((deployments[0].replicas, deployments[0].ready), (Some(3), 3));
    for pod in pods {
        assert_eq!(pod.owners[0].uid, sets[0].uid.as_str());
        assert!(pod.owners[0].controller);
        assert_eq!(pod.do_not_disrupt.as_deref(), Some("true"));
        assert!(pod.ready && !pod.finished && !pod.terminating && pod.node.is_some() && pod.ip.is_some());
        let main = &pod.containers["trino"];
        assert_eq!(main.image.as_deref(), Some("example/trino:483"));
        // KWOK reports a running container without an id: not proven, rather than an empty id.
        assert_eq!(main.running, None);
        assert_eq!(pod.config_maps, [ObjectName::from("kube-root-ca.crt")]);
        assert_eq!(pod.unschedulable_because, None);
    }
}

#[test]
fn every_event_of_the_recorded_watches_decodes() {
    let claims = claims("watch-nodeclaims.jsonl");
    assert_eq!(claims.len(), 51);
    assert!(
        claims
            .iter()
            .any(|claim| claim.node.is_none() && claim.provider_id.is_none())
    );
    assert!(claims.iter().any(|claim| claim.drifted.is_some()));
    assert!(claims.iter().any(|claim| claim.disruption.is_some()));
    let pods: Vec<PodFacts> = recorded("watch-pods.jsonl")
        .iter()
        .map(|value| pod(value).unwrap())
        .collect();
    assert_eq!(pods.len(), 29);
    assert!(pods.iter().any(|pod| pod.node.is_none() && !pod.ready));
    assert!(pods.iter().any(|pod| pod.terminating));
}

fn claim_with(status: &Value) -> Result<ClaimFacts, DecodeError> {
    claim(&json!({"metadata": {"name": "c", "uid": "u"}, "status": status}))
}

#[test]
fn k17_odd_condition_shapes() {
    let many: Vec<Value> = (0..40)
        .map(|n| json!({"type": format!("X{n}"), "status": "True"}))
        .collect();
    let mut many_and_drift = many.clone();
    many_and_drift.push(json!({"type": "Drifted", "status": "True", "reason": "AMIDrift"}));
    let ami = Some(Some("AMIDrift".to_owned()));
    for (status, drifted) in [
        (
            json!({"conditions": [{"type": "Drifted", "status": "True", "severity": "Warning",
                "reason": "AMIDrift", "lastTransitionTime": "2031-07-08T08:08:55Z"}]}),
            ami.clone(),
        ),
        (
            json!({"conditions": [{"type": "Drifted", "status": "True", "severity": "Warning"}]}),
            Some(None),
        ),
        (
            json!({"conditions": [{"type": "Drifted", "status": "True", "reason": ""}]}),
            Some(None),
        ),
        (
            json!({"conditions": [{"type": "Drifted", "status": "True", "reason": null}]}),
            Some(None),
        ),
        (json!({"conditions": null}), None),
        (Value::Null, None),
        (json!({}), None),
        (
            json!({"conditions": [{"type": "Drifted", "status": "true"}]}),
            None,
        ),
        (json!({"conditions": [{"type": "Drifted", "status": true}]}), None),
        (
            json!({"conditions": [{"type": "Drifted", "status": "False"}]}),
            None,
        ),
        (
            json!({"conditions": [{"type": "Drifted", "status": "Unknown"}]}),
            None,
        ),
        (json!({"conditions": [{"status": "True"}, {}]}), None),
        (
            json!({"conditions": [{"type": "Drifted", "status": "False", "reason": "X"},
                {"type": "Drifted", "status": "True"},
                {"type": "Drifted", "status": "True", "reason": "AMIDrift"}]}),
            ami.clone(),
        ),
        (
            json!({"conditions": [{"type": "Drifted", "status": "True", "reason": "AMIDrift",
                "observedGeneration": 1}]}),
            ami.clone(),
        ),
        (json!({"conditions": many}), None),
        (json!({"conditions": many_and_drift}), ami),
    ] {
        assert_eq!(claim_with(&status).unwrap().drifted, drifted, "{status}");
    }
}

#[test]
fn k05_empty_identities_are_none_and_never_join() {
    for status in [
        json!({"nodeName": "", "providerID": ""}),
        json!({"nodeName": null, "providerID": null}),
        json!({"conditions": [{"type": "Registered", "status": "Unknown", "reason": "NodeNotFound"}]}),
    ] {
        let claim = claim_with(&status).unwrap();
        assert_eq!(
            (claim.node, claim.provider_id, claim.ambiguous),
            (None, None, false)
        );
    }
    let bare =
        node(&json!({"metadata": {"name": "bare-1", "uid": "n"}, "spec": {"providerID": ""}})).unwrap();
    assert_eq!((bare.provider_id, bare.owners), (None, vec![]));
    let ambiguous = claim_with(
        &json!({"conditions": [{"type": "Registered", "status": "False", "reason": "MultipleNodesFound"}]}),
    );
    assert!(ambiguous.unwrap().ambiguous);
}

#[test]
fn k02_termination_deadline_and_grace() {
    let with = |grace: Value, annotation: Value| {
        claim(&json!({
            "metadata": {"name": "tgp-claim", "uid": "u", "deletionTimestamp": "2031-01-01T00:00:00Z",
                "annotations": {"karpenter.sh/nodeclaim-termination-timestamp": annotation}},
            "spec": {"terminationGracePeriod": grace},
        }))
        .unwrap()
    };
    for (grace, expected) in [
        (json!("30m"), Grace::Finite(Duration::from_mins(30))),
        (json!("48h"), Grace::Finite(Duration::from_hours(48))),
        (json!("0s"), Grace::Finite(Duration::ZERO)),
        (json!(null), Grace::Unlimited),
        (json!("Never"), Grace::Unreadable("Never".to_owned())),
        (json!("-5m"), Grace::Unreadable("-5m".to_owned())),
        (json!(30), Grace::Unreadable("30".to_owned())),
    ] {
        assert_eq!(with(grace, Value::Null).grace, expected);
    }
    let at = |text: &str| with(Value::Null, json!(text)).termination_at;
    assert_eq!(
        at("2031-01-01T00:30:00Z"),
        Some("2031-01-01T00:30:00Z".parse().unwrap())
    );
    assert_eq!(
        at("2001-01-01T00:30:00Z"),
        Some("2001-01-01T00:30:00Z".parse().unwrap())
    );
    assert_eq!(at("half past twelve"), None);
}

#[test]
fn k08_owner_references_of_every_shape_are_kept_apart() {
    let owners = node(&json!({"metadata": {"name": "n", "uid": "N", "ownerReferences": [
        {"apiVersion": "karpenter.sh/v1beta1", "kind": "NodeClaim", "name": "c9", "uid": "U9"},
        {"apiVersion": "example.io/v1", "kind": "NodeClaim", "name": "c9", "uid": "U9"},
        {"apiVersion": "v1", "kind": "Node", "name": "c9"},
        {"kind": "NodeClaim", "name": "c9", "uid": "U8"},
    ]}}))
    .unwrap()
    .owners;
    let seen: Vec<(&str, &str)> = owners
        .iter()
        .map(|owner| (owner.group(), owner.uid.as_str()))
        .collect();
    assert_eq!(
        seen,
        [("karpenter.sh", "U9"), ("example.io", "U9"), ("", ""), ("", "U8")]
    );
    // A claim that lost spec fields in a conversion still decodes.
    assert!(
        claim(&json!({"metadata": {"name": "c", "uid": "u"}, "spec": {"nodeClassRef": {"name": "x"}}}))
            .is_ok()
    );
}

#[test]
fn k14_the_annotation_is_handed_on_exactly_as_it_stands() {
    for value in [
        "true", "True", "TRUE", " true", "1", "", "5m", "2h30m", "-5m", "0s", "forever",
    ] {
        let pod = pod(&json!({"metadata": {"name": "p", "uid": "u",
            "annotations": {"karpenter.sh/do-not-disrupt": value}}}));
        assert_eq!(pod.unwrap().do_not_disrupt.as_deref(), Some(value));
    }
    for metadata in [
        json!({"name": "p", "uid": "u"}),
        json!({"name": "p", "uid": "u", "annotations": null}),
        json!({"name": "p", "uid": "u", "annotations": {"karpenter.sh/do-not-disrupt": null}}),
    ] {
        assert_eq!(pod(&json!({"metadata": metadata})).unwrap().do_not_disrupt, None);
    }
}

#[test]
fn a06_one_undecodable_object_costs_only_itself() {
    let good = json!({"metadata": {"name": "good", "uid": "G"}});
    let drifted = json!({"metadata": {"name": "drifted", "uid": "D"},
        "status": {"conditions": [{"type": "Drifted", "status": "True"}]}});
    let bad = [
        (
            json!({"metadata": {"name": "bad-1", "uid": "B1"}, "status": {"conditions": "oops"}}),
            (Some("bad-1"), Some("B1"), "status.conditions: not a list"),
        ),
        (
            json!({"metadata": {"uid": "B2"}}),
            (None, Some("B2"), "metadata.name: missing"),
        ),
        (
            json!({"metadata": {"name": "bad-3", "uid": "B3", "deletionTimestamp": 12345}}),
            (
                Some("bad-3"),
                Some("B3"),
                "metadata.deletionTimestamp: not a text",
            ),
        ),
        (json!("oops"), (None, None, "the object: not an object")),
        (Value::Null, (None, None, "the object: not an object")),
        (
            json!({"metadata": {"name": "bad-4", "uid": ""}}),
            (Some("bad-4"), None, "metadata.uid: missing"),
        ),
        (
            json!({"metadata": {"name": "bad-5", "uid": "B5"}, "status": "down"}),
            (Some("bad-5"), Some("B5"), "status: not an object"),
        ),
    ];
    let mut items = vec![good];
    items.extend(bad.iter().map(|(item, _)| item.clone()));
    items.push(drifted);
    let mut listing = Listing::default();
    extend(&mut listing, &items, claim);
    let names: Vec<&str> = listing.items.iter().map(|claim| claim.name.as_str()).collect();
    assert_eq!(names, ["good", "drifted"]);
    assert!(listing.items[1].drifted.is_some());
    let reported: Vec<_> = listing
        .undecodable
        .iter()
        .map(|bad| (bad.name.as_deref(), bad.uid.as_deref(), bad.problem.as_str()))
        .collect();
    assert_eq!(
        reported,
        bad.iter().map(|(_, expected)| *expected).collect::<Vec<_>>()
    );
}

#[test]
fn a06_fields_that_no_rule_reads_may_hold_anything() {
    let pod = pod(&json!({
        "metadata": {"name": "p", "uid": "u", "managedFields": 7, "finalizers": "x"},
        "spec": {"restartPolicy": "Sometimes", "dnsPolicy": 3, "containers": [{"name": "c", "env": "?"}]},
        "status": {"phase": "Hibernating", "qosClass": []},
    }))
    .unwrap();
    assert!(!pod.finished);
}

#[test]
fn containers_running_restarted_waiting_and_ended() {
    let pod = pod(&json!({
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"containers": [{"name": "trino", "image": "trino:483"}, {"name": "side"}, {"name": "job"}],
            "volumes": [{"name": "a", "configMap": {"name": "x-coordinator-config"}}, {"name": "b", "emptyDir": {}},
                {"name": "c", "projected": {"sources": [{"configMap": {"name": "x-coordinator-config"}},
                    {"configMap": {"name": "more"}}]}}]},
        "status": {"phase": "Running", "startTime": "2031-01-01T00:00:00Z", "podIP": "", "containerStatuses": [
            {"name": "trino", "containerID": "cri://2", "restartCount": 1, "state": {"running": {}},
                "lastState": {"terminated": {"containerID": "cri://1", "exitCode": 137}}},
            {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
            {"name": "job", "containerID": "cri://9", "state": {"terminated": {"exitCode": 0}}}]},
    }))
    .unwrap();
    let trino = &pod.containers["trino"];
    assert_eq!(trino.running.as_ref().unwrap().as_str(), "cri://2");
    assert_eq!(trino.last_terminated.as_ref().unwrap().as_str(), "cri://1");
    assert_eq!((trino.restarts, &trino.terminated), (1, &None));
    assert_eq!(
        pod.containers["side"].waiting.as_deref(),
        Some("ImagePullBackOff")
    );
    assert_eq!(
        pod.containers["job"].terminated.as_ref().unwrap().as_str(),
        "cri://9"
    );
    assert_eq!(pod.containers["job"].running, None);
    let mounts: Vec<&str> = pod.config_maps.iter().map(ObjectName::as_str).collect();
    assert_eq!(mounts, ["x-coordinator-config", "more"]);
    assert_eq!(pod.ip, None);
}

#[test]
fn a_pending_pod_says_why() {
    let because = |condition: Value| {
        pod(
            &json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"nodeName": ""},
            "status": {"conditions": [condition]}}),
        )
        .unwrap()
        .unschedulable_because
    };
    let full =
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"});
    assert_eq!(because(full).as_deref(), Some("0/3 nodes"));
    let short = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"});
    assert_eq!(because(short).as_deref(), Some("SchedulingGated"));
    let bare = json!({"type": "PodScheduled", "status": "False"});
    assert_eq!(because(bare).as_deref(), Some("no reason given"));
    assert_eq!(because(json!({"type": "PodScheduled", "status": "True"})), None);
}

#[test]
fn a_deployment_without_replicas_is_not_one_of_zero() {
    let facts =
        deployment(&json!({"metadata": {"name": "d", "uid": "u", "namespace": "trino", "generation": 4}}));
    let facts = facts.unwrap();
    assert_eq!((facts.replicas, facts.ready, facts.generation), (None, 0, 4));
    assert_eq!(facts.object.kind, ObjectKind::Deployment);
    let negative = json!({"metadata": {"name": "d", "uid": "u", "namespace": "n"}, "spec": {"replicas": -1}});
    assert!(deployment(&negative).is_err());
}

#[test]
fn a_pool_hands_its_spec_on_unread() {
    let facts = pool(&json!({
        "metadata": {"name": "analytics", "namespace": "trino", "uid": "u", "resourceVersion": "5",
            "generation": 3, "finalizers": ["other", "trinopool.dev/pool"]},
        "spec": {"desired": "three"}, "status": {"storeId": "s-1"},
    }))
    .unwrap();
    assert!(facts.finalizer && !facts.deleting);
    assert_eq!(
        (facts.generation.get(), &facts.spec),
        (3, &json!({"desired": "three"}))
    );
    assert_eq!(facts.store.unwrap().as_str(), "s-1");
    let bare = pool(&json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}})).unwrap();
    assert_eq!(
        (bare.finalizer, bare.spec, bare.store),
        (false, Value::Null, None)
    );
}

#[test]
fn a_lease_survives_its_own_encoding() {
    let facts = LeaseFacts {
        resource_version: "7".into(),
        holder: Some("pod-a".to_owned()),
        duration: Duration::from_secs(15),
        renewed_at: Some("2031-01-01T00:00:00.5Z".parse().unwrap()),
        transitions: 3,
    };
    let spec = encode_lease_spec(&facts);
    assert_eq!(
        spec["renewTime"], "2031-01-01T00:00:00.500000Z",
        "MicroTime has six digits"
    );
    assert_eq!(
        lease(&json!({"metadata": {"resourceVersion": "7"}, "spec": spec})),
        Ok(facts.clone())
    );
    let released = encode_lease_spec(&LeaseFacts {
        holder: None,
        duration: Duration::ZERO,
        ..facts
    });
    assert_eq!(
        (&released["holderIdentity"], &released["leaseDurationSeconds"]),
        (&json!(""), &json!(1))
    );
    let read = lease(&json!({"metadata": {"resourceVersion": "8"}, "spec": released})).unwrap();
    assert_eq!(read.holder, None);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9:TZ-]{0,12}".prop_map(Value::from),
    ];
    let keys = proptest::sample::select(vec![
        "metadata",
        "name",
        "uid",
        "namespace",
        "spec",
        "status",
        "conditions",
        "type",
        "items",
        "labels",
        "containers",
        "containerStatuses",
        "state",
        "running",
        "deletionTimestamp",
        "ownerReferences",
        "replicas",
        "volumes",
        "taints",
        "resourceVersion",
    ]);
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(keys.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_panics_and_none_gives_an_empty_identity(value in any_json()) {
        if let Ok(facts) = pod(&value) { prop_assert!(!facts.uid.is_empty() && !facts.name.is_empty()); }
        if let Ok(facts) = node(&value) { prop_assert!(!facts.uid.is_empty()); }
        if let Ok(facts) = claim(&value) {
            prop_assert!(facts.node.is_none_or(|node| !node.is_empty()));
            prop_assert!(facts.provider_id.is_none_or(|id| !id.is_empty()));
        }
        if let Ok(facts) = deployment(&value) { prop_assert!(!facts.object.uid.is_empty()); }
        let _ = (replica_set(&value), pool(&value), lease(&value), object(ObjectKind::Service, &value));
    }
}
