//! Validation of a candidate: what must be proven before the gateway may route to it.
//!
//! Owns the order of the probes and the pure verdict over them. It proves, and claims nothing that it did
//! not see: the receipt's revisions are digests of the instance's immutable ConfigMaps, claimed only when
//! the pods mount those objects, by the UIDs that were recorded when they were made or adopted. It writes
//! nothing and runs no statement but the port's own probes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::port::{ClusterNode, Coordinator, CoordinatorInfo, CoordinatorTarget, ProbeError};
use crate::cluster::facts::{PodFacts, Workload};
use crate::pool::desired::Blueprint;
use crate::pool::edited::replica_sets;
use crate::pool::ids::{Digest, ObjectName, TrinoNodeId};
use crate::pool::instance::{InstanceObjects, ObjectRef, ProcessIdentity, ValidationReceipt};
use crate::pool::observation::{Fault, OwnedWorkload, Validation};

/// The four checks that an admission must name (protocol section 5.1).
pub const CHECKS: [&str; 4] = ["image", "workers", "catalog-revision", "auth-revision"];

/// Everything known of a candidate before it is probed.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// How its coordinator is reached.
    pub target: &'a CoordinatorTarget,
    /// What it was made of.
    pub blueprint: &'a Blueprint,
    /// Its recorded objects.
    pub objects: &'a InstanceObjects,
    /// The process that the gateway registered.
    pub registered: &'a ProcessIdentity,
    /// Everything under its label, as read in this pass.
    pub workload: &'a Workload,
    /// What of that is proven to be its own.
    pub owned: &'a OwnedWorkload,
}

/// The coordinator's answers, in the order they were asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// `/v1/info`, first look.
    pub before: CoordinatorInfo,
    /// `SHOW CATALOGS`.
    pub catalogs: Vec<String>,
    /// `system.runtime.nodes`.
    pub nodes: Vec<ClusterNode>,
    /// `/v1/info`, second look: the process did not change meanwhile.
    pub after: CoordinatorInfo,
}

/// Probes a candidate and judges it. `now` becomes the receipt's time.
pub async fn validate(
    coordinator: &dyn Coordinator,
    candidate: &Candidate<'_>,
    now: Timestamp,
) -> Validation {
    // What Kubernetes alone can refute costs the coordinator nothing.
    let pods = match pods_fit(candidate) {
        Ok(pods) => pods,
        Err(fault) => return Validation::NotReady(fault),
    };
    let before = match first_look(coordinator, candidate, &pods).await {
        Ok(before) => before,
        Err(refutation) => return refutation,
    };
    let rest = async {
        Ok::<_, ProbeError>(Answers {
            before,
            catalogs: coordinator.catalogs(candidate.target).await?,
            nodes: coordinator.nodes(candidate.target).await?,
            after: coordinator.info(candidate.target).await?,
        })
    };
    match rest.await {
        Ok(answers) => judge(candidate, &answers, now),
        Err(error) => Validation::NotReady(probe_fault(candidate, &error)),
    }
}

async fn first_look(
    coordinator: &dyn Coordinator,
    candidate: &Candidate<'_>,
    pods: &Pods<'_>,
) -> Result<CoordinatorInfo, Validation> {
    let info = coordinator
        .info(candidate.target)
        .await
        .map_err(|error| Validation::NotReady(probe_fault(candidate, &error)))?;
    same_process(candidate, pods, &info)?;
    Ok(info)
}

/// The pure verdict: Kubernetes' facts and the coordinator's answers together.
#[must_use]
pub fn judge(candidate: &Candidate<'_>, answers: &Answers, now: Timestamp) -> Validation {
    match prove(candidate, answers, now) {
        Ok(receipt) => Validation::Proven(Box::new(receipt)),
        Err(refutation) => refutation,
    }
}

fn prove(
    candidate: &Candidate<'_>,
    answers: &Answers,
    now: Timestamp,
) -> Result<ValidationReceipt, Validation> {
    let pods = pods_fit(candidate).map_err(Validation::NotReady)?;
    let process = same_process(candidate, &pods, &answers.before)?;
    catalogs_fit(candidate, &answers.catalogs).map_err(Validation::NotReady)?;
    let ready_workers =
        workers_fit(candidate, &process.node, &answers.nodes).map_err(Validation::NotReady)?;
    same_process(candidate, &pods, &answers.after)?;
    mounts_fit(candidate, &pods).map_err(Validation::NotReady)?;
    let config_revision = config_revision(candidate.blueprint);
    let auth_revision = auth_revision(candidate.blueprint);
    let certificate = Framed::of("validation-certificate-v1")
        .text(process.pod.as_str())
        .text(process.boot.as_str())
        .text(process.node.as_str())
        .text(process.coordinator.as_str())
        .text(
            process
                .container
                .as_ref()
                .map_or("", |container| container.as_str()),
        )
        .text(answers.after.version.as_deref().unwrap_or_default())
        .text(&candidate.blueprint.image)
        .text(&config_revision)
        .text(&auth_revision)
        .text(&ready_workers.to_string())
        .text(&now.to_string())
        .digest();
    Ok(ValidationReceipt {
        certificate: Digest::new(certificate),
        process,
        config_revision,
        auth_revision,
        ready_workers,
        checks: CHECKS.map(str::to_owned).to_vec(),
        validated_at: now,
        replica_sets: Some(replica_sets(candidate.owned)),
    })
}

