//! Why a command could not start: one clear line that names the thing and, where there is one, the fix.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::actors::StartError;
use crate::cluster::kubernetes::ConnectError;
use crate::cluster::port::ClusterError;
use crate::gateway::pooled::origin::OriginError;
use crate::gateway::pooled::secret::TokenError;
use crate::pool::names::GROUP;
use crate::pool::placement::join::KARPENTER;
use crate::sim::scenario::Broken;
use crate::store::port::StoreError;
use crate::telemetry::logging::LoggingError;
use crate::transport::network::NetworkSetupError;
use crate::trino::address::AddressError;

/// Why a command could not start. Exit status 2.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The command line does not parse: what is wrong with it, in one line.
    #[error("{0}")]
    Usage(String),
    /// The log filter.
    #[error("--log: {0}")]
    Logging(#[from] LoggingError),
    /// The machine gives no threads or no signals.
    #[error("the process cannot be set up: {0}")]
    Process(io::Error),
    /// The store URL names no store. Never shows the URL: it may hold a password.
    #[error("--store: {0}")]
    StoreUrl(String),
    /// SQLite serves one process only, and an election means that there may be several.
    #[error(
        "--store sqlite: serves one process only, so it cannot be used with leader election; \
         pass --no-leader-election if this is the only replica, or use postgres://"
    )]
    SqliteElection,
    /// The store of this name did not open, or did not answer.
    #[error("the store {0}: {1}")]
    Store(String, StoreError),
    /// The token file cannot be read.
    #[error("--gateway-token-file {path}: {problem}", path = .0.display(), problem = .1)]
    TokenFile(PathBuf, io::Error),
    /// The file holds no token.
    #[error("--gateway-token-file {path}: {problem}", path = .0.display(), problem = .1)]
    Token(PathBuf, TokenError),
    /// The gateway URL.
    #[error("--gateway-url {0}: {1}{hint}", hint = plain_http_hint(.0, .1))]
    GatewayUrl(String, OriginError),
    /// The gateway answers, and does not accept the token.
    #[error("the gateway {0} does not accept the token of --gateway-token-file ({1})")]
    GatewayCredential(String, String),
    /// At the very first start the gateway does not answer, or not as a gateway of the protocol.
    #[error(
        "the gateway {0} of --gateway-url cannot be used: {1}; the store holds no pool yet, so nothing waits for this process"
    )]
    Gateway(String, String),
    /// No HTTP client.
    #[error("the HTTP client cannot be set up: {0}")]
    Network(#[from] NetworkSetupError),
    /// How coordinators are reached.
    #[error("--coordinator-address: {0}")]
    Coordinator(#[from] AddressError),
    /// A name that Kubernetes or the store would not take.
    #[error("{option} {value:?}: {rule}")]
    Name {
        /// The option.
        option: &'static str,
        /// As given.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// No Kubernetes client.
    #[error("{0}")]
    Kubeconfig(#[from] ConnectError),
    /// The API server does not answer, or not as needed.
    #[error("Kubernetes: {0}{hint}", hint = kubernetes_hint(.0, "list trinopools.trinopool.dev"))]
    Kubernetes(ClusterError),
    /// A check cannot read what it has to.
    #[error("{what} cannot be read: {error}{hint}", hint = kubernetes_hint(.error, .permission))]
    Unread {
        /// What, for a person.
        what: String,
        /// The permission that it takes, as in "grant this identity to …".
        permission: &'static str,
        /// Why not.
        error: ClusterError,
    },
    /// The address cannot be listened at.
    #[error("--listen {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The actors did not start.
    #[error("{0}")]
    Start(#[from] StartError),
    /// Something does not serialize, which it always should.
    #[error("it cannot be written as JSON: {0}")]
    Json(serde_json::Error),
    /// There is no such scenario.
    #[error("--scenario {name}: there is no such scenario{hint} (--list shows them all)", hint = did_you_mean(.near))]
    Scenario {
        /// As given.
        name: String,
        /// Names much like it.
        near: Vec<&'static str>,
    },
    /// Options that do not go together.
    #[error("{0}")]
    Together(&'static str),
    /// The simulated world did not begin.
    #[error("the simulation cannot begin: {0}")]
    Simulation(Broken),
}

impl CliError {
    /// What is wrong with a store URL, without the words about a store that did not answer.
    #[must_use]
    pub fn of_store_url(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(problem) => Self::StoreUrl(problem),
            other => Self::StoreUrl(other.to_string()),
        }
    }
}

fn plain_http_hint(url: &str, error: &OriginError) -> &'static str {
    match error {
        OriginError::NotSecure if url.starts_with("http://") => {
            "; --gateway-plain-http allows http:// to 127.0.0.1, [::1] and localhost"
        }
        OriginError::NotSecure | OriginError::NotAbsolute | OriginError::NotAnOrigin => "",
    }
}

/// What a person does about it; `permission` is what the request needed.
fn kubernetes_hint(error: &ClusterError, permission: &str) -> String {
    match error {
        ClusterError::Unreachable(_) => "; see --kubeconfig and --context".to_owned(),
        ClusterError::Forbidden(_) => format!("; grant this identity to {permission}"),
        ClusterError::KindNotServed(kind) if kind.starts_with(GROUP) => {
            "; install the resource definition: trino-pool-operator crd | kubectl apply -f -".to_owned()
        }
        ClusterError::KindNotServed(kind) if kind.starts_with(KARPENTER) => {
            "; is this the right cluster (--context)? Karpenter serves it from 1.0 on".to_owned()
        }
        ClusterError::Throttled {
            retry_after: Some(seconds),
        } => format!("; try again in {seconds} s"),
        ClusterError::Throttled { retry_after: None } | ClusterError::Expired | ClusterError::Server(_) => {
            "; try again".to_owned()
        }
        ClusterError::KindNotServed(_) | ClusterError::Undecodable(..) | ClusterError::TooMany(_) => {
            String::new()
        }
    }
}

fn did_you_mean(near: &[&str]) -> String {
    if near.is_empty() {
        return String::new();
    }
    format!("; did you mean {}?", near.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(error: ClusterError) -> CliError {
        CliError::Unread {
            what: "NodeClaims".into(),
            permission: "list nodeclaims.karpenter.sh",
            error,
        }
    }

    #[test]
    fn an_error_names_the_thing_and_the_fix() {
        let lines = [
            CliError::SqliteElection,
            CliError::StoreUrl("a store URL starts with postgres:// or sqlite:".into()),
            CliError::GatewayUrl("http://gw.example".into(), OriginError::NotSecure),
            CliError::Token("token".into(), TokenError::TooShort),
            CliError::Kubernetes(ClusterError::KindNotServed(
                "trinopool.dev/v1alpha1/trinopools".into(),
            )),
            unread(ClusterError::Forbidden(
                "User \"u\" cannot list nodeclaims".into(),
            )),
            unread(ClusterError::KindNotServed("karpenter.sh/v1/nodeclaims".into())),
            unread(ClusterError::Throttled { retry_after: Some(7) }),
            CliError::Scenario {
                name: "drfit".into(),
                near: vec!["drift"],
            },
        ]
        .map(|error| error.to_string())
        .join("\n");
        insta::assert_snapshot!(lines, @r#"
        --store sqlite: serves one process only, so it cannot be used with leader election; pass --no-leader-election if this is the only replica, or use postgres://
        --store: a store URL starts with postgres:// or sqlite:
        --gateway-url http://gw.example: the gateway address must be https (http only to this machine, and only when allowed); --gateway-plain-http allows http:// to 127.0.0.1, [::1] and localhost
        --gateway-token-file token: the gateway admin token is shorter than 32 bytes
        Kubernetes: the API server does not serve trinopool.dev/v1alpha1/trinopools; install the resource definition: trino-pool-operator crd | kubectl apply -f -
        NodeClaims cannot be read: not permitted: User "u" cannot list nodeclaims; grant this identity to list nodeclaims.karpenter.sh
        NodeClaims cannot be read: the API server does not serve karpenter.sh/v1/nodeclaims; is this the right cluster (--context)? Karpenter serves it from 1.0 on
        NodeClaims cannot be read: the API server throttles us; try again in 7 s
        --scenario drfit: there is no such scenario; did you mean drift? (--list shows them all)
        "#);
    }
}
