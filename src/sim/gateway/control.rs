//! Routes of the control API: `/gateway/…` (protocol section 1.4), its credential and its envelope.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

use super::denied::Denied;
use super::fields::is_word;
use super::state::{Pool, State};
use super::{GatewayOptions, Upstream, backends, register, steps};
use crate::gateway::pooled::TOKEN_HEADER;

/// Everything one control request may touch.
pub(super) struct Control<'a> {
    pub(super) options: &'a GatewayOptions,
    pub(super) state: &'a mut State,
    pub(super) rng: &'a mut ChaCha8Rng,
    pub(super) upstream: &'a mut dyn Upstream,
    pub(super) now: Timestamp,
}

impl Control<'_> {
    /// Answers a request whose path starts with `/gateway/` or is `/entity`.
    pub(super) fn answer(&mut self, request: &Request<Bytes>) -> Response<Bytes> {
        match self.route(request) {
            Ok(value) => ok(&value),
            Err(denied) => denied.into(),
        }
    }

    fn route(&mut self, request: &Request<Bytes>) -> Result<Value, Denied> {
        let path = request.uri().path();
        match (request.method(), path) {
            (&Method::GET, "/gateway/backend/all") => Ok(backends::all(self.state)),
            (&Method::POST, "/gateway/backend/modify/add" | "/entity") => {
                backends::add(self.state, &body(request)?)
            }
            (&Method::POST, "/gateway/backend/modify/delete") => {
                backends::remove(self.state, request, self.options.removal)
            }
            (_, _) => match path.strip_prefix("/gateway/v1/pools/") {
                Some(rest) => self.pools(request, rest),
                None => Err(no_route()),
            },
        }
    }

    fn pools(&mut self, request: &Request<Bytes>, rest: &str) -> Result<Value, Denied> {
        if !self.options.enabled {
            return Err(Denied::coded(
                StatusCode::NOT_FOUND,
                "POOL_DISABLED",
                "pools are switched off",
            ));
        }
        authenticate(request.headers(), self.options.admin_token.expose())?;
        let segments = rest.split('/').map(decoded).collect::<Option<Vec<_>>>();
        let segments = segments.ok_or_else(|| Denied::validation("the path is not UTF-8"))?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let pool = segments.first().copied().unwrap_or_default();
        if pool.trim().is_empty() || pool.chars().count() > 256 || pool.chars().any(char::is_control) {
            return Err(Denied::validation("the pool id is not acceptable"));
        }
        match *request.method() {
            Method::GET => self.read(pool, segments.get(1..).unwrap_or_default()),
            Method::PUT if segments.len() == 1 => {
                register::configure(self.state, pool, &body(request)?, self.now)
            }
            Method::POST => self.write(pool, segments.get(1..).unwrap_or_default(), &body(request)?),
            _ => Err(no_route()),
        }
    }

    fn read(&self, pool: &str, rest: &[&str]) -> Result<Value, Denied> {
        match *rest {
            [] => Ok(self.state.pool(pool)?.to_json()),
            ["members"] => {
                let pool = self.state.pool(pool)?;
                let members = pool.members.values();
                Ok(members
                    .map(|member| pool.member_json(member, &self.state.ledger, self.now))
                    .collect())
            }
            ["members", instance] => {
                let (pool, member) = self.state.member(pool, instance)?;
                Ok(pool.member_json(member, &self.state.ledger, self.now))
            }
            ["members", instance, "obligations"] => {
                let (_, member) = self.state.member(pool, instance)?;
                Ok(Pool::obligations_json(member, &self.state.ledger, self.now))
            }
            ["members", instance, "failure-receipt"] => {
                let (_, member) = self.state.member(pool, instance)?;
                let receipt = member.failure.clone();
                receipt.ok_or_else(|| Denied::not_found("there is no failure receipt"))
            }
            ["operations", operation] => Ok(self.history(pool, operation)),
            _ => Err(no_route()),
        }
    }

    fn write(&mut self, pool: &str, rest: &[&str], body: &Map<String, Value>) -> Result<Value, Denied> {
        match *rest {
            ["members"] => register::register(self.state, pool, body, self.now, self.rng, self.upstream),
            ["members", instance, _] if !is_word(instance, 256) => {
                Err(Denied::validation("the instance id is not acceptable"))
            }
            ["members", instance, verb] => {
                let run = steps::run(self.state, (pool, instance, verb), body, self.now, self.upstream);
                run.unwrap_or_else(|| Err(no_route()))
            }
            _ => Err(no_route()),
        }
    }

    /// OperationHistory: an unknown operation or pool has an empty one.
    fn history(&self, pool: &str, operation: &str) -> Value {
        let journal = self.state.pools.get(pool).map(|pool| &pool.journal);
        let mut steps: Vec<_> = journal
            .into_iter()
            .flatten()
            .filter(|((recorded, _), _)| recorded == operation)
            .map(|((_, step), recorded)| (recorded.at, step, recorded))
            .collect();
        steps.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        let steps: Vec<Value> = steps
            .into_iter()
            .map(|(at, step, recorded)| {
                json!({
                    "stepId": step,
                    "payloadHash": recorded.hash,
                    "controllerEpoch": recorded.epoch,
                    "outcome": "OK",
                    "recordedAt": at.to_string(),
                    "result": recorded.result,
                })
            })
            .collect();
        json!({"protocolVersion": 1, "operationId": operation, "steps": steps})
    }
}

/// Section 1.1: the bare header alone decides when it is there.
fn authenticate(headers: &HeaderMap, token: &str) -> Result<(), Denied> {
    let one = |name: http::HeaderName| -> Result<Option<&HeaderValue>, Denied> {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) if !value.is_empty() => Ok(Some(value)),
            (None, None) => Ok(None),
            (Some(_), _) | (None, Some(_)) => Err(Denied::plain(
                StatusCode::BAD_REQUEST,
                "a credential header is empty or repeated",
            )),
        }
    };
    let bare = one(http::HeaderName::from_static(TOKEN_HEADER))?;
    let bearer = one(AUTHORIZATION)?;
    let right = match (bare, bearer) {
        (Some(bare), _) => bare.as_bytes() == token.as_bytes(),
        (None, Some(bearer)) => bearer.as_bytes().strip_prefix(b"Bearer ") == Some(token.as_bytes()),
        (None, None) => false,
    };
    if right {
        Ok(())
    } else {
        Err(Denied::plain(StatusCode::FORBIDDEN, "the credential is refused"))
    }
}

fn body(request: &Request<Bytes>) -> Result<Map<String, Value>, Denied> {
    serde_json::from_slice(request.body()).map_err(|_| Denied::validation("the body must be a JSON object"))
}

fn ok(value: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(value.to_string()));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn no_route() -> Denied {
    Denied::plain(StatusCode::NOT_FOUND, "no such route")
}

/// A percent-decoded path segment.
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after.get(2..)?;
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// The route of a control request for the request counts, without names of pools and members.
pub(super) fn label(path: &str) -> String {
    let Some(rest) = path.strip_prefix("/gateway/v1/pools/") else {
        return path
            .trim_start_matches("/gateway/")
            .trim_start_matches('/')
            .to_owned();
    };
    let segments: Vec<&str> = rest.split('/').collect();
    match segments.as_slice() {
        [_] => "pool".to_owned(),
        [_, "members", _] => "member".to_owned(),
        [_, collection] | [_, collection, _] => (*collection).to_owned(),
        [_, collection, _, verb] => format!("{collection}/{verb}"),
        _ => "unknown".to_owned(),
    }
}
