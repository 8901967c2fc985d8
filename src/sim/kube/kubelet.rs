//! The kubelets of all nodes, pod garbage collection and the node-lifecycle taints.
//!
//! A bound pod starts after a delay and becomes ready after another, or when the world says so. A
//! deleted pod's process ends at once; its object goes a little later, and stays for ever on a node
//! whose kubelet is lost (A08).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Turn;
use super::json as j;
use super::objects::{Place, Store, node_of_pod, place_of};
use super::resource::Resource;
use super::workloads;
use crate::pool::canonical::hex;

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// What the kubelets remember beside the objects. Keys are pod UIDs.
#[derive(Debug, Default)]
pub(super) struct Kubelet {
    starts: BTreeMap<String, Timestamp>,
    readies: BTreeMap<String, Timestamp>,
    stops: BTreeMap<String, Timestamp>,
    /// What the world says about a pod's readiness; outranks every delay.
    told: BTreeMap<String, bool>,
    /// Of these it has said something new.
    told_anew: BTreeSet<String>,
    /// The revision up to which changes were looked at.
    seen: u64,
    /// Pods that wait for a time, by place.
    waiting: BTreeSet<Place>,
    /// UIDs of nodes whose kubelet no longer answers, and since when.
    pub lost: BTreeMap<String, Timestamp>,
    /// Images that cannot be pulled.
    pub bad_images: BTreeSet<String>,
    next_ip: u32,
}

impl Kubelet {
    /// Moves every bound pod on that has something to do: it or its node changed, the world said something about it,
    /// its node is lost, or it waits for a time.
    pub(super) fn step(&mut self, turn: &mut Turn<'_>) {
        let due = self.due(turn.store);
        for place in due {
            let Some(pod) = turn.store.at(Resource::Pods, &place).cloned() else {
                continue;
            };
            let Some(node) = node_of_pod(&pod) else {
                continue;
            };
            let Some(node) = turn.store.get(Resource::Nodes, "", node).cloned() else {
                turn.destroy(Resource::Pods, &pod, "pod-garbage-collector", Some(0));
                continue;
            };
            if let Some(since) = self.lost.get(j::uid(&node)).copied() {
                let patience = turn.options.unreachable_eviction;
                if turn.now >= j::later(since, patience) && !j::is_deleting(&pod) {
                    turn.destroy(Resource::Pods, &pod, "taint-eviction-controller", None);
                }
                continue;
            }
            if self.move_on(turn, &pod, &node) {
                self.waiting.insert(place);
            }
        }
    }

    /// Places of the pods to look at, and what was remembered of pods that are gone is forgotten.
    fn due(&mut self, store: &Store) -> BTreeSet<Place> {
        let seen = std::mem::replace(&mut self.seen, store.revision());
        let mut due = std::mem::take(&mut self.waiting);
        let told = std::mem::take(&mut self.told_anew);
        let Some(changes) = store.since(seen) else {
            let gone = |uid: &String| store.spot_of(uid).is_none();
            for timers in [&mut self.starts, &mut self.readies, &mut self.stops] {
                timers.retain(|uid, _| !gone(uid));
            }
            self.told.retain(|uid, _| !gone(uid));
            return store.places(Resource::Pods);
        };
        for change in changes {
            match change.resource {
                Resource::Pods if change.deleted => self.forget(j::uid(&change.object)),
                Resource::Pods => {
                    due.insert(place_of(&change.object));
                }
                Resource::Nodes => {
                    let pods = store.pods_of_node(j::name(&change.object));
                    due.extend(pods.map(|pod| place_of(pod)));
                }
                _ => {}
            }
        }
        let told = told.iter().filter_map(|uid| store.spot_of(uid));
        due.extend(told.map(|(_, place)| place.clone()));
        for node in self.lost.keys().filter_map(|uid| store.by_uid(uid)) {
            let pods = store.pods_of_node(j::name(node));
            due.extend(pods.map(|pod| place_of(pod)));
        }
        due
    }

    fn forget(&mut self, uid: &str) {
        for timers in [&mut self.starts, &mut self.readies, &mut self.stops] {
            timers.remove(uid);
        }
        self.told.remove(uid);
    }

    /// Says whether the main container of the pod of this UID is ready.
    pub(super) fn tell(&mut self, uid: &str, ready: bool) {
        if self.told.get(uid) != Some(&ready) {
            self.told.insert(uid.to_owned(), ready);
            self.told_anew.insert(uid.to_owned());
        }
    }