/// The live pods of a candidate.
struct Pods<'a> {
    coordinator: &'a PodFacts,
    workers: Vec<&'a PodFacts>,
}

fn live(pods: &[PodFacts]) -> Vec<&PodFacts> {
    pods.iter()
        .filter(|pod| !pod.finished && !pod.terminating)
        .collect()
}

/// Exactly one live coordinator, and every pod runs the blueprint's image.
fn pods_fit<'a>(candidate: &Candidate<'a>) -> Result<Pods<'a>, Fault> {
    if let Some(fault) = candidate.owned.faults.first() {
        return Err(fault.clone());
    }
    let coordinators = live(&candidate.owned.coordinators);
    let workers = live(&candidate.owned.workers);
    let [coordinator] = coordinators.as_slice() else {
        let detail = format!(
            "{} live coordinator pods, exactly one is needed",
            coordinators.len()
        );
        return Err(fault(candidate, "CoordinatorPods", detail));
    };
    for pod in std::iter::once(coordinator).chain(&workers) {
        let image = pod
            .containers
            .get(&candidate.blueprint.container)
            .and_then(|container| container.image.as_deref());
        if image != Some(candidate.blueprint.image.as_str()) {
            let detail = format!(
                "pod {} runs the image {}, its blueprint says {}",
                pod.name,
                image.unwrap_or("(none)"),
                candidate.blueprint.image
            );
            return Err(fault(candidate, "ImageDiffers", detail));
        }
    }
    Ok(Pods { coordinator, workers })
}

/// Ready, of the right environment, and the process that was registered.
fn same_process(
    candidate: &Candidate<'_>,
    pods: &Pods<'_>,
    info: &CoordinatorInfo,
) -> Result<ProcessIdentity, Validation> {
    let not_ready = |label, detail| Validation::NotReady(fault(candidate, label, detail));
    // Identity first: a restarted process that still starts is already another process (T05).
    if let (Some(node), Some(coordinator), Some(boot)) = (&info.node, &info.coordinator, info.boot()) {
        let container = pods
            .coordinator
            .containers
            .get(&candidate.blueprint.container)
            .and_then(|container| container.running.clone());
        let seen = ProcessIdentity {
            pod: pods.coordinator.uid.clone(),
            container,
            boot,
            node: node.clone(),
            coordinator: coordinator.clone(),
        };
        let registered = candidate.registered;
        let same = (&seen.pod, &seen.boot, &seen.node, &seen.coordinator)
            == (
                &registered.pod,
                &registered.boot,
                &registered.node,
                &registered.coordinator,
            );
        // Two witnesses that contradict each other prove nothing; a container seen by only one of the two
        // looks is not a contradiction.
        let contradicts = matches!((&seen.container, &registered.container), (Some(a), Some(b)) if a != b);
        if !same || contradicts {
            return Err(Validation::OtherProcess(seen));
        }
        if !info.ready {
            return Err(not_ready("CoordinatorStarting", "it still starts".to_owned()));
        }
        if info.environment.as_deref() != Some(candidate.blueprint.environment.as_str()) {
            let detail = format!(
                "it says environment {}, its blueprint says {}",
                info.environment.as_deref().unwrap_or("(none)"),
                candidate.blueprint.environment
            );
            return Err(not_ready("EnvironmentDiffers", detail));
        }
        return Ok(seen);
    }
    let detail = "/v1/info carries no nodeId and coordinatorId (Trino 483 or newer is needed)".to_owned();
    Err(not_ready("NoProcessIdentity", detail))
}

/// `SHOW CATALOGS` lists exactly the blueprint's catalogs and `system`.
fn catalogs_fit(candidate: &Candidate<'_>, listed: &[String]) -> Result<(), Fault> {
    let wanted: BTreeSet<&str> = candidate
        .blueprint
        .catalogs
        .keys()
        .map(String::as_str)
        .chain(["system"])
        .collect();
    let listed: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    if listed == wanted {
        return Ok(());
    }
    let missing: Vec<_> = wanted.difference(&listed).copied().collect();
    let surplus: Vec<_> = listed.difference(&wanted).copied().collect();
    let detail = format!(
        "SHOW CATALOGS: missing [{}], unexpected [{}]",
        missing.join(", "),
        surplus.join(", ")
    );
    Err(fault(candidate, "CatalogsDiffer", detail))
}

