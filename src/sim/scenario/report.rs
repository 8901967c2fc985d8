//! What a scenario came to: the numbers a script reads and the verdict a person reads.
//!
//! Every count comes from the clients, from the API's own request log or from the store, never from what
//! the operator says of itself.

use std::collections::BTreeMap;

use serde::Serialize;

/// The result of one scenario; serializes to the JSON object that `simulate --output json` prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScenarioReport {
    /// Which story.
    pub scenario: String,
    /// Everything that varied.
    pub seed: u64,
    /// Pools.
    pub pools: u32,
    /// Instances of each pool at the start.
    pub instances: u32,
    /// Rounds of the control loop.
    pub ticks: u64,
    /// Node replacements.
    pub replacements: Replacements,
    /// Client queries.
    pub queries: Queries,
    /// What the first lost queries said, at most three.
    pub losses: Vec<String>,
    /// Moments at which fewer members than the floor were routable, not counting bootstrap and coordinators
    /// that the story itself killed.
    pub serving_below_floor: u64,
    /// Broken invariants, in words, first one first.
    pub invariant_violations: Vec<String>,
    /// Node objects the operator deleted.
    pub node_deletes: u64,
    /// Pods the operator evicted.
    pub pod_evictions: u64,
    /// Pods the operator deleted.
    pub pod_deletes: u64,
    /// Rows that carry evidence.
    pub evidence_rows: u64,
    /// Nodes the operator cordoned.
    pub cordons: u64,
    /// The operator's requests to the Kubernetes API, `"<VERB> <resource>"`.
    pub api_requests: BTreeMap<String, u64>,
    /// The operator's requests to the gateway.
    pub gateway_requests: u64,
    /// Statements sent to the store.
    pub store_statements: u64,
    /// Seconds of the story.
    pub story_seconds: f64,
    /// Seconds of the machine.
    pub wall_seconds: f64,
    /// Whether nothing was lost, no invariant broke and the story's own expectation held.
    pub passed: bool,
    /// The first violated rule in words; absent when it passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub violated: Option<String>,
}

/// Node replacements of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replacements {
    /// Instances with durable evidence.
    pub requested: u64,
    /// Those of them that are retired.
    pub completed: u64,
}

/// Client queries of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Queries {
    /// Accepted by a coordinator.
    pub started: u64,
    /// Read to the last page.
    pub finished: u64,
    /// Lost after they had been accepted.
    pub failed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_carries_the_keys_that_scripts_read() {
        let value = serde_json::to_value(ScenarioReport::default()).unwrap();
        for key in [
            "scenario",
            "seed",
            "pools",
            "instances",
            "ticks",
            "replacements",
            "queries",
            "serving_below_floor",
            "invariant_violations",
            "node_deletes",
            "pod_evictions",
            "pod_deletes",
            "evidence_rows",
            "cordons",
            "api_requests",
            "gateway_requests",
            "store_statements",
            "wall_seconds",
        ] {
            assert!(value.get(key).is_some(), "{key}");
        }
        assert!(value["replacements"].get("requested").is_some());
        assert!(value["queries"].get("failed").is_some());
    }
}
