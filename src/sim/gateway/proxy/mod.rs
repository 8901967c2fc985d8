//! The statement proxy: new work goes to an ACTIVE member, everything that follows to the very process
//! that holds it (protocol sections 4 and 7).
//!
//! After a request was dispatched it is never retried or moved; if its outcome is not clear, its
//! admission stays open and blocks the member's seal. Bodies pass through unchanged: a coordinator
//! builds `nextUri` from the X-Forwarded headers that are set here.

mod caller;
mod forward;
mod page;
mod settle;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use self::settle::{Ask, Settlement};
use super::denied::Denied;
use super::ledger::{Owner, PathKind};
use super::probe::probe;
use super::state::{Phase, State};
use super::{GatewayOptions, Health, Upstream};

const STATEMENT: &str = "/v1/statement";
const QUERY: &str = "/v1/query/";
const TRANSACTION: &str = "x-trino-transaction-id";
const GROUP: &str = "x-trino-routing-group";

/// Whether a path belongs to the proxy.
pub(super) fn concerns(path: &str) -> bool {
    path == STATEMENT || path.starts_with("/v1/statement/") || path.starts_with(QUERY)
}

/// Everything one client request may touch.
pub(super) struct Proxy<'a> {
    pub(super) options: &'a GatewayOptions,
    pub(super) state: &'a mut State,
    pub(super) health: &'a mut Health,
    pub(super) rng: &'a mut ChaCha8Rng,
    pub(super) upstream: &'a mut dyn Upstream,
    pub(super) now: Timestamp,
}

/// The member a request goes to.
#[derive(Clone, Debug)]
struct Target {
    incarnation: String,
    url: String,
    node_id: String,
    coordinator_id: String,
    phase: Phase,
}

