//! Trino's client protocol, as far as a probe needs it: one page of a statement, decoded, and where the
//! next one is.
//!
//! Facts of the wire: `POST /v1/statement` and each `nextUri` answer 200 with a JSON page; an error is a
//! member of a 200 page; the last page has no `nextUri` (Trino client REST API).

use serde::Deserialize;
use serde_json::Value;

use super::port::ProbeError;

/// Path of submissions.
pub const STATEMENT_PATH: &str = "/v1/statement";

/// Pages one probe statement may take. Each page of a running statement holds the request for up to a
/// second, so the deadline ends a probe long before this does; this ends a coordinator that loops.
pub const MAX_PAGES: usize = 200;

/// Rows one probe statement may return in all.
pub const MAX_ROWS: usize = 10_000;

/// One page.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// Query id; every page has one.
    pub id: String,
    /// Where the next page is; absent on the last.
    #[serde(default)]
    pub next_uri: Option<String>,
    /// Rows of this page.
    #[serde(default)]
    pub data: Option<Vec<Vec<Value>>>,
    /// Why the statement failed.
    #[serde(default)]
    pub error: Option<StatementFailure>,
    /// Progress; every page has it.
    pub stats: Stats,
}

/// `stats` of a page.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Stats {
    /// QUEUED, RUNNING, FINISHED, FAILED and others.
    pub state: String,
}

/// `error` of a page.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatementFailure {
    /// For a person.
    #[serde(default)]
    pub message: Option<String>,
    /// Such as `SYNTAX_ERROR`.
    #[serde(default)]
    pub error_name: Option<String>,
}

/// What is left to do after a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Following {
    /// Fetch this path of the same coordinator.
    Next(String),
    /// That was the last page.
    Done,
}

/// Decodes one page and says where the next one is. A failed statement, a page that is none, and a last
/// page of a statement that is not finished are errors.
pub fn read_page(body: &[u8]) -> Result<(Vec<Vec<Value>>, Following), ProbeError> {
    let page: Page = serde_json::from_slice(body)
        .map_err(|error| ProbeError::Unreadable(format!("a statement page cannot be decoded: {error}")))?;
    if let Some(error) = page.error {
        let name = error.error_name.unwrap_or_else(|| "an unnamed error".to_owned());
        let message = error.message.unwrap_or_default();
        return Err(ProbeError::Statement(format!("{name}: {message}")));
    }
    let rows = page.data.unwrap_or_default();
    match page.next_uri {
        Some(uri) => Ok((rows, Following::Next(own_path(&uri)?))),
        None if page.stats.state == "FINISHED" => Ok((rows, Following::Done)),
        None => Err(ProbeError::Statement(format!(
            "query {} ended in state {}",
            page.id, page.stats.state
        ))),
    }
}

/// The path and query of a `nextUri`. The host in it is whatever forwarded headers made of it and is
/// never dialled: a probe, and its credential, stay on the coordinator that was asked.
fn own_path(uri: &str) -> Result<String, ProbeError> {
    let unreadable = || ProbeError::Unreadable(format!("nextUri {uri:?} is not a statement page"));
    let parsed: http::Uri = uri.parse().map_err(|_| unreadable())?;
    let path = parsed.path_and_query().ok_or_else(unreadable)?;
    let inside = path.path().starts_with("/v1/statement/") && !path.path().contains("..");
    if inside {
        Ok(path.as_str().to_owned())
    } else {
        Err(unreadable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to a POST as Trino 476 gave it (tests/fixtures/trino/trino476-basic.txt).
    fn recorded_first_page() -> String {
        include_str!("../../tests/fixtures/trino/trino476-basic.txt")
            .lines()
            .find(|line| line.starts_with(r#"{"id":"20261202_042617_00000_2t7eg""#))
            .expect("the recorded page")
            .to_owned()
    }

    #[test]
    fn the_recorded_first_page_leads_to_its_next_page() {
        let (rows, following) = read_page(recorded_first_page().as_bytes()).unwrap();
        assert!(rows.is_empty());
        assert_eq!(
            following,
            Following::Next(
                "/v1/statement/queued/20261202_042617_00000_2t7eg/yc17573981c2b5a7db6bd4b3729f340b1c2e8f8e6/1"
                    .into()
            )
        );
    }

    #[test]
    fn the_host_of_a_next_uri_is_not_followed() {
        let page = r#"{"id":"q","nextUri":"https://evil.example:443/v1/statement/executing/q/y/1","stats":{"state":"RUNNING"}}"#;
        let (_, following) = read_page(page.as_bytes()).unwrap();
        assert_eq!(following, Following::Next("/v1/statement/executing/q/y/1".into()));
        for uri in [
            "http://h/ui/query.html",
            "http://h/v1/statement/../info/state",
            "",
            "://",
        ] {
            let page = format!(r#"{{"id":"q","nextUri":"{uri}","stats":{{"state":"RUNNING"}}}}"#);
            assert!(
                matches!(read_page(page.as_bytes()), Err(ProbeError::Unreadable(_))),
                "{uri}"
            );
        }
    }

    #[test]
    fn a_failed_statement_is_an_error_by_name() {
        let page = r#"{"id":"q","stats":{"state":"FAILED"},"error":{"message":"line 1:1","errorCode":1,"errorName":"SYNTAX_ERROR","errorType":"USER_ERROR"}}"#;
        assert_eq!(
            read_page(page.as_bytes()),
            Err(ProbeError::Statement("SYNTAX_ERROR: line 1:1".into()))
        );
    }

    #[test]
    fn a_last_page_of_an_unfinished_statement_is_not_an_answer() {
        let page = r#"{"id":"q","stats":{"state":"RUNNING"},"data":[["a"]]}"#;
        assert!(matches!(
            read_page(page.as_bytes()),
            Err(ProbeError::Statement(_))
        ));
    }

    #[test]
    fn a_body_that_is_no_page_is_unreadable() {
        for body in ["", "[]", "{}", "<html>", r#"{"id":"q"}"#] {
            assert!(matches!(
                read_page(body.as_bytes()),
                Err(ProbeError::Unreadable(_))
            ));
        }
    }
}
