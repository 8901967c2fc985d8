//! Obligations: what members owe to clients (protocol section 4).
//!
//! Owns admissions, query bindings, advertised paths and transactions of every incarnation. A counter
//! never dips to zero while a response turns from a pending request into a query: both changes happen
//! in one call. Queries and transactions are never forgotten; completed admissions are only counted.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// Names one admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AdmissionId(u64);

/// Who a query or transaction belongs to. Digests of credential and user, as the gateway keeps no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) credential: String,
    pub(super) user: String,
}

/// A query bound to the process that runs it.
#[derive(Clone, Debug)]
pub(super) struct QueryRow {
    pub(super) incarnation: String,
    pub(super) owner: Owner,
    pub(super) transaction: Option<String>,
    retain_until: Option<Timestamp>,
    next_paths: BTreeSet<String>,
    partial_paths: BTreeSet<String>,
}

impl QueryRow {
    /// What an advertised path of this query is good for; `None` when it was never advertised.
    pub(super) fn advertised(&self, path: &str) -> Option<PathKind> {
        if self.next_paths.contains(path) {
            Some(PathKind::Next)
        } else if self.partial_paths.contains(path) {
            Some(PathKind::PartialCancel)
        } else {
            None
        }
    }
}

/// Kind of an advertised path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathKind {
    Next,
    PartialCancel,
}

/// A transaction bound to the process that holds it.
#[derive(Clone, Debug)]
pub(super) struct TransactionRow {
    pub(super) incarnation: String,
    pub(super) owner: Owner,
    pub(super) open: bool,
}

/// The three counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owed {
    pub(super) pending: u64,
    pub(super) transactions: u64,
    pub(super) queries: u64,
}

impl Owed {
    pub(super) const fn is_zero(self) -> bool {
        self.pending == 0 && self.transactions == 0 && self.queries == 0
    }
}

#[derive(Debug, Default)]
struct Counters {
    pending: u64,
    transactions: u64,
    running: u64,
    /// Finished queries that still count, by the time at which they stop counting.
    retained: BTreeSet<(Timestamp, String)>,
    ever_admitted: bool,
}

/// The ledger of a whole gateway.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    next_admission: u64,
    open: BTreeMap<AdmissionId, String>,
    queries: BTreeMap<String, QueryRow>,
    transactions: BTreeMap<String, TransactionRow>,
    counters: BTreeMap<String, Counters>,
}

impl Ledger {
    pub(super) fn owed(&self, incarnation: &str, now: Timestamp) -> Owed {
        self.counters
            .get(incarnation)
            .map_or_else(Owed::default, |counters| {
                let retained = counters
                    .retained
                    .iter()
                    .rev()
                    .take_while(|(until, _)| *until > now)
                    .count();
                Owed {
                    pending: counters.pending,
                    transactions: counters.transactions,
                    queries: counters.running + u64::try_from(retained).unwrap_or(u64::MAX),
                }
            })
    }

    pub(super) fn ever_admitted(&self, incarnation: &str) -> bool {
        self.counters
            .get(incarnation)
            .is_some_and(|counters| counters.ever_admitted)
    }

    /// A request is about to be dispatched.
    pub(super) fn admit(&mut self, incarnation: &str) -> AdmissionId {
        let counters = self.counters(incarnation);
        counters.pending += 1;
        counters.ever_admitted = true;
        let id = AdmissionId(self.next_admission);
        self.next_admission += 1;
        self.open.insert(id, incarnation.to_owned());
        id
    }

    /// The request is settled. An admission that is never completed is UNCERTAIN and blocks the seal for
    /// ever: no age-out, no force-clear.
    pub(super) fn complete(&mut self, id: AdmissionId) {
        if let Some(incarnation) = self.open.remove(&id) {
            let counters = self.counters(&incarnation);
            counters.pending = counters.pending.saturating_sub(1);
        }
    }

    pub(super) fn query(&self, id: &str) -> Option<&QueryRow> {
        self.queries.get(id)
    }

    pub(super) fn transaction(&self, id: &str) -> Option<&TransactionRow> {
        self.transactions.get(id)
    }

