//! The TrinoPool custom resource: its schema, its printer columns, and the shape of its status.
//!
//! The types here describe the API; they decide nothing. A spec is validated from its raw JSON by
//! `pool::validate`, which names every problem; the schema only refuses what could never be right. The
//! status is what `pool::status` derives.

// Each printer column is one attribute of its own; the lint takes their fields for repetitions.
#![allow(clippy::duplicated_attributes)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, CustomResourceExt};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A pool of immutable Trino instances behind one routing group.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "trinopool.dev",
    version = "v1alpha1",
    kind = "TrinoPool",
    plural = "trinopools",
    namespaced,
    shortname = "tpool",
    category = "trino",
    status = "TrinoPoolStatus",
    doc = "A pool of immutable Trino instances that is kept serving while the nodes beneath it are replaced.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether the serving floor is kept by instances that answer well."
    ),
    printcolumn(name = "Serving", type_ = "integer", json_path = ".status.serving"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desired"),
    printcolumn(name = "Floor", type_ = "integer", json_path = ".status.minServing"),
    printcolumn(
        name = "Replacing",
        type_ = "integer",
        json_path = ".status.replacing",
        description = "Serving instances whose nodes are going away."
    ),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TrinoPoolSpec {
    /// The gateway's name of the pool. Immutable: a change freezes the pool.
    pub routing_group: String,
    /// Instances that should serve.
    #[schemars(range(min = 1, max = 1000))]
    pub instances: u32,
    /// The serving floor, 1 to `instances`; `instances` when left out.
    #[schemars(range(min = 1, max = 1000))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_serving: Option<u32>,
    /// Extra instances for planned replacement, 1 when left out. With 0 nothing is replaced.
    #[schemars(range(max = 100))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<u32>,
    /// Extra instances for failures, 1 when left out.
    #[schemars(range(max = 100))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_repair: Option<u32>,
    /// Names what the template describes; another name replaces every instance.
    #[schemars(length(min = 1, max = 128))]
    pub release: String,
    /// What deleting this resource does to its instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicySpec>,
    /// UID of this very resource: confirms that `deletionPolicy: Drain` may empty the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_empty: Option<String>,
    /// Replacement of instances before the nodes beneath them are disrupted; off when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_replacement: Option<NodeReplacementSpec>,
    /// How long things may take; every one has a default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<TimingsSpec>,
    /// What one instance is made of.
    pub template: TemplateSpec,
}

/// What deleting a TrinoPool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicySpec {
    /// The instances go on serving.
    Retain,
    /// Every instance is drained, once `confirmEmpty` says so.
    Drain,
}

/// Node replacement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeReplacementSpec {
    /// On, if the process's own flag is on as well.
    #[serde(default)]
    pub enabled: bool,
    /// `Reject` (default) or `{acceptAtLeast: <duration>}`: whether a candidate may stand on a node whose
    /// NodeClaim has a terminationGracePeriod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_value")]
    pub finite_grace: Option<Value>,
    /// Whether a candidate may stand on a node without a NodeClaim; `Reject` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unowned_nodes: Option<UnownedNodesSpec>,
}

/// What a node without a NodeClaim means for a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnownedNodesSpec {
    /// It is refused.
    Reject,
    /// It is accepted.
    Allow,
}

/// Durations such as `30s`, `15m` or `1h 30m`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TimingsSpec {
    /// Sustained bad readings before the gateway is told; 2m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspect_after: Option<String>,
    /// Time in SUSPECT before a drain is tried; 15m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspect_drain_after: Option<String>,
    /// Age of a drain beyond which another may start beside it; 30m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_stuck_after: Option<String>,
    /// Progress deadline of PENDING and CREATING; 15m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creating_deadline: Option<String>,
    /// Progress deadline of PREPARING; 10m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preparing_deadline: Option<String>,
    /// Progress deadline of VALIDATING; 10m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validating_deadline: Option<String>,
    /// First pause after a failed candidate; 30s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate_backoff: Option<String>,
    /// Longest such pause; 30m. Also how long every edited instance of the pool must have served before one is
    /// replaced because somebody edited a Deployment of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate_backoff_max: Option<String>,
}

/// What one instance is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateSpec {
    /// Image of the main container of coordinator and workers.
    #[schemars(length(min = 1))]
    pub image: String,
    /// Service account of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Name of the main container in both pod templates; `trino` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    /// Port of the coordinator's HTTP server; 8080 when left out.
    #[schemars(range(min = 1, max = 65535))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_port: Option<u32>,
    /// Trino's `node.environment`; `trino` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The coordinator.
    pub coordinator: CoordinatorSpec,
    /// The workers.
    pub workers: WorkersSpec,
    /// Config files by component and file name.
    pub config_files: ConfigFilesSpec,
    /// Catalog properties files by catalog name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub catalogs: BTreeMap<String, String>,
}

/// The coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorSpec {
    /// A `v1.PodTemplateSpec`.
    #[schemars(schema_with = "any_object")]
    pub pod_template: Value,
}

/// The workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkersSpec {
    /// How many.
    #[schemars(range(min = 1, max = 100))]
    pub replicas: u32,
    /// A `v1.PodTemplateSpec`.
    #[schemars(schema_with = "any_object")]
    pub pod_template: Value,
}

