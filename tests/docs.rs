//! What `docs/safety.md` cites exists: test functions under the path they are cited with, and files.

// Everything here is a test.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that a cited file may stand in; whatever else has a slash in it is no path of ours.
const FOLDERS: [&str; 5] = ["docs/", "migrations/", "scripts/", "src/", "tests/"];

/// Everything between backticks, in order.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether these are words as a test and its path are made of: `pool/plan/tests`, `s7_a_stuck_drain`.
fn is_plain(words: &str) -> bool {
    let plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "_/".contains(char);
    !words.is_empty() && words.chars().all(plain)
}

/// The files in which a test of this path may stand, below `src` or else below `tests`: that module itself and
/// its tests beside it.
fn files_of(path: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for below in ["src", "tests"] {
        for end in [".rs", "_tests.rs", "/mod.rs", "/main.rs", "/tests.rs"] {
            files.push(PathBuf::from(format!("{below}/{path}{end}")));
        }
        if let Ok(folder) = fs::read_dir(format!("{below}/{path}/tests")) {
            files.extend(folder.map(|entry| entry.unwrap().path()));
        }
    }
    files.retain(|file| file.is_file());
    files
}

/// What is cited and does not exist.
fn missing(text: &str) -> Vec<String> {
    let mut missing = Vec::new();
    let mut folder = Path::new("");
    for cited in quoted(text) {
        if let Some((path, function)) = cited.split_once("::") {
            let cites_a_test = is_plain(path) && is_plain(function);
            let head = format!("fn {function}(");
            let stands = |file: &PathBuf| fs::read_to_string(file).unwrap().contains(&head);
            if cites_a_test && !files_of(path).iter().any(stands) {
                missing.push(format!("test {cited}"));
            }
        } else if FOLDERS.iter().any(|folder| cited.starts_with(folder)) {
            folder = Path::new(cited).parent().unwrap();
            if !Path::new(cited).exists() {
                missing.push(format!("file {cited}"));
            }
        } else if Path::new(cited).extension() == Some("rs".as_ref()) && !folder.join(cited).exists() {
            // A bare name stands beside the file that was cited before it.
            missing.push(format!("file {cited} in {}", folder.display()));
        }
    }
    missing
}

#[test]
fn everything_that_the_safety_page_cites_exists() {
    let text = fs::read_to_string("docs/safety.md").unwrap();
    let tests = quoted(&text).filter(|cited| cited.contains("::")).count();
    assert!(tests > 300, "only {tests} citations of tests were recognised");
    assert_eq!(missing(&text), [] as [&str; 0]);
}

#[test]
fn what_does_not_exist_is_named() {
    let text = "- Held by `src/pool/phase.rs` and `plan.rs`, `src/pool/nowhere.rs`, not `GET /v1/info`.\n\
                - Tests: `docs::what_does_not_exist_is_named`, `docs::was_renamed`, `pool/nowhere::at_all`, \
                `Phase::permits`.";
    let named = [
        "file plan.rs in src/pool",
        "file src/pool/nowhere.rs",
        "test docs::was_renamed",
        "test pool/nowhere::at_all",
    ];
    assert_eq!(missing(text), named);
}
