//! How the simulated gateway says no: a status, at most one machine code, and a sentence. Never JSON
//! (protocol section 1.2).

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};

use crate::gateway::pooled::ERROR_HEADER;

/// A refusal or failure; nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Denied {
    status: StatusCode,
    code: Option<&'static str>,
    text: String,
}

impl Denied {
    /// Without a machine code.
    pub(super) fn plain(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            code: None,
            text: text.into(),
        }
    }

    /// With one.
    pub(super) fn coded(status: StatusCode, code: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            code: Some(code),
            text: text.into(),
        }
    }

    /// 409.
    pub(super) fn conflict(code: &'static str, text: impl Into<String>) -> Self {
        Self::coded(StatusCode::CONFLICT, code, text)
    }

    /// A malformed field.
    pub(super) fn validation(text: impl Into<String>) -> Self {
        Self::coded(StatusCode::BAD_REQUEST, "POOL_VALIDATION", text)
    }

    /// A pool, member, receipt or registration that is not there.
    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self::coded(StatusCode::NOT_FOUND, "POOL_NOT_FOUND", text)
    }

    #[cfg(test)]
    pub(super) const fn code(&self) -> Option<&'static str> {
        self.code
    }
}

impl From<Denied> for Response<Bytes> {
    fn from(denied: Denied) -> Self {
        let mut response = Self::new(Bytes::from(denied.text));
        *response.status_mut() = denied.status;
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        if let Some(code) = denied.code {
            headers.insert(ERROR_HEADER, HeaderValue::from_static(code));
        }
        response
    }
}
