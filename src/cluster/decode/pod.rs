//! Pods and their containers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::DecodeError;
use super::conditions::Conditions;
use super::fields::{annotation, at, count, deleting, filled, list, owners, required, text, texts, time};
use crate::cluster::facts::{ContainerFacts, PodFacts};
use crate::pool::ids::{ContainerId, NodeName, ObjectName, PodUid, ResourceVersion};
use crate::pool::names::ANNOTATION_DO_NOT_DISRUPT;

/// A pod, whoever owns it.
pub fn pod(value: &Value) -> Result<PodFacts, DecodeError> {
    let conditions = Conditions::of(value)?;
    Ok(PodFacts {
        name: ObjectName::from(required(value, &["metadata", "name"])?),
        uid: PodUid::from(required(value, &["metadata", "uid"])?),
        resource_version: ResourceVersion::from(
            filled(value, &["metadata", "resourceVersion"])?.unwrap_or_default(),
        ),
        labels: texts(value, &["metadata", "labels"])?,
        owners: owners(value)?,
        do_not_disrupt: annotation(value, ANNOTATION_DO_NOT_DISRUPT)?.map(str::to_owned),
        node: filled(value, &["spec", "nodeName"])?.map(NodeName::from),
        finished: matches!(text(value, &["status", "phase"])?, Some("Succeeded" | "Failed")),
        terminating: deleting(value)?,
        ready: conditions.is_true("Ready"),
        ip: filled(value, &["status", "podIP"])?.map(str::to_owned),
        started_at: time(value, &["status", "startTime"])?,
        containers: containers(value)?,
        config_maps: config_maps(value)?,
        unschedulable_because: conditions.why_false("PodScheduled"),
    })
}

/// The main containers by name: what was asked for, joined with what the kubelet reports.
fn containers(pod: &Value) -> Result<BTreeMap<String, ContainerFacts>, DecodeError> {
    let mut containers: BTreeMap<String, ContainerFacts> = BTreeMap::new();
    for wanted in list(pod, &["spec", "containers"])? {
        let facts = containers
            .entry(required(wanted, &["name"])?.to_owned())
            .or_default();
        facts.image = filled(wanted, &["image"])?.map(str::to_owned);
    }
    for status in list(pod, &["status", "containerStatuses"])? {
        let facts = containers
            .entry(required(status, &["name"])?.to_owned())
            .or_default();
        let id = |path: &[&str]| Ok::<_, DecodeError>(filled(status, path)?.map(ContainerId::from));
        facts.restarts = count(status, &["restartCount"])?.unwrap_or(0);
        facts.last_terminated = id(&["lastState", "terminated", "containerID"])?;
        facts.waiting = filled(status, &["state", "waiting", "reason"])?.map(str::to_owned);
        if at(status, &["state", "running"])?.is_some() {
            facts.running = id(&["containerID"])?;
        }
        if at(status, &["state", "terminated"])?.is_some() {
            facts.terminated = match id(&["state", "terminated", "containerID"])? {
                Some(terminated) => Some(terminated),
                None => id(&["containerID"])?,
            };
        }
    }
    Ok(containers)
}

/// Names of the ConfigMaps that the pod's volumes mount, directly or projected, in their order.
fn config_maps(pod: &Value) -> Result<Vec<ObjectName>, DecodeError> {
    let mut names: Vec<ObjectName> = Vec::new();
    let mut note = |name: Option<&str>| {
        if let Some(name) = name.map(ObjectName::from)
            && !names.contains(&name)
        {
            names.push(name);
        }
    };
    for volume in list(pod, &["spec", "volumes"])? {
        note(filled(volume, &["configMap", "name"])?);
        for source in list(volume, &["projected", "sources"])? {
            note(filled(source, &["configMap", "name"])?);
        }
    }
    Ok(names)
}
