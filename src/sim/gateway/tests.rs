//! The simulated server by raw requests: what the production client cannot or does not ask.

use std::collections::BTreeMap;

use http::Method;
use proptest::prelude::*;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};

use super::*;
use crate::gateway::model::MemberPhase::{Active, Preparing};
use crate::gateway::pooled::TOKEN_HEADER;

const TOKEN: &str = "a-token-of-at-least-32-bytes-for-tests";

fn url(index: usize) -> String {
    format!("http://c{index}:80")
}

fn coordinator_id(origin: &str) -> String {
    let digits: String = origin.chars().filter(char::is_ascii_digit).collect();
    format!("c{digits:0>4}")
}

/// Answers every probe as the process its origin names; keeps what else it was sent.
#[derive(Debug, Default)]
struct Coordinators(Vec<Request<Bytes>>);

impl Upstream for Coordinators {
    fn exchange(&mut self, origin: &str, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        let id = coordinator_id(origin);
        let body = if request.uri().path() == "/v1/info" {
            json!({"nodeId": origin, "coordinatorId": id, "coordinator": true, "starting": false})
        } else {
            self.0.push(request.clone());
            json!({"id": format!("1_2_3_{id}"), "stats": {"state": "FINISHED"}})
        };
        Some(Response::new(Bytes::from(body.to_string())))
    }
}

struct Server {
    sim: GatewaySim,
    coordinators: Coordinators,
}

impl Server {
    fn new() -> Self {
        let mut options = GatewayOptions::new(Secret::new(TOKEN));
        options.default_group = "a".into();
        Self {
            sim: GatewaySim::new(options, ChaCha8Rng::seed_from_u64(1)),
            coordinators: Coordinators::default(),
        }
    }

    /// A pool of two with its floor at one, owned by epoch 1.
    fn with_pool() -> Self {
        let mut server = Self::new();
        assert_eq!(server.put(json!({})).0, 200);
        server
    }

    fn send(&mut self, request: &Request<Bytes>) -> Response<Bytes> {
        self.sim
            .handle(request, Timestamp::UNIX_EPOCH, &mut self.coordinators)
    }

