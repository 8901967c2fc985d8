//! What may or may not have happened at the gateway, and what must go on beside it: requests that were lost, late or
//! refused, members that do not answer or are not known there, drains that never end.

use std::sync::Arc;

use serde_json::json;
use trino_pool_operator::gateway::model::{MemberPhase, RefusalCode};
use trino_pool_operator::gateway::port::{Gateway, Outcome};
use trino_pool_operator::pool::ids::InstanceId;
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::pool::step::WaitReason;
use trino_pool_operator::store::port::Store;

use crate::world::journal::{leader, lost_request, open_steps, order_recovery};
use crate::world::{self, Trouble, World};
use crate::{Process, eventually, minutes, pass, seconds};

fn active(world: &World) -> usize {
    let inner = world.lock();
    inner
        .members
        .values()
        .filter(|member| member.phase == MemberPhase::Active)
        .count()
}

fn in_phase(world: &World, id: &InstanceId) -> Option<MemberPhase> {
    world.lock().members.get(id).map(|member| member.phase)
}

fn newcomer(process: &Process, known: &[InstanceId]) -> Option<InstanceId> {
    let pool = process.pool("analytics");
    pool.instances.keys().find(|id| !known.contains(id)).cloned()
}

/// The recovery's first request is lost, and then what was owed ends by itself.
#[tokio::test(start_paused = true)]
async fn l1_a_drain_whose_recovery_request_was_lost_ends_when_its_obligations_end() {
    let world = World::default();
    let store = world::store();
    let mut process = Process::with_three_serving(&world, &store).await;
    let victim = process.serving("analytics")[0].clone();
    world.lock().owed = 1;
    world.drift_first_node_of(&victim);
    process
        .until("it drains", minutes(3), |process| {
            process.pool("analytics").instances[&victim].phase == Phase::Draining
        })
        .await;
    let row = store.instance(&victim).await.unwrap().unwrap();
    world.trouble("send", "suspect", Trouble::Fails);
    order_recovery(&store, row, "leaked", process.ports.clock.now()).await;
    lost_request(&store, "suspect").await;
    // The query ends by itself; everything answers again; the lost request never arrives.
    world.lock().owed = 0;
    world.calm();
    pass(minutes(90)).await;
    let row = store.instance(&victim).await.unwrap().unwrap();
    let said = process
        .pool("analytics")
        .instances
        .get(&victim)
        .map(|i| format!("{:?}", i.waiting));
    assert_eq!(
        row.phase,
        Phase::Retired,
        "90 minutes later; open: {:?}; it says {said:?}",
        open_steps(&store)
            .await
            .iter()
            .map(|s| s.request.step.clone())
            .collect::<Vec<_>>()
    );
}

/// A validated candidate whose coordinator hangs: the gateway's probe (503) refuses nothing.
#[tokio::test(start_paused = true)]
async fn l6_a_candidate_that_hangs_after_its_validation_is_given_up_in_time() {
    let world = World::default();
    let store = world::store();
    let process = Process::with_three_serving(&world, &store).await;
    let known = process.serving("analytics");
    let victim = known[0].clone();
    world.trouble("send", "admit", Trouble::Fails);
    world.drift_first_node_of(&victim);
    lost_request(&store, "admit").await;
    let candidate = newcomer(&process, &known).unwrap();
    // Only this one hangs: neither we nor the gateway get an answer from it. Any other would be admitted.
    world.calm();
    world.trouble("send", &format!("admit {candidate}"), Trouble::Fails);
    world.trouble("coordinator", candidate.as_str(), Trouble::Fails);
    pass(minutes(120)).await;
    let plan = process.pool("analytics").plan;
    let row = store.instance(&candidate).await.unwrap().unwrap();
    assert_ne!(row.phase, Phase::Validating, "two hours later; {plan:?}");
    assert!(
        !process.pool("analytics").instances.contains_key(&victim),
        "{plan:?}"
    );
}

