//! The transport of production: HTTP/1.1 over TCP, with TLS where the URL says `https`.
//!
//! Owns the connections, the deadlines and the cap on an answer's length. Never follows a redirect (a
//! credential must not travel to where the far end points), never reads proxy settings from the
//! environment, never sends a request a second time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use http::header::HOST;
use http::uri::{Authority, Scheme};

use super::{Transport, TransportError};

/// Where TLS finds the authorities it trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The machine's own store.
    #[default]
    System,
    /// The machine's own store and the certificates of this PEM bundle.
    SystemAnd(Vec<u8>),
    /// Nobody: `https` fails. For clients of plain HTTP only, which must start on machines without
    /// any certificate store.
    Nobody,
}

/// How a [`NetworkTransport`] behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkOptions {
    /// From the first byte sent to the last byte read.
    pub total: Duration,
    /// To establish a connection; part of `total`.
    pub connect: Duration,
    /// Longest answer body that is read, in bytes.
    pub max_answer: usize,
    /// Connect here whatever the URL says. The URL's own authority stays in the Host header.
    pub connect_to: Option<ConnectTo>,
    /// Trusted authorities.
    pub trust: Trust,
}

impl Default for NetworkOptions {
    /// 10 s in all, 5 s to connect, 1 MiB (protocol section 1.3).
    fn default() -> Self {
        Self {
            total: Duration::from_secs(10),
            connect: Duration::from_secs(5),
            max_answer: 1024 * 1024,
            connect_to: None,
            trust: Trust::System,
        }
    }
}

/// The one `HOST:PORT` that answers for every coordinator, like a proxy that routes by Host header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectTo(Authority);

impl FromStr for ConnectTo {
    type Err = NetworkSetupError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || NetworkSetupError::ConnectTo(text.to_owned());
        let authority: Authority = text.parse().map_err(|_| refused())?;
        if authority.host().is_empty() || authority.port_u16().is_none() || text.contains('@') {
            return Err(refused());
        }
        Ok(Self(authority))
    }
}

impl fmt::Display for ConnectTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why no transport can be made of the options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkSetupError {
    /// Not `HOST:PORT`.
    #[error("{0:?} is not HOST:PORT")]
    ConnectTo(String),
    /// The PEM bundle holds no readable certificate.
    #[error("the certificate bundle cannot be read: {0}")]
    Certificates(String),
    /// The TLS library refused.
    #[error("no HTTP client: {0}")]
    Client(String),
}

/// Sends over the network.
#[derive(Clone, Debug)]
pub struct NetworkTransport {
    client: reqwest::Client,
    options: NetworkOptions,
}

impl NetworkTransport {
    /// Prepares a client; opens no connection.
    pub fn new(options: NetworkOptions) -> Result<Self, NetworkSetupError> {
        // The process may have installed a provider already (kube does): then that one is used.
        let _already_installed = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .timeout(options.total)
            .connect_timeout(options.connect)
            .http1_only();
        let builder = match &options.trust {
            Trust::System => builder,
            Trust::SystemAnd(bundle) => {
                let certificates = reqwest::Certificate::from_pem_bundle(bundle)
                    .map_err(|error| NetworkSetupError::Certificates(causes(&error)))?;
                if certificates.is_empty() {
                    return Err(NetworkSetupError::Certificates("it is empty".into()));
                }
                builder.tls_certs_merge(certificates)
            }
            Trust::Nobody => builder.tls_certs_only([]),
        };
        let client = builder
            .build()
            .map_err(|error| NetworkSetupError::Client(causes(&error)))?;
        Ok(Self { client, options })
    }

    fn fault(&self, error: reqwest::Error) -> TransportError {
        // The URL may carry names that are nobody's business in a log line of another layer.
        let error = error.without_url();
        if error.is_connect() {
            TransportError::NotConnected(causes(&error))
        } else if error.is_timeout() {
            TransportError::TimedOut(self.options.total)
        } else {
            TransportError::Broken(causes(&error))
        }
    }
}

#[async_trait]
impl Transport for NetworkTransport {
    async fn exchange(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, TransportError> {
        let request = match &self.options.connect_to {
            None => request,
            Some(target) => redirected(request, target)?,
        };
        let request = reqwest::Request::try_from(request)
            .map_err(|error| TransportError::NotConnected(causes(&error.without_url())))?;
        let mut response = self
            .client
            .execute(request)
            .await
            .map_err(|error| self.fault(error))?;
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.fault(error))? {
            if body.len() + chunk.len() > self.options.max_answer {
                return Err(TransportError::TooLong(self.options.max_answer));
            }
            body.extend_from_slice(&chunk);
        }
        let mut answer = http::Response::new(body.freeze());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = std::mem::take(response.headers_mut());
        Ok(answer)
    }
}

/// The same request to another address. Over TLS the far end would have to prove another name than the
/// one that is meant, so only plain HTTP can be sent elsewhere.
fn redirected(
    mut request: http::Request<Bytes>,
    target: &ConnectTo,
) -> Result<http::Request<Bytes>, TransportError> {
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    if parts.scheme.as_ref() != Some(&Scheme::HTTP) {
        return Err(TransportError::NotConnected(format!(
            "only http URLs can be sent to {target}"
        )));
    }
    if let Some(meant) = parts.authority.replace(target.0.clone()) {
        let host = HeaderValue::from_str(meant.as_str())
            .map_err(|_| TransportError::NotConnected("the URL's host is no header value".into()))?;
        request.headers_mut().insert(HOST, host);
    }
    *request.uri_mut() = http::Uri::from_parts(parts)
        .map_err(|error| TransportError::NotConnected(format!("no URL towards {target}: {error}")))?;
    Ok(request)
}

/// An error and what caused it: the outer text alone ("error sending request") says nothing.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests;
