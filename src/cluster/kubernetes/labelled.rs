//! The listing of pods that carry our labels, wherever they are.
//!
//! Beside the port, since no rule that acts may ask for it: labels alone prove nothing (`pool::ownership`), and what
//! acts asks for one instance's workload. It is there for whoever only looks.

use serde_json::Value;

use super::KubernetesCluster;
use super::listing::list;
use super::path::PODS;
use crate::cluster::decode::{self, DecodeError};
use crate::cluster::facts::{NamespacedPod, Undecodable};
use crate::cluster::port::ClusterError;
use crate::pool::ids::Namespace;
use crate::pool::names::{COORDINATOR, LABEL_COMPONENT, LABEL_MANAGED_BY, MANAGED_BY, WORKER};

impl KubernetesCluster {
    /// Every coordinator and worker pod that says it is ours, in the namespaces of the scope, whether or not a
    /// TrinoPool is there for it. A pod that cannot be decoded is in it, by name.
    pub async fn labelled_pods(&self) -> Result<Vec<NamespacedPod>, ClusterError> {
        let selector =
            format!("{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_COMPONENT} in ({COORDINATOR},{WORKER})");
        let mut pods = Vec::new();
        for namespace in self.scope.each() {
            let complete = list(&self.exchange, PODS, namespace, Some(&selector), |item| {
                Ok::<_, DecodeError>(namespaced(item))
            });
            pods.extend(complete.await?.listing.items);
        }
        Ok(pods)
    }
}

fn namespaced(item: &Value) -> NamespacedPod {
    let namespace = item
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .filter(|namespace| !namespace.is_empty())
        .map(Namespace::from);
    let pod = decode::pod(item).map_err(|error| decode::undecodable(item, &error));
    let pod = match &namespace {
        Some(_) => pod,
        // Without it the pod could not be named.
        None => pod.and_then(|pod| {
            Err(Undecodable {
                name: Some(pod.name.to_string()),
                uid: Some(pod.uid.to_string()),
                problem: "metadata.namespace: missing".to_owned(),
            })
        }),
    };
    NamespacedPod { namespace, pod }
}
