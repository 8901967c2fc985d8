//! Backend registrations, in the gateway's older API: a member's URL is taken from one.
//!
//! That API knows no steps and no error codes. Never changes or activates a registration that exists.

use http::StatusCode;
use serde_json::Value;

use super::PooledGateway;
use super::answer::{Answer, Verdict, shape};
use crate::gateway::model::{Backend, RefusalCode};
use crate::gateway::port::{GatewayFault, Outcome, Refusal};
use crate::pool::ids::BackendName;
use crate::transport::Transport;

/// Makes sure exactly this inactive registration stands.
pub(super) async fn ensure<T: Transport>(gateway: &PooledGateway<T>, wanted: &Backend) -> Outcome<()> {
    let asked = async {
        let listed = gateway.ask(gateway.encoder.backends()?).await?;
        let registered = listed.read(|body| find(body, &wanted.name))?;
        match registered.flatten() {
            Some(found) => Ok(compare(&found, wanted)),
            None => Ok(added(&gateway.ask(gateway.encoder.add_backend(wanted)?).await?)),
        }
    };
    asked.await.unwrap_or_else(Outcome::Unknown)
}

/// Asks for the removal of a registration.
pub(super) async fn remove<T: Transport>(gateway: &PooledGateway<T>, name: &BackendName) -> Outcome<()> {
    let asked = async {
        let request = gateway.encoder.delete_backend(name)?;
        let answer = gateway.ask(request).await?;
        Ok(legacy_outcome(&answer, || RefusalCode::Other("HTTP_409".into())))
    };
    asked.await.unwrap_or_else(Outcome::Unknown)
}

/// The registration of this name, from a list whose other entries need not be readable.
fn find(body: &[u8], name: &BackendName) -> Result<Option<Backend>, GatewayFault> {
    let entries: Vec<Value> = serde_json::from_slice(body)
        .map_err(|error| GatewayFault::Protocol(format!("the backend list cannot be read: {error}")))?;
    entries
        .into_iter()
        .find(|entry| entry.get("name").and_then(Value::as_str) == Some(name.as_str()))
        .map(shape)
        .transpose()
}

fn compare(found: &Backend, wanted: &Backend) -> Outcome<()> {
    let same_url = |a: &str, b: &str| a.trim_end_matches('/') == b.trim_end_matches('/');
    let same = same_url(&found.proxy_to, &wanted.proxy_to)
        && found.routing_group == wanted.routing_group
        && found.active == wanted.active;
    if same { Outcome::Replayed(()) } else { conflict() }
}

fn added(answer: &Answer) -> Outcome<()> {
    legacy_outcome(answer, || RefusalCode::IdentityConflict)
}

/// The older API refuses with a bare 400 or 409.
fn legacy_outcome(answer: &Answer, conflict: impl FnOnce() -> RefusalCode) -> Outcome<()> {
    match answer.verdict() {
        Verdict::Accepted => Outcome::Applied(()),
        Verdict::Refused(code) => Outcome::Refused(Refusal { code }),
        Verdict::Fault(_) if answer.status() == StatusCode::CONFLICT => {
            Outcome::Refused(Refusal { code: conflict() })
        }
        Verdict::Fault(_) if answer.status() == StatusCode::BAD_REQUEST => Outcome::Refused(Refusal {
            code: RefusalCode::Validation,
        }),
        Verdict::Fault(fault) => Outcome::Unknown(fault),
    }
}

const fn conflict() -> Outcome<()> {
    Outcome::Refused(Refusal {
        code: RefusalCode::IdentityConflict,
    })
}
