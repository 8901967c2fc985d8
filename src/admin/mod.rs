//! The process's own HTTP face: metrics for Prometheus, health for the kubelet. Read-only; shows nothing secret.

pub mod gauges;
pub mod server;