/// The same before the registration: the coordinator answers us, and the gateway cannot reach it.
#[tokio::test(start_paused = true)]
async fn l6_a_candidate_that_the_gateway_cannot_reach_is_given_up_in_time() {
    let world = World::default();
    let store = world::store();
    let process = Process::with_three_serving(&world, &store).await;
    let known = process.serving("analytics");
    let victim = known[0].clone();
    world.trouble("send", "register", Trouble::Fails);
    world.drift_first_node_of(&victim);
    lost_request(&store, "register").await;
    let candidate = newcomer(&process, &known).unwrap();
    world.calm();
    world.trouble("send", &format!("register {candidate}"), Trouble::Fails);
    pass(minutes(120)).await;
    let plan = process.pool("analytics").plan;
    let row = store.instance(&candidate).await.unwrap().unwrap();
    assert_ne!(row.phase, Phase::Creating, "two hours later; {plan:?}");
    assert!(
        !process.pool("analytics").instances.contains_key(&victim),
        "{plan:?}"
    );
}

/// A drain that was lost is sent again although the replacement has become doubtful meanwhile.
#[tokio::test(start_paused = true)]
async fn s5_a_lost_drain_is_not_sent_again_while_its_replacement_is_doubtful() {
    let world = World::default();
    let store = world::store();
    let process = Process::with_three_serving(&world, &store).await;
    let known = process.serving("analytics");
    let victim = known[0].clone();
    world.trouble("send", "drain", Trouble::Fails);
    world.drift_first_node_of(&victim);
    lost_request(&store, "drain").await;
    let replacement = newcomer(&process, &known).unwrap();
    assert_eq!(in_phase(&world, &victim), Some(MemberPhase::Active));
    // The replacement goes dark: 45 s of bad readings, more than a quarter of suspectAfter.
    world.trouble("coordinator", replacement.as_str(), Trouble::Fails);
    pass(seconds(45)).await;
    assert_eq!(
        in_phase(&world, &replacement),
        Some(MemberPhase::Active),
        "not told yet"
    );
    world.calm();
    world.trouble("coordinator", replacement.as_str(), Trouble::Fails);
    pass(seconds(15)).await;
    assert_eq!(
        in_phase(&world, &victim),
        Some(MemberPhase::Active),
        "drained while only two of three answer"
    );
}

/// A replacement that fails for long does not count: another one is made first.
#[tokio::test(start_paused = true)]
async fn s5_another_replacement_is_made_while_the_first_one_is_doubtful() {
    let (world, process, first, second, r2) = held_second_drain().await;
    world.trouble("coordinator", r2.as_str(), Trouble::Fails);
    pass(seconds(45)).await;
    world.lock().owed = 0;
    pass(seconds(20)).await;
    assert!(!process.pool("analytics").instances.contains_key(&first));
    // Another one was made first, since the dark one does not count.
    let log = world.lock().log.clone();
    let drained = log.iter().position(|line| *line == format!("drain {second}"));
    let admitted = log.iter().filter(|line| line.starts_with("admit ")).count();
    let last = log.iter().rposition(|line| line.starts_with("admit "));
    assert_eq!(admitted, 6, "{log:#?}");
    assert!(drained.is_none_or(|drained| last < Some(drained)), "{log:#?}");
}

/// Two drift, surge 2: the first drains with a query, the second one's replacement serves, its drain waits.
async fn held_second_drain() -> (World, Process, InstanceId, InstanceId, InstanceId) {
    let world = World::default();
    let store = world::store();
    world.add_pool("analytics", |spec| spec["maxSurge"] = json!(2));
    world.add_nodes("old", 18);
    let mut process = Process::start(&world, &store, world::settings("a")).await;
    process.converged("analytics", 3).await;
    let mut known = process.serving("analytics");
    let (first, second) = (known[0].clone(), known[1].clone());
    world.lock().owed = 1;
    world.drift_first_node_of(&first);
    process
        .until("the first drains", minutes(3), |process| {
            process.pool("analytics").instances[&first].phase == Phase::Draining
        })
        .await;
    known.push(newcomer(&process, &known).unwrap());
    world.drift_first_node_of(&second);
    process
        .until("the second one's replacement serves", minutes(3), |process| {
            process.serving("analytics").len() == 4
        })
        .await;
    pass(seconds(20)).await;
    let r2 = newcomer(&process, &known).unwrap();
    assert_eq!(in_phase(&world, &second), Some(MemberPhase::Active));
    (world, process, first, second, r2)
}

