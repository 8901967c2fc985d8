//! Values that must never be printed.
//!
//! Owns the only two doors to a secret's text: [`Secret::expose`], for the code that must compare or
//! send it, and the headers of an [`AdminToken`], which are marked sensitive.

use std::fmt;

use http::HeaderValue;

/// A text that formats as a placeholder wherever it is printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Never log it, never put it into an error.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Shortest admin token that the protocol accepts, in UTF-8 bytes (section 1.1).
pub const MIN_TOKEN_BYTES: usize = 32;

/// Why a text is no admin token. Says nothing of the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Fewer than [`MIN_TOKEN_BYTES`].
    #[error("the gateway admin token is shorter than {MIN_TOKEN_BYTES} bytes")]
    TooShort,
    /// Holds a byte that no HTTP header may hold, such as a line break at its end.
    #[error("the gateway admin token holds characters that cannot stand in an HTTP header")]
    NotSendable,
}

/// The credential of the pooled-member protocol, ready to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken {
    bare: HeaderValue,
    bearer: HeaderValue,
}

impl AdminToken {
    /// Checks the token's length and that it can be sent.
    pub fn new(token: &Secret) -> Result<Self, TokenError> {
        let text = token.expose();
        if text.len() < MIN_TOKEN_BYTES {
            return Err(TokenError::TooShort);
        }
        // A header's edges are trimmed on the way: such a token would arrive as another one.
        if text.trim() != text || text.chars().any(|c| !c.is_ascii_graphic() && c != ' ') {
            return Err(TokenError::NotSendable);
        }
        let sendable = |text: &str| {
            let mut value = HeaderValue::from_str(text).map_err(|_| TokenError::NotSendable)?;
            value.set_sensitive(true);
            Ok(value)
        };
        Ok(Self {
            bare: sendable(text)?,
            bearer: sendable(&format!("Bearer {text}"))?,
        })
    }

    /// The bare token, for [`super::TOKEN_HEADER`].
    pub(super) const fn bare(&self) -> &HeaderValue {
        &self.bare
    }

    /// The token as `Authorization`.
    pub(super) const fn bearer(&self) -> &HeaderValue {
        &self.bearer
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken([secret])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_at_least_32_bytes_and_fits_a_header() {
        let token = |text: &str| AdminToken::new(&Secret::new(text));
        assert_eq!(token(&"x".repeat(31)).unwrap_err(), TokenError::TooShort);
        assert!(token(&"x".repeat(32)).is_ok());
        for broken in ["\n", "\u{e9}", "\u{7}", " "] {
            assert_eq!(
                token(&format!("{}{broken}", "x".repeat(40))).unwrap_err(),
                TokenError::NotSendable
            );
        }
    }

    #[test]
    fn a_secret_is_never_printed() {
        let text = "correct-horse-battery-staple-0000";
        let secret = Secret::new(text);
        let token = AdminToken::new(&secret).unwrap();
        for shown in [
            format!("{secret:?}"),
            format!("{token:?}"),
            format!("{token:#?}"),
            format!("{:?}", token.bare()),
            format!("{:?}", token.bearer()),
            TokenError::TooShort.to_string(),
        ] {
            assert!(!shown.contains("horse"), "{shown}");
        }
    }
}
