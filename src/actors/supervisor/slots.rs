//! One slot per pool: its actor, its last report, and when a dead actor may be started again.
//!
//! Owns the restart backoff and the process-wide replacement budget.

use std::collections::BTreeSet;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorRef};

use super::super::messages::{PoolMsg, PoolReport, PoolsRead, ResourceReading, SupervisorMsg, TickOrder};
use super::super::pool::{PoolActor, PoolArguments};
use super::super::status::{Counts, Places, PoolStatus, Probes};
use super::{State, undecodable};
use crate::cluster::facts::{Listing, PoolResource};
use crate::pool::ids::{OwnerId, PoolId};
use crate::pool::names;
use crate::pool::observation::Reading;
use crate::pool::plan::{Standing, Urgency, default_places, permitted};
use crate::telemetry::counters::{COUNTERS, bump};
use crate::telemetry::events::ActorRestarted;

/// How an actor ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// A panic or an error.
    Failed(String),
    /// A stop or a kill, and why.
    Stopped(String),
    /// Authority is elsewhere.
    Fenced,
}

impl Ending {
    pub(super) fn detail(&self) -> &str {
        match self {
            Self::Failed(detail) | Self::Stopped(detail) => detail,
            Self::Fenced => "authority is elsewhere",
        }
    }

    const fn label(&self) -> &'static str {
        match self {
            Self::Failed(_) => "failed",
            Self::Stopped(_) => "stopped",
            Self::Fenced => "fenced",
        }
    }
}

#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // Independent facts about one pool, each named.
pub(super) struct Slot {
    actor: Option<ActorRef<PoolMsg>>,
    status: PoolStatus,
    restarts: u64,
    failures_in_row: u32,
    last_reason: String,
    start_at: Duration,
    replacing: bool,
    wants_to_replace: Option<Urgency>,
    /// A tick carried the permission to replace, and what was made of it was not reported yet.
    promised: bool,
    finished: bool,
    /// What earlier actors of this slot counted.
    counted: Counts,
    pub(super) quiet: bool,
}

impl Slot {
    pub(super) fn is(&self, id: ActorId) -> bool {
        self.actor.as_ref().is_some_and(|actor| actor.get_id() == id)
    }

    pub(super) fn tell(&self, message: PoolMsg) {
        if let Some(actor) = &self.actor {
            // An actor that just died is noticed by supervision.
            let _ = actor.send_message(message);
        }
    }

    fn is_running(&self) -> bool {
        self.actor.is_some()
    }

    fn standing(&self) -> Standing {
        match self.wants_to_replace {
            _ if self.replacing || self.promised => Standing::Holds,
            Some(urgency) => Standing::Waits(urgency),
            None => Standing::Rests,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.actor.is_some() && !self.quiet
    }

    /// Keeps a report; says since when the pool's store has been failing, if it has.
    pub(super) fn take(&mut self, report: PoolReport) -> Option<Duration> {
        self.status = report.status;
        self.replacing = report.replacing.unwrap_or(self.replacing);
        self.wants_to_replace = report.wants_to_replace;
        self.promised = false;
        self.finished = report.finished;
        // A round that came to its end: the actor works again.
        self.failures_in_row = 0;
        self.status.store.as_ref().map(|(_, since)| *since)
    }
}

impl State {
    /// Sends the tick to every pool, with an actor for every pool that should have one.
    pub(super) async fn pools_read(&mut self, myself: &ActorRef<SupervisorMsg>, read: PoolsRead) {
        let due = self.reading.take().unwrap_or_default();
        self.time_early(myself);
        if !self.leading || self.stopping.is_some() {
            return;
        }
        match read.stored {
            Reading::NotAsked => {}
            Reading::Seen(marks) => {
                self.stored_read = true;
                for pool in marks.keys() {
                    self.slots.entry(pool.clone()).or_default();
                }
                self.marks = marks;
            }
            Reading::Unknown(fault) => {
                tracing::warn!(fault = %fault.detail, "the stored pools are unknown this tick");
                self.marks.clear();
            }
        }
        let (listing, fault) = match read.resources {
            Ok(listing) => (Some(listing), None),
            Err(fault) => {
                tracing::warn!(fault = %fault.detail, "the TrinoPools are unknown this tick");
                (None, Some(fault))
            }
        };
        if let Some(listing) = &listing {
            for resource in &listing.items {
                self.slots.entry(pool_id(resource)).or_default();
            }
            for bad in &listing.undecodable {
                bump(&COUNTERS.undecodable, &[("kind", "TrinoPool")]);
                tracing::warn!(name = bad.name.as_deref().unwrap_or_default(), problem = %bad.problem, "a TrinoPool cannot be decoded");
            }
        }
        let may_replace = self.replacement_permits();
        let ids: Vec<PoolId> = self.slots.keys().cloned().collect();
        for pool in ids {
            if !due.is_for(&pool) && self.slots.get(&pool).is_some_and(Slot::is_running) {
                continue;
            }
            let resource = match (&listing, &fault) {
                (Some(listing), _) => resource_of(listing, &pool),
                (None, Some(fault)) => ResourceReading::Unreadable(fault.clone()),
                (None, None) => ResourceReading::Unreadable(undecodable("the listing is missing")),
            };
            self.ensure_actor(myself, &pool, &resource).await;
            let order = TickOrder {
                tick: read.tick,
                resource,
                early: due.is_early_for(&pool),
                inventory: self.inventory.clone(),
                other_probes: self.other_probes(&pool),
                mark: self.marks.get(&pool).cloned(),
                may_replace: may_replace.contains(&pool),
            };
            if let Some(slot) = self.slots.get_mut(&pool) {
                // Nothing is promised to whom nobody is told: it could never report.
                slot.promised = order.may_replace && slot.is_running();
                slot.tell(PoolMsg::Tick(Box::new(order)));
            }
        }
        let replacements = self.places();
        let undecodable: Vec<String> = listing
            .iter()
            .flat_map(|listing| &listing.undecodable)
            .map(|bad| bad.name.clone().unwrap_or_default())
            .collect();
        self.status.send_modify(|status| {
            status.tick = read.tick;
            status.pools_fault = fault;
            status.undecodable_pools = undecodable;
            status.replacements = replacements;
        });
    }

