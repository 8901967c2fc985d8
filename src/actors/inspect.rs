//! One look at one instance: only what the rules need, everything at once, within a budget.
//!
//! Pods are protected first, with UID and resourceVersion as preconditions, since that is the one thing
//! that must not wait for anything else. What has not answered within the budget is unknown, so that a
//! dead server makes a reading unknown and never an instance silent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use ractor::ActorRef;

use super::faults;
use super::instance::Subject;
use super::inventory::{InventoryMsg, Snapshot};
use super::messages::{Inspect, Inspected};
use crate::cluster::facts::{ClaimFacts, Lookup, NodeFacts, Workload};
use crate::cluster::port::Written;
use crate::pool::desired::NodeReplacement;
use crate::pool::ids::{ClaimName, Epoch, NodeName, PodUid, TickId};
use crate::pool::instance::InstanceRow;
use crate::pool::observation::{
    Claims, Fault, NodeReadings, Observation, OwnedWorkload, PlacementReport, Reading, Unprotected,
};
use crate::pool::{ownership, placement, protection};
use crate::telemetry::events::PodProtected;
use crate::trino::port::CoordinatorTarget;

/// The end of the time there is, on the clock port.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    until: Duration,
    whole: Duration,
}

impl Budget {
    pub(super) fn of(subject: &Subject, whole: Duration) -> Self {
        Self {
            until: subject.ports.clock.monotonic() + whole,
            whole,
        }
    }

    /// The answer, or the fact that there was none in time.
    pub(super) async fn read<T, E>(
        &self,
        subject: &Subject,
        about: &str,
        call: impl Future<Output = Result<T, E>>,
        fault: impl FnOnce(String, &E) -> Fault,
    ) -> Reading<T> {
        let left = self.until.saturating_sub(subject.ports.clock.monotonic());
        faults::reading(subject.ports.within(left, call).await, about, self.whole, fault)
    }
}

/// Looks, protecting unprotected pods on the way.
pub(super) async fn inspect(subject: &Subject, order: &Inspect) -> Inspected {
    let budget = Budget::of(subject, order.budget);
    let needs = order.needs;
    let mut observation = Observation::blank(subject.ports.clock.now());
    let kubernetes = look_at_kubernetes(subject, order, &budget);
    let gateway = async {
        let member = async {
            if !needs.member {
                return Reading::NotAsked;
            }
            let call = subject.ports.gateway.member(&subject.group, &subject.instance);
            budget.read(subject, "member", call, faults::of_gateway).await
        };
        let obligations = async {
            if !needs.obligations {
                return Reading::NotAsked;
            }
            let call = subject
                .ports
                .gateway
                .obligations(&subject.group, &subject.instance);
            budget
                .read(subject, "obligations", call, faults::of_gateway)
                .await
        };
        tokio::join!(biased; member, obligations)
    };
    let namespace_pods = async {
        if needs.namespace_pods {
            every_pod(subject, &budget).await
        } else {
            Reading::NotAsked
        }
    };
    let (kubernetes, (member, obligations), namespace_pods) =
        tokio::join!(biased; kubernetes, gateway, namespace_pods);
    observation.member = member;
    observation.obligations = obligations;
    observation.namespace_pods = namespace_pods;
    observation.workload = kubernetes.workload;
    observation.owned = kubernetes.owned;
    observation.placement = kubernetes.placement;
    observation.unprotected = kubernetes.unprotected;
    observation.info = kubernetes.info;
    observation.endpoint = kubernetes.endpoint;
    Inspected {
        ticket: order.ticket,
        instance: subject.instance.clone(),
        observation,
        faults: kubernetes.faults,
        nodes: kubernetes.nodes,
    }
}

