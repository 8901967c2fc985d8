//! From a blueprint to the five Kubernetes objects of one instance, and nothing else.
//!
//! Pure and deterministic: the same row renders the same objects in every term. After creation nothing
//! is rendered over what exists (a template that changes rolls its pods and loses their queries); objects
//! under our names are adopted by their spec digest or refused.

mod container;
mod object;
mod pod;
#[cfg(test)]
mod tests;

use super::desired::Blueprint;
use super::ids::{Digest, Epoch, InstanceId, NodeName, PoolId, ReleaseId};
use super::names::{NAME_MAX, ObjectNames, pool_name};
use crate::cluster::port::Manifest;

/// At most this many excluded nodes are rendered; the list is ordered by relevance.
pub const EXCLUDED_NODES_MAX: usize = 100;

/// Everything the objects of one instance depend on: its own row, the authority, and whether node
/// replacement is on.
#[derive(Clone, Copy, Debug)]
pub struct Rendering<'a> {
    /// The row's id.
    pub instance: &'a InstanceId,
    /// The pool.
    pub pool: &'a PoolId,
    /// The row's stored blueprint.
    pub blueprint: &'a Blueprint,
    /// The row's stored digest, by which objects are adopted; never re-computed here.
    pub spec_digest: &'a Digest,
    /// The row's release.
    pub release: &'a ReleaseId,
    /// The authority under which they are created; written down, not part of any digest.
    pub epoch: Epoch,
    /// The row's excluded nodes, verbatim.
    pub excluded_nodes: &'a [NodeName],
    /// Node replacement is enabled for this pool and this process: pods are protected from birth.
    pub protect: bool,
}

/// Why a blueprint cannot be rendered. None of these passes after a retry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A stored pod template is not a `v1.PodTemplateSpec`.
    #[error("the {component} pod template cannot be read: {problem}")]
    Template {
        /// coordinator or worker
        component: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The template has no container of the configured name.
    #[error("the {component} pod template has no container named {container}")]
    NoContainer {
        /// coordinator or worker
        component: &'static str,
        /// The configured name.
        container: String,
    },
    /// A name does not fit into Kubernetes' limits.
    #[error("the name {name} is longer than {NAME_MAX} characters")]
    NameTooLong {
        /// The name.
        name: String,
    },
    /// The pool's id is not `<namespace>/<name>`.
    #[error("{pool} is not a pool id")]
    PoolId {
        /// The id.
        pool: PoolId,
    },
    /// A worker count that Kubernetes cannot hold.
    #[error("{workers} workers are too many")]
    Workers {
        /// The count.
        workers: u32,
    },
}

/// The five objects in the order in which they are applied: both ConfigMaps, the Service, the
/// coordinator, the workers.
pub fn render(rendering: &Rendering<'_>) -> Result<[Manifest; 5], RenderError> {
    let pool = pool_name(rendering.pool).ok_or_else(|| RenderError::PoolId {
        pool: rendering.pool.clone(),
    })?;
    let names = ObjectNames::of(rendering.instance);
    for name in names
        .all()
        .into_iter()
        .map(super::ids::ObjectName::as_str)
        .chain([pool])
    {
        if name.len() > NAME_MAX {
            return Err(RenderError::NameTooLong {
                name: name.to_owned(),
            });
        }
    }
    Ok([
        object::config_map(rendering, pool, &names, pod::Component::Coordinator),
        object::config_map(rendering, pool, &names, pod::Component::Worker),
        object::service(rendering, pool, &names),
        object::deployment(rendering, pool, &names, pod::Component::Coordinator)?,
        object::deployment(rendering, pool, &names, pod::Component::Worker)?,
    ])
}

/// Files of one component by ConfigMap key: its config files, `node.properties` when the pool gives
/// none, and the catalogs under their keys.
#[must_use]
pub fn config_data(
    blueprint: &Blueprint,
    files: &std::collections::BTreeMap<String, String>,
) -> std::collections::BTreeMap<String, String> {
    let mut data = files.clone();
    data.entry("node.properties".to_owned())
        .or_insert_with(|| format!("node.environment={}\n", blueprint.environment));
    for (catalog, properties) in &blueprint.catalogs {
        data.insert(catalog_key(catalog), properties.clone());
    }
    data
}

/// ConfigMap key of a catalog's properties file.
#[must_use]
pub fn catalog_key(catalog: &str) -> String {
    format!("{}{catalog}.properties", super::names::CATALOG_KEY_PREFIX)
}
