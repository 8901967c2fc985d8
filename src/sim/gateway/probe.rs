//! The gateway's own look at a coordinator: `GET <url>/v1/info`, the only witness of a process identity
//! that it trusts (protocol section 5.3).

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::Value;

use super::Upstream;
use super::denied::Denied;

/// The process that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) node_id: String,
    pub(super) coordinator_id: String,
}

/// Asks the coordinator at `origin` who it is; refuses anything but a started coordinator with both ids.
pub(super) fn probe(upstream: &mut dyn Upstream, origin: &str) -> Result<Observed, Denied> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = http::Uri::from_static("/v1/info");
    let answer = upstream.exchange(origin, &request).ok_or_else(|| {
        Denied::coded(
            StatusCode::SERVICE_UNAVAILABLE,
            "POOL_PROBE_UNAVAILABLE",
            "the coordinator does not answer",
        )
    })?;
    let ready = (answer.status() == StatusCode::OK)
        .then(|| serde_json::from_slice::<Value>(answer.body()).ok())
        .flatten()
        .and_then(|info| ready(&info));
    ready.ok_or_else(|| {
        Denied::plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "the endpoint is not a ready coordinator",
        )
    })
}

fn ready(info: &Value) -> Option<Observed> {
    let text = |name: &str| info.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    // A missing `starting` counts as true.
    let started = info.get("starting") == Some(&Value::Bool(false));
    let coordinator = info.get("coordinator") == Some(&Value::Bool(true));
    let node_id = text("nodeId").filter(|id| !id.trim().is_empty())?;
    let coordinator_id =
        text("coordinatorId").filter(|id| id.len() == 5 && id.bytes().all(|b| b.is_ascii_alphanumeric()))?;
    (started && coordinator).then_some(Observed {
        node_id,
        coordinator_id,
    })
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    struct Says(Option<(u16, &'static str)>);

    impl Upstream for Says {
        fn exchange(&mut self, _origin: &str, _request: &Request<Bytes>) -> Option<Response<Bytes>> {
            let (status, body) = self.0?;
            Some(
                Response::builder()
                    .status(status)
                    .body(Bytes::from_static(body.as_bytes()))
                    .unwrap(),
            )
        }
    }

    #[test]
    fn only_a_started_coordinator_with_both_ids_is_observed() {
        let good = r#"{"nodeId":"n","coordinator":true,"coordinatorId":"ab1cd","starting":false}"#;
        assert_eq!(
            probe(&mut Says(Some((200, good))), "u").unwrap().coordinator_id,
            "ab1cd"
        );
        for (status, body) in [
            (500, good),
            (
                200,
                r#"{"nodeId":"n","coordinator":true,"coordinatorId":"ab1cd"}"#,
            ),
            (
                200,
                r#"{"nodeId":"n","coordinator":true,"coordinatorId":"ab1cd","starting":true}"#,
            ),
            (
                200,
                r#"{"nodeId":"n","coordinator":false,"coordinatorId":"ab1cd","starting":false}"#,
            ),
            (
                200,
                r#"{"nodeId":" ","coordinator":true,"coordinatorId":"ab1cd","starting":false}"#,
            ),
            (
                200,
                r#"{"nodeId":"n","coordinator":true,"coordinatorId":"ab1c-","starting":false}"#,
            ),
            (200, r#"{"nodeId":"n","coordinator":true,"starting":false}"#),
            (200, "starting"),
        ] {
            assert_eq!(
                probe(&mut Says(Some((status, body))), "u").unwrap_err().code(),
                None,
                "{body}"
            );
        }
        let unreachable = probe(&mut Says(None), "u").unwrap_err();
        assert_eq!(unreachable.code(), Some("POOL_PROBE_UNAVAILABLE"));
    }
}
