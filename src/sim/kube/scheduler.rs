//! The scheduler: which node a pod fits, and binding.
//!
//! Respects `spec.unschedulable`, taints, nodeSelector, required node affinity (labels and
//! `metadata.name`), required pod anti-affinity, pods per node and CPU requests. Among fitting nodes
//! the emptiest wins, then the first by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::Turn;
use super::json as j;
use super::resource::Resource;
use super::workloads;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// A place where pods may go: a node, or a node that does not exist yet.
#[derive(Clone, Debug)]
pub(super) struct Room {
    /// Node name; empty for a node to be.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Value>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Pods there, terminating ones included.
    pub pods: Vec<Arc<Value>>,
    /// How many pods it holds.
    pub pod_limit: usize,
    /// CPU for all of them, thousandths.
    pub cpu: u64,
}

impl Room {
    fn of_node(node: &Value, pods: Vec<Arc<Value>>) -> Self {
        let allocatable = |what: &str| j::at(node, &["status", "allocatable", what]);
        let pod_limit = allocatable("pods")
            .and_then(|limit| limit.as_str().and_then(|text| text.parse().ok()))
            .unwrap_or(110);
        Self {
            name: j::name(node).to_owned(),
            labels: text_map(j::at(node, &["metadata", "labels"])),
            taints: j::items(node, &["spec", "taints"]).to_vec(),
            unschedulable: j::at(node, &["spec", "unschedulable"]) == Some(&json!(true)),
            pods,
            pod_limit,
            cpu: allocatable("cpu").map_or(u64::MAX, |cpu| j::milli(Some(cpu))),
        }
    }

    /// Why the pod cannot go here, in the scheduler's words; `None` when it can.
    pub(super) fn refuses(&self, pod: &Value) -> Option<&'static str> {
        if self.unschedulable {
            return Some("node(s) were unschedulable");
        }
        if self.taints.iter().any(|taint| !tolerates(pod, taint)) {
            return Some("node(s) had untolerated taint(s)");
        }
        if !self.matches_affinity(pod) {
            return Some("node(s) didn't match Pod's node affinity/selector");
        }
        if self.pods.len() >= self.pod_limit {
            return Some("Too many pods");
        }
        let used: u64 = self.pods.iter().map(|pod| cpu_of(pod)).sum();
        if used.saturating_add(cpu_of(pod)) > self.cpu {
            return Some("Insufficient cpu");
        }
        let repelled = self
            .pods
            .iter()
            .any(|there| repels(pod, there) || repels(there, pod));
        repelled.then_some("node(s) didn't match pod anti-affinity rules")
    }

    fn matches_affinity(&self, pod: &Value) -> bool {
        let selector = text_map(j::at(pod, &["spec", "nodeSelector"]));
        if !selector
            .iter()
            .all(|(key, value)| self.labels.get(key) == Some(value))
        {
            return false;
        }
        let terms = j::items(
            pod,
            &[
                "spec",
                "affinity",
                "nodeAffinity",
                "requiredDuringSchedulingIgnoredDuringExecution",
                "nodeSelectorTerms",
            ],
        );
        terms.is_empty()
            || terms.iter().any(|term| {
                j::items(term, &["matchExpressions"]).iter().all(|expression| {
                    let key = j::text(expression, &["key"]).unwrap_or_default();
                    matches(expression, self.labels.get(key).map(String::as_str))
                }) && j::items(term, &["matchFields"]).iter().all(|field| {
                    j::text(field, &["key"]) == Some("metadata.name") && matches(field, Some(&self.name))
                })
            })
    }
}

/// A node to be, with these labels and taints.
pub(super) fn room_to_be(
    labels: BTreeMap<String, String>,
    taints: Vec<Value>,
    pod_limit: usize,
    cpu: u64,
) -> Room {
    Room {
        name: String::new(),
        labels,
        taints,
        unschedulable: false,
        pods: Vec::new(),
        pod_limit,
        cpu,
    }
}

/// Places for pods, the emptiest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Rooms {
    list: Vec<Room>,
    /// How many pods a room has, and where it is in the list.
    emptiest: BTreeSet<(usize, usize)>,
}

