//! The transport against a server on 127.0.0.1. Nothing here waits for a deadline.

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use tokio::net::TcpListener;

use super::*;

async fn served() -> String {
    let app = Router::new()
        .route(
            "/host",
            get(|headers: HeaderMap| async move {
                let host = headers
                    .get(HOST)
                    .and_then(|host| host.to_str().ok())
                    .unwrap_or_default();
                host.to_owned()
            }),
        )
        .route(
            "/away",
            get(|| async { (StatusCode::FOUND, [("location", "/host")], "elsewhere") }),
        )
        .route("/long", get(|| async { "x".repeat(2000) }))
        .route(
            "/broken",
            get(|| async {
                axum::body::Body::from_stream(futures::stream::iter([
                    Ok(Bytes::from_static(b"half")),
                    Err(std::io::Error::other("cut")),
                ]))
            }),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address.to_string()
}

fn transport(options: NetworkOptions) -> NetworkTransport {
    NetworkTransport::new(NetworkOptions {
        trust: Trust::Nobody,
        ..options
    })
    .unwrap()
}

fn get_request(url: &str) -> http::Request<Bytes> {
    http::Request::get(url).body(Bytes::new()).unwrap()
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let address = served().await;
    let answer = transport(NetworkOptions::default())
        .exchange(get_request(&format!("http://{address}/away")))
        .await
        .unwrap();
    assert_eq!(answer.status(), 302);
    assert_eq!(answer.body().as_ref(), b"elsewhere");
}

#[tokio::test]
async fn an_answer_longer_than_the_cap_is_no_answer() {
    let address = served().await;
    let url = format!("http://{address}/long");
    let capped = transport(NetworkOptions {
        max_answer: 1999,
        ..NetworkOptions::default()
    });
    assert_eq!(
        capped.exchange(get_request(&url)).await.unwrap_err(),
        TransportError::TooLong(1999)
    );
    let roomy = transport(NetworkOptions {
        max_answer: 2000,
        ..NetworkOptions::default()
    });
    assert_eq!(
        roomy.exchange(get_request(&url)).await.unwrap().body().len(),
        2000
    );
}

#[tokio::test]
async fn a_connection_cut_in_the_answer_is_told_from_one_never_made() {
    let address = served().await;
    let transport = transport(NetworkOptions::default());
    let broken = transport
        .exchange(get_request(&format!("http://{address}/broken")))
        .await;
    assert!(matches!(broken, Err(TransportError::Broken(_))), "{broken:?}");

    // A port that was free a moment ago: bound, never listened on by anybody else.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = free.local_addr().unwrap();
    drop(free);
    let refused = transport
        .exchange(get_request(&format!("http://{nobody}/")))
        .await;
    assert!(
        matches!(refused, Err(TransportError::NotConnected(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn the_far_end_of_an_override_still_sees_the_host_that_was_meant() {
    let address = served().await;
    let options = NetworkOptions {
        connect_to: Some(address.parse().unwrap()),
        ..NetworkOptions::default()
    };
    let answer = transport(options)
        .exchange(get_request("http://cell-1a2b3c4d.trino.svc:8080/host"))
        .await
        .unwrap();
    assert_eq!(answer.body().as_ref(), b"cell-1a2b3c4d.trino.svc:8080");
}

#[tokio::test]
async fn an_override_never_carries_tls_to_another_name() {
    let options = NetworkOptions {
        connect_to: Some("127.0.0.1:1".parse().unwrap()),
        ..NetworkOptions::default()
    };
    let refused = transport(options)
        .exchange(get_request("https://gateway.example/"))
        .await;
    assert!(
        matches!(refused, Err(TransportError::NotConnected(_))),
        "{refused:?}"
    );
}

#[test]
fn an_override_needs_host_and_port() {
    for wrong in [
        "",
        "host",
        "host:",
        ":80",
        "user@host:80",
        "host:99999",
        "a b:1",
        "host:1/x",
    ] {
        assert!(wrong.parse::<ConnectTo>().is_err(), "{wrong}");
    }
    assert_eq!(
        "127.0.0.1:8443".parse::<ConnectTo>().unwrap().to_string(),
        "127.0.0.1:8443"
    );
}
