//! One round: from a tick to a plan.
//!
//! A tick that finds the round still running is coalesced, never queued. The round waits for
//! inspections and for the effects of its own instances, but not for ever: what is missing when its
//! time is over is unknown, and goes on beside the next round.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Brain;
use super::children::Job;
use super::desired::{self, Resolution};
use crate::actors::faults;
use crate::actors::inventory::InventoryMsg;
use crate::actors::messages::{PoolMsg, ResourceReading, RoundRead, Stage, TickOrder};
use crate::pool::ids::{InstanceId, TickId};
use crate::pool::lifecycle::{self, Needs};
use crate::pool::observation::Observation;
use crate::store::port::{PoolIdentity, Write};
use crate::telemetry::counters::{COUNTERS, bump};

/// A round under way.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) tick: TickId,
    pub(super) stage: Stage,
    /// Instances whose inspection of this round is outstanding.
    inspecting: BTreeSet<InstanceId>,
    /// The gateway and the inventory have not answered yet.
    reading: bool,
}

impl Brain {
    pub(super) async fn tick(&mut self, order: TickOrder) {
        if self.quiescing {
            return;
        }
        if self.round.is_some() || self.surveying {
            // The timer comes again by itself.
            self.coalesced |= order.early;
            self.counts.coalesced_ticks += 1;
            bump(&COUNTERS.coalesced_ticks, &[("pool", self.pool.as_str())]);
            return;
        }
        self.order = Some(order);
        if !self.know_the_store().await || !self.know_the_pool().await {
            return self.report();
        }
        if self.authority.is_none() {
            return self.survey();
        }
        self.enter_round().await;
    }

    async fn know_the_store(&mut self) -> bool {
        if self.store_id.is_some() {
            return true;
        }
        let store = self.ports.store.clone();
        match self.call(store.id()).await {
            Ok(id) => {
                self.store_id = Some(id);
                self.note("store", None);
                true
            }
            Err(error) => {
                self.note("store", Some(faults::of_store("store id", &error)));
                false
            }
        }
    }

    /// The pool's immutable identity: from its row, else from the first valid spec, which seeds it.
    async fn know_the_pool(&mut self) -> bool {
        if self.identity.is_some() {
            return true;
        }
        let store = self.ports.store.clone();
        let stored = match self.call(store.pools()).await {
            Ok(pools) => pools.into_iter().find(|known| known.id == self.pool),
            Err(error) => {
                self.note("store", Some(faults::of_store("pools", &error)));
                return false;
            }
        };
        self.note("store", None);
        if let Some(identity) = stored {
            self.identity = Some(identity);
            self.seeded = true;
            return true;
        }
        let Some(order) = &self.order else { return false };
        let resource = match &order.resource {
            ResourceReading::Present(resource) => resource.clone(),
            // Neither a row nor a resource: there is no pool.
            ResourceReading::Absent => {
                self.finished = true;
                return false;
            }
            ResourceReading::Unreadable(fault) => {
                let fault = fault.clone();
                self.note("resource", Some(fault));
                return false;
            }
        };
        match desired::read(&resource) {
            Ok(desired) => {
                let identity = PoolIdentity {
                    id: self.pool.clone(),
                    namespace: desired.namespace,
                    routing_group: desired.routing_group,
                };
                if let Err(error) = self.call(store.seed(&identity)).await {
                    self.note("store", Some(faults::of_store("seed", &error)));
                    return false;
                }
                self.identity = Some(identity);
                self.seeded = true;
                self.note("resource", None);
                true
            }
            Err(problems) => {
                self.refuse_first_spec(&problems);
                false
            }
        }
    }

