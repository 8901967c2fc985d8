//! From pods to processes: which coordinator containers run now, how they are reached, and which workers
//! they see. Read from a cluster's objects alone, as the kubelet, DNS and Trino's discovery would, whether the
//! cluster is simulated or real.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::pool::names::{
    CATALOG_KEY_PREFIX, CONFIG_VOLUME, COORDINATOR, ENV_ENVIRONMENT, LABEL_COMPONENT, LABEL_INSTANCE, WORKER,
};
use crate::sim::kube::json as j;
use crate::sim::kube::{KubeSim, Resource};
use crate::sim::trino::{Behaviour, RunningCoordinator};

/// Port of a container that declares none.
const DEFAULT_PORT: u64 = 8080;

/// A cluster's objects as they are now, whichever cluster it is.
pub trait Objects {
    /// All of a resource, by namespace and name.
    fn objects(&self, resource: Resource) -> Vec<Arc<Value>>;
    /// One of them.
    fn object(&self, resource: Resource, namespace: &str, name: &str) -> Option<Arc<Value>>;
}

impl Objects for KubeSim {
    fn objects(&self, resource: Resource) -> Vec<Arc<Value>> {
        Self::objects(self, resource)
    }

    fn object(&self, resource: Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        Self::object(self, resource, namespace, name)
    }
}

/// How an instance's coordinator behaves, by instance id.
pub(super) type Behaviours<'a> = &'a mut dyn FnMut(&str) -> Behaviour;

/// Every coordinator container that runs, by namespace and pod name.
pub(super) fn running(cluster: &impl Objects, behaviour: Behaviours<'_>) -> Vec<RunningCoordinator> {
    let pods = cluster.objects(Resource::Pods);
    let workers = workers(&pods);
    let services = cluster.objects(Resource::Services);
    let services = by_selector(&services);
    pods.iter()
        .filter(|pod| j::label(pod, LABEL_COMPONENT) == Some(COORDINATOR))
        .filter_map(|pod| {
            let container = container(pod)?;
            let instance = j::label(pod, LABEL_INSTANCE)?;
            let config = config(cluster, pod);
            Some(RunningCoordinator {
                pod: j::uid(pod).to_owned(),
                container: j::text(container, &["containerID"])?.to_owned(),
                hosts: hosts(pod, &services),
                node_id: j::name(pod).to_owned(),
                environment: environment(pod).unwrap_or("production").to_owned(),
                version: version(container),
                catalogs: catalogs(config.as_deref()),
                workers: workers
                    .get(&(j::namespace(pod), instance))
                    .cloned()
                    .unwrap_or_default(),
                behaviour: behaviour(instance),
            })
        })
        .collect()
}

/// Services that select, by namespace and the first label that they select by: a pod is asked only about those that
/// it may belong to.
type Services<'a> = BTreeMap<(&'a str, &'a str, &'a str), Vec<&'a Value>>;

fn by_selector<S: AsRef<Value>>(services: &[S]) -> Services<'_> {
    let mut by_selector = Services::new();
    for service in services.iter().map(AsRef::as_ref) {
        let first = j::map(service, &["spec", "selector"]).and_then(|selector| selector.iter().next());
        if let Some((key, value)) = first.and_then(|(key, value)| Some((key.as_str(), value.as_str()?))) {
            let of = by_selector
                .entry((j::namespace(service), key, value))
                .or_default();
            of.push(service);
        }
    }
    by_selector
}

/// Node ids of running workers by namespace and instance.
fn workers<P: AsRef<Value>>(pods: &[P]) -> BTreeMap<(&str, &str), Vec<String>> {
    let mut workers: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for pod in pods.iter().map(AsRef::as_ref) {
        if j::label(pod, LABEL_COMPONENT) == Some(WORKER)
            && container(pod).is_some()
            && let Some(instance) = j::label(pod, LABEL_INSTANCE)
        {
            let of = workers.entry((j::namespace(pod), instance)).or_default();
            of.push(j::name(pod).to_owned());
        }
    }
    workers
}

/// Status of the first container, while its process runs: it is told to stop when the pod is deleted, and
/// Trino then stops at once.
fn container(pod: &Value) -> Option<&Value> {
    if j::is_deleting(pod) || j::text(pod, &["status", "phase"]) != Some("Running") {
        return None;
    }
    j::items(pod, &["status", "containerStatuses"])
        .first()
        .filter(|status| j::at(status, &["state", "running"]).is_some())
}

/// The pod's own address, and the name of every Service whose endpoints it is among: ready, not leaving.
fn hosts(pod: &Value, services: &Services<'_>) -> Vec<String> {
    let port = j::items(pod, &["spec", "containers"])
        .first()
        .and_then(|container| j::items(container, &["ports"]).first())
        .and_then(|port| j::at(port, &["containerPort"]))
        .and_then(Value::as_u64)
        .unwrap_or(DEFAULT_PORT);
    let mut hosts: Vec<String> = j::text(pod, &["status", "podIP"])
        .map(|ip| format!("{ip}:{port}"))
        .into_iter()
        .collect();
    if !j::is_true(pod, "Ready") {
        return hosts;
    }
    let labels = j::map(pod, &["metadata", "labels"]).into_iter().flatten();
    let of_label = labels.filter_map(|(key, value)| {
        let key = (j::namespace(pod), key.as_str(), value.as_str()?);
        services.get(&key)
    });
    for service in of_label.flatten() {
        let mut selector = j::map(service, &["spec", "selector"]).into_iter().flatten();
        let selects = selector.all(|(key, value)| j::label(pod, key) == value.as_str());
        if selects {
            for port in j::items(service, &["spec", "ports"]) {
                let port = j::at(port, &["port"])
                    .and_then(Value::as_u64)
                    .unwrap_or(DEFAULT_PORT);
                let (name, namespace) = (j::name(service), j::namespace(service));
                hosts.push(format!("{name}.{namespace}.svc.cluster.local:{port}"));
            }
        }
    }
    hosts
}

fn environment(pod: &Value) -> Option<&str> {
    let container = j::items(pod, &["spec", "containers"]).first()?;
    j::items(container, &["env"])
        .iter()
        .find(|variable| j::text(variable, &["name"]) == Some(ENV_ENVIRONMENT))
        .and_then(|variable| j::text(variable, &["value"]))
}

/// The tag of the image that runs.
fn version(container: &Value) -> String {
    j::text(container, &["image"])
        .and_then(|image| image.rsplit_once(':'))
        .map_or_else(|| "483".to_owned(), |(_, tag)| tag.to_owned())
}

/// The ConfigMap that the pod mounts as its configuration.
fn config(cluster: &impl Objects, pod: &Value) -> Option<Arc<Value>> {
    let volume = j::items(pod, &["spec", "volumes"])
        .iter()
        .find(|volume| j::text(volume, &["name"]) == Some(CONFIG_VOLUME))?;
    let name = j::text(volume, &["configMap", "name"])?;
    cluster.object(Resource::ConfigMaps, j::namespace(pod), name)
}

/// The catalogs that it configures.
fn catalogs(config: Option<&Value>) -> Vec<String> {
    config
        .and_then(|config| j::map(config, &["data"]))
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| {
            let name = key.strip_prefix(CATALOG_KEY_PREFIX)?;
            name.strip_suffix(".properties").map(str::to_owned)
        })
        .collect()
}
