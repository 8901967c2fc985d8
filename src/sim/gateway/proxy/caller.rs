//! Who sends a statement, and whether a continuation comes from the same (protocol section 7).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use sha2::{Digest, Sha256};

use crate::pool::canonical::hex;
use crate::sim::gateway::denied::Denied;
use crate::sim::gateway::ledger::Owner;

/// Header by which a client says for whom it asks.
const USER: &str = "x-trino-user";
const ORIGINAL_USER: &str = "x-trino-original-user";

/// The sender of new work: it must bring HTTP Basic credentials.
pub(super) fn submitter(headers: &HeaderMap) -> Option<Owner> {
    let credential = headers.get(AUTHORIZATION)?;
    let user = basic_user(credential)?;
    Some(Owner {
        credential: digest(&[credential.as_bytes()]),
        user: users(headers, Some(&user)),
    })
}

/// The answer to a submission without credentials.
pub(super) fn challenge() -> Response<Bytes> {
    let mut response: Response<Bytes> =
        Denied::plain(StatusCode::UNAUTHORIZED, "HTTP Basic credentials are required").into();
    response.headers_mut().insert(
        WWW_AUTHENTICATE,
        HeaderValue::from_static("Basic realm=\"Trino\""),
    );
    response
}

/// Whether a continuation may come from the bearer of these headers: it may omit everything, but what it
/// brings must match.
pub(super) fn may_continue(headers: &HeaderMap, owner: &Owner) -> Result<(), Denied> {
    let names_user = headers.contains_key(USER) || headers.contains_key(ORIGINAL_USER);
    let mismatch = || {
        Denied::coded(
            StatusCode::FORBIDDEN,
            "ROUTING_STATE_OWNER_MISMATCH",
            "it belongs to somebody else",
        )
    };
    match headers.get(AUTHORIZATION) {
        None if names_user => Err(Denied::plain(
            StatusCode::UNAUTHORIZED,
            "a user without credentials",
        )),
        Some(credential) if digest(&[credential.as_bytes()]) != owner.credential => Err(mismatch()),
        Some(credential) if names_user => {
            let user = basic_user(credential);
            if users(headers, user.as_deref()) == owner.user {
                Ok(())
            } else {
                Err(mismatch())
            }
        }
        None | Some(_) => Ok(()),
    }
}

fn users(headers: &HeaderMap, basic: Option<&str>) -> String {
    let named = |name: &str| headers.get(name).map(|value| value.as_bytes().to_vec());
    let user = named(USER).unwrap_or_else(|| basic.unwrap_or_default().as_bytes().to_vec());
    let original = named(ORIGINAL_USER).unwrap_or_else(|| user.clone());
    digest(&[&user, &original])
}

fn basic_user(credential: &HeaderValue) -> Option<String> {
    let encoded = credential.to_str().ok()?.strip_prefix("Basic ")?;
    let decoded = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let (user, _password) = decoded.split_once(':')?;
    (!user.is_empty()).then(|| user.to_owned())
}

fn digest(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}
