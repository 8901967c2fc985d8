//! Reads answers. Pure.
//!
//! Dispatches on the status and the header `X-Trino-Gateway-Error` only: the text of a refusal is for
//! people, and a proxy in between may write any. What is not an answer of this protocol about the member
//! that was asked for is a fault, never a verdict.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ERROR_HEADER;
use crate::gateway::model::{Controller, Member, Obligations, PoolSettings, PoolState, RefusalCode};
use crate::gateway::port::{GatewayFault, Outcome, Refusal};
use crate::pool::ids::{InstanceId, RoutingGroup};

/// A complete HTTP answer of the gateway, or of something in between.
#[derive(Debug)]
pub(super) struct Answer(Response<Bytes>);

/// What an answer says before its body is looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// 200 or 201.
    Accepted,
    /// A coded refusal below 500.
    Refused(RefusalCode),
    /// No verdict.
    Fault(GatewayFault),
}

impl Answer {
    pub(super) const fn new(response: Response<Bytes>) -> Self {
        Self(response)
    }

    pub(super) fn status(&self) -> StatusCode {
        self.0.status()
    }

    pub(super) fn body(&self) -> &[u8] {
        self.0.body()
    }

    /// The verdict (protocol section 1.6).
    pub(super) fn verdict(&self) -> Verdict {
        let status = self.0.status();
        if status == StatusCode::OK || status == StatusCode::CREATED {
            return Verdict::Accepted;
        }
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Verdict::Fault(GatewayFault::Unavailable {
                status: status.as_u16(),
            });
        }
        let mut codes = self.0.headers().get_all(ERROR_HEADER).iter();
        match (codes.next().map(http::HeaderValue::to_str), codes.next()) {
            (Some(Ok(code)), None) if status.is_client_error() && !code.is_empty() => {
                Verdict::Refused(RefusalCode::from_wire(code))
            }
            (None, None) if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                Verdict::Fault(GatewayFault::Credential {
                    status: status.as_u16(),
                })
            }
            (_, _) => Verdict::Fault(GatewayFault::Protocol(format!(
                "HTTP {} without one error code",
                status.as_u16()
            ))),
        }
    }

    /// The answer to a read: absent only on the gateway's own POOL_NOT_FOUND.
    pub(super) fn read<R>(
        &self,
        decode: impl FnOnce(&[u8]) -> Result<R, GatewayFault>,
    ) -> Result<Option<R>, GatewayFault> {
        match self.verdict() {
            Verdict::Accepted => decode(self.body()).map(Some),
            Verdict::Refused(RefusalCode::NotFound) if self.status() == StatusCode::NOT_FOUND => Ok(None),
            Verdict::Refused(code) => Err(GatewayFault::Protocol(format!("a read was refused with {code}"))),
            Verdict::Fault(fault) => Err(fault),
        }
    }

    /// The answer to a mutation. An acceptance whose body cannot be read has no verdict: what was
    /// accepted is not known.
    pub(super) fn decide<R>(
        &self,
        decode: impl FnOnce(&[u8]) -> Result<R, GatewayFault>,
        replayed: impl FnOnce(&R) -> bool,
    ) -> Outcome<R> {
        match self.verdict() {
            Verdict::Accepted => match decode(self.body()) {
                Ok(result) if replayed(&result) => Outcome::Replayed(result),
                Ok(result) => Outcome::Applied(result),
                Err(fault) => Outcome::Unknown(fault),
            },
            Verdict::Refused(code) => Outcome::Refused(Refusal { code }),
            Verdict::Fault(fault) => Outcome::Unknown(fault),
        }
    }
}

/// A PoolState about `pool`.
pub(super) fn pool_state(body: &[u8], pool: &RoutingGroup) -> Result<PoolState, GatewayFault> {
    let value = json(body)?;
    same_protocol(&value)?;
    echoes(&value, "poolId", pool.as_str())?;
    shape(value)
}

