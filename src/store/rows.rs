//! From what a database returns to rows: the one place where stored values become types.
//!
//! Both databases answer every read with (part, document): a word for the kind of row, and the row as one
//! JSON object by column name. Columns a newer schema added are ignored. A value that cannot be read
//! never fails the whole load (L2): a blueprint and evidence have a place for "unreadable"; a row any other
//! part of which is unreadable is shown in [`Phase::Unrecognised`], which occupies capacity and is never
//! advanced. Descriptions of what is wrong never repeat stored content.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::port::{
    FailureMemory, JournalStep, Mark, NodeHold, PoolIdentity, PoolRow, PoolSnapshot, Recovery, StepOutcome,
    StoreError,
};
use crate::gateway::model::MemberRequest;
use crate::pool::desired::PoolMode;
use crate::pool::evidence::{RecordedEvidence, ReplacementNode};
use crate::pool::ids::{
    BootId, ClaimName, ClaimUid, CoordinatorId, Digest, Epoch, Generation, Incarnation, InstanceId,
    Namespace, NodeName, NodeUid, ObjectUid, OperationId, OwnerId, PodUid, PoolId, ReleaseId, Revision,
    RoutingGroup, SpecGeneration, TrinoNodeId,
};
use crate::pool::instance::{FailureCause, InstanceRow};
use crate::pool::phase::Phase;

/// One row as a database returned it.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which kind of row.
    pub part: String,
    /// Its columns as a JSON object.
    pub document: String,
}

/// A column that holds JSON: nested in Postgres, a string of JSON in SQLite.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Stored(Box<RawValue>);

impl Stored {
    fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        let text = self.0.get();
        serde_json::from_str(text).or_else(|nested| match serde_json::from_str::<String>(text) {
            Ok(inner) => serde_json::from_str(&inner).map_err(|error| describe(&error)),
            Err(_) => Err(describe(&nested)),
        })
    }
}

/// What is wrong, without the content: a file of a blueprint may hold a secret.
fn describe(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let named = ["unknown field `", "missing field `"]
        .iter()
        .any(|start| words.starts_with(start));
    let field = words.split('`').nth(1).filter(|_| named);
    match (error.classify(), field) {
        (serde_json::error::Category::Data, Some(field)) => {
            let kind = if words.starts_with('u') {
                "unknown"
            } else {
                "missing"
            };
            format!("{kind} field {field}")
        }
        (serde_json::error::Category::Data, None) => "not the expected shape".to_owned(),
        (_, _) => "not valid JSON".to_owned(),
    }
}

#[derive(Debug, Deserialize)]
struct PoolDocument {
    id: PoolId,
    namespace: Namespace,
    routing_group: RoutingGroup,
    epoch: Epoch,
    owner: OwnerId,
    revision: Revision,
    resource: Option<ObjectUid>,
    generation: SpecGeneration,
    desired: Option<Stored>,
    mode: Stored,
}

#[derive(Debug, Deserialize)]
struct MarkDocument {
    id: PoolId,
    epoch: Epoch,
    owner: OwnerId,
    revision: Revision,
}

#[derive(Debug, Deserialize)]
struct InstanceDocument {
    id: InstanceId,
    pool_id: PoolId,
    release_id: ReleaseId,
    spec_digest: Digest,
    blueprint: Stored,
    phase: String,
    phase_changed_at: Timestamp,
    owner_epoch: Epoch,
    repair_for: Option<InstanceId>,
    failure: Option<Stored>,
    objects: Option<Stored>,
    process: Option<Stored>,
    member: Option<Stored>,
    receipt: Option<Stored>,
    excluded_nodes: Stored,
    node_replacement_evidence: Option<Stored>,
    created_at: Timestamp,
}

#[derive(Debug, Deserialize)]
struct NodeDocument {
    seq: i64,
    instance_id: InstanceId,
    node_name: NodeName,
    node_uid: NodeUid,
    nodeclaim_name: ClaimName,
    nodeclaim_uid: ClaimUid,
    reason: String,
    observed_at: Timestamp,
}

#[derive(Debug, Deserialize)]
struct FailureDocument {
    cause: String,
    count: u32,
    last_at: Timestamp,
    detail: String,
}

