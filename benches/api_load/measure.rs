//! What is measured of one fleet, in which order: a quiet pool set, then one drifted node.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::by_rule::{self, ByItsRule, Fleet};
use crate::rig::{BenchError, INSTANCES, Rig};
use crate::tally::{Added, PerTick};

/// Regular ticks between the last thing that happened and the first that is counted.
const REST: u32 = 6;
/// Regular ticks that are counted in quiet: a minute.
pub const QUIET: u32 = 12;

/// A fleet: pools, and NodeClaims in the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pools.
    pub pools: u32,
    claims: u32,
}

impl Size {
    /// A size.
    pub const fn new(pools: u32, claims: u32) -> Self {
        Self { pools, claims }
    }

    /// Pools.
    pub fn pools(self) -> u64 {
        u64::from(self.pools)
    }

    /// NodeClaims, those that carry nothing included.
    pub fn claims(self) -> u64 {
        u64::from(self.claims)
    }

    /// Instances of all pools.
    pub fn instances(self) -> u64 {
        self.pools() * u64::from(INSTANCES)
    }

    /// As the command line names it.
    pub fn name(self) -> String {
        format!("{}x{}", self.pools, self.claims)
    }

    /// As a person reads it.
    pub fn words(self) -> String {
        format!("{} pools, {} NodeClaims", self.pools, self.claims)
    }
}

/// One line of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Pools.
    pub pools: u64,
    /// NodeClaims in the cluster.
    pub claims: u64,
    /// Instances that serve.
    pub instances: u64,
    /// The operator's client kept the limits of production; nothing held it back otherwise.
    pub held_back: bool,
    /// Nothing happens for a minute: 12 regular ticks, and `quiet.ticks` in all.
    pub quiet: Added,
    /// The same, for each tick.
    pub quiet_per_tick: PerTick,
    /// Quiet requests to the Kubernetes API in a tick, as a multiple of the first row's.
    pub quiet_relative: f64,
    /// One node drifts: counted from there until everything on it is replaced and retired.
    pub replacement: Added,
    /// Instances that were on that node.
    pub replaced: u64,
    /// `replacement.kubernetes_requests` less what as many quiet ticks ask for.
    pub replacement_beyond_quiet: f64,
    /// What the first implementation would ask for: computed, not measured.
    pub first_implementation: ByItsRule,
}

impl Row {
    /// Sets the multiple of the first row; the first row is compared with itself.
    pub fn compare(&mut self, first: Option<&Self>) {
        let base = first.map_or(self.quiet_per_tick.kubernetes_requests, |first| {
            first.quiet_per_tick.kubernetes_requests
        });
        self.quiet_relative = if base > 0.0 {
            (self.quiet_per_tick.kubernetes_requests / base * 100.0).round() / 100.0
        } else {
            0.0
        };
    }
}

/// Counts one fleet.
pub async fn measure(size: Size, held_back: bool, progress: &impl Fn(&str)) -> Result<Row, BenchError> {
    progress("comes up");
    let mut rig = Rig::begin(size, held_back).await?;
    rig.settle().await?;
    rig.add_spare_claims()?;
    let before: BTreeSet<String> = rig.nodes_of_instances().into_keys().collect();
    let nodes_of_pools = nodes_of_pools(&rig);

    progress("is quiet");
    rig.align().await?;
    rig.pass_periods(REST).await?;
    let from = rig.tally();
    rig.pass_periods(QUIET).await?;
    let quiet = rig.tally().since(&from);

    let (node, leaving) = rig.loneliest_node()?;
    progress(&format!("one node drifts, with {} instances", leaving.len()));
    let from = rig.tally();
    rig.drift(&node)?;
    rig.replaced(leaving.len()).await?;
    rig.align().await?;
    let replacement = rig.tally().since(&from);

    let new = rig.nodes_of_instances();
    let candidate_nodes = new
        .iter()
        .filter(|(instance, _)| !before.contains(*instance))
        .map(|(_, nodes)| nodes.len() as u64)
        .sum();
    rig.end().await?;

    let quiet_per_tick = quiet.per_tick();
    let fleet = Fleet {
        pools: size.pools(),
        instances: size.instances(),
        nodes_of_pools,
        candidate_nodes,
    };
    let first_implementation = by_rule::computed(fleet, &quiet, &replacement);
    progress(&format!(
        "{} requests to the Kubernetes API in a quiet tick",
        quiet_per_tick.kubernetes_requests
    ));
    Ok(Row {
        pools: size.pools(),
        claims: size.claims(),
        instances: size.instances(),
        held_back,
        quiet_relative: 0.0,
        replacement_beyond_quiet: beyond(&replacement, &quiet),
        quiet,
        quiet_per_tick,
        replaced: leaving.len() as u64,
        replacement,
        first_implementation,
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn beyond(replacement: &Added, quiet: &Added) -> f64 {
    let background = quiet.kubernetes_requests as f64 / quiet.ticks.max(1) as f64 * replacement.ticks as f64;
    (replacement.kubernetes_requests as f64 - background).round()
}

/// Distinct nodes of each pool, added up.
fn nodes_of_pools(rig: &Rig) -> u64 {
    let nodes = rig.nodes_of_instances();
    rig.world(|world| {
        world
            .options()
            .pool_names()
            .iter()
            .map(|pool| {
                let instances = world.instances(Some(pool));
                let of_pool: BTreeSet<&String> = instances
                    .iter()
                    .filter_map(|one| nodes.get(one))
                    .flatten()
                    .collect();
                of_pool.len() as u64
            })
            .sum()
    })
}
