//! The [`Cluster`] port over kube's client: the only place that speaks HTTP to an API server.
//!
//! Owns the connection, one throttle shared by every caller, and nothing else: no cache. Answers are JSON
//! values and are decoded item by item (`cluster::decode`), never into typed lists, so that one odd object
//! costs only itself. Every write carries a UID or resourceVersion, or creates a deterministic name. It
//! retries nothing by itself and never guesses: no answer, 429 and 5xx are errors, not verdicts.

mod answer;
mod connect;
mod event;
mod exchange;
mod labelled;
mod listing;
mod merge;
mod path;
mod port;
#[cfg(test)]
mod tests;
mod throttle;
mod watch;

use std::sync::Arc;

use kube::Client;

pub use connect::{ConnectError, ConnectOptions};
pub use throttle::Limits;

use super::port::ClusterError;
use crate::clock::{Clock, Entropy, OsEntropy, SystemClock};
use crate::pool::ids::Namespace;
use answer::Answer;
use exchange::Exchange;
use path::POOLS;
use throttle::{Lane, Throttle};

/// The namespaces whose TrinoPools this process serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of them; needs cluster-wide permission to list TrinoPools and pods.
    All,
    /// These, each read on its own.
    Namespaces(Vec<Namespace>),
}

impl Scope {
    fn each(&self) -> Vec<Option<&Namespace>> {
        match self {
            Self::All => vec![None],
            Self::Namespaces(namespaces) => namespaces.iter().map(Some).collect(),
        }
    }
}

/// A Kubernetes cluster behind kube's client.
pub struct KubernetesCluster {
    exchange: Exchange,
    scope: Scope,
    clock: Arc<dyn Clock>,
}

impl KubernetesCluster {
    /// Over a client made elsewhere, with the default limits and the machine's clock. The client should
    /// not retry by itself.
    #[must_use]
    pub fn new(client: Client, scope: Scope) -> Self {
        Self::with(
            client,
            scope,
            Limits::default(),
            Arc::new(SystemClock::new()),
            Arc::new(OsEntropy),
        )
    }

    /// Over a client made elsewhere, with limits, clock and randomness of one's own. The clock is read
    /// for Events and for a `Retry-After` that is a date; deadlines are tokio's time.
    #[must_use]
    pub fn with(
        client: Client,
        scope: Scope,
        limits: Limits,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        let throttle = Throttle::new(limits, Arc::clone(&clock), entropy);
        Self {
            exchange: Exchange::new(client, throttle),
            scope,
            clock,
        }
    }

    /// From a kubeconfig or the pod's service account. Sends nothing.
    pub async fn from_environment(options: &ConnectOptions, scope: Scope) -> Result<Self, ConnectError> {
        Ok(Self::new(connect::client(options).await?, scope))
    }

    /// Whether the server answers, knows us and serves TrinoPools: one small request, for the start.
    pub async fn check(&self) -> Result<(), ClusterError> {
        let namespace = match &self.scope {
            Scope::All => None,
            Scope::Namespaces(namespaces) => namespaces.first(),
        };
        let path = format!("{}?limit=1", POOLS.all(namespace));
        match self.exchange.get(Lane::Ordinary, &path).await? {
            Answer::Success(_) => Ok(()),
            Answer::Refused(refusal) => Err(refusal.of_list(POOLS)),
        }
    }
}
