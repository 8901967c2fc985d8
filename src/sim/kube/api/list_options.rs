//! Which query parameters of a list or a watch may stand beside each other, and what a watch begins with.
//!
//! After apimachinery's pkg/apis/meta/internalversion/validation/validation.go. A server without the WatchList
//! feature gate forbids `sendInitialEvents` altogether.

use super::route::Query;
use super::status::ApiError;

const MATCH: &str = "resourceVersionMatch";
const INITIAL: &str = "sendInitialEvents";
const NOT_OLDER: &str = "NotOlderThan";

/// One field of the options that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The parameter.
    pub field: &'static str,
    /// The reason of its cause in the Status.
    pub reason: &'static str,
    /// What the server says of it.
    pub message: String,
}

impl Problem {
    fn forbidden(field: &'static str, why: &str) -> Self {
        Self {
            field,
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {why}"),
        }
    }

    fn unsupported_match(value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|name| format!("\"{name}\"")).collect();
        Self {
            field: MATCH,
            reason: "FieldValueNotSupported",
            message: format!(
                "Unsupported value: \"{value}\": supported values: {}",
                supported.join(", ")
            ),
        }
    }
}

/// What a watch sends before changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Changes after the version that was asked for, or from now on.
    Changes,
    /// Every object that there is.
    Objects,
    /// The same, and a bookmark that says that these were all.
    ObjectsAndMark,
}

/// Refuses a list whose options contradict each other.
pub(crate) fn of_list(query: &Query) -> Result<(), ApiError> {
    let mut problems = Vec::new();
    let said = query.get(MATCH);
    if !said.is_empty() {
        if query.get("resourceVersion").is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            problems.push(Problem::forbidden(MATCH, why));
        }
        not_beside_continue(query, &mut problems);
        if said != "Exact" && said != NOT_OLDER {
            problems.push(Problem::unsupported_match(said, &["Exact", NOT_OLDER, ""]));
        }
        if said == "Exact" && query.get("resourceVersion") == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            problems.push(Problem::forbidden(MATCH, why));
        }
    }
    if query.has(INITIAL) {
        problems.push(Problem::forbidden(
            INITIAL,
            "sendInitialEvents is forbidden for list",
        ));
    }
    judged(problems)
}

/// What a watch begins with, unless its options contradict each other.
pub(crate) fn of_watch(query: &Query, streaming_lists: bool) -> Result<Begin, ApiError> {
    let mut problems = Vec::new();
    let (initial, said) = (query.has(INITIAL), query.get(MATCH));
    if initial && said != NOT_OLDER {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        problems.push(Problem::forbidden(MATCH, why));
    }
    if initial && !streaming_lists {
        let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        problems.push(Problem::forbidden(INITIAL, why));
    }
    if !said.is_empty() {
        if !initial {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            problems.push(Problem::forbidden(MATCH, why));
        }
        if said != NOT_OLDER {
            problems.push(Problem::unsupported_match(said, &[NOT_OLDER]));
        }
        not_beside_continue(query, &mut problems);
    }
    judged(problems)?;
    Ok(match query.get("resourceVersion") {
        // Without a word about it, a watch from no version in particular sends what there is.
        "" | "0" if !initial => Begin::Objects,
        _ if !query.is_on(INITIAL) => Begin::Changes,
        // The mark is a bookmark, and only who asked for bookmarks gets any.
        _ if query.is_on("allowWatchBookmarks") => Begin::ObjectsAndMark,
        _ => Begin::Objects,
    })
}

fn not_beside_continue(query: &Query, problems: &mut Vec<Problem>) {
    if !query.get("continue").is_empty() {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        problems.push(Problem::forbidden(MATCH, why));
    }
}

fn judged(problems: Vec<Problem>) -> Result<(), ApiError> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(ApiError::ListOptions(problems))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(answer: Result<impl std::fmt::Debug, ApiError>) -> String {
        answer.unwrap_err().to_string()
    }

    #[test]
    fn a_streaming_list_is_asked_for_with_three_parameters() {
        let watch = |query: &str| of_watch(&Query::parse(query), true);
        let streaming = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        for (query, expected) in [
            ("", Begin::Objects),
            ("resourceVersion=0", Begin::Objects),
            ("resourceVersion=7", Begin::Changes),
            (streaming, Begin::Objects),
            (
                &format!("{streaming}&allowWatchBookmarks=true"),
                Begin::ObjectsAndMark,
            ),
            (
                &format!("{streaming}&allowWatchBookmarks=true&resourceVersion=7"),
                Begin::ObjectsAndMark,
            ),
            (
                "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
                Begin::Changes,
            ),
        ] {
            assert_eq!(watch(query), Ok(expected), "{query}");
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let watch = |query: &str, on: bool| message(of_watch(&Query::parse(query), on));
        let list = |query: &str| message(of_list(&Query::parse(query)));
        let invalid = "ListOptions.meta.k8s.io \"\" is invalid: ";
        assert_eq!(
            watch("sendInitialEvents=true", true),
            format!(
                "{invalid}resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
        );
        let streaming = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        assert_eq!(
            watch(streaming, false),
            format!(
                "{invalid}sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            )
        );
        assert!(watch("resourceVersionMatch=NotOlderThan", true).contains("unless sendInitialEvents"));
        assert_eq!(
            watch("sendInitialEvents=true&resourceVersionMatch=Exact", true),
            format!(
                "{invalid}[resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]"
            )
        );
        assert!(watch(&format!("{streaming}&continue=x"), true).contains("when continue is provided"));
        assert!(list("sendInitialEvents=true").contains("forbidden for list"));
        assert!(list("resourceVersionMatch=NotOlderThan").contains("unless resourceVersion is provided"));
        assert!(list("resourceVersionMatch=Exact&resourceVersion=0").contains("\"exact\" is forbidden"));
        assert!(list("resourceVersionMatch=Sometimes&resourceVersion=1").contains("\"Sometimes\""));
    }
}