/// A PoolState that holds exactly what was sent, under the authority that sent it. Anything else means
/// that the pool is not configured as we believe it to be.
pub(super) fn configured(
    body: &[u8],
    controller: &Controller,
    sent: &PoolSettings,
) -> Result<PoolState, GatewayFault> {
    let mode = json(body)?;
    echoes(&mode, "apiMode", "POOLED")?;
    let state = pool_state(body, &controller.pool)?;
    let echoed = PoolSettings {
        min_serving: state.min_serving,
        desired_members: state.desired_members,
        max_surge: state.max_surge,
        max_repair: state.max_repair,
        desired_revision: state.desired_revision.clone(),
    };
    if echoed != *sent {
        return Err(GatewayFault::Protocol(format!(
            "sent {sent:?}, it answers {echoed:?}"
        )));
    }
    if state.controller_epoch != controller.epoch {
        return Err(GatewayFault::Protocol(format!(
            "sent epoch {}, it answers {}",
            controller.epoch, state.controller_epoch
        )));
    }
    Ok(state)
}

/// A Member that is the one asked for.
pub(super) fn member(
    body: &[u8],
    pool: &RoutingGroup,
    instance: &InstanceId,
) -> Result<Member, GatewayFault> {
    let value = json(body)?;
    echoes(&value, "instanceId", instance.as_str())?;
    member_of(value, pool)
}

/// All members: a bare array, every one of this pool. One unreadable member makes the whole answer
/// unreadable, since a list without it would claim that it does not exist.
pub(super) fn members(body: &[u8], pool: &RoutingGroup) -> Result<Vec<Member>, GatewayFault> {
    let values: Vec<Value> = shape(json(body)?)?;
    let mut members = values
        .into_iter()
        .map(|value| member_of(value, pool))
        .collect::<Result<Vec<_>, _>>()?;
    members.sort_by(|a, b| a.instance_id.cmp(&b.instance_id));
    Ok(members)
}

/// The Obligations of the member asked for.
pub(super) fn obligations(body: &[u8], instance: &InstanceId) -> Result<Obligations, GatewayFault> {
    let value = json(body)?;
    same_protocol(&value)?;
    echoes(&value, "instanceId", instance.as_str())?;
    shape(value)
}

fn member_of(value: Value, pool: &RoutingGroup) -> Result<Member, GatewayFault> {
    same_protocol(&value)?;
    echoes(&value, "poolId", pool.as_str())?;
    let member: Member = shape(value)?;
    if member.incarnation.is_empty() {
        return Err(GatewayFault::Protocol("a member without an incarnation".into()));
    }
    Ok(member)
}

fn json(body: &[u8]) -> Result<Value, GatewayFault> {
    // The parser's text names positions, never contents.
    serde_json::from_slice(body).map_err(|error| GatewayFault::Protocol(format!("not JSON: {error}")))
}

pub(super) fn shape<T: DeserializeOwned>(value: Value) -> Result<T, GatewayFault> {
    serde_json::from_value(value).map_err(|error| GatewayFault::Protocol(format!("unexpected JSON: {error}")))
}

fn same_protocol(value: &Value) -> Result<(), GatewayFault> {
    match value.get("protocolVersion").and_then(Value::as_u64) {
        Some(1) => Ok(()),
        Some(other) => Err(GatewayFault::Protocol(format!("protocol version {other}"))),
        None => Err(GatewayFault::Protocol("no protocol version".into())),
    }
}

fn echoes(value: &Value, field: &str, asked: &str) -> Result<(), GatewayFault> {
    match value.get(field).and_then(Value::as_str) {
        Some(answered) if answered == asked => Ok(()),
        Some(answered) => Err(GatewayFault::Protocol(format!(
            "asked for {field} {asked:?}, the answer is about {answered:?}"
        ))),
        None => Err(GatewayFault::Protocol(format!("the answer names no {field}"))),
    }
}
