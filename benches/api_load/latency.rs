//! One node drifts, again and again: how long what follows takes, and what is asked for it.
//!
//! Looked for every few milliseconds: the Drifted condition is written at a known instant; evidence is in the database,
//! the cordon is on the node, and the replacement is ACTIVE at the gateway at the first look that finds it so. The time in which
//! the replacement's pods were made and got ready is the cluster's, and taken out of what the operator takes.
//! There are no clients, so no query is waited for; the statements of the validation are answered at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use trino_pool_operator::gateway::model::MemberPhase;
use trino_pool_operator::pool::names::{LABEL_INSTANCE, LABEL_POOL};
use trino_pool_operator::sim::kube::{Recorded, Resource};

use crate::args::Phase;
use crate::error::BenchError;
use crate::fleet::{Fleet, PODS};
use crate::measure::{Moment, figure};
use crate::operator::Operator;
use crate::phases::settle;
use crate::row::Row;
use crate::session::Bench;
use crate::store::Looker;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// How long one replacement may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// What one drift led to, in seconds since the condition was written.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    evidence: Option<f64>,
    cordon: Option<f64>,
    /// First pod of the replacement, and the last one ready.
    pods_made: Option<f64>,
    pods_ready: Option<f64>,
    serving: Option<f64>,
    /// The old instance's objects are gone.
    replaced: Option<f64>,
    /// Kubernetes requests from the condition to the cordon, and until the end.
    asked_to_cordon: u64,
    asked: u64,
    /// The longest single answer of all those requests, bytes.
    longest_answer: u64,
}

/// Lets one node after the other drift, each once the last one is replaced.
pub async fn drifts(bench: &Bench<'_>, operator: &mut Operator) -> Result<Row, BenchError> {
    let before = Moment::of(bench.fleet, bench.store, operator).await?;
    let mut looker = bench.store.looker().await?;
    let mut all = Vec::new();
    for nth in 0..bench.args.repeat {
        let (mode, of) = (bench.mode.as_str(), bench.args.repeat);
        (bench.told)(&format!("{mode}: drift {} of {of}", nth + 1));
        all.push(one(bench.fleet, operator, looker.as_mut()).await?);
        settle(bench, operator).await?;
    }
    let after = Moment::of(bench.fleet, bench.store, operator).await?;
    let mut row = before.until(&after, bench.fleet, bench.mode, Phase::Drift.as_str());
    row.more = summary(&all);
    Ok(row)
}

async fn one(
    fleet: &Fleet,
    operator: &mut Operator,
    mut looker: Option<&mut Looker>,
) -> Result<Times, BenchError> {
    let (node, affected) = fleet.loneliest_node()?;
    let uid = fleet.uid_of_node(&node);
    let before = fleet.instances();
    let mut times = Times::default();
    fleet.record(true);
    let begun = Instant::now();
    fleet.drift(&BTreeSet::from([node.clone()]))?;
    let mut asked: Vec<Recorded> = Vec::new();
    loop {
        let now = Some(begun.elapsed().as_secs_f64());
        if times.evidence.is_none()
            && let Some(looker) = looker.as_deref_mut()
            && looker.evidence_of(&uid).await?
        {
            times.evidence = now;
        }
        if times.cordon.is_none() && fleet.is_cordoned(&node) {
            times.cordon = now;
            asked = fleet.record(true);
            times.asked_to_cordon = requests(&asked);
        }
        let seen = look(fleet, &before);
        if seen.pods > 0 {
            times.pods_made = times.pods_made.or(now);
        }
        if seen.ready >= PODS as usize * affected.len() {
            times.pods_ready = times.pods_ready.or(now);
        }
        if seen.active >= affected.len() {
            times.serving = times.serving.or(now);
        }
        if times.serving.is_some() && fleet.instances().is_disjoint(&affected) {
            times.replaced = now;
            break;
        }
        let what = format!("the instances of node {node} are replaced ({times:?})");
        operator.awaited(&what, begun, PATIENCE)?;
        tokio::time::sleep(LOOK).await;
    }
    asked.extend(fleet.record(false));
    times.asked = requests(&asked);
    times.longest_answer = asked.iter().map(|one| one.cost.bytes_out).max().unwrap_or(0);
    Ok(times)
}

/// Requests that are about the fleet: the Lease is renewed whatever happens.
fn requests(asked: &[Recorded]) -> u64 {
    let about = asked.iter().filter(|one| !one.what.ends_with(" leases"));
    about.count() as u64
}

/// What there is of instances that were not there before.
struct Seen {
    pods: usize,
    ready: usize,
    active: usize,
}

fn look(fleet: &Fleet, before: &BTreeSet<String>) -> Seen {
    let new: BTreeMap<String, String> = fleet.peek(|world| {
        let services = world.kube.objects(Resource::Services);
        let labels = services.iter().map(|service| &service["metadata"]["labels"]);
        labels
            .filter_map(|labels| {
                let instance = labels[LABEL_INSTANCE].as_str()?;
                Some((instance.to_owned(), labels[LABEL_POOL].as_str()?.to_owned()))
            })
            .filter(|(instance, _)| !before.contains(instance))
            .collect()
    });
    let mut seen = Seen {
        pods: 0,
        ready: 0,
        active: 0,
    };
    for (instance, pool) in new {
        let (pods, active) = fleet.peek(|world| {
            let members = world.traffic.gateway.members(&pool, world.now());
            let is_active = members.iter().any(|view| {
                view.member.instance_id.as_str() == instance && view.member.phase == MemberPhase::Active
            });
            (world.pods_of(&instance), is_active)
        });
        let is_ready = |pod: &serde_json::Value| {
            let conditions = pod["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|entry| entry["type"] == "Ready" && entry["status"] == "True")
        };
        seen.pods += pods.len();
        seen.ready += pods.iter().filter(|pod| is_ready(pod)).count();
        seen.active += usize::from(active);
    }
    seen
}

/// The median and the 99th percentile of everything, by name.
fn summary(all: &[Times]) -> BTreeMap<String, f64> {
    let overhead = |times: &Times| {
        let started = times.pods_ready? - times.pods_made?;
        Some(times.serving? - started)
    };
    let count = |of: fn(&Times) -> u64| all.iter().map(|times| figure(of(times))).collect();
    let columns: [(&str, Vec<f64>); 9] = [
        (
            "evidence_s",
            all.iter().filter_map(|times| times.evidence).collect(),
        ),
        ("cordon_s", all.iter().filter_map(|times| times.cordon).collect()),
        (
            "pods_made_s",
            all.iter().filter_map(|times| times.pods_made).collect(),
        ),
        (
            "serving_s",
            all.iter().filter_map(|times| times.serving).collect(),
        ),
        (
            "replaced_s",
            all.iter().filter_map(|times| times.replaced).collect(),
        ),
        ("overhead_s", all.iter().filter_map(overhead).collect()),
        ("requests_to_cordon", count(|times| times.asked_to_cordon)),
        ("requests_of_replacement", count(|times| times.asked)),
        ("longest_answer_bytes", count(|times| times.longest_answer)),
    ];
    let mut more = BTreeMap::from([("drifts".to_owned(), figure(all.len() as u64))]);
    for (name, values) in columns {
        for (share, of_hundred) in [("p50", 50), ("p99", 99)] {
            if let Some(value) = percentile(&values, of_hundred) {
                more.insert(format!("{name}_{share}"), value);
            }
        }
    }
    more
}

/// By nearest rank.
fn percentile(values: &[f64], of_hundred: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (values.len() * of_hundred).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}
