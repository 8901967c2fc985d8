//! What the rules are judged by: the world's own state, and the store's rows. Never the operator's word.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::of_world::instance_of;
use crate::gateway::model::{Member, MemberRequest};
use crate::pool::desired::{DesiredPool, PoolMode};
use crate::pool::evidence::{RecordedEvidence, ReplacementNode};
use crate::pool::ids::{Epoch, InstanceId, OperationId, PoolId, RoutingGroup, StepId};
use crate::pool::instance::InstanceRow;
use crate::pool::names::ANNOTATION_NODE_REPLACEMENT;
use crate::pool::phase::Phase;
use crate::sim::clients::Counts;
use crate::sim::gateway::Asked;
use crate::sim::kube::json as j;
use crate::sim::kube::{Destructive, Made, Resource};
use crate::sim::trino::Ended;
use crate::sim::world::{ADMIN, World};
use crate::store::port::{Store, StoreError};

/// A node, as far as a rule needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLook {
    /// Its name.
    pub name: String,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Our cordon annotation.
    pub mark: Option<String>,
}

/// The world at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct WorldLook {
    /// When.
    pub at: Timestamp,
    /// Members by routing group and instance.
    pub members: BTreeMap<(RoutingGroup, InstanceId), Member>,
    /// The epoch that the gateway holds for each routing group.
    pub epochs: BTreeMap<RoutingGroup, Epoch>,
    /// Destructive requests of everybody but the world's administrators, oldest first.
    pub destroyed: Vec<Destructive>,
    /// `coordinatorId` of every process that runs.
    pub processes: BTreeSet<String>,
    /// Processes that ended, oldest first.
    pub ended: Vec<Ended>,
    /// Nodes by UID.
    pub nodes: BTreeMap<String, NodeLook>,
    /// Every step that arrived at the gateway, oldest first.
    pub asked: Arc<Vec<Asked>>,
    /// Parts of workloads that requests created, oldest first.
    pub made: Arc<Vec<Made>>,
    /// Queries of clients that somebody cancelled past the gateway.
    pub cancelled: u64,
    /// What the clients saw.
    pub clients: Counts,
}

impl WorldLook {
    /// Looks at the world.
    #[must_use]
    pub fn take(world: &World) -> Self {
        let at = world.now();
        let mut members = BTreeMap::new();
        let mut epochs = BTreeMap::new();
        for name in world.options().pool_names() {
            let group = RoutingGroup::new(name.clone());
            for view in world.traffic.gateway.members(&name, at) {
                members.insert((group.clone(), view.member.instance_id.clone()), view.member);
            }
            if let Some(pool) = world.traffic.gateway.pool(&name) {
                epochs.insert(group, pool.controller_epoch);
            }
        }
        let nodes = world.kube.objects(Resource::Nodes);
        Self {
            at,
            members,
            epochs,
            destroyed: world
                .kube
                .log()
                .requested_by(|actor| actor != ADMIN)
                .cloned()
                .collect(),
            processes: world
                .traffic
                .trino
                .processes(at)
                .into_iter()
                .map(|process| process.coordinator)
                .collect(),
            ended: world.traffic.trino.ended().to_vec(),
            nodes: nodes
                .iter()
                .map(|node| {
                    let look = NodeLook {
                        name: j::name(node).to_owned(),
                        unschedulable: j::at(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true)),
                        mark: j::annotation(node, ANNOTATION_NODE_REPLACEMENT).map(str::to_owned),
                    };
                    (j::uid(node).to_owned(), look)
                })
                .collect(),
            asked: world.traffic.gateway.asked(),
            made: world.kube.log().all_made(),
            cancelled: world.traffic.cancelled(),
            clients: world.traffic.clients.counts(),
        }
    }

    /// The member of an instance, in whatever pool.
    #[must_use]
    pub fn member(&self, instance: &str) -> Option<&Member> {
        self.members
            .iter()
            .find(|((_, id), _)| id.as_str() == instance)
            .map(|(_, member)| member)
    }
}

