//! The polling algorithm as the first implementation's facts describe it, carried out once for every pool.
//!
//! From the notes on its behaviour (`reference-behaviour`, section in brackets), in our own words:
//! - Each pool has a loop of its own, a tick every 5 s (4.7), and each tick's protection pass lists the
//!   NodeClaims anew: one list per pass, shared by the instances of that pool, in pages of 500 (7.1, 7.3, 14.19).
//! - A pass reads, for each instance, two Deployments by name, its pods by the instance's label, the ReplicaSet of each
//!   of them once, and each node once for the whole pass (7.2, 14.19).
//!
//! Retries, patches, and its status reads outside the pass are left out: each number is the least that the algorithm
//! asks for. Beyond 10,000 NodeClaims it refuses (4.7); what is calculated for more is what it would ask without that.

use std::collections::{BTreeMap, BTreeSet};

use kube::{Client, Config};
use serde_json::Value;
use trino_pool_operator::pool::names::{LABEL_INSTANCE, LABEL_POOL};
use trino_pool_operator::sim::kube::Resource;

use crate::args::{Mode, Size};
use crate::error::BenchError;
use crate::fleet::{Fleet, INSTANCES, PODS};
use crate::measure::{added, figure, total};
use crate::row::Row;

/// NodeClaims in one page of its list (4.7, 7.3).
const PAGE: u32 = 500;
/// Reads of one instance in one pass, nodes apart: two Deployments, one list of pods, two ReplicaSets (7.2).
const READS_OF_INSTANCE: u32 = 5;
/// The largest fleet for which it is carried out.
const LARGEST: Size = Size {
    pools: 50,
    claims: 10_000,
};
/// Whether it is carried out for this size, and not only calculated.
pub const fn is_measured(size: Size) -> bool {
    size.pools <= LARGEST.pools && size.claims <= LARGEST.claims
}

/// Requests of one tick by the formula; `nodes` are the distinct nodes of each pool, added up.
fn requests(size: Size, nodes: u32) -> u64 {
    let lists = u64::from(size.pools) * u64::from(size.claims.div_ceil(PAGE));
    let reads = u64::from(size.pools * INSTANCES * READS_OF_INSTANCE);
    lists + reads + u64::from(nodes)
}

/// The row of a fleet that is too large to be measured, every pod on a node of its own where there are so many. Bytes are those
/// of one NodeClaim, node and instance in the largest fleet that was measured; nothing when none was.
pub fn computed(size: Size, measured: &[Row]) -> Option<Row> {
    let known = measured
        .iter()
        .filter(|row| row.mode == Mode::Polling.as_str() && !row.computed)
        .max_by_key(|row| (row.nodeclaims, row.pools))?;
    let bytes = |what: &str| {
        let kind = known.by_kind.get(what).copied().unwrap_or_default();
        figure(kind.bytes_in + kind.bytes_out)
    };
    let known_nodes = figure(
        known
            .by_kind
            .get("GET nodes")
            .map_or(1, |kind| kind.requests.max(1)),
    );
    let known_lists = f64::from(known.pools) * f64::from(known.nodeclaims);
    let of_instance = ["GET deployments", "LIST pods", "GET replicasets"]
        .map(bytes)
        .iter()
        .sum::<f64>()
        / f64::from(known.pools * INSTANCES);

    let nodes = size.pools * (INSTANCES * PODS).min(size.claims);
    let asked = requests(size, nodes);
    let lists = f64::from(size.pools) * f64::from(size.claims);
    let pages = u64::from(size.pools) * u64::from(size.claims.div_ceil(PAGE));
    let pod_lists = u64::from(size.pools * INSTANCES);
    // A list takes a seat for every hundred objects of its kind, at most ten; anything else takes one.
    let seats = |objects: u32| u64::from(objects.div_ceil(100)).clamp(1, 10);
    let others = asked - pages - pod_lists;
    let of_pods = seats(size.pools * INSTANCES * PODS * 2);
    Some(Row {
        pools: size.pools,
        nodeclaims: size.claims,
        mode: Mode::Polling.as_str().to_owned(),
        phase: "quiet".to_owned(),
        requests_per_tick: figure(asked),
        bytes_per_tick: lists * bytes("LIST nodeclaims") / known_lists
            + f64::from(size.pools * INSTANCES) * of_instance
            + f64::from(nodes) * bytes("GET nodes") / known_nodes,
        seats_per_tick: figure(pages * seats(size.claims) + pod_lists * of_pods + others),
        computed: true,
        ..Row::default()
    })
}

