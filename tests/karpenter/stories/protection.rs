//! Somebody takes the protection of pods away.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::victim;
use crate::Story;
use crate::admin::until;
use crate::scene::{Scene, Setup};

const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// Given protected pods, when somebody removes the annotation of one and writes another value into that of another,
/// then both are protected again, and nothing else happens.
pub const TAKEN_AWAY: Story = Story {
    name: "protection-is-taken-away",
    setup: Setup::default,
    tell: |scene| Box::pin(taken_away(scene)),
};

async fn taken_away(scene: Scene) {
    let before = scene.instances();
    let (instance, _) = victim(&scene);
    for (component, value) in [("coordinator", Value::Null), ("worker", json!("5m"))] {
        scene.say(&format!(
            "somebody sets the annotation of a {component} to {value}"
        ));
        let began = Timestamp::now();
        annotate(&scene, &instance, component, &value).await;
        scene
            .until("it to be protected again", async || {
                is_protected(&scene, &instance, component).await
            })
            .await;
        // A request is logged after it was answered.
        let repair = until("the repair in the audit log", async || {
            let asked = scene.asked();
            let mut repairs = asked
                .iter()
                .filter(|one| one.kind() == "patch pods" && one.code < 300);
            repairs.find(|one| one.at > began).map(|one| one.at)
        });
        let after = repair.await.duration_since(began);
        scene.say(&format!("repaired after {} ms", after.as_millis()));
    }
    assert_eq!(scene.instances(), before);
    assert!(scene.accepted().is_empty());
    scene.ends_well().await;
}

/// Given drifted nodes and an operator that sleeps, when somebody takes the protection of a coordinator away and
/// Karpenter begins to replace its node, then, once the operator is back, the pod is protected, the claim that Karpenter
/// deletes waits for it, and the instance is replaced before it goes.
pub const KARPENTER_WAS_FASTER: Story = Story {
    name: "karpenter-was-faster",
    setup: Setup::default,
    tell: |scene| Box::pin(karpenter_was_faster(scene)),
};

/// A node that carries it is not initialized for Karpenter, which waits for that before it deletes an old claim.
const HOLD: &str = "story.example/hold";

async fn karpenter_was_faster(scene: Scene) {
    let (instance, gone) = victim(&scene);
    let node = scene.node(&instance, "coordinator");
    let claim = scene.claim_of(&node).await;
    scene.operators[0].pause();
    annotate(&scene, &instance, "coordinator", &Value::Null).await;
    scene.say("the operator sleeps, a coordinator is unprotected, and every node drifts");
    let hold = json!([{"key": HOLD, "effect": "NoSchedule"}]);
    scene
        .patch_node_pool(&json!({"template": {"spec": {"startupTaints": hold}}}))
        .await;
    scene
        .until("Karpenter to taint the node", async || {
            has_taint(&scene, &node, "karpenter.sh/disrupted").await
        })
        .await;
    scene.say("Karpenter was faster; the operator is back");
    scene.operators[0].resume();
    scene
        .until("the pod to be protected again", async || {
            is_protected(&scene, &instance, "coordinator").await
        })
        .await;
    // From now on new nodes are let go: the replacement comes up, and Karpenter deletes the claim.
    let release = async {
        loop {
            release(&scene).await;
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
    };
    let ends = async {
        scene
            .until("Karpenter to delete the claim", async || {
                match scene.claim(&claim).await {
                    Some(claim) => claim["metadata"]["deletionTimestamp"].is_string(),
                    None if scene.instances().contains(&instance) => {
                        panic!("{claim} went beneath a protected pod")
                    }
                    // It was deleted, and its instance replaced, between two looks.
                    None => true,
                }
            })
            .await;
        scene.say("Karpenter deleted the claim, which waits for the pod");
        let accepted = scene.accepted();
        assert!(
            accepted.iter().any(|one| one["instance"] == *instance),
            "{accepted:?}"
        );
        scene.until_gone(&gone).await;
        scene.until_all_serve().await;
        scene.until_nothing_drifts().await;
        scene.until_all_serve().await;
    };
    tokio::select! {
        () = release => {}
        () = ends => {}
    }
    scene.lost_nothing();
    scene.leave();
}

async fn annotate(scene: &Scene, instance: &str, component: &str, value: &Value) {
    let pod = pod_path(scene, instance, component);
    let change = json!({"metadata": {"annotations": {DO_NOT_DISRUPT: value}}});
    scene.admin.patch(&pod, &change).await;
}

async fn is_protected(scene: &Scene, instance: &str, component: &str) -> bool {
    let pod = scene
        .admin
        .get(&pod_path(scene, instance, component))
        .await
        .unwrap();
    pod["metadata"]["annotations"][DO_NOT_DISRUPT] == "true"
}

fn pod_path(scene: &Scene, instance: &str, component: &str) -> String {
    let pods = scene.pods(instance, component);
    let name = pods[0]["metadata"]["name"].as_str().unwrap();
    format!("/api/v1/namespaces/{}/pods/{name}", scene.name)
}

async fn has_taint(scene: &Scene, node: &str, key: &str) -> bool {
    let node = scene.admin.get(&format!("/api/v1/nodes/{node}")).await;
    let taints = node
        .map(|mut node| node["spec"]["taints"].take())
        .unwrap_or_default();
    taints
        .as_array()
        .into_iter()
        .flatten()
        .any(|taint| taint["key"] == key)
}

/// Takes the hold off every node that carries it.
async fn release(scene: &Scene) {
    let nodes = scene
        .admin
        .list(&format!("/api/v1/nodes?labelSelector=story%3D{}", scene.name))
        .await;
    for node in nodes {
        let Some(taints) = node["spec"]["taints"].as_array() else {
            continue;
        };
        if taints.iter().all(|taint| taint["key"] != HOLD) {
            continue;
        }
        let rest: Vec<&Value> = taints.iter().filter(|taint| taint["key"] != HOLD).collect();
        let name = node["metadata"]["name"].as_str().unwrap();
        // Bound to what was read: Karpenter writes taints too. Whoever was faster is asked again at the next round.
        let change = json!({
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": rest},
        });
        scene
            .admin
            .try_patch(&format!("/api/v1/nodes/{name}"), &change)
            .await;
    }
}
