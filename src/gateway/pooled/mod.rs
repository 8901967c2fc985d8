//! The client of the pooled-member protocol (version 1) over any [`Transport`].
//!
//! Owns the encoding of requests and the reading of answers. It may touch the gateway through its
//! transport and nothing else. It never retries, never invents a step id, never follows an answer about
//! another pool or member than it asked for, and never shows the token.
//!
//! ```text
//!   Gateway port ─▶ request.rs ─▶ Transport ─▶ answer.rs ─▶ Outcome | reading
//!                   (pure)                     (pure: status and X-Trino-Gateway-Error only)
//! ```

mod answer;
mod backends;
pub mod origin;
mod request;
pub mod secret;

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use bytes::Bytes;

use self::answer::Answer;
use self::origin::Origin;
use self::request::Encoder;
use self::secret::AdminToken;
use super::model::{Backend, Controller, Member, MemberRequest, Obligations, PoolSettings, PoolState};
use super::port::{Gateway, GatewayFault, Outcome};
use crate::pool::ids::{BackendName, InstanceId, RoutingGroup, StepId};
use crate::transport::Transport;

/// The HTTP response header that carries a refusal's machine code.
pub const ERROR_HEADER: &str = "x-trino-gateway-error";
/// The header that carries the bare admin token.
pub const TOKEN_HEADER: &str = "x-gateway-transaction-admin-token";

/// A gateway that speaks the pooled-member protocol.
#[derive(Debug)]
pub struct PooledGateway<T> {
    transport: T,
    encoder: Encoder,
}

impl<T: Transport> PooledGateway<T> {
    /// A client of the gateway at `origin`, with the controller's credential.
    pub fn new(transport: T, origin: Origin, token: AdminToken) -> Self {
        Self {
            transport,
            encoder: Encoder::new(origin, token),
        }
    }

    async fn ask(&self, request: http::Request<Bytes>) -> Result<Answer, GatewayFault> {
        let answered = self.transport.exchange(request).await;
        answered
            .map(Answer::new)
            .map_err(|error| GatewayFault::Unreachable(error.to_string()))
    }
}

#[async_trait]
impl<T: Transport> Gateway for PooledGateway<T> {
    async fn pool(&self, pool: &RoutingGroup) -> Result<Option<PoolState>, GatewayFault> {
        self.ask(self.encoder.pool(pool)?)
            .await?
            .read(|body| answer::pool_state(body, pool))
    }

    async fn configure(
        &self,
        controller: &Controller,
        step: &StepId,
        settings: &PoolSettings,
    ) -> Outcome<PoolState> {
        let asked = async {
            let request = self.encoder.configure(controller, step, settings)?;
            self.ask(request).await
        };
        match asked.await {
            Ok(answer) => answer.decide(
                |body| answer::configured(body, controller, settings),
                |state: &PoolState| state.replayed,
            ),
            Err(fault) => Outcome::Unknown(fault),
        }
    }

    async fn members(&self, pool: &RoutingGroup) -> Result<Vec<Member>, GatewayFault> {
        let answer = self.ask(self.encoder.members(pool)?).await?;
        Ok(answer
            .read(|body| answer::members(body, pool))?
            .unwrap_or_default())
    }

    async fn member(
        &self,
        pool: &RoutingGroup,
        instance: &InstanceId,
    ) -> Result<Option<Member>, GatewayFault> {
        let answer = self.ask(self.encoder.member(pool, instance)?).await?;
        answer.read(|body| answer::member(body, pool, instance))
    }

    async fn obligations(
        &self,
        pool: &RoutingGroup,
        instance: &InstanceId,
    ) -> Result<Option<Obligations>, GatewayFault> {
        let answer = self.ask(self.encoder.obligations(pool, instance)?).await?;
        answer.read(|body| answer::obligations(body, instance))
    }

    async fn send(&self, controller: &Controller, request: &MemberRequest) -> Outcome<Member> {
        let asked = async {
            let encoded = self.encoder.action(controller, request)?;
            self.ask(encoded).await
        };
        match asked.await {
            Ok(answer) => answer.decide(
                |body| answer::member(body, &controller.pool, &request.instance),
                |member: &Member| member.replayed,
            ),
            Err(fault) => Outcome::Unknown(fault),
        }
    }

    async fn ensure_backend(&self, backend: &Backend) -> Outcome<()> {
        backends::ensure(self, backend).await
    }

    async fn remove_backend(&self, name: &BackendName) -> Outcome<()> {
        backends::remove(self, name).await
    }
}
