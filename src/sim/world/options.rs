//! What a world begins with.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::pool::validate::example_spec;
use crate::sim::clients::ClientOptions;
use crate::sim::kube::{KubeOptions, NodePoolPlan};
use crate::sim::trino::Behaviour;

/// Namespace of every simulated pool.
pub const NAMESPACE: &str = "trino";

/// What stands before anything happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartState {
    /// No node and no pod.
    #[default]
    Empty,
    /// The nodes, claims and pods that were recorded from a real control plane with Karpenter
    /// (`tests/fixtures/karpenter`, clean): machines that were not made by this simulation, and a workload
    /// with our labels that no row knows.
    Recorded,
}

/// How a world is set up. Everything that varies follows from `seed`.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Seed of every generator in the world.
    pub seed: u64,
    /// What stands before anything happens.
    pub state: StartState,
    /// When it begins.
    pub start: Timestamp,
    /// TrinoPools.
    pub pools: u32,
    /// Desired instances of each.
    pub instances: u32,
    /// Serving floor of each; one below `instances` when absent, but at least 1.
    pub min_serving: Option<u32>,
    /// Surge budget of each.
    pub max_surge: u32,
    /// Repair budget of each.
    pub max_repair: u32,
    /// Workers of each instance.
    pub workers: u32,
    /// Clients of each pool.
    pub clients: u32,
    /// How clients behave.
    pub client: ClientOptions,
    /// `spec.nodeReplacement.enabled`.
    pub node_replacement: bool,
    /// How coordinators behave unless told otherwise.
    pub behaviour: Behaviour,
    /// How the cluster behaves.
    pub kube: KubeOptions,
    /// The one NodePool.
    pub node_pool: NodePoolPlan,
    /// How long the gateway keeps a finished query as an obligation.
    pub terminal_retention: Duration,
    /// Between two rounds of the gateway's health monitor.
    pub monitor_interval: Duration,
    /// Merged into the spec of every TrinoPool (JSON merge patch).
    pub spec: Value,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            state: StartState::Empty,
            start: Timestamp::UNIX_EPOCH,
            pools: 1,
            instances: 3,
            min_serving: None,
            max_surge: 1,
            max_repair: 1,
            workers: 2,
            clients: 4,
            client: ClientOptions::default(),
            node_replacement: true,
            behaviour: Behaviour::default(),
            kube: KubeOptions::default(),
            node_pool: NodePoolPlan {
                expire_after: Some("Never".to_owned()),
                budget: Some("100%".to_owned()),
                ..NodePoolPlan::default()
            },
            terminal_retention: Duration::from_secs(10),
            monitor_interval: Duration::from_secs(5),
            spec: json!({}),
        }
    }
}

impl WorldOptions {
    /// Names of the TrinoPools, which are their routing groups as well.
    #[must_use]
    pub fn pool_names(&self) -> Vec<String> {
        const NAMES: [&str; 4] = ["analytics", "adhoc", "etl", "reporting"];
        (0..self.pools)
            .map(|nth| {
                usize::try_from(nth)
                    .ok()
                    .and_then(|nth| NAMES.get(nth))
                    .map_or_else(|| format!("pool-{nth}"), |name| (*name).to_owned())
            })
            .collect()
    }

    /// The floor in force.
    #[must_use]
    pub fn floor(&self) -> u32 {
        self.min_serving
            .unwrap_or_else(|| self.instances.saturating_sub(1).max(1))
    }

    /// The TrinoPool of this name.
    #[must_use]
    pub fn trino_pool(&self, name: &str) -> Value {
        let mut spec = example_spec(name);
        let own = json!({
            "instances": self.instances,
            "minServing": self.floor(),
            "maxSurge": self.max_surge,
            "maxRepair": self.max_repair,
            "nodeReplacement": {"enabled": self.node_replacement},
            "template": {"workers": {"replicas": self.workers}},
        });
        crate::sim::kube::json::merge(&mut spec, &own);
        crate::sim::kube::json::merge(&mut spec, &self.spec);
        json!({
            "apiVersion": "trinopool.dev/v1alpha1",
            "kind": "TrinoPool",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::ids::Namespace;
    use crate::pool::validate::validate;

    #[test]
    fn every_pool_of_a_world_is_valid() {
        let options = WorldOptions {
            pools: 6,
            instances: 1,
            spec: json!({"timings": {"suspectAfter": "30s"}}),
            ..WorldOptions::default()
        };
        let names = options.pool_names();
        assert_eq!((names.len(), names[5].as_str()), (6, "pool-5"));
        for name in names {
            let pool = options.trino_pool(&name);
            let desired = validate(&Namespace::new(NAMESPACE), &pool["spec"]).unwrap();
            assert_eq!((desired.instances, desired.min_serving), (1, 1));
            assert_eq!(desired.timings.suspect_after, Duration::from_secs(30));
            assert_eq!(desired.routing_group.as_str(), name);
        }
    }
}
