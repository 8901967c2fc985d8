//! Nodes that are not what a candidate needs, and node APIs that do not answer.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::{claim_of, evidence, first_instance, minutes, nth_instance, ordinary, replaced};
use crate::pool::phase::Phase;
use crate::sim::invariants::Ending;
use crate::sim::kube::{Fault, FaultRule, Resource, Verb};
use crate::sim::scenario::{Broken, Scenario, Scene, Stage};
use crate::sim::world::{NODE_POOL, World};

pub(in crate::sim::scenario) const STORIES: &[Scenario] = &[
    Scenario {
        name: "candidate-on-leaving-node",
        story: "Given a candidate, when the node it landed on is deleted before it is admitted, then it is given \
                up, and another one replaces the instance.",
        setup: ordinary,
        play: |stage| Box::pin(candidate_on_leaving_node(stage)),
    },
    Scenario {
        name: "unowned-node",
        story: "Given a node without a NodeClaim that attracts candidates, then they are refused a bounded number \
                of times, the reason says why, and the policy `Allow` accepts the node.",
        setup: |setup| {
            setup.ending = Some(Ending {
                failed_candidates: 8,
                ..Ending::default()
            });
        },
        play: |stage| Box::pin(unowned_node(stage)),
    },
    Scenario {
        name: "finite-grace",
        story: "Given nodes with a finite termination grace that the pool accepts, then its instances are \
                reported at risk, and a drift still replaces them in time.",
        setup: |setup| {
            setup.world.spec = json!({"nodeReplacement": {"finiteGrace": {"acceptAtLeast": "30m"}}});
        },
        play: |stage| Box::pin(finite_grace(stage)),
    },
    Scenario {
        name: "incomplete-inventory",
        story: "Given an instance with a worker that cannot be scheduled, when the node of its coordinator is \
                deleted, then the evidence is recorded all the same.",
        setup: |setup| {
            // Queries on the deleted worker die with it; the story counts them.
            setup.losses_are_told = true;
        },
        play: |stage| Box::pin(incomplete_inventory(stage)),
    },
    Scenario {
        name: "unrelated-cordon",
        story: "Given a node that a person cordoned, when every node drifts, then its drift is seen too, and the \
                person's cordon stays as it is.",
        setup: ordinary,
        play: |stage| Box::pin(unrelated_cordon(stage)),
    },
    Scenario {
        name: "late-cordon-response",
        story: "Given two instances whose nodes go and no surge budget, when the cordon for one is answered late and \
                the pool is scaled in meanwhile, then the other one drains at once and alone, the late answer still \
                counts, and each node is cordoned once.",
        setup: |setup| {
            setup.world.instances = 4;
            setup.world.max_surge = 0;
            // Every instance has queries that outlast the late answer, or the first drain would be over before it.
            setup.world.clients = 12;
            setup.world.terminal_retention = Duration::from_mins(1);
        },
        play: |stage| Box::pin(late_cordon_response(stage)),
    },
    Scenario {
        name: "node-api-outage",
        story: "Given Nodes and NodeClaims that cannot be read, when every node drifts, then nothing is \
                concluded from silence, everything serves, and replacement begins when the API answers again.",
        setup: ordinary,
        play: |stage| Box::pin(node_api_outage(stage)),
    },
];

/// The one candidate that is being prepared and has pods on nodes.
async fn candidate_on_nodes(stage: &mut Stage) -> Result<(String, String), Broken> {
    for _ in 0..600 {
        let candidate = stage
            .scene(|scene| {
                let creating = scene.in_phase(Phase::Creating).into_iter();
                creating
                    .chain(scene.in_phase(Phase::Preparing))
                    .next()
                    .map(ToString::to_string)
            })
            .flatten();
        if let Some(candidate) = candidate {
            let node = stage.world(|world| world.nodes_of(&candidate).into_iter().next());
            if let Some(node) = node {
                return Ok((candidate, node));
            }
        }
        stage.step().await?;
    }
    Err(Broken::Expectation("no candidate was scheduled".to_owned()))
}

async fn candidate_on_leaving_node(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let (instance, node) = first_instance(stage)?;
    let claim = claim_of(stage, &node)?;
    stage.say(format!("the NodeClaim under {instance} is deleted"));
    stage.world(|world| world.delete_claim(&claim))?;
    let (candidate, node) = candidate_on_nodes(stage).await?;
    let claim = claim_of(stage, &node)?;
    stage.say(format!("the node of candidate {candidate} is deleted as well"));
    stage.world(|world| world.delete_claim(&claim))?;
    replaced(stage, 1, minutes(40)).await?;
    stage.expect("the candidate never served", |scene| {
        scene
            .row(&candidate)
            .is_some_and(|row| row.phase == Phase::FailureRetired)
    })
}

