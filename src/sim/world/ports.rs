//! The production clients over a world in process, for virtual time.

use std::sync::Arc;

use super::transport::{CoordinatorTransport, GatewayTransport};
use super::{ADMIN_TOKEN, SharedWorld};
use crate::clock::{Clock, Entropy};
use crate::cluster::kubernetes::{KubernetesCluster, Limits, Scope};
use crate::cluster::port::Cluster;
use crate::gateway::pooled::PooledGateway;
use crate::gateway::pooled::origin::{Origin, OriginError, PlainHttp};
use crate::gateway::pooled::secret::{AdminToken, Secret, TokenError};
use crate::gateway::port::Gateway;
use crate::sim::kube::client::in_process_client;
use crate::trino::http::{ProbeOptions, TrinoHttp};
use crate::trino::port::Coordinator;

/// The three ports of the outside world. The store and the clock are not part of it.
#[derive(Clone)]
pub struct WorldPorts {
    /// Kubernetes.
    pub cluster: Arc<dyn Cluster>,
    /// The gateway.
    pub gateway: Arc<dyn Gateway>,
    /// Trino coordinators.
    pub coordinator: Arc<dyn Coordinator>,
}

impl std::fmt::Debug for WorldPorts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WorldPorts")
    }
}

/// Why the clients of a world cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortsError {
    /// The gateway's address.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// The gateway's credential.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl SharedWorld {
    /// The production clients of one process of the operator, whose requests are counted under `actor`.
    /// Must be called inside a tokio runtime.
    pub fn ports(
        &self,
        actor: &'static str,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<WorldPorts, PortsError> {
        let client = in_process_client(self.kube_face(), actor);
        let cluster = KubernetesCluster::with(client, Scope::All, Limits::default(), clock, entropy);
        let gateway = PooledGateway::new(
            GatewayTransport(self.clone()),
            Origin::parse("http://127.0.0.1:8080", PlainHttp::LoopbackOnly)?,
            AdminToken::new(&Secret::new(ADMIN_TOKEN))?,
        );
        let coordinator = TrinoHttp::new(CoordinatorTransport(self.clone()), ProbeOptions::default());
        Ok(WorldPorts {
            cluster: Arc::new(cluster),
            gateway: Arc::new(gateway),
            coordinator: Arc::new(coordinator),
        })
    }
}
