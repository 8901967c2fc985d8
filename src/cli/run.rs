//! `run`: the controller in a cluster.
//!
//! Owns the production wiring: everything that can be wrong at start is found before the first actor exists,
//! and said in one line. A gateway that is down stops the first start and no later one: a store that knows pools
//! means that replacements may have been accepted, and they must go on, whoever else is down.

mod options;

use std::process::ExitCode;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::options::Checked;
use super::args::RunArgs;
use super::error::CliError;
use super::output;
use super::signals::Signals;
use crate::actors::{Handle, Ports, start};
use crate::admin::server::{Source, serve};
use crate::clock::{OsEntropy, SystemClock};
use crate::cluster::kubernetes::KubernetesCluster;
use crate::gateway::pooled::PooledGateway;
use crate::gateway::port::{Gateway, GatewayFault};
use crate::pool::ids::RoutingGroup;
use crate::store::open;
use crate::telemetry::logging::install;
use crate::transport::network::{NetworkOptions, NetworkTransport};
use crate::trino::http::TrinoHttp;

/// A pool that nobody has: asking for it shows whether the gateway accepts the token.
const NOBODYS_POOL: &str = "trino-pool-operator-start";

/// Runs the command to its exit status.
pub async fn command(args: &RunArgs) -> Result<ExitCode, CliError> {
    let checked = Checked::of(args)?;
    install(args.logging.log_format, &args.logging.log)?;
    // As the first process of a container, whoever does not listen is not ended by SIGTERM at all.
    let mut signals = Signals::listen()?;
    let started = tokio::select! {
        biased;
        () = signals.received() => return Ok(ExitCode::SUCCESS),
        started = begin(checked) => started?,
    };
    attend(started, &mut signals).await
}

/// A running controller.
struct Started {
    handle: Handle,
    /// Dropping it ends the pages.
    pages: oneshot::Sender<()>,
}

async fn begin(checked: Checked) -> Result<Started, CliError> {
    let Checked {
        store,
        connect,
        scope,
        origin,
        token,
        probes,
        listen,
        settings,
    } = checked;
    let refused = |error| CliError::Listen(listen, error);
    let listener = TcpListener::bind(listen).await.map_err(refused)?;
    // With port 0 the system chooses one.
    let listen = listener.local_addr().map_err(refused)?;
    let cluster = KubernetesCluster::from_environment(&connect, scope).await?;
    cluster.check().await.map_err(CliError::Kubernetes)?;
    let store_place = open::place(&store);
    let refused = |error| CliError::Store(store_place.clone(), error);
    let store = open::connect(&store).await.map_err(refused)?;
    let transport = NetworkTransport::new(NetworkOptions::default())?;
    let place = origin.to_string();
    let gateway = PooledGateway::new(transport.clone(), origin, token);
    if let Some(fault) = check_gateway(&gateway, &place).await? {
        if store.pools().await.map_err(refused)?.is_empty() {
            return Err(CliError::Gateway(place, fault.to_string()));
        }
        tracing::warn!(gateway = place, error = %fault, "the gateway cannot be used now; steps that need it wait");
    }
    let clock = Arc::new(SystemClock::new());
    tracing::info!(
        identity = settings.owner,
        gateway = place,
        node_replacement = settings.node_replacement,
        leader_election = settings.lease.elect,
        listen = %listen,
        version = env!("CARGO_PKG_VERSION"),
        "starting"
    );
    let ports = Ports {
        cluster: Arc::new(cluster),
        gateway: Arc::new(gateway),
        coordinator: Arc::new(TrinoHttp::new(transport, probes)),
        store,
        clock: clock.clone(),
        entropy: Arc::new(OsEntropy),
    };
    let handle = start(ports, settings).await?;
    let source = Source {
        status: handle.status.clone(),
        clock,
    };
    let (pages, closed) = oneshot::channel::<()>();
    tokio::spawn(async move {
        let until = async move {
            // An error is the sender being dropped, which is how it is told to stop.
            let _ = closed.await;
        };
        if let Err(error) = serve(listener, source, until).await {
            tracing::error!(error = %error, "metrics and health are not served any more");
        }
    });
    Ok(Started { handle, pages })
}

/// A wrong token is found at every start. `Some`: it does not answer as a gateway, which is a mistake in the command
/// line when nothing was ever looked after with this store; later it is an outage, in which only the steps that need
/// the gateway wait, and protection, evidence and health go on.
async fn check_gateway(gateway: &impl Gateway, place: &str) -> Result<Option<GatewayFault>, CliError> {
    match gateway.pool(&RoutingGroup::new(NOBODYS_POOL)).await {
        Ok(_) => Ok(None),
        Err(fault @ GatewayFault::Credential { .. }) => {
            Err(CliError::GatewayCredential(place.to_owned(), fault.to_string()))
        }
        Err(
            fault @ (GatewayFault::Unreachable(_)
            | GatewayFault::Unavailable { .. }
            | GatewayFault::Protocol(_)),
        ) => Ok(Some(fault)),
    }
}

/// Until a signal, or until the supervisor ends by itself, which is a fault.
async fn attend(started: Started, signals: &mut Signals) -> Result<ExitCode, CliError> {
    let Started { mut handle, pages } = started;
    tokio::select! {
        biased;
        () = signals.received() => {}
        () = handle.ended() => {
            output::complain("the supervisor ended by itself; what led to it was logged");
            return Ok(ExitCode::FAILURE);
        }
    }
    tracing::info!("stopping: no new effect is started, those in flight may end");
    let status = tokio::select! {
        biased;
        () = signals.received() => {
            output::complain("ended by a second signal before effects in flight were over");
            ExitCode::FAILURE
        }
        released = handle.stop() => {
            tracing::info!(released, "stopped");
            ExitCode::SUCCESS
        }
    };
    drop(pages);
    Ok(status)
}
