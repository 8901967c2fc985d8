//! Every story, told in process under virtual time.

// Everything here is a test.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::time::Duration;

use trino_pool_operator::sim::scenario::frame::Frame;
use trino_pool_operator::sim::scenario::{Onlooker, Run, catalogue, run};

/// Tells what happened only when asked to.
struct Quiet(bool);

impl Onlooker for Quiet {
    fn say(&mut self, at: Duration, words: &str) {
        if self.0 {
            println!("{:>7.1} {words}", at.as_secs_f64());
        }
    }

    fn show(&mut self, _: &Frame) {}
}

fn tell(name: &str, seed: u64) {
    let scenario = *catalogue::find(name).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let loud = std::env::var_os("TPO_TELL").is_some();
    let (report, _) = runtime
        .block_on(run(&Run::virtually(scenario, seed), Box::new(Quiet(loud))))
        .unwrap();
    assert!(
        report.passed,
        "{name}, seed {seed}: {:?}\n{report:#?}",
        report.violated
    );
}

#[test]
fn drift() {
    tell("drift", 1);
}
