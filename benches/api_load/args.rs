//! What the command line asks for.

use std::path::PathBuf;
use std::time::Duration;

/// The size of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// TrinoPools.
    pub pools: u32,
    /// NodeClaims, each with its node.
    pub claims: u32,
}

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Ours, its inventory fed by watches.
    Watch,
    /// Ours, its inventory listed in each tick.
    List,
    /// The algorithm of the first implementation.
    Polling,
}

impl Mode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::List => "list",
            Self::Polling => "polling",
        }
    }
}

/// What happens while it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A process starts over a fleet that serves.
    Start,
    /// Nothing happens.
    Quiet,
    /// One node drifts.
    Drift,
    /// Every watch is cut and its version forgotten.
    Relist,
    /// The leader is killed.
    Takeover,
    /// A tenth of the nodes drift at once.
    Mass,
}

impl Phase {
    /// In the order in which a cell goes through them: what changes the fleet most comes last.
    pub const ALL: [Self; 6] = [
        Self::Start,
        Self::Quiet,
        Self::Relist,
        Self::Drift,
        Self::Takeover,
        Self::Mass,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Quiet => "quiet",
            Self::Drift => "drift",
            Self::Relist => "relist",
            Self::Takeover => "takeover",
            Self::Mass => "mass",
        }
    }
}

/// The command line.
#[derive(Clone, Debug)]
pub struct Args {
    pub cells: Vec<Size>,
    pub modes: Vec<Mode>,
    pub phases: Vec<Phase>,
    /// How long a quiet fleet is watched.
    pub quiet: Duration,
    /// How many replacements one after the other the drift phase measures.
    pub repeat: u32,
    pub out: PathBuf,
    pub sqlite: bool,
}

const USAGE: &str = "\
usage: cargo bench --bench api_load -- [options]
  --cells 1x100,50x1000   pools x NodeClaims (default: 1x100,1x1000,50x1000,50x10000)
  --all                   every cell of 1,50,200,1000 pools x 100,1000,10000,50000 NodeClaims, every phase and mode
  --mode watch,list,polling
  --phase start,quiet,relist,drift,takeover,mass
                          (default: start,quiet,relist,drift,takeover)
  --quiet-seconds N       how long a quiet fleet is watched (default 60)
  --repeat N              drifts measured one after the other (default 3)
  --store sqlite          a file instead of a PostgreSQL; statements are not counted then, and nobody takes over
  --out FILE              default target/bench/api_load.json";

impl Args {
    /// What is asked for, or how to ask.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self {
            cells: vec![size(1, 100), size(1, 1_000), size(50, 1_000), size(50, 10_000)],
            modes: vec![Mode::Watch, Mode::List, Mode::Polling],
            phases: Phase::ALL
                .into_iter()
                .filter(|phase| *phase != Phase::Mass)
                .collect(),
            quiet: Duration::from_mins(1),
            repeat: 3,
            out: PathBuf::from("target/bench/api_load.json"),
            sqlite: false,
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let missing = || format!("{argument} needs a value\n{USAGE}");
                arguments.next().ok_or_else(missing)
            };
            match argument.as_str() {
                // Cargo says so to every benchmark.
                "--bench" => {}
                "--help" | "-h" => return Err(USAGE.to_owned()),
                "--all" => {
                    let pools = [1, 50, 200, 1_000];
                    let claims = [100, 1_000, 10_000, 50_000];
                    args.cells = pools
                        .into_iter()
                        .flat_map(|pools| claims.map(|claims| size(pools, claims)))
                        .collect();
                    args.phases = Phase::ALL.to_vec();
                }
                "--cells" => args.cells = each(&value()?, parse_size)?,
                "--mode" => {
                    args.modes = each(&value()?, |name| {
                        let modes = [Mode::Watch, Mode::List, Mode::Polling];
                        modes.into_iter().find(|mode| mode.as_str() == name)
                    })?;
                }
                "--phase" => {
                    let named = each(&value()?, |name| {
                        Phase::ALL.into_iter().find(|phase| phase.as_str() == name)
                    })?;
                    args.phases = Phase::ALL
                        .into_iter()
                        .filter(|phase| named.contains(phase))
                        .collect();
                }
                "--quiet-seconds" => args.quiet = Duration::from_secs(number(&value()?)?.max(10)),
                "--repeat" => {
                    args.repeat = u32::try_from(number(&value()?)?).unwrap_or(u32::MAX).max(1);
                }
                "--store" => args.sqlite = value()? == "sqlite",
                "--out" => args.out = PathBuf::from(value()?),
                other => return Err(format!("unknown argument {other:?}\n{USAGE}")),
            }
        }
        Ok(args)
    }
}

const fn size(pools: u32, claims: u32) -> Size {
    Size { pools, claims }
}

fn parse_size(text: &str) -> Option<Size> {
    let (pools, claims) = text.split_once('x')?;
    let (pools, claims) = (pools.parse().ok()?, claims.parse().ok()?);
    (pools > 0 && claims > 0).then(|| size(pools, claims))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no number\n{USAGE}"))
}

fn each<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
    text.split(',')
        .map(|part| parse(part).ok_or_else(|| format!("{part:?} is not known\n{USAGE}")))
        .collect()
}
