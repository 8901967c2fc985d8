//! Backend registrations of the older API, as they are with transaction awareness on: added once, never
//! changed, usually never removed (protocol section 1.4).

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::{Map, Value, json};

use super::BackendRemoval;
use super::denied::Denied;
use super::state::{BackendRow, Phase, State};

/// Every registration, by name.
pub(super) fn all(state: &State) -> Value {
    state.backends.values().map(to_json).collect()
}

/// Adds one. Adding it again unchanged does nothing.
pub(super) fn add(state: &mut State, body: &Map<String, Value>) -> Result<Value, Denied> {
    let text = |name: &str| {
        body.get(name)
            .and_then(Value::as_str)
            .filter(|text| !text.trim().is_empty())
            .map(ToOwned::to_owned)
    };
    let missing = |name: &str| Denied::plain(StatusCode::BAD_REQUEST, format!("{name} is required"));
    let endpoint = |url: String| url.trim_end_matches('/').to_owned();
    let proxy_to = text("proxyTo").map(endpoint).ok_or_else(|| missing("proxyTo"))?;
    let row = BackendRow {
        name: text("name").ok_or_else(|| missing("name"))?,
        external_url: text("externalUrl").map_or_else(|| proxy_to.clone(), endpoint),
        group: text("routingGroup").ok_or_else(|| missing("routingGroup"))?,
        active: body.get("active") == Some(&Value::Bool(true)),
        proxy_to,
    };
    match state.backends.get(&row.name) {
        Some(known) if *known != row => Err(Denied::plain(
            StatusCode::CONFLICT,
            "a registration is never changed",
        )),
        Some(_) | None => {
            let answer = to_json(&row);
            state.backends.insert(row.name.clone(), row);
            Ok(answer)
        }
    }
}

/// Removes one, whose name is the whole body.
pub(super) fn remove(
    state: &mut State,
    request: &Request<Bytes>,
    removal: BackendRemoval,
) -> Result<Value, Denied> {
    let name = String::from_utf8_lossy(request.body()).into_owned();
    let users = state.pools.values().flat_map(|pool| pool.members.values());
    let in_use = users
        .filter(|member| member.backend == name)
        .any(|member| member.phase != Phase::Retired);
    let allowed = match removal {
        BackendRemoval::Refused => false,
        BackendRemoval::OnceRetired => !in_use,
    };
    if !allowed {
        return Err(Denied::plain(StatusCode::CONFLICT, "registrations are kept"));
    }
    state.backends.remove(&name);
    Ok(json!({}))
}

fn to_json(row: &BackendRow) -> Value {
    json!({
        "name": row.name,
        "proxyTo": row.proxy_to,
        "externalUrl": row.external_url,
        "routingGroup": row.group,
        "active": row.active,
    })
}