#[derive(Debug, Deserialize)]
struct StepDocument {
    operation_id: OperationId,
    step_id: String,
    instance_id: InstanceId,
    request: String,
    outcome: StepOutcome,
    attempts: u32,
    at: Timestamp,
}

#[derive(Debug, Deserialize)]
struct RecoveryDocument {
    operation: OperationId,
    instance: InstanceId,
    expected_generation: Generation,
    incarnation: Incarnation,
    pod_uid: PodUid,
    boot_id: BootId,
    node_id: TrinoNodeId,
    coordinator_id: CoordinatorId,
    requested_by: String,
    reason: String,
    created_at: Timestamp,
}

/// A pool's authority and identity, as the fence reads them.
#[derive(Debug, Deserialize)]
pub struct FenceDocument {
    /// Its epoch.
    pub epoch: Epoch,
    /// Its owner.
    pub owner: OwnerId,
    /// Where its objects live.
    pub namespace: Namespace,
    /// What the gateway calls it.
    pub routing_group: RoutingGroup,
    /// UID of the resource published last.
    pub resource: Option<ObjectUid>,
    /// Its generation.
    pub generation: SpecGeneration,
}

/// What is known before a step is begun.
#[derive(Debug, Deserialize)]
pub struct StepContextDocument {
    /// The pool of the operation, if the operation exists.
    pub pool_id: Option<PoolId>,
    /// Whether the instance is a row of the authority's pool: SQLite says 0 or 1.
    pub instance_known: u8,
}

/// What says that a row is there.
#[derive(Debug, Deserialize)]
pub struct KnownDocument {
    phase: String,
}

impl KnownDocument {
    /// The row's phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        Phase::from_stored(&self.phase)
    }
}

/// Reads one document.
///
/// # Errors
/// `Corrupt`, naming the kind of row.
pub fn document<T: DeserializeOwned>(found: &Found) -> Result<T, StoreError> {
    serde_json::from_str(&found.document)
        .map_err(|error| StoreError::Corrupt(found.part.clone(), describe(&error)))
}

/// Everything one read returned, by kind.
#[derive(Debug, Default)]
pub struct Rows {
    /// At most one, unless all were asked for.
    pub pools: Vec<PoolRow>,
    /// Of every pool, when asked.
    pub marks: BTreeMap<PoolId, Mark>,
    /// By (created_at, id).
    pub instances: Vec<InstanceRow>,
    /// By (operation, step).
    pub steps: Vec<JournalStep>,
    /// By operation.
    pub recoveries: Vec<Recovery>,
    /// By (pool, instance, node).
    pub holds: Vec<NodeHold>,
    /// How many instances serve, when asked.
    pub serving: u32,
}

#[derive(Deserialize)]
struct HoldDocument {
    pool_id: PoolId,
    id: InstanceId,
    phase: String,
    node_name: NodeName,
}

#[derive(Deserialize)]
struct CountDocument {
    count: u32,
}

