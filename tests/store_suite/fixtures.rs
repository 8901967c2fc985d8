//! Rows to write, as small as they can be and still touch every column.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use trino_pool_operator::gateway::model::{
    AdmissionReceipt, LossEvidence, MemberAction, MemberPhase, MemberRequest, Registration, RetirementKind,
};
use trino_pool_operator::pool::desired::{
    Blueprint, DeletionPolicy, DesiredPool, FiniteGrace, NodeReplacement, Timings, UnownedNodes,
};
use trino_pool_operator::pool::evidence::{Disruption, Evidence, ReplacementNode};
use trino_pool_operator::pool::ids::{Digest, Epoch, Generation, InstanceId, PoolId};
use trino_pool_operator::pool::instance::{
    CandidateFailure, FailureCause, InstanceChanges, InstanceObjects, MemberHandle, ObjectRef,
    ProcessIdentity, ValidationReceipt,
};
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::port::{Authority, NewInstance, PoolIdentity, Recovery, Store, Write};

/// A moment, `micros` after a fixed one. All stores keep microseconds.
pub fn at(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(1_760_000_000_000_000 + micros).unwrap()
}

pub fn identity(name: &str) -> PoolIdentity {
    PoolIdentity {
        id: PoolId::new(format!("trino/{name}")),
        namespace: "trino".into(),
        routing_group: name.into(),
    }
}

pub fn id(name: &str) -> InstanceId {
    InstanceId::new(name)
}

pub fn blueprint() -> Blueprint {
    let files: BTreeMap<String, String> = [(
        "config.properties".to_owned(),
        "a=\"quoted\"\nb=\u{e9}\n".to_owned(),
    )]
    .into();
    Blueprint {
        release: "r1".into(),
        image: "trinodb/trino:476".into(),
        namespace: "trino".into(),
        service_account: Some("trino".into()),
        container: "trino".into(),
        http_port: 8080,
        environment: "test".into(),
        coordinator_template: serde_json::json!({"spec": {"containers": [{"name": "trino", "x": 1.5, "n": null}]}}),
        worker_template: serde_json::json!({"spec": {"containers": []}}),
        workers: 2,
        coordinator_files: files.clone(),
        worker_files: files,
        catalogs: BTreeMap::new(),
    }
}

pub fn desired(pool: &PoolIdentity) -> DesiredPool {
    DesiredPool {
        namespace: pool.namespace.clone(),
        routing_group: pool.routing_group.clone(),
        instances: 3,
        min_serving: 2,
        max_surge: 1,
        max_repair: 1,
        node_replacement: NodeReplacement {
            enabled: true,
            finite_grace: FiniteGrace::AcceptAtLeast(Duration::from_hours(1)),
            unowned_nodes: UnownedNodes::Allow,
        },
        deletion_policy: DeletionPolicy::Drain,
        timings: Timings::default(),
        blueprint: blueprint(),
    }
}

pub fn new(name: &str) -> NewInstance {
    NewInstance {
        id: id(name),
        release: "r1".into(),
        spec_digest: Digest::new("d1"),
        blueprint: blueprint(),
        repair_for: None,
        excluded_nodes: vec!["n9".into(), "n3".into()],
    }
}

pub fn create(name: &str) -> Write {
    Write::CreateInstance(Box::new(new(name)))
}

pub fn advance(name: &str, from: Phase, to: Phase) -> Write {
    Write::Advance {
        instance: id(name),
        from,
        to,
        changes: Box::default(),
    }
}

/// A row's way to `to`, from its creation on.
pub fn life(name: &str, to: Phase) -> Vec<Write> {
    use Phase::{
        Admitted, Creating, Draining, Pending, Preparing, Retired, Retiring, Sealed, Serving, Validating,
    };
    let way = [
        Pending, Creating, Preparing, Validating, Admitted, Serving, Draining, Sealed, Retiring, Retired,
    ];
    let end = way.iter().position(|phase| *phase == to).expect("on the way");
    let moves = way[..=end].windows(2).map(|two| advance(name, two[0], two[1]));
    std::iter::once(create(name)).chain(moves).collect()
}

pub fn process(n: u8) -> ProcessIdentity {
    ProcessIdentity {
        pod: format!("pod-{n}").as_str().into(),
        container: Some(format!("containerd://{n}").as_str().into()),
        boot: format!("boot-{n}").as_str().into(),
        node: format!("node-{n}").as_str().into(),
        coordinator: format!("c{n}").as_str().into(),
    }
}

pub fn member(generation: u64) -> MemberHandle {
    MemberHandle {
        incarnation: "inc-1".into(),
        backend: "b-1".into(),
        phase: MemberPhase::Draining,
        generation: Generation::new(generation),
        retirement: Some(RetirementKind::Drained),
    }
}

