//! What carries queries: coordinator processes, a gateway in front of them, and its clients.
//!
//! Owns the three, the wiring between them, and the order in which they act. The processes follow the pods of a
//! cluster, which is handed in and may be simulated or real; nothing here writes to it.

mod processes;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use jiff::{SignedDuration, Timestamp};
use rand_chacha::ChaCha8Rng;

pub use processes::Objects;

use crate::sim::clients::{ClientOptions, Clients};
use crate::sim::gateway::faults::Reply;
use crate::sim::gateway::{GatewayOptions, GatewaySim, Upstream};
use crate::sim::trino::{Behaviour, TrinoSim};
use crate::trino::http::PROBE_USER;

/// Coordinators, gateway and clients.
#[derive(Debug)]
pub struct Traffic {
    /// Coordinator processes.
    pub trino: TrinoSim,
    /// The gateway.
    pub gateway: GatewaySim,
    /// Its clients.
    pub clients: Clients,
    behaviour: Behaviour,
    behaviours: BTreeMap<String, Behaviour>,
    next_behaviours: VecDeque<Behaviour>,
    monitor_interval: Duration,
    monitored_at: Timestamp,
    probes: u64,
    probes_answered: bool,
    cancelled: u64,
}

impl Traffic {
    /// No process and no client yet. `monitor_interval`: between two rounds of the gateway's health monitor.
    #[must_use]
    pub fn new(
        gateway: GatewayOptions,
        gateway_rng: ChaCha8Rng,
        client: ClientOptions,
        behaviour: Behaviour,
        monitor_interval: Duration,
        now: Timestamp,
    ) -> Self {
        Self {
            trino: TrinoSim::default(),
            gateway: GatewaySim::new(gateway, gateway_rng),
            clients: Clients::new(client),
            behaviour,
            behaviours: BTreeMap::new(),
            next_behaviours: VecDeque::new(),
            monitor_interval,
            monitored_at: now,
            probes: 0,
            probes_answered: true,
            cancelled: 0,
        }
    }

    /// Processes follow the pods: those whose container runs no more end, with their queries.
    pub fn follow(&mut self, cluster: &impl Objects, now: Timestamp, rng: &mut ChaCha8Rng) {
        let Self {
            trino,
            behaviour,
            behaviours,
            next_behaviours,
            ..
        } = self;
        let running = processes::running(cluster, &mut |instance| {
            behaviours
                .entry(instance.to_owned())
                .or_insert_with(|| next_behaviours.pop_front().unwrap_or_else(|| behaviour.clone()))
                .clone()
        });
        trino.sync(running, now, rng);
    }

    /// Moves processes, the gateway's monitor and clients on to `now`, in this order.
    pub fn step(&mut self, now: Timestamp, rng: &mut ChaCha8Rng) {
        self.trino.step(now);
        let due = SignedDuration::try_from(self.monitor_interval).unwrap_or(SignedDuration::MAX);
        let Self {
            trino,
            gateway,
            clients,
            ..
        } = self;
        if now.duration_since(self.monitored_at) >= due {
            self.monitored_at = now;
            gateway.monitor(&mut Reach { trino, now });
        }
        clients.step(
            now,
            rng,
            &mut |request| match gateway.exchange(request, now, &mut Reach { trino, now }) {
                Reply::Answer { response, .. } => Some(response),
                Reply::Silence => None,
            },
        );
    }

    /// One request to the gateway, as its sender experiences it.
    pub fn gateway_exchange(&mut self, request: &Request<Bytes>, now: Timestamp) -> Reply {
        let trino = &mut self.trino;
        self.gateway.exchange(request, now, &mut Reach { trino, now })
    }

    /// One request to whoever listens at `host` (`host:port`); `None` when nobody does.
    pub fn coordinator_exchange(
        &mut self,
        host: &str,
        request: &Request<Bytes>,
        now: Timestamp,
    ) -> Option<Response<Bytes>> {
        self.probes += 1;
        if !self.probes_answered {
            return None;
        }
        let query = request.uri().path().split('/').nth(4);
        if request.method() == Method::DELETE
            && query.and_then(|id| self.trino.owner_of(id)) != Some(PROBE_USER)
        {
            self.cancelled += 1;
        }
        self.trino.handle(host, request, now)
    }

    /// From the next [`Self::follow`] on, how an instance's coordinator behaves.
    pub fn misbehave(&mut self, instance: &str, behaviour: Behaviour) {
        self.behaviours.insert(instance.to_owned(), behaviour);
    }

    /// How the next instance whose coordinator is first seen behaves. Several calls line up.
    pub fn misbehave_next(&mut self, behaviour: Behaviour) {
        self.next_behaviours.push_back(behaviour);
    }

    /// Queries of somebody else that were cancelled past the gateway.
    #[must_use]
    pub const fn cancelled(&self) -> u64 {
        self.cancelled
    }

    /// Whether coordinators can be reached past the gateway: not while the operator's own network fails.
    pub const fn answer_probes(&mut self, answered: bool) {
        self.probes_answered = answered;
    }

    /// Requests that were sent to coordinators past the gateway: probes.
    #[must_use]
    pub const fn probes(&self) -> u64 {
        self.probes
    }
}

/// The gateway's way to the coordinators.
struct Reach<'a> {
    trino: &'a mut TrinoSim,
    now: Timestamp,
}

impl Upstream for Reach<'_> {
    fn exchange(&mut self, origin: &str, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        let host = origin.strip_prefix("http://")?;
        self.trino.handle(host, request, self.now)
    }
}
