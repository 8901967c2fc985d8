//! The hash by which the gateway tells a replay from another intent (protocol section 2.2).

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::pool::canonical::hex;

/// Which parts of the envelope a hash covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Covers {
    /// Everything but `controllerEpoch` and `ownerIdentity`: a successor may replay the step.
    Intent,
    /// Everything: of `PUT pool` only, which is a claim of authority.
    IntentAndAuthority,
}

/// Lower-case hex SHA-256 of the canonical form.
pub(super) fn payload_hash(body: &Map<String, Value>, covers: Covers) -> String {
    let mut intent = body.clone();
    if covers == Covers::Intent {
        intent.remove("controllerEpoch");
        intent.remove("ownerIdentity");
    }
    hex(&Sha256::digest(canonical(&Value::Object(intent)).as_bytes()))
}

/// Compact JSON with the keys of every object sorted by UTF-16 code units.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            let members: Vec<String> = keys
                .into_iter()
                .filter_map(|key| Some((key, fields.get(key)?)))
                .map(|(key, member)| format!("{}:{}", Value::from(key.as_str()), canonical(member)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_check_vector_of_a_drain_leaves_authority_out() {
        let body = object(
            r#"{"operationId":"op-9","stepId":"drain","controllerEpoch":7,"ownerIdentity":"ctl-a","expectedGeneration":1}"#,
        );
        assert_eq!(
            payload_hash(&body, Covers::Intent),
            "40ad1a004caa1325cd7f70068aa45c6cbabf016335b0c57e26fc0cee67b22701"
        );
    }

    #[test]
    fn the_check_vector_of_a_configuration_keeps_authority() {
        let body = object(
            r#"{"operationId":"op-1","stepId":"configure","controllerEpoch":7,"ownerIdentity":"ctl-a","apiMode":"POOLED","minServing":2}"#,
        );
        assert_eq!(
            payload_hash(&body, Covers::IntentAndAuthority),
            "b9c91dc234bde6a069b281c498181ad63e34f686c9a3d6f514ccc58c404cef55"
        );
    }

    #[test]
    fn keys_sort_by_utf16_units_and_text_stays_unescaped() {
        // U+1F600 is a surrogate pair (D83D…) and sorts before U+FB01 in UTF-16, after it in UTF-8.
        let value = Value::Object(object(
            "{\"\u{fb01}\":\"a/b\\n\u{e9}\",\"\u{1f600}\":null,\"b\":[{\"d\":1,\"c\":2}]}",
        ));
        assert_eq!(
            canonical(&value),
            "{\"b\":[{\"c\":2,\"d\":1}],\"\u{1f600}\":null,\"\u{fb01}\":\"a/b\\n\u{e9}\"}"
        );
    }

    #[test]
    fn an_explicit_null_is_another_intent_than_absence() {
        assert_ne!(
            payload_hash(&object(r#"{"a":1,"repairFor":null}"#), Covers::Intent),
            payload_hash(&object(r#"{"a":1}"#), Covers::Intent)
        );
    }

    proptest! {
        #[test]
        fn authority_never_changes_the_hash_of_an_intent(
            fields in proptest::collection::btree_map("[a-z]{1,6}", "\\PC{0,8}", 0..6),
            epoch in any::<u64>(),
            owner in "\\PC{0,8}",
        ) {
            let plain: Map<String, Value> = fields.into_iter().map(|(k, v)| (k, Value::from(v))).collect();
            let mut claimed = plain.clone();
            claimed.insert("controllerEpoch".into(), epoch.into());
            claimed.insert("ownerIdentity".into(), owner.into());
            prop_assert_eq!(payload_hash(&plain, Covers::Intent), payload_hash(&claimed, Covers::Intent));
            prop_assert_ne!(
                payload_hash(&plain, Covers::IntentAndAuthority),
                payload_hash(&claimed, Covers::IntentAndAuthority)
            );
        }
    }
}
