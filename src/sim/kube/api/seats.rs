//! How many seats of API Priority and Fairness a request takes while it is answered, estimated as the API
//! server does.
//!
//! After apiserver's pkg/util/flowcontrol/request: `list_work_estimator.go` (by the number of objects, as before
//! the SizeBasedListCostEstimate gate), `width.go` and `config.go` (a hundred objects a seat, at least 1 and at
//! most 10). A write takes one seat, and afterwards one for every ten watches of what it changed
//! (`mutating_work_estimator.go`); here nobody opens that many, so it stays one.

use super::route::{Target, Verb};

/// Objects that are looked at for one seat.
const OBJECTS_PER_SEAT: u64 = 100;
/// The fewest and the most seats of one request.
const MOST: u64 = 10;

/// Seats of this request, with so many objects of its resource stored.
pub(crate) fn estimate(target: &Target, stored: usize) -> u64 {
    let query = &target.query;
    let version = query.get("resourceVersion");
    let begins_with_all = query.is_on("sendInitialEvents") || matches!(version, "" | "0");
    match target.verb {
        Verb::List => {}
        Verb::Watch if begins_with_all => {}
        Verb::Watch | Verb::Get | Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => return 1,
    }
    if target.name.is_some() || query.get("fieldSelector").contains("metadata.name=") {
        return 1;
    }
    let stored = u64::try_from(stored).unwrap_or(u64::MAX);
    let limited = query
        .number("limit")
        .filter(|limit| *limit > 0)
        .map_or(stored, |limit| limit.min(stored));
    let selects = !query.get("labelSelector").is_empty() || !query.get("fieldSelector").is_empty();
    let objects = if target.verb == Verb::Watch || from_cache(target) {
        stored
    } else if selects {
        stored + limited
    } else {
        2 * limited
    };
    objects.div_ceil(OBJECTS_PER_SEAT).clamp(1, MOST)
}

/// Whether a list is answered from the watch cache (pkg/storage/cacher/delegator): what goes on from a page, or asks
/// for an exact version, is not.
fn from_cache(target: &Target) -> bool {
    let query = &target.query;
    let version = query.get("resourceVersion");
    match query.get("resourceVersionMatch") {
        "NotOlderThan" => true,
        "" if !query.get("continue").is_empty() => false,
        "" => version.is_empty() || version == "0" || query.number("limit").is_none_or(|limit| limit == 0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::super::route::{Route, route};
    use super::*;

    fn seats(method: &str, uri: &str, stored: usize) -> u64 {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        match route(&request).unwrap() {
            Route::Resource(target) => estimate(&target, stored),
            Route::Discovery(path) => panic!("{path:?}"),
        }
    }

    #[test]
    fn a_list_takes_a_seat_for_every_hundred_objects_that_are_looked_at() {
        let claims = "/apis/karpenter.sh/v1/nodeclaims";
        for (query, stored, expected) in [
            ("", 0, 1),
            ("", 100, 1),
            ("", 101, 2),
            ("", 50_000, 10),
            // The first page comes from the cache, which looks at all of them.
            ("?limit=100", 450, 5),
            // A later page is read from the storage, and each object of it counts twice.
            ("?limit=100&continue=abc", 450, 2),
            ("?limit=100&continue=abc&labelSelector=a%3Db", 450, 6),
            ("?resourceVersion=0", 301, 4),
            ("?resourceVersion=7&resourceVersionMatch=Exact", 301, 7),
            ("?fieldSelector=metadata.name%3Da", 5000, 1),
        ] {
            assert_eq!(
                seats("GET", &format!("{claims}{query}"), stored),
                expected,
                "{query}"
            );
        }
    }

    #[test]
    fn a_watch_is_like_a_list_only_when_it_begins_with_all_objects() {
        let claims = "/apis/karpenter.sh/v1/nodeclaims?watch=true";
        let streaming = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7";
        for (query, expected) in [("&resourceVersion=7", 1), (streaming, 5), ("", 5)] {
            assert_eq!(
                seats("GET", &format!("{claims}{query}"), 450),
                expected,
                "{query}"
            );
        }
    }

    #[test]
    fn one_object_takes_one_seat() {
        let node = "/api/v1/nodes/a";
        for method in ["GET", "PATCH", "PUT", "DELETE"] {
            assert_eq!(seats(method, node, 50_000), 1, "{method}");
        }
        assert_eq!(seats("POST", "/api/v1/nodes", 50_000), 1);
    }
}
