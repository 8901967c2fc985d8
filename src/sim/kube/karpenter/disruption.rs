//! Voluntary disruption of drifted nodes, at most the budget of their NodePool at a time.
//!
//! Order of a command (disruption/queue.go): taint and DisruptionReason, replacement claims, wait until
//! they are initialized, delete the old claim. On failure the taint and the condition are taken back.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::Turn;
use super::super::json as j;
use super::super::resource::Resource;
use super::super::scheduler::Rooms;
use super::{
    DISRUPTED, DO_NOT_DISRUPT, Karpenter, drainable, is_protected, node_of, pool_of, provision, taint,
};

/// After this long without an initialized replacement a command has failed.
const PATIENCE: Duration = Duration::from_mins(10);

/// One claim on its way to be replaced.
#[derive(Clone, Debug)]
pub(super) struct Command {
    claim: String,
    replacements: Vec<String>,
    since: Timestamp,
}

/// How far a command has come.
enum Progress {
    Waiting,
    Ready,
    Failed,
}

impl Karpenter {
    /// Moves commands on at every step; starts new ones every disruption interval.
    pub(super) fn disrupt(&mut self, turn: &mut Turn<'_>) {
        self.move_commands_on(turn);
        let interval = turn.options.disruption_interval;
        let due = *self
            .next_disruption
            .get_or_insert_with(|| j::later(turn.now, interval));
        if turn.now < due {
            return;
        }
        self.next_disruption = Some(j::later(turn.now, interval));
        let mut moved_pods = false;
        for pool in turn.store.list(Resource::NodePools) {
            self.disrupt_pool(turn, &pool, &mut moved_pods);
        }
    }

    fn disrupt_pool(&mut self, turn: &mut Turn<'_>, pool: &Value, moved_pods: &mut bool) {
        let claims: Vec<Arc<Value>> = turn
            .store
            .list(Resource::NodeClaims)
            .into_iter()
            .filter(|claim| pool_of(claim) == j::name(pool))
            .collect();
        let busy = claims
            .iter()
            .filter(|claim| j::is_deleting(claim) || self.commands.contains_key(j::uid(claim)))
            .count();
        let mut room = budget(pool, claims.len()).saturating_sub(busy);
        let mut candidates: Vec<&Arc<Value>> = claims
            .iter()
            .filter(|claim| {
                j::is_true(claim, "Drifted")
                    && j::is_true(claim, "Initialized")
                    && !j::is_deleting(claim)
                    && !self.commands.contains_key(j::uid(claim))
            })
            .collect();
        candidates.sort_by_key(|claim| {
            let since =
                j::condition(claim, "Drifted").and_then(|entry| j::time(entry, &["lastTransitionTime"]));
            (since, j::name(claim).to_owned())
        });
        for claim in candidates {
            let Some(node) = node_of(turn, claim) else {
                continue;
            };
            if j::is_deleting(&node) {
                continue;
            }
            if let Some(why) = blocked(turn, claim, &node) {
                for about in [&node, claim] {
                    self.events
                        .publish(turn, about, "Normal", "DisruptionBlocked", &why);
                }
                continue;
            }
            if room == 0 {
                let why = "No allowed disruptions for disruption reason Drifted due to blocking budget";
                self.events
                    .publish(turn, pool, "Normal", "DisruptionBlocked", why);
                return;
            }
            let pods: Vec<Arc<Value>> = drainable(turn, j::name(&node))
                .into_iter()
                .filter(|pod| !j::is_deleting(pod))
                .collect();
            // Empty nodes go together; of nodes with pods, one per round.
            if !pods.is_empty() && std::mem::replace(moved_pods, true) {
                continue;
            }
            if self.begin(turn, claim, &node, &pods) {
                room -= 1;
            }
        }
    }

    /// Starts a command; false when there is no room for the pods anywhere.
    fn begin(&mut self, turn: &mut Turn<'_>, claim: &Value, node: &Value, pods: &[Arc<Value>]) -> bool {
        let mut rooms = Rooms::default();
        // An empty node needs no room anywhere, and there may be many.
        if !pods.is_empty() {
            rooms = Rooms::of_nodes(turn, Some(j::name(node)));
            rooms.extend(provision::launching_rooms(turn));
        }
        let mut planned = Vec::new();
        for pod in pods {
            // Where it will run, the pod is a new one without a node.
            let mut unbound = Value::clone(pod);
            j::remove(&mut unbound, &["spec", "nodeName"]);
            let unbound = Arc::new(unbound);
            if rooms.place(&unbound).is_some() {
                continue;
            }
            let Some((pool, mut room)) = self.pool_for(turn, &unbound, &planned) else {
                let why = "Not all pods would schedule";
                self.events.publish(turn, node, "Normal", "Unconsolidatable", why);
                return false;
            };
            room.pods.push(unbound);
            rooms.push(room);
            planned.push(pool);
        }
        let now = turn.now;
        turn.store.edit(Resource::Nodes, "", j::name(node), taint);
        turn.store
            .edit(Resource::NodeClaims, "", j::name(claim), |claim| {
                j::set_condition(claim, "DisruptionReason", "True", "Drifted", "Drifted", now);
            });
        let replacements = planned
            .iter()
            .filter_map(|pool| provision::create_claim(turn, pool))
            .collect();
        self.commands.insert(
            j::uid(claim).to_owned(),
            Command {
                claim: j::name(claim).to_owned(),
                replacements,
                since: now,
            },
        );
        true
    }