/// Sorts and reads the rows of one answer.
///
/// # Errors
/// `Corrupt` when a row misses what only the schema can guarantee.
pub fn collect(found: &[Found]) -> Result<Rows, StoreError> {
    let mut rows = Rows::default();
    let mut nodes: Vec<NodeDocument> = Vec::new();
    let mut failures = Vec::new();
    let mut unreadable: Vec<(InstanceId, String)> = Vec::new();
    for one in found {
        match one.part.as_str() {
            "pool" => rows.pools.push(pool(document(one)?)),
            "mark" => rows.marks.extend([mark(document(one)?)]),
            "failure" => failures.extend(failure(document(one)?)),
            "instance" => rows.instances.push(instance(document(one)?)),
            "node" => nodes.push(document(one)?),
            "step" => match step(document(one)?) {
                Ok(step) => rows.steps.push(step),
                Err(problem) => unreadable.push(problem),
            },
            "recovery" => rows.recoveries.push(recovery(document(one)?)),
            "hold" => rows.holds.push(hold(document(one)?)),
            "serving" => rows.serving = document::<CountDocument>(one)?.count,
            other => {
                return Err(StoreError::Corrupt(
                    "answer".into(),
                    format!("unknown part {other}"),
                ));
            }
        }
    }
    nodes.sort_by_key(|node| node.seq);
    for node in nodes {
        if let Some(row) = rows.instances.iter_mut().find(|row| row.id == node.instance_id) {
            row.replacement_nodes.extend(further_node(node));
        }
    }
    for (id, problem) in unreadable {
        if let Some(row) = rows.instances.iter_mut().find(|row| row.id == id) {
            set_aside(row, &problem);
        }
    }
    failures.sort_by_key(|memory: &FailureMemory| memory.cause.as_str());
    if let Some(pool) = rows.pools.first_mut() {
        pool.failures = failures;
    }
    rows.instances
        .sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    rows.steps.sort_by(|a, b| {
        (&a.request.operation, &a.request.step).cmp(&(&b.request.operation, &b.request.step))
    });
    rows.recoveries.sort_by(|a, b| a.operation.cmp(&b.operation));
    rows.holds
        .sort_by(|a, b| (&a.pool, &a.instance, &a.node).cmp(&(&b.pool, &b.instance, &b.node)));
    Ok(rows)
}

impl Rows {
    /// The answer of a load.
    ///
    /// # Errors
    /// `Conflict` when there is no such pool.
    pub fn snapshot(mut self, pool: &PoolId) -> Result<PoolSnapshot, StoreError> {
        let pool = self.pools.pop().ok_or_else(|| super::rules::missing_pool(pool))?;
        Ok(PoolSnapshot {
            pool,
            instances: self.instances,
            open_steps: self.steps,
            recoveries: self.recoveries,
        })
    }
}

/// Makes a row that this binary must not act on unmistakable, and says why.
fn set_aside(row: &mut InstanceRow, problem: &str) {
    row.phase = Phase::Unrecognised;
    row.blueprint = Err(match &row.blueprint {
        Ok(_) => problem.to_owned(),
        Err(earlier) => format!("{earlier}; {problem}"),
    });
}

fn pool(stored: PoolDocument) -> PoolRow {
    PoolRow {
        identity: PoolIdentity {
            id: stored.id,
            namespace: stored.namespace,
            routing_group: stored.routing_group,
        },
        epoch: stored.epoch,
        owner: stored.owner,
        revision: stored.revision,
        resource: stored.resource,
        generation: stored.generation,
        desired: stored.desired.map(|desired| desired.read()),
        // Held keeps the last good desired state in force and is judged anew at every tick.
        mode: stored
            .mode
            .read()
            .unwrap_or_else(|problem| PoolMode::Held(format!("the stored mode cannot be read: {problem}"))),
        failures: Vec::new(),
    }
}

fn instance(stored: InstanceDocument) -> InstanceRow {
    let mut problems = Vec::new();
    let mut optional = Optional(&mut problems);
    let failure = optional.read("failure", stored.failure.as_ref());
    let objects = optional.read("objects", stored.objects.as_ref());
    let process = optional.read("process", stored.process.as_ref());
    let member = optional.read("member", stored.member.as_ref());
    let receipt = optional.read("receipt", stored.receipt.as_ref());
    let excluded_nodes = optional.read("excluded nodes", Some(&stored.excluded_nodes));
    let evidence = match stored.node_replacement_evidence.map(|evidence| evidence.read()) {
        None => RecordedEvidence::None,
        Some(Ok(evidence)) => RecordedEvidence::Some(evidence),
        Some(Err(problem)) => RecordedEvidence::Unreadable(problem),
    };
    let mut row = InstanceRow {
        id: stored.id,
        pool: stored.pool_id,
        release: stored.release_id,
        spec_digest: stored.spec_digest,
        blueprint: stored
            .blueprint
            .read()
            .map_err(|problem| format!("blueprint: {problem}")),
        phase: Phase::from_stored(&stored.phase),
        phase_changed_at: stored.phase_changed_at,
        owner_epoch: stored.owner_epoch,
        repair_for: stored.repair_for,
        failure,
        objects,
        process,
        member,
        receipt,
        excluded_nodes: excluded_nodes.unwrap_or_default(),
        evidence,
        replacement_nodes: Vec::new(),
        created_at: stored.created_at,
    };
    if !problems.is_empty() {
        set_aside(&mut row, &problems.join("; "));
    }
    row
}

