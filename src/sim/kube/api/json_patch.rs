//! RFC 6902, as far as clients of these kinds use it: add, remove, replace and test.

use serde_json::Value;

/// Applies the operations in order; the error says which one failed.
pub(crate) fn apply(target: &mut Value, patch: &Value) -> Result<(), String> {
    let operations = patch.as_array().ok_or("a JSON patch is a list of operations")?;
    for operation in operations {
        let field = |name: &str| operation.get(name).and_then(Value::as_str);
        let op = field("op").ok_or("an operation without op")?;
        let place = field("path").ok_or("an operation without path")?;
        let value = || {
            operation
                .get("value")
                .cloned()
                .ok_or_else(|| format!("{op} {place} has no value"))
        };
        match op {
            "test" => {
                if target.pointer(place) != Some(&value()?) {
                    return Err(format!("testing value {place} failed"));
                }
            }
            "replace" => {
                let slot = target
                    .pointer_mut(place)
                    .ok_or_else(|| format!("replace: {place} is missing"))?;
                *slot = value()?;
            }
            "add" => add(target, place, value()?)?,
            "remove" => remove(target, place)?,
            other => return Err(format!("operation {other} is not supported")),
        }
    }
    Ok(())
}

fn parent<'a>(target: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (parent, key) = path
        .rsplit_once('/')
        .ok_or_else(|| format!("{path} is not a JSON pointer"))?;
    let slot = target
        .pointer_mut(parent)
        .ok_or_else(|| format!("{parent} is missing"))?;
    Ok((slot, key.replace("~1", "/").replace("~0", "~")))
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let (slot, key) = parent(target, path)?;
    match slot {
        Value::Object(object) => {
            object.insert(key, value);
            Ok(())
        }
        Value::Array(list) if key == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => match key.parse::<usize>() {
            Ok(index) if index <= list.len() => {
                list.insert(index, value);
                Ok(())
            }
            _ => Err(format!("add: {path} is out of bounds")),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(format!("add: the parent of {path} holds nothing"))
        }
    }
}

fn remove(target: &mut Value, path: &str) -> Result<(), String> {
    let (slot, key) = parent(target, path)?;
    let removed = match slot {
        Value::Object(object) => object.remove(&key).is_some(),
        Value::Array(list) => match key.parse::<usize>() {
            Ok(index) if index < list.len() => {
                list.remove(index);
                true
            }
            _ => false,
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if removed {
        Ok(())
    } else {
        Err(format!("remove: {path} is missing"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_apply_in_order_and_a_failed_test_stops() {
        let mut target = json!({"metadata": {"finalizers": ["a", "b"], "annotations": {}}});
        apply(
            &mut target,
            &json!([
                {"op": "test", "path": "/metadata/finalizers/1", "value": "b"},
                {"op": "remove", "path": "/metadata/finalizers/1"},
                {"op": "add", "path": "/metadata/finalizers/-", "value": "c"},
                {"op": "add", "path": "/metadata/annotations/x.dev~1y", "value": "z"},
                {"op": "replace", "path": "/metadata/finalizers/0", "value": "d"},
            ]),
        )
        .unwrap();
        assert_eq!(
            target,
            json!({"metadata": {"finalizers": ["d", "c"], "annotations": {"x.dev/y": "z"}}})
        );
        let failing = json!([{"op": "test", "path": "/metadata/finalizers/0", "value": "a"}]);
        assert!(apply(&mut target, &failing).is_err());
        let missing = json!([{"op": "remove", "path": "/metadata/nothing"}]);
        assert!(apply(&mut target, &missing).is_err());
    }
}
