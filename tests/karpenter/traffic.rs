//! Simulated coordinators, gateway and clients over the pods of a real cluster.
//!
//! Moves on several times a second: a coordinator ends, with its queries, when its pod is told to go. Queries are
//! counted by the clients, serving members by the gateway.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use http::Method;
use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use trino_pool_operator::gateway::model::MemberPhase;
use trino_pool_operator::gateway::pooled::secret::Secret;
use trino_pool_operator::sim::clients::{ClientOptions, Counts};
use trino_pool_operator::sim::gateway::{self, GatewayOptions};
use trino_pool_operator::sim::traffic::Traffic;
use trino_pool_operator::sim::trino::{self, Behaviour};

use crate::mirror::{Mirror, Namespace};

/// The gateway's admin token.
pub const TOKEN: &str = "a-token-of-the-karpenter-tests-0123456789";

/// Between two looks at the pods.
const GAZE: Duration = Duration::from_millis(200);

/// What is done when a step arrives at the gateway, before its sender hears of it.
type Trap = (&'static str, Box<dyn FnOnce() + Send>);

/// What runs in the pods, and whoever uses it. Ends when it is dropped.
pub struct RealTraffic {
    state: Arc<Mutex<State>>,
    /// The gateway.
    pub gateway: SocketAddr,
    /// Every coordinator, by the Host header.
    pub coordinators: SocketAddr,
    _tasks: JoinSet<()>,
}

struct State {
    traffic: Traffic,
    /// Fewest members that ever served since the pool is watched, and most that drained.
    extremes: BTreeMap<String, (usize, usize)>,
    trap: Option<Trap>,
}

impl RealTraffic {
    /// Follows the pods of a namespace from now on.
    pub async fn follow(mirror: &Mirror, namespace: &str) -> Self {
        let (now, mut rng) = (Timestamp::now(), ChaCha8Rng::seed_from_u64(1));
        let mut options = GatewayOptions::new(Secret::new(TOKEN));
        options.terminal_retention = Duration::from_secs(5);
        let mut clients = ClientOptions::default();
        // A drain lasts as long as they do.
        clients.mix.long_for = (Duration::from_secs(5), Duration::from_secs(20));
        let traffic = Traffic::new(
            options,
            ChaCha8Rng::seed_from_u64(2),
            clients,
            Behaviour::default(),
            Duration::from_secs(2),
            now,
        );
        let state = Arc::new(Mutex::new(State {
            traffic,
            extremes: BTreeMap::new(),
            trap: None,
        }));
        let mut tasks = JoinSet::new();
        let at_gateway = Arc::clone(&state);
        let gateway = gateway::server::router(move |request| {
            let mut state = at_gateway.lock().unwrap();
            let reply = state.traffic.gateway_exchange(&request, Timestamp::now());
            if request.method() == Method::POST {
                state.spring(request.uri().path());
            }
            reply
        });
        let at_coordinators = Arc::clone(&state);
        let coordinators = trino::server::router(move |host, request| {
            let traffic = &mut at_coordinators.lock().unwrap().traffic;
            traffic.coordinator_exchange(host, request, Timestamp::now())
        });
        let (gateway, coordinators) = (
            listen(&mut tasks, gateway).await,
            listen(&mut tasks, coordinators).await,
        );
        let (moved, mirror, namespace) = (Arc::clone(&state), mirror.clone(), namespace.to_owned());
        tasks.spawn(async move {
            loop {
                {
                    let (now, mut state) = (Timestamp::now(), moved.lock().unwrap());
                    state
                        .traffic
                        .follow(&Namespace(&mirror, &namespace), now, &mut rng);
                    state.traffic.step(now, &mut rng);
                    state.count_serving(now);
                }
                tokio::time::sleep(GAZE).await;
            }
        });
        Self {
            state,
            gateway,
            coordinators,
            _tasks: tasks,
        }
    }

    /// Lets clients of a pool begin, and counts from now on how many members serve them.
    pub fn start_clients(&self, pool: &str, count: usize) {
        let mut state = self.state.lock().unwrap();
        for _ in 0..count {
            state.traffic.clients.add(pool, Timestamp::now());
        }
        state.extremes.insert(pool.to_owned(), (usize::MAX, 0));
    }

    /// What the clients counted.
    pub fn counts(&self) -> Counts {
        self.state.lock().unwrap().traffic.clients.counts()
    }

    /// The fewest members that took work at any moment since clients began, by pool.
    pub fn fewest_serving(&self) -> BTreeMap<String, usize> {
        let state = self.state.lock().unwrap();
        let pools = state.extremes.iter();
        pools.map(|(pool, (fewest, _))| (pool.clone(), *fewest)).collect()
    }

    /// The most members that drained at one moment, by pool.
    pub fn most_draining(&self) -> BTreeMap<String, usize> {
        let state = self.state.lock().unwrap();
        let pools = state.extremes.iter();
        pools.map(|(pool, (_, most))| (pool.clone(), *most)).collect()
    }

    /// When the next step of this verb (`admit`, `drain`, …) has been carried out by the gateway, does something
    /// before anybody hears of it.
    pub fn when_done(&self, verb: &'static str, act: impl FnOnce() + Send + 'static) {
        self.state.lock().unwrap().trap = Some((verb, Box::new(act)));
    }

    /// Whether what was to be done by [`Self::when_done`] is done.
    pub fn has_sprung(&self) -> bool {
        self.state.lock().unwrap().trap.is_none()
    }
}

impl State {
    fn count_serving(&mut self, now: Timestamp) {
        for (pool, (fewest, most)) in &mut self.extremes {
            let members = self.traffic.gateway.members(pool, now);
            let of = |phase| members.iter().filter(|one| one.member.phase == phase).count();
            *fewest = of(MemberPhase::Active).min(*fewest);
            *most = of(MemberPhase::Draining).max(*most);
        }
    }

    fn spring(&mut self, path: &str) {
        let last = path.rsplit('/').next().unwrap_or_default();
        // A registration goes to the collection.
        let verb = if last == "members" { "register" } else { last };
        if self.trap.as_ref().is_some_and(|(wanted, _)| *wanted == verb)
            && let Some((_, act)) = self.trap.take()
        {
            act();
        }
    }
}

async fn listen(tasks: &mut JoinSet<()>, router: Router) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}
