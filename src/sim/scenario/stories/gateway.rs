//! Answers of the gateway that are lost, late or refused.

use http::Method;

use super::{claim_of, evidence, first_instance, minutes, ordinary, replaced};
use crate::gateway::model::MemberPhase;
use crate::pool::phase::Phase;
use crate::sim::gateway::faults::{Loss, Outage};
use crate::sim::scenario::{Broken, Scenario, Scene, Stage};
use crate::sim::world::World;

pub(in crate::sim::scenario) const STORIES: &[Scenario] = &[
    Scenario {
        name: "lost-admission-response",
        story: "Given an admission that was applied and whose answer was lost, then it is resolved by read-back or \
                an identical replay, and the instance serves once.",
        setup: ordinary,
        play: |stage| Box::pin(lost_response(stage, "/admit")),
    },
    Scenario {
        name: "lost-registration-response",
        story: "Given a registration that was applied and whose answer was lost, then the same registration is \
                adopted, and no second member is made.",
        setup: ordinary,
        play: |stage| Box::pin(lost_response(stage, "/members")),
    },
    Scenario {
        name: "lost-drain-response",
        story: "Given a drain that was applied and whose answer was lost, when no member can be read and another \
                instance has to go more urgently, then the drained one counts as gone, no second drain begins, and \
                the same drain is adopted once members are read again.",
        setup: ordinary,
        play: |stage| Box::pin(lost_drain_response(stage)),
    },
    Scenario {
        name: "admission-retirement-race",
        story: "Given an admission without an answer, when the candidate's node begins to go, then either the \
                admission stands and the instance is replaced later, or its retirement won and it never serves.",
        setup: ordinary,
        play: |stage| Box::pin(admission_retirement_race(stage)),
    },
    Scenario {
        name: "gateway-outage",
        story: "Given a gateway that does not answer the operator, when every node drifts, then evidence is recorded \
                and nodes are cordoned all the same, and replacement goes on when it answers.",
        setup: ordinary,
        play: |stage| Box::pin(gateway_outage(stage)),
    },
];

async fn lost_response(stage: &mut Stage, path_end: &'static str) -> Result<(), Broken> {
    stage.settle().await?;
    let all = stage.world(|world| world.instances(None).len());
    stage.say(format!(
        "every node drifts; the answer of the next POST …{path_end} will be lost"
    ));
    stage.world(|world| {
        world
            .traffic
            .gateway
            .faults
            .lose_next(Loss::Response, Method::POST, path_end);
        world.drift_all()
    })?;
    replaced(stage, all, minutes(40)).await?;
    let lost = stage.world(|world| world.traffic.gateway.faults.pending_losses() == 0);
    if lost {
        Ok(())
    } else {
        Err(Broken::Expectation("no answer was lost after all".to_owned()))
    }
}

/// Members that took work and are being emptied.
fn draining(scene: &Scene<'_>) -> Vec<String> {
    let members = scene.world.members.values();
    members
        .filter(|member| member.phase == MemberPhase::Draining)
        .map(|member| member.instance_id.to_string())
        .collect()
}

/// Drains that reached the gateway.
fn drains_sent(stage: &Stage) -> u64 {
    let requests = stage.world(|world| world.traffic.gateway.requests().clone());
    requests.get("POST members/drain").copied().unwrap_or(0)
}

