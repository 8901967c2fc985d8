//! One measurement of one cell, and the file of all of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use trino_pool_operator::sim::kube::Cost;

use crate::error::BenchError;

/// One measurement. What is per tick is shared out among the regular ticks of 5 s that passed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    pub pools: u32,
    pub nodeclaims: u32,
    /// `watch`, `list` or `polling`.
    pub mode: String,
    /// `start`, `quiet`, `relist`, `drift`, `takeover` or `mass`.
    pub phase: String,
    /// To the Kubernetes API; the Lease is left out, and stands in `by_kind`.
    pub requests_per_tick: f64,
    /// Both ways, those of open watches included.
    pub bytes_per_tick: f64,
    pub seats_per_tick: f64,
    /// Of the operator's process; nothing for the polling algorithm, which is no process of its own.
    pub cpu_ms_per_tick: Option<f64>,
    /// Resident memory at the end.
    pub rss_bytes: Option<u64>,
    pub store_statements_per_tick: Option<f64>,
    /// Calculated from the formula, not measured.
    pub computed: bool,
    /// How long it was watched.
    pub seconds: f64,
    /// The most resident memory since the process began.
    pub peak_rss_bytes: Option<u64>,
    pub gateway_requests_per_tick: f64,
    pub coordinator_requests_per_tick: f64,
    /// Rounds left out because the last one was still under way, of all pools.
    pub missed_ticks: Option<u64>,
    /// Totals by `<VERB> <resource>`.
    pub by_kind: BTreeMap<String, Cost>,
    /// What only this phase has, by name.
    pub more: BTreeMap<String, f64>,
    /// The day, and how the operator was built.
    pub date: String,
    pub build: String,
}

impl Row {
    /// Whether both say how the same cell fares.
    fn is_of(&self, other: &Self) -> bool {
        let key = |row: &Self| (row.pools, row.nodeclaims, row.mode.clone(), row.phase.clone());
        key(self) == key(other)
    }
}

/// The file.
pub struct Results {
    path: PathBuf,
    rows: Vec<Row>,
}

impl Results {
    /// Reads it; there may be none yet.
    pub fn load(path: &Path) -> Result<Self, BenchError> {
        let rows = match fs::read(path) {
            Ok(text) => {
                serde_json::from_slice(&text).map_err(|error| BenchError::Json(path.to_owned(), error))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(BenchError::Io(path.to_owned(), error)),
        };
        Ok(Self {
            path: path.to_owned(),
            rows,
        })
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Adds a measurement in the place of an older one of the same, and writes the file.
    pub fn add(&mut self, mut row: Row) -> Result<(), BenchError> {
        row.date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        let build = if cfg!(debug_assertions) {
            "development"
        } else {
            "release"
        };
        build.clone_into(&mut row.build);
        self.rows.retain(|old| !old.is_of(&row));
        self.rows.push(row);
        self.rows.sort_by_key(|row| (row.pools, row.nodeclaims));
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(BenchError::io(folder))?;
        }
        let text = serde_json::to_vec_pretty(&self.rows);
        let text = text.map_err(|error| BenchError::Json(self.path.clone(), error))?;
        fs::write(&self.path, text).map_err(BenchError::io(&self.path))
    }
}
