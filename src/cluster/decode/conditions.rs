//! `status.conditions` as they really look: entries without reason or message, doubled types, odd
//! status words (K17).

use serde_json::Value;

use super::DecodeError;
use super::fields::list;

/// The conditions of one object. Unknown types and extra fields are ignored.
pub(super) struct Conditions<'a>(Vec<&'a Value>);

impl<'a> Conditions<'a> {
    /// Reads `status.conditions`; absent or `null` is none.
    pub(super) fn of(object: &'a Value) -> Result<Self, DecodeError> {
        let path = ["status", "conditions"];
        let entries = list(object, &path)?;
        if entries.iter().any(|entry| !entry.is_object()) {
            return Err(DecodeError::at(&path, "an entry is not an object"));
        }
        Ok(Self(entries.iter().collect()))
    }

    fn with(&self, kind: &'a str, status: &'a str) -> impl Iterator<Item = &'a Value> + '_ {
        self.0.iter().copied().filter(move |entry| {
            word(entry, "type") == Some(kind)
                // Exactly this word: "true" or a boolean is not True.
                && word(entry, "status") == Some(status)
        })
    }

    /// Some when any entry of that type is True; holds the first reason that one of them gives.
    #[allow(
        clippy::option_option,
        reason = "outer: whether it is True; inner: whether it says why"
    )]
    pub(super) fn when_true(&self, kind: &'a str) -> Option<Option<String>> {
        let mut entries = self.with(kind, "True").peekable();
        entries.peek()?;
        Some(entries.find_map(|entry| word(entry, "reason")).map(str::to_owned))
    }

    /// Whether any entry of that type is True.
    pub(super) fn is_true(&self, kind: &'a str) -> bool {
        self.with(kind, "True").next().is_some()
    }

    /// Whether any entry of that type is False for exactly that reason.
    pub(super) fn is_false_because(&self, kind: &'a str, reason: &str) -> bool {
        self.with(kind, "False")
            .any(|entry| word(entry, "reason") == Some(reason))
    }

    /// Why an entry of that type is False: its message, else its reason, else nothing but the fact.
    pub(super) fn why_false(&self, kind: &'a str) -> Option<String> {
        self.with(kind, "False").next().map(|entry| {
            word(entry, "message")
                .or_else(|| word(entry, "reason"))
                .unwrap_or("no reason given")
                .to_owned()
        })
    }
}

fn word<'a>(entry: &'a Value, key: &str) -> Option<&'a str> {
    entry
        .get(key)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}
