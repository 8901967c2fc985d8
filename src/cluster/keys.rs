//! The labels, annotations and finalizer that this module reads or writes, spelled once.

/// Karpenter: exactly "true" keeps a pod from being disrupted (pkg/apis/v1/labels.go).
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Karpenter: when protected pods will be ended (pkg/apis/v1/labels.go).
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Ours, on a node: whom it was cordoned for.
pub const NODE_REPLACEMENT: &str = "trinopool.dev/node-replacement";
/// Ours, on objects: the instance.
pub const INSTANCE_LABEL: &str = "trinopool.dev/instance";
/// Ours, on objects: the name of the TrinoPool.
pub const POOL_LABEL: &str = "trinopool.dev/pool";
/// Whose objects they are.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Our value of [`MANAGED_BY_LABEL`].
pub const MANAGED_BY: &str = "trino-pool-operator";
/// Ours, on objects: digest of the content they were made of.
pub const DIGEST_ANNOTATION: &str = "trinopool.dev/spec-digest";
/// Ours, on objects: the epoch they were made under.
pub const EPOCH_ANNOTATION: &str = "trinopool.dev/authority-epoch";
/// Ours, on a TrinoPool.
pub const POOL_FINALIZER: &str = "trinopool.dev/pool";