impl Proxy<'_> {
    /// Answers one client request.
    pub(super) fn answer(&mut self, request: &Request<Bytes>) -> Response<Bytes> {
        let path = request.uri().path();
        let strange = ["%", ";", "\\", "//", "/./", "/../"];
        if strange.iter().any(|part| path.contains(part)) || path.ends_with("/.") || path.ends_with("/..") {
            return Denied::plain(StatusCode::BAD_REQUEST, "the path is not canonical").into();
        }
        let answered = match *request.method() {
            Method::POST if path == STATEMENT => match caller::submitter(request.headers()) {
                Some(owner) => self.submit(request, &owner),
                None => return caller::challenge(),
            },
            Method::GET | Method::HEAD | Method::DELETE if path != STATEMENT => self.follow(request, path),
            Method::POST | Method::GET | Method::HEAD | Method::DELETE => {
                Err(Denied::plain(StatusCode::BAD_REQUEST, "not a statement path"))
            }
            _ => Err(Denied::plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "not for statements",
            )),
        };
        answered.unwrap_or_else(Response::from)
    }

    fn submit(&mut self, request: &Request<Bytes>, owner: &Owner) -> Result<Response<Bytes>, Denied> {
        let transaction = request
            .headers()
            .get(TRANSACTION)
            .and_then(|value| value.to_str().ok())
            .filter(|id| !id.eq_ignore_ascii_case("NONE"));
        let target = match transaction {
            Some(transaction) => self.bound_transaction(transaction, owner)?,
            None => self.choose(request)?,
        };
        self.dispatch(request, &target, Ask::Submit { owner, transaction })
    }

    /// The member that holds an open transaction of this owner.
    fn bound_transaction(&self, transaction: &str, owner: &Owner) -> Result<Target, Denied> {
        let row = self.state.ledger.transaction(transaction).ok_or_else(unknown)?;
        if row.owner != *owner {
            return Err(Denied::coded(
                StatusCode::FORBIDDEN,
                "ROUTING_STATE_OWNER_MISMATCH",
                "the transaction belongs to somebody else",
            ));
        }
        if !row.open {
            return Err(Denied::conflict(
                "ROUTING_STATE_CONFLICT",
                "the transaction is over",
            ));
        }
        self.pinned(&row.incarnation)
    }

    /// An ACTIVE member for new work: shuffled, those that answered last first.
    fn choose(&mut self, request: &Request<Bytes>) -> Result<Target, Denied> {
        let named = request.headers().get(GROUP).and_then(|value| value.to_str().ok());
        let group = named.unwrap_or(&self.options.default_group);
        let none = || {
            Denied::coded(
                StatusCode::SERVICE_UNAVAILABLE,
                "ROUTING_STATE_NOT_ACTIVE",
                "no member takes new work",
            )
        };
        let pool = self.state.pools.get(group).ok_or_else(none)?;
        let registered = |name: &str| {
            self.state
                .backends
                .get(name)
                .is_some_and(|row| row.group == group)
        };
        let mut candidates: Vec<Target> = pool
            .members
            .values()
            .filter(|member| {
                pool.settings.pooled && member.phase == Phase::Active && registered(&member.backend)
            })
            .map(Target::of)
            .collect();
        candidates.shuffle(self.rng);
        candidates.sort_by_key(|target| self.health.is_failing(&target.incarnation));
        candidates.into_iter().next().ok_or_else(none)
    }

    /// A continuation of a query, or a look at it.
    fn follow(&mut self, request: &Request<Bytes>, path: &str) -> Result<Response<Bytes>, Denied> {
        let metadata = path.strip_prefix(QUERY);
        let known = |part: &&str| self.state.ledger.query(part).is_some();
        let id = match metadata {
            Some(id) => Some(id).filter(|id| known(id)),
            None => path.split('/').find(|part| known(part)),
        };
        let id = id.ok_or_else(unknown)?.to_owned();
        let query = self.state.ledger.query(&id).ok_or_else(unknown)?;
        if metadata.is_some() && !request.headers().contains_key(http::header::AUTHORIZATION) {
            return Err(Denied::plain(
                StatusCode::UNAUTHORIZED,
                "credentials are required",
            ));
        }
        caller::may_continue(request.headers(), &query.owner)?;
        let kind = match (metadata, query.advertised(path)) {
            (Some(_), _) => None,
            (None, Some(kind)) => Some(kind),
            (None, None) => return Err(unknown()),
        };
        let target = self.pinned(&query.incarnation)?;
        let ask = match kind {
            None => Ask::Metadata,
            Some(PathKind::Next) => Ask::Next { query: &id, path },
            Some(PathKind::PartialCancel) => Ask::PartialCancel,
        };
        self.dispatch(request, &target, ask)
    }

    /// The member of an incarnation, if it may still serve what is bound to it.
    fn pinned(&self, incarnation: &str) -> Result<Target, Denied> {
        let member = self.state.incarnation(incarnation).ok_or_else(unknown)?;
        let target = Target::of(member);
        if target.phase.serves_bound_work() {
            Ok(target)
        } else {
            Err(Denied::conflict(
                "ROUTING_STATE_SEALED",
                "the member takes nothing more",
            ))
        }
    }

    /// Admits, probes, dispatches once and settles.
    fn dispatch(
        &mut self,
        request: &Request<Bytes>,
        target: &Target,
        ask: Ask<'_>,
    ) -> Result<Response<Bytes>, Denied> {
        let admission = self.state.ledger.admit(&target.incarnation);
        let probed = probe(self.upstream, &target.url);
        self.health.note(&target.incarnation, probed.is_ok());
        let refused = match probed {
            Err(_) => Some(Denied::coded(
                StatusCode::SERVICE_UNAVAILABLE,
                "ROUTING_STATE_UNAVAILABLE",
                "the member does not answer",
            )),
            Ok(seen)
                if (&seen.node_id, &seen.coordinator_id) != (&target.node_id, &target.coordinator_id) =>
            {
                Some(Denied::plain(StatusCode::CONFLICT, "the member was restarted"))
            }
            Ok(_) => None,
        };
        if let Some(denied) = refused {
            // Nothing was sent.
            self.state.ledger.complete(admission);
            return Err(denied);
        }
        let forwarded = forward::request(request);
        let answer = self.upstream.exchange(&target.url, &forwarded);
        let retain_until = self
            .now
            .saturating_add(self.options.terminal_retention)
            .unwrap_or(Timestamp::MAX);
        let settlement = settle::settle(
            &mut self.state.ledger,
            (&target.incarnation, &target.coordinator_id),
            ask,
            (request.method(), answer.as_ref()),
            retain_until,
        );
        match (settlement, answer) {
            (Settlement::Complete, Some(answer)) => {
                self.state.ledger.complete(admission);
                Ok(forward::response(answer))
            }
            (Settlement::PassUncertain, Some(answer)) => Ok(forward::response(answer)),
            (Settlement::Complete | Settlement::PassUncertain | Settlement::BadPage, _) => {
                Err(Denied::plain(
                    StatusCode::BAD_GATEWAY,
                    "the member's answer is lost or cannot be believed",
                ))
            }
        }
    }
}

impl Target {
    fn of(member: &super::state::MemberRow) -> Self {
        Self {
            incarnation: member.incarnation.clone(),
            url: member.url.clone(),
            node_id: member.node_id.clone(),
            coordinator_id: member.coordinator_id.clone(),
            phase: member.phase,
        }
    }
}

fn unknown() -> Denied {
    Denied::coded(StatusCode::NOT_FOUND, "ROUTING_STATE_NOT_FOUND", "not known here")
}