/// Carries one tick of every pool out, and checks what was asked against the formula.
pub async fn measure(fleet: &Fleet) -> Result<Row, BenchError> {
    let failed = |error: String| BenchError::Broken(format!("no client for the polling algorithm: {error}"));
    let server = format!("http://{}", fleet.addresses().kube);
    let server = server.parse().map_err(|error| failed(format!("{error}")))?;
    let client = Client::try_from(Config::new(server)).map_err(|error| failed(error.to_string()))?;
    let poller = Poller {
        client,
        space: format!("/namespaces/{}", Fleet::NAMESPACE),
    };
    let pools = pools(fleet);
    let before = fleet.counted();
    let begun = std::time::Instant::now();
    let mut nodes = 0;
    for instances in pools.values() {
        nodes += poller.pass(instances).await?;
    }
    let kinds = added(&before.kubernetes, &fleet.counted().kubernetes);
    let asked = total(&kinds);
    let expected = requests(fleet.size(), nodes);
    if asked.requests != expected {
        let found = asked.requests;
        return Err(BenchError::Broken(format!(
            "the polling algorithm asked {found} times, the formula says {expected}"
        )));
    }
    Ok(Row {
        pools: fleet.size().pools,
        nodeclaims: fleet.size().claims,
        mode: Mode::Polling.as_str().to_owned(),
        phase: "quiet".to_owned(),
        requests_per_tick: figure(asked.requests),
        bytes_per_tick: figure(asked.bytes_in + asked.bytes_out),
        seats_per_tick: figure(asked.seats),
        seconds: begun.elapsed().as_secs_f64(),
        by_kind: kinds,
        ..Row::default()
    })
}

/// Instances of each pool, with their two Deployments.
fn pools(fleet: &Fleet) -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
    let mut pools: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let label = |object: &Value, key: &str| object["metadata"]["labels"][key].as_str().map(str::to_owned);
    for deployment in fleet.peek(|world| world.kube.objects(Resource::Deployments)) {
        let pool = label(&deployment, LABEL_POOL);
        let instance = label(&deployment, LABEL_INSTANCE);
        let name = deployment["metadata"]["name"].as_str();
        if let (Some(pool), Some(instance), Some(name)) = (pool, instance, name) {
            let of_pool = pools.entry(pool).or_default();
            of_pool.entry(instance).or_default().push(name.to_owned());
        }
    }
    pools
}

struct Poller {
    client: Client,
    space: String,
}

impl Poller {
    /// One pass over the instances of one pool; how many nodes it read.
    async fn pass(&self, instances: &BTreeMap<String, Vec<String>>) -> Result<u32, BenchError> {
        self.list_claims().await?;
        let mut nodes = BTreeSet::new();
        for (instance, deployments) in instances {
            for deployment in deployments {
                let path = format!("/apis/apps/v1{}/deployments/{deployment}", self.space);
                self.get(&path).await?;
            }
            let selector = format!("{}%3D{instance}", LABEL_INSTANCE.replace('/', "%2F"));
            let path = format!("/api/v1{}/pods?limit=500&labelSelector={selector}", self.space);
            let pods = self.get(&path).await?;
            let mut sets = BTreeSet::new();
            for pod in pods["items"].as_array().into_iter().flatten() {
                let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str();
                sets.extend(owner.map(str::to_owned));
                nodes.extend(pod["spec"]["nodeName"].as_str().map(str::to_owned));
            }
            for set in sets {
                let path = format!("/apis/apps/v1{}/replicasets/{set}", self.space);
                self.get(&path).await?;
            }
        }
        for node in &nodes {
            self.get(&format!("/api/v1/nodes/{node}")).await?;
        }
        Ok(u32::try_from(nodes.len()).unwrap_or(u32::MAX))
    }

    async fn list_claims(&self) -> Result<(), BenchError> {
        let mut token = String::new();
        loop {
            let path = format!("/apis/karpenter.sh/v1/nodeclaims?limit={PAGE}&continue={token}");
            let page = self.get(&path).await?;
            match page["metadata"]["continue"].as_str() {
                Some(next) if !next.is_empty() => next.clone_into(&mut token),
                _ => return Ok(()),
            }
        }
    }

    async fn get(&self, path: &str) -> Result<Value, BenchError> {
        let failed = |error: String| BenchError::Broken(format!("GET {path}: {error}"));
        let request = http::Request::get(path)
            .header("accept", "application/json")
            .header("user-agent", "polling")
            .body(Vec::new())
            .map_err(|error| failed(error.to_string()))?;
        let answer = self.client.request(request).await;
        answer.map_err(|error| failed(error.to_string()))
    }
}