/// The planner drains although the very last reading of the replacement is bad.
#[tokio::test(start_paused = true)]
async fn s5_nothing_is_drained_while_the_last_reading_of_its_replacement_is_bad() {
    let (world, process, first, second, r2) = held_second_drain().await;
    // Dark for 16 s: three rounds saw it, less than a quarter of suspectAfter.
    world.trouble("coordinator", r2.as_str(), Trouble::Fails);
    pass(seconds(16)).await;
    world.lock().owed = 0;
    pass(seconds(8)).await;
    assert!(!process.pool("analytics").instances.contains_key(&first));
    let admitted = world
        .lock()
        .log
        .iter()
        .filter(|line| line.starts_with("admit "))
        .count();
    assert!(
        in_phase(&world, &second) == Some(MemberPhase::Active) || admitted > 5,
        "drained while its replacement does not answer; {admitted} were ever admitted, {} are ACTIVE",
        active(&world)
    );
}

#[tokio::test(start_paused = true)]
async fn s5_a_successor_does_not_drain_for_a_replacement_it_never_heard_of() {
    let (world, process, _, second, r2) = held_second_drain().await;
    // It dies together with the leader, and the drain before it ends: all the new leader has is the row.
    world.trouble("coordinator", r2.as_str(), Trouble::Fails);
    let ports = process.ports.clone();
    process.handle.crash().await;
    world.lock().owed = 0;
    let process = Process::on(ports, world::settings("b")).await;
    for _ in 0..20 {
        pass(seconds(1)).await;
        assert_eq!(
            in_phase(&world, &second),
            Some(MemberPhase::Active),
            "{:?}",
            process.pool("analytics").plan
        );
    }
}

/// The gateway says that it knows nothing of a member (a restored gateway database).
#[tokio::test(start_paused = true)]
async fn s5_l7_a_member_that_the_gateway_does_not_know_does_not_serve() {
    let world = World::default();
    let store = world::store();
    let process = Process::with_three_serving(&world, &store).await;
    let known = process.serving("analytics");
    let (victim, forgotten) = (known[0].clone(), known[2].clone());
    world.lock().members.remove(&forgotten);
    pass(minutes(30)).await;
    let said = process.pool("analytics").instances[&forgotten]
        .waiting
        .clone()
        .unwrap();
    assert!(
        said.detail.contains("the gateway does not know the member"),
        "{said:?}"
    );
    assert_eq!(said.reason, WaitReason::NotAtTheGateway);
    assert_eq!(active(&world), 3, "another one was made in its place");
    let pool = process.pool("analytics");
    assert_eq!(pool.plan.label, "NotAtTheGateway", "{:?}", pool.plan);
    assert_eq!(pool.serving, 3, "four rows, one of which serves nobody");
    world.drift_first_node_of(&victim);
    for _ in 0..600 {
        pass(seconds(1)).await;
        assert!(active(&world) >= 3, "{:?}", process.pool("analytics").plan);
    }
    // It keeps its slot until a person looks: nothing proves that no client waits for it.
    let plan = process.pool("analytics").plan;
    assert_eq!(plan.label, "SurgeExhausted");
    assert!(plan.detail.contains(forgotten.as_str()), "{plan:?}");
}

/// One member that the gateway cannot be read of, with a departure in doubt, holds all drains for ever.
#[tokio::test(start_paused = true)]
async fn l6_a_departure_in_doubt_does_not_hold_every_other_drain_for_ever() {
    let world = World::default();
    let store = world::store();
    world.add_pool("analytics", |spec| spec["maxSurge"] = json!(2));
    world.add_nodes("old", 18);
    let process = {
        let mut process = Process::start(&world, &store, world::settings("a")).await;
        process.converged("analytics", 3).await;
        process
    };
    let doubtful = process.serving("analytics")[0].clone();
    let other = process.serving("analytics")[1].clone();
    world.trouble("send", "suspect", Trouble::Fails);
    world.trouble("coordinator", doubtful.as_str(), Trouble::Fails);
    lost_request(&store, "suspect").await;
    world.calm();
    // The gateway answers for everything but this one.
    world.trouble("gateway", doubtful.as_str(), Trouble::Fails);
    world.drift_first_node_of(&other);
    pass(minutes(120)).await;
    let pool = process.pool("analytics");
    assert!(
        !pool.instances.contains_key(&other),
        "two hours later, {} ACTIVE: {:?}",
        active(&world),
        pool.plan
    );
}