    /// With authority: rows, desired state, inspections.
    pub(super) async fn enter_round(&mut self) {
        let Some(order) = self.order.clone() else { return };
        self.coalesced = false;
        // A wish is a plan's, and this round may make none.
        self.wish = None;
        self.try_store_again().await;
        let loaded = self.refresh(order.mark.as_ref()).await;
        if self.ended || self.row.is_none() {
            return self.report();
        }
        if loaded {
            self.take_desired(&order).await;
        }
        if self.ended {
            return;
        }
        self.gateway.pool = None;
        self.snapshot = None;
        self.round = Some(Round {
            tick: order.tick,
            stage: Stage::Inspecting,
            inspecting: BTreeSet::new(),
            reading: true,
        });
        self.read_round(&order);
        self.arm_round(order.tick, Stage::Inspecting, self.settings.inspection_budget);
        self.configure();
        self.look_for_orphans();
        let ids: Vec<InstanceId> = self.live.keys().cloned().collect();
        for id in ids {
            self.begin_instance(&id).await;
        }
        self.advance_when_read().await;
    }

    async fn begin_instance(&mut self, id: &InstanceId) {
        let Some(live) = self.live.get_mut(id) else { return };
        live.faults.clear();
        if !live.is_idle() {
            // Still busy with an earlier round: it goes on, and nobody waits for it.
            return;
        }
        live.begin_round();
        let needs = self.needs(id);
        if needs == Needs::default() {
            let now = self.ports.clock.now();
            if let Some(live) = self.live.get_mut(id) {
                live.seen = Some(std::sync::Arc::new(Observation::blank(now)));
            }
            return;
        }
        if let Some(round) = &mut self.round {
            round.inspecting.insert(id.clone());
        }
        self.ask(id, Job::Inspect(needs)).await;
    }

    /// What the rules ask for, and what protection needs whatever they ask for.
    pub(super) fn needs(&self, id: &InstanceId) -> Needs {
        let (Some(live), Some(ctx)) = (self.live.get(id), self.context(id)) else {
            return Needs::default();
        };
        let mut needs = lifecycle::needs(&live.row, &ctx);
        if self.nodes().is_some() && live.row.phase.needs_its_nodes() {
            needs.workload = true;
            needs.placement = true;
        }
        needs
    }

    async fn take_desired(&mut self, order: &TickOrder) {
        let (Some(row), Some(store)) = (&self.row, &self.store_id) else {
            return;
        };
        let resolution = desired::resolve(&order.resource, row, store, &self.world, self.live.len());
        let recorded = row.mode.clone();
        let Resolution {
            mode,
            durable,
            publish,
            finalizer,
            mut fault,
            finished,
        } = resolution;
        // In force whatever the store says of it; a refusal replaces it.
        self.mode = mode.clone();
        let mut writes = Vec::new();
        if durable && mode != recorded {
            writes.push(Write::SetMode(mode));
        }
        if let Some(published) = publish {
            let desired = Write::PublishDesired {
                resource: published.resource,
                generation: published.generation,
                desired: Box::new(published.desired),
            };
            writes.insert(0, desired);
            let refused = self.publish(std::mem::take(&mut writes)).await.err();
            if let Some(why) = refused {
                let held = desired::refused_by_store(why);
                self.mode = held.mode.clone();
                fault = held.fault;
                if held.mode != recorded {
                    writes.push(Write::SetMode(held.mode));
                }
            }
        }
        self.finished = finished;
        self.announce_fault(fault.as_ref());
        self.note("resource", fault);
        if !writes.is_empty() {
            self.commit(writes).await;
        }
        if let Some(present) = finalizer {
            self.write_finalizer(present);
        }
    }

