//! `/metrics`, `/healthz` and `/readyz` on one listener.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::gauges;
use crate::actors::status::ProcessStatus;
use crate::clock::Clock;

/// What the pages are made of.
#[derive(Clone)]
pub struct Source {
    /// The process's status, as last published.
    pub status: watch::Receiver<ProcessStatus>,
    /// For ages.
    pub clock: Arc<dyn Clock>,
}

/// Serves until `stopped` resolves.
pub async fn serve(
    listener: TcpListener,
    source: Source,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(source))
        .with_graceful_shutdown(stopped)
        .await
}

fn router(source: Source) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state(source)
}

async fn metrics(State(source): State<Source>) -> Response {
    let page = gauges::page(&source.status.borrow(), source.clock.now());
    match page {
        Ok(text) => (
            [(
                header::CONTENT_TYPE,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            )],
            text,
        )
            .into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Alive while the supervisor still holds the sending side of the status.
async fn alive(State(source): State<Source>) -> Response {
    if source.status.has_changed().is_err() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the supervisor has stopped\n").into_response();
    }
    "alive\n".into_response()
}

async fn ready(State(source): State<Source>) -> Response {
    if source.status.has_changed().is_err() || !source.status.borrow().is_ready() {
        return (StatusCode::SERVICE_UNAVAILABLE, "a store refuses writes\n").into_response();
    }
    "ready\n".into_response()
}
