//! Faults between the operator and the world: every call through a port may be lost, delayed, sent twice,
//! refused, or be the last thing a process does. Each call is recorded.
//!
//! Owns the wrappers around the four ports and the trace. What goes wrong is decided by a [`Plan`], drawn
//! from a seed or scripted; the wrappers know nothing of what the calls mean beyond read or effect. They
//! never invent an answer: a fault is always silence ("no answer"), never a wrong reading.

mod cluster;
mod coordinator;
mod gateway;
mod plan;
mod store;
mod trace;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;

use crate::clock::Clock;
use crate::cluster::port::{Cluster, ClusterError};
use crate::gateway::port::{Gateway, GatewayFault, Outcome};
use crate::store::port::{Store, StoreError};
use crate::trino::port::{Coordinator, ProbeError};

pub use plan::{CrashAt, Nothing, Plan, Rates, Rule, Scripted, Seeded};
pub use trace::{Entry, Trace};

use cluster::FaultyCluster;
use coordinator::FaultyCoordinator;
use gateway::FaultyGateway;
use store::FaultyStore;

/// Which port a call goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    /// Kubernetes.
    Cluster,
    /// The gateway.
    Gateway,
    /// Trino coordinators.
    Coordinator,
    /// The store.
    Store,
}

/// What a call does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It changes nothing.
    Read,
    /// It changes something that the safety rules are about. These are counted for crashes.
    Effect,
    /// It changes something nothing depends on: Events, status, the renewal of the Lease.
    Housekeeping,
}

/// One call through a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Through which port.
    pub port: Port,
    /// Which method.
    pub method: &'static str,
    /// What it does.
    pub class: Class,
    /// Its arguments, in short.
    pub about: String,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing unusual.
    Pass,
    /// It never arrives; the caller waits out its deadline.
    LoseRequest,
    /// It is carried out; the caller waits out its deadline.
    LoseResponse,
    /// It is not carried out, and the caller is told at once that there is no answer.
    Error,
    /// It arrives this much later.
    Delay(Duration),
    /// It arrives twice; the caller sees the second answer.
    Duplicate,
    /// The process ends before it is sent.
    CrashBefore,
    /// The process ends after it was carried out and before the answer is seen.
    CrashAfter,
}

/// Ends the operator's process; called with the call in which it dies, which never returns.
pub type CrashHook = Arc<dyn Fn(&Call) + Send + Sync>;

/// Looks at the world right after an effect was carried out, before its caller sees the answer.
pub type Observer = Arc<dyn Fn(&Call) + Send + Sync>;

/// Decides and records for one process of the operator. Cloning shares.
#[derive(Clone)]
pub struct Injector {
    clock: Arc<dyn Clock>,
    deadline: Duration,
    crash: CrashHook,
    state: Arc<Mutex<State>>,
}

struct State {
    plan: Box<dyn Plan>,
    trace: Trace,
    effects: u64,
    ended: bool,
    observer: Option<Observer>,
}

impl std::fmt::Debug for Injector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Injector")
            .field("effects", &self.effects())
            .finish_non_exhaustive()
    }
}

