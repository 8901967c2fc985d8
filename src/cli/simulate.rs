//! `simulate`: the operator at work in a simulated world, over real HTTP on 127.0.0.1.
//!
//! Owns what is told and shown, and the verdict's exit status. It touches no cluster and no gateway but the
//! ones it starts itself.

mod keep_open;

use std::process::ExitCode;

use futures::StreamExt;
use tracing::Instrument;

use super::args::{Output, SimulateArgs};
use super::display::{Display, summary};
use super::error::CliError;
use super::output;
use super::roster::Roster;
use super::signals::Signals;
use crate::sim::scenario::report::ScenarioReport;
use crate::sim::scenario::{Broken, Mode, Onlooker, Open, Run, Scenario, catalogue, run};
use crate::store::open::Kind;
use crate::telemetry::logging::{LogFormat, install};

/// Width of the printed list.
const WIDTH: usize = 100;

/// The story of one drift takes about a minute, and a person can follow it.
const SPEED: f64 = 6.0;

/// Nobody follows all stories at once.
const SPEED_OF_ALL: f64 = 20.0;

/// Runs the command to its exit status.
pub async fn command(args: &SimulateArgs) -> Result<ExitCode, CliError> {
    if args.list {
        list();
        return Ok(ExitCode::SUCCESS);
    }
    install(LogFormat::Text, &args.log)?;
    let chosen = chosen(&args.scenario)?;
    check_store(args, &chosen)?;
    let mut signals = Signals::listen()?;
    tokio::select! {
        biased;
        () = signals.received() => {
            output::complain("interrupted before the end");
            Ok(ExitCode::FAILURE)
        }
        told = tell(args, &chosen) => match told? {
            Told { passed, open: Some(open) } => keep_open::until_interrupted(open, &mut signals, passed).await,
            Told { passed, open: None } => Ok(status(passed)),
        },
    }
}

/// What came of all stories.
struct Told {
    passed: bool,
    open: Option<Open>,
}

fn status(passed: bool) -> ExitCode {
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn list() {
    for scenario in catalogue::all() {
        let text = format!("{}\n{}", scenario.name, output::wrapped(scenario.story, WIDTH, 4));
        if !output::line(&text) {
            return;
        }
    }
}

fn chosen(name: &str) -> Result<Vec<Scenario>, CliError> {
    if name == "all" {
        return Ok(catalogue::all().copied().collect());
    }
    match catalogue::find(name) {
        Some(scenario) => Ok(vec![*scenario]),
        None => Err(CliError::Scenario {
            name: name.to_owned(),
            near: near(name, catalogue::all().map(|scenario| scenario.name)),
        }),
    }
}

/// Names that somebody who typed `name` may have meant.
fn near(name: &str, names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let close = |other: &str| distance(name, other) <= 2 || (name.len() >= 3 && other.contains(name));
    names.filter(|other| close(other)).take(3).collect()
}

/// Letters to insert, remove or replace to get from one word to the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut diagonal = line;
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
        for (column, their) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *their);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

fn check_store(args: &SimulateArgs, chosen: &[Scenario]) -> Result<(), CliError> {
    if matches!(args.store.as_str(), "memory" | "sqlite") {
        return Ok(());
    }
    Kind::of(&args.store).map_err(|error| match CliError::of_store_url(error) {
        CliError::StoreUrl(problem) => CliError::StoreUrl(format!("{problem}; here also memory or sqlite")),
        other => other,
    })?;
    if chosen.len() > 1 {
        return Err(CliError::Together(
            "--store: every scenario needs an empty store of its own; with --scenario all use memory or sqlite",
        ));
    }
    Ok(())
}

fn telling(args: &SimulateArgs, scenario: Scenario, speed: f64) -> Run {
    Run {
        scenario,
        seed: args.seed,
        mode: Mode::Http {
            speed: args.speed.unwrap_or(speed),
            store: (args.store != "memory").then(|| args.store.clone()),
        },
        pools: args.pools,
        instances: args.instances,
        workers: args.workers,
        faults: None,
        keep_operator: args.keep_open,
    }
}

