//! A real Kubernetes control plane of this test binary's own: `scripts/control-plane up --hold`.
//!
//! Owns one script, which owns the servers: it stops them and removes their files as soon as this process ends,
//! however it ends, because then its standard input does. Nothing is built here; a machine on which nothing
//! was built skips by name.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

/// A running control plane: etcd, API server, controllers, scheduler, KWOK, Karpenter.
pub struct ControlPlane {
    state: PathBuf,
    keeper: Child,
    // Its end tells the script to stop everything.
    line: Arc<Mutex<Option<ChildStdin>>>,
}

/// Why there can be none on this machine.
#[derive(Debug)]
pub struct Skip(pub String);

/// What the script says when something that it needs is not there.
const CANNOT_HERE: i32 = 3;

/// The control plane shared by the tests of this binary, started by the first that asks; none where it cannot
/// run. Under `TPO_REQUIRE_ALL=1` there must be one.
pub fn shared(what: &str) -> Option<&'static ControlPlane> {
    static SHARED: OnceLock<Result<ControlPlane, Skip>> = OnceLock::new();
    match SHARED.get_or_init(ControlPlane::start) {
        Ok(plane) => Some(plane),
        Err(Skip(why)) if std::env::var("TPO_REQUIRE_ALL").is_ok_and(|all| all == "1") => {
            panic!("{what} must not be skipped: {why}")
        }
        Err(Skip(why)) => {
            // On a line of its own, whatever the test runner has left on this one.
            println!("\nSKIPPED {what}: {why}");
            None
        }
    }
}

impl ControlPlane {
    /// Starts one and waits until all of it is ready. That it cannot run here is a [`Skip`]; that it does not
    /// start although it could is a failure.
    pub fn start() -> Result<Self, Skip> {
        let state = std::env::temp_dir().join(format!("tpo-control-plane.{}", uuid::Uuid::new_v4().simple()));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/control-plane");
        let mut keeper = Command::new(script)
            .args(["up", "--hold", "--state"])
            .arg(&state)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(keeper.stdout.take().unwrap());
        let line = Arc::new(Mutex::new(keeper.stdin.take()));
        if !stdout.lines().map_while(Result::ok).any(|said| said == "ready") {
            let output = keeper.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            assert_eq!(
                output.status.code(),
                Some(CANNOT_HERE),
                "the control plane did not start:\n{said}"
            );
            return Err(Skip(said.replace('\n', "; ")));
        }
        keep_after_a_panic(Arc::clone(&line), state.join("logs"));
        Ok(Self { state, keeper, line })
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.join("kubeconfig")
    }

    /// Where etcd answers JSON over HTTP, as `http://127.0.0.1:PORT`.
    pub fn etcd_url(&self) -> String {
        let ports = fs::read_to_string(self.state.join("ports")).unwrap();
        let port = ports.lines().find_map(|line| line.strip_prefix("etcd "));
        format!("http://127.0.0.1:{}", port.unwrap())
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        drop(self.line.lock().unwrap().take());
        self.keeper.wait().unwrap();
    }
}

/// A test that failed wants the servers' logs: then the script is told to leave the folder.
fn keep_after_a_panic(line: Arc<Mutex<Option<ChildStdin>>>, logs: PathBuf) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        if let Ok(mut line) = line.lock()
            && let Some(line) = line.as_mut()
            && line.write_all(b"keep\n").is_ok()
        {
            eprintln!("the control plane's logs stay in {}", logs.display());
        }
    }));
}
