//! `check --protection` against a simulated cluster over HTTP: what it finds, what it cannot read, and that it only reads.

use jiff::Timestamp;
use serde_json::{Value, json};
use trino_pool_operator::sim::kube::{Fault, FaultRule, Resource};
use trino_pool_operator::sim::world::{NAMESPACE, NODE_POOL};

use crate::cluster::Cluster;
use crate::run::until;
use crate::said::{Said, binary, say};

const PROTECTION: &str = "karpenter.sh/do-not-disrupt";

/// A cluster with a protected coordinator and a worker, each on a node of Karpenter's; their names, and the nodes'.
struct Protected {
    cluster: Cluster,
    nodes: [String; 2],
}

const PODS: [(&str, &str); 2] = [("cell-1-coordinator", "coordinator"), ("cell-1-worker", "worker")];
const WORKER: &str = "cell-1-worker";

impl Protected {
    async fn begin() -> Self {
        let cluster = Cluster::begin().await;
        let nodes = cluster.world.with(|world| {
            PODS.map(|(name, component)| {
                let now = Timestamp::now();
                let node = world.kube.add_node(NODE_POOL, now).unwrap();
                let mut pod = pod(name, component);
                pod["spec"]["nodeName"] = json!(node);
                assert!(world.kube.create(Resource::Pods, NAMESPACE, pod, now));
                node
            })
        });
        Self { cluster, nodes }
    }

    fn edit(&self, resource: Resource, name: &str, change: impl FnOnce(&mut Value)) {
        let namespace = if resource == Resource::Pods { NAMESPACE } else { "" };
        let edited = |world: &mut trino_pool_operator::sim::world::World| {
            world.kube.edit(resource, namespace, name, change)
        };
        assert!(self.cluster.world.with(edited), "there is no {name}");
    }

