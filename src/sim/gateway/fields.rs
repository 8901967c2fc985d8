//! Reads and checks the fields of a request body (protocol section 1.3): static validation, before
//! anything is looked up.

use serde_json::{Map, Value};

use super::canon::{Covers, payload_hash};
use super::denied::Denied;

/// A body that is a JSON object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(super) const fn new(body: &'a Map<String, Value>) -> Self {
        Self(body)
    }

    /// A JSON string that is not empty.
    pub(super) fn required(self, name: &str) -> Result<&'a str, Denied> {
        self.optional(name)
            .ok_or_else(|| Denied::validation(format!("{name} is required")))
    }

    /// A non-empty string counts; anything else is absent.
    pub(super) fn optional(self, name: &str) -> Option<&'a str> {
        self.0
            .get(name)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    }

    /// A required identity of at most 256 characters without control characters, not blank.
    pub(super) fn identity(self, name: &str) -> Result<String, Denied> {
        self.text(name, 256)
    }

    /// A required revision of at most 128 characters.
    pub(super) fn revision(self, name: &str) -> Result<String, Denied> {
        self.text(name, 128)
    }

    fn text(self, name: &str, longest: usize) -> Result<String, Denied> {
        let text = self.required(name)?;
        if text.trim().is_empty() || text.chars().count() > longest || text.chars().any(char::is_control) {
            return Err(Denied::validation(format!("{name} is not acceptable")));
        }
        Ok(text.to_owned())
    }

    /// A required word of `[A-Za-z0-9_.:-]`.
    pub(super) fn word(self, name: &str, longest: usize) -> Result<String, Denied> {
        let text = self.required(name)?;
        if !is_word(text, longest) {
            return Err(Denied::validation(format!("{name} is not acceptable")));
        }
        Ok(text.to_owned())
    }

    /// An integral JSON number, 0 ≤ n ≤ the largest signed 64-bit value.
    pub(super) fn count(self, name: &str) -> Result<u64, Denied> {
        self.0
            .get(name)
            .and_then(Value::as_u64)
            .filter(|count| i64::try_from(*count).is_ok())
            .ok_or_else(|| Denied::validation(format!("{name} must be a whole number")))
    }

    /// A required integer within bounds.
    pub(super) fn within(self, name: &str, least: u64, most: u64) -> Result<u64, Denied> {
        let count = self.count(name)?;
        if count < least || count > most {
            return Err(Denied::validation(format!("{name} must be {least}..={most}")));
        }
        Ok(count)
    }

    /// Missing or anything but `true` is false.
    pub(super) fn flag(self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    /// A nested object.
    pub(super) fn object(self, name: &str) -> Option<Fields<'a>> {
        self.0.get(name).and_then(Value::as_object).map(Fields)
    }

    /// Whether the field is there at all.
    pub(super) fn has(self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// An array of strings.
    pub(super) fn words(self, name: &str) -> Result<Vec<&'a str>, Denied> {
        let items = self.0.get(name).and_then(Value::as_array);
        items
            .and_then(|items| items.iter().map(Value::as_str).collect())
            .ok_or_else(|| Denied::validation(format!("{name} must be a list of strings")))
    }

    /// The value itself, to be stored.
    pub(super) fn raw(self) -> Value {
        Value::Object(self.0.clone())
    }
}

/// `[A-Za-z0-9_.:-]{1,longest}`.
pub(super) fn is_word(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
}

/// The idempotency envelope (section 2.1) and the hash of the body it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) operation: String,
    pub(super) step: String,
    pub(super) epoch: u64,
    pub(super) owner: Option<String>,
    pub(super) hash: String,
}

impl Envelope {
    pub(super) fn read(body: &Map<String, Value>, covers: Covers) -> Result<Self, Denied> {
        let fields = Fields::new(body);
        let owner = fields.optional("ownerIdentity");
        if owner.is_some_and(|owner| !is_word(owner, 256)) {
            return Err(Denied::validation("ownerIdentity is not acceptable"));
        }
        Ok(Self {
            operation: fields.word("operationId", 256)?,
            step: fields.word("stepId", 64)?,
            epoch: fields.count("controllerEpoch")?,
            owner: owner.map(ToOwned::to_owned),
            hash: payload_hash(body, covers),
        })
    }
}
