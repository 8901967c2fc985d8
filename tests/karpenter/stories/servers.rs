//! The servers that the operator needs go away in the middle of a replacement.

use jiff::Timestamp;

use super::victim;
use crate::Story;
use crate::audit::Asked;
use crate::scene::{Scene, Setup, Store};

/// Given a replacement under way, when PostgreSQL is killed and comes back, and then takes no writes for a while as a
/// standby does, then nothing that needs a record is done meanwhile, and the replacement is completed.
pub const STORE: Story = Story {
    name: "the-store-goes-away",
    setup: || Setup {
        store: Store::Own,
        ..Setup::default()
    },
    tell: |scene| Box::pin(store(scene)),
};

async fn store(scene: Scene) {
    let server = scene.server.as_ref().unwrap();
    let (instance, gone) = victim(&scene);
    scene.delete_claim_of(&scene.node(&instance, "coordinator")).await;
    let before = scene.instances();
    scene
        .until("a candidate", async || !scene.instances().is_subset(&before))
        .await;
    scene.say("PostgreSQL is killed, and starts again");
    server.restart();
    scene.traffic.when_done("drain", || {});
    scene
        .until("the drain to begin", async || scene.traffic.has_sprung())
        .await;
    server.take_writes(false).await;
    scene.say("PostgreSQL takes no writes");
    let since = Timestamp::now();
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    let asked = scene.asked();
    let done = |one: &&Asked| ["create", "delete"].contains(&one.verb.as_str()) && one.resource != "events";
    let done: Vec<_> = asked
        .iter()
        .filter(done)
        .filter(|one| one.at > since)
        .map(Asked::kind)
        .collect();
    assert!(done.is_empty(), "without a record: {done:?}");
    assert!(scene.instances().is_superset(&gone));
    server.take_writes(true).await;
    scene.say("and takes them again");
    scene.until_gone(&gone).await;
    scene.ends_well().await;
}

/// Given a replacement under way, when the API server is killed as soon as the drain has begun, its history compacted
/// under the watches that it is asked for when it is back, then everything goes on.
pub const KUBERNETES: Story = Story {
    name: "the-api-server-goes-away",
    setup: Setup::default,
    tell: |scene| Box::pin(kubernetes(scene)),
};

async fn kubernetes(scene: Scene) {
    let (instance, gone) = victim(&scene);
    let plane = scene.cluster.plane;
    let watches = || scene.asked().iter().filter(|one| one.verb == "watch").count();
    scene
        .traffic
        .when_done("drain", move || plane.kill("kube-apiserver"));
    scene.delete_claim_of(&scene.node(&instance, "coordinator")).await;
    scene
        .until("the drain to begin", async || scene.traffic.has_sprung())
        .await;
    scene.say("the API server is killed");
    let before = watches();
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    tokio::task::block_in_place(|| plane.start_again("kube-apiserver"));
    scene
        .until("the operator to watch again", async || watches() > before)
        .await;
    scene.say("it is back and watched; its history is compacted");
    plane.compact().await;
    scene.until_gone(&gone).await;
    scene.ends_well().await;
}
