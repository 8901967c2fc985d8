//! Objects with our labels that no live row accounts for (S1).
//!
//! What is left of a terminal row is recorded by UID under the fence first, then deleted with that UID,
//! and only while the gateway holds no member of that instance: the store may have been restored. A label without a row is only reported.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Brain;
use crate::actors::faults;
use crate::actors::messages::PoolMsg;
use crate::cluster::facts::{Listing, ObjectFacts};
use crate::cluster::port::Written;
use crate::pool::ids::InstanceId;
use crate::pool::names::LABEL_INSTANCE;
use crate::pool::observation::Fault;
use crate::pool::orphans::{self, Members};
use crate::store::port::Write;

/// How often the pool's objects are listed.
const EVERY: Duration = Duration::from_mins(5);

impl Brain {
    /// Lists the pool's objects now and then, and when nothing else is left of the pool.
    pub(super) fn look_for_orphans(&mut self) {
        let now = self.ports.clock.monotonic();
        let due = self
            .orphans_at
            .is_none_or(|last| now.saturating_sub(last) >= EVERY);
        let Some(identity) = self.identity.clone() else {
            return;
        };
        if !due || !self.may_act() {
            return;
        }
        self.orphans_at = Some(now);
        let (ports, limit) = (self.ports.clone(), self.settings.inspection_budget);
        let otherwise = PoolMsg::Listed(Err(faults::timed_out("objects", limit)));
        let alive: BTreeSet<InstanceId> = self.live.keys().cloned().collect();
        self.start(otherwise, async move {
            let call = ports.cluster.objects(&identity.namespace, &identity.id);
            let listing = match ports.within(limit, call).await {
                Some(Ok(listing)) => listing,
                Some(Err(error)) => return PoolMsg::Listed(Err(faults::of_cluster("objects", &error))),
                None => return PoolMsg::Listed(Err(faults::timed_out("objects", limit))),
            };
            let mut members = Members::new();
            for id in named(&listing).difference(&alive) {
                let call = ports.gateway.member(&identity.routing_group, id);
                let answer = ports.within(limit, call).await;
                let reading = faults::reading(answer, "member", limit, faults::of_gateway);
                members.insert(id.clone(), reading);
            }
            PoolMsg::Listed(Ok((listing, members)))
        });
    }

    pub(super) async fn listed(&mut self, listed: Result<(Listing<ObjectFacts>, Members), Fault>) {
        let (listing, members) = match listed {
            Ok(listed) => listed,
            Err(fault) => return self.note("orphans", Some(fault)),
        };
        if !self.may_act() {
            return;
        }
        let mut rows: BTreeMap<_, _> = self
            .live
            .iter()
            .map(|(id, live)| (id.clone(), live.row.clone()))
            .collect();
        let store = self.ports.store.clone();
        for id in named(&listing) {
            if rows.contains_key(&id) {
                continue;
            }
            match self.call(store.instance(&id)).await {
                Ok(Some(row)) => {
                    rows.insert(id, row);
                }
                Ok(None) => {}
                Err(error) => return self.note("orphans", Some(faults::of_store("instances", &error))),
            }
        }
        let found = orphans::orphans(&self.pool, &listing.items, &rows, &members);
        self.note("orphans", found.report.into_iter().next());
        for orphan in found.delete {
            let record = Write::RecordOrphan {
                instance: orphan.instance.clone(),
                kind: orphan.kind,
                uid: orphan.uid.clone(),
            };
            // Recorded first; without the record nothing is deleted.
            if self.commit(vec![record]).await.is_none() {
                return;
            }
            tracing::info!(
                pool = %self.pool, instance = %orphan.instance, kind = orphan.kind.as_str(),
                name = %orphan.name, uid = %orphan.uid, "an orphan is deleted"
            );
            let (cluster, limit) = (self.ports.cluster.clone(), self.settings.effect_deadline);
            self.writes_in_flight += 1;
            let otherwise = PoolMsg::OrphanDeleted(Err(faults::timed_out("orphan", limit)));
            self.start(otherwise, async move {
                let call = cluster.delete(orphan.kind, &orphan.namespace, &orphan.name, &orphan.uid);
                let subject = format!("orphan {}", orphan.name);
                PoolMsg::OrphanDeleted(call.await.map_err(|error| faults::of_cluster(subject, &error)))
            });
        }
    }

    pub(super) fn orphan_deleted(&mut self, result: Result<Written, Fault>) {
        self.writes_in_flight = self.writes_in_flight.saturating_sub(1);
        match result {
            Ok(Written::Applied | Written::Absent) => {}
            Ok(Written::Conflict(detail) | Written::Denied(detail)) => self.note(
                "orphan-delete",
                Some(Fault {
                    label: "OrphanKept",
                    subject: "orphan".to_owned(),
                    detail,
                }),
            ),
            Err(fault) => self.note("orphan-delete", Some(fault)),
        }
    }
}

/// The instances that the labels name.
fn named(listing: &Listing<ObjectFacts>) -> BTreeSet<InstanceId> {
    let labels = listing
        .items
        .iter()
        .filter_map(|object| object.labels.get(LABEL_INSTANCE));
    labels.map(InstanceId::new).collect()
}
