//! One cell: a fleet is brought up once, and every mode and phase is measured on it, what changes it most at the end.

use std::time::{Duration, Instant};

use crate::args::{Args, Mode, Phase, Size};
use crate::error::BenchError;
use crate::fleet::Fleet;
use crate::operator::{self, Operator};
use crate::phases;
use crate::polling;
use crate::row::Results;
use crate::store::Store;

/// How long a fleet may take until it serves: the operator makes at most a hundred requests a second.
fn serves_within(size: Size) -> Duration {
    Duration::from_mins(5) + Duration::from_secs(u64::from(size.pools) * 3)
}

/// What a phase works with.
pub struct Bench<'a> {
    pub fleet: &'a Fleet,
    pub store: &'a Store,
    pub args: &'a Args,
    pub mode: Mode,
    /// Says what goes on.
    pub told: &'a dyn Fn(&str),
}

/// Measures a cell.
pub async fn cell(
    size: Size,
    args: &Args,
    results: &mut Results,
    told: &dyn Fn(&str),
) -> Result<(), BenchError> {
    let ours = modes(args)?;
    let polled = args.modes.contains(&Mode::Polling) && polling::is_measured(size);
    if ours.is_empty() && !polled {
        return Ok(());
    }
    told("makes nodes and pools");
    let mut fleet = Fleet::begin(size).await?;
    let store = Store::begin(args.sqlite, &fleet.file("")).await?;
    let measured = measured(&fleet, &store, args, &ours, polled, results, told).await;
    if measured.is_err() {
        fleet.keep();
    }
    measured
}

async fn measured(
    fleet: &Fleet,
    store: &Store,
    args: &Args,
    ours: &[Mode],
    polled: bool,
    results: &mut Results,
    told: &dyn Fn(&str),
) -> Result<(), BenchError> {
    bring_up(fleet, store, told).await?;
    if polled {
        told("polling: a tick of every pool");
        results.add(polling::measure(fleet).await?)?;
    }
    for mode in ours {
        let bench = Bench {
            fleet,
            store,
            args,
            mode: *mode,
            told,
        };
        for row in phases::undisturbed(&bench).await? {
            results.add(row)?;
        }
        if args.phases.contains(&Phase::Takeover) && !args.sqlite {
            results.add(phases::takeover(&bench).await?)?;
        }
        if args.phases.contains(&Phase::Mass) {
            results.add(phases::mass(&bench).await?)?;
        }
    }
    Ok(())
}

/// The modes of ours that are wanted and that the built operator knows.
fn modes(args: &Args) -> Result<Vec<Mode>, BenchError> {
    let wanted = args.modes.iter().copied().filter(|mode| *mode != Mode::Polling);
    let wanted: Vec<Mode> = wanted.collect();
    if operator::knows_inventory()? || wanted.is_empty() {
        return Ok(wanted);
    }
    eprintln!("this operator knows no --inventory: it lists");
    Ok(if wanted.contains(&Mode::List) {
        vec![Mode::List]
    } else {
        Vec::new()
    })
}

/// Lets an operator make every instance, and ends it.
async fn bring_up(fleet: &Fleet, store: &Store, told: &dyn Fn(&str)) -> Result<(), BenchError> {
    let mut operator = Operator::start(fleet, store.url(), Mode::Watch, None)?;
    let patience = serves_within(fleet.size());
    until(&mut operator, "every pool serves", patience, told, || {
        fleet.missing()
    })
    .await?;
    operator.stop().await
}

/// Waits until nothing is missing any more, while the operator runs, and says every half minute what is.
pub async fn until(
    operator: &mut Operator,
    what: &str,
    patience: Duration,
    told: &dyn Fn(&str),
    missing: impl Fn() -> Option<String>,
) -> Result<(), BenchError> {
    let begun = Instant::now();
    let mut last_told = begun;
    told(&format!("waits until {what}"));
    while let Some(open) = missing() {
        operator.awaited(&format!("{what} ({open})"), begun, patience)?;
        if last_told.elapsed() > Duration::from_secs(30) {
            last_told = Instant::now();
            told(&open);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Ok(())
}
