//! Encodes calls of the port as HTTP requests. Pure.
//!
//! A body is the action's own fields plus the envelope `operationId`, `stepId`, `controllerEpoch`,
//! `ownerIdentity` (protocol section 2.1). The gateway hashes it without the last two, so a journaled
//! request encodes to the same intent under every later authority. No field may be added here that is
//! not part of the journaled request: it would turn replays into POOL_INTENT_CHANGED.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request};
use serde_json::{Map, Value, json};

use super::TOKEN_HEADER;
use super::origin::Origin;
use super::secret::AdminToken;
use crate::gateway::model::{
    Backend, Controller, LossEvidence, MemberAction, MemberRequest, PoolSettings, Registration,
};
use crate::gateway::port::GatewayFault;
use crate::pool::ids::{BackendName, InstanceId, RoutingGroup, StepId};

/// A request, or why the call cannot be expressed as one. Nothing was sent then.
type Encoded = Result<Request<Bytes>, GatewayFault>;

/// Operation of every configuration of a pool; its steps are named by the caller.
const CONFIGURE_OPERATION: &str = "pool-config";

/// Knows where the gateway is and who we are.
#[derive(Debug)]
pub(super) struct Encoder {
    origin: Origin,
    token: AdminToken,
}

impl Encoder {
    pub(super) const fn new(origin: Origin, token: AdminToken) -> Self {
        Self { origin, token }
    }

    pub(super) fn pool(&self, pool: &RoutingGroup) -> Encoded {
        self.request(Method::GET, &pool_path(pool)?, None)
    }

    pub(super) fn members(&self, pool: &RoutingGroup) -> Encoded {
        self.request(Method::GET, &format!("{}/members", pool_path(pool)?), None)
    }

    pub(super) fn member(&self, pool: &RoutingGroup, instance: &InstanceId) -> Encoded {
        self.request(Method::GET, &member_path(pool, instance)?, None)
    }

    pub(super) fn obligations(&self, pool: &RoutingGroup, instance: &InstanceId) -> Encoded {
        let path = format!("{}/obligations", member_path(pool, instance)?);
        self.request(Method::GET, &path, None)
    }

    pub(super) fn configure(&self, to: &Controller, step: &StepId, settings: &PoolSettings) -> Encoded {
        let mut body = Map::new();
        body.insert("apiMode".into(), json!("POOLED"));
        body.insert("minServing".into(), json!(settings.min_serving));
        body.insert("desiredMembers".into(), json!(settings.desired_members));
        body.insert("maxSurge".into(), json!(settings.max_surge));
        body.insert("maxRepair".into(), json!(settings.max_repair));
        body.insert("desiredRevision".into(), json!(settings.desired_revision));
        body.insert("tenantAdmissionEnabled".into(), json!(false));
        envelope(&mut body, CONFIGURE_OPERATION, step.as_str(), to);
        self.request(Method::PUT, &pool_path(&to.pool)?, Some(body.into()))
    }

    pub(super) fn action(&self, to: &Controller, request: &MemberRequest) -> Encoded {
        let mut body = fields(&request.instance, &request.action);
        envelope(&mut body, request.operation.as_str(), request.step.as_str(), to);
        let path = match &request.action {
            MemberAction::Register(_) => format!("{}/members", pool_path(&to.pool)?),
            action @ (MemberAction::Admit { .. }
            | MemberAction::Drain { .. }
            | MemberAction::Seal { .. }
            | MemberAction::Suspect { .. }
            | MemberAction::Lost { .. }
            | MemberAction::Retire { .. }
            | MemberAction::Retired { .. }) => {
                format!("{}/{}", member_path(&to.pool, &request.instance)?, action.label())
            }
        };
        self.request(Method::POST, &path, Some(body.into()))
    }

    pub(super) fn backends(&self) -> Encoded {
        self.request(Method::GET, "/gateway/backend/all", None)
    }

    pub(super) fn add_backend(&self, backend: &Backend) -> Encoded {
        let body = json!({
            "name": backend.name,
            "proxyTo": backend.proxy_to,
            "externalUrl": backend.external_url.as_ref().unwrap_or(&backend.proxy_to),
            "routingGroup": backend.routing_group,
            "active": backend.active,
        });
        self.request(Method::POST, "/gateway/backend/modify/add", Some(body))
    }

