//! What the world and the display need to know of the cluster, read straight from the objects.

use jiff::Timestamp;
use serde_json::Value;

use super::KubeSim;
use super::json as j;
use super::karpenter::{self, POOL_LABEL};
use super::resource::Resource;
use crate::pool::names::{LABEL_COMPONENT, LABEL_INSTANCE};

/// A pod that exists, terminating or not. One that is missing from the next reading is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Where it is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// Value of the instance label.
    pub instance: Option<String>,
    /// Value of the component label.
    pub component: Option<String>,
    /// Where it runs.
    pub node: Option<String>,
    /// The main container's ID while it runs: another one is another process.
    pub container_id: Option<String>,
    /// When that container started.
    pub container_started_at: Option<Timestamp>,
    /// `podIP`, once it runs.
    pub ip: Option<String>,
    /// `status.startTime`.
    pub started_at: Option<Timestamp>,
    /// Condition Ready is True.
    pub ready: bool,
    /// Karpenter's annotation protects it now.
    pub protected: bool,
    /// It is being deleted: its process has been told to end.
    pub terminating: bool,
    /// `spec.containers[0].image`.
    pub image: String,
}

/// A node.
// Independent facts of one object, not states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// NodePool, if it has one.
    pub node_pool: Option<String>,
    /// Name of the claim that owns it.
    pub claim: Option<String>,
    /// Condition Ready is True.
    pub ready: bool,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// It has Karpenter's disrupted taint.
    pub disrupted: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// How many pods name it.
    pub pods: usize,
}

/// A NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimView {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// NodePool it belongs to.
    pub node_pool: String,
    /// Its node, once registered.
    pub node: Option<String>,
    /// Condition Initialized is True.
    pub initialized: bool,
    /// Condition Drifted is True.
    pub drifted: bool,
    /// It is being deleted.
    pub deleting: bool,
}

/// Counts for the display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes.
    pub nodes: usize,
    /// Claims that are Drifted.
    pub drifted: usize,
    /// Claims that are being deleted.
    pub deleting: usize,
    /// Nodes that are unschedulable.
    pub cordoned: usize,
    /// Pods, terminating ones included.
    pub pods: usize,
    /// Pods without a node.
    pub pending: usize,
}

impl KubeSim {
    /// Every pod, by namespace and name.
    #[must_use]
    pub fn pods(&self) -> Vec<PodView> {
        self.store
            .all(Resource::Pods)
            .map(|(_, pod)| pod_view(pod))
            .collect()
    }

    /// Pods of one component whose main container runs, terminating ones included.
    #[must_use]
    pub fn running(&self, component: &str) -> Vec<PodView> {
        self.store
            .all(Resource::Pods)
            .filter(|(_, pod)| j::label(pod, LABEL_COMPONENT) == Some(component))
            .map(|(_, pod)| pod_view(pod))
            .filter(|pod| pod.container_id.is_some())
            .collect()
    }

    /// Every node, by name.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeView> {
        let mut on: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
        for (_, pod) in self.store.all(Resource::Pods) {
            if let Some(node) = j::text(pod, &["spec", "nodeName"]) {
                *on.entry(node).or_default() += 1;
            }
        }
        self.store
            .all(Resource::Nodes)
            .map(|(place, node)| NodeView {
                name: place.1.clone(),
                uid: j::uid(node).to_owned(),
                node_pool: j::label(node, POOL_LABEL).map(str::to_owned),
                claim: j::items(node, &["metadata", "ownerReferences"])
                    .iter()
                    .find(|owner| j::text(owner, &["kind"]) == Some("NodeClaim"))
                    .and_then(|owner| j::text(owner, &["name"]))
                    .map(str::to_owned),
                ready: j::is_true(node, "Ready"),
                unschedulable: j::at(node, &["spec", "unschedulable"]).and_then(Value::as_bool) == Some(true),
                disrupted: j::items(node, &["spec", "taints"])
                    .iter()
                    .any(|taint| j::text(taint, &["key"]) == Some(karpenter::DISRUPTED)),
                deleting: j::is_deleting(node),
                pods: on.get(place.1.as_str()).copied().unwrap_or(0),
            })
            .collect()
    }

    /// Every claim, by name.
    #[must_use]
    pub fn claims(&self) -> Vec<ClaimView> {
        self.store
            .all(Resource::NodeClaims)
            .map(|(place, claim)| ClaimView {
                name: place.1.clone(),
                uid: j::uid(claim).to_owned(),
                node_pool: j::label(claim, POOL_LABEL).unwrap_or_default().to_owned(),
                node: j::text(claim, &["status", "nodeName"]).map(str::to_owned),
                initialized: j::is_true(claim, "Initialized"),
                drifted: j::is_true(claim, "Drifted"),
                deleting: j::is_deleting(claim),
            })
            .collect()
    }

    /// Counts for the display.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let nodes = self.nodes();
        let claims = self.claims();
        let mut counts = Counts {
            nodes: nodes.len(),
            drifted: claims.iter().filter(|claim| claim.drifted).count(),
            deleting: claims.iter().filter(|claim| claim.deleting).count(),
            cordoned: nodes.iter().filter(|node| node.unschedulable).count(),
            ..Counts::default()
        };
        for (_, pod) in self.store.all(Resource::Pods) {
            counts.pods += 1;
            counts.pending += usize::from(j::text(pod, &["spec", "nodeName"]).is_none());
        }
        counts
    }
}

fn pod_view(pod: &Value) -> PodView {
    let text = |path: &[&str]| j::text(pod, path).map(str::to_owned);
    let main = j::items(pod, &["status", "containerStatuses"]).first();
    let running = main.filter(|status| j::at(status, &["state", "running"]).is_some());
    PodView {
        namespace: j::namespace(pod).to_owned(),
        name: j::name(pod).to_owned(),
        uid: j::uid(pod).to_owned(),
        instance: j::label(pod, LABEL_INSTANCE).map(str::to_owned),
        component: j::label(pod, LABEL_COMPONENT).map(str::to_owned),
        node: text(&["spec", "nodeName"]),
        container_id: running
            .and_then(|status| j::text(status, &["containerID"]))
            .map(str::to_owned),
        container_started_at: running.and_then(|status| j::time(status, &["state", "running", "startedAt"])),
        ip: text(&["status", "podIP"]),
        started_at: j::time(pod, &["status", "startTime"]),
        ready: j::is_true(pod, "Ready"),
        protected: karpenter::is_protected(pod),
        terminating: j::is_deleting(pod),
        image: j::items(pod, &["spec", "containers"])
            .first()
            .and_then(|container| j::text(container, &["image"]))
            .unwrap_or_default()
            .to_owned(),
    }
}
