//! The simulated gateway's face on 127.0.0.1: real HTTP in front of a host that holds the simulation.
//!
//! Owns nothing but the conversion. Silence breaks the connection in the middle of the answer, as a
//! gateway does that dies while it answers.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::Response;
use bytes::Bytes;

use super::faults::Reply;
use crate::sim::http::{broken, whole};

/// Every request goes to `host`, which calls [`super::GatewaySim::exchange`] at its own time with its
/// own coordinators. `host` must not block.
pub fn router<H>(host: H) -> Router
where
    H: Fn(Request<Bytes>) -> Reply + Clone + Send + Sync + 'static,
{
    Router::new().fallback(answer::<H>).with_state(host)
}

async fn answer<H>(State(host): State<H>, request: Request<Body>) -> Response
where
    H: Fn(Request<Bytes>) -> Reply + Clone + Send + Sync + 'static,
{
    let request = match whole(request).await {
        Ok(request) => request,
        Err(refusal) => return *refusal,
    };
    match host(request) {
        Reply::Answer { response, after } => {
            if !after.is_zero() {
                tokio::time::sleep(after).await;
            }
            response.map(Body::from)
        }
        Reply::Silence => broken("the gateway died while it answered"),
    }
}
