//! Effects: thin executors of fully specified actions. Intent was recorded before; the outcome is
//! recorded by the pool. "No answer" comes back as unknown, never as failure or success.

use std::time::Duration;

use super::faults;
use super::inspect::{Budget, ClaimSource, fresh_workload, judge_nodes, read_claim, read_node, target};
use super::instance::Subject;
use super::messages::{CordonOutcome, CordonRequest, Cordoned, Order};
use crate::cluster::apply::{self, Expected};
use crate::cluster::port::Written;
use crate::pool::blueprint::{self, Rendering};
use crate::pool::cordon::{self, CordonVerdict};
use crate::pool::lifecycle;
use crate::pool::observation::{Fault, PlacementReport, Reading, Validation};
use crate::pool::step::{Apply, Deletion, Effect, EffectOutcome};
use crate::trino::validate::{self, Candidate};

/// How long the reads of one effect may take together; writes have the ports' own deadlines.
const READS: Duration = Duration::from_secs(20);

/// Performs one effect.
pub(super) async fn perform(subject: &Subject, order: &Order) -> EffectOutcome {
    let gateway = &subject.ports.gateway;
    match &order.effect {
        Effect::ApplyObjects => EffectOutcome::Applied(apply_objects(subject, order).await),
        Effect::EnsureBackend(backend) => EffectOutcome::Backend(gateway.ensure_backend(backend).await),
        Effect::Member(request) => EffectOutcome::Member(gateway.send(&order.controller, request).await),
        Effect::CheckCandidate => EffectOutcome::Checked(check_candidate(subject, order).await),
        Effect::Validate => EffectOutcome::Validated(validate_candidate(subject, order).await),
        Effect::DeleteObjects => EffectOutcome::Deleted(delete_objects(subject, order).await),
        Effect::RemoveBackend(name) => EffectOutcome::Backend(gateway.remove_backend(name).await),
    }
}

async fn check_candidate(subject: &Subject, order: &Order) -> PlacementReport {
    let Some(policy) = &order.nodes else {
        // Off: nothing is judged. The rules do not ask for a check then.
        return PlacementReport::default();
    };
    let budget = Budget::of(subject, READS);
    match fresh_workload(subject, &order.row, order.controller.epoch, &budget).await {
        Ok((_, owned)) => judge_nodes(subject, &order.row, &owned, policy, ClaimSource::Named, &budget).await,
        Err(fault) => PlacementReport {
            faults: vec![fault],
            ..PlacementReport::default()
        },
    }
}

async fn validate_candidate(subject: &Subject, order: &Order) -> Validation {
    let missing = |what: &str| {
        Validation::NotReady(Fault {
            label: "RowIncomplete",
            subject: subject.instance.to_string(),
            detail: format!("the row records no {what}"),
        })
    };
    let row = &order.row;
    let Some(objects) = &row.objects else {
        return missing("objects");
    };
    let Some(registered) = &row.process else {
        return missing("process");
    };
    let Ok(blueprint) = &row.blueprint else {
        return missing("readable blueprint");
    };
    let budget = Budget::of(subject, READS);
    let (workload, owned) = match fresh_workload(subject, row, order.controller.epoch, &budget).await {
        Ok(read) => read,
        Err(fault) => return Validation::Unknown(fault),
    };
    let target = match target(subject, row, Some(&owned)) {
        Ok(target) => target,
        Err(fault) => return Validation::NotReady(fault),
    };
    let candidate = Candidate {
        target: &target,
        blueprint,
        objects,
        registered,
        workload: &workload,
        owned: &owned,
    };
    let now = subject.ports.clock.now();
    validate::validate(subject.ports.coordinator.as_ref(), &candidate, now).await
}

async fn delete_objects(subject: &Subject, order: &Order) -> Deletion {
    // Checked once more here, where the deletes are sent (S1).
    if !lifecycle::may_delete(&order.row) {
        return Deletion::Unknown(Fault {
            label: "NotPermitted",
            subject: subject.instance.to_string(),
            detail: format!("phase {} does not permit deletion", order.row.phase),
        });
    }
    let Some(objects) = &order.row.objects else {
        // Nothing was ever recorded: what an interrupted creation left behind carries our labels, and is
        // recorded and removed as an orphan once the row is terminal.
        return Deletion::Absent;
    };
    let cluster = subject.ports.cluster.as_ref();
    apply::delete_all(cluster, &subject.namespace, &subject.instance, objects).await
}

async fn apply_objects(subject: &Subject, order: &Order) -> Apply {
    let row = &order.row;
    let blueprint = match &row.blueprint {
        Ok(blueprint) => blueprint,
        Err(problem) => return Apply::Refused(format!("the stored blueprint cannot be read: {problem}")),
    };
    let rendering = Rendering {
        instance: &row.id,
        pool: &row.pool,
        blueprint,
        spec_digest: &row.spec_digest,
        release: &row.release,
        epoch: order.controller.epoch,
        excluded_nodes: &row.excluded_nodes,
        protect: order.nodes.is_some(),
    };
    let manifests = match blueprint::render(&rendering) {
        Ok(manifests) => manifests,
        Err(error) => return Apply::Refused(error.to_string()),
    };
    let expected = Expected {
        instance: row.id.clone(),
        digest: row.spec_digest.clone(),
        epoch: order.controller.epoch,
    };
    apply::apply(subject.ports.cluster.as_ref(), &manifests, &expected).await
}

/// Cordons one exact node, judged from fresh reads of the node and its claim.
pub(super) async fn cordon(subject: &Subject, request: CordonRequest) -> Cordoned {
    let CordonRequest { ticket, order } = request;
    let budget = Budget::of(subject, READS);
    let (node, claim) = tokio::join!(
        biased;
        read_node(subject, &order.node, &budget),
        read_claim(subject, &order.claim, &budget)
    );
    let outcome = match cordon::judge(&order, &node, &claim) {
        CordonVerdict::AlreadyUnschedulable => {
            CordonOutcome::LeftAlone("it is unschedulable already".to_owned())
        }
        CordonVerdict::Moot(why) => CordonOutcome::LeftAlone(why),
        CordonVerdict::NotProven(fault) => CordonOutcome::Unknown(fault),
        CordonVerdict::Patch { version, mark } => {
            let call = subject
                .ports
                .cluster
                .cordon_node(&order.node, &order.node_uid, &version, &mark);
            match budget.read(subject, "cordon", call, faults::of_cluster).await {
                Reading::Seen(Written::Applied) => CordonOutcome::Applied,
                Reading::Seen(Written::Conflict(why)) => CordonOutcome::Conflict(why),
                Reading::Seen(Written::Absent) => CordonOutcome::LeftAlone("it is gone".to_owned()),
                Reading::Seen(Written::Denied(why)) => CordonOutcome::Denied(why),
                Reading::Unknown(fault) if faults::is_forbidden(&fault) => {
                    CordonOutcome::Denied(fault.detail)
                }
                Reading::Unknown(fault) => CordonOutcome::Unknown(fault),
                Reading::NotAsked => CordonOutcome::Unknown(faults::timed_out("cordon", READS)),
            }
        }
    };
    Cordoned {
        ticket,
        instance: subject.instance.clone(),
        order,
        outcome,
    }
}
