//! Gauges, computed from the process's status when the page is read.
//!
//! Nothing is kept between two reads, so a pool that is gone leaves no stale series behind.

use std::collections::BTreeMap;

use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::actors::inventory::InventoryAge;
use crate::actors::status::{Places, PoolStatus, ProcessStatus, Switch};
use crate::pool::desired::PoolMode;
use crate::pool::phase::Phase;
use crate::telemetry::counters::{COUNTERS, Labels};

type Gauges = Family<Labels, Gauge>;

/// The page could not be written: formatting into memory failed.
#[derive(Debug, thiserror::Error)]
#[error("the metrics page cannot be written: {0}")]
pub struct PageError(#[from] std::fmt::Error);

/// The OpenMetrics page of this status, and of the process's counters.
pub fn page(status: &ProcessStatus, now: Timestamp) -> Result<String, PageError> {
    let mut registry = Registry::default();
    COUNTERS.register(&mut registry);
    process_gauges(&mut registry, status);
    inventory_gauges(&mut registry, &status.inventory);
    let families = PoolFamilies::register(&mut registry);
    for (id, pool) in &status.pools {
        families.fill(id.as_str(), pool, now);
    }
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// How old what is known of the NodeClaims is, and how complete (K09, A03). Without a listing ever, no series: unknown is
/// no number.
fn inventory_gauges(registry: &mut Registry, inventory: &InventoryAge) {
    if let Some(age) = inventory.age {
        let seconds = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        gauge(
            registry,
            "trino_pool_nodeclaims_age_seconds",
            "Age of the last good listing of NodeClaims",
            seconds,
        );
        gauge(
            registry,
            "trino_pool_nodeclaims",
            "NodeClaims in it",
            count(inventory.claims),
        );
        gauge(
            registry,
            "trino_pool_undecodable_nodeclaims",
            "NodeClaims in it that cannot be read",
            count(inventory.undecodable),
        );
    }
    gauge(
        registry,
        "trino_pool_nodeclaims_fault",
        "1 while NodeClaims cannot be listed",
        i64::from(inventory.fault.is_some()),
    );
}

fn process_gauges(registry: &mut Registry, status: &ProcessStatus) {
    gauge(
        registry,
        "trino_pool_leader",
        "1 while this process leads",
        i64::from(status.leader),
    );
    if status.leader {
        places_gauges(registry, status.replacements);
    }
    gauge(
        registry,
        "trino_pool_undecodable_pools",
        "TrinoPools present and unreadable",
        count(status.undecodable_pools.len()),
    );
}

/// The replacement budget is the leader's to give; what another process knows of it is nothing.
fn places_gauges(registry: &mut Registry, places: Places) {
    for (name, help, number) in [
        (
            "trino_pool_replacement_places",
            "Pools that may have a planned replacement under way at once",
            places.allowed,
        ),
        (
            "trino_pool_replacement_places_held",
            "Pools that have one under way",
            places.held,
        ),
        (
            "trino_pool_replacement_places_awaited",
            "Pools that wait for a place",
            places.waiting,
        ),
    ] {
        gauge(registry, name, help, count(number));
    }
}

/// One gauge without labels.
fn gauge(registry: &mut Registry, name: &str, help: &str, value: i64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}

/// One family per question an operator asks of a pool.
struct PoolFamilies {
    serving: Gauges,
    desired: Gauges,
    floor: Gauges,
    instances: Gauges,
    oldest_drain: Gauges,
    replacements: Gauges,
    at_risk: Gauges,
    held: Gauges,
    plan: Gauges,
    node_replacement: Gauges,
    store_faults: Gauges,
    gateway_faults: Gauges,
}

impl PoolFamilies {
    fn register(registry: &mut Registry) -> Self {
        let mut family = |name: &str, help: &str| {
            let gauges = Gauges::default();
            registry.register(name, help, gauges.clone());
            gauges
        };
        Self {
            serving: family("trino_pool_serving", "Instances that serve"),
            desired: family("trino_pool_desired", "Instances that should serve"),
            floor: family("trino_pool_floor", "The serving floor"),
            instances: family("trino_pool_instances", "Instances by phase, zeros included"),
            oldest_drain: family(
                "trino_pool_oldest_drain_seconds",
                "For how long the oldest departure has been in its phase, 0 without one",
            ),
            replacements: family(
                "trino_pool_pending_replacements",
                "Serving instances with durable evidence",
            ),
            at_risk: family(
                "trino_pool_at_risk_instances",
                "Instances on a node of finite grace",
            ),
            held: family(
                "trino_pool_not_open",
                "1 while the pool is held, frozen, retained or emptied",
            ),
            plan: family(
                "trino_pool_plan",
                "1 for what the last plan does, or why it does nothing",
            ),
            node_replacement: family(
                "trino_pool_node_replacement",
                "1 for the state it is in: On, Off, Blocked, Unknown",
            ),
            store_faults: family("trino_pool_store_fault", "1 while the store does not take writes"),
            gateway_faults: family("trino_pool_gateway_fault", "1 while gateway steps wait"),
        }
    }

    fn fill(&self, id: &str, pool: &PoolStatus, now: Timestamp) {
        let of = |family: &Gauges, value: i64| {
            family.get_or_create(&vec![("pool", id.to_owned())]).set(value);
        };
        // Unknown is no number: a series that is not there cannot be taken for a pool of size zero.
        if let Some(desired) = pool.desired {
            of(&self.desired, i64::from(desired));
            self.count_instances(id, pool, now);
        }
        if let Some(floor) = pool.floor {
            of(&self.floor, i64::from(floor));
        }
        of(&self.store_faults, i64::from(pool.store.is_some()));
        of(&self.gateway_faults, i64::from(pool.gateway.is_some()));
        if let Some(mode) = mode_label(&pool.mode) {
            self.held
                .get_or_create(&vec![("pool", id.to_owned()), ("mode", mode.to_owned())])
                .set(1);
        }
        self.plan
            .get_or_create(&vec![
                ("pool", id.to_owned()),
                ("reason", pool.plan.label.clone()),
            ])
            .set(1);
        let state = match pool.node_replacement {
            Switch::Off => "Off",
            Switch::Unknown => "Unknown",
            Switch::On => "On",
            Switch::Blocked(_) => "Blocked",
        };
        self.node_replacement
            .get_or_create(&vec![("pool", id.to_owned()), ("state", state.to_owned())])
            .set(1);
    }

    fn count_instances(&self, id: &str, pool: &PoolStatus, now: Timestamp) {
        let of = |family: &Gauges, value: i64| {
            family.get_or_create(&vec![("pool", id.to_owned())]).set(value);
        };
        let at_risk = pool.instances.values().filter(|one| !one.at_risk.is_empty());
        of(&self.serving, i64::from(pool.serving));
        of(&self.oldest_drain, oldest_drain_seconds(pool, now));
        of(&self.replacements, replacements(pool));
        of(&self.at_risk, count(at_risk.count()));
        for (phase, number) in phases(pool) {
            let labels = vec![("pool", id.to_owned()), ("phase", phase.as_str().to_owned())];
            self.instances.get_or_create(&labels).set(number);
        }
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn phases(pool: &PoolStatus) -> BTreeMap<Phase, i64> {
    let mut counts: BTreeMap<Phase, i64> = Phase::KNOWN
        .into_iter()
        .chain([Phase::Unrecognised])
        .map(|phase| (phase, 0))
        .collect();
    for instance in pool.instances.values() {
        *counts.entry(instance.phase).or_default() += 1;
    }
    counts
}

fn replacements(pool: &PoolStatus) -> i64 {
    count(
        pool.instances
            .values()
            .filter(|one| one.phase == Phase::Serving && one.evidence.is_present())
            .count(),
    )
}

fn oldest_drain_seconds(pool: &PoolStatus, now: Timestamp) -> i64 {
    pool.instances
        .values()
        .filter(|one| one.phase.is_departing())
        .map(|one| now.duration_since(one.since).as_secs())
        .max()
        .unwrap_or(0)
}

fn mode_label(mode: &PoolMode) -> Option<&'static str> {
    match mode {
        PoolMode::Open => None,
        PoolMode::Held(_) => Some("Held"),
        PoolMode::Frozen(_) => Some("Frozen"),
        PoolMode::Retained => Some("Retained"),
        PoolMode::Emptying => Some("Emptying"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::status::PlanStatus;
    use crate::pool::ids::PoolId;

    #[test]
    fn k09_a03_how_old_the_inventory_is_stands_on_the_page() {
        let blind = ProcessStatus {
            inventory: InventoryAge {
                fault: Some(crate::pool::observation::Fault {
                    label: "KubernetesFailed",
                    subject: "nodeclaims".into(),
                    detail: "500".into(),
                }),
                ..InventoryAge::default()
            },
            ..ProcessStatus::default()
        };
        let page_of = |status: &ProcessStatus| page(status, Timestamp::UNIX_EPOCH).unwrap();
        assert!(page_of(&blind).contains("trino_pool_nodeclaims_fault 1"));
        assert!(
            !page_of(&blind).contains("trino_pool_nodeclaims_age_seconds"),
            "never listed"
        );
        let mut old = blind;
        old.inventory.age = Some(std::time::Duration::from_secs(90));
        old.inventory.claims = 7;
        for line in ["trino_pool_nodeclaims_age_seconds 90", "trino_pool_nodeclaims 7"] {
            assert!(page_of(&old).contains(line), "{line}");
        }
    }

    #[test]
    fn the_replacement_budget_stands_on_the_page_of_the_leader_alone() {
        let mut status = ProcessStatus {
            leader: true,
            replacements: Places {
                allowed: 4,
                held: 3,
                waiting: 9,
            },
            ..ProcessStatus::default()
        };
        let page_of = |status: &ProcessStatus| page(status, Timestamp::UNIX_EPOCH).unwrap();
        for line in [
            "trino_pool_replacement_places 4",
            "trino_pool_replacement_places_held 3",
            "trino_pool_replacement_places_awaited 9",
        ] {
            assert!(page_of(&status).lines().any(|told| told == line), "{line}");
        }
        status.leader = false;
        assert!(!page_of(&status).contains("replacement_places"));
    }

    #[test]
    fn what_is_not_known_of_a_pool_is_no_zero_on_the_page() {
        let mut status = ProcessStatus::default();
        status
            .pools
            .insert(PoolId::new("trino/analytics"), PoolStatus::default());
        let page = page(&status, Timestamp::UNIX_EPOCH).unwrap();
        let told: Vec<&str> = page
            .lines()
            .filter(|line| line.contains("trino/analytics"))
            .collect();
        let families: Vec<&str> = told
            .iter()
            .filter_map(|line| line.split_once('{').map(|(family, _)| family))
            .collect();
        assert_eq!(
            families,
            [
                "trino_pool_plan",
                "trino_pool_node_replacement",
                "trino_pool_store_fault",
                "trino_pool_gateway_fault",
            ],
            "{page}"
        );
    }

    #[test]
    fn the_page_answers_whether_a_pool_is_all_right() {
        let mut status = ProcessStatus {
            leader: true,
            ..ProcessStatus::default()
        };
        let pool = PoolStatus {
            serving: 2,
            desired: Some(3),
            floor: Some(3),
            mode: PoolMode::Held("spec.instances must be at least 1".into()),
            plan: PlanStatus {
                label: "NoSurgeBudget".into(),
                detail: String::new(),
            },
            ..PoolStatus::default()
        };
        status.pools.insert(PoolId::new("trino/analytics"), pool);
        let page = page(&status, Timestamp::UNIX_EPOCH).unwrap();
        for line in [
            "trino_pool_leader 1",
            "trino_pool_serving{pool=\"trino/analytics\"} 2",
            "trino_pool_instances{pool=\"trino/analytics\",phase=\"SERVING\"} 0",
            "trino_pool_not_open{pool=\"trino/analytics\",mode=\"Held\"} 1",
            "trino_pool_plan{pool=\"trino/analytics\",reason=\"NoSurgeBudget\"} 1",
        ] {
            assert!(page.contains(line), "{line} is not on the page:\n{page}");
        }
    }
}
