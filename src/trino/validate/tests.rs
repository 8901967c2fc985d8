use std::sync::Mutex;

use async_trait::async_trait;
use serde_json::Value;

use super::*;
use crate::cluster::facts::{ContainerFacts, ObjectFacts, ObjectKind};
use crate::pool::ids::{
    BootId, ContainerId, CoordinatorId, InstanceId, Namespace, ObjectUid, PodUid, ReleaseId, ResourceVersion,
};

/// A candidate about which everything is right, and its coordinator's right answers.
struct Good {
    target: CoordinatorTarget,
    blueprint: Blueprint,
    objects: InstanceObjects,
    registered: ProcessIdentity,
    workload: Workload,
    owned: OwnedWorkload,
    answers: Answers,
}

impl Good {
    fn candidate(&self) -> Candidate<'_> {
        Candidate {
            target: &self.target,
            blueprint: &self.blueprint,
            objects: &self.objects,
            registered: &self.registered,
            workload: &self.workload,
            owned: &self.owned,
        }
    }

    fn verdict(&self) -> Validation {
        judge(&self.candidate(), &self.answers, Timestamp::UNIX_EPOCH)
    }

    fn why_not(&self) -> &'static str {
        match self.verdict() {
            Validation::NotReady(fault) => fault.label,
            Validation::Proven(_) => "proven",
            Validation::Unknown(_) => "unknown",
            Validation::OtherProcess(_) => "other process",
        }
    }
}

fn object(kind: ObjectKind, name: &str, uid: &str) -> ObjectFacts {
    ObjectFacts {
        kind,
        namespace: Namespace::new("trino"),
        name: ObjectName::new(name),
        uid: ObjectUid::new(uid),
        resource_version: ResourceVersion::new("1"),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        deleting: false,
    }
}

fn recorded(name: &str, uid: &str) -> ObjectRef {
    ObjectRef {
        name: ObjectName::new(name),
        uid: ObjectUid::new(uid),
    }
}

fn pod(name: &str, config_map: &str) -> PodFacts {
    PodFacts {
        name: ObjectName::new(name),
        uid: PodUid::new(format!("{name}-uid")),
        resource_version: ResourceVersion::new("1"),
        labels: BTreeMap::new(),
        owners: Vec::new(),
        do_not_disrupt: Some("true".into()),
        node: None,
        finished: false,
        terminating: false,
        ready: true,
        ip: None,
        started_at: None,
        containers: BTreeMap::from([(
            "trino".to_owned(),
            ContainerFacts {
                image: Some("trinodb/trino:483".into()),
                running: Some(ContainerId::new(format!("containerd://{name}"))),
                ..ContainerFacts::default()
            },
        )]),
        config_maps: vec![ObjectName::new(config_map)],
        unschedulable_because: None,
    }
}

fn info(boot: &str) -> CoordinatorInfo {
    CoordinatorInfo {
        ready: true,
        node: Some(TrinoNodeId::new("c0")),
        coordinator: Some(CoordinatorId::new(boot)),
        version: Some("483".into()),
        environment: Some("prod_a".into()),
    }
}

fn node(id: &str, coordinator: bool) -> ClusterNode {
    ClusterNode {
        id: TrinoNodeId::new(id),
        coordinator,
        active: true,
    }
}

fn good() -> Good {
    let files = |text: &str| BTreeMap::from([("config.properties".to_owned(), text.to_owned())]);
    Good {
        target: CoordinatorTarget {
            namespace: Namespace::new("trino"),
            instance: InstanceId::new("cell-1a2b3c4d"),
            port: 8080,
            pod_ip: None,
        },
        blueprint: Blueprint {
            release: ReleaseId::new("r1"),
            image: "trinodb/trino:483".into(),
            namespace: Namespace::new("trino"),
            service_account: None,
            container: "trino".into(),
            http_port: 8080,
            environment: "prod_a".into(),
            coordinator_template: Value::Null,
            worker_template: Value::Null,
            workers: 2,
            coordinator_files: files("coordinator=true"),
            worker_files: files("coordinator=false"),
            catalogs: BTreeMap::from([("tpch".to_owned(), "connector.name=tpch".to_owned())]),
        },
        objects: InstanceObjects {
            coordinator: recorded("c", "d1"),
            workers: recorded("w", "d2"),
            service: recorded("s", "s1"),
            coordinator_config: recorded("cc", "cm1"),
            worker_config: recorded("wc", "cm2"),
        },
        registered: ProcessIdentity {
            pod: PodUid::new("coordinator-uid"),
            container: Some(ContainerId::new("containerd://coordinator")),
            boot: BootId::new("aaaaa"),
            node: TrinoNodeId::new("c0"),
            coordinator: CoordinatorId::new("aaaaa"),
        },
        workload: Workload {
            config_maps: vec![
                object(ObjectKind::ConfigMap, "cc", "cm1"),
                object(ObjectKind::ConfigMap, "wc", "cm2"),
            ],
            ..Workload::default()
        },
        owned: OwnedWorkload {
            coordinators: vec![pod("coordinator", "cc")],
            workers: vec![pod("worker-1", "wc"), pod("worker-2", "wc")],
            coordinator_ready: Some(1),
            workers_ready: Some(2),
            workers_wanted: Some(2),
            wanted_sets: Vec::new(),
            faults: Vec::new(),
        },
        answers: Answers {
            before: info("aaaaa"),
            catalogs: vec!["system".into(), "tpch".into()],
            nodes: vec![node("c0", true), node("w1", false), node("w2", false)],
            after: info("aaaaa"),
        },
    }
}