struct KubernetesLook {
    workload: Reading<Workload>,
    owned: Reading<OwnedWorkload>,
    placement: Reading<PlacementReport>,
    unprotected: Vec<Unprotected>,
    info: Reading<crate::trino::port::CoordinatorInfo>,
    endpoint: Reading<String>,
    faults: Vec<Fault>,
    nodes: Vec<NodeName>,
}

async fn look_at_kubernetes(subject: &Subject, order: &Inspect, budget: &Budget) -> KubernetesLook {
    let needs = order.needs;
    let wants_nodes = order.nodes.is_some() && needs.placement;
    let workload = if needs.workload || wants_nodes {
        let call = subject
            .ports
            .cluster
            .workload(&subject.namespace, &subject.instance);
        budget.read(subject, "workload", call, faults::of_cluster).await
    } else {
        Reading::NotAsked
    };
    let owned = match &workload {
        Reading::Seen(workload) => Reading::Seen(ownership::prove(&order.row, workload, order.ticket.epoch)),
        Reading::Unknown(fault) => Reading::Unknown(fault.clone()),
        Reading::NotAsked => Reading::NotAsked,
    };
    let mut unprotected = Vec::new();
    let mut found = Vec::new();
    if let (Some(_), Some(owned)) = (&order.nodes, owned.seen()) {
        unprotected = protection::unprotected(owned);
        found = protect(subject, budget, &unprotected).await;
    }
    let target = target(subject, &order.row, owned.seen());
    let endpoint = match (needs.endpoint, &target) {
        (false, _) => Reading::NotAsked,
        (true, Ok(target)) => match subject.ports.coordinator.url(target) {
            Ok(url) => Reading::Seen(url),
            Err(error) => Reading::Unknown(faults::of_probe("endpoint", &error)),
        },
        (true, Err(fault)) => Reading::Unknown(fault.clone()),
    };
    let info = async {
        match (needs.info, &target) {
            (false, _) => Reading::NotAsked,
            (true, Ok(target)) => {
                let call = subject.ports.coordinator.info(target);
                budget.read(subject, "coordinator", call, faults::of_probe).await
            }
            (true, Err(fault)) => Reading::Unknown(fault.clone()),
        }
    };
    let placement = async {
        match (&order.nodes, owned.seen()) {
            (Some(policy), Some(owned)) if wants_nodes => {
                let claims = if order.row.phase.is_candidate() {
                    ClaimSource::Named
                } else {
                    ClaimSource::Inventory(&order.inventory, order.ticket.tick)
                };
                let report = judge_nodes(subject, &order.row, owned, policy, claims, budget).await;
                (Reading::Seen(report), placement::nodes_of(owned))
            }
            (Some(_), None) if wants_nodes => match &owned {
                Reading::Unknown(fault) => (Reading::Unknown(fault.clone()), BTreeSet::new()),
                Reading::Seen(_) | Reading::NotAsked => (Reading::NotAsked, BTreeSet::new()),
            },
            (Some(_) | None, _) => (Reading::NotAsked, BTreeSet::new()),
        }
    };
    let (info, (placement, nodes)) = tokio::join!(biased; info, placement);
    KubernetesLook {
        workload,
        owned,
        placement,
        unprotected,
        info,
        endpoint,
        faults: found,
        nodes: nodes.into_iter().collect(),
    }
}

/// How the instance's coordinator is reached.
pub(super) fn target(
    subject: &Subject,
    row: &InstanceRow,
    owned: Option<&OwnedWorkload>,
) -> Result<CoordinatorTarget, Fault> {
    let blueprint = row.blueprint.as_ref().map_err(|problem| Fault {
        label: "BlueprintUnreadable",
        subject: subject.instance.to_string(),
        detail: problem.clone(),
    })?;
    let pod_ip = owned.and_then(|owned| {
        owned
            .coordinators
            .iter()
            .find(|pod| !pod.finished && !pod.terminating)
            .and_then(|pod| pod.ip.clone())
    });
    Ok(CoordinatorTarget {
        namespace: subject.namespace.clone(),
        instance: subject.instance.clone(),
        port: blueprint.http_port,
        pod_ip,
    })
}

