//! A changed NodePool makes nodes drift.

use serde_json::{Value, json};

use crate::Story;
use crate::admin::is_true;
use crate::scene::{Scene, Setup};

/// Given three pools, when a change of the NodePool makes all of their nodes drift, then every instance is replaced
/// before Karpenter takes its node, one per pool at a time, and Karpenter replaces every freed node.
pub const EVERY_NODE: Story = Story {
    name: "every-node-drifts",
    setup: || Setup {
        pools: vec!["analytics", "adhoc", "etl"],
        instances: 3,
        ..Setup::default()
    },
    tell: |scene| Box::pin(every_node(scene)),
};

async fn every_node(scene: Scene) {
    let before = scene.instances();
    assert_eq!(before.len(), 9);
    scene.is_found_by_check(&[]);
    let old: Vec<Value> = scene.claims().await;
    scene.drift().await;
    let left = || scene.instances().intersection(&before).count();
    let mut known = before.len();
    while known > 0 {
        scene
            .until("one more instance to be replaced", async || left() < known)
            .await;
        known = left();
    }
    for (pool, most) in scene.traffic.most_draining() {
        assert_eq!(most, 1, "drained at once in {pool}");
    }
    scene.until_all_serve().await;
    scene.until_nothing_drifts().await;
    for claim in old {
        let name = claim["metadata"]["name"].as_str().unwrap();
        assert!(scene.claim(name).await.is_none(), "{name} still stands");
    }
    let accepted = scene.accepted();
    assert!(
        accepted.iter().all(|one| one["reason"] == "Drifted"),
        "{accepted:?}"
    );
    scene.ends_well().await;
}

/// Given a drift that was accepted, when the change of the NodePool is taken back, then the replacement is completed.
pub const WITHDRAWN: Story = Story {
    name: "drift-is-withdrawn",
    setup: Setup::default,
    tell: |scene| Box::pin(withdrawn(scene)),
};

async fn withdrawn(scene: Scene) {
    scene.drift().await;
    scene
        .until("the drift to be accepted", async || !scene.accepted().is_empty())
        .await;
    scene.say("the change is taken back");
    let no_label = json!({"template": {"metadata": {"labels": {"generation": null}}}});
    scene.patch_node_pool(&no_label).await;
    let accepted = scene.accepted();
    let claim = accepted[0]["nodeclaim"].as_str().unwrap();
    scene
        .until("the claim not to be drifted any more", async || {
            let claim = scene.claim(claim).await.expect("its instance stands");
            !is_true(&claim, "Drifted")
        })
        .await;
    assert!(
        scene
            .instances()
            .contains(accepted[0]["instance"].as_str().unwrap())
    );
    let ids = accepted
        .iter()
        .map(|one| one["instance"].as_str().unwrap().to_owned());
    scene.until_gone(&ids.collect()).await;
    scene.ends_well().await;
}