async fn unowned_node(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    stage.say("no machine can be had, and three nodes made by hand have room");
    stage.world(|world| {
        let now = world.now();
        world.kube.set_capacity(NODE_POOL, Some(0));
        // The others have no room either: only what is there already stays on them.
        let nodes: Vec<String> = world.kube.nodes().into_iter().map(|node| node.name).collect();
        for node in &nodes {
            world.cordon(node)?;
        }
        for number in 1..=3 {
            world
                .kube
                .add_unowned_node(&format!("by-hand-{number}"), &BTreeMap::new(), now);
        }
        world.scale("analytics", 4, 2)
    })?;
    stage.say("a fourth instance is desired");
    stage.pass(minutes(20)).await?;
    let failed = |scene: &Scene<'_>| {
        scene.in_phase(Phase::FailureRetired).len() + scene.in_phase(Phase::FailedPreparing).len()
    };
    let plan = stage
        .scene(|scene| scene.plan("analytics").to_owned())
        .unwrap_or_default();
    stage.expect(
        &format!("candidates are refused, but not without bound (now {plan})"),
        |scene| (1..=8).contains(&failed(scene)) && scene.in_phase(Phase::Serving).len() == 3,
    )?;
    stage.say("the pool allows unowned nodes");
    stage.world(|world| {
        world.patch_pool(
            "analytics",
            &json!({"nodeReplacement": {"unownedNodes": "Allow"}}),
        )
    })?;
    stage
        .until("four instances serve", minutes(60), |scene| {
            scene.settled() && scene.in_phase(Phase::Serving).len() == 4
        })
        .await
}

async fn finite_grace(stage: &mut Stage) -> Result<(), Broken> {
    let grace = json!({"spec": {"template": {"spec": {"terminationGracePeriod": "1h"}}}});
    stage.world(|world| world.patch_node_pool(&grace))?;
    stage.settle().await?;
    let all = stage.world(|world| world.instances(None).len());
    stage
        .until("every instance is reported at risk", minutes(2), |scene| {
            let instances = scene
                .status
                .pools
                .values()
                .flat_map(|pool| pool.instances.values());
            instances.filter(|one| !one.at_risk.is_empty()).count() == all
        })
        .await?;
    stage.say("every node drifts; protection ends an hour after Karpenter deletes a claim");
    stage.world(World::drift_all)?;
    replaced(stage, all, minutes(50)).await
}

async fn incomplete_inventory(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let (instance, node) = first_instance(stage)?;
    let claim = claim_of(stage, &node)?;
    stage.say(format!(
        "a worker of {instance} is deleted by somebody, and no machine can be had"
    ));
    stage.world(|world| {
        world.kube.set_capacity(NODE_POOL, Some(0));
        let nodes: Vec<String> = world.kube.nodes().into_iter().map(|node| node.name).collect();
        for node in &nodes {
            world.cordon(node)?;
        }
        let pods = world.pods_of(&instance);
        let names = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
        let worker = names
            .into_iter()
            .find(|name| name.contains("-worker-"))
            .map(str::to_owned);
        worker.map_or(Ok(()), |worker| world.delete_pod(&worker))
    })?;
    stage.pass(minutes(1)).await?;
    let lost_with_the_worker = stage
        .scene(|scene| scene.world.clients.failed)
        .unwrap_or_default();
    stage.say(format!("the NodeClaim under {instance} is deleted"));
    stage.world(|world| world.delete_claim(&claim))?;
    evidence(stage, 1).await?;
    stage.say("machines can be had again");
    stage.world(|world| world.kube.set_capacity(NODE_POOL, None));
    replaced(stage, 1, minutes(40)).await?;
    stage.expect("no query was lost after the worker's own", |scene| {
        scene.world.clients.failed == lost_with_the_worker
    })
}

async fn unrelated_cordon(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let all = stage.world(|world| world.instances(None).len());
    let (_, node) = first_instance(stage)?;
    stage.say(format!("a person cordons {node}"));
    stage.world(|world| world.cordon(&node))?;
    stage.pass(minutes(1)).await?;
    stage.expect("a cordon is no evidence", |scene| scene.evidence() == 0)?;
    stage.say("every node drifts");
    stage.world(World::drift_all)?;
    evidence(stage, all).await?;
    stage.expect("the person's cordon carries no mark of ours", |scene| {
        scene
            .world
            .nodes
            .values()
            .filter(|one| one.name == node)
            .all(|one| one.mark.is_none())
    })?;
    replaced(stage, all, minutes(40)).await
}

/// How late a cordon is answered: later than the next tick, sooner than its sender gives it up.
const LATE: Duration = Duration::from_secs(9);

