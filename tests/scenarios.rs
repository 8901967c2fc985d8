//! Every story, told in process under virtual time.
//!
//! `TPO_TELL=1` prints what happens; `TPO_SEED=n` tells the story of another seed.

// Everything here is a test.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeSet;
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

    fn watches(&self) -> bool {
        false
    }
}

fn tell(name: &str) {
    let seed = std::env::var("TPO_SEED")
        .ok()
        .map_or(1, |seed| seed.parse().unwrap());
    let scenario = *catalogue::find(name).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let loud = std::env::var_os("TPO_TELL").is_some();
    if std::env::var_os("TPO_LOG").is_some() {
        let _ = trino_pool_operator::telemetry::logging::install(
            trino_pool_operator::telemetry::logging::LogFormat::Text,
            &std::env::var("TPO_LOG").unwrap(),
        );
    }
    let (report, _) = runtime
        .block_on(run(&Run::virtually(scenario, seed), Box::new(Quiet(loud))))
        .unwrap();
    assert!(
        report.passed,
        "{name}, seed {seed}: {:?}\n{report:#?}",
        report.violated
    );
}

macro_rules! stories {
    ($($test:ident = $name:literal;)+) => {
        $(
            #[test]
            fn $test() {
                tell($name);
            }
        )+

        #[test]
        fn every_story_is_told_here() {
            let here = BTreeSet::from([$($name),+]);
            let all: BTreeSet<&str> = catalogue::all().map(|scenario| scenario.name).collect();
            assert_eq!(here, all);
        }
    };
}

stories! {
    drift = "drift";
    mass_drift = "mass-drift";
    nodeclaim_deletion = "nodeclaim-deletion";
    expiry = "expiry";
    surge_zero = "surge-zero";
    release_rollout = "release-rollout";
    scale_in = "scale-in";
    template_edited = "template-edited";
    every_template_edited = "every-template-edited";
    candidate_on_leaving_node = "candidate-on-leaving-node";
    unowned_node = "unowned-node";
    finite_grace = "finite-grace";
    incomplete_inventory = "incomplete-inventory";
    unrelated_cordon = "unrelated-cordon";
    late_cordon_response = "late-cordon-response";
    node_api_outage = "node-api-outage";
    lost_admission_response = "lost-admission-response";
    lost_registration_response = "lost-registration-response";
    lost_drain_response = "lost-drain-response";
    admission_retirement_race = "admission-retirement-race";
    gateway_outage = "gateway-outage";
    coordinator_crash = "coordinator-crash";
    probe_blackout = "probe-blackout";
    repair_while_candidate_pending = "repair-while-candidate-pending";
    authorized_recovery = "authorized-recovery";
    held_spec = "held-spec";
    pool_retain = "pool-retain";
    pool_drain = "pool-drain";
    unprotected_control = "unprotected-control";
    feature_off = "feature-off";
    enable_and_upgrade = "enable-and-upgrade";
    leader_change = "leader-change";
}
