//! Somebody, or time, deletes what an instance stands on.

use serde_json::json;

use super::victim;
use crate::Story;
use crate::admin::name;
use crate::objects::node_pool;
use crate::scene::{Scene, Setup};

/// Given an instance that serves, when the NodeClaim beneath it is deleted, then the claim waits until the instance is
/// replaced, and goes; no other instance is touched.
pub const OF_A_CLAIM: Story = Story {
    name: "a-claim-is-deleted",
    setup: Setup::default,
    tell: |scene| Box::pin(of_a_claim(scene)),
};

async fn of_a_claim(scene: Scene) {
    let before = scene.instances();
    let (instance, gone) = victim(&scene);
    let claim = scene.delete_claim_of(&scene.node(&instance, "coordinator")).await;
    scene.say(&format!("NodeClaim {claim} under {instance} is deleted"));
    replaced_for(&scene, &claim).await;
    scene.until_gone(&gone).await;
    let now = scene.instances();
    assert!(
        before
            .iter()
            .filter(|one| **one != instance)
            .all(|one| now.contains(one))
    );
    scene.ends_well().await;
}

/// Given an instance that serves, when the Node beneath one of its workers is deleted, then the instance is replaced
/// before the Node goes.
pub const OF_A_NODE: Story = Story {
    name: "a-node-is-deleted",
    setup: Setup::default,
    tell: |scene| Box::pin(of_a_node(scene)),
};

async fn of_a_node(scene: Scene) {
    let (instance, gone) = victim(&scene);
    let node = scene.node(&instance, "worker");
    let claim = scene.claim_of(&node).await;
    scene.say(&format!("Node {node} under a worker of {instance} is deleted"));
    scene.admin.delete(&format!("/api/v1/nodes/{node}")).await;
    replaced_for(&scene, &claim).await;
    scene.until_gone(&gone).await;
    scene.ends_well().await;
}

/// Given nodes that expire, when they do, then Karpenter deletes their claims without a look at the pods, and every
/// instance is replaced before its node goes.
pub const BY_EXPIRY: Story = Story {
    name: "nodes-expire",
    setup: || Setup {
        node_pool: json!({"template": {"spec": {"expireAfter": "150s"}}}),
        ..Setup::default()
    },
    tell: |scene| Box::pin(by_expiry(scene)),
};

async fn by_expiry(scene: Scene) {
    // New nodes come from another NodePool, which lets them stay. To change this one would make its nodes drift.
    let mut lasting = node_pool(&scene.name, &Setup::default());
    lasting["metadata"]["name"] = json!(format!("{}-lasting", scene.name));
    scene
        .admin
        .create("/apis/karpenter.sh/v1/nodepools", &lasting)
        .await;
    scene.patch_node_pool(&json!({"limits": {"cpu": "0"}})).await;
    let before = scene.instances();
    scene
        .until("a node to expire", async || {
            let accepted = scene.accepted();
            accepted
                .iter()
                .any(|one| before.contains(one["instance"].as_str().unwrap()))
        })
        .await;
    scene.say("nodes expire");
    scene.until_gone(&before).await;
    let accepted = scene.accepted();
    assert!(
        accepted.iter().all(|one| one["reason"] == "Deleting"),
        "{accepted:?}"
    );
    scene.ends_well().await;
}

/// Waits for the evidence of a claim that is being deleted. While the claim waits it stands.
async fn replaced_for(scene: &Scene, claim: &str) {
    let deleted = async || {
        let accepted = scene.accepted();
        accepted
            .iter()
            .any(|one| one["nodeclaim"] == claim && one["reason"] == "Deleting")
    };
    scene.until("the deletion to be accepted", deleted).await;
    let claim = scene.claim(claim).await.expect("it waits for protected pods");
    assert!(
        claim["metadata"]["deletionTimestamp"].is_string(),
        "{}",
        name(&claim)
    );
}
