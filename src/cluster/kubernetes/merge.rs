//! Merge patches (RFC 7396), small enough to carry nothing but the change and its preconditions.

use serde_json::{Map, Value};

/// The patch that makes `current` equal `wanted`; `None` when nothing differs. Members that `wanted` lacks
/// are removed; a `null` in `wanted` counts as lacking, since a merge patch cannot store one.
pub(super) fn difference(current: &Value, wanted: &Value) -> Option<Value> {
    match (current, wanted) {
        (Value::Object(current), Value::Object(wanted)) => {
            let mut patch = Map::new();
            for (key, value) in wanted.iter().filter(|(_, value)| !value.is_null()) {
                let change = match current.get(key) {
                    None => Some(value.clone()),
                    Some(current) => difference(current, value),
                };
                if let Some(change) = change {
                    patch.insert(key.clone(), change);
                }
            }
            for key in current.keys() {
                if wanted.get(key).is_none_or(Value::is_null) {
                    patch.insert(key.clone(), Value::Null);
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (current, wanted) => (current != wanted).then(|| wanted.clone()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// RFC 7396, section 2.
    fn merge(target: Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else {
            return patch.clone();
        };
        let mut target = match target {
            Value::Object(target) => target,
            _ => Map::new(),
        };
        for (key, value) in patch {
            if value.is_null() {
                target.remove(key);
            } else {
                let merged = merge(target.get(key).cloned().unwrap_or(Value::Null), value);
                target.insert(key.clone(), merged);
            }
        }
        Value::Object(target)
    }

    #[test]
    fn only_what_differs_is_sent() {
        let current = json!({"phase": "A", "counts": {"serving": 2, "old": 1}, "list": [1, 2]});
        let wanted = json!({"phase": "A", "counts": {"serving": 3}, "list": [2], "new": {"a": null}});
        assert_eq!(
            difference(&current, &wanted),
            Some(json!({"counts": {"serving": 3, "old": null}, "list": [2], "new": {"a": null}}))
        );
        assert_eq!(difference(&current, &current), None);
    }

    fn objects() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_patch_leads_from_one_to_the_other(current in objects(), wanted in objects()) {
            let (current, wanted) = (json!({"status": current}), json!({"status": wanted}));
            match difference(&current, &wanted) {
                None => prop_assert_eq!(current, wanted),
                Some(patch) => prop_assert_eq!(merge(current, &patch), wanted),
            }
        }
    }
}