    pub(super) fn delete_backend(&self, name: &BackendName) -> Encoded {
        let mut request = self.request(Method::POST, "/gateway/backend/modify/delete", None)?;
        request
            .headers_mut()
            .insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
        *request.body_mut() = Bytes::copy_from_slice(name.as_str().as_bytes());
        Ok(request)
    }

    fn request(&self, method: Method, path: &str, body: Option<Value>) -> Encoded {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.origin))
            .header(ACCEPT, "application/json")
            .header(AUTHORIZATION, self.token.bearer())
            .header(TOKEN_HEADER, self.token.bare());
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        request
            .body(body)
            .map_err(|error| GatewayFault::Protocol(format!("{path} cannot be asked for: {error}")))
    }
}

/// Adds the idempotency envelope.
fn envelope(body: &mut Map<String, Value>, operation: &str, step: &str, controller: &Controller) {
    body.insert("operationId".into(), json!(operation));
    body.insert("stepId".into(), json!(step));
    body.insert("controllerEpoch".into(), json!(controller.epoch));
    body.insert("ownerIdentity".into(), json!(controller.owner));
}

/// The fields of an action (protocol section 1.4).
fn fields(instance: &InstanceId, action: &MemberAction) -> Map<String, Value> {
    let body = match action {
        MemberAction::Register(registration) => registration_fields(instance, registration),
        MemberAction::Admit { expected, receipt } => {
            json!({"expectedGeneration": expected, "receipt": receipt})
        }
        MemberAction::Drain { expected }
        | MemberAction::Seal { expected }
        | MemberAction::Retire { expected } => {
            json!({"expectedGeneration": expected})
        }
        MemberAction::Suspect { expected, reason } => {
            json!({"expectedGeneration": expected, "reason": reason})
        }
        MemberAction::Lost { expected, evidence } => match evidence {
            LossEvidence::ProcessTerminated {
                pod_uid,
                boot_id,
                node_id,
                coordinator_id,
                source,
            } => json!({
                "expectedGeneration": expected,
                "evidence": "PROCESS_TERMINATED",
                "termination": {
                    "podUid": pod_uid,
                    "bootId": boot_id,
                    "nodeId": node_id,
                    "coordinatorId": coordinator_id,
                    "source": source,
                },
            }),
            LossEvidence::DestructiveOverride { reason } => json!({
                "expectedGeneration": expected,
                "evidence": "DESTRUCTIVE_OVERRIDE",
                "destructiveAuthorization": true,
                "reason": reason,
            }),
        },
        MemberAction::Retired { expected } => {
            json!({"expectedGeneration": expected, "resourcesAbsent": true})
        }
    };
    match body {
        Value::Object(fields) => fields,
        // `json!({..})` above makes nothing else.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

fn registration_fields(instance: &InstanceId, registration: &Registration) -> Value {
    let mut body = json!({
        "instanceId": instance,
        "backendName": registration.backend_name,
        "podUid": registration.pod_uid,
        "bootId": registration.boot_id,
        "configRevision": registration.config_revision,
    });
    // An explicit null would be another intent than an absent field (section 2.2).
    if let Some(target) = &registration.repair_for {
        body["repairFor"] = json!(target);
    }
    body
}

fn pool_path(pool: &RoutingGroup) -> Result<String, GatewayFault> {
    Ok(format!("/gateway/v1/pools/{}", segment(pool.as_str())?))
}

fn member_path(pool: &RoutingGroup, instance: &InstanceId) -> Result<String, GatewayFault> {
    Ok(format!(
        "{}/members/{}",
        pool_path(pool)?,
        segment(instance.as_str())?
    ))
}

/// One path segment, percent-encoded. Empty and dot segments name another path than the one meant, and
/// no encoding prevents that: URL parsers resolve `%2e%2e` too.
fn segment(text: &str) -> Result<String, GatewayFault> {
    if matches!(text, "" | "." | "..") {
        return Err(GatewayFault::Protocol(format!("{text:?} cannot stand in a path")));
    }
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 0xf] {
                encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    Ok(encoded)
}
