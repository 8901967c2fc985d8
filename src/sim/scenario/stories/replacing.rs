//! Nodes that go: by drift, by expiry, by a deleted NodeClaim.

use super::{minutes, ordinary, replaced};
use crate::sim::scenario::{Broken, Scenario, Stage};
use crate::sim::world::World;

pub(in crate::sim::scenario) const STORIES: &[Scenario] = &[Scenario {
    name: "drift",
    story: "Given three serving instances, when a NodePool change makes every node drift, then each instance is \
            replaced before its node is, and Karpenter replaces the freed nodes.",
    setup: ordinary,
    play: |stage| Box::pin(drift(stage)),
}];

async fn drift(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    stage.say("the NodePool changes: every node drifts at once");
    stage.world(World::drift_all)?;
    stage
        .until("every instance has durable evidence", minutes(1), |scene| {
            scene.evidence() == 3
        })
        .await?;
    stage.say("evidence is durable; replacements begin");
    replaced(stage, 3, minutes(30)).await?;
    stage.say("every instance is replaced; Karpenter replaces the freed nodes");
    stage
        .until("no node is drifted", minutes(15), |scene| scene.kube.drifted == 0)
        .await
}
