//! Every name this operator writes into Kubernetes or hands to a Trino process, in one place.
//!
//! These words are an interface: dashboards, policies and people select by them. Changing one orphans
//! whatever carries the old word.

use super::ids::{InstanceId, Namespace, ObjectName, PoolId};

/// API group of the TrinoPool resource, and prefix of our labels and annotations.
pub const GROUP: &str = "trinopool.dev";
/// API version of the TrinoPool resource.
pub const VERSION: &str = "v1alpha1";
/// Kind of the TrinoPool resource.
pub const KIND: &str = "TrinoPool";
/// Plural of the TrinoPool resource, as it stands in URLs and RBAC rules.
pub const PLURAL: &str = "trinopools";
/// Finalizer on a TrinoPool whose deletion we take part in.
pub const FINALIZER: &str = "trinopool.dev/pool";

/// Label: instance id, on all five objects and their pods.
pub const LABEL_INSTANCE: &str = "trinopool.dev/instance";
/// Label: name of the TrinoPool; the object's namespace says the rest.
pub const LABEL_POOL: &str = "trinopool.dev/pool";
/// Label: who made the object.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`LABEL_MANAGED_BY`].
pub const MANAGED_BY: &str = "trino-pool-operator";
/// Label: which part of an instance a pod is.
pub const LABEL_COMPONENT: &str = "app.kubernetes.io/component";
/// Value of [`LABEL_COMPONENT`] for the coordinator.
pub const COORDINATOR: &str = "coordinator";
/// Value of [`LABEL_COMPONENT`] for workers.
pub const WORKER: &str = "worker";

/// Annotation: digest of the blueprint's content. An object under our name with this digest is ours
/// to adopt, whatever epoch made it.
pub const ANNOTATION_SPEC_DIGEST: &str = "trinopool.dev/spec-digest";
/// Annotation: decimal authority epoch at creation; never raised afterwards.
pub const ANNOTATION_EPOCH: &str = "trinopool.dev/authority-epoch";
/// Annotation: release the object was made for.
pub const ANNOTATION_RELEASE: &str = "trinopool.dev/release";
/// Annotation on a Node: our cordon, `<pool>/<instance>/<claim uid>/<reason>`.
pub const ANNOTATION_NODE_REPLACEMENT: &str = "trinopool.dev/node-replacement";
/// Karpenter's pod annotation that keeps voluntary disruption away
/// (kubernetes-sigs/karpenter pkg/apis/v1/labels.go).
pub const ANNOTATION_DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// The only value of [`ANNOTATION_DO_NOT_DISRUPT`] that protects without end.
pub const DO_NOT_DISRUPT: &str = "true";

/// Environment variable: URL of the instance's own coordinator. A worker's `config.properties` says
/// `discovery.uri=${ENV:TRINO_POOL_DISCOVERY_URI}`.
pub const ENV_DISCOVERY_URI: &str = "TRINO_POOL_DISCOVERY_URI";
/// Environment variable: `node.environment` of the instance.
pub const ENV_ENVIRONMENT: &str = "TRINO_POOL_ENVIRONMENT";
/// Environment variable: the instance's id.
pub const ENV_INSTANCE: &str = "TRINO_POOL_INSTANCE";
/// All three, in the order in which they are appended.
pub const INJECTED_ENV: [&str; 3] = [ENV_DISCOVERY_URI, ENV_ENVIRONMENT, ENV_INSTANCE];

/// Name of the pod volume that holds the instance's ConfigMap.
pub const CONFIG_VOLUME: &str = "trino-pool-config";
/// Where that volume is mounted in the main container: the etc directory of Trino's own image.
pub const CONFIG_DIR: &str = "/etc/trino";
/// Prefix of the ConfigMap keys that hold catalogs; key `catalog.hive.properties` becomes the file
/// `catalog/hive.properties`. ConfigMap keys cannot hold a slash.
pub const CATALOG_KEY_PREFIX: &str = "catalog.";
/// Name of the Service's one port.
pub const HTTP_PORT_NAME: &str = "http";
/// Longest name that is valid for a Service, a label value and a DNS label.
pub const NAME_MAX: usize = 63;

/// Names of an instance's five objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectNames {
    /// `<id>-coordinator`
    pub coordinator: ObjectName,
    /// `<id>-worker`
    pub workers: ObjectName,
    /// `<id>`
    pub service: ObjectName,
    /// `<id>-coordinator-config`
    pub coordinator_config: ObjectName,
    /// `<id>-worker-config`
    pub worker_config: ObjectName,
}

impl ObjectNames {
    /// The names of this instance's objects.
    #[must_use]
    pub fn of(instance: &InstanceId) -> Self {
        let named = |suffix: &str| ObjectName::new(format!("{instance}{suffix}"));
        Self {
            coordinator: named("-coordinator"),
            workers: named("-worker"),
            service: named(""),
            coordinator_config: named("-coordinator-config"),
            worker_config: named("-worker-config"),
        }
    }

    /// All five.
    #[must_use]
    pub const fn all(&self) -> [&ObjectName; 5] {
        [
            &self.coordinator_config,
            &self.worker_config,
            &self.service,
            &self.coordinator,
            &self.workers,
        ]
    }
}

/// The id of the pool that a TrinoPool describes.
#[must_use]
pub fn pool_id(namespace: &Namespace, name: &ObjectName) -> PoolId {
    PoolId::new(format!("{namespace}/{name}"))
}

/// The TrinoPool's own name within a pool id `<namespace>/<name>`; `None` when it has no such shape.
#[must_use]
pub fn pool_name(pool: &PoolId) -> Option<&str> {
    match pool.as_str().split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Some(name)
        }
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_objects_are_named_after_their_instance_and_fit() {
        let names = ObjectNames::of(&InstanceId::from("cell-1a2b3c4d"));
        let all: Vec<_> = names.all().iter().map(|name| name.as_str()).collect();
        assert_eq!(
            all,
            [
                "cell-1a2b3c4d-coordinator-config",
                "cell-1a2b3c4d-worker-config",
                "cell-1a2b3c4d",
                "cell-1a2b3c4d-coordinator",
                "cell-1a2b3c4d-worker",
            ]
        );
        assert!(all.iter().all(|name| name.len() <= NAME_MAX));
    }

    #[test]
    fn a_pool_id_without_a_namespace_has_no_pool_name() {
        let id = pool_id(&Namespace::new("trino"), &ObjectName::new("analytics"));
        assert_eq!(pool_name(&id), Some("analytics"));
        assert_eq!(pool_name(&PoolId::from("trino/analytics")), Some("analytics"));
        assert_eq!(pool_name(&PoolId::from("analytics")), None);
        assert_eq!(pool_name(&PoolId::from("/analytics")), None);
        assert_eq!(pool_name(&PoolId::from("a/b/c")), None);
    }
}
