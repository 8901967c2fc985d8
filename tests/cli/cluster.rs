//! A simulated cluster, gateway and coordinators over HTTP, for a process that knows nothing of simulations.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;
use trino_pool_operator::clock::SystemClock;
use trino_pool_operator::sim::kube::Resource;
use trino_pool_operator::sim::world::{
    ADMIN_TOKEN, NAMESPACE, Served, SharedWorld, World, WorldOptions, kubeconfig,
};

/// How much faster than the operator's the world's time passes: its pods start in a second or two.
const SPEED: f64 = 20.0;

/// The simulated cluster and the files that lead to it.
pub struct Cluster {
    pub world: SharedWorld,
    pub folder: TempDir,
    served: Served,
    stepping: tokio::task::JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stepping.abort();
    }
}

impl Cluster {
    /// One pool of one instance, desired and not yet there.
    pub async fn begin() -> Self {
        let options = WorldOptions {
            start: Timestamp::now(),
            instances: 1,
            workers: 1,
            ..WorldOptions::default()
        };
        let world = SharedWorld::new(World::new(options).unwrap());
        let served = world.serve().await.unwrap();
        let folder = TempDir::new().unwrap();
        let at = format!("http://{}", served.addresses.kube);
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig(&at)).unwrap();
        std::fs::write(folder.path().join("token"), format!("{ADMIN_TOKEN}\n")).unwrap();
        let (stepped, clock) = (world.clone(), Arc::new(SystemClock::at_speed(SPEED)));
        let stepping = tokio::spawn(async move { stepped.run(clock, Duration::from_millis(500)).await });
        Self {
            world,
            folder,
            served,
            stepping,
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `run` against this cluster.
    pub fn command(&self, store: &str, more: &[&str]) -> Vec<String> {
        let at = self.served.addresses;
        let mut line: Vec<String> = [
            "run",
            "--store",
            store,
            "--gateway-plain-http",
            "--node-replacement",
            "--listen",
            "127.0.0.1:0",
            "--lease-namespace",
            NAMESPACE,
            "--log-format",
            "json",
            "--gateway-url",
        ]
        .map(String::from)
        .into();
        line.push(format!("http://{}", at.gateway));
        line.push("--coordinator-address".into());
        line.push(format!("resolve={}", at.trino));
        for (option, file) in [("--kubeconfig", "kubeconfig"), ("--gateway-token-file", "token")] {
            line.push(option.into());
            line.push(self.file(file).display().to_string());
        }
        line.extend(more.iter().map(ToString::to_string));
        line
    }

    /// `check --protection` of this cluster.
    pub fn check(&self, more: &[&str]) -> Vec<String> {
        let kubeconfig = self.file("kubeconfig").display().to_string();
        let line = ["check", "--protection", "--kubeconfig", &kubeconfig];
        line.iter().chain(more).map(ToString::to_string).collect()
    }

    /// Who holds the Lease, if it exists.
    pub fn holder(&self) -> Option<String> {
        let lease = self.world.peek(|world| {
            world
                .kube
                .object(Resource::Leases, NAMESPACE, "trino-pool-operator")
        })?;
        let holder = &lease["spec"]["holderIdentity"];
        Some(holder.as_str().unwrap_or_default().to_owned())
    }

    /// `status.serving` of the pool, as the operator reports it.
    pub fn serving(&self) -> u64 {
        let pool = self.pool();
        pool.and_then(|pool| pool["status"]["serving"].as_u64())
            .unwrap_or(0)
    }

    /// `status.reason` of the pool, as the operator reports it.
    pub fn reason(&self) -> Option<String> {
        self.pool()?["status"]["reason"].as_str().map(String::from)
    }

    fn pool(&self) -> Option<Arc<Value>> {
        self.world
            .peek(|world| world.kube.object(Resource::TrinoPools, NAMESPACE, "analytics"))
    }
}
