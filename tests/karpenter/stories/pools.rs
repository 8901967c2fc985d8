//! What a person does to a TrinoPool.

use serde_json::json;

use crate::Story;
use crate::scene::{Scene, Setup};

/// Given a TrinoPool that is to be emptied, confirmed by its UID, when it is deleted, then it stays until its instances
/// are drained; the last one, which the gateway does not let go, serves on, and the reason says so.
pub const EMPTIED: Story = Story {
    name: "a-pool-is-emptied",
    setup: Setup::default,
    tell: |scene| Box::pin(emptied(scene)),
};

async fn emptied(scene: Scene) {
    let pool = scene.pools().await.remove(0);
    let confirmed = json!({"deletionPolicy": "Drain", "confirmEmpty": pool["metadata"]["uid"]});
    scene.patch_pool("analytics", &confirmed).await;
    scene
        .until("the pool to carry the finalizer", async || {
            let pool = scene.pools().await.remove(0);
            pool["metadata"]["finalizers"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
        })
        .await;
    scene.say("the TrinoPool is deleted");
    scene.delete_pool("analytics").await;
    scene
        .until("the last member to be held", async || {
            scene.tells("LastMemberHeld").await
        })
        .await;
    scene
        .until("the others to be gone", async || scene.instances().len() == 1)
        .await;
    scene.lost_nothing();
    scene.leave();
}

/// Given a pool that serves, when its spec is made invalid, put right, and made invalid once more, then the pool serves
/// on, says why, and each time is one occurrence of one Event.
pub const HELD: Story = Story {
    name: "a-spec-is-invalid",
    setup: Setup::default,
    tell: |scene| Box::pin(held(scene)),
};

async fn held(scene: Scene) {
    let before = scene.instances();
    for round in 1..=2 {
        scene.say("the floor is set above the desired count");
        scene.patch_pool("analytics", &json!({"minServing": 3})).await;
        scene
            .until("the pool to say that its spec is invalid", async || {
                let blocked = scene.condition("Blocked").await;
                blocked.is_some_and(|(holds, words)| holds && words.contains("spec.minServing"))
            })
            .await;
        scene
            .until("an Event that counts", async || {
                let events = scene.events("SpecInvalid").await;
                events.iter().any(|event| event["count"] == round)
            })
            .await;
        scene
            .patch_pool("analytics", &json!({"minServing": scene.setup.floor()}))
            .await;
        scene
            .until("the pool to be well again", async || {
                scene.condition("Blocked").await.is_some_and(|(holds, _)| !holds)
            })
            .await;
    }
    assert_eq!(scene.events("SpecInvalid").await.len(), 1);
    assert_eq!(scene.instances(), before);
    scene.ends_well().await;
}
