//! Injected failures of the API server: per resource, verb and name, for a number of requests or until
//! taken back.
//!
//! Only says what goes wrong. What a request would have come to is not its business.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::Timestamp;

use super::api::route::{Target, Verb};
use super::api::status::{ApiError, plain};
use super::resource::Resource;

/// What goes wrong with a matching request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 500 with a Status.
    Broken,
    /// 503 with a Status, as while the API server shuts down.
    Unavailable,
    /// 403: the permission is missing.
    Forbidden,
    /// 401: the token is not accepted.
    Unauthorized,
    /// 429 with `Retry-After` in seconds.
    Throttled(u64),
    /// 403 by an admission webhook, with its message.
    Denied(String),
    /// 404 in plain text: the kind is not served, as without its CustomResourceDefinition.
    NotServed,
    /// 502 with an HTML page, as a proxy in between answers.
    Html,
    /// 200 with half a JSON document.
    Garbled,
    /// Nothing is done and no answer ever comes.
    Hang,
    /// The request is carried out, and no answer ever comes.
    LoseAnswer,
    /// The request is carried out at once, and its answer comes this much later by the cluster's own time. A
    /// watch has no single answer and opens at once.
    Late(Duration),
}

/// Marks an answer that the client must never receive (an extension of the response).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAnswer;

/// Marks an answer that the client must not receive before this time (an extension of the response).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerDue(pub Timestamp);

/// Which requests go wrong, and how. An absent criterion matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// Only this resource.
    pub resource: Option<Resource>,
    /// Only this verb.
    pub verb: Option<Verb>,
    /// Only the object of this name.
    pub name: Option<String>,
    /// Only pages after the first of a listing.
    pub later_pages: bool,
    /// For this many requests; `None` until taken back.
    pub times: Option<u32>,
    /// What happens.
    pub fault: Fault,
}

impl FaultRule {
    /// Every request of every resource.
    #[must_use]
    pub const fn everything(fault: Fault) -> Self {
        Self {
            resource: None,
            verb: None,
            name: None,
            later_pages: false,
            times: None,
            fault,
        }
    }

    /// Every request for one resource.
    #[must_use]
    pub const fn on(resource: Resource, fault: Fault) -> Self {
        let mut rule = Self::everything(fault);
        rule.resource = Some(resource);
        rule
    }

    /// Only requests of this verb.
    #[must_use]
    pub const fn of(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Only requests for the object of this name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only so many requests.
    #[must_use]
    pub const fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Only pages after the first.
    #[must_use]
    pub const fn on_later_pages(mut self) -> Self {
        self.later_pages = true;
        self
    }

    fn matches(&self, target: &Target) -> bool {
        self.resource.is_none_or(|resource| resource == target.resource)
            && self.verb.is_none_or(|verb| verb == target.verb)
            && self
                .name
                .as_ref()
                .is_none_or(|name| Some(name) == target.name.as_ref())
            && (!self.later_pages || !target.query.get("continue").is_empty())
            && self.times != Some(0)
    }
}

/// Names an injected rule, to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(u64);

/// The rules in force, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    next: u64,
    rules: BTreeMap<FaultId, FaultRule>,
}

impl Faults {
    pub(crate) fn inject(&mut self, rule: FaultRule) -> FaultId {
        self.next += 1;
        let id = FaultId(self.next);
        self.rules.insert(id, rule);
        id
    }

    pub(crate) fn clear(&mut self, id: FaultId) {
        self.rules.remove(&id);
    }

    pub(crate) fn clear_all(&mut self) {
        self.rules.clear();
    }

    /// The fault that hits this request, if any; counts it off.
    pub(crate) fn hit(&mut self, target: &Target) -> Option<Fault> {
        let rule = self.rules.values_mut().find(|rule| rule.matches(target))?;
        if let Some(times) = &mut rule.times {
            *times -= 1;
        }
        Some(rule.fault.clone())
    }
}

/// The answer a fault gives instead; `None` for those that carry the request out.
pub(crate) fn instead(fault: &Fault, target: &Target) -> Option<Response<Bytes>> {
    let injected = |code, reason, message: String, retry_after| {
        Some(
            ApiError::Injected {
                code,
                reason,
                message,
                retry_after,
            }
            .response(),
        )
    };
    let plural = target.resource.kind().plural;
    match fault {
        Fault::Broken => injected(
            500,
            "InternalError",
            "Internal error occurred: etcdserver: request timed out".to_owned(),
            None,
        ),
        Fault::Unavailable => injected(
            503,
            "ServiceUnavailable",
            "apiserver is shutting down".to_owned(),
            None,
        ),
        Fault::Forbidden => injected(
            403,
            "Forbidden",
            format!(
                "{plural}{} is forbidden: User \"system:serviceaccount:trino:operator\" cannot {} resource \"{plural}\" in API group \"{}\"",
                target
                    .name
                    .as_ref()
                    .map(|name| format!(" \"{name}\""))
                    .unwrap_or_default(),
                rbac_verb(target.verb),
                target.resource.kind().group,
            ),
            None,
        ),
        Fault::Unauthorized => injected(401, "Unauthorized", "Unauthorized".to_owned(), None),
        Fault::Throttled(seconds) => injected(
            429,
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later".to_owned(),
            Some(*seconds),
        ),
        Fault::Denied(message) => injected(
            403,
            "Forbidden",
            format!("admission webhook \"policy.example.org\" denied the request: {message}"),
            None,
        ),
        Fault::NotServed => Some(ApiError::NotServed.response()),
        Fault::Html => Some(plain(
            StatusCode::BAD_GATEWAY,
            "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n",
            "text/html",
        )),
        Fault::Garbled => Some(plain(
            StatusCode::OK,
            "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{\"resour",
            "application/json",
        )),
        Fault::Hang => Some(unanswered(Response::new(Bytes::new()))),
        Fault::LoseAnswer | Fault::Late(_) => None,
    }
}

/// Marks an answer as one that never arrives.
pub(crate) fn unanswered(mut response: Response<Bytes>) -> Response<Bytes> {
    response.extensions_mut().insert(NoAnswer);
    response
}

/// Marks an answer as one that arrives `delay` after `now`.
pub(crate) fn late(mut response: Response<Bytes>, now: Timestamp, delay: Duration) -> Response<Bytes> {
    let due = now.saturating_add(delay).unwrap_or(Timestamp::MAX);
    response.extensions_mut().insert(AnswerDue(due));
    response
}

fn rbac_verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Watch => "watch",
        Verb::Create => "create",
        Verb::Update => "update",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
    }
}
