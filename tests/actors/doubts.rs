//! What may or may not have happened at the gateway, and what must go on beside it: requests that were lost, late or
//! refused, members that do not answer or are not known there, drains that never end.

use std::sync::Arc;
use std::time::Duration;

use trino_pool_operator::actors::Ports;
use trino_pool_operator::gateway::model::{MemberPhase, RefusalCode};
use trino_pool_operator::gateway::port::{Gateway, Outcome};
use trino_pool_operator::pool::ids::InstanceId;
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::pool::step::WaitReason;
use trino_pool_operator::store::port::Store;

use crate::given::{
    given_a_pool_and_machines, given_a_replacement_without_an_answer_to, given_pools_under_a_budget_of_one,
    given_three_serving, given_three_serving_with_surge_two, lose_suspicion,
};
use crate::world::journal::{leader, lost_request, open_steps, order_recovery};
use crate::world::{self, SteppedClock, Trouble, World};
use crate::{Process, eventually, minutes, pass, seconds};

/// The recovery's first request is lost, and then what was owed ends by itself.
#[tokio::test(start_paused = true)]
async fn l1_a_drain_whose_recovery_request_was_lost_ends_when_its_obligations_end() {
    let (world, store, mut process) = given_three_serving().await;
    let victim = process.serving("analytics")[0].clone();
    world.lock().owed = 1;
    world.drift_first_node_of(&victim);
    process.draining("analytics", &victim).await;
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
    let (world, store, process, stuck) = given_a_replacement_without_an_answer_to("admit").await;
    let (victim, candidate) = (stuck.victim, stuck.newcomer);
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
    let (world, store, process, stuck) = given_a_replacement_without_an_answer_to("register").await;
    let (victim, candidate) = (stuck.victim, stuck.newcomer);
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
    let (world, _, _process, stuck) = given_a_replacement_without_an_answer_to("drain").await;
    let (victim, replacement) = (stuck.victim, stuck.newcomer);
    assert_eq!(world.member_phase(&victim), Some(MemberPhase::Active));
    // The replacement goes dark: 45 s of bad readings, more than a quarter of suspectAfter.
    world.trouble("coordinator", replacement.as_str(), Trouble::Fails);
    pass(seconds(45)).await;
    assert_eq!(
        world.member_phase(&replacement),
        Some(MemberPhase::Active),
        "not told yet"
    );
    world.calm();
    world.trouble("coordinator", replacement.as_str(), Trouble::Fails);
    pass(seconds(15)).await;
    assert_eq!(
        world.member_phase(&victim),
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
    let (world, _, mut process) = given_three_serving_with_surge_two(18).await;
    let mut known = process.serving("analytics");
    let (first, second) = (known[0].clone(), known[1].clone());
    world.lock().owed = 1;
    world.drift_first_node_of(&first);
    process.draining("analytics", &first).await;
    known.push(process.newcomer("analytics", &known).unwrap());
    world.drift_first_node_of(&second);
    process
        .until("the second one's replacement serves", minutes(3), |process| {
            process.serving("analytics").len() == 4
        })
        .await;
    pass(seconds(20)).await;
    let r2 = process.newcomer("analytics", &known).unwrap();
    assert_eq!(world.member_phase(&second), Some(MemberPhase::Active));
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
    let admitted = world.logged("admit");
    assert!(
        world.member_phase(&second) == Some(MemberPhase::Active) || admitted > 5,
        "drained while its replacement does not answer; {admitted} were ever admitted, {} are ACTIVE",
        world.active()
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
            world.member_phase(&second),
            Some(MemberPhase::Active),
            "{:?}",
            process.pool("analytics").plan
        );
    }
}

/// The gateway says that it knows nothing of a member (a restored gateway database).
#[tokio::test(start_paused = true)]
async fn s5_l7_a_member_that_the_gateway_does_not_know_does_not_serve() {
    let (world, _, process) = given_three_serving().await;
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
    assert_eq!(world.active(), 3, "another one was made in its place");
    let pool = process.pool("analytics");
    assert_eq!(pool.plan.label, "NotAtTheGateway", "{:?}", pool.plan);
    assert_eq!(pool.serving, 3, "four rows, one of which serves nobody");
    world.drift_first_node_of(&victim);
    for _ in 0..600 {
        pass(seconds(1)).await;
        assert!(world.active() >= 3, "{:?}", process.pool("analytics").plan);
    }
    // It keeps its slot until a person looks: nothing proves that no client waits for it.
    let plan = process.pool("analytics").plan;
    assert_eq!(plan.label, "SurgeExhausted");
    assert!(plan.detail.contains(forgotten.as_str()), "{plan:?}");
}

