//! What people and other software do to the world: each as a request to the API server, under the actor
//! `admin`, so that it is told apart from what the operator does.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};

use super::{NAMESPACE, StartState, World};
use crate::pool::ids::InstanceId;
use crate::pool::names::{
    ANNOTATION_DO_NOT_DISRUPT, COORDINATOR, LABEL_COMPONENT, LABEL_INSTANCE, LABEL_POOL, ObjectNames,
};
use crate::sim::kube::json as j;
use crate::sim::kube::{ACTOR_HEADER, Resource};
use crate::sim::trino::Behaviour;

/// Who sends these requests.
pub const ADMIN: &str = "admin";

/// Name of the one NodePool a world begins with.
pub const NODE_POOL: &str = "default";

/// Why something could not be done to the world.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The API server refused: method, path, status and message.
    #[error("{0} {1}: HTTP {2}: {3}")]
    Refused(Method, String, u16, String),
    /// The request cannot be made.
    #[error("{0}: {1}")]
    Unmakeable(String, String),
    /// There is no such thing to do it to.
    #[error("there is no {0}")]
    NoSuch(String),
}

impl World {
    /// Namespace, NodePool and TrinoPools.
    pub(super) fn furnish(&mut self) -> Result<(), AdminError> {
        self.kube.ensure_namespace(NAMESPACE, self.now);
        match self.options.state {
            StartState::Empty => {}
            StartState::Recorded => self.load_recorded()?,
        }
        let plan = self.options.node_pool.clone();
        // The recorded claims bring their own, with the hash that they carry.
        if self.kube.object(Resource::NodePools, "", NODE_POOL).is_none() {
            self.kube.create_node_pool(NODE_POOL, &plan, self.now);
        }
        for name in self.options.pool_names() {
            let pool = self.options.trino_pool(&name);
            self.create(Resource::TrinoPools, NAMESPACE, &pool)?;
        }
        Ok(())
    }

    fn load_recorded(&mut self) -> Result<(), AdminError> {
        const RECORDED: [(&str, &str); 3] = [
            (
                "nodeclaims-clean.json",
                include_str!("../../../tests/fixtures/karpenter/nodeclaims-clean.json"),
            ),
            (
                "nodes-clean.json",
                include_str!("../../../tests/fixtures/karpenter/nodes-clean.json"),
            ),
            (
                "workload-clean.json",
                include_str!("../../../tests/fixtures/karpenter/workload-clean.json"),
            ),
        ];
        for (name, text) in RECORDED {
            let list = serde_json::from_str(text)
                .map_err(|error| AdminError::Unmakeable(name.to_owned(), error.to_string()))?;
            self.kube.load_list(&list, self.now);
        }
        Ok(())
    }

    /// Lets the clients of every pool begin now.
    pub fn start_clients(&mut self) {
        for pool in self.options.pool_names() {
            for _ in 0..self.options.clients {
                self.traffic.clients.add(&pool, self.now);
            }
        }
    }

    /// Changes the NodePool's template, so that every node made before has drifted.
    pub fn drift_all(&mut self) -> Result<(), AdminError> {
        if self.kube.change_node_pool_template(NODE_POOL) {
            Ok(())
        } else {
            Err(AdminError::NoSuch(format!("NodePool {NODE_POOL}")))
        }
    }

    /// Merges `change` into the NodePool, through the API.
    pub fn patch_node_pool(&mut self, change: &Value) -> Result<(), AdminError> {
        self.patch(Resource::NodePools, "", NODE_POOL, change)
    }

    /// Deletes a NodeClaim, as a person or Karpenter's own disruption does.
    pub fn delete_claim(&mut self, claim: &str) -> Result<(), AdminError> {
        self.delete(Resource::NodeClaims, "", claim)
    }

    /// Makes a node unschedulable, by a person's hand.
    pub fn cordon(&mut self, node: &str) -> Result<(), AdminError> {
        self.patch(
            Resource::Nodes,
            "",
            node,
            &json!({"spec": {"unschedulable": true}}),
        )
    }

    /// Takes the protection off a pod.
    pub fn strip_protection(&mut self, pod: &str) -> Result<(), AdminError> {
        let patch = json!({"metadata": {"annotations": {ANNOTATION_DO_NOT_DISRUPT: null}}});
        self.patch(Resource::Pods, NAMESPACE, pod, &patch)
    }

    /// Merges `spec` into a TrinoPool's spec.
    pub fn patch_pool(&mut self, pool: &str, spec: &Value) -> Result<(), AdminError> {
        self.patch(Resource::TrinoPools, NAMESPACE, pool, &json!({"spec": spec}))
    }

    /// Gives a TrinoPool another release of another image tag.
    pub fn release(&mut self, pool: &str, release: &str, image: &str) -> Result<(), AdminError> {
        self.patch_pool(pool, &json!({"release": release, "template": {"image": image}}))
    }

    /// Changes how many instances a TrinoPool wants, and its floor.
    pub fn scale(&mut self, pool: &str, instances: u32, min_serving: u32) -> Result<(), AdminError> {
        self.patch_pool(pool, &json!({"instances": instances, "minServing": min_serving}))
    }

    /// Deletes a TrinoPool.
    pub fn delete_pool(&mut self, pool: &str) -> Result<(), AdminError> {
        self.delete(Resource::TrinoPools, NAMESPACE, pool)
    }