#[test]
fn everything_right_is_proven_and_named() {
    let Validation::Proven(receipt) = good().verdict() else {
        panic!("{:?}", good().verdict());
    };
    assert_eq!(receipt.process, good().registered);
    assert_eq!(receipt.ready_workers, 2);
    assert_eq!(receipt.checks, CHECKS);
    for digest in [
        receipt.certificate.as_str(),
        &receipt.config_revision,
        &receipt.auth_revision,
    ] {
        assert_eq!(digest.len(), 64);
        assert!(
            digest
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        );
    }
}

#[test]
fn t04_a_coordinator_that_starts_or_is_of_another_environment_waits() {
    let mut starting = good();
    starting.answers.before.ready = false;
    assert_eq!(starting.why_not(), "CoordinatorStarting");

    let mut other = good();
    other.answers.before.environment = Some("prod_b".into());
    assert_eq!(other.why_not(), "EnvironmentDiffers");
    other.answers.before.environment = None;
    assert_eq!(other.why_not(), "EnvironmentDiffers");

    let mut restarting = good();
    restarting.answers.after.ready = false;
    assert_eq!(restarting.why_not(), "CoordinatorStarting");
}

#[test]
fn t04_a_restart_between_the_two_looks_is_another_process() {
    let mut restarted = good();
    restarted.answers.after = info("bbbbb");
    restarted.answers.after.ready = false;
    assert_eq!(restarted.why_not(), "other process");
}

#[test]
fn t05_a_new_process_behind_the_same_pod_and_node_id_is_another_process() {
    let mut restarted = good();
    restarted.answers.before = info("bbbbb");
    restarted.answers.after = info("bbbbb");
    let Validation::OtherProcess(seen) = restarted.verdict() else {
        panic!("a restarted process must not pass for the registered one");
    };
    assert_eq!(seen.pod, restarted.registered.pod);
    assert_eq!(seen.boot, BootId::new("bbbbb"));
}

#[test]
fn a_container_that_contradicts_the_boot_id_proves_nothing() {
    let mut contradiction = good();
    contradiction.registered.container = Some(ContainerId::new("containerd://earlier"));
    assert_eq!(contradiction.why_not(), "other process");
    contradiction.registered.container = None;
    assert_eq!(contradiction.why_not(), "proven");
}

#[test]
fn a_coordinator_without_identity_is_never_proven() {
    let mut old = good();
    old.answers.before.coordinator = None;
    assert_eq!(old.why_not(), "NoProcessIdentity");
}

#[test]
fn every_pod_runs_the_blueprints_image() {
    for which in 0..3 {
        let mut differs = good();
        let pods = &mut differs.owned;
        let mut all: Vec<_> = pods.coordinators.iter_mut().chain(&mut pods.workers).collect();
        all[which].containers.get_mut("trino").unwrap().image = Some("trinodb/trino:482".into());
        assert_eq!(differs.why_not(), "ImageDiffers");
    }
}

#[test]
fn two_coordinators_or_none_are_not_one() {
    let mut two = good();
    two.owned.coordinators.push(pod("coordinator-2", "cc"));
    assert_eq!(two.why_not(), "CoordinatorPods");
    let mut leaving = good();
    leaving.owned.coordinators[0].terminating = true;
    assert_eq!(leaving.why_not(), "CoordinatorPods");
}

#[test]
fn catalogs_are_exactly_the_blueprints_and_system() {
    for catalogs in [
        vec!["system"],
        vec!["tpch"],
        vec!["system", "tpch", "memory"],
        vec![],
    ] {
        let mut differs = good();
        differs.answers.catalogs = catalogs.into_iter().map(str::to_owned).collect();
        assert_eq!(differs.why_not(), "CatalogsDiffer");
    }
}

#[test]
fn workers_are_counted_by_all_three_witnesses() {
    let mut missing = good();
    missing.answers.nodes.pop();
    assert_eq!(missing.why_not(), "WorkersDiffer");

    let mut unready = good();
    unready.owned.workers_ready = Some(1);
    assert_eq!(unready.why_not(), "WorkersDiffer");

    // The Deployment has not counted again since.
    let mut going = good();
    going.owned.workers[1].terminating = true;
    assert_eq!(going.why_not(), "WorkersDiffer");

    let mut unknown = good();
    unknown.owned.workers_ready = None;
    assert_eq!(unknown.why_not(), "WorkersDiffer");

    let mut scaled = good();
    scaled.owned.workers_wanted = Some(3);
    assert_eq!(scaled.why_not(), "WorkersDiffer");

    let mut inactive = good();
    inactive.answers.nodes[2].active = false;
    assert_eq!(inactive.why_not(), "WorkersDiffer");

    let mut foreign = good();
    foreign.answers.nodes[0].id = TrinoNodeId::new("c9");
    assert_eq!(foreign.why_not(), "WorkersDiffer");

    let mut none = good();
    none.answers.nodes.truncate(1);
    none.owned.workers_ready = Some(0);
    none.owned.workers_wanted = Some(0);
    none.blueprint.workers = 0;
    assert_eq!(none.why_not(), "WorkersDiffer");
}

