//! The real API server in an administrator's hands: plain requests, and waiting.

use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;

/// How long something that real controllers do is waited for.
const PATIENCE: Duration = Duration::from_mins(5);

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(250);

/// An administrator's client.
#[derive(Clone)]
pub struct Admin(Client);

impl Admin {
    pub async fn of(plane: &ControlPlane) -> Self {
        Self(plane.administrator().await)
    }

    pub const fn client(&self) -> &Client {
        &self.0
    }

    /// One request: HTTP status and body. Again while the server cannot be reached: a story may be about that.
    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let content = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        until(&format!("an answer to {method} {path}"), async || {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header("content-type", content)
                .body(Body::from(bytes.clone()))
                .unwrap();
            let response = self.0.send(request).await.ok()?;
            let code = response.status().as_u16();
            let bytes = response.into_body().collect_bytes().await.ok()?;
            Some((code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
        })
        .await
    }

    /// Creates an object; again while a controller has still to prepare its namespace or serve its kind. That it is
    /// there already is as good.
    pub async fn create(&self, path: &str, body: &Value) -> Value {
        until(
            &format!("the API server to take an object at {path}"),
            async || match self.ask("POST", path, Some(body)).await {
                (200 | 201, created) => Some(created),
                (409, _) => Some(Value::Null),
                (403 | 404, _) => None,
                (code, answer) => panic!("POST {path}: {code} {answer}"),
            },
        )
        .await
    }

    pub async fn patch(&self, path: &str, change: &Value) {
        let (code, answer) = self.ask("PATCH", path, Some(change)).await;
        assert_eq!(code, 200, "PATCH {path}: {answer}");
    }

    /// The same of something that others write too: whether nobody was faster.
    pub async fn try_patch(&self, path: &str, change: &Value) -> bool {
        match self.ask("PATCH", path, Some(change)).await {
            (200, _) => true,
            (404 | 409, _) => false,
            (code, answer) => panic!("PATCH {path}: {code} {answer}"),
        }
    }

    pub async fn delete(&self, path: &str) {
        let (code, answer) = self.ask("DELETE", path, Some(&json!({}))).await;
        assert!((200..300).contains(&code), "DELETE {path}: {code} {answer}");
    }

    /// One object; `None` when there is none.
    pub async fn get(&self, path: &str) -> Option<Value> {
        match self.ask("GET", path, None).await {
            (200, object) => Some(object),
            (404, _) => None,
            (code, answer) => panic!("GET {path}: {code} {answer}"),
        }
    }

    /// The items of a list.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let (code, mut answer) = self.ask("GET", path, None).await;
        assert_eq!(code, 200, "GET {path}: {answer}");
        match answer["items"].take() {
            Value::Array(items) => items,
            other => panic!("GET {path}: no items but {other}"),
        }
    }
}

/// Asks until there is an answer, four times a second.
pub async fn until<T>(what: &str, mut question: impl AsyncFnMut() -> Option<T>) -> T {
    let began = tokio::time::Instant::now();
    loop {
        if let Some(answer) = question().await {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// A condition of an object, if it is there.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// Whether a condition of an object is True.
pub fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}
