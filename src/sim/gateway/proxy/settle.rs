//! What an upstream answer means for the obligations: the table of protocol section 4.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use jiff::Timestamp;
use serde_json::Value;

use super::page::{Page, TransactionChange, mentions_transaction};
use crate::sim::gateway::ledger::{Ledger, Owner};

/// What was asked of the member.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ask<'a> {
    /// New work, perhaps inside a transaction.
    Submit {
        owner: &'a Owner,
        transaction: Option<&'a str>,
    },
    /// An advertised `nextUri` of this query.
    Next { query: &'a str, path: &'a str },
    /// An advertised `partialCancelUri`.
    PartialCancel,
    /// `/v1/query/{id}`: proves nothing about the query.
    Metadata,
}

/// What happens to the admission, and what the client sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settlement {
    /// It is complete; the answer passes.
    Complete,
    /// It stays open for ever; the answer passes.
    PassUncertain,
    /// It stays open for ever; the client gets 502.
    BadPage,
}

/// Settles one dispatched request. Queries and transactions are bound before the answer passes on.
pub(super) fn settle(
    ledger: &mut Ledger,
    (incarnation, coordinator): (&str, &str),
    ask: Ask<'_>,
    (method, answer): (&Method, Option<&Response<Bytes>>),
    retain_until: Timestamp,
) -> Settlement {
    let Some(answer) = answer else {
        return Settlement::BadPage;
    };
    let status = answer.status();
    if rejected(answer) {
        return Settlement::Complete;
    }
    match ask {
        Ask::Submit { owner, transaction } if status == StatusCode::OK => {
            let Some(page) = Page::read(answer, coordinator) else {
                return Settlement::BadPage;
            };
            if ledger.query(&page.id).is_some() {
                return Settlement::BadPage;
            }
            ledger.bind(&page.id, incarnation, owner, transaction);
            keep(ledger, page, retain_until)
        }
        Ask::Submit { .. } => Settlement::PassUncertain,
        Ask::Next { query, .. } if status == StatusCode::OK && method == Method::GET => {
            match Page::read(answer, coordinator).filter(|page| page.id == query) {
                Some(page) => keep(ledger, page, retain_until),
                None => Settlement::BadPage,
            }
        }
        Ask::Next { query, path } => {
            let executing = path.starts_with("/v1/statement/executing/");
            let gone = method == Method::GET && status == StatusCode::NOT_FOUND && executing;
            let cancelled = method == Method::DELETE && status == StatusCode::NO_CONTENT;
            if gone || cancelled {
                ledger.finish(query, retain_until);
            }
            continued(method, status)
        }
        Ask::PartialCancel | Ask::Metadata => continued(method, status),
    }
}

/// Answers to continuations that settle the admission and nothing else.
fn continued(method: &Method, status: StatusCode) -> Settlement {
    let settled = match status {
        StatusCode::NOT_FOUND => true,
        StatusCode::OK => *method != Method::DELETE,
        StatusCode::NO_CONTENT => *method == Method::DELETE,
        _ => false,
    };
    if settled {
        Settlement::Complete
    } else {
        Settlement::PassUncertain
    }
}

/// A believable page: bind what it says.
fn keep(ledger: &mut Ledger, page: Page, retain_until: Timestamp) -> Settlement {
    let terminal = page.is_terminal();
    match page.transaction {
        TransactionChange::None => {}
        TransactionChange::Started(id) => {
            if !ledger.start_transaction(&id, &page.id) {
                return Settlement::BadPage;
            }
        }
        TransactionChange::Cleared => ledger.clear_transaction(&page.id),
    }
    ledger.advertise(&page.id, page.next, page.partial);
    if terminal {
        ledger.finish(&page.id, retain_until);
    }
    Settlement::Complete
}

/// The member turned the sender away before it did anything.
fn rejected(answer: &Response<Bytes>) -> bool {
    matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
        && !mentions_transaction(answer.headers())
        && !matches!(
            serde_json::from_slice::<Value>(answer.body()),
            Ok(Value::Object(_))
        )
}
