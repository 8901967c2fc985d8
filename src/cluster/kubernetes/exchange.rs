//! One request and its answer: deadline, throttle, headers. Retries nothing: a caller that has no answer
//! says so, and the next tick asks again.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::answer::{Answer, read};
use super::throttle::{Lane, Throttle};
use crate::cluster::port::ClusterError;

/// Every single request has an answer within this time, or none.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);

const AGENT: &str = concat!("trino-pool-operator/", env!("CARGO_PKG_VERSION"));

/// How a body is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A whole object or options.
    Json,
    /// RFC 7396.
    MergePatch,
}

impl Content {
    const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::MergePatch => "application/merge-patch+json",
        }
    }
}

/// Sends requests through one kube client and one throttle. Cheap to clone; all clones share both.
#[derive(Clone)]
pub(super) struct Exchange {
    client: Client,
    throttle: Arc<Throttle>,
}

impl Exchange {
    pub(super) fn new(client: Client, throttle: Throttle) -> Self {
        Self {
            client,
            throttle: Arc::new(throttle),
        }
    }

    pub(super) fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    /// Reads one path.
    pub(super) async fn get(&self, lane: Lane, path: &str) -> Result<Answer, ClusterError> {
        self.send(lane, Method::GET, path, None).await
    }

    /// Sends one request and reads its whole answer within [`DEADLINE`], waiting for its turn included.
    pub(super) async fn send(
        &self,
        lane: Lane,
        method: Method,
        path: &str,
        body: Option<(Content, &Value)>,
    ) -> Result<Answer, ClusterError> {
        let deadline = Instant::now() + DEADLINE;
        self.throttle.admit(lane, deadline).await?;
        let request = request(method, path, body)?;
        let exchange = async {
            let response = self
                .client
                .send(request)
                .await
                .map_err(|error| unreachable(&error))?;
            let (parts, body) = response.into_parts();
            let bytes = body.collect_bytes().await.map_err(|error| unreachable(&error))?;
            Ok::<_, ClusterError>((parts, bytes))
        };
        let (parts, bytes) = timeout_at(deadline, exchange)
            .await
            .map_err(|_| ClusterError::Unreachable(format!("no answer within {} s", DEADLINE.as_secs())))??;
        if parts.status == StatusCode::TOO_MANY_REQUESTS {
            let retry_after = parts
                .headers
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok());
            return Err(self.throttle.refused(lane, retry_after));
        }
        self.throttle.answered(lane);
        read(parts.status, &bytes)
    }
}

fn request(
    method: Method,
    path: &str,
    body: Option<(Content, &Value)>,
) -> Result<Request<Body>, ClusterError> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(ACCEPT, HeaderValue::from_static("application/json"))
        .header(USER_AGENT, HeaderValue::from_static(AGENT));
    let bytes = match body {
        None => Vec::new(),
        Some((content, value)) => {
            request = request.header(CONTENT_TYPE, content.media_type());
            value.to_string().into_bytes()
        }
    };
    request
        .body(Body::from(bytes))
        .map_err(|error| ClusterError::Server(format!("no request can be made of {path}: {error}")))
}

/// A failure on the way: whether the request arrived is not known.
pub(super) fn unreachable(error: &kube::Error) -> ClusterError {
    if let kube::Error::Auth(_) = error {
        return ClusterError::Forbidden(format!("no credentials: {}", chain(error)));
    }
    ClusterError::Unreachable(chain(error))
}

/// The error with all its causes: the outermost one says only that a service failed.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
