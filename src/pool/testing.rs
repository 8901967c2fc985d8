//! Rows, pods, nodes and claims for the unit tests of this folder: one healthy instance, to be bent by
//! each test. Never compiled outside tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::desired::{Blueprint, Timings};
use super::evidence::RecordedEvidence;
use super::ids::{
    BackendName, BootId, ContainerId, CoordinatorId, Digest, Epoch, Generation, Incarnation, InstanceId,
    NodeName, NodeUid, ObjectUid, PodUid, PoolId, ProviderId, TrinoNodeId,
};
use super::instance::{
    InstanceObjects, InstanceRow, MemberHandle, ObjectRef, ProcessIdentity, ValidationReceipt,
};
use super::observation::{NodeReadings, Observation, OwnedWorkload, Reading};
use super::outdated::{Outdated, blueprint_digest};
use super::ownership;
use super::phase::Phase;
use super::plan::{EvidenceView, InstanceView};
use super::step::{Confirmed, StepContext};
use crate::cluster::facts::{
    ClaimFacts, ClaimInventory, ContainerFacts, DeploymentFacts, Grace, NodeFacts, ObjectFacts, ObjectKind,
    OwnerRef, PodFacts, ReplicaSetFacts, Workload,
};
use crate::gateway::model::{Member, MemberPhase, Obligations, RetirementKind};
use crate::pool::names;
use crate::trino::port::CoordinatorInfo;

/// A view of an instance of which nothing is known but its phase: it answers, is what is desired, and no node beneath
/// it goes. In that phase since it was made, at `since`.
pub fn view(name: &str, phase: Phase, since: Timestamp) -> InstanceView {
    InstanceView {
        id: name.into(),
        phase,
        suspected_locally: false,
        answering: true,
        unregistered: false,
        leaving: false,
        leaving_since: None,
        member: None,
        outdated: Outdated::No,
        evidence: EvidenceView::None,
        at_risk: false,
        repair_for: None,
        created_at: since,
        phase_changed_at: since,
        deadline: None,
        outstanding: None,
        waiting: None,
    }
}

/// Named ways to bend a `T`, for tables.
pub type Bends<T> = Vec<(&'static str, fn(&mut T))>;

pub const ID: &str = "cell-00000001";
pub const EPOCH: u64 = 7;

/// The moment at which tests play, and moments `seconds` later.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_900_000_000 + seconds).unwrap()
}

pub fn owner(api_version: &str, kind: &str, name: &str, uid: &str, controller: bool) -> OwnerRef {
    OwnerRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller,
    }
}

fn reference(name: &str) -> ObjectRef {
    ObjectRef {
        name: name.into(),
        uid: ObjectUid::new(format!("uid-{name}")),
    }
}

pub fn objects() -> InstanceObjects {
    InstanceObjects {
        coordinator: reference(&format!("{ID}-coordinator")),
        workers: reference(&format!("{ID}-worker")),
        service: reference(ID),
        coordinator_config: reference(&format!("{ID}-coordinator-config")),
        worker_config: reference(&format!("{ID}-worker-config")),
    }
}

pub fn blueprint() -> Blueprint {
    Blueprint {
        release: "r1".into(),
        image: "trino:1".to_owned(),
        namespace: "trino".into(),
        service_account: None,
        container: "trino".to_owned(),
        http_port: 8080,
        environment: "test".to_owned(),
        coordinator_template: json!({}),
        worker_template: json!({}),
        workers: 1,
        coordinator_files: BTreeMap::new(),
        worker_files: BTreeMap::new(),
        catalogs: BTreeMap::new(),
    }
}

pub fn process() -> ProcessIdentity {
    ProcessIdentity {
        pod: PodUid::from("pod-uid-coordinator"),
        container: Some(ContainerId::from("container-1")),
        boot: BootId::from("abcde"),
        node: TrinoNodeId::from("trino-node-1"),
        coordinator: CoordinatorId::from("abcde"),
    }
}

