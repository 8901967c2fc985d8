//! Coordinators that die, hide or never start, and a drain that never ends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::Request;
use jiff::{SignedDuration, Timestamp};

use super::{evidence, first_instance, minutes, ordinary, replaced};
use crate::gateway::model::Member;
use crate::pool::ids::{OperationId, PoolId};
use crate::pool::phase::Phase;
use crate::sim::gateway::faults::Reply;
use crate::sim::invariants::Ending;
use crate::sim::kube::{Fault, FaultRule, Resource};
use crate::sim::scenario::{Broken, Scenario, Stage};
use crate::sim::trino::Behaviour;
use crate::sim::world::{NAMESPACE, World};
use crate::store::port::Recovery;

pub(in crate::sim::scenario) const STORIES: &[Scenario] = &[
    Scenario {
        name: "coordinator-crash",
        story: "Given a coordinator whose process dies, then it is never taken for the one that was admitted: it is \
                declared lost with proof, repaired and cleaned up.",
        setup: |setup| {
            // Its own queries die with it; the story counts them.
            setup.losses_are_told = true;
            setup.ending = Some(Ending {
                failed_candidates: 4,
                ..Ending::default()
            });
        },
        play: |stage| Box::pin(coordinator_crash(stage)),
    },
    Scenario {
        name: "probe-blackout",
        story: "Given probes that reach no coordinator at all, then nobody is suspected: the fault is ours.",
        setup: ordinary,
        play: |stage| Box::pin(probe_blackout(stage)),
    },
    Scenario {
        name: "repair-while-candidate-pending",
        story: "Given a planned candidate that never becomes ready, when a serving coordinator dies, then its repair \
                is prepared beside it at once.",
        setup: |setup| {
            setup.losses_are_told = true;
            setup.ending = Some(Ending {
                failed_candidates: 6,
                ..Ending::default()
            });
        },
        play: |stage| Box::pin(repair_while_candidate_pending(stage)),
    },
    Scenario {
        name: "authorized-recovery",
        story: "Given a drain that a leaked transaction holds for ever, when its pod is gone and a person declares the instance lost, then it is recovered, also while the node APIs fail.",
        setup: |setup| {
            setup.losses_are_told = true;
            setup.ending = Some(Ending {
                failed_candidates: 4,
                ..Ending::default()
            });
        },
        play: |stage| Box::pin(authorized_recovery(stage)),
    },
];

async fn coordinator_crash(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let (instance, _) = first_instance(stage)?;
    stage.say(format!(
        "the coordinator process of {instance} is killed and restarted behind the same pod"
    ));
    stage.world(|world| world.kill_coordinator(&instance))?;
    stage
        .until(
            "the dead instance is closed and three serve",
            minutes(40),
            |scene| {
                scene
                    .row(&instance)
                    .is_some_and(|row| row.phase == Phase::FailureRetired)
                    && scene.settled()
            },
        )
        .await?;
    stage.expect("a repair replaced it", |scene| {
        scene.store.rows().any(|(_, row)| row.repair)
    })
}

async fn probe_blackout(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let all = stage.world(|world| world.instances(None).len());
    stage.say("no probe reaches any coordinator");
    stage.world(|world| world.traffic.answer_probes(false));
    stage.pass(minutes(20)).await?;
    stage.expect("everything serves, nobody is suspected", |scene| {
        scene.in_phase(Phase::Serving).len() == all && scene.store.rows().count() == all
    })?;
    stage.say("probes arrive again");
    stage.world(|world| world.traffic.answer_probes(true));
    stage.pass(minutes(3)).await
}

async fn repair_while_candidate_pending(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let (instance, _) = first_instance(stage)?;
    stage.say("every node drifts, and the next candidate never starts");
    stage.world(|world| {
        world.traffic.misbehave_next(Behaviour {
            never_starts: true,
            ..Behaviour::default()
        });
        world.drift_all()
    })?;
    evidence(stage, 1).await?;
    stage
        .until("a candidate is being prepared", minutes(3), |scene| {
            !scene.in_phase(Phase::Creating).is_empty()
        })
        .await?;
    stage.pass(minutes(1)).await?;
    stage.say(format!("the coordinator of {instance} dies meanwhile"));
    stage.world(|world| world.kill_coordinator(&instance))?;
    stage
        .until(
            "a repair is prepared beside the stuck candidate",
            minutes(6),
            |scene| scene.store.rows().any(|(_, row)| row.repair),
        )
        .await?;
    stage
        .until("everything is replaced", minutes(90), |scene| {
            scene.settled() && scene.evidence() == scene.replaced()
        })
        .await
}

