//! What the operator asks of its servers, counted: `cargo bench --bench api_load [-- --json --held-back 10x1000 …]`.
//!
//! For each size of fleet the real actors run over the simulated world in process and under virtual time. Counted
//! are the requests of a quiet pool set, per tick, and those of the replacement of one drifted node. Nothing is
//! timed, so a busy machine changes no figure, and one seed gives one table. Counts are the simulated servers' own
//! (`sim::kube::RequestLog` and its likes), never what the operator says of itself; the log holds no sizes, so
//! bytes are not reported. Beside ours stands what the first implementation of this job needs by its published
//! rule (`by_rule`): computed, never measured.
//!
//! Nothing holds the operator back: what is counted is what it asks for. With `--held-back` its client keeps the
//! limits of production (100 requests a second), and the rounds of many pools overlap: the column of ticks then says
//! how many there were in the minute that is counted, where 12 are regular.
//!
//! The world's rules are judged all the while: a figure of a run that broke one is not printed.

mod by_rule;
mod measure;
mod rig;
mod table;
mod tally;

use std::process::ExitCode;

use measure::{Row, Size};
use rig::BenchError;

/// The fleets, the one that others are compared with first.
const SIZES: [Size; 6] = [
    Size::new(1, 100),
    Size::new(1, 1_000),
    Size::new(10, 100),
    Size::new(10, 1_000),
    Size::new(50, 100),
    Size::new(50, 1_000),
];

/// What the command line asks for.
#[derive(Debug, Default)]
struct Wanted {
    json: bool,
    held_back: bool,
    /// The sizes by name; all when empty.
    only: Vec<Size>,
}

impl Wanted {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, BenchError> {
        let mut wanted = Self::default();
        for argument in arguments {
            match argument.as_str() {
                // Cargo says so to every benchmark.
                "--bench" => {}
                "--json" => wanted.json = true,
                "--held-back" => wanted.held_back = true,
                name => match SIZES.iter().find(|size| size.name() == name) {
                    Some(size) => wanted.only.push(*size),
                    None => return Err(BenchError::Usage(argument)),
                },
            }
        }
        Ok(wanted)
    }

    /// In the order of the table. The first size is always measured: the others are compared with it.
    fn sizes(&self) -> impl Iterator<Item = Size> {
        SIZES
            .into_iter()
            .enumerate()
            .filter(|(nth, size)| *nth == 0 || self.only.is_empty() || self.only.contains(size))
            .map(|(_, size)| size)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("api_load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), BenchError> {
    let wanted = Wanted::parse(std::env::args().skip(1))?;
    let sizes: Vec<Size> = wanted.sizes().collect();
    let mut rows: Vec<Row> = Vec::new();
    for (nth, size) in sizes.iter().enumerate() {
        let progress = |what: &str| {
            eprintln!("[{}/{}] {}: {what}", nth + 1, sizes.len(), size.words());
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .map_err(BenchError::Runtime)?;
        let mut row = runtime.block_on(measure::measure(*size, wanted.held_back, &progress))?;
        row.compare(rows.first());
        if wanted.json {
            println!("{}", serde_json::to_string(&row)?);
        }
        rows.push(row);
    }
    if !wanted.json {
        print!("{}", table::table(&rows, wanted.held_back));
    }
    Ok(())
}
