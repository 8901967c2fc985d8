//! What a client runs: one script after another, drawn from a mix.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// How often each kind of work is drawn, relative to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// `SELECT 1`.
    pub short: u32,
    /// Computes for [`Mix::long_for`].
    pub long: u32,
    /// Reads a paged result a page every few seconds.
    pub slow_reader: u32,
    /// START TRANSACTION, statements with pauses between them, COMMIT.
    pub transaction: u32,
    /// How long a long query computes, from and to.
    pub long_for: (Duration, Duration),
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            short: 5,
            long: 3,
            slow_reader: 1,
            transaction: 1,
            long_for: (Duration::from_secs(5), Duration::from_mins(1)),
        }
    }
}

/// Statements of one client, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    pub statements: Vec<String>,
    /// Pause between two pages.
    pub between_pages: Duration,
    /// Pause between two statements.
    pub between_statements: Duration,
}

impl Script {
    pub(super) fn draw(mix: &Mix, rng: &mut ChaCha8Rng) -> Self {
        let total = (mix.short + mix.long + mix.slow_reader + mix.transaction).max(1);
        let drawn = rng.random_range(0..total);
        if drawn < mix.long {
            return Self::one(long(mix, rng), Duration::from_secs(1));
        }
        if drawn < mix.long + mix.slow_reader {
            let rows = rng.random_range(20..=80_u32);
            let sql = format!("SELECT sequential_number FROM TABLE(sequence(start => 1, stop => {rows}))");
            return Self::one(sql, Duration::from_secs(rng.random_range(2..=8)));
        }
        if drawn < mix.long + mix.slow_reader + mix.transaction {
            return Self {
                statements: vec![
                    "START TRANSACTION".to_owned(),
                    "SELECT 1".to_owned(),
                    long(mix, rng),
                    "COMMIT".to_owned(),
                ],
                between_pages: Duration::from_secs(1),
                between_statements: Duration::from_secs(rng.random_range(1..=15)),
            };
        }
        Self::one("SELECT 1".to_owned(), Duration::from_millis(100))
    }

    fn one(sql: String, between_pages: Duration) -> Self {
        Self {
            statements: vec![sql],
            between_pages,
            between_statements: Duration::ZERO,
        }
    }
}

fn long(mix: &Mix, rng: &mut ChaCha8Rng) -> String {
    let (from, to) = mix.long_for;
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let runs_for = rng.random_range(millis(from)..=millis(to).max(millis(from)));
    // 70 ns a row: the rate at which the simulated coordinator counts a sequence.
    let rows = runs_for.saturating_mul(1_000_000) / 70;
    format!("SELECT count(*) FROM TABLE(sequence(start => 1, stop => {rows}))")
}
