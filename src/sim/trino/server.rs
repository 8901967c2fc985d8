//! The simulated coordinators' face on 127.0.0.1: one port for all of them, told apart by the Host header.
//!
//! Owns nothing but the conversion. Where nobody listens the connection breaks in the middle of the answer,
//! which is all that one shared port can show of it.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::Request;

use crate::sim::http::{broken, whole};

/// Every request goes to `host` with the name that it was sent to (`host:port`); `None`: nobody listens there.
/// `host` must not block.
pub fn router<H>(host: H) -> Router
where
    H: Fn(&str, &Request<Bytes>) -> Option<http::Response<Bytes>> + Clone + Send + Sync + 'static,
{
    Router::new().fallback(answer::<H>).with_state(host)
}

async fn answer<H>(State(host): State<H>, request: Request<Body>) -> Response
where
    H: Fn(&str, &Request<Bytes>) -> Option<http::Response<Bytes>> + Clone + Send + Sync + 'static,
{
    let request = match whole(request).await {
        Ok(request) => request,
        Err(refusal) => return *refusal,
    };
    match host(&addressee(&request), &request) {
        Some(answer) => answer.map(Body::from),
        None => broken("nothing listens there"),
    }
}

/// Who is asked: the Host header, else the URL's own authority.
pub fn addressee<B>(request: &Request<B>) -> String {
    request
        .headers()
        .get(http::header::HOST)
        .and_then(|value| value.to_str().ok())
        .or_else(|| request.uri().authority().map(http::uri::Authority::as_str))
        .unwrap_or_default()
        .to_owned()
}
