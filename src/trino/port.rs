//! A Trino coordinator as a port.
//!
//! Facts of the wire: `GET /v1/info` answers 200 while `starting` is still true; `coordinatorId` is new
//! at each process start (Trino 483; absent in 476).

use async_trait::async_trait;

use crate::pool::ids::{BootId, CoordinatorId, InstanceId, Namespace, TrinoNodeId};

/// How to reach one instance's coordinator; the adapter turns it into a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorTarget {
    /// Namespace of its Service.
    pub namespace: Namespace,
    /// Its id, which is also its Service's name.
    pub instance: InstanceId,
    /// Port of its HTTP server.
    pub port: u16,
    /// IP of the coordinator pod, when known.
    pub pod_ip: Option<String>,
}

/// Why a probe has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// No connection, a cut connection, or no answer within the deadline.
    #[error("the coordinator did not answer: {0}")]
    Unreachable(String),
    /// An HTTP status that says nothing about readiness.
    #[error("the coordinator answered HTTP {0}")]
    Status(u16),
    /// Not the answer of a Trino coordinator.
    #[error("the coordinator's answer cannot be read: {0}")]
    Unreadable(String),
    /// A probe statement failed.
    #[error("a probe statement failed: {0}")]
    Statement(String),
    /// No address can be made of the target with the configured way of reaching coordinators.
    #[error("no address for the coordinator: {0}")]
    NoAddress(String),
}

impl ProbeError {
    /// Label for metrics and reasons.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "CoordinatorUnreachable",
            Self::Status(_) => "CoordinatorStatus",
            Self::Unreadable(_) => "CoordinatorUnreadable",
            Self::Statement(_) => "ProbeStatementFailed",
            Self::NoAddress(_) => "CoordinatorNoAddress",
        }
    }
}

/// What `GET /v1/info` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorInfo {
    /// `starting` is exactly `false`, and `coordinator` exactly `true`.
    pub ready: bool,
    /// `nodeId`.
    pub node: Option<TrinoNodeId>,
    /// `coordinatorId`.
    pub coordinator: Option<CoordinatorId>,
    /// `nodeVersion.version`.
    pub version: Option<String>,
    /// `environment`.
    pub environment: Option<String>,
}

impl CoordinatorInfo {
    /// The process identity of a plain coordinator: its `coordinatorId`.
    #[must_use]
    pub fn boot(&self) -> Option<BootId> {
        self.coordinator.as_ref().map(|id| BootId::new(id.as_str()))
    }
}

/// One row of `system.runtime.nodes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// `node_id`.
    pub id: TrinoNodeId,
    /// `coordinator`.
    pub coordinator: bool,
    /// `state` is `active`.
    pub active: bool,
}

/// Coordinators by their own HTTP API. All calls have a deadline of their own (10 s).
#[async_trait]
pub trait Coordinator: Send + Sync + 'static {
    /// What the URL is under which the gateway can dial this instance.
    fn url(&self, target: &CoordinatorTarget) -> Result<String, ProbeError>;

    /// `GET /v1/info`.
    async fn info(&self, target: &CoordinatorTarget) -> Result<CoordinatorInfo, ProbeError>;

    /// `SELECT node_id, coordinator, state FROM system.runtime.nodes`.
    async fn nodes(&self, target: &CoordinatorTarget) -> Result<Vec<ClusterNode>, ProbeError>;

    /// `SHOW CATALOGS`.
    async fn catalogs(&self, target: &CoordinatorTarget) -> Result<Vec<String>, ProbeError>;
}
