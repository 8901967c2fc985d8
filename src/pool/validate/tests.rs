//! Every refusal names its field; what is accepted can be rendered.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::pool::ids::PoolId;

fn namespace() -> Namespace {
    Namespace::from("trino")
}

fn spec() -> Value {
    example_spec("analytics")
}

/// The example with one field set, by JSON pointer; its parent must exist.
fn with(pointer: &str, value: Value) -> Value {
    let mut spec = spec();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    spec.pointer_mut(parent).unwrap()[field] = value;
    spec
}

fn accepted(spec: &Value) -> DesiredPool {
    validate(&namespace(), spec).unwrap_or_else(|problems| panic!("{}", describe(&problems)))
}

/// Paths of all problems of a spec; it must have some.
fn refused(spec: &Value) -> Vec<String> {
    let problems = validate(&namespace(), spec).expect_err("must be refused");
    assert!(!problems.is_empty());
    problems.into_iter().map(|problem| problem.path).collect()
}

const WORKER_POD: &str = "/template/workers/podTemplate";

/// The example with one field of the workers' pod template set.
fn with_pod(field: &str, value: Value) -> Value {
    with(&format!("{WORKER_POD}/{field}"), value)
}

#[test]
fn s11_nul_is_refused_wherever_it_stands_and_not_repeated() {
    let nul = "a\0b";
    let cases = [
        (with("/routingGroup", json!(nul)), "spec.routingGroup"),
        (with("/confirmEmpty", json!(nul)), "spec.confirmEmpty"),
        (
            with("/template/catalogs", json!({ "hive": nul })),
            "spec.template.catalogs.hive",
        ),
        (
            with("/template/catalogs", json!({ nul: "connector.name=tpch" })),
            "spec.template.catalogs.a\\u0000b",
        ),
        (
            with_pod("metadata", json!({ "annotations": { "note": nul } })),
            "spec.template.workers.podTemplate.metadata.annotations.note",
        ),
        (
            with_pod("anything", json!([["x", nul]])),
            "spec.template.workers.podTemplate.anything[0][1]",
        ),
    ];
    for (spec, path) in cases {
        assert_eq!(refused(&spec), [path]);
        let problems = validate(&namespace(), &spec).unwrap_err();
        assert!(!describe(&problems).contains('\0'), "it is stored and shown");
    }
}

#[test]
fn the_example_is_valid_and_defaults_are_filled_in() {
    let desired = accepted(&spec());
    assert_eq!(
        (
            desired.instances,
            desired.min_serving,
            desired.max_surge,
            desired.max_repair
        ),
        (3, 2, 1, 1)
    );
    assert_eq!(desired.namespace, namespace());
    assert_eq!(desired.deletion_policy, DeletionPolicy::Retain);
    assert_eq!(desired.node_replacement.finite_grace, FiniteGrace::Reject);
    assert_eq!(desired.node_replacement.unowned_nodes, UnownedNodes::Reject);
    assert_eq!(desired.timings, Timings::default());
    assert_eq!(desired.blueprint.container, "trino");
    assert_eq!(desired.blueprint.http_port, 8080);
    assert_eq!(desired.blueprint.workers, 2);
}

#[test]
fn the_floor_is_the_desired_count_unless_said_otherwise() {
    let mut spec = spec();
    spec.as_object_mut().unwrap().remove("minServing");
    assert_eq!(accepted(&spec).min_serving, 3);
}

#[test]
fn null_is_absent() {
    assert_eq!(accepted(&with("/maxSurge", Value::Null)).max_surge, 1);
    assert_eq!(refused(&with("/instances", Value::Null)), ["spec.instances"]);
}

