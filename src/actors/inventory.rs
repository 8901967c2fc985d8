//! One NodeClaim inventory per process: at most one refresh per tick, shared by all pools.
//!
//! Owns the listing and its age. A failed refresh is a fact in the snapshot, never an exception and
//! never "no claims" (fault K09): the tick's readers then know nothing, and the age of the last good
//! listing goes on rising for people to see. Lazy: nothing is listed until somebody asks in a tick.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::task::JoinSet;

use super::ports::Ports;
use crate::cluster::facts::ClaimInventory;
use crate::cluster::port::ClusterError;
use crate::pool::ids::TickId;
use crate::pool::observation::Fault;
use crate::telemetry::counters::{COUNTERS, bump};

/// What the inventory is asked, or tells itself.
#[derive(Debug)]
pub enum InventoryMsg {
    /// The snapshot of this tick or of a later one.
    Get {
        /// The asking tick.
        tick: TickId,
        /// Where the snapshot goes.
        reply: RpcReplyPort<Arc<Snapshot>>,
    },
    /// A refresh ended.
    Refreshed {
        /// The tick it was begun for.
        tick: TickId,
        /// What it came to.
        result: Result<ClaimInventory, ClusterError>,
    },
    /// How old the last good listing is.
    Age {
        /// Where the answer goes.
        reply: RpcReplyPort<InventoryAge>,
    },
}

/// One immutable look at all NodeClaims.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The tick it was taken for.
    pub tick: TickId,
    /// The whole listing, or why there is none.
    pub claims: Result<Arc<ClaimInventory>, Fault>,
    /// Time since the last good listing at the moment this snapshot was made; `None`: never one.
    pub age: Option<Duration>,
}

/// The state of the inventory as people see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InventoryAge {
    /// Time since the last good listing; `None`: never one.
    pub age: Option<Duration>,
    /// Claims in it.
    pub claims: usize,
    /// Claims that were present and unreadable in it.
    pub undecodable: usize,
    /// Why the last refresh failed, if it did.
    pub fault: Option<Fault>,
}

/// The actor.
#[derive(Debug)]
pub struct NodeClaimInventory;

/// Its state.
#[derive(Debug)]
pub struct InventoryState {
    ports: Ports,
    snapshot: Option<Arc<Snapshot>>,
    /// When the last good listing was asked for, on the monotonic clock, and its counts.
    good: Option<(Duration, usize, usize)>,
    waiting: Vec<(TickId, RpcReplyPort<Arc<Snapshot>>)>,
    refreshing: Option<TickId>,
    failures: u32,
    /// Not before this moment is the API server asked again.
    retry_at: Duration,
    /// Refreshes in flight end with the actor.
    tasks: JoinSet<()>,
}

/// First pause after a failed refresh; doubles with each failure in a row.
const BACKOFF: Duration = Duration::from_secs(5);
/// The port's own deadlines are shorter; this one guards against a hang.
const REFRESH_LIMIT: Duration = Duration::from_secs(30);
/// Longest such pause.
const BACKOFF_MAX: Duration = Duration::from_mins(1);

impl Actor for NodeClaimInventory {
    type Msg = InventoryMsg;
    type State = InventoryState;
    type Arguments = Ports;

    async fn pre_start(
        &self,
        _myself: ActorRef<InventoryMsg>,
        ports: Ports,
    ) -> Result<InventoryState, ActorProcessingErr> {
        Ok(InventoryState {
            ports,
            snapshot: None,
            good: None,
            waiting: Vec::new(),
            refreshing: None,
            failures: 0,
            retry_at: Duration::ZERO,
            tasks: JoinSet::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<InventoryMsg>,
        message: InventoryMsg,
        state: &mut InventoryState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            InventoryMsg::Get { tick, reply } => state.get(&myself, tick, reply),
            InventoryMsg::Refreshed { tick, result } => state.refreshed(&myself, tick, result),
            InventoryMsg::Age { reply } => {
                let age = state.describe();
                // The asker may have given up waiting.
                let _ = reply.send(age);
            }
        }
        Ok(())
    }
}

impl InventoryState {
    fn get(&mut self, myself: &ActorRef<InventoryMsg>, tick: TickId, reply: RpcReplyPort<Arc<Snapshot>>) {
        if let Some(snapshot) = self.snapshot.as_ref().filter(|snapshot| snapshot.tick >= tick) {
            let _ = reply.send(Arc::clone(snapshot));
            return;
        }
        self.waiting.push((tick, reply));
        if self.refreshing.is_none() {
            self.refresh(myself, tick);
        }
    }

