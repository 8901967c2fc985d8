//! What replaces instances: nodes that go, another release, another count.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::{claim_of, evidence, first_instance, minutes, ordinary, replaced};
use crate::pool::phase::Phase;
use crate::sim::kube::Resource;
use crate::sim::scenario::{Broken, Scenario, Scene, Stage};
use crate::sim::world::{ADMIN, AdminError, World};

pub(in crate::sim::scenario) const STORIES: &[Scenario] = &[
    Scenario {
        name: "drift",
        story: "Given three serving instances, when a NodePool change makes every node drift, then each instance \
                is replaced before its node is, and Karpenter replaces the freed nodes.",
        setup: ordinary,
        play: |stage| Box::pin(drift(stage)),
    },
    Scenario {
        name: "mass-drift",
        story: "Given three pools, when every node of the cluster drifts at once, then all nine instances are \
                replaced, one at a time in each pool.",
        setup: |setup| {
            setup.world.pools = 3;
            setup.world.workers = 1;
            setup.world.clients = 2;
        },
        play: |stage| Box::pin(drift(stage)),
    },
    Scenario {
        name: "nodeclaim-deletion",
        story: "Given a serving instance, when the NodeClaim beneath it is deleted, then it is replaced while the \
                protected pods hold the node, and the node goes afterwards.",
        setup: ordinary,
        play: |stage| Box::pin(nodeclaim_deletion(stage)),
    },
    Scenario {
        name: "expiry",
        story: "Given a serving instance, when its node expires, then it is replaced before the node ends.",
        setup: ordinary,
        play: |stage| Box::pin(expiry(stage)),
    },
    Scenario {
        name: "surge-zero",
        story: "Given no surge budget, when every node drifts, then nothing is drained, the reason says so, and \
                replacement begins by itself once a budget is given.",
        setup: |setup| setup.world.max_surge = 0,
        play: |stage| Box::pin(surge_zero(stage)),
    },
    Scenario {
        name: "release-rollout",
        story: "Given a new release, then every instance is replaced, surge first, and no query is lost.",
        setup: ordinary,
        play: |stage| Box::pin(release_rollout(stage)),
    },
    Scenario {
        name: "scale-in",
        story: "Given three instances, when two are desired, then one drains, and the floor holds.",
        setup: |setup| setup.world.min_serving = Some(1),
        play: |stage| Box::pin(scale_in(stage)),
    },
    Scenario {
        name: "template-edited",
        story: "Given somebody who restarts the workers of an instance by its Deployment, then the operator writes \
                nothing into it, and replaces the instance; no query is lost but those on the workers that went.",
        // What the restart itself costs is the person's; the story looks at each loss.
        setup: |setup| {
            setup.losses_are_told = true;
            // How long an edited instance must have served: by default half an hour, in which nothing would be told.
            setup.world.spec = json!({"timings": {"candidateBackoffMax": "2m"}});
        },
        play: |stage| Box::pin(template_edited(stage)),
    },
    Scenario {
        name: "every-template-edited",
        story: "Given a controller that edits the worker Deployment of every instance, new ones too, when a NodeClaim is \
                deleted, then its instance is replaced all the same, and no other one.",
        setup: |setup| setup.losses_are_told = true,
        play: |stage| Box::pin(every_template_edited(stage)),
    },
];

async fn drift(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let all = stage.world(|world| world.instances(None).len());
    stage.say("the NodePool changes: every node drifts at once");
    stage.world(World::drift_all)?;
    evidence(stage, all).await?;
    stage.say("evidence is durable, nodes are cordoned; replacements begin");
    replaced(stage, all, minutes(40)).await?;
    stage.say("every instance is replaced; Karpenter replaces the freed nodes");
    stage
        .until("no node is drifted", minutes(20), |scene| scene.kube.drifted == 0)
        .await
}

async fn nodeclaim_deletion(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let (instance, node) = first_instance(stage)?;
    let claim = claim_of(stage, &node)?;
    stage.say(format!("NodeClaim {claim} under {instance} is deleted"));
    stage.world(|world| world.delete_claim(&claim))?;
    evidence(stage, 1).await?;
    replaced(stage, 1, minutes(30)).await?;
    stage.say("the instance is replaced; the node may go");
    let gone = |stage: &Stage| stage.world(|world| world.claim_of(&node).is_none());
    let mut patience = 0;
    while !gone(stage) {
        patience += 1;
        if patience > 60 {
            return Err(Broken::Expectation(format!(
                "NodeClaim {claim} is held by nobody and stays"
            )));
        }
        stage.pass(minutes(1) / 6).await?;
    }
    Ok(())
}

async fn expiry(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let (instance, node) = first_instance(stage)?;
    let claim = claim_of(stage, &node)?;
    stage.say(format!("the node of {instance} reaches its expireAfter"));
    stage.world(|world| {
        world.kube.edit(Resource::NodeClaims, "", &claim, |claim| {
            claim["spec"]["expireAfter"] = serde_json::json!("1m");
        })
    });
    evidence(stage, 1).await?;
    replaced(stage, 1, minutes(30)).await
}

