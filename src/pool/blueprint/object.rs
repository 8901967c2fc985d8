//! Metadata, ConfigMaps, the Service and the Deployments' outer part.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::pod::{Component, template};
use super::{RenderError, Rendering, config_data};
use crate::cluster::port::Manifest;
use crate::pool::ids::ObjectName;
use crate::pool::names::{
    ANNOTATION_EPOCH, ANNOTATION_RELEASE, ANNOTATION_SPEC_DIGEST, HTTP_PORT_NAME, LABEL_COMPONENT,
    LABEL_INSTANCE, LABEL_MANAGED_BY, LABEL_POOL, MANAGED_BY, ObjectNames,
};

pub(super) fn config_map(
    rendering: &Rendering<'_>,
    pool: &str,
    names: &ObjectNames,
    component: Component,
) -> Manifest {
    let (name, files) = match component {
        Component::Coordinator => (&names.coordinator_config, &rendering.blueprint.coordinator_files),
        Component::Worker => (&names.worker_config, &rendering.blueprint.worker_files),
    };
    Manifest::ConfigMap(Box::new(ConfigMap {
        metadata: metadata(rendering, pool, name),
        data: Some(config_data(rendering.blueprint, files)),
        // What a validated instance runs on can't be edited beneath it.
        immutable: Some(true),
        ..ConfigMap::default()
    }))
}

pub(super) fn service(rendering: &Rendering<'_>, pool: &str, names: &ObjectNames) -> Manifest {
    let port = i32::from(rendering.blueprint.http_port);
    Manifest::Service(Box::new(Service {
        metadata: metadata(rendering, pool, &names.service),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector(rendering, Component::Coordinator)),
            ports: Some(vec![ServicePort {
                name: Some(HTTP_PORT_NAME.to_owned()),
                port,
                // By number: a template need not name its port.
                target_port: Some(IntOrString::Int(port)),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }))
}

pub(super) fn deployment(
    rendering: &Rendering<'_>,
    pool: &str,
    names: &ObjectNames,
    component: Component,
) -> Result<Manifest, RenderError> {
    let (name, replicas) = match component {
        Component::Coordinator => (&names.coordinator, 1),
        Component::Worker => {
            let workers = rendering.blueprint.workers;
            let replicas = i32::try_from(workers).map_err(|_| RenderError::Workers { workers })?;
            (&names.workers, replicas)
        }
    };
    Ok(Manifest::Deployment(Box::new(Deployment {
        metadata: metadata(rendering, pool, name),
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            selector: LabelSelector {
                match_labels: Some(selector(rendering, component)),
                ..LabelSelector::default()
            },
            // Two coordinators of one instance must never run side by side.
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                rolling_update: None,
            }),
            template: template(rendering, pool, names, component)?,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    })))
}

/// Labels of every object of an instance.
pub(super) fn labels(rendering: &Rendering<'_>, pool: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (LABEL_INSTANCE.to_owned(), rendering.instance.to_string()),
        (LABEL_POOL.to_owned(), pool.to_owned()),
        (LABEL_MANAGED_BY.to_owned(), MANAGED_BY.to_owned()),
    ])
}

/// The labels by which an instance's own pods of one component are selected, and no others.
pub(super) fn selector(rendering: &Rendering<'_>, component: Component) -> BTreeMap<String, String> {
    BTreeMap::from([
        (LABEL_INSTANCE.to_owned(), rendering.instance.to_string()),
        (LABEL_COMPONENT.to_owned(), component.as_str().to_owned()),
    ])
}

/// No owner references: deleting a TrinoPool must never cascade into instances that serve.
fn metadata(rendering: &Rendering<'_>, pool: &str, name: &ObjectName) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_string()),
        namespace: Some(rendering.blueprint.namespace.to_string()),
        labels: Some(labels(rendering, pool)),
        annotations: Some(BTreeMap::from([
            (
                ANNOTATION_SPEC_DIGEST.to_owned(),
                rendering.spec_digest.to_string(),
            ),
            (ANNOTATION_EPOCH.to_owned(), rendering.epoch.to_string()),
            (ANNOTATION_RELEASE.to_owned(), rendering.release.to_string()),
        ])),
        ..ObjectMeta::default()
    }
}