/// Reads optional columns and remembers what is wrong with them.
struct Optional<'a>(&'a mut Vec<String>);

impl Optional<'_> {
    fn read<T: DeserializeOwned>(&mut self, what: &str, stored: Option<&Stored>) -> Option<T> {
        match stored?.read() {
            Ok(value) => Some(value),
            Err(problem) => {
                self.0.push(format!("{what}: {problem}"));
                None
            }
        }
    }
}

/// A reason only a newer binary knows makes no cordon here; the row stays for whoever knows it.
fn further_node(stored: NodeDocument) -> Option<ReplacementNode> {
    let Ok(reason) = word(&stored.reason) else {
        tracing::warn!(
            instance = %stored.instance_id, node = %stored.node_name,
            "a replacement node was recorded for a reason that this version does not know"
        );
        return None;
    };
    Some(ReplacementNode {
        node_name: stored.node_name,
        node_uid: stored.node_uid,
        nodeclaim_name: stored.nodeclaim_name,
        nodeclaim_uid: stored.nodeclaim_uid,
        reason,
        observed_at: stored.observed_at,
    })
}

/// A cause only a newer binary knows never backs this one off.
fn failure(stored: FailureDocument) -> Option<FailureMemory> {
    let cause: Option<FailureCause> = word(&stored.cause).ok();
    if cause.is_none() {
        tracing::warn!("a candidate failure was remembered for a cause that this version does not know");
    }
    Some(FailureMemory {
        cause: cause?,
        count: stored.count,
        last_at: stored.last_at,
        detail: stored.detail,
    })
}

/// One of our own closed words.
fn word<T: DeserializeOwned>(stored: &str) -> Result<T, serde_json::Error> {
    serde_json::from_value(serde_json::Value::String(stored.to_owned()))
}

/// A journaled step; or whose it is and why it cannot be replayed.
fn step(stored: StepDocument) -> Result<JournalStep, (InstanceId, String)> {
    match serde_json::from_str::<MemberRequest>(&stored.request) {
        Ok(request) => Ok(JournalStep {
            request,
            outcome: stored.outcome,
            attempts: stored.attempts,
            at: stored.at,
        }),
        Err(error) => {
            let problem = format!(
                "step {}/{}: {}",
                stored.operation_id,
                stored.step_id,
                describe(&error)
            );
            Err((stored.instance_id, problem))
        }
    }
}

/// A journaled step that must be readable, because the caller is about to replay it.
///
/// # Errors
/// `Corrupt`.
pub fn readable_step(found: &Found) -> Result<JournalStep, StoreError> {
    step(document(found)?)
        .map_err(|(instance, problem)| StoreError::Corrupt(format!("step of {instance}"), problem))
}

/// The outcome of a journaled step, which can be read even when its request cannot.
///
/// # Errors
/// `Corrupt`.
pub fn step_outcome(found: &Found) -> Result<StepOutcome, StoreError> {
    Ok(document::<StepDocument>(found)?.outcome)
}

fn recovery(stored: RecoveryDocument) -> Recovery {
    Recovery {
        operation: stored.operation,
        instance: stored.instance,
        expected_generation: stored.expected_generation,
        incarnation: stored.incarnation,
        pod_uid: stored.pod_uid,
        boot_id: stored.boot_id,
        node_id: stored.node_id,
        coordinator_id: stored.coordinator_id,
        requested_by: stored.requested_by,
        reason: stored.reason,
        created_at: stored.created_at,
    }
}

fn mark(stored: MarkDocument) -> (PoolId, Mark) {
    let mark = Mark {
        epoch: stored.epoch,
        owner: stored.owner,
        revision: stored.revision,
    };
    (stored.id, mark)
}

fn hold(stored: HoldDocument) -> NodeHold {
    NodeHold {
        pool: stored.pool_id,
        instance: stored.id,
        phase: Phase::from_stored(&stored.phase),
        node: stored.node_name,
    }
}
