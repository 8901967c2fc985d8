//! Hints from watches. A hint says "look", never what there is to see: what is true is read elsewhere.
//!
//! A watch that fails begins again, with a pause that doubles and jitters; one whose version expired
//! (410, as a status or inside a 200 stream) starts from now and hints once, at no pool in particular, since
//! something may have been missed; one that goes silent is cut a little after the server should have ended it (A03). A kind
//! that is not served or not permitted is asked again slowly. A stream of hints never ends.

use std::pin::Pin;
use std::time::Duration;

use futures::io::{AsyncBufRead, AsyncBufReadExt};
use futures::stream::{self, BoxStream, StreamExt};
use http::Request;
use http::header::{ACCEPT, HeaderValue};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::answer::Answer;
use super::exchange::{DEADLINE, Exchange, unreachable};
use super::path::{CLAIMS, PODS, POOLS, Resource, escape};
use super::throttle::{Lane, doubled};
use crate::cluster::port::{ClusterError, Hint};
use crate::pool::ids::{Namespace, ObjectName, PoolId};
use crate::pool::names::{LABEL_MANAGED_BY, LABEL_POOL, MANAGED_BY, pool_id};

/// How long the server is asked to keep one watch open.
const SERVER_TIMEOUT: Duration = Duration::from_mins(2);
/// How much later a watch is cut here.
const MARGIN: Duration = Duration::from_secs(10);
/// A watch that lived this long was a good one: the next failure is a first failure.
const GOOD: Duration = Duration::from_secs(10);
/// Pauses after failures.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Only metadata is wanted; a server that cannot do that may send whole objects.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Hints about all TrinoPools, pods of ours and, if wanted, NodeClaims. With a list of namespaces, pools and
/// pods are watched in each.
pub(super) fn hints(
    exchange: &Exchange,
    namespaces: Option<&[Namespace]>,
    claims: bool,
) -> BoxStream<'static, Hint> {
    let ours = format!("{LABEL_MANAGED_BY}={MANAGED_BY}");
    let scopes: Vec<Option<&Namespace>> = match namespaces {
        None => vec![None],
        Some(namespaces) => namespaces.iter().map(Some).collect(),
    };
    let mut watches = Vec::new();
    if claims {
        watches.push(Watch::new(exchange, Of::Claims, None, None));
    }
    for scope in scopes {
        watches.push(Watch::new(exchange, Of::Pools, scope, None));
        watches.push(Watch::new(exchange, Of::Pods, scope, Some(&ours)));
    }
    stream::select_all(watches.into_iter().map(|watch| {
        stream::unfold(
            watch,
            |mut watch| async move { Some((watch.next().await, watch)) },
        )
        .boxed()
    }))
    .boxed()
}

/// What a watch is of.
#[derive(Clone, Copy, Debug)]
enum Of {
    Pools,
    Pods,
    Claims,
}

impl Of {
    const fn resource(self) -> Resource {
        match self {
            Self::Pools => POOLS,
            Self::Pods => PODS,
            Self::Claims => CLAIMS,
        }
    }

    /// The hint that something changed, whatever it was.
    const fn hint(self) -> Hint {
        match self {
            Self::Pools => Hint::Pool(None),
            Self::Pods => Hint::Pod(None),
            Self::Claims => Hint::Claim,
        }
    }

    /// The hint that the object of this metadata changed.
    fn hint_at(self, metadata: &Value) -> Hint {
        match self {
            Self::Pools => Hint::Pool(pool_of(metadata, metadata.get("name"))),
            Self::Pods => {
                let labels = metadata.get("labels");
                Hint::Pod(pool_of(
                    metadata,
                    labels.and_then(|labels| labels.get(LABEL_POOL)),
                ))
            }
            Self::Claims => Hint::Claim,
        }
    }
}

/// The pool of this name in the object's namespace; `None` unless both are said.
fn pool_of(metadata: &Value, name: Option<&Value>) -> Option<PoolId> {
    let namespace = metadata.get("namespace")?.as_str()?;
    let name = name?.as_str()?;
    let said = !namespace.is_empty() && !name.is_empty();
    said.then(|| pool_id(&Namespace::new(namespace), &ObjectName::new(name)))
}

/// One open watch.
struct Open {
    lines: Pin<Box<dyn AsyncBufRead + Send>>,
    since: Instant,
}

/// One watched resource, open or not.
struct Watch {
    exchange: Exchange,
    of: Of,
    path: String,
    selector: String,
    /// From where to go on; none to start from now.
    version: Option<String>,
    /// Something may have happened that no watch will tell any more.
    missed: bool,
    open: Option<Open>,
    failures: u32,
}

/// What one line of a watch means.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// Something changed, at this version; its metadata.
    Changed(Option<String>, Value),
    /// Nothing changed up to this version.
    Bookmark(Option<String>),
    /// The version to go on from is no longer kept.
    Expired,
    /// The server gives up on this watch.
    Failed(String),
}

impl Watch {
    fn new(exchange: &Exchange, of: Of, namespace: Option<&Namespace>, selector: Option<&str>) -> Self {
        Self {
            exchange: exchange.clone(),
            of,
            path: of.resource().all(namespace),
            selector: selector.map_or_else(String::new, |selector| {
                format!("&labelSelector={}", escape(selector))
            }),
            version: None,
            missed: true,
            open: None,
            failures: 0,
        }
    }

