//! What the API server's answer means: the one place where HTTP codes and `Status` objects are read.

use http::StatusCode;
use serde_json::Value;

use super::path::Resource;
use crate::cluster::port::{ClusterError, Written};

/// An answer that is not a success and not yet an error: the verb decides what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// HTTP status.
    pub(super) code: u16,
    /// `reason` of the Status, empty when there is none.
    pub(super) reason: String,
    /// `message` of the Status, or the beginning of another body.
    pub(super) message: String,
    /// `details.name`: set when a 404 is about one object, not about a whole kind.
    pub(super) names_object: bool,
    /// Some cause is about `metadata.uid`.
    about_uid: bool,
    /// It is a Kubernetes `Status`, or the API server's own plain "404 page not found".
    kubernetes: bool,
}

/// Either the JSON of a success, or what the verb must interpret.
pub(super) enum Answer {
    /// 2xx with a JSON body.
    Success(Value),
    /// Anything that has a meaning beyond "failed".
    Refused(Refusal),
}

/// Reads an answer. 429 is the throttle's and never comes here.
pub(super) fn read(status: StatusCode, body: &[u8]) -> Result<Answer, ClusterError> {
    let parsed: Result<Value, _> = serde_json::from_slice(body);
    if status.is_success() {
        return match parsed {
            Ok(value @ Value::Object(_)) => Ok(Answer::Success(value)),
            Ok(_) => Err(ClusterError::Server("the answer is not an object".to_owned())),
            Err(error) => Err(ClusterError::Server(format!(
                "the answer is not Kubernetes JSON ({error}): {}",
                beginning(body)
            ))),
        };
    }
    let refusal = refusal(status, parsed.ok().as_ref(), body);
    match status.as_u16() {
        401 => Err(ClusterError::Forbidden(refusal.message)),
        403 if refusal.is_about_us() => Err(ClusterError::Forbidden(refusal.message)),
        400..=499 if refusal.kubernetes => Ok(Answer::Refused(refusal)),
        code => Err(ClusterError::Server(format!("{code}: {}", refusal.message))),
    }
}

