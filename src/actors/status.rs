//! What the process says about itself, for the command line, the admin API, metrics and simulations.
//!
//! Plain data, published by the supervisor after every report of a pool. Nothing is decided from it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::inventory::InventoryAge;
use crate::pool::desired::PoolMode;
use crate::pool::evidence::{RecordedEvidence, ReplacementNode};
use crate::pool::ids::{Epoch, InstanceId, NodeName, PoolId, ReleaseId, SpecGeneration, TickId};
use crate::pool::observation::{AtRisk, Fault};
use crate::pool::phase::Phase;
use crate::pool::step::Waiting;

/// The whole process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessStatus {
    /// Whether it leads.
    pub leader: bool,
    /// Which of its own terms this is, from 1; 0 before the first.
    pub term: u64,
    /// The last tick.
    pub tick: TickId,
    /// The NodeClaim inventory.
    pub inventory: InventoryAge,
    /// Why the TrinoPools could not be listed, if they could not.
    pub pools_fault: Option<Fault>,
    /// TrinoPools that are present and unreadable.
    pub undecodable_pools: Vec<String>,
    /// The cluster-wide replacement budget, as of the last tick.
    pub replacements: Places,
    /// Every pool, by id.
    pub pools: BTreeMap<PoolId, PoolStatus>,
    /// How often what happened.
    pub counts: Counts,
}

/// The places of the cluster-wide replacement budget: each is one pool's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// How many there are.
    pub allowed: usize,
    /// Pools that replace now.
    pub held: usize,
    /// Pools that would replace something, and wait for a place.
    pub waiting: usize,
}

/// Things that are counted, since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ticks that found the previous one of the same pool still running.
    pub coalesced_ticks: u64,
    /// Messages dropped because they belong to another request, tick or epoch.
    pub stale_messages: u64,
    /// Instance actors replaced after a panic.
    pub instances_panicked: u64,
    /// Instance actors replaced because they did not answer.
    pub instances_hung: u64,
    /// Pool actors replaced.
    pub pool_restarts: u64,
}

/// One pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolStatus {
    /// Whether and how it may act.
    pub mode: PoolMode,
    /// Epoch of its authority; 0 while it has none.
    pub epoch: Epoch,
    /// The published generation.
    pub generation: SpecGeneration,
    /// Instances that should serve; `None` while no desired state is known, or the store is not the pool's. Nothing
    /// that is counted here is then known either.
    pub desired: Option<u32>,
    /// The serving floor, likewise.
    pub floor: Option<u32>,
    /// Instances that serve.
    pub serving: u32,
    /// The desired release.
    pub release: Option<ReleaseId>,
    /// What the last plan does, or why it does nothing: a CamelCase class and a sentence.
    pub plan: PlanStatus,
    /// Whether node replacement is on, blocked or off.
    pub node_replacement: Switch,
    /// Why gateway steps wait, if they do.
    pub gateway: Option<Fault>,
    /// Why the store did not take the last write, or did not answer; since when, on the process's
    /// monotonic clock.
    pub store: Option<(Fault, Duration)>,
    /// Faults of the pool itself: orphans, a refused spec, a held deletion.
    pub faults: Vec<Fault>,
    /// Every instance that is not terminal, by id.
    pub instances: BTreeMap<InstanceId, InstanceStatus>,
    /// How often its actor was started again, and why last.
    pub restarts: Option<(u64, String)>,
    /// Coordinators probed in the last round, and how many of them failed.
    pub probes: Probes,
    /// What its actor counted in this life.
    pub counts: Counts,
    /// Effects whose answers are outstanding.
    pub in_flight: usize,
}

/// The last plan in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanStatus {
    /// CamelCase class.
    pub label: String,
    /// One sentence an operator can act on.
    pub detail: String,
}

/// Node replacement of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// The process flag or the pool's own is false.
    #[default]
    Off,
    /// The process flag is true, and no desired state is known that could say the rest.
    Unknown,
    /// Both are true.
    On,
    /// Both are true, and a hard prerequisite fails.
    Blocked(Fault),
}

/// Coordinators that were probed in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    /// Asked.
    pub probed: u32,
    /// Of those, found failing.
    pub failing: u32,
}

/// One instance.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceStatus {
    /// Where it stands.
    pub phase: Phase,
    /// Since when.
    pub since: Timestamp,
    /// Its release.
    pub release: ReleaseId,
    /// The instance it repairs.
    pub repair_for: Option<InstanceId>,
    /// Why it does nothing now.
    pub waiting: Option<Waiting>,
    /// The durable evidence.
    pub evidence: RecordedEvidence,
    /// Further nodes seen going.
    pub replacement_nodes: Vec<ReplacementNode>,
    /// Nodes of finite grace under it.
    pub at_risk: Vec<AtRisk>,
    /// Nodes it was last seen on.
    pub nodes: Vec<NodeName>,
    /// What was wrong or unknown in the last inspection.
    pub faults: Vec<Fault>,
    /// The last refused cordon, if there was one.
    pub cordon: Option<Fault>,
    /// The effect under way, by its label.
    pub performing: Option<&'static str>,
}

impl ProcessStatus {
    /// Whether this process works: it leads, or stands by, and no pool's store refuses writes.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.pools.values().all(|pool| pool.store.is_none())
    }
}
