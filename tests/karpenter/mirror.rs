//! What stands in the cluster, followed by watches that all stories share: pods, Services and ConfigMaps of the
//! operator's instances. As the kubelets, DNS and Trino's discovery would see it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource as Kind};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use trino_pool_operator::sim::kube::Resource;
use trino_pool_operator::sim::traffic::Objects;

use crate::admin::name;

const OURS: &str = "app.kubernetes.io/managed-by=trino-pool-operator";

/// Namespace and name.
type Key = (String, String);

type Known = Arc<Mutex<BTreeMap<Key, Arc<Value>>>>;

/// The three kinds.
#[derive(Clone, Default)]
pub struct Mirror {
    pods: Known,
    services: Known,
    config_maps: Known,
}

impl Mirror {
    /// Follows the cluster for as long as the runtime lives.
    pub fn start(client: &Client, runtime: &Handle) -> Self {
        let mirror = Self::default();
        follow::<Pod>(client, runtime, &mirror.pods);
        follow::<Service>(client, runtime, &mirror.services);
        follow::<ConfigMap>(client, runtime, &mirror.config_maps);
        mirror
    }

    /// The pods of a namespace.
    pub fn pods(&self, namespace: &str) -> Vec<Arc<Value>> {
        Namespace(self, namespace).objects(Resource::Pods)
    }
}

fn follow<K>(client: &Client, runtime: &Handle, known: &Known)
where
    K: Kind<DynamicType = ()>,
{
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let known = Arc::clone(known);
    runtime.spawn(async move {
        let events = watcher(api, watcher::Config::default().labels(OURS)).default_backoff();
        // An error is told again by the watcher's next try; a server that is away is what some stories are about.
        let mut events = events.into_stream().filter_map(async |event| event.ok()).boxed();
        let mut listed = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(object) => {
                    let (key, object) = entry(&object);
                    listed.insert(key, object);
                }
                Event::InitDone => *known.lock().unwrap() = std::mem::take(&mut listed),
                Event::Apply(object) => {
                    let (key, object) = entry(&object);
                    known.lock().unwrap().insert(key, object);
                }
                Event::Delete(object) => {
                    known.lock().unwrap().remove(&entry(&object).0);
                }
            }
        }
    });
}

fn entry(object: &DynamicObject) -> (Key, Arc<Value>) {
    let object = with_container_ids(serde_json::to_value(object).unwrap());
    let namespace = object["metadata"]["namespace"].as_str().unwrap().to_owned();
    ((namespace, name(&object).to_owned()), Arc::new(object))
}

/// KWOK starts no container and gives it no id; each start of a pod is one process here.
fn with_container_ids(mut object: Value) -> Value {
    let id = format!("kwok://{}", object["metadata"]["uid"].as_str().unwrap());
    let statuses = object
        .pointer_mut("/status/containerStatuses")
        .and_then(Value::as_array_mut);
    for status in statuses.into_iter().flatten() {
        if status["containerID"].as_str().is_none_or(str::is_empty) {
            status["containerID"] = json!(id);
        }
    }
    object
}

/// One namespace of the mirror.
pub struct Namespace<'a>(pub &'a Mirror, pub &'a str);

impl Objects for Namespace<'_> {
    fn objects(&self, resource: Resource) -> Vec<Arc<Value>> {
        let Self(mirror, namespace) = self;
        let known = match resource {
            Resource::Pods => &mirror.pods,
            Resource::Services => &mirror.services,
            Resource::ConfigMaps => &mirror.config_maps,
            other => panic!("nobody mirrors {other:?}"),
        };
        let known = known.lock().unwrap();
        let of_namespace = known.iter().filter(|((found, _), _)| found == namespace);
        of_namespace.map(|(_, object)| Arc::clone(object)).collect()
    }

    fn object(&self, resource: Resource, namespace: &str, wanted: &str) -> Option<Arc<Value>> {
        let objects = self.objects(resource).into_iter();
        let of_namespace = |object: &Arc<Value>| object["metadata"]["namespace"] == namespace;
        objects.filter(of_namespace).find(|object| name(object) == wanted)
    }
}
