//! What the API server does to a custom resource by its structural schema: it drops fields that the schema does
//! not know, then refuses what the schema forbids.
//!
//! Knows the schema of our own TrinoPool; the other custom kinds are taken as they come. Of the rules it checks types,
//! required fields, enumerations, ranges and lengths: those that a schema of ours uses. Objects that are made past
//! the API (start states, stories) are not checked.

use std::sync::LazyLock;

use serde_json::Value;

use super::super::resource::Resource;
use super::status::ApiError;
use crate::cluster::resource;

/// Our schema. That it can be written is the resource's own test; a null one would drop every spec.
static TRINO_POOL: LazyLock<Value> = LazyLock::new(|| {
    resource::crd()
        .unwrap_or_default()
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema")
        .map(Value::take)
        .unwrap_or_default()
});

fn schema_of(resource: Resource) -> Option<&'static Value> {
    (resource == Resource::TrinoPools).then(|| &*TRINO_POOL)
}

/// Drops what the schema does not know, then checks what is left.
pub(crate) fn admit(resource: Resource, name: &str, object: &mut Value) -> Result<(), ApiError> {
    let Some(schema) = schema_of(resource) else {
        return Ok(());
    };
    if let Some(fields) = object.as_object_mut() {
        // These are every object's, and no schema says them.
        let (metadata, version, kind) = (
            fields.remove("metadata"),
            fields.remove("apiVersion"),
            fields.remove("kind"),
        );
        let mut rest = Value::Object(std::mem::take(fields));
        prune(schema, &mut rest);
        let problem = problem(schema, &rest, "");
        if let Value::Object(pruned) = rest {
            *fields = pruned;
        }
        for (field, value) in [("metadata", metadata), ("apiVersion", version), ("kind", kind)] {
            if let Some(value) = value {
                fields.insert(field.to_owned(), value);
            }
        }
        if let Some(problem) = problem {
            return Err(ApiError::invalid(resource, name, problem));
        }
    }
    Ok(())
}

fn prune(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let others = &schema["additionalProperties"];
            let keeps = schema["x-kubernetes-preserve-unknown-fields"] == true || *others == true;
            fields.retain(|name, value| {
                if let Some(inner) = schema["properties"].get(name) {
                    prune(inner, value);
                    true
                } else if others.is_object() {
                    prune(others, value);
                    true
                } else {
                    keeps
                }
            });
        }
        Value::Array(items) => {
            for item in items {
                prune(&schema["items"], item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The first thing in `value` that the schema forbids, as `field: why`.
fn problem(schema: &Value, value: &Value, path: &str) -> Option<String> {
    let invalid = |why: String| Some(format!("{path}: Invalid value: {value}: {path} in body {why}"));
    let wanted = schema["type"].as_str();
    if value.is_null() && schema["nullable"] == true {
        return None;
    }
    let fits = match wanted {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some(_) | None => true,
    };
    if !fits {
        return invalid(format!("must be of type {}", wanted.unwrap_or_default()));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Some(format!("{path}: Unsupported value: {value}"));
    }
    if let Some(number) = value.as_f64() {
        if let Some(least) = schema["minimum"].as_f64().filter(|least| number < *least) {
            return invalid(format!("should be greater than or equal to {least}"));
        }
        if let Some(most) = schema["maximum"].as_f64().filter(|most| number > *most) {
            return invalid(format!("should be less than or equal to {most}"));
        }
    }
    if let Some(text) = value.as_str() {
        let length = text.chars().count() as u64;
        if schema["minLength"].as_u64().is_some_and(|least| length < least) {
            return invalid(format!("should be at least {} chars long", schema["minLength"]));
        }
        if schema["maxLength"].as_u64().is_some_and(|most| length > most) {
            return invalid(format!("may not be more than {} chars long", schema["maxLength"]));
        }
    }
    inside(schema, value, path)
}

fn inside(schema: &Value, value: &Value, path: &str) -> Option<String> {
    match value {
        Value::Object(fields) => {
            let at = |name: &str| match path {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            let required = schema["required"].as_array().into_iter().flatten();
            let missing = required
                .filter_map(Value::as_str)
                .find(|name| !fields.contains_key(*name));
            if let Some(name) = missing {
                return Some(format!("{}: Required value", at(name)));
            }
            fields.iter().find_map(|(name, value)| {
                let inner = schema["properties"]
                    .get(name)
                    .unwrap_or(&schema["additionalProperties"]);
                problem(inner, value, &at(name))
            })
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| problem(&schema["items"], item, &format!("{path}[{index}]"))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
