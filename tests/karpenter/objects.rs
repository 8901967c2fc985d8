//! The objects that a story begins with, as an administrator would write them.

use serde_json::{Value, json};
use trino_pool_operator::pool::validate::example_spec;

use crate::scene::Setup;

/// Changes a value as a JSON merge patch does (RFC 7386), except that null stays null.
pub fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

/// A NodePool of the story's name, which disrupts all nodes at once if pods let it.
pub fn node_pool(name: &str, setup: &Setup) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "disruption": {
                "budgets": [{"nodes": "100%"}],
                "consolidateAfter": "Never",
                "consolidationPolicy": "WhenEmpty",
            },
            "template": {
                "metadata": {"labels": {"story": name}},
                "spec": {
                    "expireAfter": "Never",
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                    "requirements": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    ],
                },
            },
        },
    });
    merge(&mut pool["spec"], &setup.node_pool);
    pool
}

/// A TrinoPool whose pods run on the story's nodes, each on one of its own.
pub fn trino_pool(namespace: &str, pool: &str, setup: &Setup) -> Value {
    let mut spec = example_spec(pool);
    spec["instances"] = json!(setup.instances);
    spec["minServing"] = json!(setup.floor());
    spec["template"]["workers"]["replicas"] = json!(setup.workers);
    for part in ["coordinator", "workers"] {
        spec["template"][part]["podTemplate"]["spec"]["nodeSelector"] = json!({"story": namespace});
    }
    merge(&mut spec, &setup.spec);
    json!({
        "apiVersion": "trinopool.dev/v1alpha1",
        "kind": "TrinoPool",
        "metadata": {"name": pool, "namespace": namespace},
        "spec": spec,
    })
}

/// A machine that nobody's NodeClaim owns.
pub fn node_by_hand(name: &str, story: &str) -> Value {
    let room = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "story": story,
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
            },
        },
        "spec": {"providerID": format!("by-hand://{name}")},
        "status": {"allocatable": room, "capacity": room},
    })
}