    async fn ensure_actor(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        pool: &PoolId,
        resource: &ResourceReading,
    ) {
        let now = self.ports.clock.monotonic();
        let Some(slot) = self.slots.get_mut(pool) else {
            return;
        };
        let gone = match resource {
            ResourceReading::Absent => true,
            ResourceReading::Present(_) | ResourceReading::Unreadable(_) => false,
        };
        if slot.finished && gone {
            // Nothing is left of it; it comes back with its resource.
            if let Some(actor) = slot.actor.take() {
                actor.stop(Some("nothing is left of the pool".to_owned()));
            }
            return;
        }
        if slot.actor.is_some() || now < slot.start_at {
            return;
        }
        slot.finished = false;
        let arguments = PoolArguments {
            pool: pool.clone(),
            // An owner is one actor's alone: what the store or the gateway holds for it can only be its own.
            owner: OwnerId::new(format!(
                "{}.t{}.{:016x}",
                self.settings.owner,
                self.term,
                self.ports.entropy.next_u64()
            )),
            ports: self.ports.clone(),
            settings: self.settings.clone(),
            supervisor: myself.clone(),
        };
        match PoolActor::spawn_linked(None, PoolActor, arguments, myself.get_cell()).await {
            Ok((actor, _)) => slot.actor = Some(actor),
            Err(error) => self.ended(pool, &Ending::Failed(error.to_string())),
        }
    }

    /// A pool's actor ended: it starts again after a pause, at one of the next ticks.
    pub(super) fn ended(&mut self, pool: &PoolId, ending: &Ending) {
        let now = self.ports.clock.monotonic();
        let doublings = self
            .slots
            .get(pool)
            .map_or(0, |slot| slot.failures_in_row.min(16));
        let backoff = self
            .settings
            .restart_backoff
            .saturating_mul(1 << doublings)
            .min(self.settings.restart_backoff_max);
        let jittered = backoff / 2 + self.ports.jitter(backoff / 2);
        let lease = self.settings.lease.duration;
        let Some(slot) = self.slots.get_mut(pool) else {
            return;
        };
        if slot.actor.take().is_none() {
            return;
        }
        slot.counted = add(slot.counted, slot.status.counts);
        slot.status.counts = Counts::default();
        slot.restarts = slot.restarts.saturating_add(1);
        slot.failures_in_row = slot.failures_in_row.saturating_add(1);
        slot.wants_to_replace = None;
        // Its successor goes on with what was under way. One that dies again before it can say so gives the place back:
        // other pools must not wait for it (L6).
        let began = slot.replacing || std::mem::take(&mut slot.promised);
        slot.replacing = began && slot.failures_in_row == 1;
        ending.detail().clone_into(&mut slot.last_reason);
        slot.start_at = match ending {
            // Whoever holds authority now gets a whole lease duration to show that it leads.
            Ending::Fenced => now + lease + jittered,
            Ending::Failed(_) | Ending::Stopped(_) => now + jittered,
        };
        ActorRestarted {
            kind: "pool",
            name: pool.as_str(),
            reason: ending.label(),
            detail: ending.detail(),
        }
        .emit();
        self.publish(pool);
    }

