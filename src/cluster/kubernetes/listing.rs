//! Whole listings, page by page, decoded item by item; all of it or an error.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::answer::Answer;
use super::exchange::Exchange;
use super::path::{Resource, escape};
use super::throttle::Lane;
use crate::cluster::decode::{DecodeError, extend};
use crate::cluster::facts::Listing;
use crate::cluster::port::ClusterError;
use crate::pool::ids::{Namespace, ResourceVersion};

/// Objects a page. More would make one page slow, fewer would make many.
const PAGE: usize = 500;
/// How often a listing that expires half way is begun again.
const RESTARTS: u32 = 3;
/// The most objects that one listing may have; ten thousand nodes are well below.
const CAP: usize = 50_000;
/// The most pages: a server may answer with empty pages, but not for ever.
const PAGES: usize = 2 * CAP / PAGE;
/// Beside the deadline of each page: all pages and restarts together.
const DEADLINE: Duration = Duration::from_mins(1);

/// A complete listing and the version at which it was taken.
pub(super) struct Complete<T> {
    pub(super) listing: Listing<T>,
    pub(super) version: ResourceVersion,
}

/// Lists a resource completely. `resourceVersion` is left unset: with it, servers ignore the limit (A01).
pub(super) async fn list<T>(
    exchange: &Exchange,
    resource: Resource,
    namespace: Option<&Namespace>,
    selector: Option<&str>,
    decode: impl Fn(&Value) -> Result<T, DecodeError>,
) -> Result<Complete<T>, ClusterError> {
    let base = match selector {
        None => format!("{}?limit={PAGE}", resource.all(namespace)),
        Some(selector) => format!(
            "{}?limit={PAGE}&labelSelector={}",
            resource.all(namespace),
            escape(selector)
        ),
    };
    let whole = async {
        for _ in 0..=RESTARTS {
            if let Some(complete) = attempt(exchange, resource, &base, &decode).await? {
                return Ok(complete);
            }
            // Whatever was read is dropped: the rest of an expired listing is of another moment, and
            // would let an object that moved between pages look absent.
        }
        Err(ClusterError::Expired)
    };
    timeout(DEADLINE, whole).await.map_err(|_| {
        ClusterError::Unreachable(format!(
            "listing {} took over {} s",
            resource.label(),
            DEADLINE.as_secs()
        ))
    })?
}

/// One run from the first page to the last; none when the server's snapshot expired on the way.
async fn attempt<T>(
    exchange: &Exchange,
    resource: Resource,
    base: &str,
    decode: &impl Fn(&Value) -> Result<T, DecodeError>,
) -> Result<Option<Complete<T>>, ClusterError> {
    let mut listing = Listing::default();
    let mut version = None;
    let mut token = String::new();
    for _ in 0..PAGES {
        let path = if token.is_empty() {
            base.to_owned()
        } else {
            format!("{base}&continue={}", escape(&token))
        };
        let page = match exchange.get(Lane::Ordinary, &path).await? {
            Answer::Success(page) => page,
            Answer::Refused(refusal) if refusal.code == 410 => return Ok(None),
            Answer::Refused(refusal) => return Err(refusal.of_list(resource)),
        };
        let malformed = |what: &str| ClusterError::Server(format!("{}: {what}", resource.label()));
        let items = match page.get("items") {
            Some(Value::Array(items)) => items.as_slice(),
            Some(Value::Null) => &[],
            Some(_) | None => return Err(malformed("the answer is not a list")),
        };
        if listing.items.len() + listing.undecodable.len() + items.len() > CAP {
            return Err(ClusterError::TooMany(CAP));
        }
        extend(&mut listing, items, decode);
        let metadata = |key: &str| {
            page.get("metadata")
                .and_then(|metadata| metadata.get(key))
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let version = version.get_or_insert_with(|| ResourceVersion::from(metadata("resourceVersion")));
        let next = metadata("continue");
        if next.is_empty() {
            return Ok(Some(Complete {
                listing,
                version: version.clone(),
            }));
        }
        if next == token {
            return Err(malformed("the continue token does not advance"));
        }
        next.clone_into(&mut token);
    }
    Err(ClusterError::Server(format!(
        "{}: more than {PAGES} pages",
        resource.label()
    )))
}
