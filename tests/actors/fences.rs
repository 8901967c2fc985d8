//! Requests whose answers were lost, the epoch that fences them, and whose fence it is (S8, S9).

use std::sync::Arc;

use trino_pool_operator::gateway::model::{MemberPhase, RefusalCode};
use trino_pool_operator::gateway::port::{Gateway, Outcome};
use trino_pool_operator::pool::ids::{Epoch, InstanceId};
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::memory::MemoryStore;
use trino_pool_operator::store::port::Store;

use crate::given::{given_a_pool_and_machines, given_three_serving, lose_suspicion};
use crate::world::journal::{leader, lost_request, open_steps, pool_id, stored_epoch};
use crate::world::readonly::ReadOnlyStore;
use crate::world::{self, Trouble, World};
use crate::{Process, eventually, minutes, pass, seconds};

/// Three members serve, and the request that tells the gateway that the first one is SUSPECT is lost on its way.
async fn given_a_lost_suspicion() -> (World, Arc<MemoryStore>, Process, InstanceId) {
    let (world, store, process) = given_three_serving().await;
    let doubtful = process.serving("analytics")[0].clone();
    lose_suspicion(&world, &store, &doubtful).await;
    (world, store, process, doubtful)
}

/// The same, before a store that can be made to misbehave.
async fn given_a_lost_suspicion_and_a_faulty_store()
-> (World, Arc<MemoryStore>, Arc<ReadOnlyStore>, Process, InstanceId) {
    let (world, store) = given_a_pool_and_machines();
    let (faulty, ports) = ReadOnlyStore::ports(&world, &store);
    let mut process = Process::on(ports, world::settings("a")).await;
    process.converged("analytics", 3).await;
    let doubtful = process.serving("analytics")[0].clone();
    lose_suspicion(&world, &store, &doubtful).await;
    (world, store, faulty, process, doubtful)
}

#[tokio::test(start_paused = true)]
async fn s9_a_suspicion_that_is_no_longer_wanted_stays_open_until_its_fence_is_accepted() {
    let (world, store, process, doubtful) = given_a_lost_suspicion().await;
    let late = open_steps(&store).await.remove(0).request;
    let old = leader(&store).await;
    // It is well again, and the gateway cannot be told a higher epoch: the lost request may still arrive.
    world.calm();
    world.trouble("gateway", "configure", Trouble::Fails);
    pass(minutes(5)).await;
    assert_eq!(
        open_steps(&store).await.len(),
        1,
        "a reading alone closes nothing"
    );
    assert!(stored_epoch(&store).await > old.epoch, "the epoch was raised");
    assert_eq!(
        stored_epoch(&store).await,
        old.epoch.next(),
        "once, however long the gateway is silent"
    );

    world.calm();
    pass(seconds(15)).await;
    assert_eq!(open_steps(&store).await, [], "closed behind the fence");
    let outcome = world.send(&old, &late).await;
    let Outcome::Refused(refusal) = outcome else {
        panic!("the late request landed: {outcome:?}");
    };
    assert_eq!(refusal.code, RefusalCode::StaleEpoch);
    assert_eq!(process.serving("analytics").len(), 3);
    assert_eq!(
        process.pool("analytics").instances[&doubtful].phase,
        Phase::Serving
    );
    assert_eq!(process.pool("analytics").restarts, None);
}

#[tokio::test(start_paused = true)]
async fn s9_a_suspicion_that_lands_before_its_fence_is_adopted() {
    let (world, store, mut process, doubtful) = given_a_lost_suspicion().await;
    let late = open_steps(&store).await.remove(0).request;
    let old = leader(&store).await;
    world.calm();
    world.trouble("gateway", "configure", Trouble::Fails);
    pass(seconds(30)).await;
    assert!(matches!(world.send(&old, &late).await, Outcome::Applied(_)));
    world.calm();
    process
        .until("the row follows", minutes(1), |process| {
            process.pool("analytics").instances[&doubtful].phase == Phase::Suspect
        })
        .await;
    assert_eq!(open_steps(&store).await, []);
    assert_eq!(world.lock().members[&doubtful].phase, MemberPhase::Suspect);
}