/// A refused repetition, registration: the repetition is refused by a budget until the deadline; then the first copy lands.
#[tokio::test(start_paused = true)]
async fn s9_a_refused_repetition_does_not_leave_a_member_that_nobody_retires() {
    let world = World::default();
    let store = world::store();
    let process = Process::with_three_serving(&world, &store).await;
    let known = process.serving("analytics");
    world.trouble("send", "register", Trouble::Fails);
    world.drift_first_node_of(&known[0]);
    let late = lost_request(&store, "register").await;
    let sender = leader(&store).await;
    let candidate = newcomer(&process, &known).unwrap();
    world.lock().refuse = Some((format!("register {candidate}"), RefusalCode::SurgeBudget));
    world.calm();
    for _ in 0..3600 {
        pass(seconds(1)).await;
        let row = store.instance(&candidate).await.unwrap().unwrap();
        if row.phase == Phase::FailureRetired {
            break;
        }
    }
    world.lock().refuse = None;
    // The first copy arrives now. Nothing fences it: the epoch was never raised.
    let landed = world.send(&sender, &late).await;
    pass(minutes(120)).await;
    assert!(
        matches!(landed, Outcome::Refused(_)),
        "it landed, and two hours later the gateway holds {:?} of a row in {:?}",
        in_phase(&world, &candidate),
        store.instance(&candidate).await.unwrap().unwrap().phase,
    );
}

/// A refused repetition, drain: closed at once by a refusal; another one is drained; then the first copy lands.
#[tokio::test(start_paused = true)]
async fn s5_s7_a_refused_repetition_of_a_drain_does_not_let_two_drains_run() {
    let world = World::default();
    let store = world::store();
    let process = Process::with_three_serving(&world, &store).await;
    let known = process.serving("analytics");
    let (first, urgent) = (known[0].clone(), known[1].clone());
    world.trouble("send", "drain", Trouble::Fails);
    world.lock().owed = 1;
    world.drift_first_node_of(&first);
    let late = lost_request(&store, "drain").await;
    let sender = leader(&store).await;
    world.lock().refuse = Some((format!("drain {first}"), RefusalCode::ServingFloor));
    world.calm();
    // A node of another one is deleted: more urgent.
    let node = world.nodes_of(&urgent)[0].clone();
    for claim in world.lock().claims.values_mut() {
        if claim.node.as_ref() == Some(&node) {
            claim.deleted_at = Some("2031-01-01T00:00:00Z".parse().unwrap());
        }
    }
    for _ in 0..120 {
        pass(seconds(1)).await;
        if in_phase(&world, &urgent) == Some(MemberPhase::Draining) {
            break;
        }
    }
    world.lock().refuse = None;
    let _ = world.send(&sender, &late).await;
    let phases = (in_phase(&world, &first), in_phase(&world, &urgent));
    assert_ne!(
        phases,
        (Some(MemberPhase::Draining), Some(MemberPhase::Draining)),
        "two drains for nodes at once; {} ACTIVE of 3 desired",
        active(&world)
    );
}

/// Drains that never end keep the cluster-wide budget of pools that have nothing to do with them.
#[tokio::test(start_paused = true)]
async fn l6_a_drain_that_never_ends_does_not_stop_other_pools() {
    let world = World::default();
    let store = world::store();
    world.add_pool("adhoc", |_| {});
    world.add_pool("analytics", |_| {});
    world.add_nodes("old", 36);
    let settings = trino_pool_operator::actors::Settings {
        replacement_budget: Some(1),
        ..world::settings("a")
    };
    let mut process = Process::start(&world, &store, settings).await;
    process.converged("adhoc", 3).await;
    process.converged("analytics", 3).await;
    let (stuck, other) = (
        process.serving("adhoc")[0].clone(),
        process.serving("analytics")[0].clone(),
    );
    world.lock().owed = 1;
    world.drift_first_node_of(&stuck);
    process
        .until("it drains", minutes(3), |process| {
            process.pool("adhoc").instances[&stuck].phase == Phase::Draining
        })
        .await;
    world.drift_first_node_of(&other);
    pass(minutes(120)).await;
    let pool = process.pool("analytics");
    assert_ne!(
        pool.plan.label, "ClusterBudgetSpent",
        "two hours later {:?}",
        pool.plan
    );
    assert!(pool.instances[&other].phase != Phase::Serving, "{:?}", pool.plan);
}

