//! Instances that hang, instances and pools that panic, ticks that pile up.

use trino_pool_operator::actors::Settings;
use trino_pool_operator::pool::ids::SpecGeneration;
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::pool::step::WaitReason;
use trino_pool_operator::store::port::Store;

use crate::given::{given_a_pool_and_machines, given_three_serving};
use crate::world::readonly::ReadOnlyStore;
use crate::world::{self, Trouble, World};
use crate::{Process, minutes, pass, seconds};

#[tokio::test(start_paused = true)]
async fn a_hung_instance_costs_itself_and_nobody_else() {
    let (world, _, mut process) = given_three_serving().await;
    let serving = process.serving("analytics");
    // The first to be asked hangs in everything; another one's node drifts.
    world.trouble("workload", serving[0].as_str(), Trouble::Hangs);
    world.trouble("coordinator", serving[0].as_str(), Trouble::Hangs);
    let victim = serving[2].clone();
    world.drift_first_node_of(&victim);
    process
        .until("the other one is replaced", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
                && process.serving("analytics").len() == 3
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn l6_a_candidate_whose_nodes_cannot_be_proven_holds_its_own_slot_and_nothing_else() {
    let (world, store, mut process) = given_three_serving().await;
    let victim = process.serving("analytics")[0].clone();
    // What is left of the machines answers nothing about itself, for as long as it takes.
    let taken: Vec<_> = process
        .serving("analytics")
        .iter()
        .flat_map(|id| world.nodes_of(id))
        .collect();
    let free = world
        .lock()
        .nodes
        .keys()
        .filter(|name| !taken.contains(name))
        .cloned()
        .collect::<Vec<_>>();
    for node in &free {
        world.trouble("node", node.as_str(), Trouble::Fails);
    }
    world.drift_first_node_of(&victim);
    process
        .until("the pool says which candidate is stuck", minutes(20), |process| {
            process.pool("analytics").plan.label == "CandidateStuck"
        })
        .await;
    let pool = process.pool("analytics");
    let (stuck, candidate) = pool
        .instances
        .iter()
        .find(|(_, one)| one.phase == Phase::Validating)
        .unwrap();
    assert_eq!(
        candidate.waiting.as_ref().map(|waiting| waiting.reason),
        Some(WaitReason::NodesUnproven)
    );
    let told = &pool.plan.detail;
    assert!(
        told.contains(stuck.as_str())
            && told.contains("VALIDATING for 10m")
            && told.contains("NodesUnproven"),
        "{told}"
    );
    // With room for another one it goes on, on machines that can be proven.
    world.add_nodes("new", 6);
    if let Some(resource) = world.lock().pools.get_mut("analytics") {
        resource.spec["maxSurge"] = 2.into();
        resource.generation = SpecGeneration::new(2);
    }
    process
        .until("the other one is replaced", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
                && process.serving("analytics").len() == 3
        })
        .await;
    let row = store.instance(stuck).await.unwrap().unwrap();
    assert_eq!(
        (row.phase, row.failure),
        (Phase::Validating, None),
        "an API error never retires it (L4)"
    );
    // It clears: the candidate is admitted after all, and one too many is scaled in.
    world.calm();
    process.converged("analytics", 3).await;
    let row = store.instance(stuck).await.unwrap().unwrap();
    assert_eq!(row.failure, None);
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_never_ends_is_given_up_and_its_executor_replaced() {
    let (world, store) = given_a_pool_and_machines();
    world.trouble("create", "", Trouble::Hangs);
    let mut process = Process::start(&world, &store, world::settings("a")).await;
    process
        .until("a hung instance is counted", minutes(3), |process| {
            process.status().counts.instances_hung > 0
        })
        .await;
    world.calm();
    process.converged("analytics", 3).await;
}

#[tokio::test(start_paused = true)]
async fn r07_a_panicking_instance_is_replaced_counted_and_costs_nobody_else() {
    let (world, _, mut process) = given_three_serving().await;
    let serving = process.serving("analytics");
    world.trouble("workload", serving[0].as_str(), Trouble::Panics);
    let victim = serving[1].clone();
    world.drift_first_node_of(&victim);
    process
        .until("the other one is replaced", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
        })
        .await;
    let panics = process.status().counts.instances_panicked;
    let ticks = process.status().tick.get();
    assert!(panics > 0 && panics <= ticks, "{panics} panics in {ticks} ticks");
    assert_eq!(process.status().counts.pool_restarts, 0);
    world.calm();
    pass(seconds(20)).await;
    let pool = process.pool("analytics");
    assert!(
        pool.instances[&serving[0]].faults.is_empty(),
        "{:#?}",
        pool.instances[&serving[0]]
    );
}

#[tokio::test(start_paused = true)]
async fn o01_a_process_that_dies_at_any_moment_resumes_the_same_replacement() {
    let (world, store, mut process) = given_three_serving().await;
    let victim = process.serving("analytics")[0].clone();
    world.drift_first_node_of(&victim);
    // Killed again and again, each time a little later than the last.
    for round in 0_u64..40 {
        pass(std::time::Duration::from_millis(37 * (round % 9) + 211)).await;
        process.handle.crash().await;
        process = Process::start(&world, &store, world::settings(&format!("b{round}"))).await;
    }
    process
        .until("the victim is gone", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
                && process.serving("analytics").len() == 3
                && process.pool("analytics").instances.len() == 3
        })
        .await;
    let log = world.lock().log.clone();
    let admitted = log.iter().filter(|line| line.starts_with("admit ")).count();
    assert_eq!(admitted, 4, "one replacement, not two: {log:#?}");
    let row = store.instance(&victim).await.unwrap().unwrap();
    assert_eq!(row.phase, Phase::Retired);
}

