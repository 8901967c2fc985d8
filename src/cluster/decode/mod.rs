//! From JSON as the API server sent it to facts, leniently and item by item.
//!
//! Pure: owns no client and no clock. Unknown fields are ignored; an absent, `null` or empty optional
//! field is "none"; a field that a rule reads and that has another type than it must have makes *that
//! object* undecodable, by name and UID where those can be read. It never fails a list, and it never
//! turns "unreadable" into "absent".

mod conditions;
mod fields;
mod go_duration;
mod node;
mod objects;
mod pod;
mod resource;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use go_duration::parse_go_duration;
pub use node::{claim, node};
pub use objects::{deployment, object, replica_set};
pub use pod::pod;
pub use resource::{encode_lease_spec, lease, pool};

use super::facts::{Listing, Undecodable};

/// Why one object cannot be decoded: the field, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct DecodeError {
    /// Dotted path of the field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl DecodeError {
    fn at(path: &[&str], problem: impl Into<String>) -> Self {
        Self {
            field: if path.is_empty() {
                "the object".to_owned()
            } else {
                path.join(".")
            },
            problem: problem.into(),
        }
    }
}

/// Decodes every item on its own and appends to `listing` what came of it.
pub fn extend<T>(
    listing: &mut Listing<T>,
    items: &[Value],
    decode: impl Fn(&Value) -> Result<T, DecodeError>,
) {
    for item in items {
        match decode(item) {
            Ok(decoded) => listing.items.push(decoded),
            Err(error) => listing.undecodable.push(undecodable(item, &error)),
        }
    }
}

/// Names an object that cannot be decoded, as far as it can be named.
#[must_use]
pub fn undecodable(item: &Value, error: &DecodeError) -> Undecodable {
    let named = |key: &str| {
        item.get("metadata")
            .and_then(|metadata| metadata.get(key))
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    Undecodable {
        name: named("name"),
        uid: named("uid"),
        problem: error.to_string(),
    }
}
