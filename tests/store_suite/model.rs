//! Random histories look the same on memory and on SQLite: every answer, and every row afterwards.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use trino_pool_operator::cluster::facts::ObjectKind;
use trino_pool_operator::pool::desired::PoolMode;
use trino_pool_operator::pool::evidence::Disruption;
use trino_pool_operator::pool::ids::{Epoch, InstanceId, NodeUid, PoolId, SpecGeneration};
use trino_pool_operator::pool::instance::{CandidateFailure, FailureCause, InstanceChanges};
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::memory::MemoryStore;
use trino_pool_operator::store::port::{Authority, PoolIdentity, StepOutcome, Store, StoreError, Write};

use crate::fixtures::{
    append, at, desired, drain, every_change, evidence, member, new, node, process, record, recovery, request,
};

const POOLS: u8 = 2;
const INSTANCES: u8 = 4;

/// One call, in small numbers.
#[derive(Clone, Debug)]
enum Call {
    Acquire {
        pool: u8,
        above: u8,
    },
    Commit {
        pool: u8,
        stale: bool,
        writes: Vec<Small>,
    },
    Recover {
        pool: u8,
        instance: u8,
        operation: u8,
        generation: u8,
        floor: u8,
    },
}

/// One write, in small numbers.
#[derive(Clone, Debug)]
enum Small {
    Publish {
        resource: u8,
        generation: u8,
        foreign: bool,
    },
    Mode(u8),
    Create(u8),
    /// Along the `way`-th permitted transition of the row's phase, or an arbitrary one.
    Advance {
        instance: u8,
        way: u8,
        arbitrary: Option<(u8, u8)>,
    },
    Update {
        instance: u8,
        which: u8,
    },
    Evidence {
        instance: u8,
        node: u8,
    },
    Node {
        instance: u8,
        node: u8,
        deleting: bool,
    },
    Begin {
        instance: u8,
        operation: u8,
        step: u8,
        generation: u8,
    },
    Finish {
        operation: u8,
        step: u8,
        outcome: u8,
    },
    Remember(u8),
    Forget,
    Orphan {
        instance: u8,
        uid: u8,
    },
}

fn small() -> impl Strategy<Value = Small> {
    let instance = || 0..INSTANCES;
    prop_oneof![
        1 => (0..2u8, 0..4u8, prop::bool::weighted(0.1))
            .prop_map(|(resource, generation, foreign)| Small::Publish { resource, generation, foreign }),
        1 => (0..3u8).prop_map(Small::Mode),
        4 => instance().prop_map(Small::Create),
        12 => (instance(), 0..4u8, prop::option::weighted(0.1, (0..14u8, 0..14u8)))
            .prop_map(|(instance, way, arbitrary)| Small::Advance { instance, way, arbitrary }),
        3 => (instance(), 0..4u8).prop_map(|(instance, which)| Small::Update { instance, which }),
        2 => (instance(), 0..3u8).prop_map(|(instance, node)| Small::Evidence { instance, node }),
        2 => (instance(), 0..3u8, any::<bool>())
            .prop_map(|(instance, node, deleting)| Small::Node { instance, node, deleting }),
        4 => (instance(), 0..3u8, 0..2u8, 0..2u8)
            .prop_map(|(instance, operation, step, generation)| Small::Begin { instance, operation, step, generation }),
        4 => (0..3u8, 0..2u8, 0..3u8)
            .prop_map(|(operation, step, outcome)| Small::Finish { operation, step, outcome }),
        1 => (0..2u8).prop_map(Small::Remember),
        1 => Just(Small::Forget),
        1 => (instance(), 0..2u8).prop_map(|(instance, uid)| Small::Orphan { instance, uid }),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        1 => (0..POOLS, select(vec![0u8, 0, 9])).prop_map(|(pool, above)| Call::Acquire { pool, above }),
        12 => (0..POOLS, prop::bool::weighted(0.05), prop::collection::vec(small(), 0..4))
            .prop_map(|(pool, stale, writes)| Call::Commit { pool, stale, writes }),
        1 => (0..POOLS, 0..INSTANCES, 0..2u8, 4..6u8, 0..2u8)
            .prop_map(|(pool, instance, operation, generation, floor)| Call::Recover {
                pool, instance, operation, generation, floor,
            }),
    ]
}

