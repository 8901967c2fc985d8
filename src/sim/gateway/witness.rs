//! Every step that arrived for a member: the independent witness of what the operator asked, in which order.
//!
//! Records arrivals, also of refused and of replayed steps. A request that never arrived is not known here, and
//! whether an answer was seen is not either.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::canon::Covers;
use super::fields::{Envelope, Fields};
use super::state::{Phase, State};
use crate::gateway::model::MemberPhase;

/// One step that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When.
    pub at: Timestamp,
    /// Routing group.
    pub pool: String,
    /// Whose.
    pub instance: String,
    /// `register`, `admit`, `drain`, `seal`, `suspect`, `lost`, `retire` or `retired`.
    pub verb: String,
    /// The operation it names.
    pub operation: String,
    /// The step it names.
    pub step: String,
    /// Hash of its body without the authority, as the gateway tells intents apart (protocol section 2.2).
    pub body: String,
    /// The member's phase before.
    pub before: Option<MemberPhase>,
    /// The member's phase after.
    pub after: Option<MemberPhase>,
    /// It was granted, now or earlier.
    pub accepted: bool,
    /// It had been granted earlier: nothing was changed by this arrival.
    pub replayed: bool,
}

/// A step under way: what is known of it before it is answered.
pub(super) struct Arrival(Asked);

/// What a request asks of a member; `None` for everything else.
pub(super) fn arrival(state: &State, request: &Request<Bytes>, at: Timestamp) -> Option<Arrival> {
    let rest = request.uri().path().strip_prefix("/gateway/v1/pools/")?;
    if *request.method() != Method::POST {
        return None;
    }
    let body: Map<String, Value> = serde_json::from_slice(request.body()).ok()?;
    let envelope = Envelope::read(&body, Covers::Intent).ok()?;
    let segments: Vec<&str> = rest.split('/').collect();
    let (pool, instance, verb) = match segments.as_slice() {
        [pool, "members"] => (*pool, Fields::new(&body).optional("instanceId")?, "register"),
        [pool, "members", instance, verb] => (*pool, *instance, *verb),
        _ => return None,
    };
    Some(Arrival(Asked {
        at,
        pool: pool.to_owned(),
        instance: instance.to_owned(),
        verb: verb.to_owned(),
        operation: envelope.operation,
        step: envelope.step,
        body: envelope.hash,
        before: phase_of(state, pool, instance),
        after: None,
        accepted: false,
        replayed: false,
    }))
}

impl Arrival {
    /// The step with what it came to.
    pub(super) fn answered(self, state: &State, response: &Response<Bytes>) -> Asked {
        let Self(asked) = self;
        let accepted = response.status() == StatusCode::OK;
        let replayed = accepted
            && serde_json::from_slice::<Value>(response.body())
                .is_ok_and(|answer| answer.get("replayed") == Some(&Value::Bool(true)));
        Asked {
            after: phase_of(state, &asked.pool, &asked.instance),
            accepted,
            replayed,
            ..asked
        }
    }
}

fn phase_of(state: &State, pool: &str, instance: &str) -> Option<MemberPhase> {
    Some(match state.pools.get(pool)?.members.get(instance)?.phase {
        Phase::Preparing => MemberPhase::Preparing,
        Phase::Active => MemberPhase::Active,
        Phase::Draining => MemberPhase::Draining,
        Phase::Sealed => MemberPhase::Sealed,
        Phase::Retiring => MemberPhase::Retiring,
        Phase::Retired => MemberPhase::Retired,
        Phase::Suspect => MemberPhase::Suspect,
        Phase::Lost => MemberPhase::Lost,
    })
}
