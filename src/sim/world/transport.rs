//! The network of a world without a network: the transports under the production clients.

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};

use super::SharedWorld;
use crate::sim::gateway::faults::Reply;
use crate::sim::trino::server::addressee;
use crate::transport::{Transport, TransportError};

/// Reaches the simulated gateway.
#[derive(Clone, Debug)]
pub struct GatewayTransport(pub SharedWorld);

#[async_trait]
impl Transport for GatewayTransport {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        match self.0.with(|world| world.gateway_exchange(&request)) {
            Reply::Answer { response, after } => {
                if !after.is_zero() {
                    tokio::time::sleep(after).await;
                }
                Ok(response)
            }
            Reply::Silence => Err(TransportError::Broken(
                "the simulated gateway is silent".to_owned(),
            )),
        }
    }
}

/// Reaches the simulated coordinators, by the Host header.
#[derive(Clone, Debug)]
pub struct CoordinatorTransport(pub SharedWorld);

#[async_trait]
impl Transport for CoordinatorTransport {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        let host = addressee(&request);
        self.0
            .with(|world| world.coordinator_exchange(&host, &request))
            .ok_or_else(|| TransportError::NotConnected(format!("nothing listens at {host}")))
    }
}
