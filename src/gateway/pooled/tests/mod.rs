//! The client against canned answers: exact requests, and what each answer is taken for.

mod answers;
mod backends;
mod requests;

use std::sync::Mutex;

use async_trait::async_trait;
use http::{Request, Response};
use serde_json::{Value, json};

use super::origin::PlainHttp;
use super::secret::Secret;
use super::*;
use crate::gateway::model::MemberAction;
use crate::pool::ids::{Epoch, Generation, OperationId, OwnerId};
use crate::transport::TransportError;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Answers every request with the next of these, and keeps the requests.
#[derive(Debug, Default)]
struct Canned {
    answers: Mutex<Vec<Result<Response<Bytes>, TransportError>>>,
    requests: Mutex<Vec<Request<Bytes>>>,
}

#[async_trait]
impl Transport for &'static Canned {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        self.requests.lock().unwrap().push(request);
        self.answers.lock().unwrap().remove(0)
    }
}

impl Canned {
    fn with(answers: impl IntoIterator<Item = Result<Response<Bytes>, TransportError>>) -> &'static Self {
        Box::leak(Box::new(Self {
            answers: Mutex::new(answers.into_iter().collect()),
            requests: Mutex::default(),
        }))
    }

    fn gateway(&'static self) -> PooledGateway<&'static Self> {
        PooledGateway::new(
            self,
            Origin::parse("https://gw.example:8443/", PlainHttp::Refused).unwrap(),
            AdminToken::new(&Secret::new(TOKEN)).unwrap(),
        )
    }

    /// Method, path and body of each request.
    fn sent(&self) -> Vec<(String, String, Value)> {
        let requests = self.requests.lock().unwrap();
        let shown = |request: &Request<Bytes>| {
            let body = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
            (
                request.method().to_string(),
                request.uri().path().to_owned(),
                body,
            )
        };
        requests.iter().map(shown).collect()
    }
}

fn answer(status: u16, code: Option<&str>, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut builder = Response::builder().status(status);
    if let Some(code) = code {
        builder = builder.header(ERROR_HEADER, code);
    }
    builder.body(body.into()).unwrap()
}

#[allow(clippy::unnecessary_wraps, reason = "stands where an error may stand as well")]
fn ok(body: &Value) -> Result<Response<Bytes>, TransportError> {
    Ok(answer(200, None, body.to_string()))
}

fn controller() -> Controller {
    Controller {
        pool: RoutingGroup::new("analytics"),
        epoch: Epoch::new(7),
        owner: OwnerId::new("ctl-a"),
    }
}

fn member_json() -> Value {
    json!({
        "protocolVersion": 1, "poolId": "analytics", "instanceId": "cell-a", "incarnation": "i-1",
        "backendName": "analytics-cell-a", "url": "u", "externalUrl": "u", "phase": "ACTIVE", "generation": 3,
        "controllerEpoch": 7, "podUid": "p", "bootId": "b", "nodeId": "n", "coordinatorId": "abcde",
        "configRevision": "r1", "certifiedRevision": null, "authRevision": null, "repair": false,
        "repairFor": null, "retirementKind": null, "pendingRequests": 0, "openTransactions": 0,
        "activeQueries": 0, "readyToSeal": false, "drained": false, "eligible": true,
        "membershipGeneration": 2, "replayed": false,
    })
}

fn pool_json() -> Value {
    json!({
        "protocolVersion": 1, "poolId": "analytics", "apiMode": "POOLED", "controllerEpoch": 7,
        "membershipGeneration": 2, "minServing": 1, "desiredMembers": 2, "maxSurge": 1, "maxRepair": 1,
        "desiredRevision": "r1", "admittedRevision": "", "tenantAdmissionEnabled": false,
        "counts": {"ACTIVE": 2}, "servingMembers": 2, "liveMembers": 2, "surgeInUse": 0, "repairInUse": 0,
        "openPublications": 0, "blocked": [], "replayed": false,
    })
}

fn settings() -> PoolSettings {
    PoolSettings {
        min_serving: 1,
        desired_members: 2,
        max_surge: 1,
        max_repair: 1,
        desired_revision: "r1".into(),
    }
}

fn request(action: MemberAction) -> MemberRequest {
    MemberRequest {
        instance: InstanceId::new("cell-a"),
        operation: OperationId::new("instance:cell-a"),
        step: StepId::new("step.1"),
        action,
    }
}

fn drain() -> MemberRequest {
    request(MemberAction::Drain {
        expected: Generation::new(3),
    })
}

async fn drained(answer: Result<Response<Bytes>, TransportError>) -> Outcome<Member> {
    Canned::with([answer])
        .gateway()
        .send(&controller(), &drain())
        .await
}

/// The fields that every step of these tests carries beside its own.
fn enveloped(fields: Value) -> Value {
    let mut body = json!({
        "operationId": "instance:cell-a", "stepId": "step.1", "controllerEpoch": 7, "ownerIdentity": "ctl-a",
    });
    if let (Some(body), Value::Object(fields)) = (body.as_object_mut(), fields) {
        body.extend(fields);
    }
    body
}