    pub(super) fn kill_pools(&mut self, reason: &str) {
        for (pool, slot) in &mut self.slots {
            if let Some(actor) = slot.actor.take() {
                tracing::info!(pool = %pool, reason, "the pool is stopped");
                actor.get_cell().kill();
            }
        }
    }

    /// Renews one pool in the status, and the sums over all.
    pub(super) fn publish(&self, pool: &PoolId) {
        let counts = self.slots.values().fold(Counts::default(), |sum, slot| {
            let sum = add(add(sum, slot.counted), slot.status.counts);
            Counts {
                pool_restarts: sum.pool_restarts + slot.restarts,
                ..sum
            }
        });
        let renewed = self.slots.get(pool).map(|slot| PoolStatus {
            restarts: (slot.restarts > 0).then(|| (slot.restarts, slot.last_reason.clone())),
            ..slot.status.clone()
        });
        self.status.send_modify(|status| {
            if let Some(renewed) = renewed {
                status.pools.insert(pool.clone(), renewed);
            }
            status.counts = counts;
        });
    }

    /// How many pools may replace at once.
    fn budget(&self) -> usize {
        self.settings
            .replacement_budget
            .unwrap_or_else(|| default_places(self.slots.len()))
    }

    /// Which pools may start a planned replacement.
    fn replacement_permits(&self) -> BTreeSet<PoolId> {
        let standings = self.slots.iter().map(|(id, slot)| (id, slot.standing()));
        permitted(self.budget(), standings)
    }

    /// The places of the budget, for the status.
    fn places(&self) -> Places {
        let waits = |slot: &&Slot| slot.wants_to_replace.is_some() && !slot.replacing;
        Places {
            allowed: self.budget(),
            held: self.slots.values().filter(|slot| slot.replacing).count(),
            waiting: self.slots.values().filter(waits).count(),
        }
    }

    /// Pools that wait for the budget and would get it at their next tick.
    pub(super) fn newly_permitted(&self) -> Vec<PoolId> {
        let waits = |slot: &Slot| matches!(slot.standing(), Standing::Waits(_));
        if !self.slots.values().any(waits) {
            return Vec::new();
        }
        let permits = self.replacement_permits();
        let waiting = self.slots.iter().filter(|(_, slot)| waits(slot));
        waiting
            .filter(|(id, _)| permits.contains(*id))
            .map(|(id, _)| id.clone())
            .collect()
    }

    fn other_probes(&self, pool: &PoolId) -> Probes {
        self.slots
            .iter()
            .filter(|(id, _)| *id != pool)
            .fold(Probes::default(), |sum, (_, slot)| Probes {
                probed: sum.probed + slot.status.probes.probed,
                failing: sum.failing + slot.status.probes.failing,
            })
    }
}

fn add(one: Counts, other: Counts) -> Counts {
    Counts {
        coalesced_ticks: one.coalesced_ticks + other.coalesced_ticks,
        stale_messages: one.stale_messages + other.stale_messages,
        instances_panicked: one.instances_panicked + other.instances_panicked,
        instances_hung: one.instances_hung + other.instances_hung,
        pool_restarts: one.pool_restarts + other.pool_restarts,
    }
}

fn pool_id(resource: &PoolResource) -> PoolId {
    names::pool_id(&resource.namespace, &resource.name)
}

fn resource_of(listing: &Listing<PoolResource>, pool: &PoolId) -> ResourceReading {
    if let Some(found) = listing.items.iter().find(|item| pool_id(item) == *pool) {
        return ResourceReading::Present(Box::new(found.clone()));
    }
    // An unreadable item carries at most its name: it may be this pool, so this pool is not absent.
    let name = pool.as_str().rsplit_once('/').map_or("", |(_, name)| name);
    let unreadable = listing
        .undecodable
        .iter()
        .find(|bad| bad.name.as_deref().is_none_or(|bad| bad == name));
    unreadable.map_or(ResourceReading::Absent, |bad| {
        ResourceReading::Unreadable(undecodable(&bad.problem))
    })
}