impl Rooms {
    /// All nodes with the pods on them, by name, but for those that `leave_out` names.
    pub(super) fn of_nodes(turn: &Turn<'_>, leave_out: Option<&str>) -> Self {
        let nodes = turn.store.all(Resource::Nodes);
        nodes
            .filter(|(place, _)| Some(place.1.as_str()) != leave_out)
            .map(|(place, node)| {
                let pods = turn.store.pods_of_node(&place.1);
                let pods = pods.filter(|pod| !workloads::is_finished(pod)).cloned().collect();
                Room::of_node(node, pods)
            })
            .collect()
    }

    pub(super) fn push(&mut self, room: Room) {
        self.emptiest.insert((room.pods.len(), self.list.len()));
        self.list.push(room);
    }

    /// Puts the pod into the emptiest room that takes it, the first among equals.
    pub(super) fn place(&mut self, pod: &Arc<Value>) -> Option<&Room> {
        let refuses = |index: usize| {
            self.list
                .get(index)
                .is_none_or(|room| room.refuses(pod).is_some())
        };
        let (pods, index) = *self.emptiest.iter().find(|(_, index)| !refuses(*index))?;
        self.emptiest.remove(&(pods, index));
        self.emptiest.insert((pods + 1, index));
        let room = self.list.get_mut(index)?;
        room.pods.push(Arc::clone(pod));
        Some(room)
    }
}

impl FromIterator<Room> for Rooms {
    fn from_iter<I: IntoIterator<Item = Room>>(rooms: I) -> Self {
        let mut all = Self::default();
        all.extend(rooms);
        all
    }
}

impl Extend<Room> for Rooms {
    fn extend<I: IntoIterator<Item = Room>>(&mut self, rooms: I) {
        for room in rooms {
            self.push(room);
        }
    }
}

/// Pods that wait for a node, oldest first.
pub(super) fn waiting(turn: &Turn<'_>) -> Vec<Arc<Value>> {
    let mut pods: Vec<Arc<Value>> = turn
        .store
        .unbound_pods()
        .filter(|pod| !j::is_deleting(pod) && !workloads::is_finished(pod))
        .cloned()
        .collect();
    pods.sort_by_cached_key(|pod| j::time(pod, &["metadata", "creationTimestamp"]));
    pods
}

/// Binds every waiting pod that fits somewhere, and says of the others why not.
pub(super) fn step(turn: &mut Turn<'_>) {
    let waiting = waiting(turn);
    if waiting.is_empty() {
        return;
    }
    let mut rooms = Rooms::of_nodes(turn, None);
    for pod in waiting {
        let bound = rooms.place(&pod).map(|room| room.name.clone());
        let message = match bound {
            Some(_) => String::new(),
            None => unschedulable_message(&rooms.list, &pod),
        };
        let now = turn.now;
        turn.store
            .edit(Resource::Pods, j::namespace(&pod), j::name(&pod), |pod| {
                if let Some(node) = bound {
                    j::set(pod, &["spec", "nodeName"], json!(node));
                    j::set_condition(pod, "PodScheduled", "True", "", "", now);
                } else {
                    j::set_condition(pod, "PodScheduled", "False", "Unschedulable", &message, now);
                }
            });
    }
}

fn unschedulable_message(rooms: &[Room], pod: &Value) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in rooms.iter().filter_map(|room| room.refuses(pod)) {
        *counts.entry(reason).or_default() += 1;
    }
    let reasons: Vec<String> = counts
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    if reasons.is_empty() {
        "no nodes available to schedule pods".to_owned()
    } else {
        format!("0/{} nodes are available: {}.", rooms.len(), reasons.join(", "))
    }
}