#[test]
fn t05_a_worker_listed_twice_counts_once() {
    let mut doubled = good();
    doubled.answers.nodes.pop();
    doubled.answers.nodes.push(node("w1", false));
    assert_eq!(doubled.why_not(), "WorkersDiffer");
}

#[test]
fn a_revision_is_claimed_only_for_the_recorded_and_mounted_config_maps() {
    let mut replaced = good();
    replaced.workload.config_maps[1].uid = ObjectUid::new("cm9");
    assert_eq!(replaced.why_not(), "RevisionUnproven");

    let mut gone = good();
    gone.workload.config_maps.remove(0);
    assert_eq!(gone.why_not(), "RevisionUnproven");

    let mut unmounted = good();
    unmounted.owned.coordinators[0].config_maps.clear();
    assert_eq!(unmounted.why_not(), "RevisionUnproven");

    let mut other = good();
    other.owned.workers[1].config_maps = vec![ObjectName::new("cc")];
    assert_eq!(other.why_not(), "RevisionUnproven");
}

#[test]
fn a_foreign_pod_stops_validation_with_its_own_reason() {
    let mut foreign = good();
    foreign.owned.faults.push(Fault {
        label: "ForeignPod",
        subject: "p".into(),
        detail: String::new(),
    });
    assert_eq!(foreign.why_not(), "ForeignPod");
}

#[test]
fn revisions_follow_content_and_nothing_else() {
    let base = good().blueprint;
    let mut moved = base.clone();
    moved.release = ReleaseId::new("r2");
    assert_eq!(config_revision(&base), config_revision(&moved));

    let mut catalog = base.clone();
    catalog
        .catalogs
        .insert("memory".into(), "connector.name=memory".into());
    assert_ne!(config_revision(&base), config_revision(&catalog));
    assert_eq!(auth_revision(&base), auth_revision(&catalog));

    let mut rules = base.clone();
    rules
        .coordinator_files
        .insert("access-control.properties".into(), "x".into());
    assert_ne!(auth_revision(&base), auth_revision(&rules));
}

/// A coordinator that answers from a list of infos, and counts the statements it is asked.
struct Scripted {
    infos: Mutex<Vec<Result<CoordinatorInfo, ProbeError>>>,
    statements: Mutex<Vec<&'static str>>,
}

#[async_trait]
impl Coordinator for Scripted {
    fn url(&self, _: &CoordinatorTarget) -> Result<String, ProbeError> {
        Err(ProbeError::NoAddress("unused".into()))
    }

    async fn info(&self, _: &CoordinatorTarget) -> Result<CoordinatorInfo, ProbeError> {
        self.infos.lock().unwrap().remove(0)
    }

    async fn nodes(&self, _: &CoordinatorTarget) -> Result<Vec<ClusterNode>, ProbeError> {
        self.statements.lock().unwrap().push("nodes");
        Ok(good().answers.nodes)
    }

    async fn catalogs(&self, _: &CoordinatorTarget) -> Result<Vec<String>, ProbeError> {
        self.statements.lock().unwrap().push("catalogs");
        Ok(good().answers.catalogs)
    }
}

async fn probed(infos: Vec<Result<CoordinatorInfo, ProbeError>>) -> (Validation, Vec<&'static str>) {
    let coordinator = Scripted {
        infos: Mutex::new(infos),
        statements: Mutex::default(),
    };
    let verdict = validate(&coordinator, &good().candidate(), Timestamp::UNIX_EPOCH).await;
    (verdict, coordinator.statements.into_inner().unwrap())
}

#[tokio::test]
async fn probes_go_in_order_and_stop_at_the_first_refutation() {
    let (verdict, statements) = probed(vec![Ok(info("aaaaa")), Ok(info("aaaaa"))]).await;
    assert!(matches!(verdict, Validation::Proven(_)));
    assert_eq!(statements, ["catalogs", "nodes"]);

    let (verdict, statements) = probed(vec![Ok(info("bbbbb"))]).await;
    assert!(matches!(verdict, Validation::OtherProcess(_)));
    assert!(statements.is_empty());

    let (verdict, _) = probed(vec![Err(ProbeError::Unreachable("refused".into()))]).await;
    assert!(matches!(verdict, Validation::NotReady(fault) if fault.label == "CoordinatorUnreachable"));

    let (verdict, _) = probed(vec![Ok(info("aaaaa")), Err(ProbeError::Status(503))]).await;
    assert!(matches!(verdict, Validation::NotReady(fault) if fault.label == "CoordinatorStatus"));
}
