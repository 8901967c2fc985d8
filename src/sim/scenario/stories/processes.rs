//! The operator's own processes: off, enabled, upgraded, replaced; and the control of all stories.

use std::collections::BTreeSet;

use serde_json::json;

use super::{evidence, minutes, replaced};
use crate::pool::phase::Phase;
use crate::sim::scenario::{Broken, Scenario, Stage};
use crate::sim::world::{NODE_POOL, World};

pub(in crate::sim::scenario) const STORIES: &[Scenario] = &[
    Scenario {
        name: "unprotected-control",
        story: "Given node replacement off and unprotected pods, when every node drifts, then Karpenter takes the \
                nodes and queries are lost. Without this story the others would prove nothing.",
        setup: |setup| {
            setup.node_replacement = false;
            setup.world.node_replacement = false;
            setup.losses_are_told = true;
            setup.ending = None;
        },
        play: |stage| Box::pin(unprotected_control(stage)),
    },
    Scenario {
        name: "feature-off",
        story: "Given node replacement off, then nodes are not looked at and pods not touched; a replacement that was \
                accepted before it was switched off still completes.",
        setup: |setup| setup.node_replacement = false,
        play: |stage| Box::pin(feature_off(stage)),
    },
    Scenario {
        name: "enable-and-upgrade",
        story: "Given serving instances, when node replacement is enabled and the operator is upgraded, then running \
                pods are protected and nothing is replaced.",
        setup: |setup| setup.world.node_replacement = false,
        play: |stage| Box::pin(enable_and_upgrade(stage)),
    },
    Scenario {
        name: "leader-change",
        story: "Given a replacement under way, when the leader dies in the middle and later hands over in order, then \
                its successors complete the same replacement.",
        setup: super::ordinary,
        play: |stage| Box::pin(leader_change(stage)),
    },
];

async fn unprotected_control(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    stage.say("every node drifts under unprotected pods");
    stage.world(World::drift_all)?;
    stage
        .until("queries are lost", minutes(30), |scene| {
            scene.world.clients.failed > 0
        })
        .await?;
    stage.expect("nothing was observed, so no evidence", |scene| {
        scene.evidence() == 0
    })
}

async fn feature_off(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let all = stage.world(|world| world.instances(None).len());
    stage.say("every node drifts while the feature is off, under a disruption budget of 0");
    stage.world(|world| {
        world.kube.set_node_pool_budget(NODE_POOL, "0");
        world.drift_all()
    })?;
    stage.pass(minutes(3)).await?;
    let touched = stage.world(|world| {
        let counts = world.kube.log().counts_of("operator");
        [
            "GET nodes",
            "PATCH nodes",
            "PATCH pods",
            "LIST nodeclaims",
            "GET nodeclaims",
        ]
        .into_iter()
        .find(|what| counts.contains_key(*what))
    });
    if let Some(touched) = touched {
        return Err(Broken::Expectation(format!(
            "with the feature off the operator sent {touched}"
        )));
    }
    stage.expect("nothing was recorded", |scene| scene.evidence() == 0)?;
    stage.say("a process with the feature on takes over and accepts the replacements");
    stage.stop_operator("operator-a").await?;
    stage.start_operator_with("operator-b", true).await?;
    // The claims are drifted still: the hash of the template moved once.
    evidence(stage, all).await?;
    stage.say("a process with the feature off takes over and completes them");
    stage.stop_operator("operator-b").await?;
    stage.start_operator_with("operator-c", false).await?;
    stage.world(|world| world.kube.set_node_pool_budget(NODE_POOL, "10%"));
    replaced(stage, all, minutes(40)).await
}

async fn enable_and_upgrade(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let before: BTreeSet<String> = stage.world(|world| world.instances(None).into_iter().collect());
    stage.say("node replacement is enabled");
    stage.world(|world| world.patch_pool("analytics", &json!({"nodeReplacement": {"enabled": true}})))?;
    stage.pass(minutes(2)).await?;
    if stage.world(|world| {
        world
            .kube
            .pods()
            .iter()
            .any(|pod| pod.instance.is_some() && !pod.protected)
    }) {
        return Err(Broken::Expectation("a pod is still unprotected".to_owned()));
    }
    stage.say("the operator is upgraded");
    stage.stop_operator("operator-a").await?;
    stage.start_operator("operator-b").await?;
    stage.pass(minutes(5)).await?;
    stage.expect("nothing was replaced", |scene| {
        let serving = scene.in_phase(Phase::Serving);
        serving.len() == before.len()
            && serving.iter().all(|id| before.contains(id.as_str()))
            && scene.store.rows().count() == before.len()
    })
}

async fn leader_change(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let all = stage.world(|world| world.instances(None).len());
    stage.start_operator("operator-b").await?;
    stage.say("every node drifts");
    stage.world(World::drift_all)?;
    stage
        .until("a candidate is being created", minutes(5), |scene| {
            !scene.in_phase(Phase::Creating).is_empty()
        })
        .await?;
    stage.say("the leader dies");
    stage.crash_operator("operator-a").await;
    stage
        .until("a drain is under way", minutes(10), |scene| {
            !scene.in_phase(Phase::Draining).is_empty()
        })
        .await?;
    stage.say("its successor hands over in order");
    stage.start_operator("operator-c").await?;
    stage.stop_operator("operator-b").await?;
    replaced(stage, all, minutes(40)).await
}