    /// Binds a query to a process; a known one stays as it is.
    pub(super) fn bind(&mut self, query: &str, incarnation: &str, owner: &Owner, transaction: Option<&str>) {
        if self.queries.contains_key(query) {
            return;
        }
        self.counters(incarnation).running += 1;
        self.queries.insert(
            query.to_owned(),
            QueryRow {
                incarnation: incarnation.to_owned(),
                owner: owner.clone(),
                transaction: transaction.map(ToOwned::to_owned),
                retain_until: None,
                next_paths: BTreeSet::new(),
                partial_paths: BTreeSet::new(),
            },
        );
    }

    /// Remembers paths that were sent to the client.
    pub(super) fn advertise(&mut self, query: &str, next: Option<String>, partial: Option<String>) {
        if let Some(row) = self.queries.get_mut(query) {
            row.next_paths.extend(next);
            row.partial_paths.extend(partial);
        }
    }

    /// The query is over; it counts until `until`, or longer if it already did.
    pub(super) fn finish(&mut self, query: &str, until: Timestamp) {
        let Some(row) = self.queries.get_mut(query) else {
            return;
        };
        let before = row.retain_until;
        let until = before.map_or(until, |old| old.max(until));
        row.retain_until = Some(until);
        let incarnation = row.incarnation.clone();
        let counters = self.counters(&incarnation);
        match before {
            None => counters.running = counters.running.saturating_sub(1),
            Some(old) => {
                counters.retained.remove(&(old, query.to_owned()));
            }
        }
        counters.retained.insert((until, query.to_owned()));
    }

    /// A transaction was started by `query`. False when it was closed before, which is final, or belongs
    /// to another process.
    pub(super) fn start_transaction(&mut self, transaction: &str, query: &str) -> bool {
        let Some(row) = self.queries.get_mut(query) else {
            return false;
        };
        if let Some(known) = self.transactions.get(transaction) {
            return known.open && known.incarnation == row.incarnation;
        }
        row.transaction = Some(transaction.to_owned());
        let started = TransactionRow {
            incarnation: row.incarnation.clone(),
            owner: row.owner.clone(),
            open: true,
        };
        self.counters(&started.incarnation.clone()).transactions += 1;
        self.transactions.insert(transaction.to_owned(), started);
        true
    }

    /// The transaction of `query` is over, for ever.
    pub(super) fn clear_transaction(&mut self, query: &str) {
        let Some(transaction) = self.queries.get(query).and_then(|row| row.transaction.clone()) else {
            return;
        };
        if let Some(row) = self.transactions.get_mut(&transaction)
            && std::mem::replace(&mut row.open, false)
        {
            let incarnation = row.incarnation.clone();
            let counters = self.counters(&incarnation);
            counters.transactions = counters.transactions.saturating_sub(1);
        }
    }

    fn counters(&mut self, incarnation: &str) -> &mut Counters {
        self.counters.entry(incarnation.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn owner() -> Owner {
        Owner {
            credential: "c".into(),
            user: "u".into(),
        }
    }

    #[test]
    fn a_finished_query_counts_until_its_retention_ends_and_never_shorter_than_before() {
        let mut ledger = Ledger::default();
        ledger.bind("q", "i", &owner(), None);
        assert_eq!(ledger.owed("i", at(0)).queries, 1);
        ledger.finish("q", at(100));
        ledger.finish("q", at(50));
        assert_eq!(ledger.owed("i", at(99)).queries, 1);
        assert_eq!(ledger.owed("i", at(100)).queries, 0);
    }

    #[test]
    fn an_admission_that_is_never_completed_is_owed_for_ever() {
        let mut ledger = Ledger::default();
        let settled = ledger.admit("i");
        let _uncertain = ledger.admit("i");
        ledger.complete(settled);
        ledger.complete(settled);
        assert_eq!(ledger.owed("i", Timestamp::MAX).pending, 1);
        assert!(ledger.ever_admitted("i"));
    }

    #[test]
    fn a_closed_transaction_is_never_reopened() {
        let mut ledger = Ledger::default();
        ledger.bind("q", "i", &owner(), None);
        assert!(ledger.start_transaction("t", "q"));
        assert!(
            ledger.start_transaction("t", "q"),
            "a repeated page changes nothing"
        );
        assert_eq!(ledger.owed("i", at(0)).transactions, 1);
        ledger.clear_transaction("q");
        ledger.clear_transaction("q");
        assert!(!ledger.start_transaction("t", "q"));
        assert_eq!(ledger.owed("i", at(0)).transactions, 0);
    }
}