#[test]
fn every_problem_is_named_at_once() {
    let mut spec = spec();
    spec["instances"] = json!(0);
    spec["minServing"] = json!("two");
    spec["surge"] = json!(1);
    spec["timings"] = json!({"suspectAfter": "soon"});
    spec["template"]["image"] = json!(" ");
    spec["template"]["workers"]["replicas"] = json!(101);
    spec["nodeReplacement"]["unownedNodes"] = json!("maybe");
    let problems = validate(&namespace(), &spec).unwrap_err();
    let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(text.join("\n"), @r#"
    spec.instances: is 0; use a whole number from 1 to 1000
    spec.minServing: is "two"; use a whole number from 1 to 1000
    spec.nodeReplacement.unownedNodes: is "maybe"; use one of Reject, Allow
    spec.surge: is not a field of a TrinoPool; remove it; known here are confirmEmpty, deletionPolicy, instances, maxRepair, maxSurge, minServing, nodeReplacement, release, routingGroup, template, timings
    spec.template.image: is empty; give it a value or leave it out
    spec.template.workers.replicas: is 101; use a whole number from 1 to 100
    spec.timings.suspectAfter: is "soon"; use a positive duration such as 30s, 15m or 1h 30m
    "#);
}

#[test]
fn a_spec_that_is_no_object_is_refused_without_a_panic() {
    for spec in [json!(null), json!([]), json!("pool"), json!(3), json!({})] {
        let paths = refused(&spec);
        assert!(paths.contains(&"spec.instances".to_owned()), "{paths:?}");
    }
}

#[test]
fn an_unknown_field_is_refused_with_its_path_wherever_it_stands() {
    assert_eq!(
        refused(&with("/template/workers/replica", json!(3))),
        ["spec.template.workers.replica"]
    );
    assert_eq!(
        refused(&with("/nodeReplacement/enable", json!(true))),
        ["spec.nodeReplacement.enable"]
    );
    assert_eq!(
        refused(&with_pod("spec/tolerationss", json!([]))),
        ["spec.template.workers.podTemplate.spec.tolerationss"]
    );
    assert_eq!(
        refused(&with_pod(
            "spec/containers",
            json!([{"name": "trino", "resources": {"request": {}}}])
        )),
        ["spec.template.workers.podTemplate.spec.containers[0].resources.request"]
    );
}

#[test]
fn a_floor_above_the_desired_count_is_refused() {
    assert_eq!(refused(&with("/minServing", json!(4))), ["spec.minServing"]);
}

#[test]
fn durations_are_read_as_people_write_them() {
    for (text, seconds) in [
        ("90s", 90),
        ("15m", 900),
        ("1h 30m", 5400),
        ("1h30m", 5400),
        ("500ms", 0),
    ] {
        let spec = with("/timings", json!({"suspectAfter": text}));
        assert_eq!(accepted(&spec).timings.suspect_after.as_secs(), seconds, "{text}");
    }
    for bad in [
        json!("0s"),
        json!("-5m"),
        json!("5"),
        json!(300),
        json!("forever"),
        json!(""),
    ] {
        let spec = with("/timings", json!({"suspectAfter": bad}));
        assert_eq!(refused(&spec), ["spec.timings.suspectAfter"], "{bad}");
    }
    let spec = with(
        "/timings",
        json!({"candidateBackoff": "10m", "candidateBackoffMax": "1m"}),
    );
    assert_eq!(refused(&spec), ["spec.timings.candidateBackoffMax"]);
}

#[test]
fn k02_a_finite_grace_is_rejected_unless_the_policy_says_how_long_is_enough() {
    let spec = with("/nodeReplacement/finiteGrace", json!({"acceptAtLeast": "30m"}));
    assert_eq!(
        accepted(&spec).node_replacement.finite_grace,
        FiniteGrace::AcceptAtLeast(Duration::from_mins(30))
    );
    for (bad, path) in [
        (json!("Accept"), "spec.nodeReplacement.finiteGrace"),
        (json!({}), "spec.nodeReplacement.finiteGrace.acceptAtLeast"),
        (
            json!({"acceptAtLeast": "0s"}),
            "spec.nodeReplacement.finiteGrace.acceptAtLeast",
        ),
        (
            json!({"acceptAtLeast": "1h", "else": 1}),
            "spec.nodeReplacement.finiteGrace.else",
        ),
    ] {
        assert_eq!(refused(&with("/nodeReplacement/finiteGrace", bad)), [path]);
    }
}

#[test]
fn a12_a_toleration_of_leaving_nodes_is_refused() {
    let accept = json!([
        {"key": "dedicated", "value": "trino"},
        {"operator": "Exists", "effect": "NoExecute"},
    ]);
    accepted(&with_pod("spec/tolerations", accept));
    for bad in [
        json!({"operator": "Exists"}),
        json!({"operator": "Exists", "effect": "NoSchedule"}),
        json!({"key": "", "operator": "Exists"}),
        json!({"key": "karpenter.sh/disrupted", "operator": "Exists"}),
        json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}),
    ] {
        let paths = refused(&with_pod("spec/tolerations", json!([bad])));
        assert_eq!(
            paths,
            ["spec.template.workers.podTemplate.spec.tolerations[0]"],
            "{bad}"
        );
    }
}

