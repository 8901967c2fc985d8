//! What a pool should look like, after validation. Nothing behind this point touches raw input.
//!
//! A [`DesiredPool`] can only be built by `pool::validate`; it is stored as the last good desired
//! state, so that an invalid edit (*Held*) or a missing resource (*Frozen*) never reads as zero (S11).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ids::{Namespace, ReleaseId, RoutingGroup};

/// The validated desired state of one pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DesiredPool {
    /// Where the instances' objects live. Immutable for the life of the pool.
    pub namespace: Namespace,
    /// The gateway's name of the pool. Immutable for the life of the pool.
    pub routing_group: RoutingGroup,
    /// Instances that should serve, at least 1: zero is never "empty the pool".
    pub instances: u32,
    /// The serving floor: 1 ..= `instances`.
    pub min_serving: u32,
    /// Extra instances for planned replacement.
    pub max_surge: u32,
    /// Extra instances for failures.
    pub max_repair: u32,
    /// Node replacement, off by default.
    pub node_replacement: NodeReplacement,
    /// What deleting the TrinoPool means.
    pub deletion_policy: DeletionPolicy,
    /// How long things may take.
    pub timings: Timings,
    /// What one instance is made of.
    pub blueprint: Blueprint,
}

/// The node-replacement policy of one pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct NodeReplacement {
    /// `spec.nodeReplacement.enabled`; the process flag must be true as well.
    pub enabled: bool,
    /// What a finite `terminationGracePeriod` means for a candidate's node.
    pub finite_grace: FiniteGrace,
    /// What a node without a provable NodeClaim means for a candidate.
    pub unowned_nodes: UnownedNodes,
}

/// Decides about candidates only: Karpenter ends protected pods when a finite grace runs out
/// (kubernetes-sigs/karpenter pkg/controllers/disruption/types.go, the "eventual" class).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum FiniteGrace {
    /// Such a node is invalid for a candidate.
    #[default]
    Reject,
    /// Valid when the grace is at least this long.
    AcceptAtLeast(Duration),
}

/// Decides about candidates only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum UnownedNodes {
    /// A node that no NodeClaim provably owns is invalid for a candidate.
    #[default]
    Reject,
    /// It is accepted, unprotected by drift handling.
    Allow,
}

/// What deleting the TrinoPool resource does. Never empties a pool silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum DeletionPolicy {
    /// The instances go on serving, protected and health-checked; the row stays.
    #[default]
    Retain,
    /// Every instance is drained, if `confirmEmpty` names the resource's own UID.
    Drain,
}

/// Durations of one pool. All are lower bounds of patience, never promises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// Sustained bad readings before the gateway is told SUSPECT. Default 2 min.
    pub suspect_after: Duration,
    /// Time in SUSPECT without proof of death before a drain is tried. Default 15 min.
    pub suspect_drain_after: Duration,
    /// Age of a drain beyond which another may start beside it (S7). Default 30 min.
    pub drain_stuck_after: Duration,
    /// Progress deadline of PENDING and CREATING. Default 15 min.
    pub creating_deadline: Duration,
    /// Progress deadline of PREPARING. Default 10 min.
    pub preparing_deadline: Duration,
    /// Progress deadline of VALIDATING. Default 10 min.
    pub validating_deadline: Duration,
    /// First pause after a failed candidate; doubles with each failure of the same cause. Default 30 s.
    pub candidate_backoff: Duration,
    /// Longest such pause, and how long every edited instance of the pool must have served before one is replaced for
    /// an edit of its Deployments (L5). Default 30 min.
    pub candidate_backoff_max: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        const MINUTE: u64 = 60;
        Self {
            suspect_after: Duration::from_secs(2 * MINUTE),
            suspect_drain_after: Duration::from_secs(15 * MINUTE),
            drain_stuck_after: Duration::from_secs(30 * MINUTE),
            creating_deadline: Duration::from_secs(15 * MINUTE),
            preparing_deadline: Duration::from_secs(10 * MINUTE),
            validating_deadline: Duration::from_secs(10 * MINUTE),
            candidate_backoff: Duration::from_secs(30),
            candidate_backoff_max: Duration::from_secs(30 * MINUTE),
        }
    }
}

/// What one instance is made of; a snapshot of it is stored on each instance row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blueprint {
    /// The release this is.
    pub release: ReleaseId,
    /// Image of the main container of coordinator and workers.
    pub image: String,
    /// Namespace of the objects.
    pub namespace: Namespace,
    /// Service account of the pods; the namespace's default when absent.
    pub service_account: Option<String>,
    /// Name of the main container in both templates.
    pub container: String,
    /// Port of the coordinator's HTTP server.
    pub http_port: u16,
    /// `node.environment` of the cluster.
    pub environment: String,
    /// Pod template of the coordinator, a `v1.PodTemplateSpec` that decoded at validation.
    pub coordinator_template: Value,
    /// Pod template of the workers, likewise.
    pub worker_template: Value,
    /// Worker count, 1 ..= 100.
    pub workers: u32,
    /// Config files of the coordinator by file name.
    pub coordinator_files: BTreeMap<String, String>,
    /// Config files of the workers by file name.
    pub worker_files: BTreeMap<String, String>,
    /// Catalog properties files by catalog name; exactly what `SHOW CATALOGS` must list beside `system`.
    pub catalogs: BTreeMap<String, String>,
}

/// Whether and how a pool may act on its desired state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum PoolMode {
    /// The desired state is valid and current.
    #[default]
    Open,
    /// The spec is invalid: the last good desired state stays in force; replacement and repair go on.
    Held(String),
    /// No create and no planned drain; protection, evidence, cordon, health, steps in flight and
    /// recovery go on.
    Frozen(FreezeReason),
    /// The resource is gone under `Retain`, or is being deleted under a `Drain` that nobody confirmed: like `Frozen`,
    /// and said so.
    Retained,
    /// The resource is being deleted under a confirmed `Drain`: S5 and S6 are lifted for this pool.
    Emptying,
}

impl PoolMode {
    /// Whether the store speaks of what stands. One that is not the pool's holds another world's desired state and
    /// rows, if any: nothing that is read from them may be told as the state of this pool.
    #[must_use]
    pub const fn trusts_its_store(&self) -> bool {
        match self {
            Self::Frozen(FreezeReason::StoreMismatch) => false,
            Self::Frozen(
                FreezeReason::Missing | FreezeReason::IdentityChanged(_) | FreezeReason::WentBackwards,
            )
            | Self::Open
            | Self::Held(_)
            | Self::Retained
            | Self::Emptying => true,
        }
    }
}

/// Why a pool is frozen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FreezeReason {
    /// The resource cannot be read or is not there.
    Missing,
    /// The resource describes another pool: identity fields differ from the recorded ones.
    IdentityChanged(String),
    /// The store is not the one that created our objects or members; ends by an explicit `adopt`.
    StoreMismatch,
    /// The resource's generation is lower than the recorded one.
    WentBackwards,
}

impl FreezeReason {
    /// Label for metrics, conditions and Events.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Missing => "Missing",
            Self::IdentityChanged(_) => "IdentityChanged",
            Self::StoreMismatch => "StoreMismatch",
            Self::WentBackwards => "WentBackwards",
        }
    }
}
