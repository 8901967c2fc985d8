//! One story's own part of the cluster: namespace, NodePool, ServiceAccount, TrinoPools, traffic, operators.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::admin::{Admin, condition, until};
use crate::audit::{self, Asked};
use crate::cluster::Cluster;
use crate::objects::{node_pool, trino_pool};
use crate::operator::{Operator, Start, check_protection, sqlite};
use crate::postgres::{self, Server};
use crate::privileges::{self, Without};
use crate::traffic::RealTraffic;

const POOLS: &str = "/apis/trinopool.dev/v1alpha1/namespaces";

/// Where the operators' state lives.
pub enum Store {
    /// A file, for one operator.
    File,
    /// A database of the story's own on a PostgreSQL that it shares with others.
    Shared,
    /// On a PostgreSQL of its own, which it may take away.
    Own,
}

/// How a story begins.
pub struct Setup {
    pub pools: Vec<&'static str>,
    pub instances: u32,
    pub workers: u32,
    pub clients: usize,
    /// The process's own switch; the pools' is in their spec, and on.
    pub node_replacement: bool,
    /// Merged into each TrinoPool's spec.
    pub spec: Value,
    /// Merged into the NodePool's spec.
    pub node_pool: Value,
    /// A permission that the operator lacks.
    pub without: Option<Without>,
    /// Operators; with more than one they stand for election.
    pub replicas: usize,
    pub store: Store,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            pools: vec!["analytics"],
            instances: 2,
            workers: 1,
            clients: 3,
            node_replacement: true,
            spec: json!({}),
            node_pool: json!({}),
            without: None,
            replicas: 1,
            store: Store::File,
        }
    }
}

impl Setup {
    /// The serving floor of each pool.
    pub fn floor(&self) -> u32 {
        self.instances.saturating_sub(1).max(1)
    }
}

/// The story's part of the cluster.
pub struct Scene {
    pub admin: Admin,
    pub cluster: Cluster,
    pub traffic: RealTraffic,
    pub setup: Setup,
    /// Namespace and NodePool have the story's name.
    pub name: String,
    pub start: Start,
    pub operators: Vec<Operator>,
    /// The story's own PostgreSQL.
    pub server: Option<Server>,
    user: String,
    /// Store, kubeconfig, token and log of the operators.
    folder: Option<TempDir>,
}

impl Scene {
    /// Sets it; none where there is no PostgreSQL that it needs (which was said).
    pub async fn set(cluster: Cluster, name: &str, setup: Setup) -> Option<Self> {
        let name = format!("story-{name}");
        let folder = TempDir::with_prefix(format!("tpo-{name}.")).unwrap();
        let (server, store) = match setup.store {
            Store::File => (None, sqlite(folder.path())),
            Store::Shared => {
                let server = postgres::shared()?;
                (None, server.url(&server.database().await))
            }
            Store::Own => {
                let server = postgres::own()?;
                let url = server.url(&server.database().await);
                (Some(server), url)
            }
        };
        let admin = cluster.admin.clone();
        admin
            .create("/api/v1/namespaces", &json!({"metadata": {"name": name}}))
            .await;
        admin
            .create("/apis/karpenter.sh/v1/nodepools", &node_pool(&name, &setup))
            .await;
        let kubeconfig = privileges::service_account(&cluster, &name, setup.without, folder.path()).await;
        let traffic = RealTraffic::follow(&cluster.mirror, &name).await;
        for pool in &setup.pools {
            let path = format!("{POOLS}/{name}/trinopools");
            admin.create(&path, &trino_pool(&name, pool, &setup)).await;
        }
        let start = Start {
            folder: folder.path().to_owned(),
            kubeconfig,
            namespace: name.clone(),
            gateway: traffic.gateway,
            coordinators: traffic.coordinators,
            node_replacement: setup.node_replacement,
            store,
            elect: setup.replicas > 1,
        };
        start.prepare();
        let operators = (0..setup.replicas).map(|_| start.operator()).collect();
        println!("{name}: the operator logs to {}", start.log().display());
        let scene = Self {
            user: format!("system:serviceaccount:{name}:{}", privileges::ACCOUNT),
            admin,
            cluster,
            traffic,
            setup,
            name,
            start,
            operators,
            server,
            folder: Some(folder),
        };
        scene.until_all_serve().await;
        scene.let_clients_begin();
        Some(scene)
    }

    /// Clients of every pool begin; from now on no query may be lost.
    fn let_clients_begin(&self) {
        for pool in &self.setup.pools {
            self.traffic.start_clients(pool, self.setup.clients);
        }
        self.say("serves, and clients begin");
    }

    /// What happens, for whoever watches.
    pub fn say(&self, words: &str) {
        println!(
            "{:>7.1} {}: {words}",
            self.cluster.began.elapsed().as_secs_f64(),
            self.name
        );
    }