pub fn receipt() -> ValidationReceipt {
    ValidationReceipt {
        certificate: Digest::new("c".repeat(64)),
        process: process(),
        config_revision: "config".to_owned(),
        auth_revision: "auth".to_owned(),
        ready_workers: 1,
        checks: ["image", "workers", "catalog-revision", "auth-revision"]
            .map(str::to_owned)
            .to_vec(),
        validated_at: at(0),
        replica_sets: None,
    }
}

pub fn handle(phase: MemberPhase, generation: u64) -> MemberHandle {
    MemberHandle {
        incarnation: Incarnation::from("incarnation-1"),
        backend: BackendName::new(format!("analytics-{ID}")),
        phase,
        generation: Generation::new(generation),
        retirement: None,
    }
}

pub fn retired_as(mut handle: MemberHandle, kind: RetirementKind) -> MemberHandle {
    handle.retirement = Some(kind);
    handle
}

/// The gateway's member as a row of this handle would expect it.
pub fn member(handle: &MemberHandle) -> Member {
    let process = process();
    Member {
        instance_id: InstanceId::from(ID),
        incarnation: handle.incarnation.clone(),
        backend_name: handle.backend.clone(),
        phase: handle.phase,
        generation: handle.generation,
        pod_uid: process.pod,
        boot_id: process.boot,
        node_id: process.node,
        coordinator_id: process.coordinator,
        retirement_kind: handle.retirement,
        eligible: handle.phase == MemberPhase::Active,
        replayed: false,
    }
}

/// The member handle that is usual in a phase.
pub fn usual_handle(phase: Phase) -> Option<MemberHandle> {
    let drained = |handle| Some(retired_as(handle, RetirementKind::Drained));
    match phase {
        Phase::Pending | Phase::Creating | Phase::Unrecognised => None,
        Phase::Preparing | Phase::Validating => Some(handle(MemberPhase::Preparing, 0)),
        Phase::Admitted | Phase::Serving => Some(handle(MemberPhase::Active, 1)),
        Phase::Draining => Some(handle(MemberPhase::Draining, 2)),
        Phase::Sealed => Some(handle(MemberPhase::Sealed, 3)),
        Phase::Retiring => drained(handle(MemberPhase::Retiring, 4)),
        Phase::Retired => drained(handle(MemberPhase::Retired, 5)),
        Phase::Suspect => Some(handle(MemberPhase::Suspect, 2)),
        Phase::Lost => Some(retired_as(handle(MemberPhase::Lost, 3), RetirementKind::Failed)),
        Phase::FailureRetired => Some(retired_as(
            handle(MemberPhase::Retired, 5),
            RetirementKind::Failed,
        )),
        Phase::FailedPreparing => drained(handle(MemberPhase::Retiring, 1)),
    }
}

/// A row as it usually stands in a phase.
pub fn row(phase: Phase) -> InstanceRow {
    let born = matches!(phase, Phase::Pending | Phase::Creating);
    let member = usual_handle(phase);
    InstanceRow {
        id: InstanceId::from(ID),
        pool: PoolId::from("trino/analytics"),
        release: "r1".into(),
        spec_digest: Digest::new("d".repeat(64)),
        blueprint: Ok(blueprint()),
        phase,
        phase_changed_at: at(0),
        owner_epoch: Epoch::new(EPOCH),
        repair_for: None,
        failure: None,
        objects: (phase != Phase::Pending).then(objects),
        process: (!born).then(process),
        member,
        receipt: (!born && phase != Phase::Preparing).then(receipt),
        excluded_nodes: Vec::new(),
        evidence: RecordedEvidence::None,
        replacement_nodes: Vec::new(),
        created_at: at(0),
    }
}

/// A running, protected pod on a node.
pub fn pod(name: &str, node: &str) -> PodFacts {
    PodFacts {
        name: name.into(),
        uid: PodUid::new(format!("pod-uid-{name}")),
        resource_version: "11".into(),
        labels: BTreeMap::from([(names::LABEL_INSTANCE.to_owned(), ID.to_owned())]),
        owners: Vec::new(),
        do_not_disrupt: Some("true".to_owned()),
        node: Some(node.into()),
        finished: false,
        terminating: false,
        ready: true,
        ip: Some("10.0.0.1".to_owned()),
        started_at: Some(at(-600)),
        containers: BTreeMap::from([(
            "trino".to_owned(),
            ContainerFacts {
                image: Some("trino:1".to_owned()),
                running: Some(ContainerId::from("container-1")),
                ..ContainerFacts::default()
            },
        )]),
        config_maps: Vec::new(),
        unschedulable_because: None,
    }
}