/// Two stores under one history. Each case has names of its own, so that all share one file.
struct Both {
    case: u32,
    memory: MemoryStore,
    sqlite: Arc<dyn Store>,
    authorities: Vec<Authority>,
}

impl Both {
    fn identity(&self, pool: u8) -> PoolIdentity {
        crate::fixtures::identity(&format!("{}-{pool}", self.case))
    }

    fn instance(&self, instance: u8) -> String {
        format!("cell-{}-{instance}", self.case)
    }

    fn node(&self, node: u8) -> (String, String) {
        (format!("n{node}"), format!("u{}-{node}", self.case))
    }

    async fn start(case: u32, sqlite: Arc<dyn Store>) -> Self {
        let mut both = Self {
            case,
            memory: MemoryStore::new("memory".into()),
            sqlite,
            authorities: Vec::new(),
        };
        for pool in 0..POOLS {
            let identity = both.identity(pool);
            both.memory.seed(&identity).await.unwrap();
            both.sqlite.seed(&identity).await.unwrap();
            let authority = both.acquire(&identity.id, 0).await.unwrap();
            both.authorities.push(authority);
        }
        both
    }

    async fn acquire(&self, pool: &PoolId, above: u8) -> Result<Authority, StoreError> {
        let above = Epoch::new(above.into());
        let taken = self.memory.acquire(pool, &"me".into(), above).await;
        assert_eq!(taken, self.sqlite.acquire(pool, &"me".into(), above).await);
        taken
    }

    async fn write(&self, pool: u8, small: &Small) -> Write {
        let name = |instance: &u8| self.instance(*instance);
        match small {
            Small::Publish {
                resource,
                generation,
                foreign,
            } => {
                let mut identity = self.identity(pool);
                if *foreign {
                    identity.routing_group = "foreign".into();
                }
                Write::PublishDesired {
                    resource: format!("uid-{resource}").as_str().into(),
                    generation: SpecGeneration::new((*generation).into()),
                    desired: Box::new(desired(&identity)),
                }
            }
            Small::Mode(0) => Write::SetMode(PoolMode::Open),
            Small::Mode(1) => Write::SetMode(PoolMode::Retained),
            Small::Mode(_) => Write::SetMode(PoolMode::Held("x".into())),
            Small::Create(instance) => Write::CreateInstance(Box::new(new(&name(instance)))),
            Small::Advance {
                instance,
                way,
                arbitrary,
            } => {
                let instance = InstanceId::new(name(instance));
                let row = self.memory.instance(&instance).await.unwrap();
                let now = row.map_or(Phase::Pending, |row| row.phase);
                let ways: Vec<Phase> = Phase::KNOWN.into_iter().filter(|to| now.permits(*to)).collect();
                let (from, to) = match arbitrary {
                    Some((from, to)) => (Phase::KNOWN[usize::from(*from)], Phase::KNOWN[usize::from(*to)]),
                    None if ways.is_empty() => (now, Phase::Pending),
                    None => (now, ways[usize::from(*way) % ways.len()]),
                };
                Write::Advance {
                    instance,
                    from,
                    to,
                    changes: Box::new(changes(*way)),
                }
            }
            Small::Update { instance, which } => Write::Update {
                instance: InstanceId::new(name(instance)),
                changes: Box::new(changes(*which)),
            },
            Small::Evidence { instance, node } => {
                let (node, uid) = self.node(*node);
                record(&name(instance), &evidence(&node, &uid, Disruption::Drifted))
            }
            Small::Node {
                instance,
                node: which,
                deleting,
            } => {
                let (node_name, uid) = self.node(*which);
                let reason = if *deleting {
                    Disruption::Deleting
                } else {
                    Disruption::Drifted
                };
                append(&name(instance), &node(&node_name, &uid, reason))
            }
            Small::Begin {
                instance,
                operation,
                step,
                generation,
            } => {
                let mut request = request(&name(instance), &format!("s{step}"), drain((*generation).into()));
                request.operation = format!("op-{}-{operation}", self.case).as_str().into();
                Write::BeginStep(request)
            }
            Small::Finish {
                operation,
                step,
                outcome,
            } => Write::FinishStep {
                operation: format!("op-{}-{operation}", self.case).as_str().into(),
                step: format!("s{step}").as_str().into(),
                outcome: [StepOutcome::Unknown, StepOutcome::Applied, StepOutcome::Refused]
                    [usize::from(*outcome)],
            },
            Small::Remember(cause) => Write::RememberFailure(CandidateFailure {
                cause: [FailureCause::NodeLeaving, FailureCause::DeadlineExceeded][usize::from(*cause)],
                detail: format!("cause {cause}"),
            }),
            Small::Forget => Write::ForgetFailures,
            Small::Orphan { instance, uid } => Write::RecordOrphan {
                instance: InstanceId::new(name(instance)),
                kind: ObjectKind::Service,
                uid: format!("uid-{uid}").as_str().into(),
            },
        }
    }

