//! What the operator costs its servers and its machine, by size of fleet: `cargo bench --bench api_load -- --help`.
//!
//! The simulated world serves HTTP on 127.0.0.1, and the operator is the built binary's `run` in a process of its own,
//! with a PostgreSQL of the bench's own. Requests, bytes and seats are counted at the servers, never what the operator says of
//! itself; its memory and processor time are read from `/proc` of that process alone. Beside it stands the polling
//! algorithm of the first implementation of this job, carried out in this bench (`polling`).
//!
//! Each measurement is added to `target/bench/api_load.json`, in the place of an older one of the same cell.

mod args;
mod error;
mod fleet;
mod latency;
mod measure;
mod operator;
mod phases;
mod polling;
mod process;
mod row;
mod session;
mod store;
mod table;

#[path = "../../tests/support/postgres.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared with the tests, which use more of it and may stop at the first surprise"
)]
mod postgres;

use std::process::ExitCode;
use std::time::Instant;

use args::{Args, Mode};
use error::BenchError;
use row::Results;

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("api_load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(BenchError::Runtime)?;
    let begun = Instant::now();
    let mut results = Results::load(&args.out)?;
    for (nth, size) in args.cells.iter().enumerate() {
        let told = move |what: &str| {
            let at = begun.elapsed().as_secs();
            eprintln!("[{at:>5} s] {}x{}: {what}", size.pools, size.claims);
        };
        eprintln!("cell {} of {}", nth + 1, args.cells.len());
        if args.modes.contains(&Mode::Polling) && !polling::is_measured(*size) {
            match polling::computed(*size, results.rows()) {
                Some(row) => results.add(row)?,
                None => told("the polling algorithm: nothing smaller was measured to calculate from"),
            }
        }
        runtime.block_on(session::cell(*size, args, &mut results, &told))?;
    }
    print!("{}", table::table(results.rows()));
    Ok(())
}