fn object(kind: ObjectKind, reference: &ObjectRef) -> ObjectFacts {
    ObjectFacts {
        kind,
        namespace: "trino".into(),
        name: reference.name.clone(),
        uid: reference.uid.clone(),
        resource_version: "1".into(),
        labels: BTreeMap::from([
            (names::LABEL_INSTANCE.to_owned(), ID.to_owned()),
            (names::LABEL_POOL.to_owned(), "analytics".to_owned()),
            (names::LABEL_MANAGED_BY.to_owned(), names::MANAGED_BY.to_owned()),
        ]),
        annotations: BTreeMap::from([(names::ANNOTATION_EPOCH.to_owned(), EPOCH.to_string())]),
        deleting: false,
    }
}

/// All five objects as facts.
pub fn object_facts() -> Vec<ObjectFacts> {
    let objects = objects();
    vec![
        object(ObjectKind::Deployment, &objects.coordinator),
        object(ObjectKind::Deployment, &objects.workers),
        object(ObjectKind::Service, &objects.service),
        object(ObjectKind::ConfigMap, &objects.coordinator_config),
        object(ObjectKind::ConfigMap, &objects.worker_config),
    ]
}

fn replica_set(name: &str, deployment: &ObjectRef) -> ReplicaSetFacts {
    ReplicaSetFacts {
        name: name.into(),
        uid: ObjectUid::new(format!("uid-{name}")),
        owners: vec![owner(
            "apps/v1",
            "Deployment",
            deployment.name.as_str(),
            deployment.uid.as_str(),
            true,
        )],
        wanted: 1,
    }
}

/// A healthy instance: its coordinator on node-1, worker n on node-(n+1).
pub fn workload(workers: u32) -> Workload {
    let facts = object_facts();
    let objects = objects();
    let mut pods = vec![pod("coordinator", "node-1")];
    pods[0].owners = vec![owner(
        "apps/v1",
        "ReplicaSet",
        "rs-coordinator",
        "uid-rs-coordinator",
        true,
    )];
    for index in 1..=workers {
        let mut worker = pod(&format!("worker-{index}"), &format!("node-{}", index + 1));
        worker.owners = vec![owner("apps/v1", "ReplicaSet", "rs-worker", "uid-rs-worker", true)];
        pods.push(worker);
    }
    let deployment = |object: &ObjectFacts, replicas: u32| DeploymentFacts {
        object: object.clone(),
        replicas: Some(replicas),
        ready: replicas,
        generation: 1,
    };
    Workload {
        deployments: vec![deployment(&facts[0], 1), deployment(&facts[1], workers)],
        replica_sets: vec![
            replica_set("rs-coordinator", &objects.coordinator),
            replica_set("rs-worker", &objects.workers),
        ],
        pods,
        services: vec![facts[2].clone()],
        config_maps: vec![facts[3].clone(), facts[4].clone()],
        undecodable: Vec::new(),
    }
}

/// The same workload, proven.
pub fn owned(workers: u32) -> OwnedWorkload {
    ownership::prove(&row(Phase::Serving), &workload(workers), Epoch::new(EPOCH))
}

/// A node owned by the claim `claim-<n>`, created long ago.
pub fn node(number: u32) -> NodeFacts {
    let (name, claim) = (format!("node-{number}"), format!("claim-{number}"));
    NodeFacts {
        name: NodeName::new(&name),
        uid: NodeUid::new(format!("uid-{name}")),
        resource_version: "21".into(),
        created_at: Some(at(-3600)),
        deleting: false,
        owners: vec![owner(
            "karpenter.sh/v1",
            "NodeClaim",
            &claim,
            &format!("uid-{claim}"),
            false,
        )],
        provider_id: Some(ProviderId::new(format!("kwok:///{name}"))),
        unschedulable: false,
        taints: Vec::new(),
        cordon_mark: None,
        ready: true,
    }
}

