//! What happens to a fleet that serves, and what each of it costs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::args::Phase;
use crate::error::BenchError;
use crate::fleet::INSTANCES;
use crate::latency;
use crate::measure::{Moment, TICK, figure};
use crate::operator::Operator;
use crate::row::Row;
use crate::session::{Bench, until};

/// From the first decision until nothing of a start is under way any more.
const SETTLES: Duration = Duration::from_secs(15);
/// How long a process may take to decide about every pool.
const DECIDES_WITHIN: Duration = Duration::from_mins(10);
/// How long after its watches were cut a process is looked at.
const RELISTS_WITHIN: Duration = Duration::from_secs(30);
/// How long one drift may take, and a tenth of the nodes.
const REPLACES_WITHIN: Duration = Duration::from_mins(10);
const MASS_WITHIN: Duration = Duration::from_mins(90);

/// Start, quiet, relist and drift of one process.
pub async fn undisturbed(bench: &Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let wanted = |phase: Phase| bench.args.phases.contains(&phase);
    let one_of = [Phase::Start, Phase::Quiet, Phase::Relist, Phase::Drift];
    if !one_of.into_iter().any(wanted) {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    let (mut operator, row) = start(bench).await?;
    if wanted(Phase::Start) {
        rows.push(row);
    }
    settle(bench, &mut operator).await?;
    if wanted(Phase::Quiet) {
        rows.push(quiet(bench, &operator).await?);
    }
    if wanted(Phase::Relist) {
        rows.push(relist(bench, &operator).await?);
    }
    if wanted(Phase::Drift) {
        rows.push(latency::drifts(bench, &mut operator).await?);
    }
    operator.stop().await?;
    Ok(rows)
}

/// A process starts; measured until it has decided about every pool.
async fn start(bench: &Bench<'_>) -> Result<(Operator, Row), BenchError> {
    say(bench, "start");
    let before = Moment::before(bench.fleet, bench.store).await?;
    let mut operator = Operator::start(bench.fleet, bench.store.url(), bench.mode, None)?;
    let seconds = decides(bench, &mut operator).await?;
    let after = Moment::of(bench.fleet, bench.store, &operator).await?;
    let mut row = before.until(&after, bench.fleet, bench.mode, Phase::Start.as_str());
    row.more.insert("seconds_to_decision".to_owned(), seconds);
    Ok((operator, row))
}

/// Waits until it has decided about every pool; how long that took since it was started.
async fn decides(bench: &Bench<'_>, operator: &mut Operator) -> Result<f64, BenchError> {
    let pools = bench.fleet.size().pools as usize;
    loop {
        if operator.decided().await >= pools {
            return Ok(operator.started.elapsed().as_secs_f64());
        }
        operator.awaited("it decides about every pool", operator.started, DECIDES_WITHIN)?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until the fleet serves and what a change started has ended.
pub async fn settle(bench: &Bench<'_>, operator: &mut Operator) -> Result<(), BenchError> {
    let missing = || bench.fleet.missing();
    until(
        operator,
        "every pool serves again",
        REPLACES_WITHIN,
        bench.told,
        missing,
    )
    .await?;
    tokio::time::sleep(SETTLES).await;
    Ok(())
}

async fn quiet(bench: &Bench<'_>, operator: &Operator) -> Result<Row, BenchError> {
    say(bench, "quiet");
    let before = Moment::of(bench.fleet, bench.store, operator).await?;
    tokio::time::sleep(bench.args.quiet).await;
    let after = Moment::of(bench.fleet, bench.store, operator).await?;
    let mut row = before.until(&after, bench.fleet, bench.mode, Phase::Quiet.as_str());
    let most = |verb: &str| {
        let of_verb = row.by_kind.iter().filter(|(what, _)| what.starts_with(verb));
        of_verb.map(|(_, kind)| kind.requests).max().unwrap_or(0)
    };
    let per_hour = |count: u64| figure(count) * 3_600.0 / row.seconds;
    let (watches, lists) = (per_hour(most("WATCH ")), per_hour(most("LIST ")));
    row.more.insert("watches_per_hour_of_a_kind".to_owned(), watches);
    row.more.insert("lists_per_hour_of_a_kind".to_owned(), lists);
    Ok(row)
}

async fn relist(bench: &Bench<'_>, operator: &Operator) -> Result<Row, BenchError> {
    say(bench, "every watch is cut, and its version forgotten");
    let before = Moment::of(bench.fleet, bench.store, operator).await?;
    bench.fleet.forget_history();
    tokio::time::sleep(RELISTS_WITHIN).await;
    let after = Moment::of(bench.fleet, bench.store, operator).await?;
    Ok(before.until(&after, bench.fleet, bench.mode, Phase::Relist.as_str()))
}

/// The leader is killed; measured of its successor, from the kill until it has decided about every pool.
pub async fn takeover(bench: &Bench<'_>) -> Result<Row, BenchError> {
    say(bench, "the leader is killed");
    let url = bench.store.url();
    let mut leader = Operator::start(bench.fleet, url, bench.mode, Some("first"))?;
    decides(bench, &mut leader).await?;
    let mut successor = Operator::start(bench.fleet, url, bench.mode, Some("second"))?;
    settle(bench, &mut leader).await?;
    let before = Moment::of(bench.fleet, bench.store, &successor).await?;
    let killed = Instant::now();
    leader.kill();
    let leads = || (bench.fleet.holder().as_deref() != Some("second")).then(|| "the Lease".to_owned());
    until(
        &mut successor,
        "the successor leads",
        DECIDES_WITHIN,
        bench.told,
        leads,
    )
    .await?;
    let led = killed.elapsed().as_secs_f64();
    decides(bench, &mut successor).await?;
    let decided = killed.elapsed().as_secs_f64();
    let after = Moment::of(bench.fleet, bench.store, &successor).await?;
    let mut row = before.until(&after, bench.fleet, bench.mode, Phase::Takeover.as_str());
    row.more.insert("seconds_to_lease".to_owned(), led);
    row.more.insert("seconds_to_decision".to_owned(), decided);
    successor.stop().await?;
    Ok(row)
}

/// Every tenth node drifts at once; measured until every instance on them is replaced.
pub async fn mass(bench: &Bench<'_>) -> Result<Row, BenchError> {
    let (mut operator, _) = start(bench).await?;
    settle(bench, &mut operator).await?;
    let nodes: BTreeSet<String> = bench.fleet.nodes().into_iter().step_by(10).collect();
    let mut affected = BTreeSet::new();
    for (node, instances) in bench.fleet.instances_of_nodes() {
        if nodes.contains(&node) {
            affected.extend(instances);
        }
    }
    say(
        bench,
        &format!(
            "{} nodes drift, with {} instances on them",
            nodes.len(),
            affected.len()
        ),
    );
    let before = Moment::of(bench.fleet, bench.store, &operator).await?;
    let begun = Instant::now();
    bench.fleet.drift(&nodes)?;
    let most = std::cell::Cell::new(0);
    let missing = || {
        most.set(most.get().max(bench.fleet.most_instances()));
        let left = bench.fleet.instances().intersection(&affected).count();
        if left > 0 {
            return Some(format!("{left} of {} instances are not replaced", affected.len()));
        }
        bench.fleet.missing()
    };
    until(
        &mut operator,
        "all are replaced",
        MASS_WITHIN,
        bench.told,
        missing,
    )
    .await?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = Moment::of(bench.fleet, bench.store, &operator).await?;
    let mut row = before.until(&after, bench.fleet, bench.mode, Phase::Mass.as_str());
    // What memory comes back to, once nothing goes on any more.
    tokio::time::sleep(12 * TICK).await;
    row.rss_bytes = Some(operator.usage()?.rss);
    for (name, value) in [
        ("replaced", figure(affected.len() as u64)),
        ("drifted_nodes", figure(nodes.len() as u64)),
        ("seconds", seconds),
        ("most_instances_of_a_pool", figure(most.get() as u64)),
        ("desired_instances_of_a_pool", f64::from(INSTANCES)),
    ] {
        row.more.insert(name.to_owned(), value);
    }
    operator.stop().await?;
    Ok(row)
}

fn say(bench: &Bench<'_>, what: &str) {
    (bench.told)(&format!("{}: {what}", bench.mode.as_str()));
}
