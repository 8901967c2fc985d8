//! What the simulated servers on 127.0.0.1 share: reading a whole request, and breaking a connection.

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::Request;

/// Longest request body that is read, in bytes. A real API server takes 3 MiB; ours is only a guard against a client
/// that never ends.
const MAX_REQUEST: usize = 16 * 1024 * 1024;

/// The request with its whole body, or the refusal of one that is too long.
pub(super) async fn whole(request: Request<Body>) -> Result<Request<Bytes>, Box<Response>> {
    let (parts, body) = request.into_parts();
    to_bytes(body, MAX_REQUEST)
        .await
        .map(|body| Request::from_parts(parts, body))
        .map_err(|_| Box::new(StatusCode::PAYLOAD_TOO_LARGE.into_response()))
}

/// An answer that breaks off before its first byte of body, as of a server that dies while it answers.
pub(super) fn broken(why: &'static str) -> Response {
    Response::new(Body::from_stream(futures::stream::once(async move {
        Err::<Bytes, _>(std::io::Error::other(why))
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_is_read_whole_or_refused() {
        let read = whole(Request::new(Body::from("SELECT 1"))).await.unwrap();
        assert_eq!(read.into_body(), Bytes::from("SELECT 1"));
        let endless = Body::from(vec![0_u8; MAX_REQUEST + 1]);
        let refused = whole(Request::new(endless)).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[tokio::test]
    async fn a_broken_answer_has_no_end() {
        assert!(to_bytes(broken("gone").into_body(), 10).await.is_err());
    }
}
