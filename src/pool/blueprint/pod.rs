//! The pod templates: the pool's own template plus what binds a pod to its instance.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, ConfigMapVolumeSource, KeyToPath, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm,
    PodSpec, PodTemplateSpec, PreferredSchedulingTerm, Volume,
};

use super::object::{labels, selector};
use super::{EXCLUDED_NODES_MAX, RenderError, Rendering, catalog_key, config_data, container};
use crate::pool::ids::NodeName;
use crate::pool::names::{
    ANNOTATION_DO_NOT_DISRUPT, ANNOTATION_SPEC_DIGEST, CONFIG_VOLUME, COORDINATOR, DO_NOT_DISRUPT,
    ObjectNames, WORKER,
};

/// The two parts of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    Coordinator,
    Worker,
}

impl Component {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Coordinator => COORDINATOR,
            Self::Worker => WORKER,
        }
    }
}

pub(super) fn template(
    rendering: &Rendering<'_>,
    pool: &str,
    names: &ObjectNames,
    component: Component,
) -> Result<PodTemplateSpec, RenderError> {
    let blueprint = rendering.blueprint;
    let (stored, files, config) = match component {
        Component::Coordinator => (
            &blueprint.coordinator_template,
            &blueprint.coordinator_files,
            &names.coordinator_config,
        ),
        Component::Worker => (
            &blueprint.worker_template,
            &blueprint.worker_files,
            &names.worker_config,
        ),
    };
    let mut template: PodTemplateSpec =
        serde_json::from_value(stored.clone()).map_err(|problem| RenderError::Template {
            component: component.as_str(),
            problem: problem.to_string(),
        })?;

    let metadata = template.metadata.get_or_insert_default();
    let pod_labels = metadata.labels.get_or_insert_default();
    pod_labels.extend(labels(rendering, pool));
    pod_labels.extend(selector(rendering, component));
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(
        ANNOTATION_SPEC_DIGEST.to_owned(),
        rendering.spec_digest.to_string(),
    );
    if rendering.protect {
        annotations.insert(ANNOTATION_DO_NOT_DISRUPT.to_owned(), DO_NOT_DISRUPT.to_owned());
    }

    let spec = template.spec.get_or_insert_default();
    if let Some(account) = &blueprint.service_account {
        spec.service_account_name = Some(account.clone());
    }
    container::bind(spec, rendering, names, component)?;
    let keys = config_data(blueprint, files);
    mount_config(spec, config.as_str(), &keys, blueprint.catalogs.keys());
    steer_away(spec, rendering.excluded_nodes);
    Ok(template)
}

/// Adds the volume with the instance's own ConfigMap; catalogs become files below `catalog/`.
fn mount_config<'a>(
    spec: &mut PodSpec,
    config_map: &str,
    keys: &BTreeMap<String, String>,
    catalogs: impl Iterator<Item = &'a String>,
) {
    let paths: BTreeMap<String, String> = catalogs
        .map(|catalog| (catalog_key(catalog), format!("catalog/{catalog}.properties")))
        .collect();
    let items = keys
        .keys()
        .map(|key| KeyToPath {
            key: key.clone(),
            path: paths.get(key).unwrap_or(key).clone(),
            mode: None,
        })
        .collect();
    let volumes = spec.volumes.get_or_insert_default();
    volumes.retain(|volume| volume.name != CONFIG_VOLUME);
    volumes.push(Volume {
        name: CONFIG_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: config_map.to_owned(),
            items: Some(items),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    });
}

/// Steers the pods away from nodes known to be leaving (L5), by the node's exact name: the hostname
/// label may differ from it.
///
/// A preference, not a requirement: Karpenter launches nothing for a pod whose *required* node affinity
/// names a field or the hostname label (pkg/controllers/provisioning/provisioner.go,
/// `validateNodeSelectorTerm`; kubernetes-sigs/karpenter#3214), so a requirement would leave every
/// replacement pending for ever. A pod that lands on such a node all the same is refused at admission,
/// and the cordon keeps the next one away.
fn steer_away(spec: &mut PodSpec, excluded: &[NodeName]) {
    const STRONGEST: i32 = 100;
    if excluded.is_empty() {
        return;
    }
    // A field requirement holds exactly one value (Kubernetes' validation of node selectors).
    let fields = excluded
        .iter()
        .take(EXCLUDED_NODES_MAX)
        .map(|node| NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(vec![node.to_string()]),
        })
        .collect();
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    let nodes: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    nodes
        .preferred_during_scheduling_ignored_during_execution
        .get_or_insert_default()
        .push(PreferredSchedulingTerm {
            preference: NodeSelectorTerm {
                match_expressions: None,
                match_fields: Some(fields),
            },
            weight: STRONGEST,
        });
}
