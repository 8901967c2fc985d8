//! What a process costs the machine, as the kernel counts it for that process alone.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::BenchError;

/// Clock ticks a second in `/proc/<pid>/stat`: USER_HZ, 100 on every Linux that is built today.
const TICKS_PER_SECOND: u64 = 100;

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time, in user and kernel mode, of all its threads.
    pub cpu: Duration,
    /// Resident memory now, bytes.
    pub rss: u64,
    /// The most resident memory it ever had, bytes.
    pub peak: u64,
}

impl Usage {
    /// Reads what the kernel says of the process.
    pub fn of(pid: u32) -> Result<Self, BenchError> {
        let read = |name: &str| {
            let path = PathBuf::from(format!("/proc/{pid}/{name}"));
            fs::read_to_string(&path).map_err(BenchError::io(path))
        };
        let (stat, status) = (read("stat")?, read("status")?);
        let cpu = cpu_ticks(&stat)
            .ok_or_else(|| BenchError::Broken(format!("/proc/{pid}/stat cannot be read: {stat}")))?;
        let memory = |key: &str| {
            kibibytes(&status, key)
                .ok_or_else(|| BenchError::Broken(format!("/proc/{pid}/status has no {key}")))
        };
        Ok(Self {
            cpu: Duration::from_millis(cpu * 1000 / TICKS_PER_SECOND),
            rss: memory("VmRSS:")?,
            peak: memory("VmHWM:")?,
        })
    }
}

/// Fields 14 and 15, utime and stime. The second one is a name in parentheses, which may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn kibibytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(number * 1024)
}
