//! Hints, and the ways in which watches die (A02, A03, A05).

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::*;
use crate::cluster::port::Hint;

fn event(kind: &str, version: &str) -> Value {
    json!({"type": kind, "object": {"metadata": {"name": "x", "resourceVersion": version}}})
}

fn expired() -> Value {
    json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
}

/// Answers for NodeClaims only; pools and pods are quiet.
fn claims(mut answer: impl FnMut(&Seen) -> Reply + Send + 'static) -> Scripted {
    Scripted::answering(move |seen| {
        if seen.path.contains("nodeclaims") && seen.query("watch").is_some() {
            answer(seen)
        } else if seen.query("watch").is_some() {
            Reply::LinesThenSilence(Vec::new())
        } else {
            page(&[], "100", "more")
        }
    })
}

fn watched(scripted: &Scripted) -> Vec<Seen> {
    scripted
        .log()
        .into_iter()
        .filter(|seen| seen.path.contains("nodeclaims") && seen.query("watch").is_some())
        .collect()
}

/// The hints about NodeClaims within a time.
async fn hints_within(scripted: &Scripted, time: Duration) -> usize {
    let mut hints = port(scripted)
        .hints(true)
        .filter(|hint| std::future::ready(*hint == Hint::Claim));
    let mut seen = 0;
    let count = async {
        while hints.next().await.is_some() {
            seen += 1;
        }
    };
    // A stream of hints never ends, so this always runs into the timeout.
    assert!(timeout(time, count).await.is_err(), "the stream ended");
    seen
}

#[tokio::test(start_paused = true)]
async fn each_change_is_a_hint_and_bookmarks_are_not() {
    let scripted = claims(|_| {
        Reply::LinesThenSilence(vec![
            event("ADDED", "101"),
            event("BOOKMARK", "150"),
            event("MODIFIED", "151"),
            event("DELETED", "152"),
            event("SOMETHING_NEW", "153"),
        ])
    });
    // The first hint is the start itself.
    assert_eq!(hints_within(&scripted, Duration::from_mins(1)).await, 5);
    let [only] = watched(&scripted).try_into().unwrap();
    assert_eq!(only.query("resourceVersion").as_deref(), Some("100"));
    assert_eq!(only.query("allowWatchBookmarks").as_deref(), Some("true"));
    assert!(
        only.accept.contains("as=PartialObjectMetadata;"),
        "{}",
        only.accept
    );
}

