//! A coordinator's own HTTP API: the port and its adapter.
//!
//! Owns what a coordinator says about itself: readiness, process identity, version, workers, catalogs.
//! It never cancels a query; the only statements it runs are its own probes.

pub mod port;