    /// Name of the NodeClaim that owns the worker's node.
    fn claim(&self) -> String {
        let node = self
            .cluster
            .world
            .peek(|world| world.kube.object(Resource::Nodes, "", &self.nodes[1]).unwrap());
        node["metadata"]["ownerReferences"][0]["name"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn say(&self, more: &[&str]) -> Said {
        say(self.cluster.check(more))
    }

    /// The object that `--output json` prints, with the exit status that goes with it.
    #[track_caller]
    fn json(&self, more: &[&str]) -> Value {
        let said = self.say(&[&["--output", "json"], more].concat());
        let report: Value = serde_json::from_str(&said.out).unwrap();
        let status = i32::from(report["passed"] != true);
        assert_eq!((said.code, said.err.as_str()), (Some(status), ""), "{said:?}");
        report
    }

    fn refuse(&self, resource: Resource, fault: Fault) -> Said {
        let rule = FaultRule::on(resource, fault);
        let id = self.cluster.world.with(|world| world.kube.inject(rule));
        let said = self.say(&[]);
        self.cluster.world.with(|world| world.kube.clear_fault(id));
        said
    }
}

fn pod(name: &str, component: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {
                "app.kubernetes.io/managed-by": "trino-pool-operator",
                "app.kubernetes.io/component": component,
            },
            "annotations": {PROTECTION: "true"},
        },
        "spec": {"containers": [{"name": "trino", "image": "example/trino:483"}]},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_cluster_passes_and_is_only_read() {
    let protected = Protected::begin().await;
    let said = protected.say(&[]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
    assert_eq!(
        said.out,
        "protection: ok, 2 of 2 live pods protected, 2 of 2 nodes beneath them sound\n"
    );
    let report = protected.json(&["--namespace", NAMESPACE]);
    assert_eq!(report["check"], "protection");
    assert_eq!(report["namespaces"], json!([NAMESPACE]));
    assert_eq!(
        report["pods"],
        json!({"live": 2, "protected": 2, "unplaced": 0, "unreadable": 0, "left_out": 0})
    );
    assert_eq!(report["nodes"], json!({"checked": 2, "sound": 2}));
    assert_eq!(report["findings"], json!([]));
    let us = format!("trino-pool-operator/{}", env!("CARGO_PKG_VERSION"));
    let asked = protected
        .cluster
        .world
        .peek(|world| world.kube.log().counts_of(&us));
    let asked: Vec<_> = asked
        .iter()
        .map(|(what, times)| (what.as_str(), *times))
        .collect();
    assert_eq!(
        asked,
        [("GET nodes", 4), ("LIST nodeclaims", 2), ("LIST pods", 2)]
    );
}

/// The labels by which it looks are those that the operator writes.
#[tokio::test(flavor = "multi_thread")]
async fn the_pods_that_the_operator_makes_are_found_and_protected() {
    let cluster = Cluster::begin().await;
    let store = format!("sqlite:{}", cluster.file("store.db").display());
    assert_eq!(say(["migrate", "--store", &store]).code, Some(0));
    let mut process = binary(cluster.command(&store, &["--no-leader-election"]));
    until("the pool serves", &mut process, || cluster.serving() == 1).await;
    let said = say(cluster.check(&["--namespace", NAMESPACE]));
    process.terminate();
    assert_eq!(process.ended().code, Some(0));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        said.out,
        "protection: ok, 2 of 2 live pods protected, 2 of 2 nodes beneath them sound\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn k14_a_pod_that_a_duration_protects_for_a_while_is_named() {
    let protected = Protected::begin().await;
    protected.edit(Resource::Pods, WORKER, |pod| {
        pod["metadata"]["annotations"][PROTECTION] = json!("5m");
    });
    let said = protected.say(&[]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("1 of 2 live pods protected"), "{}", said.out);
    assert!(
        said.out.contains(&format!("Pod {NAMESPACE}/{WORKER}")),
        "{}",
        said.out
    );
    let report = protected.json(&[]);
    let finding = &report["findings"][0];
    assert_eq!(report["findings"].as_array().unwrap().len(), 1);
    assert_eq!(finding["kind"], "PodUnprotected");
    assert_eq!(finding["object"], "Pod");
    assert_eq!(finding["namespace"], NAMESPACE);
    assert_eq!(finding["name"], WORKER);
    assert_eq!(finding["node"], protected.nodes[1]);
    assert_eq!(finding["found"], "5m");
}

#[tokio::test(flavor = "multi_thread")]
async fn k02_k08_nodes_that_would_not_hold_are_named_with_their_pods() {
    let protected = Protected::begin().await;
    let claim = protected.claim();
    protected.edit(Resource::NodeClaims, &claim, |claim| {
        claim["spec"]["terminationGracePeriod"] = json!("30m");
    });
    protected.edit(Resource::Nodes, &protected.nodes[0], |node| {
        node["metadata"]["ownerReferences"] = json!([]);
    });
    let report = protected.json(&[]);
    let told: Vec<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| {
            (
                finding["kind"].as_str().unwrap(),
                finding["name"].as_str().unwrap(),
                finding["pods"][0].as_str().unwrap(),
            )
        })
        .collect();
    let worker = format!("{NAMESPACE}/{WORKER}");
    let coordinator = format!("{NAMESPACE}/{}", PODS[0].0);
    assert_eq!(
        told,
        [
            ("NodeUnowned", protected.nodes[0].as_str(), coordinator.as_str()),
            ("FiniteGrace", claim.as_str(), worker.as_str()),
        ]
    );
    assert_eq!(report["findings"][1]["found"], "1800s");
    assert_eq!(report["nodes"], json!({"checked": 2, "sound": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_decoded_is_a_finding_and_no_failure() {
    let protected = Protected::begin().await;
    protected.edit(Resource::Pods, PODS[0].0, |pod| {
        pod["metadata"]["annotations"] = json!("none");
    });
    protected.edit(Resource::Nodes, &protected.nodes[1], |node| {
        node["spec"]["taints"] = json!("none");
    });
    let report = protected.json(&[]);
    let findings = report["findings"].as_array().unwrap();
    let told: Vec<_> = findings
        .iter()
        .map(|finding| (&finding["kind"], &finding["name"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("PodUnreadable"), &json!(PODS[0].0)),
            (&json!("NodeUnreadable"), &json!(protected.nodes[1])),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_ends_it_and_is_named() {
    let protected = Protected::begin().await;
    for (resource, permission) in [
        (Resource::Pods, "list pods"),
        (Resource::Nodes, "get nodes"),
        (Resource::NodeClaims, "list nodeclaims.karpenter.sh"),
    ] {
        let said = protected.refuse(resource, Fault::Forbidden);
        assert!(
            said.refused()
                .contains(&format!("grant this identity to {permission}")),
            "{said:?}"
        );
    }
    let said = protected.refuse(Resource::NodeClaims, Fault::NotServed);
    assert!(said.refused().contains("Karpenter"), "{said:?}");
    let said = protected.refuse(Resource::NodeClaims, Fault::Broken);
    assert!(said.refused().contains("NodeClaims cannot be read"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_without_our_pods_is_said_so() {
    let protected = Protected::begin().await;
    let report = protected.json(&["--namespace", "elsewhere", "--namespace", NAMESPACE]);
    assert_eq!(report["empty_namespaces"], json!(["elsewhere"]));
    assert_eq!(report["pods"]["live"], 2);
    let said = protected.say(&["--namespace", "elsewhere"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.out.contains("no such pod at all in --namespace elsewhere"),
        "{}",
        said.out
    );
}
