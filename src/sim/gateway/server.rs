//! The simulated gateway's face on 127.0.0.1: real HTTP in front of a host that holds the simulation.
//!
//! Owns nothing but the conversion. Silence breaks the connection in the middle of the answer, as a
//! gateway does that dies while it answers.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::faults::Reply;

/// Longest request body that is read, in bytes.
const MAX_REQUEST: usize = 16 * 1024 * 1024;

/// Every request goes to `host`, which calls [`super::GatewaySim::exchange`] at its own time with its
/// own coordinators. `host` must not block.
pub fn router<H>(host: H) -> Router
where
    H: Fn(http::Request<Bytes>) -> Reply + Clone + Send + Sync + 'static,
{
    Router::new().fallback(answer::<H>).with_state(host)
}

async fn answer<H>(State(host): State<H>, request: http::Request<Body>) -> Response
where
    H: Fn(http::Request<Bytes>) -> Reply + Clone + Send + Sync + 'static,
{
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_REQUEST).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    match host(http::Request::from_parts(parts, body)) {
        Reply::Answer { response, after } => {
            if !after.is_zero() {
                tokio::time::sleep(after).await;
            }
            response.map(Body::from)
        }
        Reply::Silence => Response::new(Body::from_stream(futures::stream::once(async {
            Err::<Bytes, _>(std::io::Error::other("the connection breaks"))
        }))),
    }
}