fn refusal(status: StatusCode, parsed: Option<&Value>, body: &[u8]) -> Refusal {
    let parsed = parsed.filter(|value| value.get("kind").and_then(Value::as_str) == Some("Status"));
    let text = |key: &str| {
        parsed
            .and_then(|status| status.get(key))
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let details = parsed.and_then(|status| status.get("details"));
    let causes = details
        .and_then(|details| details.get("causes"))
        .and_then(Value::as_array);
    let message = text("message").map_or_else(|| beginning(body), str::to_owned);
    Refusal {
        code: status.as_u16(),
        reason: text("reason").unwrap_or_default().to_owned(),
        names_object: details
            .and_then(|details| details.get("name"))
            .and_then(Value::as_str)
            .is_some_and(|name| !name.is_empty()),
        about_uid: causes.is_some_and(|causes| {
            causes
                .iter()
                .any(|cause| cause.get("field").and_then(Value::as_str) == Some("metadata.uid"))
        }) || message.contains("metadata.uid"),
        kubernetes: parsed.is_some() || body.starts_with(b"404 page not found"),
        message,
    }
}

impl Refusal {
    /// A 403 that says what *we* may not do, or that a quota is used up: retried, since a person or time
    /// can lift it without changing what we ask for. Other 403s are admission's verdict on the object.
    fn is_about_us(&self) -> bool {
        (self.message.contains("User \"") && self.message.contains(" cannot "))
            || self.message.contains("exceeded quota")
            || !self.kubernetes
    }

    /// What it means for a read of one name: only a 404 that names the object is absence (L4).
    pub(super) fn of_read(self, resource: Resource) -> Result<(), ClusterError> {
        match self.code {
            404 if self.names_object => Ok(()),
            _ => Err(self.of_list(resource)),
        }
    }

    /// What it means for a listing, which nothing makes absent.
    pub(super) fn of_list(self, resource: Resource) -> ClusterError {
        match self.code {
            403 => ClusterError::Forbidden(self.message),
            404 => ClusterError::KindNotServed(resource.label()),
            code => ClusterError::Server(format!("{code} {}: {}", self.reason, self.message)),
        }
    }

    /// What it means for a write.
    pub(super) fn of_write(self, resource: Resource) -> Result<Written, ClusterError> {
        match self.code {
            404 if self.names_object => Ok(Written::Absent),
            404 => Err(ClusterError::KindNotServed(resource.label())),
            409 => Ok(Written::Conflict(self.message)),
            // A patch that names another UID than the object's is "a change of an immutable field".
            422 if self.about_uid => Ok(Written::Conflict(self.message)),
            400 | 403 | 413 | 422 => Ok(Written::Denied(self.message)),
            code => Err(ClusterError::Server(format!(
                "{code} {}: {}",
                self.reason, self.message
            ))),
        }
    }
}

/// The beginning of a body that is not what was expected, on one line.
fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..body.len().min(400)).unwrap_or_default());
    let line: Vec<&str> = text.split_whitespace().collect();
    let line: String = line.join(" ").chars().take(160).collect();
    if line.is_empty() {
        "empty body".to_owned()
    } else {
        line
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::path::CLAIMS;
    use super::*;

    fn refused(code: u16, body: &Value) -> Refusal {
        match read(StatusCode::from_u16(code).unwrap(), body.to_string().as_bytes()) {
            Ok(Answer::Refused(refusal)) => refusal,
            Ok(Answer::Success(value)) => panic!("success {value}"),
            Err(error) => panic!("{error}"),
        }
    }

    fn status(reason: &str, message: &str, details: &Value) -> Value {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
            "message": message, "details": details})
    }

    #[test]
    fn only_a_404_that_names_the_object_is_absence() {
        let gone = status(
            "NotFound",
            "nodeclaims \"c\" not found",
            &json!({"name": "c", "kind": "nodeclaims"}),
        );
        assert_eq!(refused(404, &gone).of_read(CLAIMS), Ok(()));
        let kind = status(
            "NotFound",
            "the server could not find the requested resource",
            &json!({}),
        );
        let not_served = ClusterError::KindNotServed("karpenter.sh/v1/nodeclaims".to_owned());
        assert_eq!(refused(404, &kind).of_read(CLAIMS), Err(not_served.clone()));
        assert_eq!(refused(404, &gone).of_list(CLAIMS), not_served);
        match read(StatusCode::NOT_FOUND, b"404 page not found\n") {
            Ok(Answer::Refused(refusal)) => assert_eq!(refusal.of_read(CLAIMS), Err(not_served)),
            _ => panic!("an unknown group is a kind that is not served"),
        }
        // A proxy's own 404 says nothing about Kubernetes.
        assert!(matches!(
            read(StatusCode::NOT_FOUND, b"<html><body>404 Not Found</body></html>"),
            Err(ClusterError::Server(_))
        ));
    }

    #[test]
    fn writes_conflict_are_denied_or_have_no_verdict() {
        let uid =
            json!({"name": "n1", "causes": [{"field": "metadata.uid", "message": "field is immutable"}]});
        let immutable = status("Invalid", "Node \"n1\" is invalid", &uid);
        assert!(matches!(
            refused(422, &immutable).of_write(CLAIMS),
            Ok(Written::Conflict(_))
        ));
        let invalid = status(
            "Invalid",
            "spec.replicas: must be positive",
            &json!({"name": "d"}),
        );
        assert!(matches!(
            refused(422, &invalid).of_write(CLAIMS),
            Ok(Written::Denied(_))
        ));
        let precondition = status(
            "Conflict",
            "the UID in the precondition (a) does not match",
            &json!({}),
        );
        assert!(matches!(
            refused(409, &precondition).of_write(CLAIMS),
            Ok(Written::Conflict(_))
        ));
        let webhook = status(
            "Forbidden",
            "admission webhook \"x\" denied the request: no",
            &json!({}),
        );
        assert!(
            matches!(refused(403, &webhook).of_write(CLAIMS), Ok(Written::Denied(message)) if message.contains("no"))
        );
        let method = status("MethodNotAllowed", "not here", &json!({}));
        assert!(matches!(
            refused(405, &method).of_write(CLAIMS),
            Err(ClusterError::Server(_))
        ));
    }

    #[test]
    fn missing_permissions_and_used_up_quotas_are_not_verdicts_on_the_object() {
        for message in [
            "nodes \"n1\" is forbidden: User \"system:serviceaccount:a:b\" cannot patch resource \"nodes\"",
            "configmaps \"x\" is forbidden: exceeded quota: small, requested: count/configmaps=1",
        ] {
            let body = status("Forbidden", message, &json!({"name": "n1"})).to_string();
            assert!(matches!(
                read(StatusCode::FORBIDDEN, body.as_bytes()),
                Err(ClusterError::Forbidden(said)) if said == message
            ));
        }
        assert!(matches!(
            read(StatusCode::UNAUTHORIZED, b"Unauthorized"),
            Err(ClusterError::Forbidden(_))
        ));
        assert!(matches!(
            read(StatusCode::FORBIDDEN, b"<html>blocked by proxy</html>"),
            Err(ClusterError::Forbidden(_))
        ));
    }

    #[test]
    fn k09_what_is_not_kubernetes_is_a_failure_of_the_server() {
        let conversion = status("InternalError", "conversion webhook failed", &json!({})).to_string();
        for (code, body) in [
            (500, conversion.as_str()),
            (503, ""),
            (502, "<html>bad gateway</html>"),
            (200, "<html>please log in</html>"),
            (200, "{\"items\": [{\"metadata\""),
            (200, "[]"),
            (302, ""),
        ] {
            match read(StatusCode::from_u16(code).unwrap(), body.as_bytes()) {
                Err(ClusterError::Server(message)) => assert!(!message.is_empty()),
                Err(other) => panic!("{code} {body}: {other}"),
                Ok(_) => panic!("{code} {body} was taken for an answer"),
            }
        }
    }
}
