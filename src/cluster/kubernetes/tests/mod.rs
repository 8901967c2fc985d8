//! The adapter against scripted answers: what it sends, and what it makes of what comes back.

mod connecting;
mod labelled;
mod lists;
mod reads;
mod watches;
mod writes;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::Body as Sent;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::cluster::port::Cluster;

/// A request as the server saw it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) content: String,
    pub(super) accept: String,
    pub(super) body: Value,
}

impl Seen {
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// One parameter of the query, still escaped.
    pub(super) fn query(&self, key: &str) -> Option<String> {
        let (_, query) = self.path.split_once('?')?;
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value.to_owned())
    }
}

/// What the server does about a request.
pub(super) enum Reply {
    Json(u16, Value),
    Text(u16, &'static str, String),
    RetryAfter(&'static str),
    /// Lines of a 200 stream that then ends.
    Lines(Vec<Value>),
    /// Lines of a 200 stream that then stays open and silent.
    LinesThenSilence(Vec<Value>),
    /// Bytes, then a broken connection.
    Torn(&'static str),
    /// The connection breaks without an answer.
    Broken,
    /// No answer, ever.
    Hang,
}

pub(super) fn status(code: u16, reason: &str, message: &str, details: &Value) -> Reply {
    Reply::Json(
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "reason": reason, "message": message, "details": details}),
    )
}

pub(super) fn page(items: &[Value], version: &str, token: &str) -> Reply {
    Reply::Json(
        200,
        json!({"kind": "List", "items": items,
            "metadata": {"resourceVersion": version, "continue": token}}),
    )
}

/// A cluster whose server answers by `answer`, and the log of what it saw.
pub(super) struct Scripted {
    pub(super) cluster: KubernetesCluster,
    log: Arc<Mutex<Vec<Seen>>>,
}

impl Scripted {
    pub(super) fn answering(answer: impl FnMut(&Seen) -> Reply + Send + 'static) -> Self {
        Self::with(Scope::All, answer)
    }

    pub(super) fn with(scope: Scope, answer: impl FnMut(&Seen) -> Reply + Send + 'static) -> Self {
        let log: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let seen = Arc::clone(&log);
        let answer = Arc::new(Mutex::new(answer));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
            async move {
                let (parts, body) = request.into_parts();
                let header = |name: &str| {
                    let value = parts.headers.get(name).map(|value| value.to_str().unwrap());
                    value.unwrap_or_default().to_owned()
                };
                let bytes = body.collect_bytes().await.unwrap();
                let request = Seen {
                    method: parts.method.to_string(),
                    path: parts.uri.to_string(),
                    content: header("content-type"),
                    accept: header("accept"),
                    body: if bytes.is_empty() {
                        Value::Null
                    } else {
                        serde_json::from_slice(&bytes).unwrap()
                    },
                };
                seen.lock().unwrap().push(request.clone());
                let reply = (answer.lock().unwrap())(&request);
                respond(reply).await
            }
        });
        let cluster = KubernetesCluster::new(Client::new(service, "default"), scope);
        Self { cluster, log }
    }

    pub(super) fn log(&self) -> Vec<Seen> {
        self.log.lock().unwrap().clone()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.log().iter().map(Seen::line).collect()
    }
}

async fn respond(reply: Reply) -> Result<Response<Sent>, tower::BoxError> {
    let response = |code: u16, kind: &str, body: Sent| {
        let response = Response::builder().status(code).header("content-type", kind);
        Ok(response.body(body).unwrap())
    };
    let lines = |events: Vec<Value>| {
        let line = |event: Value| Ok::<_, Infallible>(Bytes::from(format!("{event}\n")));
        stream::iter(events.into_iter().map(line))
    };
    match reply {
        Reply::Json(code, body) => response(code, "application/json", Sent::from(body.to_string())),
        Reply::Text(code, kind, body) => response(code, kind, Sent::from(body)),
        Reply::RetryAfter(after) => {
            let response = Response::builder().status(429).header("retry-after", after);
            Ok(response.body(Sent::from("slow down")).unwrap())
        }
        Reply::Lines(events) => response(200, "application/json", Sent::from_stream(lines(events))),
        Reply::LinesThenSilence(events) => {
            let body = Sent::from_stream(lines(events).chain(stream::pending()));
            response(200, "application/json", body)
        }
        Reply::Torn(text) => {
            let broken = Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
            let body = Sent::from_stream(stream::iter([Ok(Bytes::from(text)), broken]));
            response(200, "application/json", body)
        }
        Reply::Broken => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()),
        Reply::Hang => std::future::pending().await,
    }
}

/// The port, as callers see it.
pub(super) fn port(scripted: &Scripted) -> &dyn Cluster {
    &scripted.cluster
}
