//! Where a story plays: a simulated gateway, its coordinators, a production client, and clients that
//! send statements.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::Value;
use trino_pool_operator::gateway::model::{
    AdmissionReceipt, Backend, Controller, Member, MemberAction, MemberPhase, MemberRequest, Obligations,
    PoolSettings, RefusalCode, Registration,
};
use trino_pool_operator::gateway::pooled::PooledGateway;
use trino_pool_operator::gateway::pooled::origin::{Origin, PlainHttp};
use trino_pool_operator::gateway::pooled::secret::{AdminToken, Secret};
use trino_pool_operator::gateway::port::{Gateway, Outcome};
use trino_pool_operator::pool::ids::{
    BackendName, BootId, CoordinatorId, Epoch, Generation, InstanceId, OperationId, OwnerId, PodUid,
    RoutingGroup, StepId, TrinoNodeId,
};
use trino_pool_operator::sim::gateway::faults::Reply;
use trino_pool_operator::sim::gateway::{GatewayOptions, GatewaySim, server};
use trino_pool_operator::transport::network::{NetworkOptions, NetworkTransport, Trust};
use trino_pool_operator::transport::{Transport, TransportError};

use crate::fleet::Fleet;

pub const POOL: &str = "analytics";
const TOKEN: &str = "a-token-of-at-least-32-bytes-for-tests";

/// What the simulation consists of.
#[derive(Debug)]
pub struct Host {
    pub sim: GatewaySim,
    pub fleet: Fleet,
    pub now: Timestamp,
}

impl Host {
    fn exchange(&mut self, request: &Request<Bytes>) -> Reply {
        self.sim.exchange(request, self.now, &mut self.fleet)
    }
}

/// The way from a client to the gateway.
#[derive(Clone)]
pub enum Way {
    InProcess(Arc<Mutex<Host>>),
    Http(NetworkTransport),
}

#[async_trait]
impl Transport for Way {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        match self {
            Self::InProcess(host) => match host.lock().unwrap().exchange(&request) {
                Reply::Answer { response, .. } => Ok(response),
                Reply::Silence => Err(TransportError::Broken("the answer is lost".into())),
            },
            Self::Http(network) => network.exchange(request).await,
        }
    }
}

/// The stage.
pub struct Stage {
    pub gateway: Box<dyn Gateway>,
    host: Arc<Mutex<Host>>,
    way: Way,
    origin: String,
}

impl Stage {
    pub fn in_process() -> Self {
        let host = host();
        Self::new(Arc::clone(&host), Way::InProcess(host), "http://localhost".into())
    }

    pub async fn over_http() -> Self {
        let host = host();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let served = Arc::clone(&host);
        let app = server::router(move |request| served.lock().unwrap().exchange(&request));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let options = NetworkOptions {
            trust: Trust::Nobody,
            ..NetworkOptions::default()
        };
        Self::new(host, Way::Http(NetworkTransport::new(options).unwrap()), origin)
    }

    fn new(host: Arc<Mutex<Host>>, way: Way, origin: String) -> Self {
        Self {
            gateway: client(way.clone(), &origin, TOKEN),
            host,
            way,
            origin,
        }
    }

    /// Another client, with a credential of its own.
    pub fn client_with(&self, token: &str) -> Box<dyn Gateway> {
        client(self.way.clone(), &self.origin, token)
    }