/// One coordinator, the probed one; all nodes active; as many workers as Kubernetes and the blueprint say.
fn workers_fit(candidate: &Candidate<'_>, node: &TrinoNodeId, nodes: &[ClusterNode]) -> Result<u32, Fault> {
    let wrong = |detail: String| Err(fault(candidate, "WorkersDiffer", detail));
    // By id, so that a worker that came back under another address does not count twice (T05).
    let mut known: BTreeMap<&TrinoNodeId, &ClusterNode> = BTreeMap::new();
    for row in nodes {
        if !row.active {
            return wrong(format!("node {} is not active", row.id));
        }
        if known
            .insert(&row.id, row)
            .is_some_and(|other| other.coordinator != row.coordinator)
        {
            return wrong(format!("node {} is listed as coordinator and as worker", row.id));
        }
    }
    let coordinators: Vec<_> = known
        .values()
        .filter(|row| row.coordinator)
        .map(|row| &row.id)
        .collect();
    if coordinators != [node] {
        return wrong(format!(
            "system.runtime.nodes lists {} coordinators, not exactly the probed one",
            coordinators.len()
        ));
    }
    let seen = u32::try_from(known.len() - coordinators.len()).unwrap_or(u32::MAX);
    let ready = candidate.owned.workers_ready;
    let wanted = candidate.owned.workers_wanted;
    if wanted != Some(candidate.blueprint.workers) {
        return wrong(format!(
            "the worker Deployment asks for {}, its blueprint for {}",
            wanted.map_or("(unknown)".to_owned(), |count| count.to_string()),
            candidate.blueprint.workers
        ));
    }
    // A Deployment's count lags behind its pods, and the receipt names the ReplicaSets of the pods (A11).
    let pods = live(&candidate.owned.workers);
    let live_ready = pods.iter().filter(|pod| pod.ready).count();
    if pods.len() != live_ready || u32::try_from(live_ready) != Ok(seen) {
        return wrong(format!(
            "the coordinator sees {seen} workers, of {} live worker pods {live_ready} are ready",
            pods.len()
        ));
    }
    if seen == 0 || ready != Some(seen) || wanted != Some(seen) {
        return wrong(format!(
            "the coordinator sees {seen} workers, Kubernetes {} ready, the blueprint says {}",
            ready.map_or("(unknown)".to_owned(), |count| count.to_string()),
            candidate.blueprint.workers
        ));
    }
    Ok(seen)
}

/// The pods mount the recorded ConfigMaps, and the objects of those names are still the recorded ones.
fn mounts_fit(candidate: &Candidate<'_>, pods: &Pods<'_>) -> Result<(), Fault> {
    let unproven = |detail: String| Err(fault(candidate, "RevisionUnproven", detail));
    for recorded in [
        &candidate.objects.coordinator_config,
        &candidate.objects.worker_config,
    ] {
        if !stands(candidate.workload, recorded) {
            return unproven(format!(
                "ConfigMap {} is not the recorded object {}",
                recorded.name, recorded.uid
            ));
        }
    }
    let mounts = |pod: &PodFacts, name: &ObjectName| pod.config_maps.contains(name);
    if !mounts(pods.coordinator, &candidate.objects.coordinator_config.name) {
        return unproven(format!(
            "pod {} does not mount ConfigMap {}",
            pods.coordinator.name, candidate.objects.coordinator_config.name
        ));
    }
    for worker in &pods.workers {
        if !mounts(worker, &candidate.objects.worker_config.name) {
            return unproven(format!(
                "pod {} does not mount ConfigMap {}",
                worker.name, candidate.objects.worker_config.name
            ));
        }
    }
    Ok(())
}

fn stands(workload: &Workload, recorded: &ObjectRef) -> bool {
    workload
        .config_maps
        .iter()
        .any(|found| found.name == recorded.name && found.uid == recorded.uid && !found.deleting)
}

/// Digest of everything the two ConfigMaps of a blueprint hold.
#[must_use]
pub fn config_revision(blueprint: &Blueprint) -> String {
    Framed::of("config-revision-v1")
        .files(&blueprint.coordinator_files)
        .files(&blueprint.worker_files)
        .files(&blueprint.catalogs)
        .digest()
}

/// Digest of the files that decide who may do what. Which of the coordinator's files those are is said by
/// `config.properties` itself, so all of them count; catalogs and worker files do not.
#[must_use]
pub fn auth_revision(blueprint: &Blueprint) -> String {
    Framed::of("auth-revision-v1")
        .files(&blueprint.coordinator_files)
        .digest()
}

/// Texts hashed with their lengths, so that no two lists of texts are hashed as the same bytes.
struct Framed(Sha256);

impl Framed {
    fn of(domain: &str) -> Self {
        Self(Sha256::new()).text(domain)
    }

    fn text(mut self, text: &str) -> Self {
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text.as_bytes());
        self
    }

    fn files(self, files: &BTreeMap<String, String>) -> Self {
        files
            .iter()
            .fold(self.text(&files.len().to_string()), |hash, (name, content)| {
                hash.text(name).text(content)
            })
    }

    fn digest(self) -> String {
        const HEX: [char; 16] = [
            '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
        ];
        self.0
            .finalize()
            .iter()
            .flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]])
            .collect()
    }
}

fn fault(candidate: &Candidate<'_>, label: &'static str, detail: String) -> Fault {
    Fault {
        label,
        subject: candidate.target.instance.to_string(),
        detail,
    }
}

fn probe_fault(candidate: &Candidate<'_>, error: &ProbeError) -> Fault {
    fault(candidate, error.label(), error.to_string())
}

#[cfg(test)]
mod tests;
