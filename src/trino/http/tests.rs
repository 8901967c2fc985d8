use std::sync::Mutex;

use super::*;
use crate::pool::ids::{InstanceId, Namespace};

/// A coordinator that answers from a script, and remembers what it was sent.
struct Scripted {
    answers: Mutex<Vec<Result<(u16, String), TransportError>>>,
    sent: Mutex<Vec<Request<Bytes>>>,
}

impl Scripted {
    fn new(answers: impl IntoIterator<Item = (u16, String)>) -> Self {
        let mut answers: Vec<_> = answers.into_iter().map(Ok).collect();
        answers.reverse();
        Self {
            answers: Mutex::new(answers),
            sent: Mutex::default(),
        }
    }
}

#[async_trait]
impl Transport for Scripted {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        self.sent.lock().unwrap().push(request);
        let next = self.answers.lock().unwrap().pop();
        let (status, body) = next.unwrap_or(Err(TransportError::Broken("script ended".into())))?;
        Ok(Response::builder()
            .status(status)
            .body(Bytes::from(body))
            .unwrap())
    }
}

fn target() -> CoordinatorTarget {
    CoordinatorTarget {
        namespace: Namespace::new("trino"),
        instance: InstanceId::new("cell-1a2b3c4d"),
        port: 8080,
        pod_ip: None,
    }
}

fn client(answers: impl IntoIterator<Item = (u16, String)>) -> TrinoHttp<Scripted> {
    TrinoHttp::new(Scripted::new(answers), ProbeOptions::default())
}