    pub fn host(&self) -> MutexGuard<'_, Host> {
        self.host.lock().unwrap()
    }

    pub fn advance(&self, by: Duration) {
        let mut host = self.host();
        host.now = host.now.saturating_add(by).unwrap();
    }

    /// Starts a coordinator for an instance and registers it as an inactive backend.
    pub async fn coordinator(&self, instance: &str) {
        self.host().fleet.start(&url(instance), instance);
        let outcome = self.gateway.ensure_backend(&backend(instance)).await;
        assert!(outcome.accepted().is_some(), "{outcome:?}");
    }

    /// The process now running for an instance, as an observer of the coordinator sees it.
    pub fn coordinator_id(&self, instance: &str) -> CoordinatorId {
        CoordinatorId::new(self.host().fleet.processes[&url(instance)].coordinator.clone())
    }

    /// Takes the pool under epoch 1 with room for `desired` and one surge.
    pub async fn configured(&self, desired: u32, floor: u32) {
        let outcome = self
            .gateway
            .configure(&leader(1), &StepId::new("e1"), &settings(desired, floor))
            .await;
        assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
    }

    /// Registers an instance with a running coordinator.
    pub async fn prepared(&self, instance: &str) -> Member {
        self.coordinator(instance).await;
        let request = request(instance, "register", register(instance, None));
        applied(self.gateway.send(&leader(1), &request).await)
    }

    /// Registers and admits an instance.
    pub async fn serving(&self, instance: &str) -> Member {
        let member = self.prepared(instance).await;
        let request = request(instance, "admit", admit(&member));
        applied(self.gateway.send(&leader(1), &request).await)
    }

    /// Sends a step of an instance under the first leader.
    pub async fn step(&self, instance: &str, name: &str, action: MemberAction) -> Outcome<Member> {
        self.gateway
            .send(&leader(1), &request(instance, name, action))
            .await
    }

    pub async fn member(&self, instance: &str) -> Member {
        let member = self.gateway.member(&pool(), &InstanceId::new(instance)).await;
        member.unwrap().expect("registered")
    }

    pub async fn obligations(&self, instance: &str) -> Obligations {
        let owed = self
            .gateway
            .obligations(&pool(), &InstanceId::new(instance))
            .await;
        owed.unwrap().expect("registered")
    }

    /// Serving members as the gateway counts them.
    pub async fn serving_count(&self) -> u32 {
        self.gateway.pool(&pool()).await.unwrap().unwrap().serving_members
    }

    /// A client's new statement.
    pub async fn submit(&self, sql: &str, transaction: Option<&str>) -> Response<Bytes> {
        let request = Request::post(format!("{}/v1/statement", self.origin))
            .header("authorization", "Basic YWxpY2U6YWxpY2U=")
            .header("x-trino-routing-group", POOL)
            .header("x-trino-transaction-id", transaction.unwrap_or("NONE"))
            .body(Bytes::copy_from_slice(sql.as_bytes()))
            .unwrap();
        self.way.exchange(request).await.unwrap()
    }

    /// A client's continuation along `nextUri`.
    pub async fn follow(&self, method: &str, page: &Response<Bytes>) -> Response<Bytes> {
        let request = Request::builder().method(method).uri(self.next(page));
        self.way
            .exchange(request.body(Bytes::new()).unwrap())
            .await
            .unwrap()
    }

    /// A continuation that brings credentials.
    pub async fn follow_as(&self, authorization: &str, page: &Response<Bytes>) -> Response<Bytes> {
        let request = Request::get(self.next(page)).header("authorization", authorization);
        self.way
            .exchange(request.body(Bytes::new()).unwrap())
            .await
            .unwrap()
    }

    fn next(&self, page: &Response<Bytes>) -> String {
        let next = json(page)["nextUri"].as_str().expect("more pages").to_owned();
        let path = next.parse::<http::Uri>().unwrap().path().to_owned();
        format!("{}{path}", self.origin)
    }
}

fn host() -> Arc<Mutex<Host>> {
    let options = GatewayOptions::new(Secret::new(TOKEN));
    Arc::new(Mutex::new(Host {
        sim: GatewaySim::new(options, ChaCha8Rng::seed_from_u64(7)),
        fleet: Fleet::default(),
        now: Timestamp::from_second(1_750_000_000).unwrap(),
    }))
}

fn client(way: Way, origin: &str, token: &str) -> Box<dyn Gateway> {
    Box::new(PooledGateway::new(
        way,
        Origin::parse(origin, PlainHttp::LoopbackOnly).unwrap(),
        AdminToken::new(&Secret::new(token)).unwrap(),
    ))
}

