//! How stories begin: which pools and machines there are, who runs, and what serves already, before anything goes wrong.

use std::sync::Arc;

use serde_json::json;
use trino_pool_operator::actors::Settings;
use trino_pool_operator::gateway::model::MemberRequest;
use trino_pool_operator::pool::ids::InstanceId;
use trino_pool_operator::store::memory::MemoryStore;

use crate::Process;
use crate::world::journal::lost_request;
use crate::world::{self, Trouble, World};

/// The one pool "analytics" of three instances, and machines for them and for one more. Nobody runs yet.
pub fn given_a_pool_and_machines() -> (World, Arc<MemoryStore>) {
    let world = World::default();
    world.add_pool("analytics", |_| {});
    world.add_nodes("old", 12);
    (world, world::store())
}

/// The same, and one process under which all three serve.
pub async fn given_three_serving() -> (World, Arc<MemoryStore>, Process) {
    let (world, store) = given_a_pool_and_machines();
    let mut process = Process::start(&world, &store, world::settings("a")).await;
    process.converged("analytics", 3).await;
    (world, store, process)
}

/// Three serve, on that many machines, and two more may be made at once.
pub async fn given_three_serving_with_surge_two(machines: usize) -> (World, Arc<MemoryStore>, Process) {
    let (world, store) = (World::default(), world::store());
    world.add_pool("analytics", |spec| spec["maxSurge"] = json!(2));
    world.add_nodes("old", machines);
    let mut process = Process::start(&world, &store, world::settings("a")).await;
    process.converged("analytics", 3).await;
    (world, store, process)
}

/// These pools of three instances each, all of which serve, on that many machines, under one process that lets the
/// cluster replace one instance at a time.
pub async fn given_pools_under_a_budget_of_one(names: &[&str], machines: usize) -> (World, Process) {
    let (world, store) = (World::default(), world::store());
    for name in names {
        world.add_pool(name, |_| {});
    }
    world.add_nodes("old", machines);
    let settings = Settings {
        replacement_budget: Some(1),
        ..world::settings("a")
    };
    let mut process = Process::start(&world, &store, settings).await;
    for name in names {
        process.converged(name, 3).await;
    }
    (world, process)
}

/// A replacement that got as far as a request without an answer.
pub struct Stuck {
    pub victim: InstanceId,
    /// What stands in for it.
    pub newcomer: InstanceId,
    /// The request that was lost.
    pub late: MemberRequest,
}

/// Three serve, the first one's node drifts, and the first request to do this is lost on its way, as are its copies
/// for as long as the world is not calm.
pub async fn given_a_replacement_without_an_answer_to(
    action: &str,
) -> (World, Arc<MemoryStore>, Process, Stuck) {
    let (world, store, process) = given_three_serving().await;
    let known = process.serving("analytics");
    let victim = known[0].clone();
    world.trouble("send", action, Trouble::Fails);
    world.drift_first_node_of(&victim);
    let late = lost_request(&store, action).await;
    let newcomer = process.newcomer("analytics", &known).unwrap();
    let stuck = Stuck {
        victim,
        newcomer,
        late,
    };
    (world, store, process, stuck)
}

/// The coordinator of one that serves fails until the gateway is to be told SUSPECT, and that request is lost on
/// its way. Nothing has been taken back yet.
pub async fn lose_suspicion(world: &World, store: &MemoryStore, doubtful: &InstanceId) {
    world.trouble("send", "suspect", Trouble::Fails);
    world.trouble("coordinator", doubtful.as_str(), Trouble::Fails);
    lost_request(store, "suspect").await;
}
