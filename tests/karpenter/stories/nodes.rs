//! Nodes that are not what an instance needs, and no node at all.

use serde_json::json;

use super::victim;
use crate::Story;
use crate::objects::node_by_hand;
use crate::scene::{Scene, Setup};

/// Short pauses after candidates that failed, so that a story need not wait for them.
fn impatient() -> serde_json::Value {
    json!({"candidateBackoff": "5s", "candidateBackoffMax": "15s"})
}

/// Given a pool that serves on nodes of a finite termination grace, when its policy changes to refuse such nodes, then
/// it goes on serving and says that it is at risk; when a claim is deleted, it shows by when Karpenter ends the pods,
/// refuses candidates on such nodes, and takes them once the policy allows it again.
pub const OF_FINITE_GRACE: Story = Story {
    name: "nodes-of-finite-grace",
    setup: || Setup {
        node_pool: json!({"template": {"spec": {"terminationGracePeriod": "20m"}}}),
        spec: json!({"nodeReplacement": {"finiteGrace": {"acceptAtLeast": "10m"}}, "timings": impatient()}),
        ..Setup::default()
    },
    tell: |scene| Box::pin(of_finite_grace(scene)),
};

async fn of_finite_grace(scene: Scene) {
    scene
        .until("both instances to be at risk", async || {
            scene.only().await["atRisk"] == 2
        })
        .await;
    scene.is_found_by_check(&["FiniteGrace"]);
    let condition = scene.condition("NodeReplacement").await;
    assert!(condition.is_some_and(|(holds, words)| holds && words.starts_with("AtRisk")));
    scene.say("the pool refuses nodes of finite grace from now on");
    scene
        .patch_pool(
            "analytics",
            &json!({"nodeReplacement": {"finiteGrace": "Reject"}}),
        )
        .await;
    let (instance, gone) = victim(&scene);
    let claim = scene.delete_claim_of(&scene.node(&instance, "coordinator")).await;
    scene
        .until("candidates to be refused", async || {
            scene.tells("NodeFiniteGrace").await
        })
        .await;
    let deleted = scene.claim(&claim).await.unwrap();
    let deadline = &deleted["metadata"]["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"];
    assert_eq!(scene.only().await["forcedEndAt"], *deadline);
    assert!(
        scene.instances().contains(&instance),
        "it was given up without a replacement"
    );
    scene.say("and takes them again");
    scene
        .patch_pool(
            "analytics",
            &json!({"nodeReplacement": {"finiteGrace": {"acceptAtLeast": "10m"}}}),
        )
        .await;
    scene.until_gone(&gone).await;
    scene.ends_well().await;
}

/// Given nodes made by hand and no others to be had, when an instance is added, then candidates on them are refused,
/// and the reason says why; the policy `Allow` takes the nodes.
pub const BY_HAND: Story = Story {
    name: "nodes-made-by-hand",
    setup: || Setup {
        spec: json!({"timings": impatient()}),
        ..Setup::default()
    },
    tell: |scene| Box::pin(by_hand(scene)),
};

async fn by_hand(scene: Scene) {
    scene.patch_node_pool(&json!({"limits": {"cpu": "0"}})).await;
    for number in 1..=2 {
        let node = node_by_hand(&format!("{}-{number}", scene.name), &scene.name);
        scene.admin.create("/api/v1/nodes", &node).await;
    }
    scene.say("a third instance is desired, and only nodes made by hand have room");
    scene.patch_pool("analytics", &json!({"instances": 3})).await;
    scene
        .until("a candidate to be refused", async || {
            scene.tells("NodeUnowned").await
        })
        .await;
    scene.say("the pool allows nodes without a NodeClaim");
    scene
        .patch_pool(
            "analytics",
            &json!({"nodeReplacement": {"unownedNodes": "Allow"}}),
        )
        .await;
    scene.until_all_serve().await;
    scene.is_found_by_check(&["NodeUnowned"]);
    scene.ends_well().await;
}

/// Given two instances of which a person cordoned one node each, once the first by name and once the last, when the
/// claim of the other node is deleted, then both are replaced, and the person's cordons stay as they are.
pub const CORDONED_BY_A_PERSON: Story = Story {
    name: "a-person-cordons",
    setup: Setup::default,
    tell: |scene| Box::pin(cordoned_by_a_person(scene)),
};

async fn cordoned_by_a_person(scene: Scene) {
    let before = scene.instances();
    let mut cordoned = Vec::new();
    for (number, instance) in before.iter().enumerate() {
        let mut nodes = ["coordinator", "worker"].map(|component| scene.node(instance, component));
        nodes.sort();
        nodes.rotate_left(number);
        let [person, other] = nodes;
        scene.say(&format!(
            "under {instance} a person cordons {person}, and {other} is deleted"
        ));
        scene.cordon(&person).await;
        cordoned.push(person);
        scene.delete_claim_of(&other).await;
    }
    scene.until_gone(&before).await;
    for node in &cordoned {
        let node = scene.admin.get(&format!("/api/v1/nodes/{node}")).await.unwrap();
        assert_eq!(node["spec"]["unschedulable"], true);
        assert!(node["metadata"]["annotations"]["trinopool.dev/node-replacement"].is_null());
    }
    let asked = scene.asked();
    let touched = asked.iter().filter(|one| one.kind() == "patch nodes");
    for one in touched {
        assert!(!cordoned.contains(&one.name), "{} was patched", one.name);
    }
    scene.ends_well().await;
}

/// Given a NodePool that may grow no more, when a claim is deleted, then the pool waits and says why, and goes on by
/// itself when the limit is lifted.
pub const NONE_TO_BE_HAD: Story = Story {
    name: "no-node-to-be-had",
    setup: Setup::default,
    tell: |scene| Box::pin(none_to_be_had(scene)),
};

async fn none_to_be_had(scene: Scene) {
    scene.patch_node_pool(&json!({"limits": {"cpu": "0"}})).await;
    let (instance, gone) = victim(&scene);
    scene.delete_claim_of(&scene.node(&instance, "coordinator")).await;
    scene
        .until("the pool to say what it waits for", async || {
            scene.tells("nodes are available").await
        })
        .await;
    assert!(scene.instances().contains(&instance));
    scene.say("the limit is lifted");
    scene.patch_node_pool(&json!({"limits": null})).await;
    scene.until_gone(&gone).await;
    scene.ends_well().await;
}
