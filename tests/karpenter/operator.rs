//! The operator as its own process, under its own ServiceAccount; and what a person does to processes.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_trino-pool-operator");

/// A running operator; killed when dropped.
pub struct Operator {
    child: Child,
    identity: String,
}

/// What operators of one story have in common.
pub struct Start {
    /// For the token and the log.
    pub folder: PathBuf,
    pub kubeconfig: PathBuf,
    pub namespace: String,
    pub gateway: SocketAddr,
    pub coordinators: SocketAddr,
    /// The process's own switch.
    pub node_replacement: bool,
    /// Its URL.
    pub store: String,
    /// Whether they stand for election.
    pub elect: bool,
}

impl Start {
    /// Makes the store's schema, and writes the gateway's token down.
    pub fn prepare(&self) {
        fs::write(self.token(), crate::traffic::TOKEN).unwrap();
        let migrated = Command::new(BINARY)
            .args(["migrate", "--log", "warn", "--store", &self.store])
            .status()
            .unwrap();
        assert!(migrated.success());
    }

    /// Starts one. All write into one log.
    pub fn operator(&self) -> Operator {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let identity = format!("operator-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let out = File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .unwrap();
        let mut command = Command::new(BINARY);
        command
            .args(["run", "--gateway-plain-http", "--log-format", "json"])
            .args(["--listen", "127.0.0.1:0", "--store", &self.store])
            .args(["--namespace", &self.namespace])
            .args(["--lease-namespace", &self.namespace])
            .args(["--identity", &identity])
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--gateway-url")
            .arg(format!("http://{}", self.gateway))
            .arg("--gateway-token-file")
            .arg(self.token())
            .arg("--coordinator-address")
            .arg(format!("resolve={}", self.coordinators))
            .stderr(out.try_clone().unwrap())
            .stdout(out);
        if self.node_replacement {
            command.arg("--node-replacement");
        }
        if !self.elect {
            command.arg("--no-leader-election");
        }
        Operator {
            child: command.spawn().unwrap(),
            identity,
        }
    }

    /// The fields of every line of the log with these words.
    pub fn said(&self, words: &str) -> Vec<Value> {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["message"] == words).collect()
    }

    /// Where they log, for whoever has to look.
    pub fn log(&self) -> PathBuf {
        self.folder.join("operator.log")
    }

    fn token(&self) -> PathBuf {
        self.folder.join("gateway-token")
    }
}

impl Operator {
    /// Its name in the Lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops it in its tracks, until [`Self::resume`].
    pub fn pause(&self) {
        signal("STOP", self.id());
    }

    pub fn resume(&self) {
        signal("CONT", self.id());
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

/// What `check --protection` finds in a namespace: its exit status, and its report.
pub fn check_protection(kubeconfig: &Path, namespace: &str) -> (i32, Value) {
    let output = Command::new(BINARY)
        .args([
            "check",
            "--protection",
            "--output",
            "json",
            "--namespace",
            namespace,
            "--kubeconfig",
        ])
        .arg(kubeconfig)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (output.status.code().unwrap(), report)
}

/// Sends a signal; it has been delivered when this returns.
pub fn signal(name: &str, process: u32) {
    let sent = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(process.to_string())
        .status();
    assert!(sent.unwrap().success(), "kill -{name} {process}");
}

impl Drop for Operator {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file below a folder, as `sqlite:` names it.
pub fn sqlite(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("store.db").display())
}
