//! Reads one JSON object field by field, remembers which fields it was asked for, and reports the rest.
//!
//! A field that is absent and one that is `null` are the same, as in Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::fmt::friendly::SpanParser;
use serde_json::{Map, Value};

use super::Problems;
use crate::pool::desired::FiniteGrace;

pub(super) struct Fields<'a> {
    path: String,
    map: Option<&'a Map<String, Value>>,
    known: BTreeSet<&'static str>,
    problems: &'a Problems,
}

impl<'a> Fields<'a> {
    /// The spec itself.
    pub(super) fn root(value: &'a Value, problems: &'a Problems) -> Self {
        Self::at("spec".to_owned(), Some(value), problems)
    }

    fn at(path: String, value: Option<&'a Value>, problems: &'a Problems) -> Self {
        let map = match value {
            None | Some(Value::Null) => None,
            Some(Value::Object(map)) => Some(map),
            Some(other) => {
                problems.add(&path, format!("is {}", kind(other)), "make it an object");
                None
            }
        };
        Self {
            path,
            map,
            known: BTreeSet::new(),
            problems,
        }
    }

    /// Path of this object.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Path of one of its fields.
    pub(super) fn path_of(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    /// Reports every field that nobody asked for.
    pub(super) fn finish(self) {
        let Some(map) = self.map else { return };
        for name in map.keys().filter(|name| !self.known.contains(name.as_str())) {
            let known: Vec<&str> = self.known.iter().copied().collect();
            self.problems.add(
                self.path_of(name),
                "is not a field of a TrinoPool",
                format!("remove it; known here are {}", known.join(", ")),
            );
        }
    }

    /// The raw value of a field.
    pub(super) fn raw(&mut self, name: &'static str) -> Option<&'a Value> {
        self.known.insert(name);
        self.map
            .and_then(|map| map.get(name))
            .filter(|value| !value.is_null())
    }

    /// An object that may be absent.
    pub(super) fn section(&mut self, name: &'static str) -> Self {
        let value = self.raw(name);
        Self::at(self.path_of(name), value, self.problems)
    }

    /// An object that must be there.
    pub(super) fn required_section(&mut self, name: &'static str) -> Self {
        if self.raw(name).is_none() {
            self.missing(name);
        }
        self.section(name)
    }

    /// A text that may be absent, but not empty.
    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        match self.raw(name)? {
            Value::String(text) if text.trim().is_empty() => {
                self.problems
                    .add(self.path_of(name), "is empty", "give it a value or leave it out");
                None
            }
            Value::String(text) => Some(text.clone()),
            other => {
                self.wrong(name, other, "a string");
                None
            }
        }
    }

    /// A text that must be there.
    pub(super) fn required_text(&mut self, name: &'static str) -> String {
        if self.raw(name).is_none() {
            self.missing(name);
            return String::new();
        }
        self.text(name).unwrap_or_default()
    }

    /// A whole number within a range; required without a default.
    pub(super) fn number(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u32>,
        default: Option<u32>,
    ) -> u32 {
        let fallback = default.unwrap_or(*range.start());
        let Some(value) = self.raw(name) else {
            if default.is_none() {
                self.missing(name);
            }
            return fallback;
        };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        if let Some(number) = number.filter(|number| range.contains(number)) {
            return number;
        }
        self.problems.add(
            self.path_of(name),
            format!("is {value}"),
            format!("use a whole number from {} to {}", range.start(), range.end()),
        );
        fallback
    }

    /// A boolean.
    pub(super) fn boolean(&mut self, name: &'static str, default: bool) -> bool {
        match self.raw(name) {
            None => default,
            Some(Value::Bool(value)) => *value,
            Some(other) => {
                self.wrong(name, other, "true or false");
                default
            }
        }
    }

    /// One of a few words; the first is the default.
    pub(super) fn choice<T: Copy + Default>(&mut self, name: &'static str, words: &[(&str, T)]) -> T {
        let Some(value) = self.raw(name) else {
            return T::default();
        };
        let chosen = words.iter().find(|(word, _)| value.as_str() == Some(*word));
        if let Some((_, choice)) = chosen {
            return *choice;
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.problems.add(
            self.path_of(name),
            format!("is {value}"),
            format!("use one of {}", known.join(", ")),
        );
        T::default()
    }

    /// A duration such as `30s`, `15m` or `1h 30m`; longer than nothing.
    pub(super) fn duration(&mut self, name: &'static str, default: Duration) -> Duration {
        let Some(value) = self.raw(name) else {
            return default;
        };
        self.parse_duration(&self.path_of(name), value).unwrap_or(default)
    }

    /// `Reject`, or `{acceptAtLeast: <duration>}`.
    pub(super) fn finite_grace(&mut self, name: &'static str) -> Option<FiniteGrace> {
        match self.raw(name)? {
            Value::String(word) if word == "Reject" => Some(FiniteGrace::Reject),
            value @ Value::Object(_) => {
                let mut section = Fields::at(self.path_of(name), Some(value), self.problems);
                let least = section.raw("acceptAtLeast");
                if least.is_none() {
                    section.missing("acceptAtLeast");
                }
                let path = section.path_of("acceptAtLeast");
                section.finish();
                Some(FiniteGrace::AcceptAtLeast(self.parse_duration(&path, least?)?))
            }
            other => {
                self.wrong(
                    name,
                    other,
                    "\"Reject\", or an object such as {acceptAtLeast: 30m}",
                );
                None
            }
        }
    }

    /// An object of texts, such as files by name.
    pub(super) fn text_map(&mut self, name: &'static str) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        let value = self.raw(name);
        let Some(map) = Self::at(self.path_of(name), value, self.problems).map else {
            return texts;
        };
        for (key, value) in map {
            if let Value::String(text) = value {
                texts.insert(key.clone(), text.clone());
            } else {
                self.problems.add(
                    format!("{}.{key}", self.path_of(name)),
                    format!("is {}", kind(value)),
                    "make it a string",
                );
            }
        }
        texts
    }

    fn parse_duration(&self, path: &str, value: &Value) -> Option<Duration> {
        const FIX: &str = "use a positive duration such as 30s, 15m or 1h 30m";
        let Value::String(text) = value else {
            self.problems.add(path, format!("is {}", kind(value)), FIX);
            return None;
        };
        match SpanParser::new().parse_unsigned_duration(text) {
            Ok(duration) if !duration.is_zero() => Some(duration),
            Ok(_) | Err(_) => {
                self.problems.add(path, format!("is {text:?}"), FIX);
                None
            }
        }
    }

    fn missing(&self, name: &str) {
        self.problems
            .add(self.path_of(name), "is missing", "it is required");
    }

    fn wrong(&self, name: &str, value: &Value, wanted: &str) {
        self.problems.add(
            self.path_of(name),
            format!("is {}", kind(value)),
            format!("make it {wanted}"),
        );
    }
}

/// What a value is, without its content: a spec may hold what should not be repeated.
pub(super) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
