//! Somebody else with an administrator's hands: makes, changes and deletes objects past the port.

use async_trait::async_trait;
use futures::io::AsyncBufReadExt;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http::Request;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use trino_pool_operator::pool::ids::Namespace;

/// What a test environment lets an outsider do.
#[async_trait]
pub trait ClusterDriver: Send + Sync {
    /// One request as an administrator: HTTP status and JSON body (`null` when it is none).
    async fn request(&self, method: &str, path: &str, content: &str, body: Option<&Value>) -> (u16, Value);

    /// The lines of a watch, for as long as the server keeps it open.
    async fn watch(&self, path: &str) -> BoxStream<'static, Value>;

    /// Makes old versions unreadable, now or within seconds: continue tokens and watches that began before it
    /// expire.
    async fn compact(&self);

    /// Lets controllers act, and time pass.
    async fn pause(&self);

    /// A name that no other story uses.
    fn unique(&self, stem: &str) -> String;
}

/// What [`ClusterDriver::request`] does, through any client.
pub async fn ask(
    client: &Client,
    method: &str,
    path: &str,
    content: &str,
    body: Option<&Value>,
) -> (u16, Value) {
    let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content);
    let response = client
        .send(request.body(Body::from(bytes)).unwrap())
        .await
        .unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// What [`ClusterDriver::watch`] does, through any client.
pub async fn lines(client: &Client, path: &str) -> BoxStream<'static, Value> {
    let request = Request::get(path).body(Vec::new()).unwrap();
    let lines = client.request_stream(request).await.unwrap().lines();
    lines
        .map_ok(|line| serde_json::from_str(&line).unwrap())
        .map(Result::unwrap)
        .boxed()
}

/// How often something that controllers do is waited for.
const PATIENCE: usize = 300;

/// Asks `question` until it has an answer.
pub async fn until<T, F>(driver: &dyn ClusterDriver, what: &str, mut question: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    for _ in 0..PATIENCE {
        if let Some(answer) = question().await {
            return answer;
        }
        driver.pause().await;
    }
    panic!("waited in vain for {what}");
}

/// A namespace of the story's own.
pub async fn namespace(driver: &dyn ClusterDriver) -> Namespace {
    let name = driver.unique("suite");
    create(driver, "/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
    Namespace::new(name)
}

/// Creates an object, again and again while a controller has still to prepare its namespace.
pub async fn create(driver: &dyn ClusterDriver, path: &str, body: &Value) -> Value {
    until(driver, &format!("{path} to take an object"), async || {
        match driver.request("POST", path, "application/json", Some(body)).await {
            (200 | 201, created) => Some(created),
            // The namespace's service account is made by a controller.
            (403, _) => None,
            (code, answer) => panic!("POST {path}: {code} {answer}"),
        }
    })
    .await
}

/// Merges a change into an object.
pub async fn merge(driver: &dyn ClusterDriver, path: &str, change: &Value) -> Value {
    let (code, answer) = driver
        .request("PATCH", path, "application/merge-patch+json", Some(change))
        .await;
    assert_eq!(code, 200, "PATCH {path}: {answer}");
    answer
}

/// Deletes an object; finalizers may keep it.
pub async fn delete(driver: &dyn ClusterDriver, path: &str) {
    let (code, answer) = driver.request("DELETE", path, "application/json", None).await;
    assert!((200..300).contains(&code), "DELETE {path}: {code} {answer}");
}

/// Reads an object.
pub async fn get(driver: &dyn ClusterDriver, path: &str) -> (u16, Value) {
    driver.request("GET", path, "application/json", None).await
}

pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

pub fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}
