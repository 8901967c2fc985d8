//! The bodies a simulated coordinator answers with, in the shapes recorded from Trino 483.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

use super::query::PageContent;

pub(super) fn json_response(value: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(value.to_string()));
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

pub(super) fn text_response(status: StatusCode, text: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::copy_from_slice(text.as_bytes()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain;charset=utf-8"),
    );
    response
}

pub(super) fn empty_response(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}

/// One statement page. `base` is the origin that the client was told it talks to.
pub(super) fn statement_page(base: &str, id: &str, slug: &str, page: &PageContent) -> Response<Bytes> {
    let mut body = Map::new();
    body.insert("id".into(), json!(id));
    body.insert("infoUri".into(), json!(format!("{base}/ui/query.html?{id}")));
    if let Some((stage, token)) = page.next {
        let path = format!("{base}/v1/statement/{}/{id}/{slug}/{token}", stage.as_str());
        body.insert("nextUri".into(), json!(path));
    }
    if !page.columns.is_empty() {
        let columns: Vec<Value> = page
            .columns
            .iter()
            .map(|(name, kind)| {
                json!({"name": name, "type": kind, "typeSignature": {"rawType": kind, "arguments": []}})
            })
            .collect();
        body.insert("columns".into(), Value::Array(columns));
    }
    if !page.rows.is_empty() {
        body.insert("data".into(), Value::Array(page.rows.clone()));
    }
    let queued = page.state == "QUEUED";
    body.insert(
        "stats".into(),
        json!({
            "state": page.state, "queued": queued, "scheduled": !queued, "nodes": u8::from(!queued),
            "totalSplits": 0, "queuedSplits": 0, "runningSplits": 0, "completedSplits": 0,
            "planningTimeMillis": 0, "analysisTimeMillis": 0, "cpuTimeMillis": 0, "wallTimeMillis": 0,
            "queuedTimeMillis": 0, "elapsedTimeMillis": 0, "finishingTimeMillis": 0,
            "physicalInputTimeMillis": 0, "processedRows": 0, "processedBytes": 0,
            "physicalInputBytes": 0, "physicalWrittenBytes": 0, "internalNetworkInputBytes": 0,
            "peakMemoryBytes": 0, "spilledBytes": 0,
        }),
    );
    if let Some((name, message)) = &page.failure {
        body.insert(
            "error".into(),
            json!({"message": message, "errorCode": 1, "errorName": name, "errorType": "USER_ERROR",
                "failureInfo": {"type": "io.trino.spi.TrinoException", "message": message, "suppressed": [], "stack": []}}),
        );
    }
    body.insert("warnings".into(), json!([]));
    let mut response = json_response(&Value::Object(body));
    let headers = response.headers_mut();
    if let Some(started) = &page.started_transaction
        && let Ok(value) = HeaderValue::from_str(started)
    {
        headers.insert("x-trino-started-transaction-id", value);
    }
    if page.cleared_transaction {
        headers.insert("x-trino-clear-transaction-id", HeaderValue::from_static("true"));
    }
    response
}
