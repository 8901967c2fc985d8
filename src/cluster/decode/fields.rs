//! Reading one field of a JSON object: absent and `null` are none, another type is an error that names
//! the field.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::DecodeError;
use crate::cluster::facts::OwnerRef;

/// The value at `path`; a missing or `null` step is none.
pub(super) fn at<'a>(root: &'a Value, path: &[&str]) -> Result<Option<&'a Value>, DecodeError> {
    let mut value = root;
    for (depth, key) in path.iter().enumerate() {
        match value {
            Value::Object(fields) => match fields.get(*key) {
                None | Some(Value::Null) => return Ok(None),
                Some(next) => value = next,
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(DecodeError::at(
                    path.get(..depth).unwrap_or_default(),
                    "not an object",
                ));
            }
        }
    }
    Ok(Some(value))
}

/// A text, as it stands.
pub(super) fn text<'a>(root: &'a Value, path: &[&str]) -> Result<Option<&'a str>, DecodeError> {
    match at(root, path)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(DecodeError::at(path, "not a text")),
    }
}

/// A text that is not empty: Kubernetes writes "" for "not set yet", and two empty identities are never
/// the same identity (K05).
pub(super) fn filled<'a>(root: &'a Value, path: &[&str]) -> Result<Option<&'a str>, DecodeError> {
    Ok(text(root, path)?.filter(|text| !text.is_empty()))
}

/// A text without which the object has no identity.
pub(super) fn required<'a>(root: &'a Value, path: &[&str]) -> Result<&'a str, DecodeError> {
    filled(root, path)?.ok_or_else(|| DecodeError::at(path, "missing"))
}

/// A flag; absent is false.
pub(super) fn flag(root: &Value, path: &[&str]) -> Result<bool, DecodeError> {
    match at(root, path)? {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(DecodeError::at(path, "not true or false")),
    }
}

/// A whole number of at least 0 that fits.
pub(super) fn count<N: TryFrom<u64>>(root: &Value, path: &[&str]) -> Result<Option<N>, DecodeError> {
    at(root, path)?
        .map(|value| {
            value
                .as_u64()
                .and_then(|count| N::try_from(count).ok())
                .ok_or_else(|| DecodeError::at(path, "not a count"))
        })
        .transpose()
}

/// An RFC 3339 time, with or without a fraction (`Time` and `MicroTime`).
pub(super) fn time(root: &Value, path: &[&str]) -> Result<Option<Timestamp>, DecodeError> {
    filled(root, path)?
        .map(|text| {
            text.parse()
                .map_err(|error| DecodeError::at(path, format!("not a time: {error}")))
        })
        .transpose()
}

/// A list; absent is empty.
pub(super) fn list<'a>(root: &'a Value, path: &[&str]) -> Result<&'a [Value], DecodeError> {
    match at(root, path)? {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(DecodeError::at(path, "not a list")),
    }
}

/// Labels or annotations; a `null` value counts as absent.
pub(super) fn texts(root: &Value, path: &[&str]) -> Result<BTreeMap<String, String>, DecodeError> {
    let Some(value) = at(root, path)? else {
        return Ok(BTreeMap::new());
    };
    let Value::Object(fields) = value else {
        return Err(DecodeError::at(path, "not an object"));
    };
    let mut texts = BTreeMap::new();
    for (key, value) in fields {
        match value {
            Value::String(text) => {
                texts.insert(key.clone(), text.clone());
            }
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                return Err(DecodeError::at(path, format!("{key} is not a text")));
            }
        }
    }
    Ok(texts)
}

/// One annotation, as it stands.
pub(super) fn annotation<'a>(root: &'a Value, key: &str) -> Result<Option<&'a str>, DecodeError> {
    text(root, &["metadata", "annotations", key])
}

/// `metadata.deletionTimestamp` is set.
pub(super) fn deleting(root: &Value) -> Result<bool, DecodeError> {
    Ok(time(root, &["metadata", "deletionTimestamp"])?.is_some())
}

/// `metadata.ownerReferences`. A reference that lacks a part is kept with that part empty: it proves
/// nothing, and is not "no owner" (K08).
pub(super) fn owners(root: &Value) -> Result<Vec<OwnerRef>, DecodeError> {
    list(root, &["metadata", "ownerReferences"])?
        .iter()
        .map(|owner| {
            let part = |key: &str| text(owner, &[key]).map(|text| text.unwrap_or_default().to_owned());
            Ok(OwnerRef {
                api_version: part("apiVersion")?,
                kind: part("kind")?,
                name: part("name")?,
                uid: part("uid")?,
                controller: flag(owner, &["controller"])?,
            })
        })
        .collect()
}