    fn read_round(&mut self, order: &TickOrder) {
        let Some(identity) = &self.identity else { return };
        let (ports, group) = (self.ports.clone(), identity.routing_group.clone());
        let (limit, tick) = (self.settings.inspection_budget, order.tick);
        // Lazy: without anything that may be scheduled, nobody needs the listing.
        let scheduled = self.live.values().any(|live| live.row.objects.is_some());
        let inventory = (self.nodes().is_some() && scheduled).then(|| order.inventory.clone());
        let otherwise = PoolMsg::Read(Box::new(RoundRead {
            tick,
            gateway: Err(faults::timed_out("pool", limit)),
            inventory: None,
        }));
        self.start(otherwise, async move {
            let snapshot = async {
                let inventory = inventory?;
                let call = async move { ractor::call!(inventory, |reply| InventoryMsg::Get { tick, reply }) };
                ports.within(limit, call).await?.ok()
            };
            let (pool, inventory) = tokio::join!(
                biased;
                ports.within(limit, ports.gateway.pool(&group)),
                snapshot,
            );
            let gateway = match pool {
                Some(Ok(pool)) => Ok(pool),
                Some(Err(error)) => Err(faults::of_gateway("pool", &error)),
                None => Err(faults::timed_out("pool", limit)),
            };
            PoolMsg::Read(Box::new(RoundRead {
                tick,
                gateway,
                inventory,
            }))
        });
    }

    fn arm_round(&mut self, tick: TickId, stage: Stage, after: Duration) {
        self.remind(after, PoolMsg::RoundDue { tick, stage });
    }

    pub(super) async fn round_read(&mut self, read: RoundRead) {
        if self.order.as_ref().is_none_or(|order| order.tick != read.tick) {
            self.counts.stale_messages += 1;
            return;
        }
        self.take_round_read(read);
        if self.ended {
            return;
        }
        if let Some(round) = &mut self.round {
            round.reading = false;
        }
        self.advance_when_read().await;
    }

    /// An inspection of the round ended, with or without an answer.
    pub(super) async fn inspection_ended(&mut self, id: &InstanceId) {
        let in_round = self
            .round
            .as_mut()
            .is_some_and(|round| round.stage == Stage::Inspecting && round.inspecting.remove(id));
        if in_round {
            self.advance_when_read().await;
        } else {
            // Beside a round, or after its inspections were over: it goes on alone.
            self.absorb(id).await;
            self.drive(id).await;
        }
    }

    pub(super) async fn round_due(&mut self, tick: TickId, stage: Stage) {
        let Some(round) = &self.round else { return };
        if round.tick != tick || round.stage != stage {
            return;
        }
        match stage {
            Stage::Inspecting => self.advance_all().await,
            Stage::Advancing => self.plan_now().await,
        }
    }

    async fn advance_when_read(&mut self) {
        let ready = self.round.as_ref().is_some_and(|round| {
            round.stage == Stage::Inspecting && round.inspecting.is_empty() && !round.reading
        });
        if ready {
            self.advance_all().await;
        }
    }

    /// Everything that was seen: evidence first, for every instance; then health; then the steps.
    async fn advance_all(&mut self) {
        let Some(round) = &mut self.round else { return };
        round.stage = Stage::Advancing;
        let tick = round.tick;
        // What is busy with an earlier round was not looked at in this one.
        let idle = self.live.iter().filter(|(_, live)| live.is_idle());
        let ids: Vec<InstanceId> = idle.map(|(id, _)| id.clone()).collect();
        for id in &ids {
            self.absorb(id).await;
        }
        self.weigh_probes();
        self.arm_round(tick, Stage::Advancing, self.settings.round_budget);
        for id in &ids {
            self.steps(id).await;
        }
        self.plan_when_settled().await;
    }

    /// Plans once nothing of this round is under way any more.
    pub(super) async fn plan_when_settled(&mut self) {
        let Some(round) = &self.round else { return };
        let settled =
            round.stage == Stage::Advancing && !self.live.values().any(|live| live.holds_plan(round.tick));
        if settled {
            self.plan_now().await;
        }
    }

    /// The round is over.
    pub(super) fn finish_round(&mut self) {
        self.round = None;
        let mut again = std::mem::take(&mut self.coalesced);
        for live in self.live.values_mut() {
            again |= live.awaits_plan();
            live.progressed = false;
        }
        if again {
            self.hurry();
        }
        self.report();
    }
}
