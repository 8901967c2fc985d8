//! The address of a gateway: an `https` origin without path, query or user information.
//!
//! Plain `http` is accepted only when asked for, and only towards this machine: the admin token travels
//! in every request.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;

/// Whether the token may be sent in clear text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Never.
    #[default]
    Refused,
    /// To a loopback address or `localhost`.
    LoopbackOnly,
}

/// Why a text is no gateway origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// Not an absolute URL.
    #[error("the gateway address is not an absolute URL")]
    NotAbsolute,
    /// Neither `https`, nor permitted `http`.
    #[error("the gateway address must be https (http only to this machine, and only when allowed)")]
    NotSecure,
    /// Carries user information, a path, a query or a fragment.
    #[error("the gateway address must be an origin: scheme, host and port, nothing else")]
    NotAnOrigin,
}

/// A validated origin, such as `https://gateway.example:8443`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// Validates `text`. A single trailing slash is accepted.
    pub fn parse(text: &str, plain: PlainHttp) -> Result<Self, OriginError> {
        if text.contains('#') {
            return Err(OriginError::NotAnOrigin);
        }
        let uri: Uri = text.parse().map_err(|_| OriginError::NotAbsolute)?;
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(OriginError::NotAbsolute);
        };
        let allowed = *scheme == Scheme::HTTPS
            || (*scheme == Scheme::HTTP && plain == PlainHttp::LoopbackOnly && is_loopback(authority.host()));
        if !allowed {
            return Err(OriginError::NotSecure);
        }
        let bare = authority.as_str().contains('@') || uri.path() != "/" || uri.query().is_some();
        if bare {
            return Err(OriginError::NotAnOrigin);
        }
        Ok(Self(format!("{scheme}://{authority}")))
    }

    /// The origin as text, without a trailing slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_https_and_nothing_but_an_origin() {
        let parse = |text| Origin::parse(text, PlainHttp::Refused);
        assert_eq!(parse("https://gw:8443/").unwrap().as_str(), "https://gw:8443");
        for (text, error) in [
            ("http://127.0.0.1:80", OriginError::NotSecure),
            ("ftp://gw", OriginError::NotSecure),
            ("gw:443", OriginError::NotAbsolute),
            ("/x", OriginError::NotAbsolute),
            ("", OriginError::NotAbsolute),
            ("https://u:p@gw", OriginError::NotAnOrigin),
            ("https://gw/path", OriginError::NotAnOrigin),
            ("https://gw/?q=1", OriginError::NotAnOrigin),
            ("https://gw#f", OriginError::NotAnOrigin),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn clear_text_stays_on_this_machine() {
        let parse = |text| Origin::parse(text, PlainHttp::LoopbackOnly);
        for text in ["http://127.0.0.1:8080", "http://localhost:1", "http://[::1]:1"] {
            assert_eq!(parse(text).unwrap().as_str(), text);
        }
        for text in [
            "http://10.0.0.1",
            "http://localhost.example",
            "http://127.0.0.1.example",
        ] {
            assert_eq!(parse(text).unwrap_err(), OriginError::NotSecure, "{text}");
        }
    }
}
