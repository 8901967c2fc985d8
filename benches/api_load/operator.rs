//! The operator as its own process: starts it, reads its page, ends it.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::args::Mode;
use crate::error::BenchError;
use crate::fleet::Fleet;
use crate::process::Usage;

const BINARY: &str = env!("CARGO_BIN_EXE_trino-pool-operator");

/// How long a process may take to end after SIGTERM.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// A running operator; killed when dropped.
pub struct Operator {
    child: Child,
    page: SocketAddr,
    log: PathBuf,
    /// When it was started.
    pub started: Instant,
}

/// Whether the built operator can be told how to read its inventory. One that cannot runs as it is, and only once.
pub fn knows_inventory() -> Result<bool, BenchError> {
    let output = Command::new(BINARY)
        .args(["run", "--help"])
        .output()
        .map_err(BenchError::io(BINARY))?;
    Ok(String::from_utf8_lossy(&output.stdout).contains("--inventory"))
}

/// Makes the store's schema.
pub fn migrate(store: &str) -> Result<(), BenchError> {
    let status = Command::new(BINARY)
        .args(["migrate", "--log", "warn", "--store", store])
        .status()
        .map_err(BenchError::io(BINARY))?;
    if status.success() {
        Ok(())
    } else {
        Err(BenchError::Broken("the store cannot be migrated".to_owned()))
    }
}

impl Operator {
    /// Starts one over the fleet. `elect`: it stands for election under this name.
    pub fn start(fleet: &Fleet, store: &str, mode: Mode, elect: Option<&str>) -> Result<Self, BenchError> {
        let page = free_address()?;
        let log = fleet.file("operator.log");
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(BenchError::io(&log))?;
        let err = out.try_clone().map_err(BenchError::io(&log))?;
        let at = fleet.addresses();
        let mut command = Command::new(BINARY);
        command
            .args([
                "run",
                "--node-replacement",
                "--gateway-plain-http",
                "--log-format",
                "json",
            ])
            .args(["--log", "warn", "--store", store])
            .args(["--listen", &page.to_string()])
            .args(["--gateway-url", &format!("http://{}", at.gateway)])
            .args(["--coordinator-address", &format!("resolve={}", at.trino)])
            .args(["--lease-namespace", Fleet::NAMESPACE])
            .arg("--kubeconfig")
            .arg(fleet.file("kubeconfig"))
            .arg("--gateway-token-file")
            .arg(fleet.file("token"))
            .stdout(out)
            .stderr(err);
        match elect {
            Some(name) => command.args(["--identity", name]),
            None => command.arg("--no-leader-election"),
        };
        if knows_inventory()? {
            command.args(["--inventory", mode.as_str()]);
        }
        Ok(Self {
            child: command.spawn().map_err(BenchError::io(BINARY))?,
            page,
            log,
            started: Instant::now(),
        })
    }

    /// What it has used so far.
    pub fn usage(&self) -> Result<Usage, BenchError> {
        Usage::of(self.child.id())
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// An error once something that is waited for since `begun` can no longer happen in time: the process has ended, or
    /// `patience` has.
    pub fn awaited(&mut self, what: &str, begun: Instant, patience: Duration) -> Result<(), BenchError> {
        if !self.runs() {
            return Err(BenchError::Ended {
                before: what.to_owned(),
                log: self.log.clone(),
            });
        }
        if begun.elapsed() > patience {
            return Err(BenchError::Late {
                what: what.to_owned(),
                seconds: patience.as_secs(),
                log: self.log.clone(),
            });
        }
        Ok(())
    }

    /// Its metrics; nothing while it does not answer yet.
    pub async fn metrics(&self) -> Option<String> {
        let mut stream = TcpStream::connect(self.page).await.ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        Some(text)
    }

    /// Pools about which it has decided something: what it does, or why it does nothing.
    pub async fn decided(&self) -> usize {
        let page = self.metrics().await.unwrap_or_default();
        page.lines()
            .filter(|line| line.starts_with("trino_pool_plan{") && !line.contains("reason=\"\""))
            .count()
    }

    /// Rounds that were left out because the last one was still under way, of all pools; none while it does not answer.
    pub async fn missed_ticks(&self) -> Option<u64> {
        let page = self.metrics().await?;
        let counts = page
            .lines()
            .filter(|line| line.starts_with("trino_pool_coalesced_ticks_total"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let sum = counts.sum::<f64>() as u64;
        Some(sum)
    }

    /// Kills it.
    pub fn kill(mut self) {
        end(&mut self.child);
    }

    /// Ends it in order.
    pub async fn stop(mut self) -> Result<(), BenchError> {
        let sent = Command::new("kill")
            .arg(self.child.id().to_string())
            .status()
            .map_err(BenchError::io("kill"))?;
        let begun = Instant::now();
        while sent.success() && self.runs() {
            if begun.elapsed() > ENDS_WITHIN {
                return Err(BenchError::Late {
                    what: "the operator ends after SIGTERM".to_owned(),
                    seconds: ENDS_WITHIN.as_secs(),
                    log: self.log.clone(),
                });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    // It may have ended by itself; then there is nothing to kill.
    let _ = child.kill();
    let _ = child.wait();
}

/// An address that was free a moment ago.
fn free_address() -> Result<SocketAddr, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(BenchError::io("127.0.0.1"))?;
    listener.local_addr().map_err(BenchError::io("127.0.0.1"))
}
