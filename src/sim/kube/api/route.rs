//! What a request asks for: paths, verbs and query parameters.

use std::collections::BTreeMap;

use http::{Method, Request, header};

use super::super::resource::Resource;
use super::super::selector::Selector;
use super::form::Form;
use super::status::ApiError;

/// What is done to a resource. Spelled as in the request log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// One object.
    Get,
    /// A collection.
    List,
    /// A stream of changes.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

impl Verb {
    /// As the request log counts it: the HTTP method, or LIST and WATCH.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::List => "LIST",
            Self::Watch => "WATCH",
            Self::Create => "POST",
            Self::Update => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether it can change anything.
    #[must_use]
    pub const fn writes(self) -> bool {
        match self {
            Self::Get | Self::List | Self::Watch => false,
            Self::Create | Self::Update | Self::Patch | Self::Delete => true,
        }
    }
}

/// A part of an object that has its own path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    Eviction,
}

/// A request for a served resource.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub resource: Resource,
    pub verb: Verb,
    /// Empty: cluster-scoped, or all namespaces.
    pub namespace: String,
    pub name: Option<String>,
    pub subresource: Option<Subresource>,
    pub query: Query,
    /// The form in which the client wants objects.
    pub form: Form,
}

impl Target {
    /// `<plural>` or `<plural>/<subresource>`, as the request log counts it.
    pub(crate) fn label(&self) -> String {
        let plural = self.resource.kind().plural;
        match self.subresource {
            None => plural.to_owned(),
            Some(Subresource::Status) => format!("{plural}/status"),
            Some(Subresource::Eviction) => format!("{plural}/eviction"),
        }
    }
}

/// Where a path leads.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// Discovery, version and health: the path's segments.
    Discovery(Vec<String>),
    /// A served resource.
    Resource(Target),
}

/// Decoded query parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        Self(
            query
                .split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key), decode(value))
                })
                .collect(),
        )
    }

    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// Whether the parameter is said at all.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(crate) fn is_on(&self, key: &str) -> bool {
        matches!(self.get(key), "true" | "1")
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.get(key).parse().ok()
    }

    pub(crate) fn selector(&self) -> Result<Selector, ApiError> {
        Selector::parse(self.get("labelSelector"), self.get("fieldSelector")).map_err(ApiError::BadRequest)
    }
}

/// Percent-decoding, with `+` as a space; a broken escape stays as it is.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| tail.get(..2)).flatten();
        let escaped = escaped
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (escaped, *first) {
            (Some(byte), _) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            (None, b'+') => {
                bytes.push(b' ');
                rest = tail;
            }
            (None, byte) => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Finds out what a request asks for.
pub(crate) fn route<B>(request: &Request<B>) -> Result<Route, ApiError> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let segments: Vec<String> = request
        .uri()
        .path()
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(decode)
        .collect();
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match words.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Ok(Route::Discovery(segments)),
    };
    let (namespace, rest) = match rest {
        // `namespaces/<name>` and its subresources are the namespace itself.
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        _ => ("", rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, None, None),
        [plural, name] => (*plural, Some(*name), None),
        [plural, name, "status"] => (*plural, Some(*name), Some(Subresource::Status)),
        ["pods", name, "eviction"] => ("pods", Some(*name), Some(Subresource::Eviction)),
        _ => return Err(ApiError::NotServed),
    };
    let resource = Resource::find(group, version, plural).ok_or(ApiError::NotServed)?;
    let kind = resource.kind();
    if kind.namespaced {
        if namespace.is_empty() && name.is_some() {
            return Err(ApiError::NotServed);
        }
    } else if !namespace.is_empty() {
        return Err(ApiError::NotServed);
    }
    if subresource == Some(Subresource::Status) && !kind.status {
        return Err(ApiError::NotServed);
    }
    let watching = query.is_on("watch");
    let verb = match (request.method(), name.is_some()) {
        (&Method::GET, _) if watching => Verb::Watch,
        (&Method::GET, true) => Verb::Get,
        (&Method::GET, false) => Verb::List,
        (&Method::POST, false) => Verb::Create,
        (&Method::POST, true) if subresource == Some(Subresource::Eviction) => Verb::Create,
        (&Method::PUT, true) => Verb::Update,
        (&Method::PATCH, true) => Verb::Patch,
        (&Method::DELETE, true) if subresource.is_none() => Verb::Delete,
        _ => return Err(ApiError::MethodNotAllowed),
    };
    if verb == Verb::Create && kind.namespaced && namespace.is_empty() {
        return Err(ApiError::MethodNotAllowed);
    }
    Ok(Route::Resource(Target {
        resource,
        verb,
        namespace: namespace.to_owned(),
        name: name.map(str::to_owned),
        subresource,
        query,
        form: Form::of(
            request
                .headers()
                .get(header::ACCEPT)
                .and_then(|accept| accept.to_str().ok())
                .unwrap_or_default(),
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: &str, uri: &str) -> Target {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        match route(&request).unwrap() {
            Route::Resource(target) => target,
            Route::Discovery(path) => panic!("{path:?}"),
        }
    }

    #[test]
    fn paths_lead_to_resources() {
        let pods = target(
            "GET",
            "/api/v1/namespaces/trino/pods?labelSelector=a%3Db%2Cc&limit=5",
        );
        assert_eq!(
            (pods.resource, pods.verb, pods.namespace.as_str()),
            (Resource::Pods, Verb::List, "trino")
        );
        assert_eq!(pods.query.get("labelSelector"), "a=b,c");
        let everywhere = target("GET", "/api/v1/pods?watch=true");
        assert_eq!(
            (everywhere.verb, everywhere.namespace.as_str()),
            (Verb::Watch, "")
        );
        let claim = target("PATCH", "/apis/karpenter.sh/v1/nodeclaims/default-1/status?");
        assert_eq!(
            (claim.label().as_str(), claim.name.as_deref()),
            ("nodeclaims/status", Some("default-1"))
        );
        let namespace = target("GET", "/api/v1/namespaces/trino");
        assert_eq!(
            (namespace.resource, namespace.name.as_deref()),
            (Resource::Namespaces, Some("trino"))
        );
        assert_eq!(
            target("POST", "/api/v1/namespaces/a/pods/p/eviction").label(),
            "pods/eviction"
        );
    }

    #[test]
    fn what_is_not_served_is_refused() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/secrets", ApiError::NotServed),
            ("GET", "/api/v1/pods/p", ApiError::NotServed),
            ("GET", "/api/v1/namespaces/a/nodes/n", ApiError::NotServed),
            (
                "GET",
                "/apis/karpenter.sh/v1beta1/nodeclaims",
                ApiError::NotServed,
            ),
            ("POST", "/api/v1/pods", ApiError::MethodNotAllowed),
            ("DELETE", "/api/v1/nodes", ApiError::MethodNotAllowed),
        ] {
            let request = Request::builder().method(method).uri(uri).body(()).unwrap();
            assert_eq!(route(&request).unwrap_err(), expected, "{method} {uri}");
        }
    }
}