/// Config files by file name; each component needs a `config.properties`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigFilesSpec {
    /// Files of the coordinator.
    pub coordinator: BTreeMap<String, String>,
    /// Files of the workers.
    pub worker: BTreeMap<String, String>,
}

/// What is known of a pool, written by its actor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TrinoPoolStatus {
    /// `metadata.generation` of the spec this status is about.
    pub observed_generation: i64,
    /// UUID of the store that acts for this pool; another store freezes the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_id: Option<String>,
    /// Instances by phase, only phases that occur. Like every count here absent while no desired state is known
    /// or another store is the pool's: then what stands is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phases: Option<BTreeMap<String, u32>>,
    /// Instances that serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<u32>,
    /// Instances that should serve, by the desired state in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<u32>,
    /// The floor, by the desired state in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_serving: Option<u32>,
    /// Serving instances whose nodes are going away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacing: Option<u32>,
    /// Serving instances on nodes where protection is not absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_risk: Option<u32>,
    /// When Karpenter first ends pods of an instance by force, whatever protects them: the earliest termination
    /// timestamp of a NodeClaim of finite grace that is being deleted. Absent while none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced_end_at: Option<String>,
    /// Why the pool does what it does: one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Ready, Progressing, NodeReplacement, Blocked, Frozen.
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

/// The CustomResourceDefinition, as the chart ships it and `check` compares it.
pub fn crd() -> Result<Value, serde_json::Error> {
    serde_json::to_value(TrinoPool::crd())
}

/// An object whose content Kubernetes neither checks nor prunes.
fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A string or an object: a structural schema has one type, or none.
fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// The standard conditions, keyed by type, so that server-side apply merges them.
fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "observedGeneration": {"type": "integer", "format": "int64"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "reason": {"type": "string"},
                "message": {"type": "string"},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use kube::Resource;

    use super::*;
    use crate::pool::names::{GROUP, KIND, PLURAL, VERSION};
    use crate::pool::validate::example_spec;

    fn version(crd: &Value) -> &Value {
        &crd["spec"]["versions"][0]
    }

    #[test]
    fn the_resource_is_named_as_everything_else_names_it() {
        assert_eq!(TrinoPool::group(&()), GROUP);
        assert_eq!(TrinoPool::version(&()), VERSION);
        assert_eq!(TrinoPool::kind(&()), KIND);
        assert_eq!(TrinoPool::plural(&()), PLURAL);
        let crd = crd().unwrap();
        assert_eq!(crd["metadata"]["name"], "trinopools.trinopool.dev");
        assert_eq!(crd["spec"]["scope"], "Namespaced");
        assert!(version(&crd)["subresources"]["status"].is_object());
    }

    #[test]
    fn kubectl_shows_what_an_operator_asks_first() {
        let crd = crd().unwrap();
        let columns: Vec<&str> = version(&crd)["additionalPrinterColumns"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|column| column["name"].as_str())
            .collect();
        assert_eq!(
            columns,
            [
                "Ready",
                "Serving",
                "Desired",
                "Floor",
                "Replacing",
                "Reason",
                "Age"
            ]
        );
    }

    #[test]
    fn pod_templates_survive_pruning() {
        let crd = crd().unwrap();
        let template = &version(&crd)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["template"]
            ["properties"];
        for component in ["coordinator", "workers"] {
            let pod = &template[component]["properties"]["podTemplate"];
            assert_eq!(pod["x-kubernetes-preserve-unknown-fields"], true, "{component}");
            assert_eq!(pod["type"], "object", "{component}");
        }
    }

    /// Kubernetes refuses a schema that is not structural: every node needs a type, unless it preserves
    /// unknown fields, and `$ref` is not allowed.
    #[test]
    fn the_schema_is_structural() {
        fn check(path: &str, schema: &Value) {
            let preserved = schema["x-kubernetes-preserve-unknown-fields"] == true;
            assert!(
                schema["type"].is_string() || preserved,
                "{path} has no type: {schema}"
            );
            assert!(schema.get("$ref").is_none(), "{path} has a $ref");
            for (name, child) in schema["properties"].as_object().into_iter().flatten() {
                check(&format!("{path}.{name}"), child);
            }
            for inner in ["items", "additionalProperties"] {
                if schema[inner].is_object() {
                    check(&format!("{path}[{inner}]"), &schema[inner]);
                }
            }
        }
        let crd = crd().unwrap();
        check("root", &version(&crd)["schema"]["openAPIV3Schema"]);
    }

    #[test]
    fn the_typed_spec_holds_every_field_that_validation_knows() {
        let mut spec = example_spec("analytics");
        spec["maxSurge"] = 2.into();
        spec["nodeReplacement"]["finiteGrace"] = serde_json::json!({"acceptAtLeast": "30m"});
        spec["timings"] = serde_json::json!({"suspectAfter": "1m", "candidateBackoffMax": "1h"});
        let typed: TrinoPoolSpec = serde_json::from_value(spec.clone()).unwrap();
        assert_eq!(serde_json::to_value(typed).unwrap(), spec);
    }
}
