//! The one real cluster of all stories: what is made once, and what they share.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::Instant;
use trino_pool_operator::cluster::resource;

use crate::admin::Admin;
use crate::control_plane::ControlPlane;
use crate::mirror::Mirror;

/// The cluster, as every story has it in hand.
#[derive(Clone)]
pub struct Cluster {
    pub admin: Admin,
    pub mirror: Mirror,
    pub plane: &'static ControlPlane,
    pub audit_log: Arc<PathBuf>,
    /// When the first story could begin.
    pub began: Instant,
    /// Stories that end well leave everything as it is, for whoever wants to look (`TPO_STAY=1`).
    pub stays: bool,
}

impl Cluster {
    /// Installs our custom resource, the operator's roles and Karpenter's node class.
    pub async fn prepare(plane: &'static ControlPlane) -> Self {
        let admin = Admin::of(plane).await;
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        admin.create(definitions, &resource::crd().unwrap()).await;
        plane.kubectl(&[
            "apply",
            "--filename",
            concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/roles.yaml"),
        ]);
        println!("to look: {}", plane.kubectl_words());
        let class = json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1",
            "kind": "KWOKNodeClass",
            "metadata": {"name": "default"},
        });
        admin
            .create("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", &class)
            .await;
        Self {
            mirror: Mirror::start(admin.client(), &Handle::current()),
            admin,
            plane,
            audit_log: Arc::new(plane.audit_log()),
            began: Instant::now(),
            stays: std::env::var("TPO_STAY").is_ok_and(|stay| stay == "1"),
        }
    }
}