async fn surge_zero(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let all = stage.world(|world| world.instances(None).len());
    stage.say("every node drifts, and the pool has no surge budget");
    stage.world(World::drift_all)?;
    evidence(stage, all).await?;
    stage.pass(minutes(5)).await?;
    stage.expect("nothing is drained and the reason is SurgeZero", |scene| {
        scene.in_phase(Phase::Serving).len() == all && scene.plan("analytics") == "SurgeZero"
    })?;
    stage.say("a surge budget of one is given");
    stage.world(|world| world.patch_pool("analytics", &serde_json::json!({"maxSurge": 1})))?;
    replaced(stage, all, minutes(40)).await
}

async fn release_rollout(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let before: BTreeSet<String> = stage.world(|world| world.instances(None).into_iter().collect());
    stage.say("a new release is desired");
    stage.world(|world| world.patch_pool("analytics", &serde_json::json!({"release": "next"})))?;
    stage
        .until("every instance is of the new release", minutes(40), |scene| {
            let retired = |id: &String| scene.row(id).is_some_and(|row| row.phase == Phase::Retired);
            before.iter().all(retired) && scene.settled()
        })
        .await?;
    stage.expect("a rollout leaves no evidence", |scene| scene.evidence() == 0)
}

async fn scale_in(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    stage.say("two instances are desired instead of three");
    stage.world(|world| world.scale("analytics", 2, 1))?;
    stage
        .until("two instances serve", minutes(15), |scene| {
            scene.settled() && scene.in_phase(Phase::Serving).len() == 2
        })
        .await?;
    stage.expect("one instance was drained and retired", |scene| {
        scene.in_phase(Phase::Retired).len() == 1
    })
}

async fn template_edited(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let (instance, _) = first_instance(stage)?;
    stage.say(format!("somebody restarts the workers of {instance}"));
    stage.world(|world| world.restart_workers(&instance))?;
    stage
        .until("the edited instance is replaced", minutes(20), |scene| {
            let retired = scene
                .row(&instance)
                .is_some_and(|row| row.phase == Phase::Retired);
            retired && scene.settled()
        })
        .await?;
    stage.expect("it is the only one, and no node was blamed for it", |scene| {
        scene.in_phase(Phase::Retired).len() == 1 && scene.evidence() == 0
    })?;
    let workers = format!("on {instance}-worker-");
    let others: Vec<String> = stage.world(|world| {
        let lost = world.traffic.clients.counts().failures;
        let elsewhere = lost.into_iter().filter(|loss| !loss.text.contains(&workers));
        elsewhere.map(|loss| loss.text).collect()
    });
    stage.expect("no query was lost but on the restarted workers", |_| {
        others.is_empty()
    })?;
    let asked = stage.world(|world| world.kube.log().counts_without(ADMIN));
    stage.expect("the operator rewrote no Deployment (A11)", |_| {
        ["PATCH deployments", "PUT deployments"]
            .iter()
            .all(|what| !asked.contains_key(*what))
    })
}

/// An edit before the validation is part of what was validated; one after it waits until the instance has served for
/// half an hour, which this story does not last.
async fn every_template_edited(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let mut edited = BTreeSet::new();
    edit_new_ones(stage, &mut edited)?;
    stage.say("somebody's controller has edited the workers of every instance");
    stage.pass(minutes(1)).await?;
    let (instance, node) = first_instance(stage)?;
    let claim = claim_of(stage, &node)?;
    stage.say(format!("NodeClaim {claim} under {instance} is deleted"));
    stage.world(|world| world.delete_claim(&claim))?;
    let over = |scene: &Scene<'_>| scene.replaced() == 1 && scene.settled();
    let mut patience = 0;
    while !stage.scene(over).unwrap_or(false) {
        patience += 1;
        if patience > 20 * 20 {
            let plan = stage.scene(|scene| scene.plan("analytics").to_owned());
            return Err(Broken::Expectation(format!(
                "{instance} is not replaced: {plan:?}"
            )));
        }
        stage.pass(Duration::from_secs(3)).await?;
        edit_new_ones(stage, &mut edited)?;
    }
    stage.expect("it is the only one that went", |scene| {
        scene.in_phase(Phase::Retired).len() == 1 && scene.in_phase(Phase::FailureRetired).is_empty()
    })?;
    let pool = stage.world(|world| world.instances(None).len());
    stage.expect("its replacement was edited as well", |_| edited.len() == pool + 1)
}

fn edit_new_ones(stage: &Stage, edited: &mut BTreeSet<String>) -> Result<(), Broken> {
    stage.world(|world| {
        for instance in world.instances(None) {
            if edited.contains(&instance) {
                continue;
            }
            match world.restart_workers(&instance) {
                Ok(()) => edited.insert(instance),
                // Its coordinator is made first.
                Err(AdminError::Refused(_, _, 404, _)) => continue,
                Err(error) => return Err(error.into()),
            };
        }
        Ok(())
    })
}
