//! The main job: observe, persist, cordon, surge, drain.

use serde_json::json;
use trino_pool_operator::cluster::facts::Grace;
use trino_pool_operator::pool::evidence::RecordedEvidence;
use trino_pool_operator::pool::ids::InstanceId;
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::port::Store;

use crate::given::{given_a_pool_and_machines, given_three_serving};
use crate::world::{self, Trouble, World};
use crate::{Process, minutes, pass, seconds};

fn index_of(log: &[String], what: &str) -> usize {
    log.iter()
        .position(|line| line == what)
        .unwrap_or_else(|| panic!("{what} is not in {log:#?}"))
}

#[tokio::test(start_paused = true)]
async fn a_pool_comes_up_one_candidate_after_the_other() {
    let (world, _, _process) = given_three_serving().await;
    let pods = world.lock().pods.clone();
    assert_eq!(pods.len(), 9);
    assert!(
        pods.iter()
            .all(|pod| pod.do_not_disrupt.as_deref() == Some("true"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_drifted_node_is_observed_persisted_cordoned_and_its_instance_surged_and_drained() {
    let (world, store, mut process) = given_three_serving().await;
    let victim = process.serving("analytics")[0].clone();
    let node = world.drift_first_node_of(&victim);
    process
        .until("the evidence is durable", seconds(30), |process| {
            let pool = process.pool("analytics");
            pool.instances[&victim].evidence.valid().is_some()
        })
        .await;
    let row = store.instance(&victim).await.unwrap().unwrap();
    let RecordedEvidence::Some(evidence) = &row.evidence else {
        panic!("{:?}", row.evidence)
    };
    assert_eq!(evidence.node_name, node);

    // A drift that clears later changes nothing.
    for claim in world.lock().claims.values_mut() {
        claim.drifted = None;
    }
    process
        .until("the victim is gone", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
                && process.serving("analytics").len() == 3
        })
        .await;

    let row = store.instance(&victim).await.unwrap().unwrap();
    assert_eq!(row.phase, Phase::Retired);
    let log = world.lock().log.clone();
    let cordon = index_of(&log, &format!("cordon {node}"));
    let drain = index_of(&log, &format!("drain {victim}"));
    let seal = index_of(&log, &format!("seal {victim}"));
    let claim = index_of(&log, &format!("retire {victim}"));
    let delete = index_of(&log, &format!("delete Deployment {victim}-coordinator"));
    let closed = index_of(&log, &format!("retired {victim}"));
    let admitted = log.iter().rposition(|line| line.starts_with("admit ")).unwrap();
    assert!(cordon < drain && admitted < drain, "{log:#?}");
    assert!(
        drain < seal && seal < claim && claim < delete && delete < closed,
        "{log:#?}"
    );
    assert_eq!(log.iter().filter(|line| line.starts_with("admit ")).count(), 4);
    assert_eq!(log.iter().filter(|line| line.starts_with("cordon ")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn k07_a_claim_that_lingers_after_its_instance_is_gone_causes_nothing_more() {
    let (world, _, mut process) = given_three_serving().await;
    let victim = process.serving("analytics")[0].clone();
    world.drift_first_node_of(&victim);
    process
        .until("the victim is gone", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
                && process.serving("analytics").len() == 3
        })
        .await;
    pass(minutes(1)).await;
    let before = world.lock().log.len();
    // The claim stays drifted, then deleting, for a week of passes.
    for claim in world.lock().claims.values_mut() {
        if claim.drifted.is_some() {
            claim.deleted_at = Some("2031-01-01T00:00:00Z".parse().unwrap());
        }
    }
    pass(minutes(10)).await;
    assert_eq!(world.lock().log.len(), before, "{:#?}", world.lock().log);
}

#[tokio::test(start_paused = true)]
async fn with_no_surge_the_instance_stays_and_the_reason_says_why() {
    let world = World::default();
    world.add_pool("analytics", |spec| spec["maxSurge"] = json!(0));
    world.add_nodes("old", 12);
    let mut process = Process::start(&world, &world::store(), world::settings("a")).await;
    process.converged("analytics", 3).await;
    let victim = process.serving("analytics")[0].clone();
    world.drift_first_node_of(&victim);
    process
        .until("the reason is named", minutes(1), |process| {
            process.pool("analytics").plan.label == "SurgeZero"
        })
        .await;
    pass(minutes(2)).await;
    assert_eq!(process.serving("analytics").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn while_the_feature_is_off_nothing_is_inspected_protected_or_cordoned() {
    let (world, store) = given_a_pool_and_machines();
    let settings = trino_pool_operator::actors::Settings {
        node_replacement: false,
        ..world::settings("a")
    };
    let mut process = Process::start(&world, &store, settings).await;
    process.converged("analytics", 3).await;
    world.drift(|_| true);
    pass(minutes(3)).await;
    assert_eq!(
        world.calls("claims") + world.calls("claim") + world.calls("node"),
        0
    );
    assert_eq!(world.calls("protect_pod") + world.calls("cordon_node"), 0);
    assert_eq!(process.serving("analytics").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn one_inventory_per_tick_is_shared_by_all_pools_and_lazily_made() {
    let world = World::default();
    for name in ["analytics", "adhoc", "reports"] {
        world.add_pool(name, |_| {});
    }
    let mut process = Process::start(&world, &world::store(), world::settings("a")).await;
    // No node: pods stand, nothing is scheduled.
    pass(minutes(1)).await;
    world.add_nodes("old", 40);
    let store_pools = process.status().pools.len();
    assert_eq!(store_pools, 3);
    for pod in &mut world.lock().pods {
        assert_eq!(pod.node, None);
    }
    drop(process.handle);

    let world = World::default();
    for name in ["analytics", "adhoc", "reports"] {
        world.add_pool(name, |_| {});
    }
    world.add_nodes("old", 40);
    process = Process::start(&world, &world::store(), world::settings("a")).await;
    for name in ["analytics", "adhoc", "reports"] {
        process.converged(name, 3).await;
    }
    let (lists, ticks) = (world.calls("claims"), process.status().tick.get());
    pass(minutes(5)).await;
    let (more_lists, more_ticks) = (world.calls("claims") - lists, process.status().tick.get() - ticks);
    assert!(more_ticks >= 59);
    assert!(
        more_lists <= more_ticks + 1,
        "{more_lists} lists in {more_ticks} ticks"
    );
}

#[tokio::test(start_paused = true)]
async fn k09_a_failing_claim_list_stops_cordons_and_evidence_and_nothing_else() {
    let (world, _, mut process) = given_three_serving().await;
    // Candidates go here, so that none of them meets the drifted node, which named reads would show.
    world.add_nodes("a-new", 30);
    let victim = process.serving("analytics")[0].clone();
    world.trouble("claims", "", Trouble::Fails);
    world.drift_first_node_of(&victim);
    // Somebody takes a protection away, and the release moves on.
    world.lock().pods[0].do_not_disrupt = None;
    if let Some(pool) = world.lock().pools.get_mut("analytics") {
        pool.spec["release"] = json!("2");
        pool.generation = pool.generation.next();
    }
    process
        .until("the rollout is done", minutes(10), |process| {
            let pool = process.pool("analytics");
            pool.instances.len() == 3
                && pool
                    .instances
                    .values()
                    .all(|i| i.phase == Phase::Serving && i.release.as_str() == "2")
        })
        .await;
    pass(minutes(1)).await;
    assert_eq!(world.calls("cordon_node"), 0);
    let status = process.status();
    assert!(status.inventory.fault.is_some());
    assert!(status.inventory.age.is_some_and(|age| age > seconds(20)));

    world.calm();
    pass(minutes(3)).await;
    assert!(process.status().inventory.fault.is_none());
}

#[tokio::test(start_paused = true)]
async fn w01c_a_gateway_outage_stops_neither_evidence_nor_protection_nor_cordons() {
    let (world, _, mut process) = given_three_serving().await;
    let victim = process.serving("analytics")[0].clone();
    world.trouble("gateway", "", Trouble::Hangs);
    let node = world.drift_first_node_of(&victim);
    world.lock().pods[4].do_not_disrupt = Some("5m".into());
    process
        .until("the evidence is durable", minutes(1), |process| {
            let pool = process.pool("analytics");
            pool.instances[&victim].evidence.valid().is_some()
        })
        .await;
    pass(seconds(30)).await;
    assert!(world.lock().nodes[&node].unschedulable);
    assert_eq!(world.lock().pods[4].do_not_disrupt.as_deref(), Some("true"));
    assert!(process.pool("analytics").gateway.is_some());

    world.calm();
    process
        .until("the victim is gone", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
                && process.serving("analytics").len() == 3
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_retained_pool_keeps_its_instances_protected_and_says_so() {
    let (world, _, process) = given_three_serving().await;
    world.lock().pools.clear();
    world.lock().pods[0].do_not_disrupt = None;
    pass(minutes(1)).await;
    let pool = process.pool("analytics");
    assert_eq!(pool.mode, trino_pool_operator::pool::desired::PoolMode::Retained);
    assert_eq!((pool.serving, pool.plan.label.as_str()), (3, "Retained"));
    assert_eq!(world.lock().pods[0].do_not_disrupt.as_deref(), Some("true"));
}

#[tokio::test(start_paused = true)]
async fn o06_an_empty_store_facing_live_instances_deletes_and_creates_nothing() {
    let (world, _, process) = given_three_serving().await;
    process.handle.crash().await;

    let before = world.lock().log.len();
    let other = std::sync::Arc::new(trino_pool_operator::store::memory::MemoryStore::new(
        trino_pool_operator::pool::ids::StoreId::new("store-b"),
    ));
    let mut process = Process::start(&world, &other, world::settings("b")).await;
    process
        .until("it is frozen", minutes(1), |process| {
            process.pool("analytics").plan.label == "Frozen" || !process.pool("analytics").faults.is_empty()
        })
        .await;
    pass(minutes(2)).await;
    assert_eq!(world.lock().log.len(), before, "{:#?}", world.lock().log);
    assert_eq!(
        world.lock().pools["analytics"].store.as_ref().unwrap().as_str(),
        "store-a"
    );
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_drain_empties_the_pool_and_lets_the_resource_go() {
    let world = World::default();
    world.add_pool("analytics", |spec| spec["deletionPolicy"] = json!("Drain"));
    world.add_nodes("old", 12);
    let mut process = Process::start(&world, &world::store(), world::settings("a")).await;
    process.converged("analytics", 3).await;
    assert!(world.lock().pools["analytics"].finalizer);
    {
        let mut inner = world.lock();
        let pool = inner.pools.get_mut("analytics").unwrap();
        pool.deleting = true;
    }
    pass(minutes(1)).await;
    assert_eq!(process.serving("analytics").len(), 3, "not confirmed yet");
    {
        let mut inner = world.lock();
        let pool = inner.pools.get_mut("analytics").unwrap();
        pool.spec["confirmEmpty"] = json!("uid-analytics");
    }
    pass(minutes(5)).await;
    // This gateway keeps its last member serving, whatever is asked: that one is held, and it says so.
    let left: Vec<InstanceId> = process.serving("analytics");
    assert_eq!(left.len(), 1, "{:#?}", process.pool("analytics"));
    assert_eq!(process.pool("analytics").plan.label, "LastMemberHeld");
}

#[tokio::test(start_paused = true)]
async fn k02_a_leaving_node_of_finite_grace_is_cordoned_like_any_other() {
    let (world, _, mut process) = given_three_serving().await;
    let victim = process.serving("analytics")[0].clone();
    let node = world.drift_first_node_of(&victim);
    for claim in world.lock().claims.values_mut() {
        if claim.node.as_ref() == Some(&node) {
            claim.grace = Grace::Finite(minutes(10));
        }
    }
    process
        .until("its instance is replaced", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
        })
        .await;
    let log = world.lock().log.clone();
    assert!(log.contains(&format!("cordon {node}")), "{log:#?}");
}