/// The body of `GET /v1/info` in a recorded exchange.
fn recorded_info(recording: &str) -> &str {
    recording
        .lines()
        .find(|line| line.contains(r#""starting":"#))
        .expect("a recorded /v1/info body")
}

const TRINO_483: &str = include_str!("../../../tests/fixtures/trino/trino483-basic.txt");
const TRINO_476: &str = include_str!("../../../tests/fixtures/trino/trino476-basic.txt");

#[test]
fn trino_483_says_who_it_is() {
    let info = read_info(recorded_info(TRINO_483).as_bytes()).unwrap();
    assert!(info.ready);
    assert_eq!(info.node, Some(TrinoNodeId::new("d1")));
    assert_eq!(info.coordinator, Some(CoordinatorId::new("assgy")));
    assert_eq!(info.version.as_deref(), Some("483"));
    assert_eq!(info.environment.as_deref(), Some("test"));
    assert_eq!(info.boot().unwrap().as_str(), "assgy");
}

#[test]
fn trino_476_is_ready_and_has_no_process_identity() {
    let info = read_info(recorded_info(TRINO_476).as_bytes()).unwrap();
    assert!(info.ready);
    assert_eq!((info.node.clone(), info.boot()), (None, None));
}

#[test]
fn t04_only_starting_false_and_coordinator_true_are_ready() {
    let ready = |body: &str| read_info(body.as_bytes()).unwrap().ready;
    assert!(ready(r#"{"starting":false,"coordinator":true}"#));
    for body in [
        r#"{"starting":true,"coordinator":true}"#,
        r#"{"starting":"false","coordinator":true}"#,
        r#"{"starting":null,"coordinator":true}"#,
        r#"{"starting":0,"coordinator":true}"#,
        r#"{"coordinator":true}"#,
        r#"{"starting":false}"#,
        r#"{"starting":false,"coordinator":false}"#,
        r#"{"starting":false,"coordinator":"true"}"#,
        r#"{"starting":false,"coordinator":null}"#,
        "{}",
    ] {
        assert!(!ready(body), "{body}");
    }
    for body in ["", "[]", "null", "<html>"] {
        assert!(read_info(body.as_bytes()).is_err(), "{body}");
    }
}

#[tokio::test]
async fn an_unavailable_coordinator_is_a_status_and_not_an_answer() {
    assert_eq!(
        client([(503, String::new())]).info(&target()).await,
        Err(ProbeError::Status(503))
    );
    assert!(matches!(
        client([]).info(&target()).await,
        Err(ProbeError::Unreachable(_))
    ));
}

fn page(next: Option<u32>, data: &str, state: &str) -> (u16, String) {
    let next = next.map_or(String::new(), |token| {
        format!(r#""nextUri":"https://front.example/v1/statement/executing/q_1/y/{token}","#)
    });
    (
        200,
        format!(r#"{{"id":"q_1",{next}"data":{data},"stats":{{"state":"{state}"}}}}"#),
    )
}

#[tokio::test]
async fn rows_are_gathered_over_pages_on_the_coordinator_that_was_asked() {
    let coordinator = client([
        page(Some(0), "null", "QUEUED"),
        page(Some(1), r#"[["c1",true,"active"]]"#, "RUNNING"),
        page(
            None,
            r#"[["w1",false,"active"],["w2",false,"inactive"]]"#,
            "FINISHED",
        ),
    ]);
    let nodes = coordinator.nodes(&target()).await.unwrap();
    assert_eq!(nodes.len(), 3);
    assert!(nodes[0].coordinator && nodes[0].active);
    assert!(!nodes[2].active);
    let sent = coordinator.transport.sent.lock().unwrap();
    assert_eq!(sent.len(), 3);
    for request in sent.iter() {
        assert_eq!(
            request.uri().authority().unwrap().as_str(),
            "cell-1a2b3c4d.trino.svc.cluster.local:8080"
        );
        assert_eq!(request.headers()["x-trino-user"], "trino-pool-operator");
        assert!(!request.headers().contains_key("x-forwarded-proto"));
    }
}

#[tokio::test]
async fn a_coordinator_that_never_ends_a_statement_is_left_and_told_so() {
    let endless = (0..1000).map(|token| page(Some(token), "null", "RUNNING"));
    let coordinator = client(endless);
    assert!(matches!(
        coordinator.catalogs(&target()).await,
        Err(ProbeError::Statement(_))
    ));
    let sent = coordinator.transport.sent.lock().unwrap();
    assert_eq!(sent.len(), MAX_PAGES + 1);
    assert_eq!(sent.last().unwrap().method(), Method::DELETE);
}

#[tokio::test]
async fn a_page_that_is_refused_ends_the_probe() {
    let coordinator = client([page(Some(0), "null", "QUEUED"), (404, "Query not found".into())]);
    assert_eq!(
        coordinator.catalogs(&target()).await,
        Err(ProbeError::Status(404))
    );
}

#[tokio::test]
async fn a_credential_and_forwarded_headers_are_sent_when_asked_for() {
    let coordinator = TrinoHttp::new(
        Scripted::new([(200, r#"{"starting":false,"coordinator":true}"#.to_owned())]),
        ProbeOptions {
            credential: Some(Credential {
                user: "Aladdin".into(),
                password: "open sesame".into(),
            }),
            forwarded_https: true,
            address: CoordinatorAddress::Resolve("127.0.0.1:9".into()),
            ..ProbeOptions::default()
        },
    );
    coordinator.info(&target()).await.unwrap();
    let sent = coordinator.transport.sent.lock().unwrap();
    let headers = sent[0].headers();
    assert_eq!(headers["authorization"], "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    assert_eq!(headers["x-trino-user"], "Aladdin");
    assert_eq!(headers["x-forwarded-proto"], "https");
    assert_eq!(headers["host"], "cell-1a2b3c4d.trino.svc.cluster.local:8080");
    assert_eq!(sent[0].uri().authority().unwrap().as_str(), "127.0.0.1:9");
    let shown = format!("{:?}", coordinator.options);
    assert!(!shown.contains("sesame"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_coordinator_costs_one_deadline() {
    struct Silent;
    #[async_trait]
    impl Transport for Silent {
        async fn exchange(&self, _: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
            std::future::pending().await
        }
    }
    let coordinator = TrinoHttp::new(Silent, ProbeOptions::default());
    assert!(matches!(
        coordinator.nodes(&target()).await,
        Err(ProbeError::Unreachable(_))
    ));
}