    fn move_commands_on(&mut self, turn: &mut Turn<'_>) {
        for (uid, command) in self.commands.clone() {
            let claim = turn.store.get(Resource::NodeClaims, "", &command.claim).cloned();
            let Some(claim) = claim.filter(|claim| j::uid(claim) == uid && !j::is_deleting(claim)) else {
                self.commands.remove(&uid);
                continue;
            };
            match progress(turn, &command) {
                Progress::Waiting => {}
                Progress::Ready => {
                    self.commands.remove(&uid);
                    turn.destroy(Resource::NodeClaims, &claim, "karpenter", None);
                }
                Progress::Failed => {
                    self.commands.remove(&uid);
                    roll_back(turn, &uid);
                }
            }
        }
    }
}

fn progress(turn: &Turn<'_>, command: &Command) -> Progress {
    let mut ready = true;
    for name in &command.replacements {
        match turn.store.get(Resource::NodeClaims, "", name) {
            Some(claim) if !j::is_deleting(claim) => ready &= j::is_true(claim, "Initialized"),
            Some(_) | None => return Progress::Failed,
        }
    }
    if ready {
        Progress::Ready
    } else if turn.now >= j::later(command.since, PATIENCE) {
        Progress::Failed
    } else {
        Progress::Waiting
    }
}

/// Why Karpenter may not disrupt the node, in its own words. Node-level checks come first; with a
/// finite grace drift ignores the pods (K02).
fn blocked(turn: &Turn<'_>, claim: &Value, node: &Value) -> Option<String> {
    if j::annotation(node, DO_NOT_DISRUPT) == Some("true") {
        return Some(format!(
            "Disruption is blocked through the \"{DO_NOT_DISRUPT}\" annotation"
        ));
    }
    let grace = j::text(claim, &["spec", "terminationGracePeriod"]).and_then(j::go_duration);
    if grace.is_some() {
        return None;
    }
    let pod = drainable(turn, j::name(node))
        .into_iter()
        .find(|pod| is_protected(pod))?;
    Some(format!(
        "Pod has \"{DO_NOT_DISRUPT}\" annotation (Pod={}/{})",
        j::namespace(&pod),
        j::name(&pod)
    ))
}

/// How many of `total` nodes may be disrupted at a time: the smallest budget, percentages rounded up,
/// 10 % when the pool says nothing.
fn budget(pool: &Value, total: usize) -> usize {
    let budgets = j::items(pool, &["spec", "disruption", "budgets"]);
    let percent = |percent: usize| (total * percent).div_ceil(100);
    budgets
        .iter()
        .map(|entry| {
            let nodes = entry.get("nodes").cloned().unwrap_or(json!("10%"));
            let text = nodes.as_str().unwrap_or_default();
            match text.strip_suffix('%') {
                Some(share) => share.parse().map_or(0, percent),
                None => text.parse().unwrap_or(0),
            }
        })
        .min()
        .unwrap_or_else(|| percent(10))
}

/// Takes the taint and the DisruptionReason back from the claim of this UID and its node.
pub(super) fn roll_back(turn: &mut Turn<'_>, uid: &str) {
    let claim = turn.store.by_uid(uid).filter(|claim| !j::is_deleting(claim));
    let claim = claim.cloned();
    let Some(claim) = claim else { return };
    turn.store
        .edit(Resource::NodeClaims, "", j::name(&claim), |claim| {
            j::clear_condition(claim, "DisruptionReason");
        });
    if let Some(node) = node_of(turn, &claim) {
        turn.store.edit(Resource::Nodes, "", j::name(&node), |node| {
            if let Some(taints) = j::list_mut(node, &["spec", "taints"]) {
                taints.retain(|taint| j::text(taint, &["key"]) != Some(DISRUPTED));
                if taints.is_empty() {
                    j::remove(node, &["spec", "taints"]);
                }
            }
        });
    }
}
