//! The joined world: a cluster, the coordinators in it, a gateway in front of them, and its clients.
//!
//! ```text
//!   clients ──▶ gateway ──▶ coordinators (processes) ◀── pods ── cluster (+ Karpenter)
//!                  ▲               ▲                                ▲
//!                  └── the operator's production clients ───────────┘
//! ```
//!
//! Owns the order in which the parts act, the wiring between them, and what people do to a cluster
//! (`admin`). One value holds all of it; nothing in it reads a clock or knows an operator exists.

mod admin;
mod clock;
mod options;
mod paced;
mod ports;
mod processes;
mod serve;
mod shared;
mod transport;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use http::{Method, Request, Response};
use jiff::{SignedDuration, Timestamp};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub use admin::{ADMIN, AdminError, NODE_POOL};
pub use clock::{SimClock, SimEntropy};
pub use options::{NAMESPACE, StartState, WorldOptions};
pub use paced::PacedClock;
pub use ports::{PortsError, WorldPorts};
pub use serve::{Addresses, Served};
pub use shared::SharedWorld;
pub use transport::{CoordinatorTransport, GatewayTransport};

use crate::gateway::pooled::secret::Secret;
use crate::sim::clients::Clients;
use crate::sim::gateway::faults::Reply;
use crate::sim::gateway::{GatewayOptions, GatewaySim, Upstream};
use crate::sim::kube::KubeSim;
use crate::sim::kube::server::KubeHost;
use crate::sim::trino::{Behaviour, TrinoSim};
use crate::trino::http::PROBE_USER;

/// The admin token of the simulated gateway.
pub const ADMIN_TOKEN: &str = "simulated-gateway-admin-token-0123456789";

/// Everything outside the operator.
#[derive(Debug)]
pub struct World {
    /// Kubernetes and Karpenter.
    pub kube: KubeSim,
    /// Coordinator processes.
    pub trino: TrinoSim,
    /// The gateway.
    pub gateway: GatewaySim,
    /// Its clients.
    pub clients: Clients,
    now: Timestamp,
    rng: ChaCha8Rng,
    options: WorldOptions,
    behaviours: BTreeMap<String, Behaviour>,
    next_behaviours: VecDeque<Behaviour>,
    monitored_at: Timestamp,
    probes: u64,
    probes_answered: bool,
    cancelled: u64,
    /// The revision of the cluster's objects that the processes follow.
    synced: Option<u64>,
}

impl World {
    /// A world with its namespace, NodePool, TrinoPools and clients, and not a single pod.
    pub fn new(options: WorldOptions) -> Result<Self, AdminError> {
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        let mut part = || ChaCha8Rng::seed_from_u64(rng.next_u64());
        let now = options.start;
        let gateway = GatewayOptions {
            terminal_retention: options.terminal_retention,
            ..GatewayOptions::new(Secret::new(ADMIN_TOKEN))
        };
        let mut world = Self {
            kube: KubeSim::new(options.kube.clone(), part(), now),
            trino: TrinoSim::default(),
            gateway: GatewaySim::new(gateway, part()),
            clients: Clients::new(options.client.clone()),
            now,
            rng: part(),
            options,
            behaviours: BTreeMap::new(),
            next_behaviours: VecDeque::new(),
            monitored_at: now,
            probes: 0,
            probes_answered: true,
            cancelled: 0,
            synced: None,
        };
        world.furnish()?;
        Ok(world)
    }

    /// What it was set up with.
    #[must_use]
    pub const fn options(&self) -> &WorldOptions {
        &self.options
    }

    /// The time of the last step.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Moves everything on to `now`: controllers, processes, the gateway's monitor, clients, in this order.
    pub fn step(&mut self, now: Timestamp) {
        if now > self.now {
            self.now = now;
        }
        let now = self.now;
        self.kube.step(now, &mut self.rng);
        self.sync_processes();
        self.trino.step(now);
        let due = SignedDuration::try_from(self.options.monitor_interval).unwrap_or(SignedDuration::MAX);
        if now.duration_since(self.monitored_at) >= due {
            self.monitored_at = now;
            self.gateway.monitor(&mut Reach {
                trino: &mut self.trino,
                now,
            });
        }
        let Self {
            gateway,
            trino,
            clients,
            rng,
            ..
        } = self;
        clients.step(
            now,
            rng,
            &mut |request| match gateway.exchange(request, now, &mut Reach { trino, now }) {
                Reply::Answer { response, .. } => Some(response),
                Reply::Silence => None,
            },
        );
    }

    /// Processes follow the pods; readiness follows the processes.
    fn sync_processes(&mut self) {
        let revision = self.kube.revision();
        if self.synced != Some(revision) {
            self.synced = Some(revision);
            self.start_and_end_processes();
        }
        for process in self.trino.processes(self.now) {
            self.kube.set_container_ready(&process.pod, process.ready);
        }
    }

    fn start_and_end_processes(&mut self) {
        let Self {
            kube,
            behaviours,
            next_behaviours,
            options,
            ..
        } = self;
        let running = processes::running(kube, &mut |instance| {
            if !behaviours.contains_key(instance) {
                let behaviour = next_behaviours
                    .pop_front()
                    .unwrap_or_else(|| options.behaviour.clone());
                behaviours.insert(instance.to_owned(), behaviour);
            }
            behaviours.get(instance).cloned().unwrap_or_default()
        });
        self.trino.sync(running, self.now, &mut self.rng);
    }

    /// One request to the gateway, as its sender experiences it.
    pub fn gateway_exchange(&mut self, request: &Request<Bytes>) -> Reply {
        let mut reach = Reach {
            trino: &mut self.trino,
            now: self.now,
        };
        self.gateway.exchange(request, self.now, &mut reach)
    }

    /// One request to whoever listens at `host` (`host:port`); `None` when nobody does.
    pub fn coordinator_exchange(&mut self, host: &str, request: &Request<Bytes>) -> Option<Response<Bytes>> {
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
        self.trino.handle(host, request, self.now)
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

impl KubeHost for World {
    fn kube(&mut self) -> &mut KubeSim {
        &mut self.kube
    }

    fn now(&self) -> Timestamp {
        self.now
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

#[cfg(test)]
mod bring_up;
#[cfg(test)]
mod tests;
