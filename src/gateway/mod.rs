//! The gateway: a port, and the adapter for the pooled-member protocol.
//!
//! Owns the protocol's vocabulary and transport. It decides nothing: which step to send, and what an
//! answer means for an instance, is decided in `pool/`.

pub mod model;
pub mod pooled;
pub mod port;
