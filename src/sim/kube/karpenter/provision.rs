//! Provisioning: pods that fit no node get NodeClaims, which launch, register and become Nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt;
use serde_json::{Value, json};

use super::super::Turn;
use super::super::json as j;
use super::super::kubelet::jittered;
use super::super::resource::Resource;
use super::super::scheduler::{self, Room, Rooms};
use super::{FINALIZER, HASH, HASH_VERSION, Karpenter, POOL_LABEL, node_names, pool_of};

const ZONES: [&str; 3] = ["test-zone-a", "test-zone-b", "test-zone-c"];
const HOSTNAME: &str = "kubernetes.io/hostname";

impl Karpenter {
    /// Creates a claim for every pending pod that no node and no launching claim can take.
    pub(super) fn provision(&mut self, turn: &mut Turn<'_>) {
        let waiting: Vec<Arc<Value>> = scheduler::waiting(turn)
            .into_iter()
            .filter(|pod| {
                j::condition(pod, "PodScheduled").and_then(|entry| j::text(entry, &["reason"]))
                    == Some("Unschedulable")
            })
            .collect();
        if waiting.is_empty() {
            return;
        }
        let mut rooms = Rooms::of_nodes(turn, None);
        rooms.extend(launching_rooms(turn));
        for pod in waiting {
            if rooms.place(&pod).is_some() {
                continue;
            }
            match self.pool_for(turn, &pod, &[]) {
                Some((pool, mut room)) => {
                    create_claim(turn, &pool);
                    room.pods.push(pod);
                    rooms.push(room);
                }
                None => self.events.publish(
                    turn,
                    &pod,
                    "Warning",
                    "FailedScheduling",
                    "Failed to schedule pod, no nodepool has room for it",
                ),
            }
        }
    }

    /// The first NodePool whose nodes would take the pod, beside claims that are `planned` but not
    /// created yet, and the room such a node would be.
    pub(super) fn pool_for(
        &self,
        turn: &Turn<'_>,
        pod: &Value,
        planned: &[Arc<Value>],
    ) -> Option<(Arc<Value>, Room)> {
        turn.store.all(Resource::NodePools).find_map(|(place, pool)| {
            let name = place.1.as_str();
            let planned = planned.iter().filter(|pool| j::name(pool) == name).count();
            if j::is_deleting(pool) || !self.has_capacity(turn, name, planned) {
                return None;
            }
            let room = room_of_pool(turn, pool);
            room.refuses(pod).is_none().then(|| (Arc::clone(pool), room))
        })
    }

    fn has_capacity(&self, turn: &Turn<'_>, pool: &str, planned: usize) -> bool {
        let Some(limit) = self.capacity.get(pool) else {
            return true;
        };
        let claims = turn.store.all(Resource::NodeClaims);
        claims.filter(|(_, claim)| pool_of(claim) == pool).count() + planned < *limit
    }

    /// Moves launching claims on: launched, then registered and initialized with their Node.
    pub(super) fn move_claims_on(&mut self, turn: &mut Turn<'_>) {
        for claim in self.due_claims(turn.store) {
            if j::is_deleting(&claim) || j::is_true(&claim, "Initialized") {
                continue;
            }
            let uid = j::uid(&claim).to_owned();
            let now = turn.now;
            if !j::is_true(&claim, "Launched") {
                let due = *self
                    .launches
                    .entry(uid.clone())
                    .or_insert_with(|| j::later(now, jittered(turn.options.launch_delay, turn.rng)));
                if now >= due {
                    launch(turn, &claim);
                    let due = j::later(now, jittered(turn.options.registration_delay, turn.rng));
                    self.joins.insert(uid.clone(), due);
                    self.launches.remove(&uid);
                }
            } else if self.joins.get(&uid).is_none_or(|due| now >= *due) {
                register(turn, &claim);
                self.joins.remove(&uid);
            }
        }
    }
}

/// A claim with its Node, ready at once: how a world begins. The node's name.
pub(crate) fn add_node(turn: &mut Turn<'_>, pool: &str) -> Option<String> {
    let pool = turn.store.get(Resource::NodePools, "", pool).cloned()?;
    let claim = create_claim(turn, &pool)?;
    let created = turn.store.get(Resource::NodeClaims, "", &claim).cloned()?;
    launch(turn, &created);
    let launched = turn.store.get(Resource::NodeClaims, "", &claim).cloned()?;
    register(turn, &launched)
}