    /// Moves one pod on; whether it waits for a time now.
    fn move_on(&mut self, turn: &mut Turn<'_>, pod: &Arc<Value>, node: &Value) -> bool {
        let now = turn.now;
        let uid = j::uid(pod).to_owned();
        if j::is_deleting(pod) {
            let stop = *self
                .stops
                .entry(uid)
                .or_insert_with(|| j::later(now, turn.options.stop_delay));
            let latest = j::time(pod, &["metadata", "deletionTimestamp"]).unwrap_or(now);
            if now >= stop.min(latest) {
                turn.store
                    .delete(Resource::Pods, j::namespace(pod), j::name(pod), Some(0), now);
            }
            return true;
        }
        if workloads::is_finished(pod) {
            return false;
        }
        if j::text(pod, &["status", "phase"]) != Some("Running") {
            let start = *self
                .starts
                .entry(uid)
                .or_insert_with(|| j::later(now, jittered(turn.options.start_delay, turn.rng)));
            if now >= start {
                self.start(turn, pod, node);
            }
            return true;
        }
        let ready = self.is_ready(turn, pod);
        if ready != j::is_true(pod, "Ready") {
            turn.store
                .edit(Resource::Pods, j::namespace(pod), j::name(pod), |pod| {
                    set_ready(pod, ready, now);
                });
        }
        !ready && self.readies.contains_key(j::uid(pod))
    }

    fn is_ready(&mut self, turn: &mut Turn<'_>, pod: &Value) -> bool {
        if let Some(told) = self.told.get(j::uid(pod)) {
            return *told;
        }
        let held = turn
            .options
            .readiness_held
            .as_ref()
            .is_some_and(|(key, value)| j::label(pod, key) == Some(value));
        if held || j::is_true(pod, "Ready") {
            return !held;
        }
        let now = turn.now;
        let delay = turn.options.readiness_delay;
        let due = *self
            .readies
            .entry(j::uid(pod).to_owned())
            .or_insert_with(|| j::later(now, jittered(delay, turn.rng)));
        now >= due
    }

    fn start(&mut self, turn: &mut Turn<'_>, pod: &Value, node: &Value) {
        let now = turn.now;
        let bad = j::items(pod, &["spec", "containers"]).iter().any(|container| {
            j::text(container, &["image"]).is_some_and(|image| self.bad_images.contains(image))
        });
        let ip = if bad { None } else { Some(self.next_ip()) };
        let host = j::items(node, &["status", "addresses"])
            .iter()
            .find_map(|address| j::text(address, &["address"]))
            .unwrap_or("10.255.0.1")
            .to_owned();
        let rng = &mut *turn.rng;
        turn.store
            .edit(Resource::Pods, j::namespace(pod), j::name(pod), |pod| {
                let statuses: Vec<Value> = j::items(pod, &["spec", "containers"])
                    .iter()
                    .map(|container| container_status(container, bad, now, rng))
                    .collect();
                j::set(pod, &["status", "containerStatuses"], json!(statuses));
                j::set(pod, &["status", "hostIP"], json!(host));
                j::set(pod, &["status", "startTime"], json!(j::stamp(now)));
                j::set(pod, &["status", "qosClass"], json!("Burstable"));
                pod_condition(pod, "Initialized", true, now);
                if let Some(ip) = ip {
                    j::set(pod, &["status", "phase"], json!("Running"));
                    j::set(pod, &["status", "podIP"], json!(ip));
                    j::set(pod, &["status", "podIPs"], json!([{"ip": ip}]));
                }
                pod_condition(pod, "Ready", false, now);
                pod_condition(pod, "ContainersReady", false, now);
            });
        if bad {
            // The pull is tried again after a while.
            self.starts
                .insert(j::uid(pod).to_owned(), j::later(now, Duration::from_secs(20)));
        }
    }

