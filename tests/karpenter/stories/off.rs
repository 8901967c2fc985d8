//! Without the operator's protection.

use serde_json::json;

use crate::Story;
use crate::audit;
use crate::scene::{Scene, Setup};

/// What only node replacement asks for.
const OF_NODE_REPLACEMENT: [&str; 6] = [
    "patch nodes",
    "get nodes",
    "patch pods",
    "get nodeclaims.karpenter.sh",
    "list nodeclaims.karpenter.sh",
    "watch nodeclaims.karpenter.sh",
];

fn asks_nothing_of_it(scene: &Scene) {
    let kinds = audit::kinds(&scene.asked());
    for kind in OF_NODE_REPLACEMENT {
        assert!(!kinds.contains(kind), "{kind} with node replacement off");
    }
}

/// Given a process whose switch is off, over a pool that asks for node replacement, when every node drifts, then
/// nothing is touched: no pod, no node, no claim is even read.
pub const TOUCHES_NOTHING: Story = Story {
    name: "off-touches-nothing",
    setup: || Setup {
        node_replacement: false,
        // Karpenter says that they drift, and waits.
        node_pool: json!({"disruption": {"budgets": [{"nodes": "0"}]}}),
        ..Setup::default()
    },
    tell: |scene| Box::pin(touches_nothing(scene)),
};

async fn touches_nothing(scene: Scene) {
    let before = scene.instances();
    scene.drift().await;
    scene.until_all_drift().await;
    let looks = || {
        scene
            .asked()
            .iter()
            .filter(|one| one.kind() == "list pods")
            .count()
    };
    let looked = looks();
    // Each tick reads the pods of each instance once.
    scene
        .until("three ticks to pass", async || looks() >= looked + 6)
        .await;
    assert_eq!(scene.instances(), before);
    for instance in &before {
        for component in ["coordinator", "worker"] {
            for pod in scene.pods(instance, component) {
                assert!(pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"].is_null());
            }
        }
    }
    scene.is_found_by_check(&["PodUnprotected"]);
    asks_nothing_of_it(&scene);
    scene.lost_nothing();
    scene.leave();
}

/// Given the same where Karpenter may act, then it takes the nodes, and clients lose queries: these stories can fail.
pub const LOSES_QUERIES: Story = Story {
    name: "off-loses-queries",
    setup: || Setup {
        node_replacement: false,
        ..Setup::default()
    },
    tell: |scene| Box::pin(loses_queries(scene)),
};

async fn loses_queries(scene: Scene) {
    assert_eq!(scene.traffic.counts().failed, 0);
    scene.drift().await;
    scene
        .until("a query to be lost", async || scene.traffic.counts().failed > 0)
        .await;
    asks_nothing_of_it(&scene);
    scene.leave();
}
