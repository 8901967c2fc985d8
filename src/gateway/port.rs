//! The gateway as a port: what may be asked, and how an answer is told from silence.
//!
//! Every mutation answers with an [`Outcome`]; "no answer" is a value. Implementations never retry a
//! mutation by themselves and never invent a step id.

use async_trait::async_trait;

use super::model::{
    Backend, Controller, Member, MemberRequest, Obligations, PoolSettings, PoolState, RefusalCode,
};
use crate::pool::ids::{BackendName, InstanceId, RoutingGroup, StepId};

/// What came back of an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// Applied now.
    Applied(T),
    /// Recorded earlier under the same step; nothing was applied now.
    Replayed(T),
    /// Answered with a refusal: nothing was applied, and the step left no trace.
    Refused(Refusal),
    /// No verdict: it may or may not have been applied. Resolved by read-back or identical replay.
    Unknown(GatewayFault),
}

impl<T> Outcome<T> {
    /// The result, if the effect stands.
    #[must_use]
    pub fn accepted(&self) -> Option<&T> {
        match self {
            Self::Applied(result) | Self::Replayed(result) => Some(result),
            Self::Refused(_) | Self::Unknown(_) => None,
        }
    }
}

/// An answered refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the gateway refused with {code}")]
pub struct Refusal {
    /// The machine code.
    pub code: RefusalCode,
}

/// Why there is no verdict, or no reading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatewayFault {
    /// No connection, a cut connection, or no answer within the deadline.
    #[error("the gateway did not answer: {0}")]
    Unreachable(String),
    /// 429, 503 or another 5xx: nothing was decided.
    #[error("the gateway is unavailable (HTTP {status})")]
    Unavailable {
        /// HTTP status.
        status: u16,
    },
    /// The answer cannot be what the protocol says.
    #[error("the gateway answered outside its protocol: {0}")]
    Protocol(String),
    /// 401 or 403: the credential is wrong. Nothing was decided.
    #[error("the gateway refused the credential (HTTP {status})")]
    Credential {
        /// HTTP status.
        status: u16,
    },
}

impl GatewayFault {
    /// Label for metrics and reasons.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "GatewayUnreachable",
            Self::Unavailable { .. } => "GatewayUnavailable",
            Self::Protocol(_) => "GatewayProtocol",
            Self::Credential { .. } => "GatewayCredential",
        }
    }
}

/// A pooled gateway. All calls have a deadline of their own (10 s in the HTTP adapter).
#[async_trait]
pub trait Gateway: Send + Sync + 'static {
    /// The pool; `None` when the gateway does not know it.
    async fn pool(&self, pool: &RoutingGroup) -> Result<Option<PoolState>, GatewayFault>;

    /// Sets the pool and takes authority over it. `step` is new for each authority and each change.
    async fn configure(
        &self,
        controller: &Controller,
        step: &StepId,
        settings: &PoolSettings,
    ) -> Outcome<PoolState>;

    /// All members of the pool, ever, by instance id; empty when the gateway does not know the pool.
    async fn members(&self, pool: &RoutingGroup) -> Result<Vec<Member>, GatewayFault>;

    /// One member; `None` only on the gateway's own 404 `POOL_NOT_FOUND`.
    async fn member(
        &self,
        pool: &RoutingGroup,
        instance: &InstanceId,
    ) -> Result<Option<Member>, GatewayFault>;

    /// What a member still owes; `None` like [`Gateway::member`].
    async fn obligations(
        &self,
        pool: &RoutingGroup,
        instance: &InstanceId,
    ) -> Result<Option<Obligations>, GatewayFault>;

    /// Sends one member request, exactly as it is.
    async fn send(&self, controller: &Controller, request: &MemberRequest) -> Outcome<Member>;

    /// Makes sure an inactive backend registration stands: an identical one is `Replayed`, one that
    /// differs or is active is refused with `POOL_IDENTITY_CONFLICT`.
    async fn ensure_backend(&self, backend: &Backend) -> Outcome<()>;

    /// Removes the registration of a retired member. A gateway that keeps them answers 409: `Refused`.
    async fn remove_backend(&self, name: &BackendName) -> Outcome<()>;
}