#[tokio::test(start_paused = true)]
async fn s5_s7_a_member_whose_suspicion_is_in_doubt_neither_serves_nor_lets_another_drain() {
    let (world, store, faulty, mut process, doubtful) = given_a_lost_suspicion_and_a_faulty_store().await;
    // It is well again, and the epoch cannot be raised: everything else goes on under the old one.
    faulty.set_hears_acquires(false);
    world.calm();
    let mut serving = process.serving("analytics").into_iter();
    let other = serving.find(|id| *id != doubtful).unwrap();
    world.drift_first_node_of(&other);
    process
        .until("the replacement serves", minutes(5), |process| {
            process.serving("analytics").len() == 4
        })
        .await;
    pass(minutes(3)).await;
    assert_eq!(world.logged("drain"), 0, "{:#?}", process.pool("analytics").plan);
    assert_eq!(open_steps(&store).await.len(), 1);
    faulty.set_hears_acquires(true);
    process
        .until("the other one is drained", minutes(2), |process| {
            !process.pool("analytics").instances.contains_key(&other)
        })
        .await;
    process.converged("analytics", 3).await;
    assert_eq!(
        process.pool("analytics").instances[&doubtful].phase,
        Phase::Serving
    );
}

#[tokio::test(start_paused = true)]
async fn s8_a_request_that_meets_our_own_raise_is_decided_again_and_the_term_goes_on() {
    let (world, store, mut process) = given_three_serving().await;
    let serving = process.serving("analytics");
    let (doubtful, leaving) = (serving[0].clone(), serving[1].clone());
    // One drains for its node, with a query that takes its time.
    world.lock().owed = 1;
    world.drift_first_node_of(&leaving);
    process.draining("analytics", &leaving).await;
    lose_suspicion(&world, &store, &doubtful).await;
    let epoch = stored_epoch(&store).await;
    // Its seal is on its way for long; meanwhile the other one is well again, and its suspicion is fenced.
    world.trouble("send", "seal", Trouble::Late(40));
    world.lock().owed = 0;
    process
        .until("its seal is on its way", minutes(1), |process| {
            process.pool("analytics").instances[&leaving].performing == Some("seal")
        })
        .await;
    world.calm();
    process
        .until("the gateway accepted the raise", seconds(30), |_| {
            let inner = world.lock();
            inner.pool_states["analytics"].controller_epoch > epoch
        })
        .await;
    assert_eq!(
        process.pool("analytics").instances[&leaving].performing,
        Some("seal"),
        "sent before the raise, and not arrived"
    );
    process
        .until("it is gone", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&leaving)
        })
        .await;
    process.converged("analytics", 3).await;
    assert_eq!(process.pool("analytics").restarts, None, "the term never ended");
    assert_eq!(stored_epoch(&store).await, epoch.next());
    assert_eq!(
        process.pool("analytics").instances[&doubtful].phase,
        Phase::Serving
    );
}

#[tokio::test(start_paused = true)]
async fn s8_a_raise_that_landed_without_an_answer_is_recognised_and_the_term_goes_on() {
    let (world, store, faulty, process, doubtful) = given_a_lost_suspicion_and_a_faulty_store().await;
    let epoch = stored_epoch(&store).await;
    faulty.set_loses_acquires(true);
    world.calm();
    pass(minutes(5)).await;
    assert_eq!(
        stored_epoch(&store).await,
        epoch.next(),
        "attempts use no epochs up"
    );
    assert_eq!(process.pool("analytics").epoch, epoch.next(), "it is ours");
    assert_eq!(process.pool("analytics").restarts, None, "the term goes on");
    assert_eq!(open_steps(&store).await, []);
    assert_eq!(
        process.pool("analytics").instances[&doubtful].phase,
        Phase::Serving
    );
}

#[tokio::test(start_paused = true)]
async fn s8_a_commit_refused_by_our_own_raise_comes_again_under_the_new_epoch() {
    let (world, store, faulty, mut process, doubtful) = given_a_lost_suspicion_and_a_faulty_store().await;
    let epoch = stored_epoch(&store).await;
    faulty.set_loses_acquires(true);
    world.calm();
    let raised = async || (stored_epoch(&store).await != epoch).then_some(());
    let round = std::time::Duration::from_millis(100);
    eventually("the epoch was never raised", 600, round, raised).await;
    // What is recorded next is sent under the epoch that this process still believes in.
    world.drift_first_node_of(&doubtful);
    process
        .until("the drifted one is replaced", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&doubtful)
        })
        .await;
    assert_eq!(process.pool("analytics").restarts, None, "the term goes on");
    assert_eq!(stored_epoch(&store).await, epoch.next());
}