async fn tell(args: &SimulateArgs, chosen: &[Scenario]) -> Result<Told, CliError> {
    match chosen {
        [scenario] => tell_one(args, *scenario).await,
        _ if args.keep_open => Err(CliError::Together(
            "--keep-open: leaves one world open; choose one scenario",
        )),
        _ => tell_all(args, chosen).await,
    }
}

async fn tell_one(args: &SimulateArgs, scenario: Scenario) -> Result<Told, CliError> {
    let onlooker = match args.output {
        Output::Text => {
            output::line(&format!(
                "{}\n{}\n",
                scenario.name,
                output::wrapped(scenario.story, WIDTH, 2)
            ));
            Display::for_people(args.log != "off")
        }
        Output::Json => Display::Silent,
    };
    let (report, open) = run(&telling(args, scenario, SPEED), Box::new(onlooker))
        .await
        .map_err(CliError::Simulation)?;
    match args.output {
        Output::Text => {
            output::line(&format!("\n{}", summary(&report)));
        }
        Output::Json => print_json(&report)?,
    }
    complain_of(&report);
    Ok(Told {
        passed: report.passed,
        open: args.keep_open.then_some(open),
    })
}

async fn tell_all(args: &SimulateArgs, chosen: &[Scenario]) -> Result<Told, CliError> {
    let roster = Roster::of(chosen.len());
    let mut ended = futures::stream::iter(chosen.iter().copied())
        .map(|scenario| beside(telling(args, scenario, SPEED_OF_ALL), roster.clone()))
        .buffered(args.jobs)
        .enumerate();
    let mut first: Option<ScenarioReport> = None;
    let mut failed = 0_usize;
    while let Some((nth, report)) = ended.next().await {
        let report = report.map_err(CliError::Simulation)?;
        let line = roster.ended(nth + 1, &report);
        match args.output {
            Output::Text => roster.line(&line),
            Output::Json => {
                roster.note(&line);
                print_json(&report)?;
            }
        }
        if !report.passed {
            failed += 1;
            first.get_or_insert(report);
        }
    }
    drop(ended);
    if let Output::Text = args.output {
        output::line(&format!("{} of {} passed", chosen.len() - failed, chosen.len()));
    }
    if let Some(report) = &first {
        complain_of(report);
    }
    Ok(Told {
        passed: first.is_none(),
        open: None,
    })
}

/// Tells one of several stories as a task of its own, so that they share the machine's cores.
async fn beside(telling: Run, roster: Roster) -> Result<ScenarioReport, Broken> {
    let (name, seed) = (telling.scenario.name, telling.seed);
    let onlooker: Box<dyn Onlooker> = roster.entry(name);
    let story = async move { run(&telling, onlooker).await.map(|(report, _)| report) };
    let told = tokio::spawn(story.instrument(tracing::info_span!("story", name)));
    match told.await {
        Ok(told) => told,
        Err(error) => Ok(ScenarioReport {
            scenario: name.to_owned(),
            seed,
            violated: Some(format!("the scenario itself ended: {error}")),
            ..ScenarioReport::default()
        }),
    }
}

fn print_json(report: &ScenarioReport) -> Result<(), CliError> {
    let text = serde_json::to_string(report).map_err(CliError::Json)?;
    output::line(&text);
    Ok(())
}

fn complain_of(report: &ScenarioReport) {
    if !report.passed {
        let rule = report.violated.as_deref().unwrap_or("it did not pass");
        output::complain(&format!("{}, seed {}: {rule}", report.scenario, report.seed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_finds_the_one_that_was_meant() {
        let names = || ["drift", "mass-drift", "expiry"].into_iter();
        assert_eq!(near("drfit", names()), ["drift"]);
        assert_eq!(near("drift", names()), ["drift", "mass-drift"]);
        assert!(near("x", names()).is_empty());
        assert_eq!((distance("kitten", "sitting"), distance("", "abc")), (3, 3));
    }
}
