//! The HTTP adapter of the coordinator port, over any [`Transport`].
//!
//! Owns the encoding of probe requests and the strict reading of their answers. It follows no redirect,
//! sends its credential to no other origin, and cancels nothing but its own probe statement.

use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde_json::Value;

use super::address::{CoordinatorAddress, Endpoint};
use super::port::{ClusterNode, Coordinator, CoordinatorInfo, CoordinatorTarget, ProbeError};
use super::statement::{Following, MAX_PAGES, MAX_ROWS, STATEMENT_PATH, read_page};
use crate::pool::ids::{CoordinatorId, TrinoNodeId};
use crate::transport::{Transport, TransportError};

/// Longest time one call of the port takes, a statement's pages included.
pub const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// Who probe statements are run as unless told otherwise.
pub const PROBE_USER: &str = "trino-pool-operator";

const NODES: &str = "SELECT node_id, coordinator, state FROM system.runtime.nodes";
const CATALOGS: &str = "SHOW CATALOGS";

/// How probes present themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOptions {
    /// How coordinators are reached.
    pub address: CoordinatorAddress,
    /// `X-Trino-User` of probe statements; with a credential, its user instead.
    pub user: String,
    /// Basic credential for clusters that require one.
    pub credential: Option<Credential>,
    /// Send `X-Forwarded-Proto: https`: for clusters that accept a credential only over HTTPS ended in
    /// front of them. A cluster without `http-server.process-forwarded` answers 406 to it.
    pub forwarded_https: bool,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            address: CoordinatorAddress::Service,
            user: PROBE_USER.to_owned(),
            credential: None,
            forwarded_https: false,
        }
    }
}

/// A Basic credential. Its `Debug` never shows the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// User name, without a colon.
    pub user: String,
    /// Password.
    pub password: String,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Coordinators over HTTP.
#[derive(Clone, Debug)]
pub struct TrinoHttp<T> {
    transport: T,
    options: ProbeOptions,
}

impl<T: Transport> TrinoHttp<T> {
    /// Probes over `transport`, whose own deadline holds for each exchange.
    #[must_use]
    pub const fn new(transport: T, options: ProbeOptions) -> Self {
        Self { transport, options }
    }