/// A clock whose wall can be set, as NTP or a person does; its monotonic reading goes on.
struct Stepped {
    inner: crate::world::PausedClock,
    back: std::sync::atomic::AtomicI64,
}

#[async_trait::async_trait]
impl trino_pool_operator::clock::Clock for Stepped {
    fn now(&self) -> jiff::Timestamp {
        let back = self.back.load(std::sync::atomic::Ordering::Relaxed);
        self.inner.now() - jiff::SignedDuration::from_secs(back)
    }

    fn monotonic(&self) -> std::time::Duration {
        self.inner.monotonic()
    }

    async fn sleep(&self, duration: std::time::Duration) {
        self.inner.sleep(duration).await;
    }
}

const BACK: i64 = 60;

/// The fence compares two readings of the wall clock.
#[tokio::test(start_paused = true)]
async fn s9_a_wall_clock_that_steps_back_does_not_let_an_old_look_pass_for_one_behind_the_fence() {
    let world = World::default();
    let store = world::store();
    let clock = Arc::new(Stepped {
        inner: crate::world::PausedClock::new(),
        back: std::sync::atomic::AtomicI64::new(0),
    });
    let ports = trino_pool_operator::actors::Ports {
        clock: clock.clone(),
        ..world::ports(&world, &store)
    };
    world.add_pool("analytics", |_| {});
    world.add_nodes("old", 12);
    let mut process = Process::on(ports, world::settings("a")).await;
    process.converged("analytics", 3).await;
    let doubtful = process.serving("analytics")[0].clone();
    world.trouble("send", "suspect", Trouble::Fails);
    world.trouble("coordinator", doubtful.as_str(), Trouble::Fails);
    let late = lost_request(&store, "suspect").await;
    let old = leader(&store).await;
    world.calm();
    world.trouble("gateway", "configure", Trouble::Fails);
    pass(seconds(20)).await;
    world.calm();
    world.trouble("gateway", "configure", Trouble::Late(2));
    world.trouble("workload", doubtful.as_str(), Trouble::Late(3));
    let before = world.calls("workload");
    let looked = async || (world.calls("workload") > before).then_some(());
    let round = std::time::Duration::from_millis(50);
    eventually("nobody looked at a workload", 600, round, looked).await;
    // The look has read the member; the gateway has not accepted the epoch yet.
    pass(seconds(1)).await;
    let landed = world.send(&old, &late).await;
    assert!(matches!(landed, Outcome::Applied(_)), "{landed:?}");
    clock.back.store(BACK, std::sync::atomic::Ordering::Relaxed);
    let mut closed_as_gone = false;
    for _ in 0..60 {
        pass(std::time::Duration::from_millis(50)).await;
        let row = store.instance(&doubtful).await.unwrap().unwrap();
        closed_as_gone |= open_steps(&store).await.is_empty() && row.phase == Phase::Serving;
    }
    assert!(
        !closed_as_gone,
        "closed as never applied; the gateway holds {:?}",
        in_phase(&world, &doubtful)
    );
}

/// The journal keeps when a step was sent last; a departure is as old as its first sending.
#[tokio::test(start_paused = true)]
async fn l6_a_departure_that_is_asked_for_again_and_again_does_not_become_younger() {
    let (world, store) = (World::default(), world::store());
    world.add_pool("analytics", |spec| spec["maxSurge"] = json!(2));
    world.add_nodes("old", 24);
    let mut process = Process::start(&world, &store, world::settings("a")).await;
    process.converged("analytics", 3).await;
    let serving = process.serving("analytics");
    world.trouble("send", "drain", Trouble::Fails);
    world.drift_first_node_of(&serving[0]);
    lost_request(&store, "drain").await;
    world.drift_first_node_of(&serving[1]);
    let before = world.calls("send");
    pass(seconds(20 * 60 + 30)).await;
    assert!(world.calls("send") > before + 100, "it is sent in every round");
    let plan = process.pool("analytics").plan;
    assert_eq!(plan.label, "DrainHeldBy", "{plan:?}");
    let age = "SERVING and asked to go 20m ago without an answer";
    assert!(plan.detail.contains(age), "{}", plan.detail);
}
