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

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

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

    /// The administrator's client.
    pub async fn administrator(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.unwrap()).unwrap()
    }

    /// The API server's audit log, a JSON object a line.
    pub fn audit_log(&self) -> PathBuf {
        self.state.join("audit.log")
    }

    /// Runs kubectl as the administrator; what it printed.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let output = Command::new(self.state.join("run/kubectl"))
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// How a person calls kubectl as the administrator.
    pub fn kubectl_words(&self) -> String {
        self.state.join("run/kubectl").display().to_string()
    }

    /// Kills one of the servers where it stands.
    pub fn kill(&self, part: &str) {
        self.script(&["kill", part]);
    }

    /// Starts a killed one again, and waits until it is ready.
    pub fn start_again(&self, part: &str) {
        self.script(&["start", part]);
    }

    fn script(&self, arguments: &[&str]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/control-plane");
        let output = Command::new(script)
            .args(arguments)
            .arg("--state")
            .arg(&self.state)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }

    /// Drops the history of everything, as the API server's own compactor does every five minutes. It watches this
    /// key, and some seconds later drops the versions that it has in memory too. The newest version itself outlives a
    /// compaction, so something is written first.
    pub async fn compact(&self) {
        let etcd = reqwest::Client::new();
        let ask = async |path: &str, question: Value| -> Value {
            let answer = etcd
                .post(format!("{}/v3/kv/{path}", self.etcd_url()))
                .json(&question);
            let answer = answer.send().await.unwrap().error_for_status().unwrap();
            answer.json().await.unwrap()
        };
        let key = BASE64_STANDARD.encode("compact_rev_key");
        let mark = async |revision: &str| {
            let value = BASE64_STANDARD.encode(revision);
            ask("put", json!({"key": key, "value": value})).await
        };
        let newest = mark("1").await;
        let revision = newest["header"]["revision"].as_str().unwrap();
        mark(revision).await;
        ask("compaction", json!({"revision": revision, "physical": true})).await;
    }

    /// Where etcd answers JSON over HTTP, as `http://127.0.0.1:PORT`.
    fn etcd_url(&self) -> String {
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
