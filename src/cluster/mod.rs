//! Kubernetes: the port, the facts it deals in, and the kube-rs adapter.
//!
//! Watched and written, all in the pools' own namespaces unless noted:
//!
//! ```text
//!   TrinoPool ──spec──▶ our rows            (status, finalizer and Events are written back)
//!   Deployment ◀─ ReplicaSet ◀─ Pod ──nodeName──▶ Node ──ownerReferences──▶ NodeClaim
//!   Service, ConfigMap ×2                     (cluster-scoped: Node, NodeClaim)
//!   Lease                                     (leadership of the process)
//! ```
//!
//! Writes it may make: create and UID-scoped delete of an instance's five objects; one annotation on
//! our own pods; `spec.unschedulable` and one annotation on one exact node; TrinoPool status and
//! finalizer; Events; its Lease. It never deletes a pod, a node or a NodeClaim, never evicts, and never
//! writes a pod template.

pub mod apply;
pub mod decode;
pub mod facts;
pub mod kubernetes;
pub mod port;
pub mod resource;
