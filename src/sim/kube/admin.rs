//! The hands of people and machines: what happens to the cluster from outside its own controllers.
//!
//! Start states, NodePool changes, lost machines, edits by administrators. Nothing here goes through
//! the API, so none of it shows in the request log.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::json as j;
use super::karpenter::{self, HASH, HASH_VERSION, POOL_LABEL};
use super::resource::Resource;
use super::{KubeSim, kubelet};

/// Label whose value a template change counts up.
const REVISION_LABEL: &str = "fleet.example.org/revision";

/// A NodePool to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePoolPlan {
    /// Labels of its nodes.
    pub labels: BTreeMap<String, String>,
    /// Taints of its nodes: (key, value, effect).
    pub taints: Vec<(String, String, String)>,
    /// `spec.template.spec.expireAfter`, `720h` when absent.
    pub expire_after: Option<String>,
    /// `spec.template.spec.terminationGracePeriod`.
    pub termination_grace: Option<String>,
    /// Disruption budget, such as `10%` or `2`; `10%` when absent.
    pub budget: Option<String>,
}

impl KubeSim {
    /// Creates a NodePool.
    pub fn create_node_pool(&mut self, name: &str, plan: &NodePoolPlan, now: Timestamp) {
        let mut template = json!({
            "metadata": {"labels": plan.labels},
            "spec": {
                "expireAfter": plan.expire_after.as_deref().unwrap_or("720h"),
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
            },
        });
        if !plan.taints.is_empty() {
            template["spec"]["taints"] = plan
                .taints
                .iter()
                .map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effect}))
                .collect();
        }
        if let Some(grace) = &plan.termination_grace {
            template["spec"]["terminationGracePeriod"] = json!(grace);
        }
        let budget = plan.budget.as_deref().unwrap_or("10%");
        let mut pool = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {
                "disruption": {
                    "budgets": [{"nodes": budget}],
                    "consolidateAfter": "Never",
                    "consolidationPolicy": "WhenEmpty",
                },
                "template": template,
            },
            "status": {"observedGeneration": 1},
        });
        let hash = karpenter::template_hash(&pool);
        pool["metadata"]["annotations"] = json!({HASH: hash, HASH_VERSION: "v3"});
        self.store
            .create(Resource::NodePools, "", pool, now, &mut self.rng);
    }

    /// Changes the template of a NodePool: every claim of it drifts at the next step. False when there
    /// is no such pool.
    pub fn change_node_pool_template(&mut self, name: &str) -> bool {
        let path = ["spec", "template", "metadata", "labels", REVISION_LABEL];
        self.store.edit(Resource::NodePools, "", name, |pool| {
            let revision: u64 = j::text(pool, &path)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0);
            j::set(pool, &path, json!((revision + 1).to_string()));
        })
    }

    /// Takes the last template change back: claims made before it are not drifted any more.
    pub fn revert_node_pool_template(&mut self, name: &str) -> bool {
        let path = ["spec", "template", "metadata", "labels", REVISION_LABEL];
        self.store.edit(Resource::NodePools, "", name, |pool| {
            let revision: u64 = j::text(pool, &path)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0);
            match revision {
                0 | 1 => j::remove(pool, &path),
                more => j::set(pool, &path, json!((more - 1).to_string())),
            }
        })
    }

    /// Sets a NodePool's disruption budget, such as `0`, `2` or `10%`.
    pub fn set_node_pool_budget(&mut self, name: &str, nodes: &str) -> bool {
        self.store.edit(Resource::NodePools, "", name, |pool| {
            j::set(
                pool,
                &["spec", "disruption", "budgets"],
                json!([{"nodes": nodes}]),
            );
        })
    }

    /// Sets how many claims a NodePool may have; `Some(0)` means no machine can be had, `None` no limit.
    pub fn set_capacity(&mut self, node_pool: &str, claims: Option<usize>) {
        match claims {
            Some(limit) => {
                self.karpenter.capacity.insert(node_pool.to_owned(), limit);
            }
            None => {
                self.karpenter.capacity.remove(node_pool);
            }
        }
    }

    /// Adds a node of a NodePool, with its claim, Ready at once. Its name.
    pub fn add_node(&mut self, node_pool: &str, now: Timestamp) -> Option<String> {
        self.with_turn(now, |_, turn| karpenter::add_node(turn, node_pool))
    }

    /// Adds a Ready node that no claim owns, without a providerID.
    pub fn add_unowned_node(&mut self, name: &str, labels: &BTreeMap<String, String>, now: Timestamp) {
        self.with_turn(now, |_, turn| {
            let mut node = karpenter::bare_node(turn, name);
            for (key, value) in labels {
                node["metadata"]["labels"][key] = json!(value);
            }
            turn.store.create(Resource::Nodes, "", node, now, turn.rng);
        });
    }

    /// Deletes a claim, as `kubectl delete nodeclaim` does. False when there is no such claim.
    pub fn delete_claim(&mut self, name: &str, now: Timestamp) -> bool {
        self.store
            .delete(Resource::NodeClaims, "", name, None, now)
            .is_some()
    }

    /// Sets or clears `spec.unschedulable`, as an administrator does.
    pub fn set_unschedulable(&mut self, node: &str, unschedulable: bool) -> bool {
        self.store.edit(Resource::Nodes, "", node, |node| {
            if unschedulable {
                j::set(node, &["spec", "unschedulable"], json!(true));
            } else {
                j::remove(node, &["spec", "unschedulable"]);
            }
        })
    }

    /// Sets (`Some`) or strips (`None`) an annotation of any object.
    pub fn annotate(
        &mut self,
        resource: Resource,
        namespace: &str,
        name: &str,
        key: &str,
        value: Option<&str>,
    ) -> bool {
        self.edit(resource, namespace, name, |object| {
            let path = ["metadata", "annotations", key];
            match value {
                Some(value) => j::set(object, &path, json!(value)),
                None => j::remove(object, &path),
            }
        })
    }

    /// Changes any object in any way, valid or not: an administrator's edit, or a broken writer.
    pub fn edit(
        &mut self,
        resource: Resource,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> bool {
        self.store.edit(resource, namespace, name, change)
    }

    /// Creates any object as given; false when its name is taken.
    pub fn create(&mut self, resource: Resource, namespace: &str, object: Value, now: Timestamp) -> bool {
        self.store
            .create(resource, namespace, object, now, &mut self.rng)
            .is_some()
    }

    /// Deletes any object as the API would, finalizers and grace included.
    pub fn delete(&mut self, resource: Resource, namespace: &str, name: &str, now: Timestamp) -> bool {
        self.store.delete(resource, namespace, name, None, now).is_some()
    }

    /// Removes an object whatever holds it, such as a Node whose machine and record vanished.
    pub fn purge(&mut self, resource: Resource, namespace: &str, name: &str) -> bool {
        self.store.purge(resource, namespace, name)
    }

    /// The Node object is replaced by one of the same name with a new UID: another machine took the name
    /// (A07). Pods that say they run on that name stay.
    pub fn reuse_node_name(&mut self, name: &str, now: Timestamp) -> bool {
        let Some(old) = self.store.get(Resource::Nodes, "", name).cloned() else {
            return false;
        };
        self.store.purge(Resource::Nodes, "", name);
        let mut new = Value::clone(&old);
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            j::remove(&mut new, &["metadata", field]);
        }
        j::remove(&mut new, &["spec", "unschedulable"]);
        j::remove(&mut new, &["spec", "taints"]);
        self.store
            .create(Resource::Nodes, "", new, now, &mut self.rng)
            .is_some()
    }

    /// The node's kubelet stops answering: the node becomes Unknown, its pods cannot end (A08).
    pub fn lose_node(&mut self, name: &str, now: Timestamp) -> bool {
        let Some(node) = self.store.get(Resource::Nodes, "", name) else {
            return false;
        };
        self.kubelet.lost.insert(j::uid(node).to_owned(), now);
        self.store
            .edit(Resource::Nodes, "", name, |node| kubelet::mark_lost(node, now))
    }

    /// The node's kubelet answers again.
    pub fn find_node(&mut self, name: &str, now: Timestamp) -> bool {
        let Some(node) = self.store.get(Resource::Nodes, "", name) else {
            return false;
        };
        self.kubelet.lost.remove(j::uid(node));
        self.store
            .edit(Resource::Nodes, "", name, |node| kubelet::mark_found(node, now))
    }

    /// Karpenter does nothing while paused.
    pub fn pause_karpenter(&mut self, paused: bool) {
        self.karpenter.paused = paused;
    }

    /// Every disruption under way fails: taints and reasons are taken back.
    pub fn abort_disruptions(&mut self, now: Timestamp) {
        self.with_turn(now, |sim, turn| sim.karpenter.abort_commands(turn));
    }

    /// The claim's machine cannot be ended: once deleted, the claim stays for ever (K07).
    pub fn hold_claim(&mut self, name: &str) {
        if let Some(claim) = self.store.get(Resource::NodeClaims, "", name) {
            self.karpenter.stuck.insert(j::uid(claim).to_owned());
        }
    }

    /// Containers of this image cannot be pulled, or can again.
    pub fn set_image_pullable(&mut self, image: &str, pullable: bool) {
        if pullable {
            self.kubelet.bad_images.remove(image);
        } else {
            self.kubelet.bad_images.insert(image.to_owned());
        }
    }

    /// Says whether a pod's main container is ready, whatever its delays say. Forgotten when the
    /// container restarts.
    pub fn set_container_ready(&mut self, pod_uid: &str, ready: bool) {
        self.kubelet.tell(pod_uid, ready);
    }

    /// Ends a running pod's main container and starts it anew. False when there is no such running pod.
    pub fn restart_container(
        &mut self,
        namespace: &str,
        pod: &str,
        exit_code: i32,
        reason: &str,
        now: Timestamp,
    ) -> bool {
        let Some(pod) = self.store.get(Resource::Pods, namespace, pod).cloned() else {
            return false;
        };
        self.with_turn(now, |sim, turn| {
            sim.kubelet.restart(turn, &pod, exit_code, reason)
        })
    }

    /// Loads recorded objects (a List, or one object) with their UIDs and times; resourceVersions are
    /// new. Namespaces are made as needed, and a NodePool that only the claims speak of is made with the
    /// hash they carry. How many were loaded; objects of kinds that are not served are left out.
    pub fn load_list(&mut self, list: &Value, now: Timestamp) -> usize {
        let single = [list.clone()];
        let items = list
            .get("items")
            .and_then(Value::as_array)
            .map_or(&single[..], Vec::as_slice);
        let mut loaded = 0;
        for item in items {
            let api_version = j::text(item, &["apiVersion"]).unwrap_or_default();
            let kind = j::text(item, &["kind"]).unwrap_or_default();
            let Some(resource) = Resource::of(api_version, kind) else {
                continue;
            };
            if resource.kind().namespaced {
                self.ensure_namespace(j::namespace(item), now);
            }
            if resource == Resource::NodeClaims {
                self.ensure_pool_of(item, now);
            }
            let namespace = j::namespace(item).to_owned();
            loaded += usize::from(self.create(resource, &namespace, item.clone(), now));
        }
        loaded
    }

    fn ensure_pool_of(&mut self, claim: &Value, now: Timestamp) {
        let name = j::label(claim, POOL_LABEL).unwrap_or_default().to_owned();
        if name.is_empty() || self.store.get(Resource::NodePools, "", &name).is_some() {
            return;
        }
        let owner = j::items(claim, &["metadata", "ownerReferences"]);
        let uid = owner.iter().find_map(|owner| j::text(owner, &["uid"]));
        let mut labels = BTreeMap::new();
        for requirement in j::items(claim, &["spec", "requirements"]) {
            if let (Some(key), [value]) = (j::text(requirement, &["key"]), j::items(requirement, &["values"]))
                && !key.contains("kubernetes.io")
                && !key.contains("karpenter")
            {
                labels.insert(key.to_owned(), value.as_str().unwrap_or_default().to_owned());
            }
        }
        let taints = j::items(claim, &["spec", "taints"])
            .iter()
            .map(|taint| {
                let field = |name: &str| j::text(taint, &[name]).unwrap_or_default().to_owned();
                (field("key"), field("value"), field("effect"))
            })
            .collect();
        let said = |field: &str| j::text(claim, &["spec", field]).map(str::to_owned);
        let plan = NodePoolPlan {
            labels,
            taints,
            expire_after: said("expireAfter"),
            termination_grace: said("terminationGracePeriod"),
            budget: None,
        };
        self.create_node_pool(&name, &plan, now);
        let Some(pool) = self.store.get(Resource::NodePools, "", &name).cloned() else {
            return;
        };
        // The recorded identity and hash, so that ownership and drift are as they were recorded.
        let mut pool = Value::clone(&pool);
        self.store.purge(Resource::NodePools, "", &name);
        if let Some(uid) = uid {
            j::set(&mut pool, &["metadata", "uid"], json!(uid));
        }
        let drifted = j::is_true(claim, "Drifted");
        if let (Some(hash), false) = (j::annotation(claim, HASH), drifted) {
            j::set(&mut pool, &["metadata", "annotations", HASH], json!(hash));
        }
        self.store
            .create(Resource::NodePools, "", pool, now, &mut self.rng);
    }
}