    fn request(
        &self,
        endpoint: &Endpoint,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Bytes>, ProbeError> {
        let unusable = |error: &dyn std::fmt::Display| ProbeError::NoAddress(format!("{path}: {error}"));
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", endpoint.dial))
            .header(http::header::HOST, &endpoint.host)
            .header(http::header::ACCEPT, "application/json")
            .body(body)
            .map_err(|error| unusable(&error))?;
        let headers = request.headers_mut();
        let user = self
            .options
            .credential
            .as_ref()
            .map_or(&self.options.user, |c| &c.user);
        let user = HeaderValue::from_str(user).map_err(|error| unusable(&error))?;
        headers.insert("x-trino-user", user);
        headers.insert("x-trino-source", HeaderValue::from_static("trino-pool-operator"));
        if let Some(credential) = &self.options.credential {
            let mut value = HeaderValue::from_str(&basic(credential)).map_err(|error| unusable(&error))?;
            value.set_sensitive(true);
            headers.insert(http::header::AUTHORIZATION, value);
        }
        if self.options.forwarded_https {
            headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
            headers.insert("x-forwarded-port", HeaderValue::from_static("443"));
        }
        Ok(request)
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ProbeError> {
        self.transport
            .exchange(request)
            .await
            .map_err(|error| match error {
                TransportError::NotConnected(_) | TransportError::Broken(_) | TransportError::TimedOut(_) => {
                    ProbeError::Unreachable(error.to_string())
                }
                TransportError::TooLong(_) => ProbeError::Unreadable(error.to_string()),
            })
    }

    async fn page(&self, request: Request<Bytes>) -> Result<(Vec<Vec<Value>>, Following), ProbeError> {
        let answer = self.exchange(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(ProbeError::Status(answer.status().as_u16()));
        }
        read_page(answer.body())
    }

    /// Runs one probe statement to its last page.
    async fn rows(
        &self,
        target: &CoordinatorTarget,
        sql: &'static str,
    ) -> Result<Vec<Vec<Value>>, ProbeError> {
        let endpoint = self.options.address.endpoint(target)?;
        let submission = self.request(
            &endpoint,
            Method::POST,
            STATEMENT_PATH,
            Bytes::from_static(sql.as_bytes()),
        )?;
        let (mut rows, mut following) = self.page(submission).await?;
        for _ in 1..MAX_PAGES {
            let Following::Next(path) = &following else {
                return Ok(rows);
            };
            if rows.len() > MAX_ROWS {
                break;
            }
            let (more, then) = self
                .page(self.request(&endpoint, Method::GET, path, Bytes::new())?)
                .await?;
            rows.extend(more);
            following = then;
        }
        let Following::Next(path) = following else {
            return Ok(rows);
        };
        // Our own statement and nobody else's: the coordinator is spared a query nobody reads.
        let given_up =
            ProbeError::Statement(format!("{sql}: more than {MAX_PAGES} pages or {MAX_ROWS} rows"));
        match self
            .exchange(self.request(&endpoint, Method::DELETE, &path, Bytes::new())?)
            .await
        {
            Ok(_) => Err(given_up),
            Err(error) => Err(ProbeError::Statement(format!(
                "{given_up}; not cancelled: {error}"
            ))),
        }
    }
}

#[async_trait]
impl<T: Transport> Coordinator for TrinoHttp<T> {
    fn url(&self, target: &CoordinatorTarget) -> Result<String, ProbeError> {
        self.options.address.member_url(target)
    }

    async fn info(&self, target: &CoordinatorTarget) -> Result<CoordinatorInfo, ProbeError> {
        within_deadline(async {
            let endpoint = self.options.address.endpoint(target)?;
            let answer = self
                .exchange(self.request(&endpoint, Method::GET, "/v1/info", Bytes::new())?)
                .await?;
            if answer.status() != StatusCode::OK {
                return Err(ProbeError::Status(answer.status().as_u16()));
            }
            read_info(answer.body())
        })
        .await
    }

    async fn nodes(&self, target: &CoordinatorTarget) -> Result<Vec<ClusterNode>, ProbeError> {
        let rows = within_deadline(self.rows(target, NODES)).await?;
        rows.iter().map(|row| read_node(row)).collect()
    }

    async fn catalogs(&self, target: &CoordinatorTarget) -> Result<Vec<String>, ProbeError> {
        let rows = within_deadline(self.rows(target, CATALOGS)).await?;
        rows.iter()
            .map(|row| match row.as_slice() {
                [Value::String(name)] => Ok(name.clone()),
                _ => Err(ProbeError::Unreadable(format!(
                    "SHOW CATALOGS gave the row {row:?}"
                ))),
            })
            .collect()
    }
}

async fn within_deadline<R>(call: impl Future<Output = Result<R, ProbeError>>) -> Result<R, ProbeError> {
    tokio::time::timeout(CALL_DEADLINE, call)
        .await
        .unwrap_or_else(|_| {
            Err(ProbeError::Unreachable(format!(
                "no answer within {CALL_DEADLINE:?}"
            )))
        })
}

/// Reads `GET /v1/info` strictly: only the booleans themselves make it ready (fault T04).
pub fn read_info(body: &[u8]) -> Result<CoordinatorInfo, ProbeError> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| ProbeError::Unreadable(format!("/v1/info is not JSON: {error}")))?;
    let Value::Object(info) = value else {
        return Err(ProbeError::Unreadable("/v1/info is not an object".to_owned()));
    };
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    Ok(CoordinatorInfo {
        ready: info.get("starting") == Some(&Value::Bool(false))
            && info.get("coordinator") == Some(&Value::Bool(true)),
        node: text(info.get("nodeId")).map(TrinoNodeId::new),
        coordinator: text(info.get("coordinatorId")).map(CoordinatorId::new),
        version: text(info.get("nodeVersion").and_then(|version| version.get("version"))),
        environment: text(info.get("environment")),
    })
}

fn read_node(row: &[Value]) -> Result<ClusterNode, ProbeError> {
    match row {
        [Value::String(id), Value::Bool(coordinator), Value::String(state)] => Ok(ClusterNode {
            id: TrinoNodeId::new(id),
            coordinator: *coordinator,
            active: state == "active",
        }),
        _ => Err(ProbeError::Unreadable(format!(
            "system.runtime.nodes gave the row {row:?}"
        ))),
    }
}

/// RFC 7617.
fn basic(credential: &Credential) -> String {
    let plain = format!("{}:{}", credential.user, credential.password);
    format!("Basic {}", BASE64.encode(plain))
}

#[cfg(test)]
mod tests;