/// The claim of [`node`].
pub fn claim(number: u32) -> ClaimFacts {
    let (node, name) = (format!("node-{number}"), format!("claim-{number}"));
    ClaimFacts {
        name: name.as_str().into(),
        uid: format!("uid-{name}").as_str().into(),
        deleted_at: None,
        node: Some(NodeName::new(&node)),
        provider_id: Some(ProviderId::new(format!("kwok:///{node}"))),
        drifted: None,
        disruption: None,
        ambiguous: false,
        grace: Grace::Unlimited,
        termination_at: None,
    }
}

/// Readings of these nodes with an inventory of these claims.
pub fn readings(nodes: Vec<NodeFacts>, claims: Vec<ClaimFacts>) -> NodeReadings {
    NodeReadings {
        nodes: nodes
            .into_iter()
            .map(|node| (node.name.clone(), Reading::Seen(Some(node))))
            .collect(),
        claims: super::observation::Claims::Inventory(Arc::new(ClaimInventory {
            claims: claims
                .into_iter()
                .map(|claim| (claim.uid.clone(), claim))
                .collect(),
            ..ClaimInventory::default()
        })),
    }
}

/// What the registered process says about itself.
pub fn info() -> CoordinatorInfo {
    CoordinatorInfo {
        ready: true,
        node: Some(TrinoNodeId::from("trino-node-1")),
        coordinator: Some(CoordinatorId::from("abcde")),
        version: Some("483".to_owned()),
        environment: Some("test".to_owned()),
    }
}

pub fn obligations(phase: MemberPhase, generation: u64, owed: u64) -> Obligations {
    Obligations {
        incarnation: Incarnation::from("incarnation-1"),
        phase,
        generation: Generation::new(generation),
        pending_requests: 0,
        open_transactions: 0,
        active_queries: owed,
        ready_to_seal: owed == 0,
    }
}

/// Everything was asked and is well; the member is what the row says.
pub fn observation(row: &InstanceRow) -> Observation {
    let workload = workload(1);
    Observation {
        owned: Reading::Seen(ownership::prove(row, &workload, Epoch::new(EPOCH))),
        workload: Reading::Seen(workload),
        member: Reading::Seen(row.member.as_ref().map(member)),
        obligations: Reading::Seen(
            row.member
                .as_ref()
                .map(|handle| obligations(handle.phase, handle.generation.get(), 0)),
        ),
        info: Reading::Seen(info()),
        endpoint: Reading::Seen("http://cell-00000001.trino.svc:8080".to_owned()),
        placement: Reading::Seen(super::observation::PlacementReport {
            clean: true,
            ..super::observation::PlacementReport::default()
        }),
        unprotected: Vec::new(),
        namespace_pods: Reading::NotAsked,
        at: at(0),
    }
}

/// A pool of three wanted and serving, floor two, node replacement on, nothing failing.
pub fn context() -> StepContext {
    StepContext {
        pool: "analytics".into(),
        epoch: Epoch::new(EPOCH),
        owner: "owner-1".into(),
        min_serving: 2,
        serving: 3,
        leaving: 0,
        suspected_another: false,
        desired_digest: Some(blueprint_digest(&blueprint())),
        desired_release: Some("r1".into()),
        timings: Timings::default(),
        node_checks: true,
        probes_trusted: true,
        failing_for: None,
        open_step: None,
        sent_before: false,
        refused_in_doubt: false,
        recovery: None,
        fresh_placement: None,
        target: 3,
        answering: 2,
        gateway_pool: None,
        confirmed: Confirmed::default(),
    }
}

pub const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

pub fn unknown<T>() -> Reading<T> {
    Reading::Unknown(fault("KubernetesUnreachable"))
}

pub fn fault(label: &'static str) -> super::observation::Fault {
    super::observation::Fault {
        label,
        subject: "x".to_owned(),
        detail: "no answer".to_owned(),
    }
}
