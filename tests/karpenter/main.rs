//! The operator under real Karpenter: a real API server with its controllers and scheduler, KWOK, Karpenter with its
//! KWOK provider. The operator is its own process under its own ServiceAccount; what runs in the pods (coordinators),
//! the gateway and the clients are simulated, and follow the real pods.
//!
//! Stories run at once on one cluster, each in its own namespace, on its own NodePool, with its own operator. Those that
//! take the cluster itself away come after all others, one by one; what was asked of the API server is judged last.

// Everything here is a test.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod admin;
mod audit;
mod cluster;
#[path = "../support/control_plane.rs"]
mod control_plane;
mod mirror;
mod nodes;
mod objects;
mod operator;
#[allow(dead_code, reason = "the store suite uses more of it")]
#[path = "../support/postgres.rs"]
mod postgres;
mod privileges;
mod scene;
mod stories;
mod traffic;

use std::process::ExitCode;
use std::sync::Arc;

use futures::future::LocalBoxFuture;
use libtest_mimic::{Arguments, Conclusion, Trial};
use tokio::runtime::Runtime;

use cluster::Cluster;
use scene::{Scene, Setup};

/// A story: its name, which is that of its namespace, how it begins, and how it goes on.
struct Story {
    name: &'static str,
    setup: fn() -> Setup,
    tell: fn(Scene) -> LocalBoxFuture<'static, ()>,
}

/// The trial that compares the roles with what all stories asked.
const PERMISSIONS: &str = "every-permission-is-used-and-granted";

/// What a trial asserts, and where.
type Told = fn(Cluster) -> LocalBoxFuture<'static, ()>;

/// Where stories are told.
struct Stage {
    runtime: Runtime,
    cluster: Cluster,
}

impl Stage {
    fn trial(self: &Arc<Self>, story: &'static Story) -> Trial {
        let stage = Arc::clone(self);
        Trial::test(story.name, move || {
            stage.runtime.block_on(async {
                let scene = Scene::set(stage.cluster.clone(), story.name, (story.setup)()).await;
                if let Some(scene) = scene {
                    (story.tell)(scene).await;
                }
            });
            Ok(())
        })
    }

    fn told(self: &Arc<Self>, name: &'static str, told: Told) -> Trial {
        let stage = Arc::clone(self);
        Trial::test(name, move || {
            stage.runtime.block_on(told(stage.cluster.clone()));
            Ok(())
        })
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    if arguments.list {
        return list(&arguments);
    }
    let Some(plane) = control_plane::shared("karpenter") else {
        return ExitCode::SUCCESS;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let cluster = runtime.block_on(Cluster::prepare(plane));
    let stage = Arc::new(Stage { runtime, cluster });
    let whole = arguments.filter.is_none() && arguments.skip.is_empty();
    // Stories wait for controllers most of the time; each has a thread, whatever the processors.
    let threads = arguments.test_threads;
    arguments.test_threads = Some(threads.unwrap_or(stories::TOGETHER.len()));
    let together = stories::TOGETHER.iter().map(|story| stage.trial(story)).collect();
    let mut ended = vec![libtest_mimic::run(&arguments, together)];
    arguments.test_threads = Some(1);
    let alone = stories::ALONE.iter().map(|story| stage.trial(story)).collect();
    ended.push(libtest_mimic::run(&arguments, alone));
    // Only all stories together use all permissions, and without PostgreSQL there is no election.
    let whole = whole && postgres::shared().is_some();
    let last = stage.told(PERMISSIONS, stories::permissions::judge);
    ended.push(libtest_mimic::run(
        &arguments,
        vec![last.with_ignored_flag(!whole)],
    ));
    if ended.iter().any(Conclusion::has_failed) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The names alone: nothing is started for them.
fn list(arguments: &Arguments) -> ExitCode {
    let all = stories::TOGETHER.iter().chain(stories::ALONE);
    let names = all.map(|story| story.name).chain([PERMISSIONS]);
    let trials = names.map(|name| Trial::test(name, || Ok(()))).collect();
    libtest_mimic::run(arguments, trials).exit_code()
}
