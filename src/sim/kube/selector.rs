//! Label and field selectors, as the query parameters of list and watch spell them.

use serde_json::Value;

use super::json as j;

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    DoesNotExist(String),
}

/// Labels and fields an object must have. The empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector`; the error says which part is not understood.
    pub(crate) fn parse(labels: &str, fields: &str) -> Result<Self, String> {
        let labels = split(labels)
            .into_iter()
            .map(requirement)
            .collect::<Result<_, _>>()?;
        let fields = split(fields).into_iter().map(field).collect::<Result<_, _>>()?;
        Ok(Self { labels, fields })
    }

    /// Whether it selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Labels that must have exactly one value.
    pub(crate) fn equalities(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().filter_map(|requirement| match requirement {
            Requirement::In(key, values) => match values.as_slice() {
                [one] => Some((key.as_str(), one.as_str())),
                _ => None,
            },
            Requirement::NotIn(..) | Requirement::Exists(_) | Requirement::DoesNotExist(_) => None,
        })
    }

    /// Whether the object has what is required.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => {
                j::label(object, key).is_some_and(|have| values.iter().any(|value| value == have))
            }
            Requirement::NotIn(key, values) => {
                j::label(object, key).is_none_or(|have| values.iter().all(|value| value != have))
            }
            Requirement::Exists(key) => j::label(object, key).is_some(),
            Requirement::DoesNotExist(key) => j::label(object, key).is_none(),
        }) && self.fields.iter().all(|(path, equal, value)| {
            let path: Vec<&str> = path.split('.').collect();
            (j::text(object, &path).unwrap_or_default() == value) == *equal
        })
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
    .collect()
}

fn requirement(part: &str) -> Result<Requirement, String> {
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(
            key.trim().to_owned(),
            vec![value.trim().to_owned()],
        ));
    }
    if let Some((key, value)) = part.split_once('=') {
        let value = value.trim_start_matches('=').trim();
        return Ok(Requirement::In(key.trim().to_owned(), vec![value.to_owned()]));
    }
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Requirement::DoesNotExist(key.trim().to_owned()));
    }
    if let Some((head, values)) = part.split_once('(') {
        let values = values
            .strip_suffix(')')
            .ok_or_else(|| format!("unable to parse requirement: {part}"))?
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect();
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => Ok(Requirement::In(key.to_owned(), values)),
            (Some(key), Some("notin"), None) => Ok(Requirement::NotIn(key.to_owned(), values)),
            _ => Err(format!("unable to parse requirement: {part}")),
        };
    }
    if part.contains(char::is_whitespace) {
        return Err(format!("unable to parse requirement: {part}"));
    }
    Ok(Requirement::Exists(part.to_owned()))
}

fn field(part: &str) -> Result<(String, bool, String), String> {
    let (path, equal, value) = if let Some((path, value)) = part.split_once("!=") {
        (path, false, value)
    } else if let Some((path, value)) = part.split_once('=') {
        (path, true, value.trim_start_matches('='))
    } else {
        return Err(format!("invalid selector: '{part}'; can't understand '{part}'"));
    };
    let known = [
        "metadata.name",
        "metadata.namespace",
        "spec.nodeName",
        "status.phase",
        "involvedObject.name",
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.uid",
        "reason",
        "type",
    ];
    if !known.contains(&path) {
        return Err(format!("field label not supported: {path}"));
    }
    Ok((path.to_owned(), equal, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(selector: &str) -> bool {
        let pod =
            json!({"metadata": {"name": "p", "labels": {"app": "trino", "tier": "a", "x.dev/id": "c1"}}});
        Selector::parse(selector, "").unwrap().matches(&pod)
    }

    #[test]
    fn every_spelling_of_a_label_requirement_is_understood() {
        for (selector, expected) in [
            ("", true),
            ("app=trino", true),
            ("app==trino,tier=a", true),
            ("app=trino,tier=b", false),
            ("app!=trino", false),
            ("missing!=x", true),
            ("x.dev/id", true),
            ("!x.dev/id", false),
            ("app in (trino, other),tier notin (b,c)", true),
            ("tier in (b,c)", false),
        ] {
            assert_eq!(labels(selector), expected, "{selector}");
        }
        assert!(Selector::parse("app within (a)", "").is_err());
    }

    #[test]
    fn only_known_fields_select() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1"}});
        assert!(
            Selector::parse("", "metadata.name=p,spec.nodeName=n1")
                .unwrap()
                .matches(&pod)
        );
        assert!(!Selector::parse("", "metadata.name!=p").unwrap().matches(&pod));
        assert!(Selector::parse("", "spec.whatever=1").is_err());
    }
}
