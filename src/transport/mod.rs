//! One HTTP exchange as a port, shared by the gateway's and the coordinator's clients.
//!
//! The production implementation sends over the network; the simulated world implements the same trait
//! in process, so that the clients' own encoding, decoding and error mapping run in every simulation.

pub mod network;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

/// Why an exchange has no answer. Whether the request arrived is not known, except for
/// [`TransportError::NotConnected`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The connection was refused, or the name does not resolve: nothing was sent.
    #[error("no connection: {0}")]
    NotConnected(String),
    /// The connection broke after the request may have been sent.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// No complete answer within the deadline.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The answer is longer than the caller allows.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

/// Sends one request and reads the whole answer. Follows no redirect, uses no proxy.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Exchanges one request for one answer within the transport's deadline.
    async fn exchange(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, TransportError>;
}
