//! Watches: a cursor over the change log that yields one JSON line per event.
//!
//! Expiry is told as the real server tells it: HTTP 200, then an ERROR event with code 410 in the
//! body (A02). A selector sees an object enter as ADDED and leave as DELETED, the latter with the content
//! that it had inside. A watch that is about to time out gets a last bookmark two seconds before
//! (apiserver's pkg/storage/cacher/cache_watcher.go).
//!
//! A streaming list (`sendInitialEvents=true`) begins with an ADDED event for each object that there is, then a
//! bookmark annotated with `k8s.io/initial-events-end`; so one request lists and watches.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::KubeOptions;
use super::super::json::{self as j, later};
use super::super::objects::{Change, Store};
use super::super::request_log::Account;
use super::super::selector::Selector;
use super::form::{Form, Partial};
use super::list_options::{self, Begin};
use super::route::{Target, Verb};
use super::status::ApiError;

/// How long before its end a watch gets its last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// The annotation of the bookmark that ends the initial events (apimachinery's pkg/apis/meta/v1/types.go).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Where one watch stands.
#[derive(Clone, Debug)]
pub struct WatchCursor {
    target: Target,
    selector: Selector,
    /// Everything up to this revision was sent.
    sent: u64,
    /// What is still to be sent before changes.
    begin: Begin,
    bookmarks: bool,
    bookmark_due: Timestamp,
    ends_at: Option<Timestamp>,
    /// When the last bookmark is due, while it is still to come.
    last_bookmark: Option<Timestamp>,
    ended: bool,
    /// Under whose count its bytes go; nobody's when it is answered at once.
    pub(crate) account: Option<Account>,
    /// Streams of an older generation were cut by a restart of the API server.
    pub(crate) generation: u64,
}

impl WatchCursor {
    pub(crate) fn open(
        store: &Store,
        target: Target,
        now: Timestamp,
        options: &KubeOptions,
        generation: u64,
    ) -> Result<Self, ApiError> {
        let begin = list_options::of_watch(&target.query, options.streaming_lists)?;
        target.form.fits(Verb::Watch, target.resource.kind().kind)?;
        let mut selector = target.query.selector()?;
        if let Some(name) = &target.name {
            selector = Selector::parse("", &format!("metadata.name={name}")).map_err(ApiError::BadRequest)?;
        }
        let said = target.query.get("resourceVersion").to_owned();
        let sent = match said.as_str() {
            "" | "0" => store.revision(),
            said => said.parse().map_err(|_| {
                ApiError::BadRequest(format!("Invalid value: \"{said}\": invalid resource version"))
            })?,
        };
        let timeout = target.query.number("timeoutSeconds").map(Duration::from_secs);
        Ok(Self {
            selector,
            sent,
            begin,
            bookmarks: target.query.is_on("allowWatchBookmarks"),
            bookmark_due: later(now, options.bookmark_interval),
            ends_at: timeout.map(|timeout| later(now, timeout)),
            last_bookmark: timeout
                .and_then(|timeout| timeout.checked_sub(LAST_BOOKMARK))
                .filter(|wait| !wait.is_zero())
                .map(|wait| later(now, wait)),
            ended: false,
            account: None,
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
        if self.begin != Begin::Changes {
            let begin = std::mem::replace(&mut self.begin, Begin::Changes);
            self.sent = store.revision();
            for object in super::read::select(store, &self.target, &self.selector, None) {
                lines.push(self.line("ADDED", &object));
            }
            if begin == Begin::ObjectsAndMark {
                let mut mark = self.bookmark();
                mark["metadata"]["annotations"] = json!({INITIAL_EVENTS_END: "true"});
                lines.push(self.line("BOOKMARK", &mark));
            }
        } else if let Some(changes) = store.since(self.sent) {
            for change in changes {
                if change.resource == self.target.resource
                    && let Some((kind, object)) = self.seen_as(change)
                {
                    lines.push(self.line(kind, &object));
                }
            }
            self.sent = self.sent.max(store.revision());
        } else {
            self.ended = true;
            lines.push(whole("ERROR", expired(self.sent, store.compacted())));
            return lines;
        }
        let last = self.last_bookmark.is_some_and(|due| now >= due);
        if last {
            self.last_bookmark = None;
        }
        if self.bookmarks && (last || now >= self.bookmark_due) {
            self.bookmark_due = later(now, bookmark_interval);
            lines.push(self.line("BOOKMARK", &self.bookmark()));
        }
        if self.ends_at.is_some_and(|end| now >= end) {
            self.ended = true;
        }
        lines
    }

    /// One event about an object, in the form that was asked for.
    fn line(&self, kind: &str, object: &Value) -> Bytes {
        match self.target.form {
            Form::Metadata => whole(kind, Partial::of(object)),
            Form::Whole | Form::MetadataList => whole(kind, object),
        }
    }

    fn bookmark(&self) -> Value {
        let kind = self.target.resource.kind();
        json!({
            "kind": kind.kind,
            "apiVersion": kind.api_version(),
            "metadata": {"resourceVersion": self.sent.to_string()},
        })
    }

    fn seen_as<'a>(&self, change: &'a Change) -> Option<(&'static str, Cow<'a, Value>)> {
        let inside = |object: &Value| {
            (self.target.namespace.is_empty() || j::namespace(object) == self.target.namespace)
                && self.selector.matches(object)
        };
        let was = change.before.as_ref().filter(|before| inside(before));
        let is = !change.deleted && inside(&change.object);
        match (was, is) {
            (None, true) => Some(("ADDED", Cow::Borrowed(&*change.object))),
            (Some(_), true) => Some(("MODIFIED", Cow::Borrowed(&*change.object))),
            (Some(before), false) => {
                let mut last = Value::clone(before);
                let version = change.object["metadata"]["resourceVersion"].clone();
                j::set(&mut last, &["metadata", "resourceVersion"], version);
                Some(("DELETED", Cow::Owned(last)))
            }
            (None, false) => None,
        }
    }
}

#[derive(Serialize)]
struct Event<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    object: T,
}

fn whole(kind: &str, object: impl Serialize) -> Bytes {
    // Values with text keys always serialize.
    let mut line = serde_json::to_vec(&Event { kind, object }).unwrap_or_default();
    line.push(b'\n');
    Bytes::from(line)
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
