//! Without one permission the operator goes on, and says what it cannot do (L2).

use std::collections::BTreeSet;

use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::victim;
use crate::Story;
use crate::audit;
use crate::cluster::Cluster;
use crate::privileges::{self, Without};
use crate::scene::{Scene, Setup};

/// Given an operator that may not patch Nodes, when a claim is deleted, then the instance is replaced all the same, its
/// node is not cordoned, and the pool says why.
pub const NO_CORDON: Story = Story {
    name: "may-not-cordon",
    setup: || Setup {
        without: Some(Without("patch", "nodes")),
        ..Setup::default()
    },
    tell: |scene| Box::pin(no_cordon(scene)),
};

async fn no_cordon(scene: Scene) {
    let (instance, gone) = victim(&scene);
    scene.delete_claim_of(&scene.node(&instance, "coordinator")).await;
    scene
        .until("the pool to say that it may not cordon", async || {
            says(&scene, "CordonDenied").await
        })
        .await;
    scene.until_gone(&gone).await;
    assert_eq!(successes(&scene, "patch nodes"), 0);
    scene.ends_well().await;
}

/// Given an operator that may not list NodeClaims, when every node drifts, then node replacement is Blocked, and says
/// why, nothing is concluded from silence, and a new release is rolled out all the same; once it may, a claim that is
/// deleted is seen.
pub const NO_INVENTORY: Story = Story {
    name: "may-not-list-claims",
    setup: || Setup {
        without: Some(Without("list", "nodeclaims")),
        // So that a claim that only says that it drifted cannot be mixed up with one that goes.
        node_pool: json!({"disruption": {"budgets": [{"nodes": "0"}]}}),
        ..Setup::default()
    },
    tell: |scene| Box::pin(no_inventory(scene)),
};

async fn no_inventory(scene: Scene) {
    let before = scene.instances();
    scene.drift().await;
    scene.until_all_drift().await;
    scene
        .until("node replacement to be Blocked", async || {
            let blocked = scene.condition("NodeReplacement").await;
            blocked.is_some_and(|(holds, words)| !holds && words.contains("nodeclaims"))
        })
        .await;
    assert!(scene.accepted().is_empty());
    assert_eq!(scene.instances(), before);
    scene.say("a new release is rolled out");
    scene.patch_pool("analytics", &json!({"release": "2"})).await;
    scene.until_gone(&before).await;
    scene.until_all_serve().await;
    // Candidates read their own claims by name, and may have met a drifted one. The others are still as they were.
    assert!(
        scene
            .accepted()
            .iter()
            .all(|one| !before.contains(one["instance"].as_str().unwrap()))
    );
    scene.say("NodeClaims may be listed");
    privileges::restore(&scene.cluster, &scene.name).await;
    scene
        .patch_node_pool(&json!({"disruption": {"budgets": [{"nodes": "100%"}]}}))
        .await;
    let (instance, gone) = victim(&scene);
    scene.delete_claim_of(&scene.node(&instance, "worker")).await;
    scene.until_gone(&gone).await;
    scene.ends_well().await;
}

/// Given an operator that may not patch Pods, when somebody takes the protection of a pod away, then the pool says that
/// it cannot be repaired; a claim that is deleted is still a reason to replace an instance, and it is.
pub const NO_PROTECTION: Story = Story {
    name: "may-not-protect",
    setup: || Setup {
        without: Some(Without("patch", "pods")),
        ..Setup::default()
    },
    tell: |scene| Box::pin(no_protection(scene)),
};

async fn no_protection(scene: Scene) {
    let mut instances = scene.instances().into_iter();
    let (unprotected, other) = (instances.next().unwrap(), instances.next().unwrap());
    let pods = scene.pods(&unprotected, "worker");
    let pod = pods[0]["metadata"]["name"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/{}/pods/{pod}", scene.name);
    let change = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": Value::Null}}});
    scene.admin.patch(&path, &change).await;
    scene
        .until("the pool to say that it may not protect", async || {
            says(&scene, "ProtectionDenied").await
        })
        .await;
    scene.is_found_by_check(&["PodUnprotected"]);
    scene.delete_claim_of(&scene.node(&other, "coordinator")).await;
    scene.until_gone(&BTreeSet::from([other])).await;
    assert_eq!(successes(&scene, "patch pods"), 0);
    scene.ends_well().await;
}

/// Whether the pool says that node replacement works, but for this.
async fn says(scene: &Scene, reason: &str) -> bool {
    let condition = scene.condition("NodeReplacement").await;
    condition.is_some_and(|(holds, words)| holds && words.starts_with(reason))
}

fn successes(scene: &Scene, kind: &str) -> usize {
    let asked = scene.asked();
    asked
        .iter()
        .filter(|one| one.kind() == kind && one.code < 300)
        .count()
}

/// What every story together asked under the whole roles is what they grant, verb by verb.
pub fn judge(cluster: Cluster) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        let asked = audit::of(&cluster.audit_log, privileges::ACCOUNT);
        audit::check(&asked);
        privileges::check(&cluster, &asked).await;
    })
}