async fn protect(subject: &Subject, budget: &Budget, unprotected: &[Unprotected]) -> Vec<Fault> {
    let patches = unprotected.iter().map(|pod| async move {
        let about = format!("pod {}", pod.pod);
        let call = subject
            .ports
            .cluster
            .protect_pod(&subject.namespace, &pod.pod, &pod.uid, &pod.version);
        let written = budget.read(subject, &about, call, faults::of_cluster).await;
        let (outcome, fault) = match written {
            Reading::Seen(Written::Applied) => ("Applied", None),
            // It changed or went meanwhile; the next pass sees it as it is then.
            Reading::Seen(Written::Conflict(_)) => ("Conflict", None),
            Reading::Seen(Written::Absent) => ("Absent", None),
            Reading::Seen(Written::Denied(message)) => ("Denied", Some(denied(about, message))),
            Reading::Unknown(fault) if faults::is_forbidden(&fault) => {
                ("Denied", Some(denied(about, fault.detail)))
            }
            Reading::Unknown(fault) => ("Unknown", Some(fault)),
            Reading::NotAsked => ("NotAsked", None),
        };
        PodProtected {
            pool: &subject.pool,
            instance: &subject.instance,
            pod: &pod.pod,
            found: pod.found.as_deref(),
            outcome,
        }
        .emit();
        fault
    });
    join_all(patches).await.into_iter().flatten().collect()
}

/// The annotation may not be written, and a next try is refused too.
fn denied(subject: String, detail: String) -> Fault {
    Fault {
        label: faults::PROTECTION_DENIED,
        subject,
        detail,
    }
}

/// Where the claims of a judgement come from.
#[derive(Clone, Copy)]
pub(super) enum ClaimSource<'a> {
    /// Fresh, by name: for candidates.
    Named,
    /// The tick's shared snapshot.
    Inventory(&'a ActorRef<InventoryMsg>, TickId),
}

/// Reads the nodes and claims beneath an instance, and judges them.
pub(super) async fn judge_nodes(
    subject: &Subject,
    row: &InstanceRow,
    owned: &OwnedWorkload,
    policy: &NodeReplacement,
    source: ClaimSource<'_>,
    budget: &Budget,
) -> PlacementReport {
    let names = placement::nodes_of(owned);
    let nodes = join_all(names.into_iter().map(|name| async move {
        let reading = read_node(subject, &name, budget).await;
        (name, reading)
    }));
    let (nodes, claims): (BTreeMap<NodeName, Reading<Option<NodeFacts>>>, Claims) = match source {
        ClaimSource::Named => {
            let nodes: BTreeMap<_, _> = nodes.await.into_iter().collect();
            let claims = named_claims(subject, &nodes, budget).await;
            (nodes, claims)
        }
        ClaimSource::Inventory(inventory, tick) => {
            if placement::nodes_of(owned).is_empty() {
                // Nothing is scheduled: nobody needs the listing.
                (BTreeMap::new(), Claims::Inventory(Arc::default()))
            } else {
                let (nodes, claims) =
                    tokio::join!(biased; nodes, shared_claims(subject, inventory, tick, budget));
                (nodes.into_iter().collect(), claims)
            }
        }
    };
    let readings = NodeReadings { nodes, claims };
    placement::inspect(row, owned, &readings, policy, subject.ports.clock.now())
}

pub(super) async fn read_node(
    subject: &Subject,
    name: &NodeName,
    budget: &Budget,
) -> Reading<Option<NodeFacts>> {
    let about = format!("node {name}");
    let call = subject.ports.cluster.node(name);
    found(budget.read(subject, &about, call, faults::of_cluster).await)
}