#[test]
fn t08_only_spooling_that_goes_past_the_instance_is_accepted() {
    let file = |lines: &str| {
        let base = "coordinator=false\ndiscovery.uri=${ENV:TRINO_POOL_DISCOVERY_URI}\n";
        with(
            "/template/configFiles/worker",
            json!({"config.properties": format!("{base}{lines}")}),
        )
    };
    accepted(&file(
        "protocol.spooling.enabled=true\nprotocol.spooling.retrieval-mode=STORAGE\n",
    ));
    accepted(&file("protocol.spooling.enabled=true\n"));
    accepted(&file("protocol.spooling.retrieval-mode=COORDINATOR_PROXY\n"));
    for mode in [
        "WORKER_PROXY",
        "COORDINATOR_PROXY",
        "COORDINATOR_STORAGE_REDIRECT",
        "${ENV:MODE}",
    ] {
        let lines = format!("protocol.spooling.enabled=true\nprotocol.spooling.retrieval-mode = {mode}\n");
        assert_eq!(
            refused(&file(&lines)),
            ["spec.template.configFiles.worker.config.properties[protocol.spooling.retrieval-mode]"],
            "{mode}"
        );
    }
}

#[test]
fn what_the_operator_sets_may_not_be_set_in_a_template() {
    let path = |rest: &str| format!("spec.template.workers.podTemplate.{rest}");
    let metadata = json!({
        "name": "x",
        "labels": {"trinopool.dev/instance": "x", "app.kubernetes.io/component": "x", "team": "data"},
        "annotations": {"trinopool.dev/spec-digest": "x", "karpenter.sh/do-not-disrupt": "True"},
    });
    assert_eq!(
        refused(&with_pod("metadata", metadata)),
        [
            path("metadata.annotations[karpenter.sh/do-not-disrupt]"),
            path("metadata.annotations[trinopool.dev/spec-digest]"),
            path("metadata.labels[app.kubernetes.io/component]"),
            path("metadata.labels[trinopool.dev/instance]"),
            path("metadata.name"),
        ]
    );
    let main = json!([{
        "name": "trino",
        "image": "other:1",
        "env": [{"name": "TRINO_POOL_INSTANCE", "value": "x"}, {"name": "OTHER", "value": "x"}],
        "volumeMounts": [{"name": "etc", "mountPath": "/etc/trino/"}],
    }]);
    assert_eq!(
        refused(&with_pod("spec/containers", main)),
        [
            path("spec.containers[0].env[TRINO_POOL_INSTANCE]"),
            path("spec.containers[0].image"),
            path("spec.containers[0].volumeMounts[etc]"),
        ]
    );
    for (field, value) in [
        ("nodeName", json!("node-1")),
        ("hostNetwork", json!(true)),
        ("hostPID", json!(true)),
        ("activeDeadlineSeconds", json!(60)),
        ("restartPolicy", json!("Never")),
    ] {
        let paths = refused(&with_pod(&format!("spec/{field}"), value));
        assert_eq!(paths, [path(&format!("spec.{field}"))]);
    }
}

