//! What the first implementation of this job would ask for, by its published rule. Computed, never measured.
//!
//! From the notes on its behaviour (`reference-behaviour`, section in brackets), in our own words:
//! - Each pool has a loop of its own, a tick every 5 s (4.7), and each tick's protection pass lists the
//!   NodeClaims anew: one list per pass, shared by the instances of that pool, in pages of 500 (7.1, 7.3, 14.19).
//! - A pass reads, for each instance, two Deployments, one list of pods and a ReplicaSet of each, and each node
//!   once (7.2, 14.19).
//! - A candidate is checked with fresh NodeClaims by name, one GET for each of its nodes and no list, at
//!   PREPARING (7.6) and again when it is admitted (7.7, step 4).
//!
//! Retries, its status reads outside the protection pass, and the patches of a replacement are left out: each
//! number is the least that the rule allows.

use serde::Serialize;

use crate::tally::Added;

/// NodeClaims in one page of its list (4.7, 7.3).
pub const PAGE: usize = 500;
/// Reads of one instance in one pass, nodes apart: two Deployments, one list of pods, two ReplicaSets (7.2).
const READS_OF_INSTANCE: u64 = 5;
/// Checks of one candidate before it serves, each passed at the first try (7.6, 7.7).
const CANDIDATE_CHECKS: u64 = 2;

/// A fleet as the rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// Pools.
    pub pools: u64,
    /// Instances that serve.
    pub instances: u64,
    /// Distinct nodes of each pool, added up.
    pub nodes_of_pools: u64,
    /// Distinct nodes of each replacement, added up.
    pub candidate_nodes: u64,
}

/// The computed numbers. The name says what they are wherever they are printed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ByItsRule {
    /// Always "by its rule, computed".
    pub how: &'static str,
    /// Requests for NodeClaims in a quiet tick: pages of lists, no named GET.
    pub quiet_nodeclaims_per_tick: u64,
    /// All requests of the protection passes in a quiet tick, those for NodeClaims included.
    pub quiet_kubernetes_per_tick: u64,
    /// Requests for NodeClaims during the replacement, if it takes as many ticks as ours: lists and named GETs.
    pub replacement_nodeclaims: u64,
}

/// Computes them for the ticks that were counted of ours, and the claims that there were in each, so that both
/// are asked the same.
pub fn computed(fleet: Fleet, quiet: &Added, replacement: &Added) -> ByItsRule {
    let quiet_lists = fleet.pools * (quiet.claim_pages / quiet.ticks.max(1));
    ByItsRule {
        how: "by its rule, computed",
        quiet_nodeclaims_per_tick: quiet_lists,
        quiet_kubernetes_per_tick: quiet_lists + fleet.instances * READS_OF_INSTANCE + fleet.nodes_of_pools,
        replacement_nodeclaims: fleet.pools * replacement.claim_pages
            + CANDIDATE_CHECKS * fleet.candidate_nodes,
    }
}
