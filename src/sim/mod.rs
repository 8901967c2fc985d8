//! A whole world in one process: Kubernetes with Karpenter, and the traffic on it: Trino, a gateway, and clients.
//!
//! Its parts are plain synchronous structs: time comes from the `now` they are given, randomness from the
//! generator they are given, and each answers whole HTTP requests. They are joined by `world`, behind which
//! the production clients run unchanged. Nothing here knows what the operator intends; counts come from the
//! clients and from the simulated servers' own logs.

pub mod clients;
pub mod faults;
pub mod gateway;
mod http;
pub mod invariants;
pub mod kube;
pub mod scenario;
pub mod traffic;
pub mod trino;
pub mod world;
