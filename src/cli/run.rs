//! `run`: the controller in a cluster. Wires the production adapters together; decides nothing.
//!
//! Everything that can be wrong with the command line is found before anything is started, and every server is
//! asked once, so that a problem is one line and not a log.

use std::process::ExitCode;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::args::RunArgs;
use super::error::CliError;
use super::signals::Signals;
use crate::actors::{LeaseSettings, Ports, Settings, start};
use crate::admin::server::{Source, serve};
use crate::clock::{Clock, Entropy, OsEntropy, SystemClock};
use crate::cluster::kubernetes::{ConnectOptions, KubernetesCluster, Scope};
use crate::gateway::pooled::PooledGateway;
use crate::gateway::pooled::origin::{Origin, PlainHttp};
use crate::gateway::pooled::secret::{AdminToken, Secret};
use crate::pool::ids::{Namespace, ObjectName};
use crate::store::open::{Kind, connect};
use crate::telemetry::logging::install;
use crate::transport::network::{NetworkOptions, NetworkTransport};
use crate::trino::address::CoordinatorAddress;
use crate::trino::http::{ProbeOptions, TrinoHttp};

/// Runs the command to its exit status.
pub async fn command(args: &RunArgs) -> Result<ExitCode, CliError> {
    let kind = Kind::of(&args.store).map_err(CliError::of_store_url)?;
    if kind == Kind::Sqlite && !args.no_leader_election {
        return Err(CliError::SqliteElection);
    }
    let plain = if args.gateway_plain_http {
        PlainHttp::LoopbackOnly
    } else {
        PlainHttp::Refused
    };
    let origin = Origin::parse(&args.gateway_url, plain)
        .map_err(|error| CliError::GatewayUrl(args.gateway_url.clone(), error))?;
    let token = token(args)?;
    let address: CoordinatorAddress = args.coordinator_address.parse()?;
    install(args.logging.log_format, &args.logging.log)?;
    let mut signals = Signals::listen()?;

    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| CliError::Listen(args.listen, error))?;
    let options = ConnectOptions {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
    };
    let cluster = KubernetesCluster::from_environment(&options, scope(args)).await?;
    cluster.check().await.map_err(CliError::Kubernetes)?;
    let store = connect(&args.store).await.map_err(CliError::Store)?;
    let transport = NetworkTransport::new(NetworkOptions::default())?;
    let probes = ProbeOptions {
        address,
        user: args.trino_user.clone(),
        ..ProbeOptions::default()
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
    let settings = settings(args, entropy.as_ref());
    tracing::info!(
        owner = settings.owner,
        node_replacement = settings.node_replacement,
        "starting"
    );
    let ports = Ports {
        cluster: Arc::new(cluster),
        gateway: Arc::new(PooledGateway::new(transport.clone(), origin, token)),
        coordinator: Arc::new(TrinoHttp::new(transport, probes)),
        store,
        clock: Arc::clone(&clock),
        entropy,
    };
    let mut handle = start(ports, settings).await?;
    let (stopped, stop) = tokio::sync::oneshot::channel::<()>();
    let pages = tokio::spawn(serve(
        listener,
        Source {
            status: handle.status.clone(),
            clock,
        },
        async {
            // Either end of the channel going away means the same: stop.
            let _ = stop.await;
        },
    ));
    let status = tokio::select! {
        () = signals.received() => {
            let released = handle.stop().await;
            tracing::info!(released, "stopped");
            ExitCode::SUCCESS
        }
        () = handle.ended() => {
            tracing::error!("the supervisor ended by itself");
            ExitCode::FAILURE
        }
    };
    drop(stopped);
    match pages.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(error = %error, "the metrics pages did not end cleanly"),
        Err(error) => tracing::warn!(error = %error, "the metrics pages did not end cleanly"),
    }
    Ok(status)
}

fn token(args: &RunArgs) -> Result<AdminToken, CliError> {
    let path = &args.gateway_token_file;
    let text = std::fs::read_to_string(path).map_err(|error| CliError::TokenFile(path.clone(), error))?;
    AdminToken::new(&Secret::new(text.trim_end_matches(['\r', '\n'])))
        .map_err(|error| CliError::Token(path.clone(), error))
}

fn scope(args: &RunArgs) -> Scope {
    if args.namespaces.is_empty() {
        Scope::All
    } else {
        Scope::Namespaces(args.namespaces.iter().map(Namespace::new).collect())
    }
}

fn settings(args: &RunArgs, entropy: &dyn Entropy) -> Settings {
    let owner = args.identity.clone().unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host: String = host
            .trim()
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
            .collect();
        format!(
            "{}-{:08x}",
            if host.is_empty() { "host" } else { &host },
            entropy.next_u64() & 0xffff_ffff
        )
    });
    Settings {
        node_replacement: args.node_replacement,
        lease: LeaseSettings {
            elect: !args.no_leader_election,
            namespace: Namespace::new(&args.lease_namespace),
            name: ObjectName::new(&args.lease_name),
            ..LeaseSettings::default()
        },
        ..Settings::new(owner)
    }
}
