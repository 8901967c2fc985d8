//! A pool's actor alone, with somebody else's answers in its mailbox.

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;
use trino_pool_operator::actors::inventory::NodeClaimInventory;
use trino_pool_operator::actors::messages::{
    Inspected, Performed, PoolMsg, ResourceReading, SupervisorMsg, TickOrder, Ticket,
};
use trino_pool_operator::actors::pool::{PoolActor, PoolArguments};
use trino_pool_operator::actors::status::{PoolStatus, Probes};
use trino_pool_operator::pool::ids::{InstanceId, OwnerId, PoolId, TickId};
use trino_pool_operator::pool::observation::Observation;
use trino_pool_operator::pool::step::{Apply, Effect, EffectOutcome};

use crate::world::{self, Trouble, World};
use crate::{pass, seconds};

/// Stands in for the supervisor, and hands every report on.
struct Listener;

impl Actor for Listener {
    type Msg = SupervisorMsg;
    type State = mpsc::UnboundedSender<PoolStatus>;
    type Arguments = mpsc::UnboundedSender<PoolStatus>;

    async fn pre_start(
        &self,
        _: ActorRef<SupervisorMsg>,
        reports: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(reports)
    }

    async fn handle(
        &self,
        _: ActorRef<SupervisorMsg>,
        message: SupervisorMsg,
        reports: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisorMsg::Report(report) = message {
            reports.send(report.status)?;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_waits_for_are_dropped_and_counted() {
    let world = World::default();
    world.add_pool("analytics", |_| {});
    world.add_nodes("n", 12);
    // The first candidate's own effect stays outstanding.
    world.trouble("create", "", Trouble::Hangs);
    let ports = world::ports(&world, &world::store());
    let (sender, mut reports) = mpsc::unbounded_channel();
    let (supervisor, _) = Listener::spawn(None, Listener, sender).await.unwrap();
    let (inventory, _) = NodeClaimInventory::spawn(None, NodeClaimInventory, ports.clone())
        .await
        .unwrap();
    let arguments = PoolArguments {
        pool: PoolId::new("trino/analytics"),
        owner: OwnerId::new("a.t1"),
        ports: ports.clone(),
        settings: world::settings("a"),
        supervisor,
    };
    let (pool, _) = PoolActor::spawn(None, PoolActor, arguments).await.unwrap();
    let tick = |number| {
        let resource = world.lock().pools["analytics"].clone();
        let order = TickOrder {
            tick: TickId::new(number),
            resource: ResourceReading::Present(Box::new(resource)),
            early: false,
            inventory: inventory.clone(),
            other_probes: Probes::default(),
            mark: None,
            may_replace: true,
        };
        pool.send_message(PoolMsg::Tick(Box::new(order))).unwrap();
    };
    for number in 1..4 {
        tick(number);
        pass(seconds(5)).await;
    }
    let mut last = PoolStatus::default();
    while let Ok(report) = reports.try_recv() {
        last = report;
    }
    assert_eq!(last.counts.stale_messages, 0);
    let known = last.instances.keys().next().unwrap().clone();
    assert_eq!(last.instances[&known].performing, Some("apply_objects"));
    let phase = last.instances[&known].phase;

    // A predecessor's answer about a known instance, and one about an instance that never was.
    for instance in [known.clone(), InstanceId::new("cell-ffffffff")] {
        let performed = Performed {
            ticket: Ticket::default(),
            instance: instance.clone(),
            effect: Effect::ApplyObjects,
            outcome: EffectOutcome::Applied(Apply::Refused("not mine".into())),
        };
        pool.send_message(PoolMsg::Performed(Box::new(performed)))
            .unwrap();
        let inspected = Inspected {
            ticket: Ticket::default(),
            instance,
            observation: Observation::blank(ports.clock.now()),
            faults: Vec::new(),
            nodes: Vec::new(),
        };
        pool.send_message(PoolMsg::Inspected(Box::new(inspected)))
            .unwrap();
    }
    tick(4);
    pass(seconds(5)).await;
    while let Ok(report) = reports.try_recv() {
        last = report;
    }
    assert_eq!(last.counts.stale_messages, 4);
    assert_eq!(last.instances[&known].phase, phase);
    assert_eq!(last.instances[&known].performing, Some("apply_objects"));
}
