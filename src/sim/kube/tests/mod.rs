//! Stories of the whole cluster: given a fleet, when something happens, then.

mod api;
mod costs;
mod karpenter;
mod watches;
mod workloads;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use jiff::Timestamp;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::json as j;
use super::*;

struct Fleet {
    kube: KubeSim,
    now: Timestamp,
    rng: ChaCha8Rng,
}

impl Fleet {
    fn empty(seed: u64) -> Self {
        let now = "2026-12-02T05:00:00Z".parse().unwrap();
        let options = KubeOptions {
            readiness_held: None,
            ..KubeOptions::default()
        };
        let mut kube = KubeSim::new(options, ChaCha8Rng::seed_from_u64(seed), now);
        kube.ensure_namespace("trino", now);
        Self {
            kube,
            now,
            rng: ChaCha8Rng::seed_from_u64(seed + 1),
        }
    }

    /// One NodePool with as many Ready nodes, and a Deployment of one pod per node.
    fn with(nodes: usize, plan: &NodePoolPlan) -> Self {
        let mut fleet = Self::empty(7);
        fleet.kube.create_node_pool("default", plan, fleet.now);
        for _ in 0..nodes {
            fleet.kube.add_node("default", fleet.now).unwrap();
        }
        fleet
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now = j::later(self.now, Duration::from_secs(1));
            self.kube.step(self.now, &mut self.rng);
        }
    }

    fn send(&mut self, method: &str, uri: &str, body: &Value) -> (u16, Value) {
        let response = self.raw(method, uri, "application/merge-patch+json", body);
        let code = response.status().as_u16();
        (
            code,
            serde_json::from_slice(response.body()).unwrap_or(Value::Null),
        )
    }

    fn raw(&mut self, method: &str, uri: &str, content_type: &str, body: &Value) -> Response<Bytes> {
        let body = if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        };
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", content_type)
            .header("x-sim-actor", "test")
            .body(body)
            .unwrap();
        self.kube.handle(&request, self.now)
    }

    fn deploy(&mut self, name: &str, replicas: u32, annotations: &Value) {
        let body = deployment(name, replicas, annotations);
        let (code, answer) = self.send("POST", "/apis/apps/v1/namespaces/trino/deployments", &body);
        assert_eq!(code, 201, "{answer}");
    }

    fn claim_of(&self, node: &str) -> String {
        let nodes = self.kube.nodes();
        let node = nodes.iter().find(|entry| entry.name == node).unwrap();
        node.claim.clone().unwrap()
    }

    fn acts(&self, actor: &str, resource: Resource) -> usize {
        let acts = self.kube.log().destructive().iter();
        acts.filter(|act| act.actor == actor && act.resource == resource)
            .count()
    }
}

fn deployment(name: &str, replicas: u32, annotations: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": annotations},
                "spec": {
                    "terminationGracePeriodSeconds": 30,
                    "containers": [{"name": "trino", "image": "example/trino:483"}],
                    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"},
                    ]}},
                },
            },
        },
    })
}

fn protected() -> Value {
    json!({"karpenter.sh/do-not-disrupt": "true"})
}

fn patch_pod(fleet: &mut Fleet, name: &str, patch: &Value) -> (u16, Value) {
    fleet.send("PATCH", &format!("/api/v1/namespaces/trino/pods/{name}"), patch)
}
