//! Watches: a cursor over the change log that yields one JSON line per event.
//!
//! Expiry is told as the real server tells it: HTTP 200, then an ERROR event with code 410 in the
//! body (A02). A selector sees an object enter as ADDED and leave as DELETED.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::json::later;
use super::super::objects::{Change, Store};
use super::super::resource::Resource;
use super::super::selector::Selector;
use super::route::Target;
use super::status::ApiError;

/// Where one watch stands.
#[derive(Clone, Debug)]
pub struct WatchCursor {
    target: Target,
    selector: Selector,
    /// Everything up to this revision was sent.
    sent: u64,
    /// Objects that exist still have to be sent first.
    from_start: bool,
    bookmarks: bool,
    bookmark_due: Timestamp,
    ends_at: Option<Timestamp>,
    ended: bool,
    /// Streams of an older generation were cut by a restart of the API server.
    pub(crate) generation: u64,
}

impl WatchCursor {
    pub(crate) fn open(
        store: &Store,
        target: Target,
        now: Timestamp,
        bookmark_interval: Duration,
        generation: u64,
    ) -> Result<Self, ApiError> {
        let mut selector = target.query.selector()?;
        if let Some(name) = &target.name {
            selector = Selector::parse("", &format!("metadata.name={name}")).map_err(ApiError::BadRequest)?;
        }
        let said = target.query.get("resourceVersion").to_owned();
        let (sent, from_start) = match said.as_str() {
            "" | "0" => (store.revision(), true),
            said => (
                said.parse().map_err(|_| {
                    ApiError::BadRequest(format!("Invalid value: \"{said}\": invalid resource version"))
                })?,
                false,
            ),
        };
        Ok(Self {
            selector,
            sent,
            from_start,
            bookmarks: target.query.is_on("allowWatchBookmarks"),
            bookmark_due: later(now, bookmark_interval),
            ends_at: target
                .query
                .number("timeoutSeconds")
                .map(|seconds| later(now, Duration::from_secs(seconds))),
            ended: false,
            generation,
            target,
        })
    }

    /// Nothing more will come: timed out, expired or cut.
    #[must_use]
    pub const fn ended(&self) -> bool {
        self.ended
    }

    /// Ends the stream, as a restarting API server does.
    pub(crate) fn cut(&mut self) {
        self.ended = true;
    }

    /// Lines that are due now, each with its line break.
    pub(crate) fn poll(&mut self, store: &Store, now: Timestamp, bookmark_interval: Duration) -> Vec<Bytes> {
        if self.ended {
            return Vec::new();
        }
        let mut lines = Vec::new();
        if self.from_start {
            self.from_start = false;
            self.sent = store.revision();
            for object in super::read::select(store, &self.target, &self.selector, None) {
                lines.push(line("ADDED", &object));
            }
        } else if let Some(changes) = store.since(self.sent) {
            for change in changes {
                if change.resource == self.target.resource
                    && let Some(kind) = self.seen_as(change)
                {
                    lines.push(line(kind, &change.object));
                }
            }
            self.sent = self.sent.max(store.revision());
        } else {
            self.ended = true;
            lines.push(line("ERROR", &expired(self.sent, store.compacted())));
            return lines;
        }
        if self.bookmarks && now >= self.bookmark_due {
            self.bookmark_due = later(now, bookmark_interval);
            lines.push(line("BOOKMARK", &bookmark(self.target.resource, self.sent)));
        }
        if self.ends_at.is_some_and(|end| now >= end) {
            self.ended = true;
        }
        lines
    }

    fn seen_as(&self, change: &Change) -> Option<&'static str> {
        let inside = |object: &Value| {
            (self.target.namespace.is_empty()
                || super::super::json::namespace(object) == self.target.namespace)
                && self.selector.matches(object)
        };
        let was = change.before.as_ref().is_some_and(|before| inside(before));
        let is = !change.deleted && inside(&change.object);
        match (was, is) {
            (false, true) => Some("ADDED"),
            (true, true) => Some("MODIFIED"),
            (true, false) => Some("DELETED"),
            (false, false) => None,
        }
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({"type": kind, "object": object})))
}

fn bookmark(resource: Resource, revision: u64) -> Value {
    let kind = resource.kind();
    json!({
        "kind": kind.kind,
        "apiVersion": kind.api_version(),
        "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null},
    })
}

fn expired(asked: u64, oldest: u64) -> Value {
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("too old resource version: {asked} ({oldest})"),
        "reason": "Expired",
        "code": 410,
    })
}
