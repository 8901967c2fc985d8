//! Help, and everything that can be wrong before anything has begun: one clear line and status 2.

use std::path::Path;

use tempfile::TempDir;
use trino_pool_operator::sim::world;

use crate::said::{Said, say};

const NAME: &str = "trino-pool-operator";

#[test]
fn help_has_examples_and_says_what_the_exit_status_means() {
    let said = say(["--help"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    for words in [
        "Examples:",
        "trino-pool-operator simulate",
        "Exit status:",
        "migrate",
        "crd",
    ] {
        assert!(said.out.contains(words), "{words} is not in\n{}", said.out);
    }
    for command in ["run", "simulate", "check", "migrate"] {
        let said = say([command, "--help"]);
        assert_eq!(said.code, Some(0));
        assert!(said.out.contains("Examples:"), "{command}\n{}", said.out);
    }
}

#[test]
fn version_is_the_packages() {
    let said = say(["--version"]);
    assert_eq!(said.code, Some(0));
    assert_eq!(said.out.trim(), format!("{NAME} {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn no_command_shows_the_help_and_is_a_mistake() {
    let said = say(std::iter::empty::<&str>());
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert!(said.err.contains("Usage:"), "{}", said.err);
}

#[test]
fn a_wrong_flag_is_one_line_with_the_right_one() {
    let said = say(["simulate", "--pool", "3"]);
    assert!(said.refused().contains("'--pools'"), "{}", said.err);
    for speed in ["0", "-1", "inf", "NaN", "201", "fast"] {
        let said = say(["simulate".to_owned(), format!("--speed={speed}")]);
        assert!(said.refused().contains("--speed"), "{}", said.err);
    }
}

#[test]
fn an_unknown_scenario_names_the_one_that_was_meant() {
    let said = say(["simulate", "--scenario", "drfit"]);
    assert!(said.refused().contains("did you mean drift"), "{}", said.err);
}

#[test]
fn a_wrong_store_url_never_shows_its_password() {
    for command in ["migrate", "simulate"] {
        let said = say([command, "--store", "mysql://root:hunter2@db/pools"]);
        let line = said.refused();
        assert!(line.contains("--store") && line.contains("postgres://"), "{line}");
        assert!(!line.contains("hunter2"), "{line}");
    }
}

#[test]
fn a_bad_log_filter_is_named() {
    let said = say(["migrate", "--store", "sqlite:x", "--log", "a=b=c"]);
    assert!(said.refused().contains("--log"), "{}", said.err);
}

#[test]
fn the_crd_is_json_that_kubectl_can_apply() {
    let said = say(["crd"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let crd: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(crd["kind"], "CustomResourceDefinition");
    assert_eq!(crd["metadata"]["name"], "trinopools.trinopool.dev");
    assert_eq!(crd["spec"]["group"], "trinopool.dev");
    assert_eq!(crd["spec"]["names"]["kind"], "TrinoPool");
    assert_eq!(crd["spec"]["scope"], "Namespaced");
    assert_eq!(crd["spec"]["versions"][0]["name"], "v1alpha1");
}

#[test]
fn migrate_makes_a_store_and_then_leaves_it_alone() {
    let folder = TempDir::new().unwrap();
    let store = format!("sqlite:{}", folder.path().join("store.db").display());
    let said = say(["migrate", "--store", &store]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("from schema version 0"), "{said:?}");
    let said = say(["migrate", "--store", &store]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("up to date"), "{said:?}");
}

/// `run` with everything right but what `more` changes.
fn run(folder: &Path, token: &str, more: &[&str]) -> Said {
    let file = folder.join("token");
    std::fs::write(&file, token).unwrap();
    let kubeconfig = folder.join("kubeconfig");
    // Nothing listens at port 1.
    std::fs::write(&kubeconfig, world::kubeconfig("http://127.0.0.1:1")).unwrap();
    let kubeconfig = kubeconfig.display().to_string();
    let file = file.display().to_string();
    let mut line = vec!["run", "--kubeconfig", &kubeconfig, "--gateway-token-file", &file];
    line.extend([
        "--gateway-url",
        "https://gateway.example",
        "--listen",
        "127.0.0.1:0",
    ]);
    line.extend(more);
    say(line)
}

const TOKEN: &str = "0123456789012345678901234567890123456789\n";
const POSTGRES: [&str; 2] = ["--store", "postgres://operator@127.0.0.1:1/pools"];

#[test]
fn a_missing_or_short_token_is_named_with_its_file() {
    let folder = TempDir::new().unwrap();
    let said = run(folder.path(), "short\n", &POSTGRES);
    let line = said.refused();
    assert!(line.contains("/token") && line.contains("32 bytes"), "{line}");
    let said = say([
        "run",
        "--store",
        POSTGRES[1],
        "--gateway-url",
        "https://gateway.example",
        "--gateway-token-file",
        "/nowhere/token",
    ]);
    assert!(said.refused().contains("/nowhere/token"), "{}", said.err);
}

#[test]
fn a_replacement_budget_of_nothing_is_refused_and_the_default_is_in_the_help() {
    let folder = TempDir::new().unwrap();
    for (budget, why) in [
        ("0", "at least 1"),
        ("-1", "whole number"),
        ("few", "whole number"),
    ] {
        let option = format!("--replacement-budget={budget}");
        let said = run(folder.path(), TOKEN, &[&POSTGRES[..], &[&option]].concat());
        let line = said.refused();
        assert!(
            line.contains("--replacement-budget") && line.contains(why),
            "{line}"
        );
    }
    let help = say(["run", "--help"]).out;
    assert!(help.contains("Default: a quarter of the pools"), "{help}");
}

#[test]
fn sqlite_refuses_leader_election() {
    let folder = TempDir::new().unwrap();
    let said = run(folder.path(), TOKEN, &["--store", "sqlite:x.db"]);
    assert!(said.refused().contains("--no-leader-election"), "{}", said.err);
}

#[test]
fn an_api_server_that_does_not_answer_is_named() {
    let folder = TempDir::new().unwrap();
    let said = run(folder.path(), TOKEN, &POSTGRES);
    let line = said.refused();
    assert!(
        line.contains("API server") && line.contains("--kubeconfig"),
        "{line}"
    );
}

#[test]
fn a_check_that_cannot_begin_says_what_to_do() {
    let said = say(["check"]);
    assert!(said.refused().contains("--protection"), "{}", said.err);
    let said = say(["check", "--protection", "--namespace", "No"]);
    assert!(said.refused().contains("--namespace \"No\""), "{}", said.err);
    let said = say(["check", "--protection", "--kubeconfig", "/nowhere/kubeconfig"]);
    assert!(said.refused().contains("/nowhere/kubeconfig"), "{}", said.err);
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    // Nothing listens at port 1.
    std::fs::write(&kubeconfig, world::kubeconfig("http://127.0.0.1:1")).unwrap();
    let kubeconfig = kubeconfig.display().to_string();
    let said = say(["check", "--protection", "--kubeconfig", &kubeconfig]);
    let line = said.refused();
    assert!(
        line.contains("pods cannot be read") && line.contains("--kubeconfig"),
        "{line}"
    );
}

#[test]
fn an_address_that_is_taken_is_named() {
    let folder = TempDir::new().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let file = folder.path().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    let said = say([
        "run",
        "--store",
        POSTGRES[1],
        "--gateway-url",
        "https://gateway.example",
        "--gateway-token-file",
        &file.display().to_string(),
        "--listen",
        &address,
    ]);
    let line = said.refused();
    assert!(line.contains("--listen") && line.contains(&address), "{line}");
}
