//! One query of a simulated coordinator: its pages, one after another, as its client asks for them.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::sql::Work;

/// `query.client.timeout`: a query whose client asks for nothing this long has failed.
pub(super) const CLIENT_TIMEOUT: Duration = Duration::from_mins(5);

/// Which kind of path the next page is under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Queued,
    Executing,
}

impl Stage {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Executing => "executing",
        }
    }
}

/// What a page says beside the query's id.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PageContent {
    pub state: &'static str,
    pub columns: Vec<(&'static str, &'static str)>,
    pub rows: Vec<Value>,
    /// Stage and token of the next page; none on the last.
    pub next: Option<(Stage, u64)>,
    pub failure: Option<(&'static str, String)>,
    pub started_transaction: Option<String>,
    pub cleared_transaction: bool,
}

/// What the client gets for a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Turn {
    Page(Box<PageContent>),
    /// A page that was left behind: 410.
    Gone,
    /// A page that was never advertised: 404.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Query {
    pub id: String,
    pub slug: String,
    pub user: String,
    pub sql: String,
    pub transaction: Option<String>,
    work: Work,
    /// The transaction that this query starts.
    starts: Option<String>,
    ends_at: Timestamp,
    polled_at: Timestamp,
    advertised: Option<(Stage, u64)>,
    last: Option<((Stage, u64), PageContent)>,
    pages_given: usize,
    failure: Option<(&'static str, String)>,
    done: bool,
}

impl Query {
    #[allow(clippy::too_many_arguments, reason = "a query is made in one place")]
    pub(super) fn new(
        id: String,
        slug: String,
        user: String,
        sql: String,
        work: Work,
        transaction: Option<String>,
        starts: Option<String>,
        slowness: u32,
        now: Timestamp,
    ) -> Self {
        let runs_for = match &work {
            Work::Rows { runs_for, .. } => runs_for.saturating_mul(slowness.max(1)),
            Work::Start | Work::End | Work::Fails(..) => Duration::ZERO,
        };
        Self {
            id,
            slug,
            user,
            sql,
            transaction,
            work,
            starts,
            ends_at: now.saturating_add(runs_for).unwrap_or(Timestamp::MAX),
            polled_at: now,
            advertised: None,
            last: None,
            pages_given: 0,
            failure: None,
            done: false,
        }
    }

    /// Whether its client has not been given the last page yet.
    pub(super) const fn live(&self) -> bool {
        !self.done
    }

    /// Whether it still computes: a worker that goes takes it along.
    pub(super) fn running(&self, now: Timestamp) -> bool {
        !self.done && self.failure.is_none() && now < self.ends_at
    }

    /// Whether nobody can ask for any page of it any more.
    pub(super) fn forgotten(&self, now: Timestamp, age: Duration) -> bool {
        self.done && now.duration_since(self.polled_at) > super::process::signed(age)
    }

    /// The word in `/v1/query`.
    pub(super) fn state(&self, now: Timestamp) -> &'static str {
        if self.failure.is_some() {
            "FAILED"
        } else if self.done {
            "FINISHED"
        } else if self.advertised.is_none_or(|(stage, _)| stage == Stage::Queued) {
            "QUEUED"
        } else if now < self.ends_at {
            "RUNNING"
        } else {
            "FINISHING"
        }
    }

    pub(super) fn fail(&mut self, name: &'static str, message: impl Into<String>) {
        if !self.done && self.failure.is_none() {
            self.failure = Some((name, message.into()));
        }
    }

    /// Fails it when its client has been silent too long. Nobody will fetch its last page.
    pub(super) fn abandon_if_silent(&mut self, now: Timestamp) {
        if !self.done && now.duration_since(self.polled_at) > super::process::signed(CLIENT_TIMEOUT) {
            self.fail("ABANDONED_QUERY", "Query was abandoned by the client");
            self.done = true;
        }
    }

    /// The answer to the submission.
    pub(super) fn first_page(&mut self) -> PageContent {
        let next = (Stage::Queued, 1);
        self.advertised = Some(next);
        page("QUEUED", Some(next))
    }

    /// The answer to a path of this query.
    pub(super) fn turn(&mut self, stage: Stage, token: u64, now: Timestamp) -> Turn {
        self.polled_at = now;
        if let Some((last, page)) = &self.last
            && *last == (stage, token)
        {
            // Asked again after a lost answer: the very same page.
            return Turn::Page(Box::new(page.clone()));
        }
        if self.advertised != Some((stage, token)) {
            let known = (stage, token) <= self.last.as_ref().map_or((Stage::Queued, 0), |(last, _)| *last);
            return if known { Turn::Gone } else { Turn::Unknown };
        }
        let page = self.advance(stage, token, now);
        self.advertised = page.next;
        self.last = Some(((stage, token), page.clone()));
        Turn::Page(Box::new(page))
    }

    /// Cancelled by its client.
    pub(super) fn cancel(&mut self) {
        self.fail("USER_CANCELED", "Query was canceled");
        self.done = true;
    }

    fn advance(&mut self, stage: Stage, token: u64, now: Timestamp) -> PageContent {
        if let Some(failure) = self.failure.clone() {
            self.done = true;
            let mut last = page("FAILED", None);
            last.failure = Some(failure);
            return last;
        }
        if stage == Stage::Queued {
            return page("QUEUED", Some((Stage::Executing, 0)));
        }
        if now < self.ends_at {
            return page("RUNNING", Some((Stage::Executing, token + 1)));
        }
        match &self.work {
            Work::Rows { columns, pages, .. } => {
                let (columns, rows) = (columns.clone(), pages.get(self.pages_given).cloned());
                let Some(rows) = rows else {
                    self.done = true;
                    let mut last = page("FINISHED", None);
                    last.columns = columns;
                    return last;
                };
                self.pages_given += 1;
                let mut some = page("RUNNING", Some((Stage::Executing, token + 1)));
                some.columns = columns;
                some.rows = rows;
                some
            }
            Work::Start => {
                self.done = true;
                let mut last = page("FINISHED", None);
                last.started_transaction.clone_from(&self.starts);
                last
            }
            Work::End => {
                self.done = true;
                let mut last = page("FINISHED", None);
                last.cleared_transaction = true;
                last
            }
            Work::Fails(name, message) => {
                self.failure = Some((name, message.clone()));
                self.advance(stage, token, now)
            }
        }
    }

    /// Whether it ends its transaction.
    pub(super) const fn ends_transaction(&self) -> bool {
        matches!(self.work, Work::End)
    }

    /// The transaction it starts, if it does.
    pub(super) const fn starts_transaction(&self) -> Option<&String> {
        self.starts.as_ref()
    }
}

const fn page(state: &'static str, next: Option<(Stage, u64)>) -> PageContent {
    PageContent {
        state,
        columns: Vec::new(),
        rows: Vec::new(),
        next,
        failure: None,
        started_transaction: None,
        cleared_transaction: false,
    }
}