    /// Ends the first container of a running pod and starts it anew at once: another container ID, one
    /// more restart, and the end it came to in `lastState`. False when there is no such running pod.
    pub(super) fn restart(&mut self, turn: &mut Turn<'_>, pod: &Value, exit_code: i32, reason: &str) -> bool {
        if j::text(pod, &["status", "phase"]) != Some("Running") || j::is_deleting(pod) {
            return false;
        }
        self.readies.remove(j::uid(pod));
        self.told.remove(j::uid(pod));
        let now = turn.now;
        let rng = &mut *turn.rng;
        turn.store
            .edit(Resource::Pods, j::namespace(pod), j::name(pod), |pod| {
                let Some(list) = j::list_mut(pod, &["status", "containerStatuses"]) else {
                    return;
                };
                if let Some(status) = list.first_mut() {
                    let started = j::at(status, &["state", "running", "startedAt"]).cloned();
                    let restarts = j::at(status, &["restartCount"]).and_then(Value::as_u64);
                    status["lastState"] = json!({"terminated": {
                        "containerID": status.get("containerID").cloned().unwrap_or_default(),
                        "exitCode": exit_code,
                        "finishedAt": j::stamp(now),
                        "reason": reason,
                        "startedAt": started.unwrap_or_default(),
                    }});
                    status["containerID"] = json!(container_id(rng));
                    status["restartCount"] = json!(restarts.unwrap_or(0) + 1);
                    status["state"] = json!({"running": {"startedAt": j::stamp(now)}});
                }
                set_ready(pod, false, now);
            })
    }

    fn next_ip(&mut self) -> String {
        self.next_ip += 1;
        let [_, a, b, c] = self.next_ip.to_be_bytes();
        format!("10.{a}.{b}.{c}")
    }
}

/// Marks the node as its lifecycle controller does when the kubelet stops reporting.
pub(super) fn mark_lost(node: &mut Value, now: Timestamp) {
    j::set_condition(
        node,
        "Ready",
        "Unknown",
        "NodeStatusUnknown",
        "Kubelet stopped posting node status.",
        now,
    );
    if let Some(taints) = j::list_mut(node, &["spec", "taints"]) {
        for effect in ["NoSchedule", "NoExecute"] {
            taints.push(json!({"effect": effect, "key": UNREACHABLE, "timeAdded": j::stamp(now)}));
        }
    }
}

/// Takes [`mark_lost`] back.
pub(super) fn mark_found(node: &mut Value, now: Timestamp) {
    j::set_condition(
        node,
        "Ready",
        "True",
        "KubeletReady",
        "kubelet is posting ready status",
        now,
    );
    if let Some(taints) = j::list_mut(node, &["spec", "taints"]) {
        taints.retain(|taint| j::text(taint, &["key"]) != Some(UNREACHABLE));
        if taints.is_empty() {
            j::remove(node, &["spec", "taints"]);
        }
    }
}

fn set_ready(pod: &mut Value, ready: bool, now: Timestamp) {
    pod_condition(pod, "Ready", ready, now);
    pod_condition(pod, "ContainersReady", ready, now);
    if let Some(list) = j::list_mut(pod, &["status", "containerStatuses"]) {
        for status in list {
            status["ready"] = json!(ready);
        }
    }
}

fn pod_condition(pod: &mut Value, kind: &str, status: bool, now: Timestamp) {
    let status = if status { "True" } else { "False" };
    j::set_condition(pod, kind, status, "", "", now);
}

fn container_status(container: &Value, bad: bool, now: Timestamp, rng: &mut ChaCha8Rng) -> Value {
    let image = j::text(container, &["image"]).unwrap_or_default();
    let name = j::text(container, &["name"]).unwrap_or_default();
    if bad {
        return json!({
            "image": image, "imageID": "", "lastState": {}, "name": name, "ready": false,
            "restartCount": 0, "started": false,
            "state": {"waiting": {
                "message": format!("Back-off pulling image \"{image}\""), "reason": "ImagePullBackOff",
            }},
        });
    }
    json!({
        "containerID": container_id(rng),
        "image": image,
        "imageID": image_id(image),
        "lastState": {},
        "name": name,
        "ready": false,
        "restartCount": 0,
        "started": true,
        "state": {"running": {"startedAt": j::stamp(now)}},
    })
}

fn container_id(rng: &mut ChaCha8Rng) -> String {
    let mut bytes = [0; 32];
    rng.fill_bytes(&mut bytes);
    format!("containerd://{}", hex(&bytes))
}

/// The same image always has the same content.
fn image_id(image: &str) -> String {
    let repository = image.rsplit_once(':').map_or(image, |(repository, _)| repository);
    format!("{repository}@sha256:{}", hex(&Sha256::digest(image.as_bytes())))
}

/// The delay and up to a quarter more.
pub(super) fn jittered(delay: Duration, rng: &mut ChaCha8Rng) -> Duration {
    delay.mul_f64(1.0 + rng.random_range(0.0..0.25))
}
