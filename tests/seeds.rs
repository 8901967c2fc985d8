//! The core stories, each told from many seeds: other names, other queries, another order of things, and faults
//! drawn at every call of the operator. A failing seed prints the command that tells it again.
//!
//! `TPO_SEEDS=n` tells n seeds of each instead of 20 (`scripts/test --all`: 200); `TPO_SEED=n` tells that one.

// Everything here is a test.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::time::Duration;

use trino_pool_operator::sim::faults::Rates;
use trino_pool_operator::sim::scenario::frame::Frame;
use trino_pool_operator::sim::scenario::{Onlooker, Run, catalogue, run};

struct Nobody;

impl Onlooker for Nobody {
    fn say(&mut self, at: Duration, words: &str) {
        if std::env::var_os("TPO_TELL").is_some() {
            println!("{:>7.1} {words}", at.as_secs_f64());
        }
    }

    fn show(&mut self, _: &Frame) {}

    fn watches(&self) -> bool {
        false
    }
}

/// Seeds of one story between two lines that say how far it is.
const PROGRESS_EVERY: usize = 50;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// One seed: two instances of one worker each, and one call in fifty meets a fault.
fn tell(name: &str, seed: u64) -> Result<(), String> {
    let scenario = *catalogue::find(name).unwrap();
    let telling = Run {
        instances: Some(2),
        workers: Some(1),
        faults: Some(Rates::one_in(50)),
        ..Run::virtually(scenario, seed)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let (report, _) = runtime.block_on(run(&telling, Box::new(Nobody))).unwrap();
    match report.violated {
        None => Ok(()),
        Some(rule) => Err(format!(
            "{name}, seed {seed}: {rule}\n{:?}\nagain: TPO_TELL=1 TPO_SEED={seed} cargo test --test seeds {} -- \
             --nocapture",
            report.losses,
            name.replace('-', "_")
        )),
    }
}

fn tell_many(name: &str) {
    let seeds = match number("TPO_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("TPO_SEEDS").unwrap_or(20),
    };
    let count = seeds.clone().count();
    let mut broken = Vec::new();
    for (told, seed) in (1..=count).zip(seeds) {
        broken.extend(tell(name, seed).err());
        if told % PROGRESS_EVERY == 0 && told < count {
            println!("{name}: {told} of {count} seeds told, {} broken", broken.len());
        }
    }
    println!("{name}: {count} seeds told, {} broken", broken.len());
    assert!(
        broken.is_empty(),
        "{} of {count} seeds:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

macro_rules! core {
    ($($test:ident = $name:literal;)+) => {$(
        #[test]
        fn $test() {
            tell_many($name);
        }
    )+};
}

core! {
    drift = "drift";
    nodeclaim_deletion = "nodeclaim-deletion";
    candidate_on_leaving_node = "candidate-on-leaving-node";
    lost_admission_response = "lost-admission-response";
    admission_retirement_race = "admission-retirement-race";
    leader_change = "leader-change";
}