    /// Waits until something holds.
    pub async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        until(&format!("{what} ({})", self.name), async || {
            holds().await.then_some(())
        })
        .await;
    }

    // --- TrinoPools ---

    pub async fn pools(&self) -> Vec<Value> {
        self.admin
            .list(&format!("{POOLS}/{}/trinopools", self.name))
            .await
    }

    /// The status of a pool.
    pub async fn status(&self, pool: &str) -> Value {
        let read = self
            .admin
            .get(&format!("{POOLS}/{}/trinopools/{pool}", self.name))
            .await;
        read.map(|mut pool| pool["status"].take()).unwrap_or_default()
    }

    /// The status of the only pool.
    pub async fn only(&self) -> Value {
        self.status(self.setup.pools[0]).await
    }

    pub async fn patch_pool(&self, pool: &str, spec: &Value) {
        let path = format!("{POOLS}/{}/trinopools/{pool}", self.name);
        self.admin.patch(&path, &json!({"spec": spec})).await;
    }

    pub async fn delete_pool(&self, pool: &str) {
        self.admin
            .delete(&format!("{POOLS}/{}/trinopools/{pool}", self.name))
            .await;
    }

    /// The desired count serves in every pool, and nothing else is there.
    pub async fn until_all_serve(&self) {
        self.until("every pool to serve", async || {
            let pools = self.pools().await;
            let serve =
                |pool: &Value| pool["status"]["phases"] == json!({"SERVING": pool["spec"]["instances"]});
            pools.len() == self.setup.pools.len() && pools.iter().all(serve)
        })
        .await;
    }

    /// Whether a word stands in the reason, the message or a condition of the only pool's status.
    pub async fn tells(&self, word: &str) -> bool {
        self.only().await.to_string().contains(word)
    }

    /// Whether a condition of the only pool holds, and its words: `Reason: message`.
    pub async fn condition(&self, kind: &str) -> Option<(bool, String)> {
        let pool = json!({"status": self.only().await});
        let found = condition(&pool, kind)?;
        let word = |key: &str| found[key].as_str().unwrap_or_default();
        let words = format!("{}: {}", word("reason"), word("message"));
        Some((word("status") == "True", words))
    }

    /// The Events of a reason about the story's objects.
    pub async fn events(&self, reason: &str) -> Vec<Value> {
        let path = format!(
            "/api/v1/namespaces/{}/events?fieldSelector=reason%3D{reason}",
            self.name
        );
        self.admin.list(&path).await
    }

    // --- instances ---

    /// Ids of the instances that have a pod.
    pub fn instances(&self) -> BTreeSet<String> {
        let pods = self.cluster.mirror.pods(&self.name);
        let ids = pods.iter().filter_map(|pod| label(pod, "trinopool.dev/instance"));
        ids.map(str::to_owned).collect()
    }

    /// The pods of an instance, by their component.
    pub fn pods(&self, instance: &str, component: &str) -> Vec<Arc<Value>> {
        let mut pods = self.cluster.mirror.pods(&self.name);
        pods.retain(|pod| {
            label(pod, "trinopool.dev/instance") == Some(instance)
                && label(pod, "app.kubernetes.io/component") == Some(component)
        });
        pods
    }

    /// The node beneath an instance's pod of a component.
    pub fn node(&self, instance: &str, component: &str) -> String {
        let pods = self.pods(instance, component);
        pods[0]["spec"]["nodeName"].as_str().unwrap().to_owned()
    }

    /// Waits until none of these instances exists.
    pub async fn until_gone(&self, before: &BTreeSet<String>) {
        self.until(&format!("{before:?} to be replaced"), async || {
            self.instances().is_disjoint(before)
        })
        .await;
    }

    // --- what was asked, and what an administrator finds ---

    /// Asserts that `check --protection` finds nothing but these kinds of things, each at least once.
    pub fn is_found_by_check(&self, kinds: &[&str]) {
        let (status, report) = check_protection(&self.cluster.plane.kubeconfig(), &self.name);
        let findings = report["findings"].as_array().unwrap();
        let found: BTreeSet<&str> = findings.iter().filter_map(|one| one["kind"].as_str()).collect();
        assert_eq!(found, kinds.iter().copied().collect(), "{report}");
        assert_eq!(status, i32::from(!kinds.is_empty()));
        let pods = self.instances().len() * (1 + self.setup.workers as usize);
        assert_eq!(report["pods"]["live"], pods, "{report}");
    }

    /// What the operators asked of the API server so far.
    pub fn asked(&self) -> Vec<Asked> {
        audit::of(&self.cluster.audit_log, &self.user)
    }

    /// Identities and reasons of the evidence that was recorded, as the log says it once.
    pub fn accepted(&self) -> Vec<Value> {
        self.start.said("node replacement accepted")
    }

    /// How a story ends unless it says otherwise: everything serves, nothing drifts, no query was lost, the floor
    /// was kept, and nothing was asked of the API server that may not be asked.
    pub async fn ends_well(self) {
        self.until_all_serve().await;
        self.until_nothing_drifts().await;
        self.until_all_serve().await;
        self.lost_nothing();
        if self.cluster.stays {
            self.say("is over, and stays as it is until it is interrupted");
            std::future::pending::<()>().await;
        }
        self.leave();
    }

    /// No query was lost, and at no moment fewer than the floor served.
    pub fn lost_nothing(&self) {
        let counts = self.traffic.counts();
        assert!(counts.finished > 0);
        assert_eq!(counts.failed, 0, "{:?}", counts.failures);
        for (pool, fewest) in self.traffic.fewest_serving() {
            assert!(fewest >= self.setup.floor() as usize, "{fewest} served in {pool}");
        }
    }

    /// Ends the operators, and checks what they asked.
    pub fn leave(mut self) {
        self.operators.clear();
        let asked = self.asked();
        audit::check(&asked);
        let counts = self.traffic.counts();
        self.say(&format!(
            "over; {} requests of {} kinds, {} queries, {} lost",
            asked.len(),
            audit::kinds(&asked).len(),
            counts.started,
            counts.failed
        ));
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Whoever has to find out why a story failed needs the log.
        if std::thread::panicking()
            && let Some(folder) = self.folder.take()
        {
            println!("{}: store and log stay in {}", self.name, folder.keep().display());
        }
    }
}

fn label<'a>(object: &'a Value, label: &str) -> Option<&'a str> {
    object["metadata"]["labels"][label].as_str()
}