    /// Status, code and body.
    fn call(&mut self, method: Method, path: &str, body: &Value) -> (u16, String, Value) {
        let mut request = Request::new(Bytes::from(body.to_string()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap();
        request.headers_mut().insert(TOKEN_HEADER, TOKEN.parse().unwrap());
        let answer = self.send(&request);
        let code = answer.headers().get("x-trino-gateway-error");
        (
            answer.status().as_u16(),
            code.map(|code| code.to_str().unwrap().to_owned())
                .unwrap_or_default(),
            serde_json::from_slice(answer.body()).unwrap_or_default(),
        )
    }

    fn put(&mut self, changes: Value) -> (u16, String, Value) {
        let body = with(
            json!({
                "operationId": "config", "stepId": "s1", "controllerEpoch": 1, "ownerIdentity": "o",
                "apiMode": "POOLED", "minServing": 1, "desiredMembers": 2, "maxSurge": 1, "maxRepair": 1,
            }),
            changes,
        );
        self.call(Method::PUT, "/gateway/v1/pools/a", &body)
    }

    fn get(&mut self, rest: &str) -> (u16, String, Value) {
        self.call(Method::GET, &format!("/gateway/v1/pools/a{rest}"), &Value::Null)
    }

    fn step(&mut self, rest: &str, step: &str, fields: Value) -> (u16, String, Value) {
        let body = with(
            json!({"operationId": "op", "stepId": step, "controllerEpoch": 1, "ownerIdentity": "o"}),
            fields,
        );
        self.call(Method::POST, &format!("/gateway/v1/pools/a/members{rest}"), &body)
    }

    fn register(&mut self, index: usize) -> (u16, String, Value) {
        let url = format!("http://c{index}:80");
        let backend =
            json!({"name": format!("b{index}"), "proxyTo": url, "routingGroup": "a", "active": false});
        self.call(Method::POST, "/gateway/backend/modify/add", &backend);
        let fields = json!({
            "instanceId": format!("m{index}"), "backendName": format!("b{index}"), "podUid": format!("p{index}"),
            "bootId": "boot", "configRevision": "r",
        });
        self.step("", &format!("register-{index}"), fields)
    }

    fn admit(&mut self, index: usize, generation: u64, step: &str) -> (u16, String, Value) {
        let receipt = json!({
            "certificateHash": "0".repeat(64), "configRevision": "r", "authRevision": "a", "podUid": format!("p{index}"),
            "bootId": "boot", "nodeId": url(index), "coordinatorId": coordinator_id(&url(index)),
            "readyWorkers": 1, "checks": ["image", "workers", "catalog-revision", "auth-revision"],
        });
        let fields = json!({"expectedGeneration": generation, "receipt": receipt});
        self.step(&format!("/m{index}/admit"), step, fields)
    }
}

fn with(mut body: Value, changes: Value) -> Value {
    if let (Some(body), Value::Object(changes)) = (body.as_object_mut(), changes) {
        body.extend(changes);
    }
    body
}

#[test]
fn the_credential_is_asked_for_after_the_switch_and_by_one_header_alone() {
    let mut server = Server::with_pool();
    let mut ask = |headers: &[(&'static str, &str)]| {
        let mut request = Request::get("/gateway/v1/pools/a").body(Bytes::new()).unwrap();
        for (name, value) in headers {
            request.headers_mut().append(*name, value.parse().unwrap());
        }
        server.send(&request).status().as_u16()
    };
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(ask(&[]), 403);
    assert_eq!(ask(&[("authorization", &bearer)]), 200);
    assert_eq!(ask(&[("authorization", &bearer.to_lowercase())]), 403);
    assert_eq!(ask(&[(TOKEN_HEADER, "wrong"), ("authorization", &bearer)]), 403);
    assert_eq!(
        ask(&[(TOKEN_HEADER, TOKEN), ("authorization", "Bearer wrong")]),
        200
    );
    assert_eq!(ask(&[(TOKEN_HEADER, TOKEN), (TOKEN_HEADER, TOKEN)]), 400);
    assert_eq!(ask(&[(TOKEN_HEADER, "")]), 400);
    server.sim.options.enabled = false;
    let request = Request::get("/gateway/v1/pools/a").body(Bytes::new()).unwrap();
    let answer = server.send(&request);
    assert_eq!(
        (
            answer.status().as_u16(),
            &answer.headers()["x-trino-gateway-error"]
        ),
        (404, &"POOL_DISABLED".parse().unwrap())
    );
}

#[test]
fn a_pool_and_a_member_have_exactly_the_protocols_fields() {
    let mut server = Server::with_pool();
    let (status, _, member) = server.register(1);
    assert_eq!(status, 200, "{member}");
    let fields = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut expected: Vec<&str> = "protocolVersion poolId instanceId incarnation backendName url externalUrl phase \
        generation controllerEpoch podUid bootId nodeId coordinatorId configRevision certifiedRevision authRevision \
        repair repairFor retirementKind pendingRequests openTransactions activeQueries readyToSeal drained eligible \
        membershipGeneration replayed"
        .split_whitespace()
        .collect();
    let sorted = |text: String| {
        let mut words: Vec<String> = text.split(' ').map(ToOwned::to_owned).collect();
        words.sort();
        words
    };
    expected.sort_unstable();
    assert_eq!(sorted(fields(&member)), expected);
    let mut expected: Vec<&str> =
        "protocolVersion poolId apiMode controllerEpoch membershipGeneration minServing \
        desiredMembers maxSurge maxRepair desiredRevision admittedRevision tenantAdmissionEnabled counts \
        servingMembers liveMembers surgeInUse repairInUse openPublications blocked replayed"
            .split_whitespace()
            .collect();
    expected.sort_unstable();
    let pool = server.get("").2;
    assert_eq!(sorted(fields(&pool)), expected);
    assert_eq!(pool["counts"].as_object().unwrap().len(), 8);
}

#[test]
fn a_pool_says_what_blocks_it() {
    let mut server = Server::with_pool();
    assert_eq!(server.get("").2["blocked"], json!(["SERVING_BELOW_FLOOR"]));
    server.register(1);
    server.step(
        "/m1/suspect",
        "suspect",
        json!({"expectedGeneration": 0, "reason": "r"}),
    );
    server.register(2);
    server.step("/m2/retire", "retire", json!({"expectedGeneration": 0}));
    server.sim.open_publication("a", "p", "r2");
    let blocked = json!([
        "SERVING_BELOW_FLOOR",
        "SUSPECT_MEMBER",
        "RETIREMENT_IN_PROGRESS",
        "PUBLICATION_OPEN"
    ]);
    assert_eq!(server.get("").2["blocked"], blocked);
}

#[test]
fn tenants_cannot_be_admitted_without_an_identity_source() {
    let mut server = Server::new();
    let refused = server.put(json!({"tenantAdmissionEnabled": true}));
    assert_eq!(
        (refused.0, refused.1.as_str()),
        (409, "TENANT_IDENTITY_UNVERIFIED")
    );
    assert_eq!(server.get("").0, 404, "a refused configuration creates no pool");
}

#[test]
fn malformed_fields_are_refused_before_anything_is_looked_up() {
    let mut server = Server::with_pool();
    for (field, value) in [
        ("minServing", json!(0)),
        ("minServing", json!("1")),
        ("minServing", json!(1.5)),
        ("maxSurge", json!(101)),
        ("controllerEpoch", json!(-1)),
        ("controllerEpoch", json!(u64::MAX)),
        ("stepId", json!("a b")),
        ("stepId", json!("x".repeat(65))),
        ("operationId", Value::Null),
        ("apiMode", json!("BOTH")),
    ] {
        let refused = server.put(json!({field: value}));
        assert_eq!(
            (refused.0, refused.1.as_str()),
            (400, "POOL_VALIDATION"),
            "{field}"
        );
    }
    let refused = server.step("/nobody/drain", "d", json!({"expectedGeneration": "0"}));
    assert_eq!(refused.1, "POOL_VALIDATION");
    let refused = server.step("/nobody/retired", "r", json!({"expectedGeneration": 0}));
    assert_eq!(refused.1, "POOL_EVIDENCE_REQUIRED");
}

#[test]
fn an_operation_is_read_back_with_its_steps() {
    let mut server = Server::with_pool();
    assert_eq!(server.get("/operations/op").2["steps"], json!([]));
    server.register(1);
    server.step("/m1/drain", "refused", json!({"expectedGeneration": 0}));
    let history = server.get("/operations/op").2;
    let steps = history["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 1, "refusals leave no trace");
    assert_eq!(
        (&steps[0]["stepId"], &steps[0]["outcome"]),
        (&json!("register-1"), &json!("OK"))
    );
    assert_eq!(steps[0]["result"]["instanceId"], "m1");
}

#[test]
fn a_failure_receipt_exists_once_a_member_is_lost() {
    let mut server = Server::with_pool();
    server.register(1);
    assert_eq!(server.get("/members/m1/failure-receipt").1, "POOL_NOT_FOUND");
    server.step(
        "/m1/suspect",
        "s",
        json!({"expectedGeneration": 0, "reason": "r"}),
    );
    let empty = json!({"podUid": "", "bootId": "", "nodeId": "", "coordinatorId": "", "source": ""});
    let claim = json!({
        "expectedGeneration": 1, "evidence": "DESTRUCTIVE_OVERRIDE", "destructiveAuthorization": true,
        "reason": "a person said so", "termination": empty,
    });
    let (status, code, _) = server.step("/m1/lost", "l", claim);
    assert_eq!(
        (status, code.as_str()),
        (200, ""),
        "an override's termination is ignored"
    );
    let receipt = server.get("/members/m1/failure-receipt").2;
    assert_eq!(receipt["detail"]["reason"], "a person said so");
}

#[test]
fn a_coordinator_is_told_where_its_client_believes_to_be() {
    let mut server = Server::with_pool();
    server.register(1);
    let (status, code, _) = server.admit(1, 0, "admit");
    assert_eq!((status, code.as_str()), (200, ""));
    let request = Request::post("/v1/statement")
        .header("host", "gateway.example:9000")
        .header("authorization", "Basic YWxpY2U6YWxpY2U=")
        .header("x-forwarded-host", "evil.example")
        .header("accept-encoding", "zstd")
        .header("x-trino-query-data-encoding", "json+zstd")
        .body(Bytes::from_static(b"SELECT 1"))
        .unwrap();
    assert_eq!(server.send(&request).status(), 200);
    let sent = &server.coordinators.0[0];
    assert_eq!(sent.headers()["x-forwarded-host"], "gateway.example:9000");
    assert_eq!(sent.headers()["x-forwarded-port"], "9000");
    assert_eq!(sent.headers()["x-forwarded-proto"], "http");
    for absent in ["host", "accept-encoding", "x-trino-query-data-encoding"] {
        assert!(!sent.headers().contains_key(absent), "{absent}");
    }
    assert_eq!(
        (sent.uri().to_string().as_str(), sent.body().as_ref()),
        ("/v1/statement", &b"SELECT 1"[..])
    );
    let mut anonymous = request.clone();
    anonymous.headers_mut().remove("authorization");
    let challenge = server.send(&anonymous);
    assert_eq!(
        (
            challenge.status().as_u16(),
            challenge.headers().contains_key("www-authenticate")
        ),
        (401, true)
    );
}

#[test]
fn requests_are_counted_by_route_without_names() {
    let mut server = Server::with_pool();
    server.register(1);
    server.step("/m1/retire", "r", json!({"expectedGeneration": 0}));
    server.get("/members/m1");
    let counted: BTreeMap<&str, u64> = server
        .sim
        .requests()
        .iter()
        .map(|(k, v)| (k.as_str(), *v))
        .collect();
    let expected = [
        ("GET member", 1),
        ("POST backend/modify/add", 1),
        ("POST members", 1),
        ("POST members/retire", 1),
        ("PUT pool", 1),
    ];
    assert_eq!(counted, expected.into_iter().collect());
}

const VERBS: [&str; 7] = ["admit", "drain", "seal", "suspect", "lost", "retire", "retired"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is sent in whatever order: the floor holds for planned drains, generations only grow by
    /// one, and a member that left never comes back.
    #[test]
    fn no_order_of_steps_breaks_the_phase_machine(
        steps in proptest::collection::vec((0_usize..4, 0_usize..7, 0_u64..2), 0..60)
    ) {
        let mut server = Server::with_pool();
        for index in 0..4 {
            server.register(index);
        }
        for (number, (index, verb, behind)) in steps.into_iter().enumerate() {
            let before = server.sim.members("a", Timestamp::UNIX_EPOCH);
            let Some(seen) = before.iter().find(|view| view.member.instance_id.as_str() == format!("m{index}")) else {
                continue;
            };
            let generation = seen.member.generation.get();
            let expected = generation.saturating_sub(behind);
            let step = format!("s{number}");
            let verb = VERBS[verb];
            let (status, _, _) = if verb == "admit" {
                server.admit(index, expected, &step)
            } else {
                let fields = json!({
                    "expectedGeneration": expected, "reason": "r", "resourcesAbsent": true,
                    "evidence": "DESTRUCTIVE_OVERRIDE", "destructiveAuthorization": true,
                });
                server.step(&format!("/m{index}/{verb}"), &step, fields)
            };
            let after = server.sim.members("a", Timestamp::UNIX_EPOCH);
            let now = after.iter().find(|view| view.member.instance_id == seen.member.instance_id).unwrap();
            let grown = now.member.generation.get() - generation;
            prop_assert_eq!(grown, u64::from(status == 200));
            prop_assert!(status != 200 || expected == generation);
            let was = seen.member.phase;
            prop_assert!(now.member.phase != Active || matches!(was, Active | Preparing));
            let serving = server.sim.pool("a").unwrap().serving_members;
            prop_assert!(!(status == 200 && verb == "drain" && was == Active) || serving >= 1);
        }
    }
}

#[test]
fn every_step_that_arrives_is_witnessed_with_what_it_came_to() {
    let mut server = Server::with_pool();
    server.register(1);
    let (_, _, member) = server.register(1);
    assert_eq!(member["replayed"], true);
    let generation = member["generation"].as_u64().unwrap();
    server.admit(1, generation + 7, "admit-too-early");
    let (status, _, answer) = server.admit(1, generation, "admit");
    assert_eq!(status, 200, "{answer}");
    let asked = server.sim.asked();
    let seen: Vec<_> = asked
        .iter()
        .map(|one| {
            assert_eq!((one.pool.as_str(), one.instance.as_str()), ("a", "m1"));
            let step = (one.verb.as_str(), one.step.as_str());
            (step, one.before, one.after, one.accepted, one.replayed)
        })
        .collect();
    let register = ("register", "register-1");
    assert_eq!(
        seen,
        [
            (register, None, Some(Preparing), true, false),
            (register, Some(Preparing), Some(Preparing), true, true),
            (
                ("admit", "admit-too-early"),
                Some(Preparing),
                Some(Preparing),
                false,
                false
            ),
            (("admit", "admit"), Some(Preparing), Some(Active), true, false),
        ]
    );
    assert_eq!(asked[0].body, asked[1].body);
    assert_ne!(asked[2].body, asked[3].body);
}
