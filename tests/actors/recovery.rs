//! Answers that were lost, processes that died, people who decide.

use trino_pool_operator::gateway::model::MemberPhase;
use trino_pool_operator::pool::ids::{InstanceId, ObjectName, ObjectUid};
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::port::Store;

use crate::given::{given_a_pool_and_machines, given_three_serving};
use crate::world::journal::order_recovery;
use crate::world::{self, Trouble, World};
use crate::{Process, minutes, pass, seconds};

/// The coordinator's pod is gone for good, and its Deployment says so.
fn kill_coordinator(world: &World, instance: &InstanceId) {
    let mut inner = world.lock();
    let name = format!("{instance}-coordinator");
    inner.pods.retain(|pod| !pod.name.as_str().starts_with(&name));
    for deployment in &mut inner.deployments {
        if deployment.object.name.as_str() == name {
            deployment.ready = 0;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn w20_a_replacement_takes_few_ticks_since_steps_follow_each_other_at_once() {
    let (world, _, mut process) = given_three_serving().await;
    let victim = process.serving("analytics")[0].clone();
    let begun = tokio::time::Instant::now();
    world.drift_first_node_of(&victim);
    process
        .until("the victim is gone", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
        })
        .await;
    // Pods start at once in this world: what is left is the tick that notices, and early ones.
    assert!(begun.elapsed() <= seconds(10), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lost_admission_reply_is_replayed_with_the_identical_request() {
    let (world, store) = given_a_pool_and_machines();
    // Applied at the gateway, and the answer lost.
    world.lock().lose_answers_of = Some("admit".into());
    let mut process = Process::start(&world, &store, world::settings("a")).await;
    pass(seconds(30)).await;
    world.lock().lose_answers_of = None;
    process.converged("analytics", 3).await;
    assert_eq!(world.logged("admit"), 3);
}

#[tokio::test(start_paused = true)]
async fn s9_a_registration_whose_answer_was_lost_is_fenced_before_its_candidate_is_given_up() {
    let (world, store) = given_a_pool_and_machines();
    world.trouble("send", "register", Trouble::Fails);
    let mut process = Process::start(&world, &store, world::settings("a")).await;
    pass(seconds(20)).await;
    let candidate = process.pool("analytics").instances.keys().next().unwrap().clone();
    let epoch = process.pool("analytics").epoch;
    // Its coordinator is gone: the identical body can be sent no more.
    kill_coordinator(&world, &candidate);
    world.trouble("coordinator", candidate.as_str(), Trouble::Fails);
    process
        .until("the epoch is raised", minutes(30), |process| {
            process.pool("analytics").epoch > epoch
        })
        .await;
    assert!(
        !world.lock().log.iter().any(|line| line.starts_with("delete ")),
        "its objects stay until the registration is fenced"
    );
    world.calm();
    world.trouble("coordinator", candidate.as_str(), Trouble::Fails);
    process
        .until("the candidate is gone", minutes(30), |process| {
            !process.pool("analytics").instances.contains_key(&candidate)
        })
        .await;
    process.converged("analytics", 3).await;
    let row = store.instance(&candidate).await.unwrap().unwrap();
    assert_eq!(row.phase, Phase::FailureRetired);
}

#[tokio::test(start_paused = true)]
async fn o05_a_planned_candidate_that_is_pending_does_not_keep_a_repair_waiting() {
    let world = World::default();
    world.add_pool("analytics", |_| {});
    world.add_nodes("old", 9);
    let mut process = Process::start(&world, &world::store(), world::settings("a")).await;
    process.converged("analytics", 3).await;
    let serving = process.serving("analytics");
    // No room: every node is full, and the planned candidate waits for one.
    for node in world.lock().nodes.values_mut() {
        node.unschedulable = true;
    }
    world.drift_first_node_of(&serving[0]);
    process
        .until("the planned candidate is pending", minutes(1), |process| {
            let pool = process.pool("analytics");
            pool.instances.values().any(|i| i.phase == Phase::Creating)
        })
        .await;
    kill_coordinator(&world, &serving[1]);
    process
        .until("the repair is made beside it", minutes(10), |process| {
            let pool = process.pool("analytics");
            pool.instances
                .values()
                .any(|instance| instance.repair_for.as_ref() == Some(&serving[1]))
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_authorized_recovery_ends_a_drain_also_while_the_node_apis_fail() {
    let (world, store, mut process) = given_three_serving().await;
    let victim = process.serving("analytics")[0].clone();
    // A query that never ends.
    world.lock().owed = 1;
    world.drift_first_node_of(&victim);
    process.draining("analytics", &victim).await;
    pass(minutes(2)).await;
    let row = store.instance(&victim).await.unwrap().unwrap();
    assert_eq!(row.phase, Phase::Draining, "no timer ends a drain");

    world.trouble("node", "", Trouble::Fails);
    world.trouble("claims", "", Trouble::Fails);
    kill_coordinator(&world, &victim);
    order_recovery(&store, row, "its node burned", process.ports.clock.now()).await;
    process
        .until("it is gone", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
        })
        .await;
    let row = store.instance(&victim).await.unwrap().unwrap();
    assert_eq!(row.phase, Phase::FailureRetired);
}

#[tokio::test(start_paused = true)]
async fn s1_what_is_left_of_a_terminal_row_is_recorded_and_deleted_and_a_stranger_only_reported() {
    let (world, _, mut process) = given_three_serving().await;
    let victim = process.serving("analytics")[0].clone();
    let left_behind = {
        let inner = world.lock();
        let name = format!("{victim}-worker-config");
        inner
            .objects
            .iter()
            .find(|object| object.name.as_str() == name)
            .cloned()
            .unwrap()
    };
    world.drift_first_node_of(&victim);
    process
        .until("the victim is gone", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
        })
        .await;
    // It comes back under another UID, as after a restore; and so does something nobody ever made.
    let mut restored = left_behind.clone();
    restored.uid = ObjectUid::new("uid-restored");
    let mut stranger = left_behind.clone();
    stranger.uid = ObjectUid::new("uid-stranger");
    stranger.name = ObjectName::new("cell-deadbeef-worker-config");
    stranger
        .labels
        .insert("trinopool.dev/instance".into(), "cell-deadbeef".into());
    {
        let mut inner = world.lock();
        inner.objects.extend([restored.clone(), stranger.clone()]);
        // The store and the gateway disagree: the member serves.
        inner.members.get_mut(&victim).unwrap().phase = MemberPhase::Active;
    }
    pass(minutes(11)).await;
    let stands = |uid: &ObjectUid| world.lock().objects.iter().any(|object| object.uid == *uid);
    assert!(stands(&restored.uid), "not while the gateway holds its member");
    world.lock().members.get_mut(&victim).unwrap().phase = MemberPhase::Retired;
    world.trouble("gateway", victim.as_str(), Trouble::Fails);
    pass(minutes(11)).await;
    assert!(stands(&restored.uid), "not while its member is unknown");
    world.calm();
    pass(minutes(11)).await;
    let uids: Vec<_> = world
        .lock()
        .objects
        .iter()
        .map(|object| object.uid.clone())
        .collect();
    assert!(!uids.contains(&restored.uid));
    assert!(uids.contains(&stranger.uid));
    let faults = process.pool("analytics").faults;
    assert!(
        faults
            .iter()
            .any(|fault| format!("{fault:?}").contains("cell-deadbeef")),
        "{faults:#?}"
    );
}
