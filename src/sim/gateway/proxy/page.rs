//! Reads a page of statement results: what it says of the query's life, and whether it can be believed
//! (protocol section 4).

use bytes::Bytes;
use http::{HeaderMap, Response, Uri};
use serde_json::Value;

const STARTED: &str = "x-trino-started-transaction-id";
const CLEARED: &str = "x-trino-clear-transaction-id";

/// A page that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Query id.
    pub(super) id: String,
    /// Path of `nextUri`, without its query string.
    pub(super) next: Option<String>,
    /// Path of `partialCancelUri`.
    pub(super) partial: Option<String>,
    /// What happened to the transaction.
    pub(super) transaction: TransactionChange,
}

/// What the headers of a page say of the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TransactionChange {
    None,
    Started(String),
    Cleared,
}

impl Page {
    /// The page of a 200 answer by the process `coordinator_id`; `None` when it contradicts itself.
    pub(super) fn read(answer: &Response<Bytes>, coordinator_id: &str) -> Option<Self> {
        let body: Value = serde_json::from_slice(answer.body()).ok()?;
        let id = body
            .get("id")?
            .as_str()
            .filter(|id| is_query_id(id, coordinator_id))?;
        let stats = body.get("stats")?.as_object()?;
        if !matches!(body.get("data"), None | Some(Value::Null | Value::Array(_))) {
            return None;
        }
        let next = path_of(body.get("nextUri"))?;
        let word = stats.get("state").and_then(Value::as_str);
        if next.is_none() && !matches!(word, Some("FINISHED" | "FAILED")) {
            return None;
        }
        Some(Self {
            id: id.to_owned(),
            next,
            partial: path_of(body.get("partialCancelUri"))?,
            transaction: transaction_change(answer.headers())?,
        })
    }

    /// The last page of its query.
    pub(super) const fn is_terminal(&self) -> bool {
        self.next.is_none()
    }
}

/// `digits_digits_digits_<coordinatorId>`.
fn is_query_id(id: &str, coordinator_id: &str) -> bool {
    let parts: Vec<&str> = id.split('_').collect();
    let digits = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match parts.as_slice() {
        [numbers @ .., coordinator] => {
            numbers.len() == 3 && numbers.iter().all(digits) && *coordinator == coordinator_id
        }
        [] => false,
    }
}

/// `Some(None)` when there is no such URI, `None` when it cannot be one.
#[allow(clippy::option_option, reason = "absent and unreadable are two answers here")]
fn path_of(value: Option<&Value>) -> Option<Option<String>> {
    match value {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(uri)) => {
            let uri: Uri = uri.parse().ok()?;
            let path = uri.path();
            path.starts_with("/v1/statement/").then(|| Some(path.to_owned()))
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => None,
    }
}

fn transaction_change(headers: &HeaderMap) -> Option<TransactionChange> {
    let count = |name: &str| headers.get_all(name).iter().count();
    match (count(STARTED), count(CLEARED)) {
        (0, 0) => Some(TransactionChange::None),
        (1, 0) => {
            let id = headers.get(STARTED)?.to_str().ok()?;
            let canonical = uuid::Uuid::parse_str(id).ok()?.hyphenated().to_string();
            (canonical == id).then_some(TransactionChange::Started(canonical))
        }
        (0, 1) => (!headers.get(CLEARED)?.is_empty()).then_some(TransactionChange::Cleared),
        (_, _) => None,
    }
}

/// Whether an answer says anything about a transaction.
pub(super) fn mentions_transaction(headers: &HeaderMap) -> bool {
    headers.contains_key(STARTED) || headers.contains_key(CLEARED)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "20250101_000000_00001_abcde";

    fn page(body: &str) -> Option<Page> {
        Page::read(&Response::new(Bytes::copy_from_slice(body.as_bytes())), "abcde")
    }

    #[test]
    fn a_page_that_contradicts_itself_is_not_believed() {
        let good = format!(r#"{{"id":"{ID}","stats":{{"state":"FINISHED"}}}}"#);
        assert!(page(&good).unwrap().is_terminal());
        let more = format!(
            r#"{{"id":"{ID}","stats":{{"state":"RUNNING"}},"nextUri":"http://h/v1/statement/executing/{ID}/y1/2?slug=x"}}"#
        );
        assert_eq!(
            page(&more).unwrap().next.unwrap(),
            format!("/v1/statement/executing/{ID}/y1/2")
        );
        for bad in [
            "not json".to_owned(),
            format!(r#"{{"id":"{ID}","stats":{{"state":"FINISHED"}}}} trailing"#),
            format!(r#"{{"id":"{ID}","stats":{{"state":"RUNNING"}}}}"#),
            format!(r#"{{"id":"{ID}"}}"#),
            format!(r#"{{"id":"{ID}","stats":{{"state":"FINISHED"}},"data":{{}}}}"#),
            format!(r#"{{"id":"{ID}","stats":{{"state":"RUNNING"}},"nextUri":"http://h/ui"}}"#),
            r#"{"id":"20250101_000000_00001_other","stats":{"state":"FINISHED"}}"#.to_owned(),
            r#"{"id":"x_000000_00001_abcde","stats":{"state":"FINISHED"}}"#.to_owned(),
        ] {
            assert_eq!(page(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_transaction_cannot_start_and_end_on_one_page() {
        let read = |headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, http::HeaderValue::from_static(value));
            }
            transaction_change(&map)
        };
        let id = "0d2f6a4e-51a1-4b8e-9d7c-1f2e3d4c5b6a";
        assert_eq!(
            read(&[(STARTED, id)]),
            Some(TransactionChange::Started(id.into()))
        );
        assert_eq!(read(&[(CLEARED, "whatever")]), Some(TransactionChange::Cleared));
        assert_eq!(read(&[(STARTED, id), (CLEARED, id)]), None);
        assert_eq!(read(&[(STARTED, id), (STARTED, id)]), None);
        assert_eq!(read(&[(STARTED, "0D2F6A4E-51A1-4B8E-9D7C-1F2E3D4C5B6A")]), None);
    }
}