/// Rooms of claims that are no nodes yet.
pub(super) fn launching_rooms(turn: &Turn<'_>) -> Vec<Room> {
    turn.store
        .all(Resource::NodeClaims)
        .map(|(_, claim)| claim)
        .filter(|claim| !j::is_deleting(claim) && !j::is_true(claim, "Registered"))
        .map(|claim| {
            let labels = labels_of(claim);
            let taints = j::items(claim, &["spec", "taints"]).to_vec();
            scheduler::room_to_be(labels, taints, turn.options.pods_per_node, turn.options.node_cpu)
        })
        .collect()
}

fn labels_of(object: &Value) -> BTreeMap<String, String> {
    j::map(object, &["metadata", "labels"])
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn room_of_pool(turn: &Turn<'_>, pool: &Value) -> Room {
    let labels = template_labels(pool);
    let taints = j::items(pool, &["spec", "template", "spec", "taints"]).to_vec();
    scheduler::room_to_be(labels, taints, turn.options.pods_per_node, turn.options.node_cpu)
}

/// Labels every node of the pool has.
fn template_labels(pool: &Value) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for requirement in j::items(pool, &["spec", "template", "spec", "requirements"]) {
        if let [value] = j::items(requirement, &["values"])
            && let (Some(key), Some(value)) = (j::text(requirement, &["key"]), value.as_str())
        {
            labels.insert(key.to_owned(), value.to_owned());
        }
    }
    for (key, value) in [
        ("karpenter.sh/capacity-type", "on-demand"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", "c-2x-amd64-linux"),
    ] {
        labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    for (key, value) in j::map(pool, &["spec", "template", "metadata", "labels"])
        .into_iter()
        .flatten()
    {
        labels.insert(key.clone(), value.as_str().unwrap_or_default().to_owned());
    }
    labels.insert(POOL_LABEL.to_owned(), j::name(pool).to_owned());
    labels
}

/// Creates a claim of the pool; its name.
pub(super) fn create_claim(turn: &mut Turn<'_>, pool: &Value) -> Option<String> {
    let mut labels = template_labels(pool);
    let zone = ZONES[turn.rng.random_range(0..ZONES.len())];
    labels
        .entry("topology.kubernetes.io/zone".to_owned())
        .or_insert_with(|| zone.to_owned());
    let template = &pool["spec"]["template"]["spec"];
    let mut spec = json!({
        "expireAfter": template.get("expireAfter").cloned().unwrap_or(json!("720h")),
        "nodeClassRef": template.get("nodeClassRef").cloned().unwrap_or(json!({
            "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default",
        })),
        "requirements": template.get("requirements").cloned().unwrap_or(json!([])),
        "resources": {"requests": {"cpu": "1", "pods": "1"}},
    });
    for optional in ["taints", "startupTaints", "terminationGracePeriod"] {
        if let Some(value) = template.get(optional) {
            spec[optional] = value.clone();
        }
    }
    let claim = json!({
        "metadata": {
            "generateName": format!("{}-", j::name(pool)),
            "labels": labels,
            "annotations": {
                "karpenter.sh/nodeclaim-min-values-relaxed": "false",
                HASH: j::annotation(pool, HASH).map_or_else(|| super::template_hash(pool), str::to_owned),
                HASH_VERSION: "v3",
            },
            "finalizers": [FINALIZER],
            "ownerReferences": [{
                "apiVersion": "karpenter.sh/v1", "blockOwnerDeletion": true, "kind": "NodePool",
                "name": j::name(pool), "uid": j::uid(pool),
            }],
        },
        "spec": spec,
    });
    let created = turn
        .store
        .create(Resource::NodeClaims, "", claim, turn.now, turn.rng)?;
    Some(j::name(&created).to_owned())
}

fn resources(turn: &Turn<'_>) -> Value {
    json!({
        "cpu": format!("{}m", turn.options.node_cpu),
        "ephemeral-storage": "20Gi",
        "memory": "4086Mi",
        "pods": turn.options.pods_per_node.to_string(),
    })
}

fn launch(turn: &mut Turn<'_>, claim: &Value) {
    let provider = format!("kwok://{}", node_names::node_name(turn.rng));
    let allocatable = resources(turn);
    let now = turn.now;
    turn.store
        .edit(Resource::NodeClaims, "", j::name(claim), |claim| {
            let name = j::name(claim).to_owned();
            j::set(claim, &["metadata", "labels", HOSTNAME], json!(name));
            j::set(
                claim,
                &["metadata", "annotations", "kwok.x-k8s.io/node"],
                json!("fake"),
            );
            j::set(claim, &["status", "providerID"], json!(provider));
            j::set(claim, &["status", "allocatable"], allocatable.clone());
            j::set(claim, &["status", "capacity"], allocatable);
            for (kind, status, reason) in [
                ("Launched", "True", "Launched"),
                ("ConsistentStateFound", "True", "ConsistentStateFound"),
                ("Registered", "Unknown", "NodeNotFound"),
                ("Initialized", "Unknown", "AwaitingReconciliation"),
                ("Ready", "Unknown", "ReconcilingDependents"),
            ] {
                j::set_condition(claim, kind, status, reason, "", now);
            }
        });
}

/// The machine joins: a Node owned by the claim, without a controller flag. Its name.
fn register(turn: &mut Turn<'_>, claim: &Value) -> Option<String> {
    let provider = j::text(claim, &["status", "providerID"])?.to_owned();
    let node = provider.strip_prefix("kwok://")?.to_owned();
    let now = turn.now;
    let object = node_object(turn, claim, &node, &provider);
    turn.store.create(Resource::Nodes, "", object, now, turn.rng);
    turn.store
        .edit(Resource::NodeClaims, "", j::name(claim), |claim| {
            j::set(claim, &["status", "nodeName"], json!(node));
            for kind in ["Registered", "Initialized", "Ready"] {
                j::set_condition(claim, kind, "True", kind, "", now);
            }
        });
    Some(node)
}

fn node_object(turn: &mut Turn<'_>, claim: &Value, name: &str, provider: &str) -> Value {
    let mut labels = labels_of(claim);
    for (key, value) in [
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("karpenter.sh/initialized", "true"),
        ("karpenter.sh/registered", "true"),
        ("kwok.x-k8s.io/node", "fake"),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    let mut annotations = claim["metadata"]["annotations"].clone();
    annotations["node.alpha.kubernetes.io/ttl"] = json!("0");
    let mut node = bare_node(turn, name);
    node["metadata"]["labels"] = json!(labels);
    node["metadata"]["annotations"] = annotations;
    node["metadata"]["finalizers"] = json!([FINALIZER]);
    node["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "karpenter.sh/v1", "blockOwnerDeletion": true, "kind": "NodeClaim",
        "name": j::name(claim), "uid": j::uid(claim),
    }]);
    node["spec"]["providerID"] = json!(provider);
    if let Some(taints) = claim["spec"].get("taints") {
        node["spec"]["taints"] = taints.clone();
    }
    node
}

/// A Ready machine that nobody owns.
pub(crate) fn bare_node(turn: &mut Turn<'_>, name: &str) -> Value {
    let at = j::stamp(turn.now);
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "lastHeartbeatTime": at, "lastTransitionTime": at, "message": message, "reason": reason,
            "status": status, "type": kind,
        })
    };
    let (a, b) = (turn.rng.random_range(0..=255), turn.rng.random_range(1..=254));
    json!({
        "metadata": {"name": name, "labels": {
            HOSTNAME: name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        }},
        "spec": {},
        "status": {
            "addresses": [{"type": "InternalIP", "address": format!("10.255.{a}.{b}")}],
            "allocatable": resources(turn),
            "capacity": resources(turn),
            "conditions": [
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ],
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "kwok-0.7.0",
                "kernelVersion": "kwok-0.7.0", "kubeProxyVersion": "kwok-0.7.0", "kubeletVersion": "kwok-0.7.0",
                "machineID": "", "operatingSystem": "linux", "osImage": "", "systemUUID": "",
            },
            "phase": "Running",
        },
    })
}
