//! A coordinator's own HTTP API: the port, its adapter, and the validation of a candidate.
//!
//! Owns what a coordinator says about itself: readiness, process identity, version, workers, catalogs.
//! It never cancels a client's query; the only statements it runs are its own probes.

pub mod address;
pub mod http;
pub mod port;
pub mod statement;
pub mod validate;
