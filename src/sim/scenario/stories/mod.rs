//! The stories themselves, grouped by what goes wrong.

pub(super) mod failing;
pub(super) mod gateway;
pub(super) mod nodes;
pub(super) mod pools;
pub(super) mod processes;
pub(super) mod replacing;

use std::time::Duration;

use super::{Broken, Setup, Stage};

/// The ordinary world.
pub(super) fn ordinary(_: &mut Setup) {}

/// A story's patience: minutes of its own time.
pub(super) const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// Waits until at least `count` instances have evidence, all of them are retired, and everything desired serves.
pub(super) async fn replaced(stage: &mut Stage, count: usize, limit: Duration) -> Result<(), Broken> {
    stage
        .until(&format!("{count} instances are replaced"), limit, |scene| {
            scene.replaced() >= count && scene.replaced() == scene.evidence() && scene.settled()
        })
        .await
}

/// Waits until at least `count` instances have durable evidence.
pub(super) async fn evidence(stage: &mut Stage, count: usize) -> Result<(), Broken> {
    stage
        .until(
            &format!("{count} instances have durable evidence"),
            minutes(2),
            |scene| scene.evidence() >= count,
        )
        .await
}

/// The first instance by id, and the node of its coordinator.
pub(super) fn first_instance(stage: &Stage) -> Result<(String, String), Broken> {
    nth_instance(stage, 0)
}

/// One instance by its place among the ids, from 0, and the node of its coordinator.
pub(super) fn nth_instance(stage: &Stage, nth: usize) -> Result<(String, String), Broken> {
    stage.world(|world| {
        let instance = world.instances(None).into_iter().nth(nth);
        let instance = instance.ok_or_else(|| {
            let missing = format!("there are no {} instances", nth + 1);
            Broken::Expectation(missing)
        })?;
        let node = world.nodes_of(&instance).into_iter().next();
        let node = node.ok_or_else(|| Broken::Expectation(format!("{instance} is on no node")))?;
        Ok((instance, node))
    })
}

/// The NodeClaim of a node.
pub(super) fn claim_of(stage: &Stage, node: &str) -> Result<String, Broken> {
    stage
        .world(|world| world.claim_of(node))
        .ok_or_else(|| Broken::Expectation(format!("node {node} has no NodeClaim")))
}