#[tokio::test(start_paused = true)]
async fn ticks_that_find_the_round_running_are_coalesced() {
    let (world, store) = given_a_pool_and_machines();
    let settings = Settings {
        tick: seconds(1),
        ..world::settings("a")
    };
    let mut process = Process::start(&world, &store, settings).await;
    process.converged("analytics", 3).await;
    // Every look takes the whole budget of four seconds.
    world.trouble("workload", "", Trouble::Hangs);
    let before = process.status().counts.coalesced_ticks;
    let looks = world.calls("workload");
    pass(seconds(60)).await;
    assert!(process.status().counts.coalesced_ticks > before + 20);
    assert!(world.calls("workload") - looks < 3 * 20, "looks do not queue up");
}

#[tokio::test(start_paused = true)]
async fn r04_while_the_store_takes_no_write_nothing_is_done_that_needs_one() {
    let (world, store, process) = given_three_serving().await;
    process.handle.crash().await;

    let (faulty, ports) = ReadOnlyStore::ports(&world, &store);
    let mut process = Process::on(ports, world::settings("b")).await;
    process.converged("analytics", 3).await;
    faulty.set_read_only(true);
    let node = world.drift_first_node_of(&process.serving("analytics")[0]);
    world.lock().pods[0].do_not_disrupt = None;
    pass(minutes(1)).await;
    assert_eq!(
        world.calls("cordon_node"),
        0,
        "no cordon on a write that did not commit"
    );
    assert_eq!(world.lock().pods[0].do_not_disrupt.as_deref(), Some("true"));
    assert!(process.pool("analytics").store.is_some());
    assert!(!process.status().is_ready());
    faulty.set_read_only(false);
    process
        .until("it is cordoned", minutes(1), |process| {
            world.lock().nodes[&node].unschedulable && process.status().is_ready()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_actor_that_panics_is_started_again_and_resumes_from_the_store() {
    let world = World::default();
    let store = world::store();
    world.add_pool("analytics", |_| {});
    world.add_pool("adhoc", |_| {});
    world.add_nodes("old", 24);
    let (panicking, ports) = ReadOnlyStore::ports(&world, &store);
    let mut process = Process::on(ports, world::settings("a")).await;
    process.converged("analytics", 3).await;
    process.converged("adhoc", 3).await;
    let victim = process.serving("analytics")[0].clone();
    // A pool reads its rows again once it has changed them, and that panics.
    panicking.panic_on("trino/analytics");
    world.drift_first_node_of(&victim);
    process
        .until("it was started again", minutes(2), |process| {
            process
                .pool("analytics")
                .restarts
                .is_some_and(|(count, _)| count >= 3)
        })
        .await;
    assert!(process.pool("adhoc").restarts.is_none());
    panicking.panic_on("");
    process
        .until("the victim is gone", minutes(8), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
                && process.serving("analytics").len() == 3
        })
        .await;
}

/// It was in the middle of a replacement, and never says anything again.
#[tokio::test(start_paused = true)]
async fn l6_a_pool_actor_that_keeps_dying_gives_its_place_in_the_budget_of_the_cluster_back() {
    let (world, store) = (World::default(), world::store());
    world.add_pool("analytics", |_| {});
    world.add_pool("adhoc", |_| {});
    world.add_nodes("old", 36);
    let (panicking, ports) = ReadOnlyStore::ports(&world, &store);
    let settings = Settings {
        replacement_budget: Some(1),
        ..world::settings("a")
    };
    let mut process = Process::on(ports, settings).await;
    process.converged("analytics", 3).await;
    process.converged("adhoc", 3).await;
    // Its drain takes longer than this test.
    world.lock().owed = 1;
    let first = process.serving("adhoc")[0].clone();
    world.drift_first_node_of(&first);
    process
        .until("it is in the middle of a replacement", minutes(5), |process| {
            process.pool("adhoc").instances.len() > 3
        })
        .await;
    panicking.panic_on("trino/adhoc");
    let second = process.serving("analytics")[0].clone();
    world.drift_first_node_of(&second);
    process
        .until("the other pool replaces its own", minutes(5), |process| {
            process.pool("analytics").instances.len() > 3
        })
        .await;
}