pub(super) async fn read_claim(
    subject: &Subject,
    name: &ClaimName,
    budget: &Budget,
) -> Reading<Option<ClaimFacts>> {
    let about = format!("nodeclaim {name}");
    let call = subject.ports.cluster.claim(name);
    found(budget.read(subject, &about, call, faults::of_cluster).await)
}

fn found<T>(reading: Reading<Lookup<T>>) -> Reading<Option<T>> {
    match reading {
        Reading::Seen(lookup) => Reading::Seen(lookup.found()),
        Reading::Unknown(fault) => Reading::Unknown(fault),
        Reading::NotAsked => Reading::NotAsked,
    }
}

/// Every claim that a node names as its owner; which of them counts is the rules' business.
async fn named_claims(
    subject: &Subject,
    nodes: &BTreeMap<NodeName, Reading<Option<NodeFacts>>>,
    budget: &Budget,
) -> Claims {
    let names: BTreeSet<ClaimName> = nodes
        .values()
        .filter_map(|reading| reading.seen()?.as_ref())
        .filter_map(placement::join::claim_name)
        .collect();
    let read = join_all(names.into_iter().map(|name| async move {
        let reading = read_claim(subject, &name, budget).await;
        (name, reading)
    }));
    Claims::Named(read.await.into_iter().collect())
}

async fn shared_claims(
    subject: &Subject,
    inventory: &ActorRef<InventoryMsg>,
    tick: TickId,
    budget: &Budget,
) -> Claims {
    let call = async {
        match ractor::call!(inventory, |reply| InventoryMsg::Get { tick, reply }) {
            Ok(snapshot) => Ok(snapshot),
            Err(error) => Err(error.to_string()),
        }
    };
    let lost = |about: String, error: &String| Fault {
        label: "InventoryLost",
        subject: about,
        detail: error.clone(),
    };
    match budget.read(subject, "nodeclaims", call, lost).await {
        Reading::Seen(snapshot) => claims_of(&snapshot),
        Reading::Unknown(fault) => Claims::Unknown(fault),
        Reading::NotAsked => Claims::Unknown(faults::timed_out("nodeclaims", budget.whole)),
    }
}

fn claims_of(snapshot: &Arc<Snapshot>) -> Claims {
    match &snapshot.claims {
        Ok(inventory) => Claims::Inventory(Arc::clone(inventory)),
        Err(fault) => Claims::Unknown(fault.clone()),
    }
}

/// Every pod UID of the namespace; one pod that cannot be read makes all of it unknown.
async fn every_pod(subject: &Subject, budget: &Budget) -> Reading<Vec<PodUid>> {
    let call = subject.ports.cluster.pods(&subject.namespace);
    match budget.read(subject, "pods", call, faults::of_cluster).await {
        Reading::Seen(listing) => match listing.undecodable.first() {
            Some(bad) => Reading::Unknown(Fault {
                label: "Undecodable",
                subject: bad.name.clone().unwrap_or_else(|| "pods".to_owned()),
                detail: bad.problem.clone(),
            }),
            None => Reading::Seen(listing.items.into_iter().map(|pod| pod.uid).collect()),
        },
        Reading::Unknown(fault) => Reading::Unknown(fault),
        Reading::NotAsked => Reading::NotAsked,
    }
}

/// A fresh look at a workload, for effects that must not trust an earlier one.
pub(super) async fn fresh_workload(
    subject: &Subject,
    row: &InstanceRow,
    epoch: Epoch,
    budget: &Budget,
) -> Result<(Workload, OwnedWorkload), Fault> {
    let call = subject
        .ports
        .cluster
        .workload(&subject.namespace, &subject.instance);
    match budget.read(subject, "workload", call, faults::of_cluster).await {
        Reading::Seen(workload) => {
            let owned = ownership::prove(row, &workload, epoch);
            Ok((workload, owned))
        }
        Reading::Unknown(fault) => Err(fault),
        Reading::NotAsked => Err(faults::timed_out("workload", budget.whole)),
    }
}