impl Injector {
    /// An injector that waits and stamps by `clock`. A lost call costs its caller `deadline`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, deadline: Duration, plan: impl Plan, crash: CrashHook) -> Self {
        Self {
            clock,
            deadline,
            crash,
            state: Arc::new(Mutex::new(State {
                plan: Box::new(plan),
                trace: Trace::default(),
                effects: 0,
                ended: false,
                observer: None,
            })),
        }
    }

    /// An injector that injects nothing, and records.
    #[must_use]
    pub fn quiet(clock: Arc<dyn Clock>) -> Self {
        Self::new(clock, Duration::from_secs(10), Nothing, Arc::new(|_| {}))
    }

    /// Replaces the plan from now on.
    pub fn follow(&self, plan: impl Plan) {
        self.state().plan = Box::new(plan);
    }

    /// Has `observer` called after every effect that was carried out.
    pub fn observe(&self, observer: Observer) {
        self.state().observer = Some(observer);
    }

    /// How many effects were begun so far.
    #[must_use]
    pub fn effects(&self) -> u64 {
        self.state().effects
    }

    /// Whether the process behind this injector has ended: none of its calls returns any more.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.state().ended
    }

    /// Everything that was called so far.
    #[must_use]
    pub fn trace(&self) -> Trace {
        self.state().trace.clone()
    }

    /// The cluster port through this injector.
    #[must_use]
    pub fn cluster(&self, inner: Arc<dyn Cluster>) -> Arc<dyn Cluster> {
        Arc::new(FaultyCluster {
            inner,
            injector: self.clone(),
        })
    }

    /// The gateway port through this injector.
    #[must_use]
    pub fn gateway(&self, inner: Arc<dyn Gateway>) -> Arc<dyn Gateway> {
        Arc::new(FaultyGateway {
            inner,
            injector: self.clone(),
        })
    }

    /// The coordinator port through this injector.
    #[must_use]
    pub fn coordinator(&self, inner: Arc<dyn Coordinator>) -> Arc<dyn Coordinator> {
        Arc::new(FaultyCoordinator {
            inner,
            injector: self.clone(),
        })
    }

    /// The store port through this injector.
    #[must_use]
    pub fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(FaultyStore {
            inner,
            injector: self.clone(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, call: &Call) -> Decision {
        let mut state = self.state();
        if call.class == Class::Effect {
            state.effects += 1;
        }
        let nth = state.effects;
        state.plan.decide(call, nth)
    }

    async fn around<'f, R: Answer>(
        &self,
        call: Call,
        perform: &(dyn Fn() -> BoxFuture<'f, R> + Send + Sync),
    ) -> R {
        if self.ended() {
            return std::future::pending().await;
        }
        let decision = self.decide(&call);
        let perform = || self.perform(&call, perform);
        let answer = match decision {
            Decision::Pass => perform().await,
            Decision::LoseRequest => {
                self.clock.sleep(self.deadline).await;
                R::silence("the request was lost")
            }
            Decision::LoseResponse => {
                let _lost = perform().await;
                self.clock.sleep(self.deadline).await;
                R::silence("the response was lost")
            }
            Decision::Error => R::silence("the connection broke"),
            Decision::Delay(delay) => {
                self.clock.sleep(delay).await;
                perform().await
            }
            Decision::Duplicate => {
                let _first = perform().await;
                perform().await
            }
            Decision::CrashBefore => self.crash(&call, decision).await,
            Decision::CrashAfter => {
                let _unseen = perform().await;
                self.crash(&call, decision).await
            }
        };
        if self.ended() {
            // What was on its way arrived; nobody is left to see the answer.
            return std::future::pending().await;
        }
        self.record(call, decision, answer.brief());
        answer
    }

    async fn perform<'f, R>(&self, call: &Call, perform: &(dyn Fn() -> BoxFuture<'f, R> + Send + Sync)) -> R {
        let answer = perform().await;
        let observer = self.state().observer.clone();
        if call.class == Class::Effect
            && let Some(observer) = observer
        {
            observer(call);
        }
        answer
    }

    async fn crash<R>(&self, call: &Call, decision: Decision) -> R {
        self.state().ended = true;
        self.record(call.clone(), decision, "the process ended".to_owned());
        (self.crash)(call);
        std::future::pending().await
    }

    fn record(&self, call: Call, decision: Decision, outcome: String) {
        let at = self.clock.now();
        self.state().trace.push(Entry {
            at,
            call,
            decision,
            outcome,
        });
    }
}

/// What a port answers with: it can say "no answer", and it can be told in short.
trait Answer: Send {
    /// There is no answer.
    fn silence(why: &str) -> Self;
    /// In at most [`trace::BRIEF`] characters.
    fn brief(&self) -> String;
}

impl<T: std::fmt::Debug + Send> Answer for Result<T, ClusterError> {
    fn silence(why: &str) -> Self {
        Err(ClusterError::Unreachable(why.to_owned()))
    }

    fn brief(&self) -> String {
        trace::brief(self)
    }
}

impl<T: std::fmt::Debug + Send> Answer for Result<T, GatewayFault> {
    fn silence(why: &str) -> Self {
        Err(GatewayFault::Unreachable(why.to_owned()))
    }

    fn brief(&self) -> String {
        trace::brief(self)
    }
}

impl<T: std::fmt::Debug + Send> Answer for Outcome<T> {
    fn silence(why: &str) -> Self {
        Self::Unknown(GatewayFault::Unreachable(why.to_owned()))
    }

    fn brief(&self) -> String {
        trace::brief(self)
    }
}

impl<T: std::fmt::Debug + Send> Answer for Result<T, ProbeError> {
    fn silence(why: &str) -> Self {
        Err(ProbeError::Unreachable(why.to_owned()))
    }

    fn brief(&self) -> String {
        trace::brief(self)
    }
}

impl<T: std::fmt::Debug + Send> Answer for Result<T, StoreError> {
    fn silence(why: &str) -> Self {
        Err(StoreError::Unavailable(why.to_owned()))
    }

    fn brief(&self) -> String {
        trace::brief(self)
    }
}

#[cfg(test)]
mod tests;