    /// The next hint; waits for as long as there is none.
    async fn next(&mut self) -> Hint {
        loop {
            let Some(open) = self.open.as_mut() else {
                if self.begin().await {
                    return self.of.hint();
                }
                continue;
            };
            let cut = open.since + SERVER_TIMEOUT + MARGIN;
            let mut line = Vec::new();
            match timeout_at(cut, open.lines.read_until(b'\n', &mut line)).await {
                Ok(Ok(read)) if read > 0 => match parse(&line) {
                    Line::Changed(version, metadata) => {
                        self.advance(version);
                        return self.of.hint_at(&metadata);
                    }
                    Line::Bookmark(version) => self.advance(version),
                    Line::Expired => {
                        self.start_over();
                        self.close("its version expired");
                    }
                    Line::Failed(why) => self.close(&why),
                },
                Ok(Ok(_)) => self.close("the server ended it"),
                Ok(Err(error)) => self.close(&error.to_string()),
                Err(_) => self.close("it was silent beyond its time"),
            }
        }
    }

    fn advance(&mut self, version: Option<String>) {
        if version.is_some() {
            self.version = version;
        }
    }

    fn start_over(&mut self) {
        self.version = None;
        self.missed = true;
    }

    fn close(&mut self, why: &str) {
        if let Some(open) = self.open.take() {
            // A watch that ends at once is not to be reopened at once, however friendly its end.
            self.failures = if open.since.elapsed() >= GOOD {
                0
            } else {
                self.failures.saturating_add(1)
            };
        }
        tracing::debug!(resource = %self.of.resource().label(), failures = self.failures, why, "watch ended");
    }

    /// Opens the watch after the pause that is due. True when something may have been missed before.
    async fn begin(&mut self) -> bool {
        if self.failures > 0 {
            let pause = doubled(FIRST_PAUSE, self.failures - 1, LONGEST_PAUSE);
            sleep(self.exchange.throttle().jittered(pause)).await;
        }
        match self.connect().await {
            Ok(lines) => {
                self.open = Some(Open {
                    lines,
                    since: Instant::now(),
                });
                std::mem::take(&mut self.missed)
            }
            Err(error) => {
                self.failures = match &error {
                    // A person has to act: asked again at the longest pause.
                    ClusterError::KindNotServed(_) | ClusterError::Forbidden(_) => u32::MAX,
                    ClusterError::Expired => {
                        self.start_over();
                        self.failures.saturating_add(1)
                    }
                    ClusterError::Unreachable(_)
                    | ClusterError::Throttled { .. }
                    | ClusterError::Server(_)
                    | ClusterError::Undecodable(..)
                    | ClusterError::TooMany(_) => self.failures.saturating_add(1),
                };
                tracing::debug!(resource = %self.of.resource().label(), failures = self.failures, %error, "no watch");
                false
            }
        }
    }

    async fn connect(&mut self) -> Result<Pin<Box<dyn AsyncBufRead + Send>>, ClusterError> {
        let version = match &self.version {
            Some(version) => version.clone(),
            None => self.now().await?,
        };
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}{}",
            self.path,
            SERVER_TIMEOUT.as_secs(),
            escape(&version),
            self.selector
        );
        self.version = Some(version);
        let deadline = Instant::now() + DEADLINE;
        self.exchange.throttle().admit(Lane::Ordinary, deadline).await?;
        let request = Request::get(path)
            .header(ACCEPT, HeaderValue::from_static(METADATA_ONLY))
            .body(Vec::new())
            .map_err(|error| ClusterError::Server(error.to_string()))?;
        let opened = timeout(DEADLINE, self.exchange.client().request_stream(request)).await;
        match opened {
            Ok(Ok(lines)) => Ok(Box::pin(lines)),
            Ok(Err(kube::Error::Api(status))) => Err(match status.code {
                410 => ClusterError::Expired,
                429 => self.exchange.throttle().refused(Lane::Ordinary, None),
                401 | 403 => ClusterError::Forbidden(status.message),
                404 => ClusterError::KindNotServed(self.of.resource().label()),
                code => ClusterError::Server(format!("{code}: {}", status.message)),
            }),
            Ok(Err(error)) => Err(unreachable(&error)),
            Err(_) => Err(ClusterError::Unreachable("the watch did not open".to_owned())),
        }
    }

    /// The version of now, from a listing of at most one object.
    async fn now(&mut self) -> Result<String, ClusterError> {
        let path = format!("{}?limit=1{}", self.path, self.selector);
        match self.exchange.get(Lane::Ordinary, &path).await? {
            Answer::Success(list) => list
                .pointer("/metadata/resourceVersion")
                .and_then(Value::as_str)
                .filter(|version| !version.is_empty())
                .map(str::to_owned)
                .ok_or_else(|| {
                    ClusterError::Server(format!(
                        "{}: a listing without a version",
                        self.of.resource().label()
                    ))
                }),
            Answer::Refused(refusal) => Err(refusal.of_list(self.of.resource())),
        }
    }
}

fn parse(line: &[u8]) -> Line {
    let Ok(mut event) = serde_json::from_slice::<Value>(line) else {
        // A line that was cut off, or is no event: the watch begins again where it was.
        return Line::Failed("a line is not an event".to_owned());
    };
    let version = event
        .pointer("/object/metadata/resourceVersion")
        .and_then(Value::as_str)
        .filter(|version| !version.is_empty())
        .map(str::to_owned);
    match event.get("type").and_then(Value::as_str) {
        Some("BOOKMARK") => Line::Bookmark(version),
        Some("ERROR") => {
            let code = event.pointer("/object/code").and_then(Value::as_u64);
            let message = event.pointer("/object/message").and_then(Value::as_str);
            match code {
                Some(410) => Line::Expired,
                Some(_) | None => Line::Failed(message.unwrap_or("an error event").to_owned()),
            }
        }
        // A type that is not known yet is a change too.
        Some(_) => {
            let metadata = event.pointer_mut("/object/metadata").map(Value::take);
            Line::Changed(version, metadata.unwrap_or_default())
        }
        None => Line::Failed("an event without a type".to_owned()),
    }
}
