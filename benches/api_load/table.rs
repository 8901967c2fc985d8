//! The figures as a person reads them on a terminal.

use std::fmt::Write;

use crate::row::Row;

const HEAD: [&str; 11] = [
    "pools", "claims", "phase", "mode", "requests", "bytes", "seats", "cpu ms", "rss MB", "store", "",
];

/// Every row: what is per tick of 5 s, and the memory.
pub fn table(rows: &[Row]) -> String {
    let mut lines = vec![HEAD.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        vec![
            row.pools.to_string(),
            row.nodeclaims.to_string(),
            row.phase.clone(),
            row.mode.clone(),
            format!("{:.2}", row.requests_per_tick),
            format!("{:.0}", row.bytes_per_tick),
            format!("{:.2}", row.seats_per_tick),
            optional(row.cpu_ms_per_tick, 1),
            optional(row.rss_bytes.map(megabytes), 1),
            optional(row.store_statements_per_tick, 2),
            if row.computed { "computed" } else { "" }.to_owned(),
        ]
    }));
    let width = |nth: usize| lines.iter().map(|line| line[nth].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::from("per tick of 5 s:\n");
    for line in &lines {
        for (cell, width) in line.iter().zip(&widths) {
            // Writing to a string cannot fail.
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
    text
}

/// A figure that may be missing.
pub fn optional(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Bytes as millions of them.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
