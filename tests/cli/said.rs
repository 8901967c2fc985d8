//! Running the binary to its end, and reading what it said.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

/// Longest time that anything here may take before it counts as hanging.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// What a finished process said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    /// A refusal at start: status 2, nothing on standard output, and one line on standard error.
    #[track_caller]
    pub fn refused(&self) -> &str {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        let line = self.err.trim_end_matches('\n');
        assert!(line.starts_with("trino-pool-operator: "), "{self:?}");
        assert!(!line.contains('\n'), "more than one line: {self:?}");
        assert!(!line.contains("panicked"), "{self:?}");
        line
    }
}

/// A process that is ended with its test.
pub struct Process {
    child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

/// The binary, with nothing of this environment that would change what it does.
pub fn binary(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Process {
    let mut child = Command::new(env!("CARGO_BIN_EXE_trino-pool-operator"))
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("TMPDIR", std::env::temp_dir())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = child.stdout.take().map(read);
    let err = child.stderr.take().map(read);
    Process { child, out, err }
}

/// Runs the binary to its end.
pub fn say(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Said {
    binary(arguments).ended()
}

impl Process {
    /// Its end, if it has come.
    pub fn over(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Sends SIGTERM, as a kubelet does.
    pub fn terminate(&self) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for its end.
    pub fn ended(mut self) -> Said {
        let begun = Instant::now();
        let code = loop {
            if let Some(status) = self.over() {
                break status.code();
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let text = |reader: Option<JoinHandle<String>>| reader.unwrap().join().unwrap();
        Said {
            code,
            out: text(self.out.take()),
            err: text(self.err.take()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }
}

fn read(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    })
}
