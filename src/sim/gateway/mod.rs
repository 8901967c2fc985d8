//! A gateway that speaks the pooled-member protocol and proxies statements.
//!
//! Owns the server side of the protocol (facts of sections 2 to 7, of 8 only what a barrier needs): the
//! journal, the phase machine, budgets and floor, obligations, and the routing of client statements to
//! members. It is a plain synchronous value: time, randomness and the coordinators are handed to it, so
//! the same history always gives the same answers. It never looks at Kubernetes and never calls the
//! operator. Everything it holds is durable, as in a store shared by all replicas of a gateway; nothing
//! is lost in a restart, which is therefore an [`Outage`] and its end.
//!
//! ```text
//!   exchange ─ faults ─▶ handle ─┬─ control   /gateway/…      register · steps · backends
//!                                └─ proxy     /v1/statement   caller · page · settle
//!                                      both over  state  and its  ledger
//! ```
//!
//! Simplifications: a client's request is dispatched and settled within one call, so an admission stays
//! open only when its outcome is unknown (UNCERTAIN); duplicate keys in a page are not looked for;
//! publications exist only as [`GatewaySim::open_publication`].

mod backends;
mod canon;
mod control;
mod denied;
pub mod faults;
mod fields;
mod ledger;
mod probe;
mod proxy;
mod register;
pub mod server;
mod state;
mod steps;
#[cfg(test)]
mod tests;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;

use self::control::Control;
use self::denied::Denied;
use self::faults::{Faults, Reply};
use self::proxy::Proxy;
use self::state::{Phase, Pool, State};
use crate::gateway::model::{Member, Obligations, PoolState};
use crate::gateway::pooled::secret::Secret;

pub use self::witness::Asked;

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
            removal: BackendRemoval::default(),
        }
    }
}

/// Which members failed to answer last. Advisory and volatile: it orders members and decides nothing.
#[derive(Debug, Default)]
struct Health(BTreeSet<String>);

impl Health {
    fn note(&mut self, incarnation: &str, answers: bool) {
        if answers {
            self.0.remove(incarnation);
        } else {
            self.0.insert(incarnation.to_owned());
        }
    }

    fn is_failing(&self, incarnation: &str) -> bool {
        self.0.contains(incarnation)
    }
}

/// A member as the gateway itself holds it, in the words of the production client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// The member.
    pub member: Member,
    /// What it owes.
    pub obligations: Obligations,
    /// Where it is.
    pub url: String,
}

/// The simulated gateway.
#[derive(Debug)]
pub struct GatewaySim {
    options: GatewayOptions,
    rng: ChaCha8Rng,
    state: State,
    health: Health,
    requests: BTreeMap<String, u64>,
    asked: Arc<Vec<Asked>>,
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
            state: State::default(),
            health: Health::default(),
            requests: BTreeMap::new(),
            asked: Arc::default(),
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
        let path = request.uri().path();
        let route = if proxy::concerns(path) {
            path.split('/').nth(2).unwrap_or_default().to_owned()
        } else {
            control::label(path)
        };
        *self
            .requests
            .entry(format!("{} {route}", request.method()))
            .or_default() += 1;
        if proxy::concerns(path) {
            let mut proxy = Proxy {
                options: &self.options,
                state: &mut self.state,
                health: &mut self.health,
                rng: &mut self.rng,
                upstream,
                now,
            };
            return proxy.answer(request);
        }
        if path.starts_with("/gateway/") || path == "/entity" {
            let arrival = witness::arrival(&self.state, request, now);
            let mut control = Control {
                options: &self.options,
                state: &mut self.state,
                rng: &mut self.rng,
                upstream,
                now,
            };
            let response = control.answer(request);
            if let Some(arrival) = arrival {
                Arc::make_mut(&mut self.asked).push(arrival.answered(&self.state, &response));
            }
            return response;
        }
        if path == "/trino-gateway/readyz" || path == "/trino-gateway/livez" {
            return Response::new(Bytes::from_static(b"OK"));
        }
        Denied::plain(http::StatusCode::NOT_FOUND, "no such route").into()
    }

    /// One round of the health monitor: asks every ACTIVE member who it is. Only orders members.
    pub fn monitor(&mut self, upstream: &mut dyn Upstream) {
        for member in self.state.pools.values().flat_map(|pool| pool.members.values()) {
            if member.phase == Phase::Active {
                let answers = probe::probe(upstream, &member.url).is_ok();
                self.health.note(&member.incarnation, answers);
            }
        }
    }

    /// How often each route was asked, by `"<VERB> <route>"`, such as `"POST members/admit"` or
    /// `"GET statement"`. Requests that never arrived are not counted.
    #[must_use]
    pub const fn requests(&self) -> &BTreeMap<String, u64> {
        &self.requests
    }

    /// Every step that arrived for a member, oldest first.
    #[must_use]
    pub fn asked(&self) -> Arc<Vec<Asked>> {
        Arc::clone(&self.asked)
    }

    /// A pool, for whoever checks the simulation.
    #[must_use]
    pub fn pool(&self, pool: &str) -> Option<PoolState> {
        serde_json::from_value(self.state.pools.get(pool)?.to_json()).ok()
    }

    /// Every member of a pool, by instance id, for whoever checks the simulation.
    #[must_use]
    pub fn members(&self, pool: &str, now: Timestamp) -> Vec<MemberView> {
        let Some(pool) = self.state.pools.get(pool) else {
            return Vec::new();
        };
        let view = |row| {
            let ledger = &self.state.ledger;
            Some(MemberView {
                member: serde_json::from_value(pool.member_json(row, ledger, now)).ok()?,
                obligations: serde_json::from_value(Pool::obligations_json(row, ledger, now)).ok()?,
                url: row.url.clone(),
            })
        };
        pool.members.values().filter_map(view).collect()
    }

    /// Opens a publication in a pool: until it is closed, only members of `target_revision` are admitted.
    pub fn open_publication(&mut self, pool: &str, id: &str, target_revision: &str) {
        if let Some(pool) = self.state.pools.get_mut(pool) {
            pool.publications
                .push((id.to_owned(), target_revision.to_owned()));
        }
    }

    /// Commits or abandons a publication.
    pub fn close_publication(&mut self, pool: &str, id: &str) {
        if let Some(pool) = self.state.pools.get_mut(pool) {
            pool.publications.retain(|(open, _)| open != id);
        }
    }
}
