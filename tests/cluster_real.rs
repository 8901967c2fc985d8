//! The cluster suite on a real API server with its controllers, through the production client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

mod cluster_suite;
#[allow(dead_code, reason = "the stories under Karpenter use more of it")]
#[path = "support/control_plane.rs"]
mod control_plane;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use kube::Client;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use trino_pool_operator::cluster::kubernetes::{ConnectOptions, KubernetesCluster, Scope};
use trino_pool_operator::cluster::resource;

use cluster_suite::outsider::{self, ClusterDriver, create, get, until};
use control_plane::ControlPlane;

/// The outsider of the real cluster.
struct RealDriver {
    admin: Client,
    plane: &'static ControlPlane,
    // A compaction is the whole cluster's: stories take turns.
    _turn: MutexGuard<'static, ()>,
}

#[async_trait]
impl ClusterDriver for RealDriver {
    async fn request(&self, method: &str, path: &str, content: &str, body: Option<&Value>) -> (u16, Value) {
        outsider::ask(&self.admin, method, path, content, body).await
    }

    async fn watch(&self, path: &str) -> BoxStream<'static, Value> {
        outsider::lines(&self.admin, path).await
    }

    async fn compact(&self) {
        self.plane.compact().await;
    }

    async fn pause(&self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    fn unique(&self, stem: &str) -> String {
        static NAMES: AtomicU32 = AtomicU32::new(0);
        format!("{stem}-{}", NAMES.fetch_add(1, Ordering::Relaxed))
    }
}

/// The port and the outsider, or nothing where no control plane can run.
async fn real() -> Option<(KubernetesCluster, RealDriver)> {
    static TURN: Mutex<()> = Mutex::const_new(());
    static PREPARED: OnceCell<()> = OnceCell::const_new();
    let plane = control_plane::shared("cluster/real")?;
    let driver = RealDriver {
        admin: plane.administrator().await,
        plane,
        _turn: TURN.lock().await,
    };
    PREPARED.get_or_init(async || define_pools(&driver).await).await;
    let options = ConnectOptions {
        kubeconfig: Some(plane.kubeconfig()),
        context: None,
    };
    let cluster = KubernetesCluster::from_environment(&options, Scope::All)
        .await
        .unwrap();
    Some((cluster, driver))
}

/// Installs our own custom resource, and waits until it is served.
async fn define_pools(driver: &RealDriver) {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(driver, DEFINITIONS, &resource::crd().unwrap()).await;
    until(driver, "TrinoPools to be served", async || {
        let (code, _) = get(driver, "/apis/trinopool.dev/v1alpha1/trinopools").await;
        (code == 200).then_some(())
    })
    .await;
}

cluster_suite::all_cluster_stories!(crate::real());