fn text_map(value: Option<&Value>) -> BTreeMap<String, String> {
    value
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// One `matchExpressions`, `matchFields` or requirement entry against a value.
fn matches(expression: &Value, have: Option<&str>) -> bool {
    let listed = j::items(expression, &["values"])
        .iter()
        .any(|value| have.is_some_and(|have| value.as_str() == Some(have)));
    match j::text(expression, &["operator"]).unwrap_or("In") {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => have.is_some(),
        "DoesNotExist" => have.is_none(),
        _ => false,
    }
}

/// Whether a taint lets the pod in. `PreferNoSchedule` always does.
pub(super) fn tolerates(pod: &Value, taint: &Value) -> bool {
    let field = |name: &str| j::text(taint, &[name]).unwrap_or_default();
    if field("effect") == "PreferNoSchedule" {
        return true;
    }
    j::items(pod, &["spec", "tolerations"]).iter().any(|toleration| {
        let said = |name: &str| j::text(toleration, &[name]).unwrap_or_default();
        let effect = said("effect").is_empty() || said("effect") == field("effect");
        let key = if said("key").is_empty() {
            said("operator") == "Exists"
        } else {
            said("key") == field("key") && (said("operator") == "Exists" || said("value") == field("value"))
        };
        effect && key
    })
}

/// Whether a pod's required anti-affinity, per host, keeps the other one away.
fn repels(pod: &Value, other: &Value) -> bool {
    let terms = j::items(
        pod,
        &[
            "spec",
            "affinity",
            "podAntiAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
        ],
    );
    terms.iter().any(|term| {
        let namespaces = j::items(term, &["namespaces"]);
        let near = if namespaces.is_empty() {
            j::namespace(pod) == j::namespace(other)
        } else {
            namespaces.iter().any(|name| name == j::namespace(other))
        };
        let labels = text_map(j::at(term, &["labelSelector", "matchLabels"]));
        near && j::text(term, &["topologyKey"]) == Some(HOSTNAME)
            && labels
                .iter()
                .all(|(key, value)| j::label(other, key) == Some(value))
            && j::items(term, &["labelSelector", "matchExpressions"])
                .iter()
                .all(|expression| {
                    let key = j::text(expression, &["key"]).unwrap_or_default();
                    matches(expression, j::label(other, key))
                })
    })
}

/// CPU a pod asks for, thousandths.
pub(super) fn cpu_of(pod: &Value) -> u64 {
    j::items(pod, &["spec", "containers"])
        .iter()
        .map(|container| j::milli(j::at(container, &["resources", "requests", "cpu"])))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(name: &str) -> Room {
        let labels = BTreeMap::from([("team".to_owned(), "analytics".to_owned())]);
        Room {
            name: name.to_owned(),
            ..room_to_be(labels, Vec::new(), 2, 2000)
        }
    }

    #[test]
    fn a_cordon_a_taint_and_an_excluded_name_keep_pods_away() {
        let pod = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1500m"}}}]}});
        assert_eq!(room("n").refuses(&pod), None);
        let mut cordoned = room("n");
        cordoned.unschedulable = true;
        assert!(cordoned.refuses(&pod).is_some());
        let mut tainted = room("n");
        tainted.taints = vec![json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"})];
        assert!(tainted.refuses(&pod).is_some());
        let tolerant =
            json!({"spec": {"tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]}});
        assert_eq!(tainted.refuses(&tolerant), None);
        let avoiding = json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "team", "operator": "In", "values": ["analytics"]}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}]}}}}});
        assert!(room("n").refuses(&avoiding).is_some());
        assert_eq!(room("m").refuses(&avoiding), None);
    }

    #[test]
    fn cpu_and_anti_affinity_bound_a_node() {
        let pod = Arc::new(json!({
            "metadata": {"namespace": "a", "labels": {"app": "trino"}},
            "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
        }));
        let mut rooms = Rooms::from_iter([room("a"), room("b")]);
        let names: Vec<String> = (0..4).map(|_| rooms.place(&pod).unwrap().name.clone()).collect();
        assert_eq!(names, ["a", "b", "a", "b"], "the emptiest, then the first");
        assert!(rooms.place(&pod).is_none());
        let mut alone = Value::clone(&pod);
        alone["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"labelSelector": {"matchLabels": {"app": "trino"}}, "topologyKey": HOSTNAME}]}});
        let mut rooms = Rooms::from_iter([room("a")]);
        let alone = Arc::new(alone);
        assert_eq!(
            rooms.place(&alone).unwrap().refuses(&pod),
            Some("node(s) didn't match pod anti-affinity rules")
        );
    }
}
