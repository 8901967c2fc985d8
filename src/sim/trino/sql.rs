//! The few statements a simulated coordinator understands, and the work they are.

use std::time::Duration;

use serde_json::{Value, json};

/// What a statement comes to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Work {
    /// Runs for a while, then gives its rows page by page.
    Rows {
        columns: Vec<(&'static str, &'static str)>,
        pages: Vec<Vec<Value>>,
        runs_for: Duration,
    },
    /// START TRANSACTION
    Start,
    /// COMMIT or ROLLBACK
    End,
    /// Fails, by error name and message.
    Fails(&'static str, String),
}

/// What the metadata statements see.
pub(super) struct Cluster<'a> {
    pub catalogs: Vec<&'a str>,
    pub coordinator: &'a str,
    pub workers: Vec<&'a str>,
}

/// Rows in one result page of a simulated scan.
const PAGE_ROWS: u64 = 10;

/// Trino 483 counted a sequence of 100 million in 7 s on the machine where it was measured.
const NANOSECONDS_PER_ROW: u64 = 70;

/// Reads a statement. Anything unknown fails as Trino fails a statement it cannot parse.
pub(super) fn plan(sql: &str, cluster: &Cluster<'_>) -> Work {
    let words = sql
        .trim()
        .trim_end_matches(';')
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let upper = words.to_ascii_uppercase();
    if upper == "SHOW CATALOGS" {
        let mut names: Vec<&str> = cluster.catalogs.iter().copied().chain(["system"]).collect();
        names.sort_unstable();
        return metadata(
            vec![("Catalog", "varchar")],
            names.into_iter().map(|name| json!([name])).collect(),
        );
    }
    if upper == "SELECT NODE_ID, COORDINATOR, STATE FROM SYSTEM.RUNTIME.NODES" {
        let mut rows = vec![json!([cluster.coordinator, true, "active"])];
        rows.extend(cluster.workers.iter().map(|id| json!([id, false, "active"])));
        return metadata(
            vec![
                ("node_id", "varchar"),
                ("coordinator", "boolean"),
                ("state", "varchar"),
            ],
            rows,
        );
    }
    if upper.starts_with("START TRANSACTION") {
        return Work::Start;
    }
    if upper == "COMMIT" || upper == "ROLLBACK" {
        return Work::End;
    }
    if upper == "SELECT 1" {
        return metadata(vec![("_col0", "integer")], vec![json!([1])]);
    }
    if let Some(stop) = sequence_stop(&upper) {
        let runs_for = Duration::from_nanos(stop.saturating_mul(NANOSECONDS_PER_ROW));
        if upper.starts_with("SELECT COUNT(*) FROM") {
            return Work::Rows {
                columns: vec![("_col0", "bigint")],
                pages: vec![vec![json!([stop])]],
                runs_for,
            };
        }
        if upper.starts_with("SELECT SEQUENTIAL_NUMBER FROM") && stop <= 1000 {
            let rows: Vec<Value> = (1..=stop).map(|row| json!([row])).collect();
            let pages = rows
                .chunks(usize::try_from(PAGE_ROWS).unwrap_or(1))
                .map(<[Value]>::to_vec)
                .collect();
            return Work::Rows {
                columns: vec![("sequential_number", "bigint")],
                pages,
                runs_for,
            };
        }
    }
    Work::Fails(
        "SYNTAX_ERROR",
        format!("the simulated coordinator does not know: {words}"),
    )
}

fn metadata(columns: Vec<(&'static str, &'static str)>, rows: Vec<Value>) -> Work {
    Work::Rows {
        columns,
        pages: vec![rows],
        runs_for: Duration::ZERO,
    }
}

/// N of `… FROM TABLE(SEQUENCE(START => 1, STOP => N))`.
fn sequence_stop(upper: &str) -> Option<u64> {
    let (_, rest) = upper.split_once(" FROM TABLE(SEQUENCE(START => 1, STOP => ")?;
    rest.strip_suffix("))")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster<'static> {
        Cluster {
            catalogs: vec!["tpch", "memory"],
            coordinator: "c",
            workers: vec!["w1"],
        }
    }

    #[test]
    fn a_sequence_runs_as_long_as_it_was_measured() {
        let work = plan(
            "SELECT count(*) FROM TABLE(sequence(start => 1, stop => 100000000))",
            &cluster(),
        );
        let Work::Rows { runs_for, .. } = work else {
            panic!("{work:?}");
        };
        assert_eq!(runs_for, Duration::from_secs(7));
    }

    #[test]
    fn a_listing_is_paged() {
        let work = plan(
            "select sequential_number from table(sequence(start => 1, stop => 25))",
            &cluster(),
        );
        let Work::Rows { pages, .. } = work else {
            panic!("{work:?}");
        };
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5]);
    }

    #[test]
    fn an_unknown_statement_fails() {
        assert!(matches!(plan("DROP TABLE t", &cluster()), Work::Fails(..)));
    }
}