/// Opens a transaction through the gateway and walks away.
fn leak_transaction(world: &mut World) -> Result<(), Broken> {
    let credential = BASE64.encode("leaky:leaky");
    let mut request = Request::post("http://gateway.example/v1/statement")
        .header("authorization", format!("Basic {credential}"))
        .header("x-trino-user", "leaky")
        .header("x-trino-transaction-id", "NONE")
        .header("x-trino-routing-group", "analytics")
        .body(Bytes::from_static(b"START TRANSACTION"))
        .map_err(|error| Broken::Expectation(error.to_string()))?;
    loop {
        let Reply::Answer { response, .. } = world.gateway_exchange(&request) else {
            return Err(Broken::Expectation("the gateway did not answer".to_owned()));
        };
        let body: serde_json::Value = serde_json::from_slice(response.body()).map_err(|_| {
            let text = String::from_utf8_lossy(response.body()).into_owned();
            Broken::Expectation(format!(
                "HTTP {}, not a statement page: {text}",
                response.status()
            ))
        })?;
        let Some(next) = body["nextUri"].as_str() else {
            return Ok(());
        };
        request = Request::get(next)
            .header("x-trino-routing-group", "analytics")
            .header("authorization", format!("Basic {credential}"))
            .body(Bytes::new())
            .map_err(|error| Broken::Expectation(error.to_string()))?;
    }
}

fn recovery_of(member: &Member, now: Timestamp) -> Recovery {
    Recovery {
        operation: OperationId::new("recover-1"),
        instance: member.instance_id.clone(),
        expected_generation: member.generation,
        incarnation: member.incarnation.clone(),
        pod_uid: member.pod_uid.clone(),
        boot_id: member.boot_id.clone(),
        node_id: member.node_id.clone(),
        coordinator_id: member.coordinator_id.clone(),
        requested_by: "oncall@example.org".to_owned(),
        reason: "a leaked transaction holds the drain".to_owned(),
        created_at: now,
    }
}

async fn authorized_recovery(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    stage.say("a client leaves a transaction open and walks away");
    stage.world(leak_transaction)?;
    stage.say("every node drifts");
    stage.world(World::drift_all)?;
    let mut held = None;
    stage
        .until("a drain is held by the open transaction", minutes(30), |scene| {
            let patience = SignedDuration::from_mins(5);
            let stuck = scene.store.rows().find(|(_, row)| {
                row.phase == Phase::Draining && scene.world.at.duration_since(row.phase_changed_at) > patience
            });
            held = stuck.map(|(id, _)| id.to_string());
            held.is_some()
        })
        .await?;
    let instance = held.unwrap_or_default();
    stage.say(format!(
        "node APIs fail; the pod of {instance} goes; a person declares it lost"
    ));
    stage.world(|world| {
        world.kube.inject(FaultRule::on(Resource::Nodes, Fault::Broken));
        world
            .kube
            .inject(FaultRule::on(Resource::NodeClaims, Fault::Broken));
        let pod = world.coordinator_pod(&instance)?;
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        world.delete_pod(&name)
    })?;
    let member = stage
        .scene(|scene| scene.world.member(&instance).cloned())
        .flatten();
    let Some(member) = member else {
        return Err(Broken::Expectation(format!(
            "the gateway does not know {instance}"
        )));
    };
    let recovery = recovery_of(&member, stage.now());
    let pool = PoolId::new(format!("{NAMESPACE}/analytics"));
    stage.store().request_recovery(&pool, 2, &recovery).await?;
    stage
        .until("the instance is recovered", minutes(15), |scene| {
            scene
                .row(&instance)
                .is_some_and(|row| row.phase == Phase::FailureRetired)
        })
        .await?;
    stage.say("the node APIs answer again");
    stage.world(|world| world.kube.clear_faults());
    replaced(stage, 3, minutes(40)).await
}