pub fn every_change() -> InstanceChanges {
    let object = |name: &str| ObjectRef {
        name: name.into(),
        uid: format!("uid-{name}").as_str().into(),
    };
    InstanceChanges {
        objects: Some(InstanceObjects {
            coordinator: object("c"),
            workers: object("w"),
            service: object("s"),
            coordinator_config: object("cc"),
            worker_config: object("wc"),
        }),
        process: Some(process(1)),
        member: Some(member(4)),
        receipt: Some(ValidationReceipt {
            certificate: Digest::new("ab".repeat(32)),
            process: process(1),
            config_revision: "c".into(),
            auth_revision: "a".into(),
            ready_workers: 2,
            checks: vec!["image".into(), "workers".into()],
            validated_at: Timestamp::from_nanosecond(1_760_000_000_123_456_789).unwrap(),
            replica_sets: Some(["uid-rs".into()].into()),
        }),
        failure: Some(CandidateFailure {
            cause: FailureCause::NodeLeaving,
            detail: "node n1 is drifted".into(),
        }),
    }
}

pub fn evidence(node: &str, uid: &str, reason: Disruption) -> Evidence {
    Evidence {
        node_name: node.into(),
        node_uid: uid.into(),
        nodeclaim_name: format!("claim-{node}").as_str().into(),
        nodeclaim_uid: format!("claim-{uid}").as_str().into(),
        reason,
        observed_at: Timestamp::from_nanosecond(1_760_000_000_123_456_789).unwrap(),
        detail: Some("NodePoolDrifted".into()),
    }
}

pub fn record(name: &str, evidence: &Evidence) -> Write {
    Write::RecordEvidence {
        instance: id(name),
        evidence: evidence.clone(),
    }
}

pub fn node(name: &str, uid: &str, reason: Disruption) -> ReplacementNode {
    ReplacementNode {
        node_name: name.into(),
        node_uid: uid.into(),
        nodeclaim_name: format!("claim-{name}").as_str().into(),
        nodeclaim_uid: format!("claim-{uid}").as_str().into(),
        reason,
        observed_at: at(7),
    }
}

pub fn append(name: &str, node: &ReplacementNode) -> Write {
    Write::AppendReplacementNode {
        instance: id(name),
        node: node.clone(),
    }
}

pub fn request(name: &str, step: &str, action: MemberAction) -> MemberRequest {
    MemberRequest {
        instance: id(name),
        operation: format!("instance:{name}").as_str().into(),
        step: step.into(),
        action,
    }
}

pub fn drain(generation: u64) -> MemberAction {
    MemberAction::Drain {
        expected: Generation::new(generation),
    }
}

/// One of each.
pub fn every_action() -> Vec<MemberAction> {
    let expected = Generation::new(7);
    let who = process(1);
    vec![
        MemberAction::Register(Registration {
            backend_name: "b-1".into(),
            pod_uid: who.pod.clone(),
            boot_id: who.boot.clone(),
            config_revision: "r\"1\u{e9}".into(),
            repair_for: Some("cell-0".into()),
        }),
        MemberAction::Admit {
            expected,
            receipt: AdmissionReceipt {
                certificate_hash: "ab".repeat(32),
                config_revision: "r1".into(),
                auth_revision: "a1".into(),
                pod_uid: who.pod.clone(),
                boot_id: who.boot.clone(),
                node_id: who.node.clone(),
                coordinator_id: who.coordinator.clone(),
                ready_workers: 2,
                checks: vec!["image".into()],
            },
        },
        MemberAction::Drain { expected },
        MemberAction::Seal { expected },
        MemberAction::Suspect {
            expected,
            reason: "probes fail".into(),
        },
        MemberAction::Lost {
            expected,
            evidence: LossEvidence::ProcessTerminated {
                pod_uid: who.pod,
                boot_id: who.boot,
                node_id: who.node,
                coordinator_id: who.coordinator,
                source: "kubelet".into(),
            },
        },
        MemberAction::Retire { expected },
        MemberAction::Retired { expected },
    ]
}

pub fn recovery(operation: &str, name: &str) -> Recovery {
    let who = process(1);
    Recovery {
        operation: operation.into(),
        instance: id(name),
        expected_generation: Generation::new(4),
        incarnation: "inc-1".into(),
        pod_uid: who.pod,
        boot_id: who.boot,
        node_id: who.node,
        coordinator_id: who.coordinator,
        requested_by: "jo@example.org".into(),
        reason: "its disk is gone".into(),
        created_at: at(1),
    }
}

/// A seeded pool under a first authority.
pub async fn pool(store: &dyn Store, name: &str) -> Authority {
    let pool = identity(name);
    store.seed(&pool).await.unwrap();
    store
        .acquire(&pool.id, &"first".into(), Epoch::default())
        .await
        .unwrap()
}

/// A pool under authority with one instance draining, as [`recovery`] says.
pub async fn draining(store: &dyn Store, name: &str) -> Authority {
    let authority = pool(store, "a").await;
    let seen = Write::Update {
        instance: id(name),
        changes: Box::new(every_change()),
    };
    write(store, &authority, life(name, Phase::Draining)).await;
    write(store, &authority, vec![seen]).await;
    authority
}

/// Commits writes that must succeed.
pub async fn write(store: &dyn Store, authority: &Authority, writes: Vec<Write>) {
    store.commit(authority, at(0), &writes).await.unwrap();
}
