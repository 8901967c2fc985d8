//! Where each kind lives on the API server.

use std::fmt::Write as _;

use crate::cluster::facts::ObjectKind;
use crate::pool::ids::Namespace;

/// One served resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    /// Path of the group and version.
    group: &'static str,
    /// Plural, as in URLs and RBAC rules.
    plural: &'static str,
}

pub(super) const PODS: Resource = Resource::new("/api/v1", "pods");
pub(super) const NODES: Resource = Resource::new("/api/v1", "nodes");
pub(super) const SERVICES: Resource = Resource::new("/api/v1", "services");
pub(super) const CONFIG_MAPS: Resource = Resource::new("/api/v1", "configmaps");
pub(super) const EVENTS: Resource = Resource::new("/api/v1", "events");
pub(super) const DEPLOYMENTS: Resource = Resource::new("/apis/apps/v1", "deployments");
pub(super) const REPLICA_SETS: Resource = Resource::new("/apis/apps/v1", "replicasets");
pub(super) const LEASES: Resource = Resource::new("/apis/coordination.k8s.io/v1", "leases");
pub(super) const CLAIMS: Resource = Resource::new("/apis/karpenter.sh/v1", "nodeclaims");
pub(super) const POOLS: Resource = Resource::new("/apis/trinopool.dev/v1alpha1", "trinopools");

impl Resource {
    const fn new(group: &'static str, plural: &'static str) -> Self {
        Self { group, plural }
    }

    /// The resource of one of an instance's own kinds.
    pub(super) const fn of(kind: ObjectKind) -> Self {
        match kind {
            ObjectKind::ConfigMap => CONFIG_MAPS,
            ObjectKind::Service => SERVICES,
            ObjectKind::Deployment => DEPLOYMENTS,
        }
    }

    /// How errors name it.
    pub(super) fn label(self) -> String {
        let group = self
            .group
            .trim_start_matches("/apis/")
            .trim_start_matches("/api/");
        format!("{group}/{}", self.plural)
    }

    /// All of them: of one namespace, or of the cluster.
    pub(super) fn all(self, namespace: Option<&Namespace>) -> String {
        match namespace {
            None => format!("{}/{}", self.group, self.plural),
            Some(namespace) => format!(
                "{}/namespaces/{}/{}",
                self.group,
                escape(namespace.as_str()),
                self.plural
            ),
        }
    }

    /// One of them.
    pub(super) fn one(self, namespace: Option<&Namespace>, name: &str) -> String {
        format!("{}/{}", self.all(namespace), escape(name))
    }
}

/// Percent-encodes whatever has a meaning of its own in a path or a query, so that no name can address
/// another resource than it should.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            escaped.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    // Dots alone would climb: a path segment "." or ".." is resolved, not sent.
    if !escaped.is_empty() && escaped.bytes().all(|byte| byte == b'.') {
        return escaped.replace('.', "%2E");
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_live_where_kubernetes_serves_them() {
        let namespace = Namespace::from("trino");
        assert_eq!(NODES.one(None, "n1"), "/api/v1/nodes/n1");
        assert_eq!(
            DEPLOYMENTS.one(Some(&namespace), "x-worker"),
            "/apis/apps/v1/namespaces/trino/deployments/x-worker"
        );
        assert_eq!(CLAIMS.all(None), "/apis/karpenter.sh/v1/nodeclaims");
        assert_eq!(CLAIMS.label(), "karpenter.sh/v1/nodeclaims");
        assert_eq!(NODES.label(), "v1/nodes");
    }

    #[test]
    fn no_name_addresses_another_resource() {
        for (name, path) in [
            ("../pods/p", "/api/v1/nodes/..%2Fpods%2Fp"),
            ("..", "/api/v1/nodes/%2E%2E"),
            ("n?x=y#z", "/api/v1/nodes/n%3Fx%3Dy%23z"),
            ("a%2fb", "/api/v1/nodes/a%252fb"),
            (
                "ip-10-0-0-1.ec2.internal",
                "/api/v1/nodes/ip-10-0-0-1.ec2.internal",
            ),
        ] {
            assert_eq!(NODES.one(None, name), path);
        }
    }
}