    async fn call(&mut self, call: &Call, tick: i64) {
        match call {
            Call::Acquire { pool, above } => {
                let id = self.identity(*pool).id;
                self.authorities[usize::from(*pool)] = self.acquire(&id, *above).await.unwrap();
            }
            Call::Commit {
                pool,
                stale,
                writes: small,
            } => {
                let mut authority = self.authorities[usize::from(*pool)].clone();
                if *stale {
                    authority.epoch = Epoch::new(authority.epoch.get() - 1);
                }
                let mut writes = Vec::new();
                for one in small {
                    writes.push(self.write(*pool, one).await);
                }
                let now = at(tick);
                assert_eq!(
                    self.memory.commit(&authority, now, &writes).await,
                    self.sqlite.commit(&authority, now, &writes).await,
                    "{writes:?}"
                );
            }
            Call::Recover {
                pool,
                instance,
                operation,
                generation,
                floor,
            } => {
                let mut asked = recovery(&format!("r-{}-{operation}", self.case), &self.instance(*instance));
                asked.expected_generation =
                    trino_pool_operator::pool::ids::Generation::new((*generation).into());
                let pool = self.identity(*pool).id;
                let floor = u32::from(*floor);
                assert_eq!(
                    self.memory.request_recovery(&pool, floor, &asked).await,
                    self.sqlite.request_recovery(&pool, floor, &asked).await
                );
            }
        }
    }

    async fn look_the_same(&self) {
        let (memory, sqlite) = (
            self.memory.marks().await.unwrap(),
            self.sqlite.marks().await.unwrap(),
        );
        for pool in 0..POOLS {
            let id = self.identity(pool).id;
            assert_eq!(self.memory.load(&id).await, self.sqlite.load(&id).await);
            assert_eq!(memory[&id], sqlite[&id]);
        }
        for instance in 0..INSTANCES {
            let id = InstanceId::new(self.instance(instance));
            assert_eq!(self.memory.instance(&id).await, self.sqlite.instance(&id).await);
        }
        for node in 0..3 {
            let uid = NodeUid::new(self.node(node).1);
            assert_eq!(
                self.memory.node_holds(&uid).await,
                self.sqlite.node_holds(&uid).await
            );
        }
    }
}

fn changes(which: u8) -> InstanceChanges {
    match which {
        0 => InstanceChanges::default(),
        1 => InstanceChanges {
            member: Some(member(4)),
            process: Some(process(1)),
            ..InstanceChanges::default()
        },
        2 => InstanceChanges {
            process: Some(process(2)),
            ..InstanceChanges::default()
        },
        _ => every_change(),
    }
}

#[test]
fn random_histories_look_the_same_on_memory_and_on_sqlite() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    let sqlite = runtime.block_on(async {
        trino_pool_operator::store::migrate(&url).await.unwrap();
        trino_pool_operator::store::connect(&url).await.unwrap()
    });
    let case = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    });
    let histories = prop::collection::vec(call(), 1..50);
    runner
        .run(&histories, |history| {
            case.set(case.get() + 1);
            runtime.block_on(async {
                let mut both = Both::start(case.get(), Arc::clone(&sqlite)).await;
                for (tick, call) in (1..).zip(&history) {
                    both.call(call, tick).await;
                }
                both.look_the_same().await;
            });
            Ok(())
        })
        .unwrap();
}
