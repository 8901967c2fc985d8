//! One newtype per identity, so that two strings can't be swapped by accident.
//!
//! Text identities hold what the outside world gave us, unchanged; numbers are monotonic counters.
//! Nothing here generates an identity except [`InstanceId::from_bits`].

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! text_ids {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps the text as it is.
            #[must_use]
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether the text is empty, which no real identity is.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    )+};
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Wraps the count.
            #[must_use]
            pub const fn new(count: u64) -> Self {
                Self(count)
            }

            /// The count as a plain number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The next count; stays at the maximum rather than wrapping.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

text_ids! {
    /// `<namespace>/<name>` of the TrinoPool resource; the key of every row of the pool.
    PoolId;
    /// The gateway's name of the pool (its routing group).
    RoutingGroup;
    /// A Kubernetes namespace.
    Namespace;
    /// `cell-` and eight hex digits; also the name stem of the instance's five objects. Never reused.
    InstanceId;
    /// Name of one Kubernetes object.
    ObjectName;
    /// `metadata.uid` of a Deployment, ReplicaSet, Service, ConfigMap or TrinoPool.
    ObjectUid;
    /// `metadata.resourceVersion`: opaque, compared for equality only.
    ResourceVersion;
    /// `metadata.uid` of a Pod.
    PodUid;
    /// Name of a Node.
    NodeName;
    /// `metadata.uid` of a Node.
    NodeUid;
    /// Name of a Karpenter NodeClaim.
    ClaimName;
    /// `metadata.uid` of a Karpenter NodeClaim.
    ClaimUid;
    /// `spec.providerID` of a Node or `status.providerID` of a NodeClaim.
    ProviderId;
    /// `status.containerStatuses[].containerID` of a pod's main container.
    ContainerId;
    /// Who holds authority over a pool: one process, one term.
    OwnerId;
    /// Gateway: UUID of one registration; never reused.
    Incarnation;
    /// Gateway: name of a backend registration, `<routing group>-<instance id>`.
    BackendName;
    /// New at every start of a coordinator process. On plain Trino: its `coordinatorId`.
    BootId;
    /// Trino's `node.id`; may survive a restart.
    TrinoNodeId;
    /// Trino's `coordinatorId` from `/v1/info`; new at each process start (5 characters).
    CoordinatorId;
    /// What the desired state calls its release; compared for equality only.
    ReleaseId;
    /// Lower-case hex SHA-256 of rendered content.
    Digest;
    /// Journal: one operation at the gateway and in the store, `instance:<id>` and the like.
    OperationId;
    /// Journal: one step of an operation, at most 64 of `[A-Za-z0-9_.:-]`.
    StepId;
    /// UUID of a store, made when it is first migrated.
    StoreId;
}

counters! {
    /// Fences every write of a pool; rises by at least one whenever authority changes hands.
    Epoch;
    /// Gateway: compare-and-set counter of one member, +1 per accepted step.
    Generation;
    /// `metadata.generation` of a TrinoPool.
    SpecGeneration;
    /// One round of the control loop of this process.
    TickId;
    /// Store: rises with every transaction that changes anything of a pool.
    Revision;
}

impl InstanceId {
    /// The id made of the low 32 of `bits`. The caller supplies unpredictable bits and refuses an id
    /// that any row, retired ones included, already carries.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(format!("cell-{:08x}", bits & 0xffff_ffff))
    }
}

impl Epoch {
    /// The epoch a new authority takes: one above everything seen in the store, at the gateway and on
    /// our objects (safety rule S8).
    #[must_use]
    pub fn above(seen: impl IntoIterator<Item = Self>) -> Self {
        seen.into_iter().max().unwrap_or_default().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_one_above_everything_seen() {
        assert_eq!(
            Epoch::above([Epoch::new(3), Epoch::new(9), Epoch::new(4)]),
            Epoch::new(10)
        );
        assert_eq!(Epoch::above([]), Epoch::new(1));
    }

    #[test]
    fn an_instance_id_has_eight_hex_digits() {
        assert_eq!(
            InstanceId::from_bits(0xffff_0000_1a2b_3c4d).as_str(),
            "cell-1a2b3c4d"
        );
        assert_eq!(InstanceId::from_bits(7).as_str(), "cell-00000007");
    }
}
