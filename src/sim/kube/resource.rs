//! Which kinds the simulated API server serves, and how each is spelled in paths and objects.

/// A served resource, in the order in which objects of several kinds are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// v1, cluster-scoped.
    Namespaces,
    /// v1, cluster-scoped.
    Nodes,
    /// v1.
    Pods,
    /// v1.
    Services,
    /// v1.
    ConfigMaps,
    /// v1.
    Events,
    /// apps/v1.
    Deployments,
    /// apps/v1.
    ReplicaSets,
    /// coordination.k8s.io/v1.
    Leases,
    /// karpenter.sh/v1, cluster-scoped.
    NodeClaims,
    /// karpenter.sh/v1, cluster-scoped.
    NodePools,
    /// trinopool.dev/v1alpha1.
    TrinoPools,
    /// apiextensions.k8s.io/v1, cluster-scoped.
    CustomResourceDefinitions,
}

/// How a resource is spelled and treated.
// Independent facts of a table, not states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// Lower-case plural, as in paths.
    pub plural: &'static str,
    /// Lower-case singular, for discovery.
    pub singular: &'static str,
    /// CamelCase kind.
    pub kind: &'static str,
    /// Objects live in namespaces.
    pub namespaced: bool,
    /// `status` is its own subresource: a write of the main one leaves it alone.
    pub status: bool,
    /// `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// Served through a CustomResourceDefinition: list items keep `apiVersion` and `kind`, and a PUT
    /// must carry a resourceVersion.
    pub custom: bool,
}

impl Kind {
    /// `v1`, or `group/version`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

const fn core(
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
    namespaced: bool,
    status: bool,
    generation: bool,
) -> Kind {
    Kind {
        group: "",
        version: "v1",
        plural,
        singular,
        kind,
        namespaced,
        status,
        generation,
        custom: false,
    }
}

const fn karpenter(plural: &'static str, singular: &'static str, kind: &'static str) -> Kind {
    Kind {
        group: "karpenter.sh",
        version: "v1",
        plural,
        singular,
        kind,
        namespaced: false,
        status: true,
        generation: true,
        custom: true,
    }
}

const fn apps(plural: &'static str, singular: &'static str, kind: &'static str) -> Kind {
    Kind {
        group: "apps",
        version: "v1",
        plural,
        singular,
        kind,
        namespaced: true,
        status: true,
        generation: true,
        custom: false,
    }
}

static NAMESPACES: Kind = core("namespaces", "namespace", "Namespace", false, true, false);
static NODES: Kind = core("nodes", "node", "Node", false, true, false);
static PODS: Kind = core("pods", "pod", "Pod", true, true, true);
static SERVICES: Kind = core("services", "service", "Service", true, true, false);
static CONFIG_MAPS: Kind = core("configmaps", "configmap", "ConfigMap", true, false, false);
static EVENTS: Kind = core("events", "event", "Event", true, false, false);
static DEPLOYMENTS: Kind = apps("deployments", "deployment", "Deployment");
static REPLICA_SETS: Kind = apps("replicasets", "replicaset", "ReplicaSet");
static LEASES: Kind = Kind {
    group: "coordination.k8s.io",
    version: "v1",
    plural: "leases",
    singular: "lease",
    kind: "Lease",
    namespaced: true,
    status: false,
    generation: false,
    custom: false,
};
static NODE_CLAIMS: Kind = karpenter("nodeclaims", "nodeclaim", "NodeClaim");
static NODE_POOLS: Kind = karpenter("nodepools", "nodepool", "NodePool");
static TRINO_POOLS: Kind = Kind {
    group: "trinopool.dev",
    version: "v1alpha1",
    plural: "trinopools",
    singular: "trinopool",
    kind: "TrinoPool",
    namespaced: true,
    status: true,
    generation: true,
    custom: true,
};
static DEFINITIONS: Kind = Kind {
    group: "apiextensions.k8s.io",
    version: "v1",
    plural: "customresourcedefinitions",
    singular: "customresourcedefinition",
    kind: "CustomResourceDefinition",
    namespaced: false,
    status: true,
    generation: true,
    custom: false,
};

impl Resource {
    /// Every resource, in walking order.
    pub const ALL: [Self; 13] = [
        Self::Namespaces,
        Self::Nodes,
        Self::Pods,
        Self::Services,
        Self::ConfigMaps,
        Self::Events,
        Self::Deployments,
        Self::ReplicaSets,
        Self::Leases,
        Self::NodeClaims,
        Self::NodePools,
        Self::TrinoPools,
        Self::CustomResourceDefinitions,
    ];

    /// How it is spelled and treated.
    #[must_use]
    pub fn kind(self) -> &'static Kind {
        match self {
            Self::Namespaces => &NAMESPACES,
            Self::Nodes => &NODES,
            Self::Pods => &PODS,
            Self::Services => &SERVICES,
            Self::ConfigMaps => &CONFIG_MAPS,
            Self::Events => &EVENTS,
            Self::Deployments => &DEPLOYMENTS,
            Self::ReplicaSets => &REPLICA_SETS,
            Self::Leases => &LEASES,
            Self::NodeClaims => &NODE_CLAIMS,
            Self::NodePools => &NODE_POOLS,
            Self::TrinoPools => &TRINO_POOLS,
            Self::CustomResourceDefinitions => &DEFINITIONS,
        }
    }

    /// The resource at `<group>/<version>/<plural>`.
    #[must_use]
    pub fn find(group: &str, version: &str, plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| {
            let kind = resource.kind();
            kind.group == group && kind.version == version && kind.plural == plural
        })
    }

    /// The resource of an object, by its `apiVersion` and `kind`.
    #[must_use]
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|resource| resource.kind().kind == kind && resource.kind().api_version() == api_version)
    }
}
