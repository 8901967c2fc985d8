//! Small helpers over raw JSON objects, times and conditions.
//!
//! Owns nothing. Paths are slices of keys, since label and annotation keys contain slashes.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The value at `path`, if every step is an object holding the key.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(*key))
}

/// The text at `path`; anything but a string is `None`.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path)?.as_str()
}

/// The elements of the array at `path`; nothing when it is absent or something else.
pub(crate) fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The object at `path`, if it is one.
pub(crate) fn map<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Map<String, Value>> {
    at(value, path)?.as_object()
}

/// Writes `new` at `path`, making objects on the way.
pub(crate) fn set(value: &mut Value, path: &[&str], new: Value) {
    *slot(value, path) = new;
}

/// The place at `path`, made (as null) if absent.
pub(crate) fn slot<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Value {
    let mut here = value;
    for key in path {
        if !here.is_object() {
            *here = Value::Object(Map::new());
        }
        // Indexing an object by an absent key inserts null there.
        here = &mut here[*key];
    }
    here
}

/// The array at `path`, made empty if absent.
pub(crate) fn list_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Vec<Value>> {
    let here = slot(value, path);
    if !here.is_array() {
        *here = Value::Array(Vec::new());
    }
    here.as_array_mut()
}

/// Removes the key at `path`; an absent one is fine.
pub(crate) fn remove(value: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut here = value;
    for key in parents {
        let Some(next) = here.get_mut(*key) else { return };
        here = next;
    }
    if let Some(object) = here.as_object_mut() {
        object.remove(*last);
    }
}

/// `metadata.name`, empty when absent.
pub(crate) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"]).unwrap_or_default()
}

/// `metadata.namespace`, empty when cluster-scoped.
pub(crate) fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"]).unwrap_or_default()
}

/// `metadata.uid`, empty when absent.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"]).unwrap_or_default()
}

/// One label.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    text(object, &["metadata", "labels", key])
}

/// One annotation.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    text(object, &["metadata", "annotations", key])
}

/// `metadata.deletionTimestamp` is set.
pub(crate) fn is_deleting(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}

/// `metadata.finalizers` has this entry.
pub(crate) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    items(object, &["metadata", "finalizers"])
        .iter()
        .any(|entry| entry == finalizer)
}

/// Takes an entry out of `metadata.finalizers`.
pub(crate) fn drop_finalizer(object: &mut Value, finalizer: &str) {
    if let Some(list) = list_mut(object, &["metadata", "finalizers"]) {
        list.retain(|entry| entry != finalizer);
        if list.is_empty() {
            remove(object, &["metadata", "finalizers"]);
        }
    }
}

/// RFC 3339 with whole seconds, as the API server writes times.
pub(crate) fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The time at `path`, if it is a readable one.
pub(crate) fn time(object: &Value, path: &[&str]) -> Option<Timestamp> {
    text(object, path)?.parse().ok()
}

/// `at` + `by`, at most the end of time.
pub(crate) fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// A Go duration of the kind Karpenter writes (`720h`, `10m0s`, `1h30m`); `None` for `Never` and the
/// unreadable.
pub(crate) fn go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let unit_len = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let unit = match rest.get(..unit_len)? {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        total += Duration::try_from_secs_f64(number * unit).ok()?;
        rest = rest.get(unit_len..)?;
    }
    (!text.is_empty()).then_some(total)
}

/// The condition of that type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, &["status", "conditions"])
        .iter()
        .find(|entry| entry.get("type").and_then(Value::as_str) == Some(kind))
}

/// The condition of that type is exactly `True`.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).and_then(|entry| entry.get("status")?.as_str()) == Some("True")
}

/// Sets a condition as operatorpkg does: `lastTransitionTime` moves only when the status does, and a
/// reason may change under the old time (operatorpkg status/condition_set.go, Set).
pub(crate) fn set_condition(
    object: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let mut entry = json!({
        "lastTransitionTime": stamp(now),
        "status": status,
        "type": kind,
    });
    // Every kind writes its conditions a little differently (tests/fixtures/karpenter).
    let of = text(object, &["kind"]).unwrap_or_default();
    if !(of == "Pod" && reason.is_empty()) {
        entry["reason"] = json!(reason);
        entry["message"] = json!(message);
    }
    match of {
        "Pod" => entry["lastProbeTime"] = Value::Null,
        "Node" => entry["lastHeartbeatTime"] = json!(stamp(now)),
        "NodeClaim" | "NodePool" => {
            entry["observedGeneration"] = at(object, &["metadata", "generation"])
                .cloned()
                .unwrap_or_default();
        }
        _ => {}
    }
    let Some(list) = list_mut(object, &["status", "conditions"]) else {
        return;
    };
    match list
        .iter_mut()
        .find(|entry| entry.get("type").and_then(Value::as_str) == Some(kind))
    {
        Some(old) => {
            if old.get("status").and_then(Value::as_str) == Some(status)
                && let Some(since) = old.get("lastTransitionTime")
            {
                entry["lastTransitionTime"] = since.clone();
            }
            *old = entry;
        }
        None => list.push(entry),
    }
}

/// Removes a condition: Karpenter's "not drifted" is no entry, never `False`.
pub(crate) fn clear_condition(object: &mut Value, kind: &str) {
    if condition(object, kind).is_some()
        && let Some(list) = list_mut(object, &["status", "conditions"])
    {
        list.retain(|entry| entry.get("type").and_then(Value::as_str) != Some(kind));
    }
}

/// RFC 7386: null removes, objects merge, everything else replaces.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(target) = target.as_object_mut() else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// A CPU quantity in thousandths: `1` is 1000, `1900m` is 1900; unreadable is 0.
pub(crate) fn milli(quantity: Option<&Value>) -> u64 {
    let Some(quantity) = quantity else { return 0 };
    if let Some(whole) = quantity.as_u64() {
        return whole * 1000;
    }
    let text = quantity.as_str().unwrap_or_default();
    match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse().unwrap_or(0),
        None => text.parse::<u64>().map_or(0, |whole| whole * 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_karpenter_are_read() {
        assert_eq!(go_duration("720h"), Some(Duration::from_hours(720)));
        assert_eq!(go_duration("10m0s"), Some(Duration::from_mins(10)));
        assert_eq!(go_duration("0s"), Some(Duration::ZERO));
        assert_eq!(go_duration("Never"), None);
        assert_eq!(go_duration(""), None);
        assert_eq!(go_duration("10"), None);
    }

    #[test]
    fn a_merge_patch_removes_by_null_and_merges_objects() {
        let mut target = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
        merge(
            &mut target,
            &json!({"a": {"b": null, "d": 3}, "l": [9], "n": {"x": null}}),
        );
        assert_eq!(target, json!({"a": {"c": 2, "d": 3}, "l": [9], "n": {}}));
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let mut claim = json!({"kind": "NodeClaim", "metadata": {"generation": 2}});
        let first = "2026-12-02T05:00:00Z".parse().unwrap();
        let second = "2026-12-02T06:00:00Z".parse().unwrap();
        set_condition(&mut claim, "Drifted", "True", "NodePoolDrifted", "", first);
        set_condition(&mut claim, "Drifted", "True", "RequirementsDrifted", "", second);
        let entry = condition(&claim, "Drifted").unwrap();
        assert_eq!(entry["reason"], "RequirementsDrifted");
        assert_eq!(entry["lastTransitionTime"], "2026-12-02T05:00:00Z");
        clear_condition(&mut claim, "Drifted");
        assert!(condition(&claim, "Drifted").is_none());
    }
}
