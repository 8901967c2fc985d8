//! The in-process face: a production `kube::Client` whose transport is a [`Face`].
//!
//! Everything of kube-rs runs, encoding, watch decoding and error mapping included; only the network is
//! missing, so it works under virtual time.

use axum::body::Body;
use http::{HeaderValue, Request};
use kube::Client;

use super::api::ACTOR_HEADER;
use super::server::{Face, KubeHost};

/// A client of the simulated API server. `actor` is who its requests are counted under.
///
/// Must be called inside a tokio runtime, as kube's client keeps a task.
#[must_use]
pub fn in_process_client<H: KubeHost>(face: Face<H>, actor: &'static str) -> Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let face = face.clone();
        async move {
            let (mut parts, body) = request.into_parts();
            parts
                .headers
                .entry(ACTOR_HEADER)
                .or_insert(HeaderValue::from_static(actor));
            let body = body.collect_bytes().await?;
            Ok::<http::Response<Body>, kube::Error>(face.answer(Request::from_parts(parts, body)).await)
        }
    });
    Client::new(service, "default")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures::{StreamExt, TryStreamExt};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchParams};
    use kube::core::WatchEvent;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use serde_json::json;

    use super::*;
    use crate::sim::kube::server::{Pulse, Solo};
    use crate::sim::kube::{Fault, FaultRule, KubeOptions, KubeSim, Resource, Verb};

    fn world() -> (Arc<Mutex<Solo>>, Api<ConfigMap>) {
        let now = "2026-12-02T05:00:00Z".parse().unwrap();
        let kube = KubeSim::new(KubeOptions::default(), ChaCha8Rng::seed_from_u64(1), now);
        let host = Arc::new(Mutex::new(Solo { kube, now }));
        let client = in_process_client(Face::new(Arc::clone(&host), Pulse::default()), "operator");
        (host, Api::namespaced(client, "default"))
    }

    fn config(name: &str, value: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": value}})).unwrap()
    }

    #[tokio::test]
    async fn the_production_client_creates_reads_patches_and_deletes() {
        let (host, api) = world();
        let made = api
            .create(&PostParams::default(), &config("a", "1"))
            .await
            .unwrap();
        let uid = made.metadata.uid.clone().unwrap();
        let again = api
            .create(&PostParams::default(), &config("a", "1"))
            .await
            .unwrap_err();
        assert!(matches!(again, kube::Error::Api(status) if status.is_already_exists()));
        let patch = json!({"metadata": {"uid": uid, "resourceVersion": "1"}, "data": {"k": "2"}});
        let stale = api
            .patch("a", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap_err();
        assert!(matches!(stale, kube::Error::Api(status) if status.code == 409));
        let wrong = DeleteParams::default().preconditions(Preconditions {
            uid: Some("other".to_owned()),
            resource_version: None,
        });
        assert!(matches!(api.delete("a", &wrong).await.unwrap_err(), kube::Error::Api(s) if s.code == 409));
        let right = DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid),
            resource_version: None,
        });
        api.delete("a", &right).await.unwrap();
        assert!(api.get_opt("a").await.unwrap().is_none());
        let host = host.lock().unwrap();
        assert_eq!(host.kube.log().counts_of("operator")["DELETE configmaps"], 2);
        assert_eq!(
            host.kube.log().requested_by(|actor| actor == "operator").count(),
            2
        );
    }

    #[tokio::test]
    async fn a_watch_streams_changes_as_they_happen() {
        let (_host, api) = world();
        let seen = api.list(&ListParams::default()).await.unwrap();
        let version = seen.metadata.resource_version.unwrap();
        let stream = api.watch(&WatchParams::default(), &version).await.unwrap();
        let mut stream = stream.boxed();
        api.create(&PostParams::default(), &config("a", "1"))
            .await
            .unwrap();
        api.delete("a", &DeleteParams::default()).await.unwrap();
        let first = stream.try_next().await.unwrap().unwrap();
        assert!(matches!(first, WatchEvent::Added(object) if object.metadata.name.as_deref() == Some("a")));
        let second = stream.try_next().await.unwrap().unwrap();
        assert!(matches!(second, WatchEvent::Deleted(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_request_is_only_ended_by_the_clients_own_deadline() {
        let (host, api) = world();
        let rule = FaultRule::on(Resource::ConfigMaps, Fault::LoseAnswer).of(Verb::Create);
        host.lock().unwrap().kube.inject(rule.times(1));
        let config = config("a", "1");
        let params = PostParams::default();
        let create = api.create(&params, &config);
        assert!(
            tokio::time::timeout(std::time::Duration::from_secs(10), create)
                .await
                .is_err()
        );
        assert!(
            api.get_opt("a").await.unwrap().is_some(),
            "the answer was lost, the write was not"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_comes_when_the_clusters_own_time_says_so() {
        let (host, _) = world();
        let pulse = Pulse::default();
        let api: Api<ConfigMap> = Api::namespaced(
            in_process_client(Face::new(Arc::clone(&host), pulse.clone()), "operator"),
            "default",
        );
        let late = Fault::Late(std::time::Duration::from_secs(9));
        let rule = FaultRule::on(Resource::ConfigMaps, late).of(Verb::Create);
        host.lock().unwrap().kube.inject(rule.times(1));
        let create = tokio::spawn({
            let api = api.clone();
            async move { api.create(&PostParams::default(), &config("a", "1")).await }
        });
        let after = |seconds| {
            host.lock().unwrap().now += jiff::SignedDuration::from_secs(seconds);
            pulse.beat();
            tokio::time::sleep(std::time::Duration::from_millis(1))
        };
        after(0).await;
        assert!(api.get_opt("a").await.unwrap().is_some(), "it was carried out");
        after(8).await;
        assert!(!create.is_finished());
        after(1).await;
        assert!(create.is_finished());
        create.await.unwrap().unwrap();
    }
}