/// One member that the gateway cannot be read of, with a departure in doubt, holds all drains for ever.
#[tokio::test(start_paused = true)]
async fn l6_a_departure_in_doubt_does_not_hold_every_other_drain_for_ever() {
    let (world, store, process) = given_three_serving_with_surge_two(18).await;
    let doubtful = process.serving("analytics")[0].clone();
    let other = process.serving("analytics")[1].clone();
    lose_suspicion(&world, &store, &doubtful).await;
    world.calm();
    // The gateway answers for everything but this one.
    world.trouble("gateway", doubtful.as_str(), Trouble::Fails);
    world.drift_first_node_of(&other);
    pass(minutes(120)).await;
    let pool = process.pool("analytics");
    assert!(
        !pool.instances.contains_key(&other),
        "two hours later, {} ACTIVE: {:?}",
        world.active(),
        pool.plan
    );
}

/// A refused repetition, registration: the repetition is refused by a budget until the deadline; then the first copy lands.
#[tokio::test(start_paused = true)]
async fn s9_a_refused_repetition_does_not_leave_a_member_that_nobody_retires() {
    let (world, store, _process, stuck) = given_a_replacement_without_an_answer_to("register").await;
    let candidate = stuck.newcomer;
    let sender = leader(&store).await;
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
    let landed = world.send(&sender, &stuck.late).await;
    pass(minutes(120)).await;
    assert!(
        matches!(landed, Outcome::Refused(_)),
        "it landed, and two hours later the gateway holds {:?} of a row in {:?}",
        world.member_phase(&candidate),
        store.instance(&candidate).await.unwrap().unwrap().phase,
    );
}

/// A refused repetition, drain: closed at once by a refusal; another one is drained; then the first copy lands.
#[tokio::test(start_paused = true)]
async fn s5_s7_a_refused_repetition_of_a_drain_does_not_let_two_drains_run() {
    let (world, store, process) = given_three_serving().await;
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
        if world.member_phase(&urgent) == Some(MemberPhase::Draining) {
            break;
        }
    }
    world.lock().refuse = None;
    let _ = world.send(&sender, &late).await;
    let phases = (world.member_phase(&first), world.member_phase(&urgent));
    assert_ne!(
        phases,
        (Some(MemberPhase::Draining), Some(MemberPhase::Draining)),
        "two drains for nodes at once; {} ACTIVE of 3 desired",
        world.active()
    );
}

/// Drains that never end keep the cluster-wide budget of pools that have nothing to do with them.
#[tokio::test(start_paused = true)]
async fn l6_a_drain_that_never_ends_does_not_stop_other_pools() {
    let (world, mut process) = given_pools_under_a_budget_of_one(&["adhoc", "analytics"], 36).await;
    let (stuck, other) = (
        process.serving("adhoc")[0].clone(),
        process.serving("analytics")[0].clone(),
    );
    world.lock().owed = 1;
    world.drift_first_node_of(&stuck);
    process.draining("adhoc", &stuck).await;
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

/// The fence compares two readings of the wall clock.
#[tokio::test(start_paused = true)]
async fn s9_a_wall_clock_that_steps_back_does_not_let_an_old_look_pass_for_one_behind_the_fence() {
    let (world, store) = given_a_pool_and_machines();
    let clock = Arc::new(SteppedClock::new());
    let ports = Ports {
        clock: clock.clone(),
        ..world::ports(&world, &store)
    };
    let mut process = Process::on(ports, world::settings("a")).await;
    process.converged("analytics", 3).await;
    let doubtful = process.serving("analytics")[0].clone();
    lose_suspicion(&world, &store, &doubtful).await;
    let late = open_steps(&store).await.remove(0).request;
    let old = leader(&store).await;
    world.calm();
    world.trouble("gateway", "configure", Trouble::Fails);
    pass(seconds(20)).await;
    world.calm();
    world.trouble("gateway", "configure", Trouble::Late(2));
    world.trouble("workload", doubtful.as_str(), Trouble::Late(3));
    let before = world.calls("workload");
    let looked = async || (world.calls("workload") > before).then_some(());
    eventually(
        "nobody looked at a workload",
        600,
        Duration::from_millis(50),
        looked,
    )
    .await;
    // The look has read the member; the gateway has not accepted the epoch yet.
    pass(seconds(1)).await;
    let landed = world.send(&old, &late).await;
    assert!(matches!(landed, Outcome::Applied(_)), "{landed:?}");
    clock.step_back(60);
    let mut closed_as_gone = false;
    for _ in 0..60 {
        pass(Duration::from_millis(50)).await;
        let row = store.instance(&doubtful).await.unwrap().unwrap();
        closed_as_gone |= open_steps(&store).await.is_empty() && row.phase == Phase::Serving;
    }
    assert!(
        !closed_as_gone,
        "closed as never applied; the gateway holds {:?}",
        world.member_phase(&doubtful)
    );
}

/// The journal keeps when a step was sent last; a departure is as old as its first sending.
#[tokio::test(start_paused = true)]
async fn l6_a_departure_that_is_asked_for_again_and_again_does_not_become_younger() {
    let (world, store, process) = given_three_serving_with_surge_two(24).await;
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
