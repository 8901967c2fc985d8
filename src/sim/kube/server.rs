//! The HTTP face: an axum router over a shared host of a [`KubeSim`].
//!
//! Also what both faces share: the host trait, the pulse that wakes watches, and the streaming of one
//! watch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::Stream;
use http::{Request, Response};
use jiff::Timestamp;
use tokio::sync::watch;

use super::api::streaming;
use super::{AnswerDue, KubeSim, NoAnswer, WatchCursor};
use crate::sim::http::whole;

/// Whoever owns the simulated cluster and its time.
pub trait KubeHost: Send + 'static {
    /// The cluster.
    fn kube(&mut self) -> &mut KubeSim;
    /// Simulated time.
    fn now(&self) -> Timestamp;
}

/// Wakes open watches. Whoever steps the world beats it after each step.
#[derive(Clone, Debug)]
pub struct Pulse(Arc<watch::Sender<u64>>);

impl Default for Pulse {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Pulse {
    /// Something may have changed, or time has passed.
    pub fn beat(&self) {
        self.0.send_modify(|beats| *beats = beats.wrapping_add(1));
    }
}

/// A shared host and its pulse: what both faces are made from.
#[derive(Debug)]
pub struct Face<H> {
    host: Arc<Mutex<H>>,
    pulse: Pulse,
}

impl<H> Clone for Face<H> {
    fn clone(&self) -> Self {
        Self {
            host: Arc::clone(&self.host),
            pulse: self.pulse.clone(),
        }
    }
}

impl<H: KubeHost> Face<H> {
    /// A face over `host`; its own requests beat `pulse` too.
    #[must_use]
    pub const fn new(host: Arc<Mutex<H>>, pulse: Pulse) -> Self {
        Self { host, pulse }
    }

    fn host(&self) -> MutexGuard<'_, H> {
        // A panic elsewhere leaves the cluster as it was after its last whole change.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one request; a watch as a stream that stays open. Never returns for an answer that is
    /// meant to be lost, and not before its time for one that is meant to be late.
    pub(crate) async fn answer(&self, request: Request<Bytes>) -> Response<Body> {
        let answered = {
            let mut host = self.host();
            let now = host.now();
            match host.kube().open_watch(&request, now) {
                Some(Ok(cursor)) => Ok(cursor),
                Some(Err(refused)) => Err(refused),
                None => Err(host.kube().handle(&request, now)),
            }
        };
        match answered {
            Ok(cursor) => streaming(Body::from_stream(self.stream(cursor))),
            Err(response) => {
                self.pulse.beat();
                if response.extensions().get::<NoAnswer>().is_some() {
                    std::future::pending::<()>().await;
                }
                if let Some(AnswerDue(due)) = response.extensions().get::<AnswerDue>().copied() {
                    self.reach(due).await;
                }
                response.map(Body::from)
            }
        }
    }

    /// Waits for the host's own time, which moves with its steps.
    async fn reach(&self, due: Timestamp) {
        let mut beats = self.pulse.0.subscribe();
        loop {
            beats.mark_unchanged();
            let now = self.host().now();
            // Its own pulse never ends before it does.
            if now >= due || beats.changed().await.is_err() {
                return;
            }
        }
    }

    fn stream(
        &self,
        cursor: WatchCursor,
    ) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> + use<H> {
        let face = self.clone();
        let beats = self.pulse.0.subscribe();
        futures::stream::unfold(
            (face, cursor, beats),
            |(face, mut cursor, mut beats)| async move {
                loop {
                    if cursor.ended() {
                        return None;
                    }
                    beats.mark_unchanged();
                    let lines = {
                        let mut host = face.host();
                        let now = host.now();
                        host.kube().poll_watch(&mut cursor, now)
                    };
                    if !lines.is_empty() {
                        return Some((Ok(Bytes::from(lines.concat())), (face, cursor, beats)));
                    }
                    if !cursor.ended() && beats.changed().await.is_err() {
                        return None;
                    }
                }
            },
        )
    }
}

/// Serves every path of the API server.
pub fn router<H: KubeHost>(face: Face<H>) -> Router {
    Router::new().fallback(move |request: Request<Body>| {
        let face = face.clone();
        async move {
            match whole(request).await {
                Ok(request) => face.answer(request).await,
                Err(refusal) => *refusal,
            }
        }
    })
}

/// A cluster alone with a clock that is set by hand: the host of tests and of one-component worlds.
#[derive(Debug)]
pub struct Solo {
    /// The cluster.
    pub kube: KubeSim,
    /// Simulated time.
    pub now: Timestamp,
}

impl KubeHost for Solo {
    fn kube(&mut self) -> &mut KubeSim {
        &mut self.kube
    }

    fn now(&self) -> Timestamp {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, TryStreamExt};
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::{DeleteParams, ListParams, PostParams, WatchParams};
    use kube::core::WatchEvent;
    use kube::{Api, Client, Config};
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use serde_json::json;

    use super::*;
    use crate::sim::kube::KubeOptions;

    #[tokio::test]
    async fn the_production_client_lists_and_watches_over_real_http() {
        let now = "2026-12-02T05:00:00Z".parse().unwrap();
        let kube = KubeSim::new(KubeOptions::default(), ChaCha8Rng::seed_from_u64(1), now);
        let host = Arc::new(Mutex::new(Solo { kube, now }));
        let face = Face::new(Arc::clone(&host), Pulse::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router(face)).await });
        let client = Client::try_from(Config::new(format!("http://{address}").parse().unwrap())).unwrap();
        assert_eq!(client.apiserver_version().await.unwrap().major, "1");
        let api: Api<Namespace> = Api::all(client);
        let seen = api.list(&ListParams::default()).await.unwrap();
        assert_eq!(seen.items.len(), 2);
        let version = seen.metadata.resource_version.unwrap();
        let mut stream = api
            .watch(&WatchParams::default(), &version)
            .await
            .unwrap()
            .boxed();
        let made = serde_json::from_value(json!({"metadata": {"name": "trino"}})).unwrap();
        api.create(&PostParams::default(), &made).await.unwrap();
        let event = stream.try_next().await.unwrap().unwrap();
        assert!(
            matches!(event, WatchEvent::Added(object) if object.metadata.name.as_deref() == Some("trino"))
        );
        api.delete("trino", &DeleteParams::default()).await.unwrap();
        let event = stream.try_next().await.unwrap().unwrap();
        assert!(matches!(event, WatchEvent::Deleted(_)));
        server.abort();
    }
}