/// Whether the node that the row of this instance names is cordoned by us, for just that record.
fn cordoned_as_recorded(scene: &Scene<'_>, instance: &str) -> bool {
    let Some(evidence) = scene.row(instance).and_then(|row| row.evidence.valid()) else {
        return false;
    };
    let recorded = format!(
        "/{instance}/{}/{}",
        evidence.nodeclaim_uid,
        evidence.reason.as_str()
    );
    let node = scene.world.nodes.get(evidence.node_uid.as_str());
    node.is_some_and(|node| {
        node.unschedulable && node.mark.as_ref().is_some_and(|mark| mark.ends_with(&recorded))
    })
}

/// Whether the operator waits for the answer to a cordon for this instance.
fn cordoning(scene: &Scene<'_>, instance: &str) -> bool {
    let instances = scene.status.pools.values().flat_map(|pool| &pool.instances);
    instances
        .filter(|(id, _)| id.as_str() == instance)
        .any(|(_, one)| one.performing == Some("cordon"))
}

/// Answers that were dropped, and instances that were given up for want of one, so far.
fn unheard(stage: &Stage) -> (u64, u64) {
    let counts = stage.status().counts;
    (counts.stale_messages, counts.instances_hung)
}

async fn late_cordon_response(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let all = stage.world(|world| world.instances(None).len());
    let (first, node) = nth_instance(stage, 0)?;
    let claim = claim_of(stage, &node)?;
    stage.say(format!(
        "the NodeClaim under {first} is deleted; without a surge budget it waits"
    ));
    stage.world(|world| world.delete_claim(&claim))?;
    stage
        .until("its node is cordoned", minutes(1), |scene| {
            cordoned_as_recorded(scene, &first) && !cordoning(scene, &first)
        })
        .await?;
    let (second, node) = nth_instance(stage, 1)?;
    let claim = claim_of(stage, &node)?;
    stage.say(format!(
        "the NodeClaim under {second} is deleted; the cordon of {node} will be answered late"
    ));
    let unheard_before = unheard(stage);
    stage.world(|world| {
        let late = FaultRule::on(Resource::Nodes, Fault::Late(LATE)).of(Verb::Patch);
        world.kube.inject(late.named(&node).times(1));
        world.delete_claim(&claim)
    })?;
    stage
        .until("its node is cordoned and nobody knows", minutes(1), |scene| {
            cordoned_as_recorded(scene, &second) && cordoning(scene, &second)
        })
        .await?;
    let left = u32::try_from(all.saturating_sub(2)).unwrap_or(u32::MAX).max(1);
    stage.say(format!("meanwhile the pool is scaled in to {left}"));
    stage.world(|world| world.scale("analytics", left, 1))?;
    stage
        .until("a drain begins", minutes(1), |scene| {
            !scene.in_phase(Phase::Draining).is_empty()
        })
        .await?;
    stage.expect("it began before the cordon was answered", |scene| {
        cordoning(scene, &second)
    })?;
    let alone = |scene: &Scene<'_>| {
        let departing = scene.store.rows().filter(|(_, row)| row.phase.is_departing());
        let departing: Vec<&str> = departing.map(|(id, _)| id.as_str()).collect();
        departing == [first.as_str()]
    };
    stage.expect(&format!("{first} drains alone"), alone)?;
    stage
        .until("the answer arrives", minutes(1), |scene| {
            !cordoning(scene, &second)
        })
        .await?;
    // Three serve and two are desired: only the drain under way holds the next one back.
    stage.expect(&format!("{first} still drains alone"), alone)?;
    if unheard(stage) != unheard_before {
        return Err(Broken::Expectation(
            "the answer was not taken when it came".to_owned(),
        ));
    }
    replaced(stage, 2, minutes(40)).await?;
    let cordons = stage.world(|world| world.kube.log().counts_of("operator").get("PATCH nodes").copied());
    if cordons == Some(2) {
        Ok(())
    } else {
        Err(Broken::Expectation(format!(
            "two nodes were cordoned by {} requests",
            cordons.unwrap_or(0)
        )))
    }
}

async fn node_api_outage(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let all = stage.world(|world| world.instances(None).len());
    stage.say("Nodes and NodeClaims cannot be read any more; every node drifts");
    stage.world(|world| {
        world.kube.inject(FaultRule::on(Resource::Nodes, Fault::Broken));
        world
            .kube
            .inject(FaultRule::on(Resource::NodeClaims, Fault::Broken));
    });
    stage.world(|world| world.kube.change_node_pool_template(NODE_POOL));
    stage.pass(minutes(5)).await?;
    stage.expect("nothing is concluded from silence", |scene| {
        scene.evidence() == 0 && scene.in_phase(Phase::Serving).len() == all
    })?;
    stage.say("the API answers again");
    stage.world(|world| world.kube.clear_faults());
    evidence(stage, all).await?;
    replaced(stage, all, minutes(40)).await
}