    /// Restarts an instance's workers as `kubectl rollout restart` does: by an annotation in the pod template.
    pub fn restart_workers(&mut self, instance: &str) -> Result<(), AdminError> {
        let at = self.now.to_string();
        let template = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": at}}});
        let workers = ObjectNames::of(&InstanceId::new(instance)).workers;
        self.patch(
            Resource::Deployments,
            NAMESPACE,
            workers.as_str(),
            &json!({"spec": {"template": template}}),
        )
    }

    /// A pod is deleted by somebody else.
    pub fn delete_pod(&mut self, pod: &str) -> Result<(), AdminError> {
        self.delete(Resource::Pods, NAMESPACE, pod)
    }

    /// An instance's coordinator container is killed for want of memory and started anew in the same pod.
    pub fn kill_coordinator(&mut self, instance: &str) -> Result<(), AdminError> {
        let pod = self.coordinator_pod(instance)?;
        let (namespace, name) = (j::namespace(&pod), j::name(&pod));
        if self
            .kube
            .restart_container(namespace, name, 137, "OOMKilled", self.now)
        {
            Ok(())
        } else {
            Err(AdminError::NoSuch(format!("running coordinator of {instance}")))
        }
    }

    /// Replaces an instance's coordinator process without Kubernetes seeing it (fault T05).
    pub fn restart_behind(&mut self, instance: &str) -> Result<(), AdminError> {
        let pod = self.coordinator_pod(instance)?;
        let now = self.now;
        if self
            .traffic
            .trino
            .restart_behind(j::uid(&pod), now, &mut self.rng)
        {
            Ok(())
        } else {
            Err(AdminError::NoSuch(format!("coordinator process of {instance}")))
        }
    }

    /// From now on, how an instance's coordinator behaves.
    pub fn misbehave(&mut self, instance: &str, behaviour: Behaviour) {
        self.traffic.misbehave(instance, behaviour);
        self.synced = None;
    }

    /// Every pod of an instance, by name.
    #[must_use]
    pub fn pods_of(&self, instance: &str) -> Vec<Arc<Value>> {
        let mut pods = self.kube.objects(Resource::Pods);
        pods.retain(|pod| j::label(pod, LABEL_INSTANCE) == Some(instance));
        pods
    }

    /// The coordinator pod of an instance that is not leaving.
    pub fn coordinator_pod(&self, instance: &str) -> Result<Arc<Value>, AdminError> {
        self.pods_of(instance)
            .into_iter()
            .find(|pod| j::label(pod, LABEL_COMPONENT) == Some(COORDINATOR) && !j::is_deleting(pod))
            .ok_or_else(|| AdminError::NoSuch(format!("coordinator pod of {instance}")))
    }

    /// Ids of the instances that have a coordinator Deployment, by id; of one pool, or of all.
    #[must_use]
    pub fn instances(&self, pool: Option<&str>) -> Vec<String> {
        self.kube
            .objects(Resource::Deployments)
            .iter()
            .filter(|deployment| pool.is_none() || j::label(deployment, LABEL_POOL) == pool)
            .filter(|deployment| j::name(deployment).ends_with("-coordinator"))
            .filter_map(|deployment| j::label(deployment, LABEL_INSTANCE).map(str::to_owned))
            .collect()
    }

    /// Names of the nodes that an instance's pods are on, the coordinator's first.
    #[must_use]
    pub fn nodes_of(&self, instance: &str) -> Vec<String> {
        let mut pods = self.pods_of(instance);
        pods.sort_by_key(|pod| j::label(pod, LABEL_COMPONENT) != Some(COORDINATOR));
        pods.iter()
            .filter_map(|pod| j::text(pod, &["spec", "nodeName"]))
            .filter(|node| !node.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Name of the NodeClaim of a node.
    #[must_use]
    pub fn claim_of(&self, node: &str) -> Option<String> {
        self.kube
            .objects(Resource::NodeClaims)
            .iter()
            .find(|claim| j::text(claim, &["status", "nodeName"]) == Some(node))
            .map(|claim| j::name(claim).to_owned())
    }

    fn create(&mut self, resource: Resource, namespace: &str, object: &Value) -> Result<(), AdminError> {
        let path = path(resource, namespace, None);
        self.send(Method::POST, path, "application/json", Some(object))
    }

    fn patch(
        &mut self,
        resource: Resource,
        namespace: &str,
        name: &str,
        change: &Value,
    ) -> Result<(), AdminError> {
        let path = path(resource, namespace, Some(name));
        self.send(Method::PATCH, path, "application/merge-patch+json", Some(change))
    }

    fn delete(&mut self, resource: Resource, namespace: &str, name: &str) -> Result<(), AdminError> {
        let path = path(resource, namespace, Some(name));
        self.send(Method::DELETE, path, "application/json", None)
    }

    fn send(
        &mut self,
        method: Method,
        path: String,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<(), AdminError> {
        let request = Request::builder()
            .method(&method)
            .uri(&path)
            .header(ACTOR_HEADER, ADMIN)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string())))
            .map_err(|error| AdminError::Unmakeable(path.clone(), error.to_string()))?;
        let answer = self.kube.handle(&request, self.now);
        if answer.status().is_success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(answer.body()).into_owned();
        Err(AdminError::Refused(
            method,
            path,
            answer.status().as_u16(),
            message,
        ))
    }
}

fn path(resource: Resource, namespace: &str, name: Option<&str>) -> String {
    let kind = resource.kind();
    let root = if kind.group.is_empty() { "api" } else { "apis" };
    let mut path = format!("/{root}/{}", kind.api_version());
    if kind.namespaced {
        path = format!("{path}/namespaces/{namespace}");
    }
    path = format!("{path}/{}", kind.plural);
    match name {
        Some(name) => format!("{path}/{name}"),
        None => path,
    }
}
