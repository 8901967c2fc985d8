//! The joined world: a simulated cluster, and the traffic on it.
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
mod serve;
mod shared;
mod transport;

use bytes::Bytes;
use http::{Request, Response};
use jiff::Timestamp;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub use admin::{ADMIN, AdminError, NODE_POOL};
pub use clock::{SimClock, SimEntropy};
pub use options::{NAMESPACE, StartState, WorldOptions};
pub use paced::PacedClock;
pub use ports::{PortsError, WorldPorts};
pub use serve::{Addresses, Served, kubeconfig};
pub use shared::SharedWorld;
pub use transport::{CoordinatorTransport, GatewayTransport};

use crate::gateway::pooled::secret::Secret;
use crate::sim::gateway::GatewayOptions;
use crate::sim::gateway::faults::Reply;
use crate::sim::kube::server::KubeHost;
use crate::sim::kube::{KubeSim, Resource};
use crate::sim::traffic::Traffic;

/// The admin token of the simulated gateway.
pub const ADMIN_TOKEN: &str = "simulated-gateway-admin-token-0123456789";

/// Everything outside the operator.
#[derive(Debug)]
pub struct World {
    /// Kubernetes and Karpenter.
    pub kube: KubeSim,
    /// Coordinators, gateway and clients.
    pub traffic: Traffic,
    now: Timestamp,
    rng: ChaCha8Rng,
    options: WorldOptions,
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
        let kube = KubeSim::new(options.kube.clone(), part(), now);
        let traffic = Traffic::new(
            gateway,
            part(),
            options.client.clone(),
            options.behaviour.clone(),
            options.monitor_interval,
            now,
        );
        let mut world = Self {
            kube,
            traffic,
            now,
            rng: part(),
            options,
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
        self.traffic.step(now, &mut self.rng);
    }

    /// Processes follow the pods; readiness follows the processes.
    fn sync_processes(&mut self) {
        // What `processes` reads.
        let revision = self
            .kube
            .revision_of(&[Resource::Pods, Resource::Services, Resource::ConfigMaps]);
        if self.synced != Some(revision) {
            self.synced = Some(revision);
            self.traffic.follow(&self.kube, self.now, &mut self.rng);
        }
        for process in self.traffic.trino.processes(self.now) {
            self.kube.set_container_ready(&process.pod, process.ready);
        }
    }

    /// One request to the gateway, as its sender experiences it.
    pub fn gateway_exchange(&mut self, request: &Request<Bytes>) -> Reply {
        self.traffic.gateway_exchange(request, self.now)
    }

    /// One request to whoever listens at `host` (`host:port`); `None` when nobody does.
    pub fn coordinator_exchange(&mut self, host: &str, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        self.traffic.coordinator_exchange(host, request, self.now)
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

#[cfg(test)]
mod bring_up;
#[cfg(test)]
mod tests;
