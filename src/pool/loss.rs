//! Proof that a registered process has ended.
//!
//! Owns what may be told to the gateway as PROCESS_TERMINATED. Silence, a timeout, an unready pod and a
//! missing Deployment are never proof; three things are: the kubelet reported that the recorded container
//! ended, another process answers from the registered pod, or the registered pod is absent from a complete
//! listing of its namespace. A process that still answers under its registered identity has not ended,
//! whatever Kubernetes says about its pod (K16). Pure.

use super::instance::{InstanceRow, ProcessIdentity};
use super::observation::{Observation, OwnedWorkload, Reading};
use crate::cluster::facts::{ContainerFacts, PodFacts};

/// A proof, and where it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// `termination.source` of the protocol, `[A-Za-z0-9_.:-]{1,64}`.
    pub source: &'static str,
    /// One sentence for people, and the reason given with SUSPECT.
    pub detail: String,
}

/// The proof that the registered process has ended, if the readings hold one.
#[must_use]
pub fn ended(row: &InstanceRow, observation: &Observation) -> Option<Proof> {
    let process = row.process.as_ref()?;
    if still_answers(process, observation) {
        return None;
    }
    let owned = observation.owned.seen();
    owned
        .and_then(|owned| container_ended(row, process, owned))
        .or_else(|| owned.and_then(|owned| other_process(process, owned, observation)))
        .or_else(|| pod_absent(process, observation))
}

fn still_answers(process: &ProcessIdentity, observation: &Observation) -> bool {
    observation
        .info
        .seen()
        .and_then(crate::trino::port::CoordinatorInfo::boot)
        .is_some_and(|boot| boot == process.boot)
}

/// Another process answers under the registered member's address. That ends its service, and proves the end
/// of the registered process only together with its pod ([`ended`]).
#[must_use]
pub fn replaced(row: &InstanceRow, observation: &Observation) -> Option<String> {
    let process = row.process.as_ref()?;
    let boot = observation.info.seen()?.boot()?;
    (boot != process.boot).then(|| format!("process {boot} answers, registered was {}", process.boot))
}

fn container_ended(row: &InstanceRow, process: &ProcessIdentity, owned: &OwnedWorkload) -> Option<Proof> {
    let recorded = process.container.as_ref()?;
    let pod = registered_pod(process, owned)?;
    let exactly = |status: &ContainerFacts| {
        status.terminated.as_ref() == Some(recorded) || status.last_terminated.as_ref() == Some(recorded)
    };
    // The kubelet starts a container of the same name only after the one before it has ended.
    let followed = row.blueprint.as_ref().ok().is_some_and(|blueprint| {
        pod.containers.get(&blueprint.container).is_some_and(|status| {
            status.last_terminated.is_some()
                && status.running.as_ref().is_some_and(|running| running != recorded)
        })
    });
    (pod.containers.values().any(exactly) || followed).then(|| Proof {
        source: "kubernetes-container-terminated",
        detail: format!("container {recorded} of pod {} has ended", pod.name),
    })
}

/// Only the registered pod can have answered: then the process in it was replaced.
fn other_process(
    process: &ProcessIdentity,
    owned: &OwnedWorkload,
    observation: &Observation,
) -> Option<Proof> {
    let [only] = owned.coordinators.as_slice() else {
        return None;
    };
    let boot = observation.info.seen()?.boot()?;
    (only.uid == process.pod && !only.finished && boot != process.boot).then(|| Proof {
        source: "coordinator-boot-changed",
        detail: format!(
            "pod {} answers as process {boot}, registered was {}",
            only.name, process.boot
        ),
    })
}

/// Labels can be edited, so only a listing of the whole namespace proves absence; and the process was
/// asked and does not answer any more.
fn pod_absent(process: &ProcessIdentity, observation: &Observation) -> Option<Proof> {
    let pods = observation.namespace_pods.seen()?;
    let asked = match &observation.info {
        Reading::NotAsked => false,
        Reading::Seen(_) | Reading::Unknown(_) => true,
    };
    (asked && !pods.contains(&process.pod)).then(|| Proof {
        source: "kubernetes-pod-absent",
        detail: format!("pod {} is absent from its namespace", process.pod),
    })
}

