//! One look at a running story, as a person sees it.

use std::time::Duration;

/// What is shown at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Time since the story began.
    pub at: Duration,
    /// What the story is doing.
    pub chapter: String,
    /// The pools, by name.
    pub pools: Vec<PoolFrame>,
    /// The cluster's nodes.
    pub nodes: NodeCounts,
    /// The instances' pods.
    pub pods: PodCounts,
    /// Queries running now, finished and failed so far.
    pub queries: QueryCounts,
    /// Coarse progress, 0.0 ..= 1.0.
    pub progress: f64,
}

/// One pool in a frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolFrame {
    /// Its name.
    pub name: String,
    /// Routable members, desired count, floor.
    pub serving: u32,
    /// See `serving`.
    pub desired: u32,
    /// See `serving`.
    pub floor: u32,
    /// Its instances, oldest first.
    pub instances: Vec<InstanceFrame>,
    /// Why it does what it does.
    pub reason: String,
}

/// One instance in a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceFrame {
    /// Its id.
    pub id: String,
    /// Its phase.
    pub phase: String,
    /// The node of its coordinator, when it has one.
    pub node: String,
    /// Words about that node: drifted, deleting, cordoned.
    pub node_state: String,
}

/// The cluster's nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// All.
    pub total: usize,
    /// With a drifted claim.
    pub drifted: usize,
    /// Unschedulable.
    pub cordoned: usize,
    /// With a deletion timestamp.
    pub deleting: usize,
}

/// The instances' pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodCounts {
    /// All that exist.
    pub total: usize,
    /// With Karpenter's do-not-disrupt annotation.
    pub protected: usize,
}

/// The clients' queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryCounts {
    /// Accepted and not read to the end.
    pub running: u64,
    /// Read to the end.
    pub finished: u64,
    /// Lost.
    pub failed: u64,
}