async fn lost_drain_response(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let before = stage.world(|world| world.instances(None));
    let all = before.len();
    stage.say(
        "every node drifts; the answer to the first drain will be lost, and members cannot be read after it",
    );
    stage.world(|world| {
        let faults = &mut world.traffic.gateway.faults;
        faults.lose_next(Loss::ResponseAndReads, Method::POST, "/drain");
        world.drift_all()
    })?;
    let mut gone = None;
    stage
        .until("a member drains", minutes(10), |scene| {
            gone = draining(scene).pop();
            gone.is_some()
        })
        .await?;
    let gone = gone.unwrap_or_default();
    let Some(other) = before.iter().find(|id| **id != gone) else {
        return Err(Broken::Expectation(format!("{gone} is the only instance")));
    };
    let node = stage.world(|world| world.nodes_of(other).into_iter().next());
    let claim = claim_of(stage, &node.unwrap_or_default())?;
    stage.say(format!(
        "{gone} drains and its row does not know; the NodeClaim under {other} is deleted"
    ));
    stage.world(|world| world.delete_claim(&claim))?;
    for _ in 0..12 {
        stage.pass(minutes(1) / 4).await?;
        // Were it still counted as serving, one more than desired would seem to serve.
        stage.expect(
            &format!("{gone} alone has gone, and everything desired serves beside it"),
            |scene| {
                let active = scene.world.members.values();
                let active = active
                    .filter(|member| member.phase == MemberPhase::Active)
                    .count();
                draining(scene) == [gone.clone()] && active == all
            },
        )?;
        stage.expect(&format!("the row of {gone} is not guessed"), |scene| {
            scene.row(&gone).is_some_and(|row| row.phase == Phase::Serving)
        })?;
    }
    stage.expect("the plan says who holds the slot that is wanted next", |scene| {
        scene.plan("analytics") == "SurgeExhausted"
    })?;
    stage.say("members can be read again");
    stage.world(|world| world.traffic.gateway.faults.read_members_again());
    stage
        .until("the drain is adopted", minutes(1), |scene| {
            scene.row(&gone).is_some_and(|row| row.phase != Phase::Serving)
        })
        .await?;
    let sent = drains_sent(stage);
    if sent != 1 {
        return Err(Broken::Expectation(format!("{sent} drains were sent, not one")));
    }
    replaced(stage, all, minutes(40)).await
}

async fn admission_retirement_race(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let (instance, node) = first_instance(stage)?;
    let claim = claim_of(stage, &node)?;
    stage.say(format!(
        "the NodeClaim under {instance} is deleted; the next admissions get lost"
    ));
    stage.world(|world| {
        // Long enough for the onlooker to see it: each try costs the operator a round.
        for _ in 0..4 {
            world
                .traffic
                .gateway
                .faults
                .lose_next(Loss::Request, Method::POST, "/admit");
        }
        world.delete_claim(&claim)
    })?;
    stage
        .until("a candidate is about to be admitted", minutes(10), |scene| {
            !scene.in_phase(Phase::Validating).is_empty()
        })
        .await?;
    let candidate = stage.scene(|scene| scene.in_phase(Phase::Validating).first().map(ToString::to_string));
    let candidate = candidate.flatten().unwrap_or_default();
    let node = stage
        .world(|world| world.nodes_of(&candidate).into_iter().next())
        .unwrap_or_default();
    let claim = claim_of(stage, &node)?;
    stage.say(format!("the node of {candidate} begins to go as well"));
    stage.world(|world| world.delete_claim(&claim))?;
    replaced(stage, 1, minutes(60)).await?;
    stage.expect("the candidate is retired one way or the other", |scene| {
        scene.row(&candidate).is_some_and(|row| row.phase.is_terminal())
    })
}

async fn gateway_outage(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let all = stage.world(|world| world.instances(None).len());
    stage.say("the gateway does not answer the operator any more; every node drifts");
    stage.world(|world| {
        world.traffic.gateway.faults.outage = Outage::Silent;
        world.drift_all()
    })?;
    evidence(stage, all).await?;
    stage
        .until("a node is cordoned all the same", minutes(2), |scene| {
            scene.kube.cordoned > 0
        })
        .await?;
    stage.pass(minutes(3)).await?;
    stage.expect("everything serves meanwhile", |scene| {
        scene.in_phase(Phase::Serving).len() == all
    })?;
    stage.say("the gateway answers again");
    stage.world(|world: &mut World| world.traffic.gateway.faults.outage = Outage::None);
    replaced(stage, all, minutes(40)).await
}
