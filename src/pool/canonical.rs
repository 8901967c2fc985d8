//! Canonical JSON and the digest of it: the same content has the same digest in every process, on every
//! platform and in every version of this binary.
//!
//! Keys are sorted by byte, there is no white space, numbers stand as serde_json writes them. Sorting is
//! done here and not left to serde_json, whose `preserve_order` feature any dependency may switch on.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::ids::Digest;

/// Compact JSON with the keys of every object sorted.
#[must_use]
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

/// Lower-case hex SHA-256 of the canonical JSON.
#[must_use]
pub fn digest_of(value: &Value) -> Digest {
    Digest::new(hex(&Sha256::digest(canonical_json(value).as_bytes())))
}

/// Whether a stored text can be a digest at all: 64 lower-case hex digits.
#[must_use]
pub fn is_digest(digest: &Digest) -> bool {
    let text = digest.as_str();
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by(|left, right| left.0.cmp(right.0));
            text.push('{');
            for (index, (key, item)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&Value::String(key.clone()).to_string());
                text.push(':');
                write(item, text);
            }
            text.push('}');
        }
    }
}

/// Lower-case hex digits of `bytes`.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth_and_nothing_is_padded() {
        let value = json!({"b": [1, {"z": null, "a": "\"\u{e9}"}], "a": true, "": 1.5});
        assert_eq!(
            canonical_json(&value),
            "{\"\":1.5,\"a\":true,\"b\":[1,{\"a\":\"\\\"\u{e9}\",\"z\":null}]}"
        );
    }

    #[test]
    fn a_digest_is_the_sha_256_of_that_text() {
        // `printf '{}' | sha256sum`
        assert_eq!(
            digest_of(&json!({})).as_str(),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
        assert!(is_digest(&digest_of(&json!({"a": 1}))));
        assert!(!is_digest(&Digest::from("")));
        assert!(!is_digest(&Digest::new("A".repeat(64))));
    }

    proptest! {
        #[test]
        fn the_text_says_the_same_as_the_value(entries in proptest::collection::btree_map(".*", any::<i64>(), 0..8)) {
            let value = json!(entries);
            let read: Value = serde_json::from_str(&canonical_json(&value)).unwrap();
            prop_assert_eq!(read, value);
        }
    }
}