fn registered_pod<'a>(process: &ProcessIdentity, owned: &'a OwnedWorkload) -> Option<&'a PodFacts> {
    owned.coordinators.iter().find(|pod| pod.uid == process.pod)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::observation::Fault;
    use crate::pool::phase::Phase;
    use crate::pool::testing::{self, at, row};

    fn silent() -> Observation {
        let mut seen = testing::observation(&row(Phase::Suspect));
        seen.info = Reading::Unknown(Fault {
            label: "Unreachable",
            subject: "x".into(),
            detail: "refused".into(),
        });
        seen
    }

    fn coordinator(seen: &mut Observation) -> &mut PodFacts {
        match &mut seen.owned {
            Reading::Seen(owned) => &mut owned.coordinators[0],
            Reading::NotAsked | Reading::Unknown(_) => panic!("no workload"),
        }
    }

    fn source(seen: &Observation) -> Option<&'static str> {
        ended(&row(Phase::Suspect), seen).map(|proof| proof.source)
    }

    #[test]
    fn silence_is_never_proof() {
        assert_eq!(source(&silent()), None);
        assert_eq!(source(&Observation::blank(at(0))), None);
        let mut unready = silent();
        coordinator(&mut unready).ready = false;
        coordinator(&mut unready).terminating = true;
        assert_eq!(source(&unready), None);
    }

    #[test]
    fn t05_the_recorded_container_ended_is_proof() {
        let bends: testing::Bends<ContainerFacts> = vec![
            ("ended and not restarted", |status| {
                status.running = None;
                status.terminated = Some("container-1".into());
            }),
            ("restarted once", |status| {
                status.running = Some("container-2".into());
                status.last_terminated = Some("container-1".into());
            }),
            ("restarted often", |status| {
                status.running = Some("container-9".into());
                status.last_terminated = Some("container-8".into());
            }),
        ];
        for (what, bend) in bends {
            let mut seen = silent();
            bend(coordinator(&mut seen).containers.get_mut("trino").unwrap());
            assert_eq!(source(&seen), Some("kubernetes-container-terminated"), "{what}");
        }
    }

    #[test]
    fn without_the_recorded_container_or_the_kubelets_word_nothing_is_proven() {
        let mut seen = silent();
        let status = coordinator(&mut seen).containers.get_mut("trino").unwrap();
        status.running = Some("container-2".into());
        assert_eq!(source(&seen), None, "another one runs, and no end was reported");
        let mut unrecorded = row(Phase::Suspect);
        unrecorded.process.as_mut().unwrap().container = None;
        let status = coordinator(&mut seen).containers.get_mut("trino").unwrap();
        status.last_terminated = Some("container-1".into());
        assert_eq!(ended(&unrecorded, &seen), None);
    }

    #[test]
    fn t05_another_boot_from_the_registered_pod_is_proof() {
        let mut seen = testing::observation(&row(Phase::Suspect));
        if let Reading::Seen(info) = &mut seen.info {
            info.coordinator = Some("fffff".into());
        }
        assert_eq!(source(&seen), Some("coordinator-boot-changed"));
    }

    #[test]
    fn a08_a_twin_that_answers_does_not_prove_that_the_first_one_ended() {
        let mut seen = testing::observation(&row(Phase::Suspect));
        if let Reading::Seen(info) = &mut seen.info {
            info.coordinator = Some("fffff".into());
        }
        coordinator(&mut seen).terminating = true;
        if let Reading::Seen(owned) = &mut seen.owned {
            let mut twin = owned.coordinators[0].clone();
            twin.uid = "pod-uid-b".into();
            owned.coordinators.push(twin);
        }
        assert_eq!(source(&seen), None);
    }

    #[test]
    fn w01_w03_absence_from_the_whole_namespace_is_proof_without_any_deployment() {
        let mut seen = silent();
        if let Reading::Seen(owned) = &mut seen.owned {
            *owned = OwnedWorkload::default();
        }
        assert_eq!(source(&seen), None, "an empty label selection proves nothing");
        seen.namespace_pods = Reading::Seen(vec!["somebody-else".into()]);
        assert_eq!(source(&seen), Some("kubernetes-pod-absent"));
        seen.namespace_pods = Reading::Seen(vec!["pod-uid-coordinator".into()]);
        assert_eq!(source(&seen), None, "present under other labels");
        // The proof does not need the workload to be readable.
        seen.owned = Reading::NotAsked;
        seen.namespace_pods = Reading::Seen(vec![]);
        assert_eq!(source(&seen), Some("kubernetes-pod-absent"));
        seen.info = Reading::NotAsked;
        assert_eq!(source(&seen), None, "the process was not asked");
    }

    #[test]
    fn k16_a_process_that_still_answers_has_not_ended() {
        let mut seen = testing::observation(&row(Phase::Suspect));
        seen.namespace_pods = Reading::Seen(vec![]);
        assert_eq!(source(&seen), None);
    }
}