pub fn pool() -> RoutingGroup {
    RoutingGroup::new(POOL)
}

/// The leader of an epoch.
pub fn leader(epoch: u64) -> Controller {
    Controller {
        pool: pool(),
        epoch: Epoch::new(epoch),
        owner: OwnerId::new(format!("controller-{epoch}")),
    }
}

pub fn settings(desired: u32, floor: u32) -> PoolSettings {
    PoolSettings {
        min_serving: floor,
        desired_members: desired,
        max_surge: 1,
        max_repair: 3,
        desired_revision: "r1".into(),
    }
}

pub fn url(instance: &str) -> String {
    format!("http://{instance}.trino.svc:8080")
}

pub fn backend(instance: &str) -> Backend {
    Backend {
        name: BackendName::new(format!("{POOL}-{instance}")),
        proxy_to: url(instance),
        external_url: None,
        routing_group: pool(),
        active: false,
    }
}

pub fn request(instance: &str, step: &str, action: MemberAction) -> MemberRequest {
    MemberRequest {
        instance: InstanceId::new(instance),
        operation: OperationId::new(format!("instance:{instance}")),
        step: StepId::new(step),
        action,
    }
}

pub fn register(instance: &str, repair_for: Option<&str>) -> MemberAction {
    MemberAction::Register(Registration {
        backend_name: backend(instance).name,
        pod_uid: PodUid::new(format!("pod-{instance}")),
        boot_id: BootId::new(format!("boot-{instance}")),
        config_revision: "r1".into(),
        repair_for: repair_for.map(InstanceId::new),
    })
}

/// A receipt that proves exactly what was registered.
pub fn receipt(member: &Member) -> AdmissionReceipt {
    AdmissionReceipt {
        certificate_hash: "ab".repeat(32),
        config_revision: "r1".into(),
        auth_revision: "a1".into(),
        pod_uid: member.pod_uid.clone(),
        boot_id: member.boot_id.clone(),
        node_id: TrinoNodeId::new(member.node_id.as_str()),
        coordinator_id: member.coordinator_id.clone(),
        ready_workers: 2,
        checks: ["image", "workers", "catalog-revision", "auth-revision"]
            .map(ToOwned::to_owned)
            .to_vec(),
    }
}

pub fn admit(member: &Member) -> MemberAction {
    MemberAction::Admit {
        expected: member.generation,
        receipt: receipt(member),
    }
}

pub fn drain(generation: u64) -> MemberAction {
    MemberAction::Drain {
        expected: Generation::new(generation),
    }
}

pub fn seal(generation: u64) -> MemberAction {
    MemberAction::Seal {
        expected: Generation::new(generation),
    }
}

pub fn retire(generation: u64) -> MemberAction {
    MemberAction::Retire {
        expected: Generation::new(generation),
    }
}

pub fn retired(generation: u64) -> MemberAction {
    MemberAction::Retired {
        expected: Generation::new(generation),
    }
}

pub fn suspect(generation: u64) -> MemberAction {
    MemberAction::Suspect {
        expected: Generation::new(generation),
        reason: "it fails".into(),
    }
}

#[track_caller]
pub fn applied(outcome: Outcome<Member>) -> Member {
    match outcome {
        Outcome::Applied(member) => member,
        other => panic!("not applied: {other:?}"),
    }
}

#[track_caller]
pub fn replayed(outcome: Outcome<Member>) -> Member {
    match outcome {
        Outcome::Replayed(member) => member,
        other => panic!("not replayed: {other:?}"),
    }
}

#[track_caller]
pub fn refused<T: std::fmt::Debug>(outcome: Outcome<T>) -> RefusalCode {
    match outcome {
        Outcome::Refused(refusal) => refusal.code,
        other => panic!("not refused: {other:?}"),
    }
}

#[track_caller]
pub fn in_phase(member: &Member, phase: MemberPhase, generation: u64) {
    assert_eq!(
        (member.phase, member.generation),
        (phase, Generation::new(generation))
    );
}

pub fn json(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}