/// A row, without its blueprint.
#[derive(Clone, Debug, PartialEq)]
pub struct RowLook {
    /// Where it stands.
    pub phase: Phase,
    /// Since when.
    pub phase_changed_at: Timestamp,
    /// When it was written.
    pub created_at: Timestamp,
    /// On the repair budget.
    pub repair: bool,
    /// The immutable record.
    pub evidence: RecordedEvidence,
    /// Further nodes.
    pub nodes: Vec<ReplacementNode>,
}

impl From<InstanceRow> for RowLook {
    fn from(row: InstanceRow) -> Self {
        Self {
            phase: row.phase,
            phase_changed_at: row.phase_changed_at,
            created_at: row.created_at,
            repair: row.repair_for.is_some(),
            evidence: row.evidence,
            nodes: row.replacement_nodes,
        }
    }
}

/// A pool's rows.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolLook {
    /// What the gateway calls it.
    pub group: RoutingGroup,
    /// Epoch of the current authority.
    pub epoch: Epoch,
    /// The last good desired state.
    pub desired: Option<DesiredPool>,
    /// Whether the pool may act on it.
    pub mode: PoolMode,
    /// Requests whose outcome is not known, by operation and step.
    pub open: BTreeMap<(OperationId, StepId), MemberRequest>,
    /// Every row ever seen, terminal ones included.
    pub rows: BTreeMap<InstanceId, RowLook>,
}

/// The store at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreLook {
    /// Pools.
    pub pools: BTreeMap<PoolId, PoolLook>,
}

impl StoreLook {
    /// Reads every pool, and again every row that an earlier look knew or that the world shows objects of.
    pub async fn take(
        store: &dyn Store,
        earlier: Option<&Self>,
        world: &WorldLook,
    ) -> Result<Self, StoreError> {
        let shown: BTreeSet<InstanceId> = world
            .made
            .iter()
            .filter_map(|made| instance_of(&made.name))
            .map(InstanceId::new)
            // Of the others, one that came and went since the last look.
            .filter(|id| !earlier.is_some_and(|look| look.rows().any(|(known, _)| known == id)))
            .collect();
        let mut pools = BTreeMap::new();
        for identity in store.pools().await? {
            let snapshot = store.load(&identity.id).await?;
            let mut rows: BTreeMap<InstanceId, RowLook> = snapshot
                .instances
                .into_iter()
                .map(|row| (row.id.clone(), row.into()))
                .collect();
            let known = earlier.and_then(|look| look.pools.get(&identity.id));
            for (id, before) in known.into_iter().flat_map(|pool| &pool.rows) {
                if rows.contains_key(id) {
                    continue;
                }
                // A terminal row never changes, but that is for the rules to say.
                let row = store.instance(id).await?.map(RowLook::from);
                rows.insert(id.clone(), row.unwrap_or_else(|| before.clone()));
            }
            for id in &shown {
                if rows.contains_key(id) {
                    continue;
                }
                if let Some(row) = store.instance(id).await?.filter(|row| row.pool == identity.id) {
                    rows.insert(id.clone(), row.into());
                }
            }
            let look = PoolLook {
                group: identity.routing_group,
                epoch: snapshot.pool.epoch,
                desired: snapshot.pool.desired.and_then(Result::ok),
                mode: snapshot.pool.mode,
                open: snapshot
                    .open_steps
                    .into_iter()
                    .map(|step| {
                        let request = step.request;
                        ((request.operation.clone(), request.step.clone()), request)
                    })
                    .collect(),
                rows,
            };
            pools.insert(identity.id, look);
        }
        Ok(Self { pools })
    }

    /// Every row of every pool.
    pub fn rows(&self) -> impl Iterator<Item = (&InstanceId, &RowLook)> {
        self.pools.values().flat_map(|pool| &pool.rows)
    }

    /// UIDs of the nodes that some row holds evidence about.
    #[must_use]
    pub fn held_nodes(&self) -> BTreeSet<&str> {
        self.rows()
            .flat_map(|(_, row)| {
                let first = row.evidence.valid().map(|evidence| evidence.node_uid.as_str());
                first
                    .into_iter()
                    .chain(row.nodes.iter().map(|node| node.node_uid.as_str()))
            })
            .collect()
    }
}