#[tokio::test(start_paused = true)]
async fn pools_and_our_pods_are_watched_in_each_namespace() {
    let scope = Scope::Namespaces(vec!["a".into(), "b".into()]);
    let scripted = Scripted::with(scope, |seen| match seen.query("watch") {
        Some(_) => Reply::LinesThenSilence(Vec::new()),
        None => page(&[], "1", ""),
    });
    let mut hints = port(&scripted).hints(true);
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(hints.next().await.unwrap());
    }
    seen.sort();
    assert_eq!(
        seen,
        [
            Hint::Pool(None),
            Hint::Pool(None),
            Hint::Pod(None),
            Hint::Pod(None),
            Hint::Claim
        ]
    );
    let pods: Vec<Seen> = scripted
        .log()
        .into_iter()
        .filter(|seen| seen.path.contains("/pods"))
        .collect();
    assert_eq!(pods.len(), 4);
    for seen in pods {
        assert_eq!(
            seen.query("labelSelector").as_deref(),
            Some("app.kubernetes.io%2Fmanaged-by%3Dtrino-pool-operator")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_names_its_pool_where_the_object_says_it_and_none_when_something_was_missed() {
    let object = |metadata: Value| json!({"type": "MODIFIED", "object": {"metadata": metadata}});
    let labelled = |pool: &str| {
        let labels =
            json!({"app.kubernetes.io/managed-by": "trino-pool-operator", "trinopool.dev/pool": pool});
        object(
            json!({"namespace": "trino", "name": "cell-1-worker-x", "resourceVersion": "1", "labels": labels}),
        )
    };
    let pods = vec![
        labelled("adhoc"),
        labelled(""),
        object(json!({"namespace": "trino", "name": "p", "resourceVersion": "2"})),
        json!({"type": "DELETED", "object": {}}),
        expired(),
    ];
    let pools = vec![object(
        json!({"namespace": "trino", "name": "adhoc", "resourceVersion": "1"}),
    )];
    let mut first = true;
    let scripted = Scripted::answering(move |seen| {
        if seen.query("watch").is_none() {
            page(&[], "1", "")
        } else if seen.path.contains("/pods") && std::mem::take(&mut first) {
            Reply::Lines(pods.clone())
        } else if seen.path.contains("/trinopools") {
            Reply::LinesThenSilence(pools.clone())
        } else {
            Reply::LinesThenSilence(Vec::new())
        }
    });
    let mut hints = port(&scripted).hints(false);
    let (mut of_pods, mut of_pools) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        match hints.next().await.unwrap() {
            Hint::Pod(pool) => of_pods.push(pool),
            Hint::Pool(pool) => of_pools.push(pool),
            Hint::Claim => panic!("NodeClaims are not watched"),
        }
    }
    let adhoc = Some("trino/adhoc".into());
    assert_eq!(of_pools, [None, adhoc.clone()], "the start, and the change");
    assert_eq!(
        of_pods,
        [None, adhoc, None, None, None, None],
        "the start, four changes, and what was missed"
    );
}

#[tokio::test(start_paused = true)]
async fn a02_an_in_body_410_starts_from_now_and_hints_once_more() {
    let mut first = true;
    let scripted = claims(move |_| {
        if std::mem::take(&mut first) {
            Reply::Lines(vec![event("ADDED", "101"), expired()])
        } else {
            Reply::LinesThenSilence(Vec::new())
        }
    });
    assert_eq!(hints_within(&scripted, Duration::from_mins(1)).await, 3);
    let versions: Vec<_> = watched(&scripted)
        .iter()
        .map(|seen| seen.query("resourceVersion"))
        .collect();
    assert_eq!(
        versions,
        [Some("100".to_owned()), Some("100".to_owned())],
        "101 is not asked for again"
    );
}

#[tokio::test(start_paused = true)]
async fn a02_a_410_as_a_status_starts_from_now_too() {
    let mut calls = 0;
    let scripted = claims(move |_| {
        calls += 1;
        match calls {
            1 => Reply::Lines(vec![event("ADDED", "101")]),
            2 => status(410, "Expired", "too old", &json!({})),
            _ => Reply::LinesThenSilence(Vec::new()),
        }
    });
    assert_eq!(hints_within(&scripted, Duration::from_mins(1)).await, 3);
    let versions: Vec<_> = watched(&scripted)
        .iter()
        .filter_map(|seen| seen.query("resourceVersion"))
        .collect();
    assert_eq!(versions, ["100", "101", "100"]);
}

#[tokio::test(start_paused = true)]
async fn a02_resets_are_followed_by_growing_pauses_and_go_on_where_they_were() {
    let scripted = claims(|_| Reply::Torn("{\"type\": \"ADD"));
    assert_eq!(hints_within(&scripted, Duration::from_mins(10)).await, 1);
    let tries = watched(&scripted).len();
    // 1 + 2 + 4 + 8 + 16 s, then at most one try in 15 to 30 s.
    assert!((20..=46).contains(&tries), "{tries} tries in ten minutes");
    assert!(
        watched(&scripted)
            .iter()
            .all(|seen| seen.query("resourceVersion").as_deref() == Some("100"))
    );
}

#[tokio::test(start_paused = true)]
async fn a02_a_server_that_ends_every_watch_at_once_is_not_hammered() {
    let scripted = claims(|_| Reply::Lines(Vec::new()));
    hints_within(&scripted, Duration::from_mins(10)).await;
    assert!(watched(&scripted).len() <= 46);
    let failing = claims(|_| status(500, "InternalError", "apiserver is shutting down", &json!({})));
    hints_within(&failing, Duration::from_mins(10)).await;
    assert!((2..=46).contains(&watched(&failing).len()));
}

#[tokio::test(start_paused = true)]
async fn a03_a_silent_watch_is_cut_a_little_after_its_time() {
    let mut first = true;
    let scripted = claims(move |_| {
        if std::mem::take(&mut first) {
            Reply::LinesThenSilence(vec![event("ADDED", "101")])
        } else {
            Reply::LinesThenSilence(vec![event("MODIFIED", "102")])
        }
    });
    let mut hints = port(&scripted)
        .hints(true)
        .filter(|hint| std::future::ready(*hint == Hint::Claim));
    let start = Instant::now();
    for _ in 0..3 {
        assert_eq!(hints.next().await, Some(Hint::Claim));
    }
    assert_eq!(
        start.elapsed(),
        Duration::from_secs(130),
        "120 s asked for and a margin of 10 s"
    );
    let versions: Vec<_> = watched(&scripted)
        .iter()
        .filter_map(|seen| seen.query("resourceVersion"))
        .collect();
    assert_eq!(versions, ["100", "101"], "nothing in between is missed");
}

#[tokio::test(start_paused = true)]
async fn a03_a_watch_that_does_not_even_open_is_tried_again() {
    let mut first = true;
    let scripted = claims(move |_| {
        if std::mem::take(&mut first) {
            Reply::Hang
        } else {
            Reply::LinesThenSilence(Vec::new())
        }
    });
    hints_within(&scripted, Duration::from_mins(1)).await;
    assert_eq!(watched(&scripted).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_asked_for_slowly_until_it_is() {
    let mut calls = 0;
    let scripted = Scripted::answering(move |seen| {
        if !seen.path.contains("nodeclaims") {
            return Reply::Hang;
        }
        calls += 1;
        match (calls, seen.query("watch")) {
            (1..=3, _) => Reply::Text(404, "text/plain", "404 page not found".to_owned()),
            (_, None) => page(&[], "7", ""),
            (_, Some(_)) => Reply::LinesThenSilence(vec![event("ADDED", "8")]),
        }
    });
    let mut hints = port(&scripted).hints(true);
    let start = Instant::now();
    assert_eq!(hints.next().await, Some(Hint::Claim));
    assert_eq!(hints.next().await, Some(Hint::Claim));
    let waited = start.elapsed().as_secs();
    assert!(
        (45..=90).contains(&waited),
        "three pauses of 15 to 30 s, not {waited} s"
    );
}

#[tokio::test(start_paused = true)]
async fn a05_a_throttled_watch_waits_its_turn() {
    let mut first = true;
    let scripted = claims(move |_| {
        if std::mem::take(&mut first) {
            Reply::RetryAfter("5")
        } else {
            Reply::LinesThenSilence(vec![event("ADDED", "101")])
        }
    });
    assert_eq!(hints_within(&scripted, Duration::from_mins(2)).await, 2);
}
