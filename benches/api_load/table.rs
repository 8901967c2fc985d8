//! The figures as a person reads them: aligned plain text.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::measure::Row;
use crate::tally::Added;

/// Everything, one block after the other.
pub fn table(rows: &[Row], held_back: bool) -> String {
    let mut text = String::new();
    text.push_str(if held_back {
        "The operator's client keeps the limits of production: at most 100 requests a second.\n\n"
    } else {
        "Nothing holds the operator back.\n\n"
    });
    block(
        &mut text,
        "A quiet pool set: requests in a tick (tick: 5 s; 3 instances a pool, no clients)",
        &quiet(rows),
    );
    block(
        &mut text,
        "One drifted node: totals from the drift until what was on it is replaced and retired",
        &replacement(rows),
    );
    block(
        &mut text,
        "A quiet pool set: requests to the Kubernetes API in a tick, by kind",
        &by_kind(
            rows,
            |row| &row.quiet,
            |row, what| {
                row.quiet_per_tick
                    .kubernetes
                    .get(what)
                    .map(|count| format!("{count:.2}"))
            },
        ),
    );
    block(
        &mut text,
        "One drifted node: requests to the Kubernetes API, by kind",
        &by_kind(
            rows,
            |row| &row.replacement,
            |row, what| row.replacement.kubernetes.get(what).map(u64::to_string),
        ),
    );
    text.push_str(
        "* the first implementation of this job, by its rule, computed: the least that its published rule allows,\n  \
         never measured. Its replacement is given the ticks of ours.\n",
    );
    text
}

fn quiet(rows: &[Row]) -> Vec<Vec<String>> {
    let mut lines = vec![words(&[
        "pools",
        "claims",
        "kubernetes",
        "to the first",
        "nodeclaims",
        "gateway",
        "store",
        "ticks/min",
        "left out",
        "*nodeclaims",
        "*kubernetes",
    ])];
    for row in rows {
        let (each, rule) = (&row.quiet_per_tick, &row.first_implementation);
        lines.push(vec![
            row.pools.to_string(),
            row.claims.to_string(),
            format!("{:.2}", each.kubernetes_requests),
            format!("{:.2}x", row.quiet_relative),
            format!("{:.2}", each.nodeclaim_requests),
            format!("{:.2}", each.gateway_requests),
            format!("{:.2}", each.store_statements),
            row.quiet.ticks.to_string(),
            row.quiet.coalesced_ticks.to_string(),
            rule.quiet_nodeclaims_per_tick.to_string(),
            rule.quiet_kubernetes_per_tick.to_string(),
        ]);
    }
    lines
}

fn replacement(rows: &[Row]) -> Vec<Vec<String>> {
    let mut lines = vec![words(&[
        "pools",
        "claims",
        "replaced",
        "ticks",
        "kubernetes",
        "beyond quiet",
        "nodeclaims",
        "gateway",
        "store",
        "*nodeclaims",
    ])];
    for row in rows {
        let all = &row.replacement;
        lines.push(vec![
            row.pools.to_string(),
            row.claims.to_string(),
            row.replaced.to_string(),
            all.ticks.to_string(),
            all.kubernetes_requests.to_string(),
            format!("{:.0}", row.replacement_beyond_quiet),
            all.nodeclaim_requests.to_string(),
            all.gateway_requests.to_string(),
            all.store_statements.to_string(),
            row.first_implementation.replacement_nodeclaims.to_string(),
        ]);
    }
    lines
}

/// One line for each kind of request, one column for each row.
fn by_kind(
    rows: &[Row],
    of: impl Fn(&Row) -> &Added,
    cell: impl Fn(&Row, &str) -> Option<String>,
) -> Vec<Vec<String>> {
    let kinds: BTreeSet<&String> = rows.iter().flat_map(|row| of(row).kubernetes.keys()).collect();
    let mut head = vec!["pools x claims".to_owned()];
    head.extend(rows.iter().map(|row| format!("{}x{}", row.pools, row.claims)));
    let mut lines = vec![head];
    for kind in kinds {
        let mut line = vec![kind.clone()];
        line.extend(
            rows.iter()
                .map(|row| cell(row, kind).unwrap_or_else(|| "-".to_owned())),
        );
        lines.push(line);
    }
    lines
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A title and its lines; the first column to the left when it holds words, all others to the right.
fn block(text: &mut String, title: &str, lines: &[Vec<String>]) {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|nth| {
            lines
                .iter()
                .filter_map(|line| line.get(nth))
                .map(String::len)
                .max()
                .unwrap_or(0)
        })
        .collect();
    let worded = lines
        .iter()
        .skip(1)
        .filter_map(|line| line.first())
        .any(|cell| cell.contains(' '));
    text.push_str(title);
    text.push('\n');
    for line in lines {
        for (nth, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = if nth == 0 && worded {
                write!(text, "  {cell:<width$}")
            } else {
                write!(text, "  {cell:>width$}")
            };
        }
        text.push('\n');
    }
    text.push('\n');
}