    fn refresh(&mut self, myself: &ActorRef<InventoryMsg>, tick: TickId) {
        let now = self.ports.clock.monotonic();
        if now < self.retry_at
            && let Some(Err(fault)) = self.snapshot.as_ref().map(|snapshot| snapshot.claims.clone())
        {
            // Backing off: the last failure is this tick's answer too.
            self.publish(tick, Err(fault));
            return;
        }
        self.refreshing = Some(tick);
        let ports = self.ports.clone();
        let myself = myself.clone();
        // Collected so that finished tasks do not pile up; their results travel as messages.
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(async move {
            let silence = || ClusterError::Unreachable(format!("no answer within {REFRESH_LIMIT:?}"));
            let result = ports.guarded(REFRESH_LIMIT, ports.cluster.claims()).await;
            let result = result.unwrap_or_else(|| Err(silence()));
            // Fails only when the actor is gone, and then nobody waits.
            let _ = myself.send_message(InventoryMsg::Refreshed { tick, result });
        });
    }

    fn refreshed(
        &mut self,
        myself: &ActorRef<InventoryMsg>,
        tick: TickId,
        result: Result<ClaimInventory, ClusterError>,
    ) {
        self.refreshing = None;
        let now = self.ports.clock.monotonic();
        match result {
            Ok(inventory) => {
                bump(&COUNTERS.inventory_refreshes, &[("outcome", "ok")]);
                for _ in &inventory.undecodable {
                    bump(&COUNTERS.undecodable, &[("kind", "NodeClaim")]);
                }
                self.failures = 0;
                self.retry_at = Duration::ZERO;
                self.good = Some((now, inventory.claims.len(), inventory.undecodable.len()));
                self.publish(tick, Ok(Arc::new(inventory)));
            }
            Err(error) => {
                bump(&COUNTERS.inventory_refreshes, &[("outcome", error.label())]);
                tracing::warn!(error = %error, "the NodeClaim inventory is unknown");
                self.failures = self.failures.saturating_add(1);
                self.retry_at = now + self.pause(&error);
                let fault = Fault {
                    label: error.label(),
                    subject: "nodeclaims".to_owned(),
                    detail: error.to_string(),
                };
                self.publish(tick, Err(fault));
            }
        }
        // Whoever asked on behalf of a later tick, while this one was being read, gets a new one.
        if let Some(later) = self.waiting.iter().map(|(tick, _)| *tick).max() {
            self.refresh(myself, later);
        }
    }

    fn publish(&mut self, tick: TickId, claims: Result<Arc<ClaimInventory>, Fault>) {
        let age = self.age();
        let snapshot = Arc::new(Snapshot { tick, claims, age });
        let (served, later) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(wanted, _)| *wanted <= tick);
        self.waiting = later;
        let served: Vec<(TickId, RpcReplyPort<Arc<Snapshot>>)> = served;
        for (_, reply) in served {
            let _ = reply.send(Arc::clone(&snapshot));
        }
        self.snapshot = Some(snapshot);
    }

    /// The server's own wish first, else doubling with jitter.
    fn pause(&self, error: &ClusterError) -> Duration {
        if let ClusterError::Throttled {
            retry_after: Some(seconds),
        } = error
        {
            return Duration::from_secs(*seconds).min(BACKOFF_MAX);
        }
        // The first failure costs no pause: the next tick asks again.
        let doublings = self.failures.saturating_sub(2).min(5);
        if self.failures < 2 {
            return Duration::ZERO;
        }
        let pause = BACKOFF.saturating_mul(1 << doublings).min(BACKOFF_MAX);
        pause / 2 + self.ports.jitter(pause / 2)
    }

    fn age(&self) -> Option<Duration> {
        let now = self.ports.clock.monotonic();
        self.good.map(|(at, ..)| now.saturating_sub(at))
    }

    fn describe(&self) -> InventoryAge {
        let (claims, undecodable) = self
            .good
            .map_or((0, 0), |(_, claims, undecodable)| (claims, undecodable));
        InventoryAge {
            age: self.age(),
            claims,
            undecodable,
            fault: self
                .snapshot
                .as_ref()
                .and_then(|snapshot| snapshot.claims.as_ref().err().cloned()),
        }
    }
}
