//! The process's view of the outside world, and how it is set up.
//!
//! Owns the bundle of ports handed to every actor, the settings, and the one way to give up on a
//! future by the port's own clock. Reads no environment and parses nothing.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use crate::clock::{Clock, Entropy};
use crate::cluster::port::Cluster;
use crate::gateway::port::Gateway;
use crate::pool::ids::{Namespace, ObjectName};
use crate::store::port::Store;
use crate::trino::port::Coordinator;

/// Everything the actors may touch. Cloning shares.
#[derive(Clone)]
pub struct Ports {
    /// Kubernetes.
    pub cluster: Arc<dyn Cluster>,
    /// The gateway.
    pub gateway: Arc<dyn Gateway>,
    /// Trino coordinators.
    pub coordinator: Arc<dyn Coordinator>,
    /// Durable rows and journal.
    pub store: Arc<dyn Store>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Instance ids and jitter.
    pub entropy: Arc<dyn Entropy>,
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ports")
    }
}

impl Ports {
    /// The future's result, or `None` when `limit` of the clock's time passed first. The future is
    /// dropped then: what it had sent may still arrive.
    pub async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            result = future => Some(result),
            () = self.clock.sleep(limit) => None,
        }
    }

    /// Like [`Ports::within`], and a panic on the way is "no answer" too: for work beside an actor, whose
    /// end nobody else would notice.
    pub async fn guarded<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        let caught = AssertUnwindSafe(future).catch_unwind();
        let result = self.within(limit, caught).await?;
        if result.is_err() {
            tracing::error!("work beside an actor panicked");
        }
        result.ok()
    }

    /// A random duration below `bound`.
    #[must_use]
    pub fn jitter(&self, bound: Duration) -> Duration {
        let millis = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
        if millis == 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(self.entropy.next_u64() % millis)
    }
}

/// How the process runs. All durations are of the clock port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Identity of this process: unique among all that may run at once, `[A-Za-z0-9_.:-]{1,200}`.
    pub owner: String,
    /// Pause between regular ticks.
    pub tick: Duration,
    /// Least pause between any two ticks.
    pub min_tick_gap: Duration,
    /// How long a round waits for inspections; what is missing then is unknown this tick.
    pub inspection_budget: Duration,
    /// How long a round waits for effects before it plans without them. They go on.
    pub round_budget: Duration,
    /// How long one effect of one instance may take; its executor is replaced then.
    pub effect_deadline: Duration,
    /// The process flag of node replacement; a pool's own `enabled` must be true as well.
    pub node_replacement: bool,
    /// The leadership Lease.
    pub lease: LeaseSettings,
    /// First pause before a dead pool actor is started again; doubles up to `restart_backoff_max`.
    pub restart_backoff: Duration,
    /// Longest such pause.
    pub restart_backoff_max: Duration,
    /// How many pools may have a planned replacement under way at once, at least 1; `None`: a quarter of them, and at
    /// least four.
    pub replacement_budget: Option<usize>,
    /// How long a graceful stop waits for effects in flight.
    pub stop_grace: Duration,
}

impl Settings {
    /// The settings of production, for this identity.
    #[must_use]
    pub fn new(owner: impl Into<String>) -> Self {
        Self {
            owner: owner.into(),
            tick: Duration::from_secs(5),
            min_tick_gap: Duration::from_millis(200),
            inspection_budget: Duration::from_secs(4),
            round_budget: Duration::from_secs(15),
            effect_deadline: Duration::from_mins(1),
            node_replacement: false,
            lease: LeaseSettings::default(),
            restart_backoff: Duration::from_secs(1),
            restart_backoff_max: Duration::from_mins(1),
            replacement_budget: None,
            stop_grace: Duration::from_secs(20),
        }
    }
}

/// The coordination Lease that decides which process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Off for a single replica (the embedded store refuses it): this process always leads.
    pub elect: bool,
    /// Where the Lease is.
    pub namespace: Namespace,
    /// Its name.
    pub name: ObjectName,
    /// How long an unchanged Lease counts as held.
    pub duration: Duration,
    /// The holder stops this long after it sent its last successful renewal; below `duration`.
    pub renew_deadline: Duration,
    /// Pause between attempts.
    pub retry: Duration,
}

impl Default for LeaseSettings {
    fn default() -> Self {
        Self {
            elect: true,
            namespace: Namespace::new("default"),
            name: ObjectName::new("trino-pool-operator"),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}
