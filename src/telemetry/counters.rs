//! The counters of the process, registered once, named `trino_pool_<noun>_<unit>_total`.
//!
//! They are process-wide because Prometheus sees one process. A counter only ever rises; whoever wants
//! "now" reads the status.

use std::sync::LazyLock;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Label names and values, in a fixed order per family.
pub type Labels = Vec<(&'static str, String)>;

/// A counter per combination of label values.
pub type Counters = Family<Labels, Counter>;

/// Every counter of the process.
#[derive(Debug, Default)]
pub struct ProcessCounters {
    /// First acceptances of a node replacement, by pool and reason.
    pub evidence: Counters,
    /// Cordons, by pool and outcome.
    pub cordons: Counters,
    /// Pods whose protection was set or repaired, by pool and what was found.
    pub protections: Counters,
    /// Lifecycle actions started, by pool and action.
    pub actions: Counters,
    /// Phase changes, by pool and phase reached.
    pub phases: Counters,
    /// Effects, by effect and outcome.
    pub effects: Counters,
    /// Actor restarts, by actor kind and reason.
    pub restarts: Counters,
    /// Messages dropped because they belong to an older tick or term, by kind.
    pub stale_messages: Counters,
    /// Ticks that found the previous one still running, by pool.
    pub coalesced_ticks: Counters,
    /// Inventory refreshes, by outcome.
    pub inventory_refreshes: Counters,
    /// Changes of leadership, by what happened.
    pub leadership: Counters,
    /// Candidates given up, by pool and cause.
    pub candidate_failures: Counters,
    /// Objects that could not be decoded, by kind.
    pub undecodable: Counters,
    /// Specs refused, by pool.
    pub invalid_specs: Counters,
    /// Fenced writes refused, by pool.
    pub fenced: Counters,
}

impl ProcessCounters {
    /// Registers every counter under its name and help text.
    pub fn register(&self, registry: &mut Registry) {
        let families: [(&str, &str, &Counters); 15] = [
            (
                "trino_pool_evidence",
                "Node replacements accepted for the first time",
                &self.evidence,
            ),
            (
                "trino_pool_cordons",
                "Cordons of exact nodes, by outcome",
                &self.cordons,
            ),
            (
                "trino_pool_pod_protections",
                "Pods whose do-not-disrupt annotation was set",
                &self.protections,
            ),
            ("trino_pool_actions", "Lifecycle actions started", &self.actions),
            (
                "trino_pool_phase_changes",
                "Instances that reached a phase",
                &self.phases,
            ),
            (
                "trino_pool_effects",
                "Effects performed, by outcome",
                &self.effects,
            ),
            (
                "trino_pool_actor_restarts",
                "Actors restarted, by reason",
                &self.restarts,
            ),
            (
                "trino_pool_stale_messages",
                "Messages dropped as stale",
                &self.stale_messages,
            ),
            (
                "trino_pool_coalesced_ticks",
                "Ticks that found the previous one running",
                &self.coalesced_ticks,
            ),
            (
                "trino_pool_inventory_refreshes",
                "NodeClaim inventory refreshes",
                &self.inventory_refreshes,
            ),
            (
                "trino_pool_leadership_changes",
                "Changes of leadership",
                &self.leadership,
            ),
            (
                "trino_pool_candidate_failures",
                "Candidates given up, by cause",
                &self.candidate_failures,
            ),
            (
                "trino_pool_undecodable_objects",
                "Objects present and unreadable",
                &self.undecodable,
            ),
            (
                "trino_pool_invalid_specs",
                "TrinoPool specs refused",
                &self.invalid_specs,
            ),
            (
                "trino_pool_fenced_writes",
                "Writes refused because authority is elsewhere",
                &self.fenced,
            ),
        ];
        for (name, help, family) in families {
            registry.register(name, help, family.clone());
        }
    }
}

/// The counters of this process.
pub static COUNTERS: LazyLock<ProcessCounters> = LazyLock::new(ProcessCounters::default);

/// Adds one to the counter of these label values.
pub fn bump(family: &Counters, labels: &[(&'static str, &str)]) {
    let labels = labels
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    family.get_or_create(&labels).inc();
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn a_bumped_counter_is_on_the_page() {
        let counters = ProcessCounters::default();
        let mut registry = Registry::default();
        counters.register(&mut registry);
        bump(
            &counters.evidence,
            &[("pool", "trino/analytics"), ("reason", "Drifted")],
        );
        let mut page = String::new();
        encode(&mut page, &registry).unwrap();
        assert!(
            page.contains("trino_pool_evidence_total{pool=\"trino/analytics\",reason=\"Drifted\"} 1"),
            "{page}"
        );
    }
}