#[test]
fn exactly_one_main_container_is_needed() {
    for containers in [
        json!([]),
        json!([{"name": "sidecar", "image": "x"}]),
        json!([{"name": "trino"}, {"name": "trino"}]),
    ] {
        let paths = refused(&with_pod("spec/containers", containers));
        assert!(
            paths
                .iter()
                .all(|path| path.ends_with("podTemplate.spec.containers")),
            "{paths:?}"
        );
    }
    let mut spec = with("/template/containerName", json!("server"));
    for component in ["coordinator", "workers"] {
        // A container beside the main one needs an image of its own.
        spec["template"][component]["podTemplate"]["spec"]["containers"][0]["image"] = json!("x");
    }
    assert_eq!(refused(&spec).len(), 2, "both templates lack it");
}

#[test]
fn placement_that_karpenter_launches_nothing_for_is_refused_where_it_matters() {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["a"]},
        ]}],
    }}});
    let mut spec = with_pod("spec/affinity", affinity);
    assert_eq!(refused(&spec).len(), 1);
    spec["nodeReplacement"]["enabled"] = json!(false);
    accepted(&spec);
}

#[test]
fn a_worker_that_would_join_another_instance_is_refused() {
    let worker = |text: &str| with("/template/configFiles/worker", json!({"config.properties": text}));
    let path = |key: &str| format!("spec.template.configFiles.worker.config.properties[{key}]");
    assert_eq!(
        refused(&worker("discovery.uri=http://elsewhere:8080\n")),
        [path("coordinator"), path("discovery.uri")]
    );
    let mut without = spec();
    without["template"]["configFiles"] = json!({});
    assert_eq!(
        refused(&without),
        [
            "spec.template.configFiles.coordinator.config.properties",
            "spec.template.configFiles.worker.config.properties",
        ]
    );
    let wrong_port = with("/template/httpPort", json!(8443));
    assert_eq!(
        refused(&wrong_port),
        ["spec.template.configFiles.coordinator.config.properties[http-server.http.port]"]
    );
}

#[test]
fn catalogs_and_files_are_named_so_that_they_can_be_mounted() {
    for (name, text) in [
        ("sys tem", "connector.name=x"),
        ("system", "connector.name=x"),
        ("tpcds", "a=b"),
    ] {
        let spec = with("/template/catalogs", json!({ name: text }));
        assert_eq!(refused(&spec), [format!("spec.template.catalogs.{name}")]);
    }
    for name in ["catalog.x.properties", "a/b", "..data"] {
        let mut spec = spec();
        spec["template"]["configFiles"]["worker"][name] = json!("x");
        assert_eq!(
            refused(&spec),
            [format!("spec.template.configFiles.worker.{name}")]
        );
    }
}

#[test]
fn only_the_exact_uid_confirms_that_a_pool_may_be_emptied() {
    let uid = ObjectUid::from("8a1c");
    let spec = |policy: &str, confirm: Value| json!({"deletionPolicy": policy, "confirmEmpty": confirm});
    assert!(confirms_emptying(&spec("Drain", json!("8a1c")), &uid));
    assert!(!confirms_emptying(&spec("Drain", json!("8a1d")), &uid));
    assert!(!confirms_emptying(&spec("Drain", json!(true)), &uid));
    assert!(!confirms_emptying(&spec("Retain", json!("8a1c")), &uid));
    assert!(!confirms_emptying(
        &spec("Drain", json!("")),
        &ObjectUid::from("")
    ));
    assert!(!confirms_emptying(&json!(null), &uid));
}

#[test]
fn the_identity_of_a_pool_does_not_change() {
    let recorded = PoolIdentity {
        id: PoolId::from("trino/analytics"),
        namespace: namespace(),
        routing_group: RoutingGroup::from("analytics"),
    };
    assert_eq!(identity_change(&recorded, &accepted(&spec())), None);
    let other = accepted(&with("/routingGroup", json!("adhoc")));
    assert_eq!(
        identity_change(&recorded, &other).as_deref(),
        Some("spec.routingGroup is adhoc, was analytics")
    );
}
