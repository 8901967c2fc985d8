//! The API server's refusals, with the codes, reasons and messages of the real one.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::super::resource::Resource;
use super::list_options::Problem;

/// Why the API server refused a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApiError {
    /// The object (named by resource and name) does not exist.
    #[error("{} \"{name}\" not found", qualified(*.resource))]
    NotFound {
        /// Its resource.
        resource: Resource,
        /// Its name.
        name: String,
    },
    /// The path belongs to no served kind; the real server answers in plain text.
    #[error("404 page not found")]
    NotServed,
    /// A create under a taken name.
    #[error("{} \"{name}\" already exists", qualified(*.resource))]
    AlreadyExists {
        /// Its resource.
        resource: Resource,
        /// The taken name.
        name: String,
    },
    /// A precondition does not hold.
    #[error("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(*.resource))]
    Conflict {
        /// Its resource.
        resource: Resource,
        /// Its name.
        name: String,
        /// Which precondition, in the server's words.
        why: String,
    },
    /// A precondition of a delete does not hold; the real server names the kind here, not the resource.
    #[error("Operation cannot be fulfilled on {} \"{name}\": {why}", invalid_kind(*.resource))]
    Precondition {
        /// Its resource.
        resource: Resource,
        /// Its name.
        name: String,
        /// Which precondition, in the server's words.
        why: String,
    },
    /// A replacement that does not say which version it replaces; the resource is named here, not the kind.
    #[error("{} \"{name}\" is invalid: {UNVERSIONED}", qualified(*.resource))]
    Unversioned {
        /// Its resource.
        resource: Resource,
        /// Its name.
        name: String,
    },
    /// The content is not valid.
    #[error("{} \"{name}\" is invalid: {problem}", invalid_kind(*.resource))]
    Invalid {
        /// Its resource.
        resource: Resource,
        /// Its name, possibly empty.
        name: String,
        /// `field: why`.
        problem: String,
    },
    /// The request itself cannot be understood.
    #[error("{0}")]
    BadRequest(String),
    /// The verb does not exist on that path.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// A patch in a format that is not served.
    #[error("the body of the request was in an unknown format - accepted media types include: {0}")]
    UnsupportedMediaType(&'static str),
    /// The options of a list or a watch contradict each other.
    #[error("ListOptions.meta.k8s.io \"\" is invalid: {}", aggregated(.0))]
    ListOptions(Vec<Problem>),
    /// The answer cannot have the form that the client accepts.
    #[error("{0}")]
    NotAcceptable(String),
    /// A continue token outlived its snapshot; `next` lists the rest inconsistently.
    #[error("The provided continue parameter is too old to display a consistent list result. {0}")]
    Expired(&'static str, Option<String>),
    /// An injected refusal.
    #[error("{message}")]
    Injected {
        /// HTTP status.
        code: u16,
        /// Status reason.
        reason: &'static str,
        /// Message.
        message: String,
        /// `Retry-After`, seconds.
        retry_after: Option<u64>,
    },
}

const UNVERSIONED: &str = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";

/// Several problems are told as one list, a single one is not.
fn aggregated(problems: &[Problem]) -> String {
    let told: Vec<String> = problems
        .iter()
        .map(|problem| format!("{}: {}", problem.field, problem.message))
        .collect();
    match told.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

fn qualified(resource: Resource) -> String {
    let kind = resource.kind();
    if kind.group.is_empty() {
        kind.plural.to_owned()
    } else {
        format!("{}.{}", kind.plural, kind.group)
    }
}

fn invalid_kind(resource: Resource) -> String {
    let kind = resource.kind();
    if kind.group.is_empty() {
        kind.kind.to_owned()
    } else {
        format!("{}.{}", kind.kind, kind.group)
    }
}

impl ApiError {
    /// The object changed since it was read.
    pub(crate) fn modified(resource: Resource, name: &str) -> Self {
        Self::Conflict {
            resource,
            name: name.to_owned(),
            why:
                "the object has been modified; please apply your changes to the latest version and try again"
                    .to_owned(),
        }
    }

    /// Invalid content of one object.
    pub(crate) fn invalid(resource: Resource, name: &str, problem: impl Into<String>) -> Self {
        Self::Invalid {
            resource,
            name: name.to_owned(),
            problem: problem.into(),
        }
    }

    /// HTTP status and Status reason.
    pub(crate) fn code(&self) -> (u16, &'static str) {
        match self {
            Self::NotFound { .. } | Self::NotServed => (404, "NotFound"),
            Self::AlreadyExists { .. } => (409, "AlreadyExists"),
            Self::Conflict { .. } | Self::Precondition { .. } => (409, "Conflict"),
            Self::Invalid { .. } | Self::Unversioned { .. } | Self::ListOptions(_) => (422, "Invalid"),
            Self::NotAcceptable(_) => (406, "NotAcceptable"),
            Self::BadRequest(_) => (400, "BadRequest"),
            Self::MethodNotAllowed => (405, "MethodNotAllowed"),
            Self::UnsupportedMediaType(_) => (415, "UnsupportedMediaType"),
            Self::Expired(..) => (410, "Expired"),
            Self::Injected { code, reason, .. } => (*code, reason),
        }
    }

    /// The Status object.
    pub(crate) fn status(&self) -> Value {
        let (code, reason) = self.code();
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.to_string(),
            "reason": reason,
            "code": code,
        });
        match self {
            Self::NotFound { resource, name }
            | Self::AlreadyExists { resource, name }
            | Self::Conflict { resource, name, .. } => {
                status["details"] = details(*resource, name, resource.kind().plural);
            }
            Self::Precondition { resource, name, .. } => {
                status["details"] = details(*resource, name, resource.kind().kind);
            }
            Self::Unversioned { resource, name } => {
                status["details"] = details(*resource, name, resource.kind().plural);
                status["details"]["causes"] = causes(UNVERSIONED);
            }
            Self::Invalid {
                resource,
                name,
                problem,
            } => {
                status["details"] = details(*resource, name, resource.kind().kind);
                status["details"]["causes"] = causes(problem);
            }
            Self::ListOptions(problems) => {
                let cause = |problem: &Problem| json!({"reason": problem.reason, "message": problem.message, "field": problem.field});
                status["details"] = json!({
                    "group": "meta.k8s.io",
                    "kind": "ListOptions",
                    "causes": problems.iter().map(cause).collect::<Vec<Value>>(),
                });
            }
            Self::Expired(_, next) => {
                if let Some(next) = next {
                    status["metadata"] = json!({"continue": next});
                }
            }
            Self::Injected {
                retry_after: Some(seconds),
                ..
            } => {
                status["details"] = json!({"retryAfterSeconds": seconds});
            }
            Self::NotServed
            | Self::NotAcceptable(_)
            | Self::BadRequest(_)
            | Self::MethodNotAllowed
            | Self::UnsupportedMediaType(_)
            | Self::Injected {
                retry_after: None, ..
            } => {}
        }
        status
    }

    /// The whole answer.
    pub(crate) fn response(&self) -> Response<Bytes> {
        let (code, _) = self.code();
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if *self == Self::NotServed {
            return plain(code, "404 page not found\n", "text/plain; charset=utf-8");
        }
        let mut response = answer(code, &self.status());
        if let Self::Injected {
            retry_after: Some(seconds),
            ..
        } = self
        {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
        }
        response
    }
}

fn causes(problem: &str) -> Value {
    let (field, why) = problem.split_once(": ").unwrap_or(("", problem));
    json!([{"reason": "FieldValueInvalid", "message": why, "field": field}])
}

fn details(resource: Resource, name: &str, kind: &str) -> Value {
    let mut details = json!({"name": name, "kind": kind});
    if !resource.kind().group.is_empty() {
        details["group"] = json!(resource.kind().group);
    }
    details
}

/// A JSON answer.
pub(crate) fn answer(code: StatusCode, body: &Value) -> Response<Bytes> {
    plain(code, body.to_string(), "application/json")
}

/// An answer of any content type.
pub(crate) fn plain(code: StatusCode, body: impl Into<Bytes>, content_type: &'static str) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The Status of a completed delete.
pub(crate) fn deleted(resource: Resource, name: &str, uid: &str) -> Value {
    let mut details = details(resource, name, resource.kind().plural);
    details["uid"] = json!(uid);
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}
