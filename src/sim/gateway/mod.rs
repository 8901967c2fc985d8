//! A gateway that speaks the pooled-member protocol and proxies statements.
//!
//! Owns the server side of the protocol (facts of sections 2 to 7, of 8 only what a barrier needs): the
//! journal, the phase machine, budgets and floor, obligations, and the routing of client statements to
//! members. It is a plain synchronous value: time, randomness and the coordinators are handed to it, so
//! the same history always gives the same answers. It never looks at Kubernetes and never calls the
//! operator. Everything it holds is durable, as in a store shared by all replicas of a gateway; nothing
//! is lost in a restart, which is therefore an [`Outage`] and its end.
//!
//! Simplifications: a client's request is dispatched and settled within one call, so an admission stays
//! open only when its outcome is unknown (UNCERTAIN); duplicate keys in a page are not looked for;
//! publications exist only as [`GatewaySim::open_publication`].

pub mod faults;
pub mod server;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;

use self::faults::{Faults, Reply};
use crate::gateway::pooled::secret::Secret;

/// The coordinators, as the gateway reaches them.
pub trait Upstream {
    /// Sends `request` (its URI is a path with its query) to the coordinator at `origin`, which is the
    /// URL of a backend registration without a trailing slash. `None`: no connection, or the answer was
    /// lost.
    fn exchange(&mut self, origin: &str, request: &Request<Bytes>) -> Option<Response<Bytes>>;
}

/// What happens when a registration is asked to be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendRemoval {
    /// Always 409, as the newest gateway does.
    #[default]
    Refused,
    /// Allowed once its member is RETIRED, or when no member ever used it.
    OnceRetired,
}

/// How the simulated gateway is set up.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The admin token it expects.
    pub admin_token: Secret,
    /// `transactionAwareness.pool.enabled`; off means 404 `POOL_DISABLED` on every pool route.
    pub enabled: bool,
    /// Routing group of statements that name none.
    pub default_group: String,
    /// How long a finished query still counts as an obligation.
    pub terminal_retention: Duration,
    /// Members tried for one statement before it is refused.
    pub max_candidates: usize,
    /// Removal of registrations.
    pub removal: BackendRemoval,
}

impl GatewayOptions {
    /// The protocol's defaults (section 1.3).
    #[must_use]
    pub fn new(admin_token: Secret) -> Self {
        Self {
            admin_token,
            enabled: true,
            default_group: "default".to_owned(),
            terminal_retention: Duration::from_mins(2),
            max_candidates: 3,
            removal: BackendRemoval::default(),
        }
    }
}

/// The simulated gateway.
#[derive(Debug)]
pub struct GatewaySim {
    options: GatewayOptions,
    rng: ChaCha8Rng,
    requests: BTreeMap<String, u64>,
    /// Injected faults; consulted by [`GatewaySim::exchange`] only.
    pub faults: Faults,
}

impl GatewaySim {
    /// An empty gateway. `rng` shuffles members and makes incarnations.
    #[must_use]
    pub fn new(options: GatewayOptions, rng: ChaCha8Rng) -> Self {
        Self {
            options,
            rng,
            requests: BTreeMap::new(),
            faults: Faults::default(),
        }
    }

    /// One request as its sender experiences it: through the injected faults.
    pub fn exchange(
        &mut self,
        request: &Request<Bytes>,
        now: Timestamp,
        upstream: &mut dyn Upstream,
    ) -> Reply {
        let plan = self.faults.plan(request);
        plan.carry_out(|| self.handle(request, now, upstream))
    }

    /// One request, answered without injected faults. Statement requests (`/v1/statement`, `/v1/query`)
    /// and control requests arrive at the same address.
    pub fn handle(
        &mut self,
        request: &Request<Bytes>,
        now: Timestamp,
        upstream: &mut dyn Upstream,
    ) -> Response<Bytes> {
        let _ = (&self.options, &self.rng, request, now, upstream);
        let mut response = Response::new(Bytes::from_static(b"not yet"));
        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        response
    }

    /// How often each route was asked, by `"<VERB> <route>"`, such as `"POST members/admit"`.
    #[must_use]
    pub const fn requests(&self) -> &BTreeMap<String, u64> {
        &self.requests
    }
}
