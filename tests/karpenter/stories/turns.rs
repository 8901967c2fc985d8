//! Two operators that take turns: one is killed, or sleeps too long.

use serde_json::Value;

use super::victim;
use crate::Story;
use crate::operator::signal;
use crate::scene::{Scene, Setup, Store};

/// Steps after which a leader is killed before it hears of their outcome. The first two are told by default, all under
/// `TPO_EVERY_STEP=1`.
const STEPS: [&str; 10] = [
    "drain", "admit", "accepted", "cordoned", "created", "register", "seal", "retire", "deleted", "retired",
];

fn two() -> Setup {
    Setup {
        replicas: 2,
        store: Store::Shared,
        ..Setup::default()
    }
}

/// Given two operators of which one leads, when it is killed right after a step, then the other goes on from what is
/// recorded; so it is at each step of a replacement.
pub const KILLED: Story = Story {
    name: "the-leader-is-killed",
    setup: two,
    tell: |scene| Box::pin(killed(scene)),
};

async fn killed(mut scene: Scene) {
    let every = std::env::var("TPO_EVERY_STEP").is_ok_and(|every| every == "1");
    for step in STEPS.iter().take(if every { STEPS.len() } else { 2 }) {
        let (instance, gone) = victim(&scene);
        let before = scene.instances();
        let leader = leader(&scene).await;
        scene.say(&format!("the leader will be killed once {step}"));
        let process = scene.operators[leader].id();
        let node = scene.node(&instance, "coordinator");
        match *step {
            "accepted" | "cordoned" | "created" | "deleted" => {
                scene.delete_claim_of(&node).await;
                scene
                    .until(step, async || {
                        happened(&scene, step, &before, &instance, &node).await
                    })
                    .await;
                signal("KILL", process);
            }
            verb => {
                scene.traffic.when_done(verb, move || signal("KILL", process));
                scene.delete_claim_of(&node).await;
                scene.until(verb, async || scene.traffic.has_sprung()).await;
            }
        }
        let killed = &mut scene.operators[leader];
        let ended = std::time::Instant::now();
        while !killed.has_ended() {
            assert!(ended.elapsed().as_secs() < 10, "it was not killed");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        scene
            .until("the other to lead", async || self::leader(&scene).await != leader)
            .await;
        scene.say("killed; the other has taken over, and a new one stands by");
        scene.operators[leader] = scene.start.operator();
        scene.until_gone(&gone).await;
        scene.until_all_serve().await;
    }
    scene.ends_well().await;
}

/// Whether a step that the gateway does not see was taken.
async fn happened(
    scene: &Scene,
    step: &str,
    before: &std::collections::BTreeSet<String>,
    instance: &str,
    node: &str,
) -> bool {
    match step {
        "accepted" => scene.accepted().iter().any(|one| one["instance"] == instance),
        "cordoned" => {
            let node = scene.admin.get(&format!("/api/v1/nodes/{node}")).await;
            node.is_some_and(|node| node["spec"]["unschedulable"] == true)
        }
        "created" => !scene.instances().is_subset(before),
        "deleted" => {
            let coordinator = format!(
                "/apis/apps/v1/namespaces/{}/deployments/{instance}-coordinator",
                scene.name
            );
            scene.admin.get(&coordinator).await.is_none()
        }
        other => panic!("{other} is no such step"),
    }
}

/// Given a leader that stops in its tracks right after a drain began, when the other has taken over and the first wakes,
/// then the replacement is completed once, and nothing is lost by what the first still does.
pub const PAUSED: Story = Story {
    name: "the-leader-sleeps",
    setup: two,
    tell: |scene| Box::pin(paused(scene)),
};

async fn paused(scene: Scene) {
    let (instance, gone) = victim(&scene);
    let sleeper = leader(&scene).await;
    let process = scene.operators[sleeper].id();
    scene.traffic.when_done("drain", move || signal("STOP", process));
    scene.delete_claim_of(&scene.node(&instance, "coordinator")).await;
    scene
        .until("the drain to begin", async || scene.traffic.has_sprung())
        .await;
    scene.say("the leader sleeps");
    scene
        .until("the other to lead", async || leader(&scene).await != sleeper)
        .await;
    scene.say("the other leads, and the first one wakes");
    scene.operators[sleeper].resume();
    scene.until_gone(&gone).await;
    scene.ends_well().await;
}

/// Which operator holds the Lease.
async fn leader(scene: &Scene) -> usize {
    let path = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases/trino-pool-operator",
        scene.name
    );
    let mut found = None;
    scene
        .until("somebody to lead", async || {
            let lease = scene.admin.get(&path).await.unwrap_or(Value::Null);
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            found = scene.operators.iter().position(|one| one.identity() == holder);
            found.is_some()
        })
        .await;
    found.unwrap()
}