#[tokio::test(start_paused = true)]
async fn s8_authority_that_was_taken_without_an_answer_is_found_again() {
    let (world, store) = given_a_pool_and_machines();
    let (faulty, ports) = ReadOnlyStore::ports(&world, &store);
    faulty.set_loses_acquires(true);
    let mut process = Process::on(ports, world::settings("a")).await;
    process.converged("analytics", 3).await;
    assert_eq!(stored_epoch(&store).await, Epoch::new(1));
}

#[tokio::test(start_paused = true)]
async fn s8_w01b_a_configuration_that_landed_without_an_answer_is_recognised() {
    let (world, store, process, _) = given_a_lost_suspicion().await;
    let epoch = stored_epoch(&store).await;
    world.calm();
    // The gateway holds our higher epoch, and nobody told us so.
    world.lock().lose_answers_of = Some("configure".into());
    pass(minutes(5)).await;
    assert_eq!(
        world.lock().pool_states["analytics"].controller_epoch,
        epoch.next()
    );
    assert_eq!(process.pool("analytics").restarts, None, "the term goes on");
    world.lock().lose_answers_of = None;
    pass(seconds(15)).await;
    assert_eq!(open_steps(&store).await, []);
    assert_eq!(stored_epoch(&store).await, epoch.next());
}

#[tokio::test(start_paused = true)]
async fn s8_a_superseded_leader_never_raises_itself_above_its_successor() {
    let (world, store, mut process, _) = given_a_lost_suspicion().await;
    let successor = store
        .acquire(&pool_id(), &"successor".into(), Epoch::default())
        .await
        .unwrap();
    world.calm();
    process
        .until("its term ended", minutes(1), |process| {
            process
                .pool("analytics")
                .restarts
                .is_some_and(|(_, why)| why == "authority is elsewhere")
        })
        .await;
    let row = store.load(&pool_id()).await.unwrap().pool;
    assert_eq!((row.epoch, row.owner), (successor.epoch, successor.owner));
}

/// Three serve, one of them on a drifted node, and its replacement as well: only its drain is left to be sent, and
/// that is lost on its way.
async fn given_a_drain_that_gets_lost() -> (World, Arc<MemoryStore>, Process, InstanceId) {
    let (world, store, mut process) = given_three_serving().await;
    world.trouble("send", "drain", Trouble::Fails);
    let victim = process.serving("analytics")[0].clone();
    world.drift_first_node_of(&victim);
    process
        .until("the replacement serves", minutes(5), |process| {
            process.serving("analytics").len() == 4
        })
        .await;
    (world, store, process, victim)
}

#[tokio::test(start_paused = true)]
async fn s9_a_refused_repetition_whose_first_copy_lands_before_the_fence_is_followed() {
    let (world, store, mut process, victim) = given_a_drain_that_gets_lost().await;
    let late = lost_request(&store, "drain").await;
    let old = leader(&store).await;
    // What is sent again is refused, and the gateway cannot be told a higher epoch.
    world.lock().refuse = Some((format!("drain {victim}"), RefusalCode::ServingFloor));
    world.calm();
    world.trouble("gateway", "configure", Trouble::Fails);
    pass(minutes(2)).await;
    assert_eq!(
        open_steps(&store).await.len(),
        1,
        "a refusal alone closes nothing"
    );
    world.lock().refuse = None;
    assert!(matches!(world.send(&old, &late).await, Outcome::Applied(_)));
    world.calm();
    process
        .until("the victim is gone", minutes(5), |process| {
            !process.pool("analytics").instances.contains_key(&victim)
        })
        .await;
    let row = store.instance(&victim).await.unwrap().unwrap();
    assert_eq!(row.phase, Phase::Retired);
    assert_eq!(world.logged("drain"), 1);
}

#[tokio::test(start_paused = true)]
async fn s9_the_refusal_of_a_first_copy_closes_its_step_and_raises_nothing() {
    let (world, store, _process, victim) = given_a_drain_that_gets_lost().await;
    world.lock().refuse = Some((format!("drain {victim}"), RefusalCode::ServingFloor));
    world.calm();
    // Whatever was lost until now is settled.
    pass(minutes(2)).await;
    let (epoch, sendings) = (stored_epoch(&store).await, world.calls("send"));
    // Refused again and again, each time as a first copy, and not always at once.
    world.trouble("send", "drain", Trouble::Late(8));
    pass(minutes(10)).await;
    assert!(world.calls("send") > sendings + 1, "{sendings} before");
    assert_eq!(stored_epoch(&store).await, epoch);
}
