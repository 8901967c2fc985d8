//! The places of the cluster's replacement budget: who gets one, who keeps it, and who gives it back.

use serde_json::json;
use trino_pool_operator::actors::Settings;
use trino_pool_operator::pool::ids::{InstanceId, NodeName};

use crate::given::given_pools_under_a_budget_of_one;
use crate::world::{self, Trouble, World};
use crate::{Process, minutes, pass, seconds};

/// Whether more instances are there than the three that are desired.
fn replaces(process: &Process, pool: &str) -> bool {
    process.pool(pool).instances.len() > 3
}

/// Karpenter deletes the claim of the node of this instance's first pod, and ends its pods by force two hours later.
fn delete_first_node_of(world: &World, process: &Process, instance: &InstanceId) {
    let node = world.nodes_of(instance)[0].clone();
    let now = process.ports.clock.now();
    for claim in world.lock().claims.values_mut() {
        if claim.node.as_ref() == Some(&node) {
            claim.deleted_at = Some(now);
            claim.termination_at = Some(now + jiff::SignedDuration::from_hours(2));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_but_urgent_pool_goes_before_an_early_drifted_one_and_takes_no_place_away() {
    let names = ["adhoc", "analytics", "reports"];
    let (world, mut process) = given_pools_under_a_budget_of_one(&names, 40).await;
    // Its drain takes a while, and meanwhile it holds the place.
    world.lock().owed = 1;
    let first = process.serving("adhoc")[0].clone();
    world.drift_first_node_of(&first);
    process.draining("adhoc", &first).await;
    let (early, late) = (
        process.serving("analytics")[0].clone(),
        process.serving("reports")[0].clone(),
    );
    world.drift_first_node_of(&early);
    pass(minutes(1)).await;
    delete_first_node_of(&world, &process, &late);
    pass(minutes(1)).await;
    for name in ["analytics", "reports"] {
        assert_eq!(process.pool(name).plan.label, "ClusterBudgetSpent", "{name}");
    }
    let places = process.status().replacements;
    assert_eq!((places.allowed, places.held, places.waiting), (1, 1, 2));

    world.lock().owed = 0;
    process
        .until("one of those that wait begins", minutes(5), |process| {
            replaces(process, "analytics") || replaces(process, "reports")
        })
        .await;
    assert!(
        replaces(&process, "reports"),
        "the one that came last is more urgent"
    );
    process
        .until("it is replaced", minutes(5), |process| {
            assert!(!(replaces(process, "analytics") && replaces(process, "reports")));
            !process.pool("reports").instances.contains_key(&late)
        })
        .await;
    process
        .until("the other one comes to its turn", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&early)
        })
        .await;
}

/// A pool at rest was lent the place, and looks for a long time: what it will make of it is not known yet.
#[tokio::test(start_paused = true)]
async fn a_place_that_was_given_is_not_given_again_before_its_pool_has_told() {
    let (world, mut process) = given_pools_under_a_budget_of_one(&["adhoc", "analytics"], 36).await;
    world.lock().owed = 1;
    let slow = process.serving("adhoc");
    let victims = [slow[0].clone(), process.serving("analytics")[0].clone()];
    for instance in &slow {
        world.trouble("workload", instance.as_str(), Trouble::Late(3));
    }
    for victim in &victims {
        world.drift_first_node_of(victim);
    }
    for _ in 0..60 {
        pass(seconds(1)).await;
        let both = replaces(&process, "adhoc") && replaces(&process, "analytics");
        assert!(!both, "{:#?}", process.status().pools);
    }
    assert!(replaces(&process, "adhoc") || replaces(&process, "analytics"));
    world.calm();
    world.lock().owed = 0;
    for (pool, victim) in ["adhoc", "analytics"].into_iter().zip(&victims) {
        process
            .until("each is replaced in its turn", minutes(10), |process| {
                !process.pool(pool).instances.contains_key(victim)
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn l5_l6_a_pool_whose_candidates_fail_backs_off_alone_and_gives_its_place_back() {
    let (world, store) = (World::default(), world::store());
    world.add_pool("adhoc", |_| {});
    world.add_pool("analytics", |spec| {
        spec["nodeReplacement"]["unownedNodes"] = json!("Allow");
    });
    world.add_nodes("old", 18);
    let settings = Settings {
        replacement_budget: Some(1),
        ..world::settings("a")
    };
    let mut process = Process::start(&world, &store, settings).await;
    for name in ["adhoc", "analytics"] {
        process.converged(name, 3).await;
    }
    // Machines that somebody made by hand: only one of the pools takes them.
    world.add_nodes("new", 12);
    {
        let mut inner = world.lock();
        let by_hand = |node: &NodeName| node.as_str().starts_with("new-");
        inner
            .claims
            .retain(|_, claim| !claim.node.as_ref().is_some_and(by_hand));
        for (_, node) in inner.nodes.iter_mut().filter(|(name, _)| by_hand(name)) {
            node.owners.clear();
        }
    }
    let (refused, accepted) = (
        process.serving("adhoc")[0].clone(),
        process.serving("analytics")[0].clone(),
    );
    world.drift_first_node_of(&refused);
    process
        .until("its candidates fail", minutes(5), |process| {
            process.pool("adhoc").plan.label == "BackingOff"
        })
        .await;
    let told = process.pool("adhoc").plan.detail;
    assert!(told.contains("NodeUnowned"), "{told}");
    world.drift_first_node_of(&accepted);
    process
        .until("the other pool replaces its own", minutes(2), |process| {
            !process.pool("analytics").instances.contains_key(&accepted)
        })
        .await;
    let made = world.logged("create");
    pass(minutes(60)).await;
    assert!(process.pool("adhoc").instances.contains_key(&refused));
    let candidates = (world.logged("create") - made) / 5;
    assert!(
        (1..=6).contains(&candidates),
        "{candidates} candidates in an hour, each of five objects"
    );
}

#[tokio::test(start_paused = true)]
async fn l6_a_pool_of_which_nothing_is_left_holds_no_place() {
    let (world, mut process) = given_pools_under_a_budget_of_one(&["analytics"], 12).await;
    // The first by name, so that the place is lent to it while nobody wants it.
    world.add_pool("adhoc", |spec| spec["minServing"] = json!(9));
    pass(minutes(1)).await;
    assert_eq!(process.status().pools.len(), 2);
    world.lock().pools.remove("adhoc");
    pass(minutes(1)).await;
    let victim = process.serving("analytics")[0].clone();
    world.drift_first_node_of(&victim);
    process
        .until("the other pool replaces its own", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
        })
        .await;
}
