//! What `run` was told, checked as far as it can be without reaching out: URLs, names, the token.

use std::net::SocketAddr;
use std::path::Path;

use super::super::args::RunArgs;
use super::super::error::CliError;
use super::super::target::{connect, dns_label, dns_name, scope};
use crate::actors::{LeaseSettings, Settings};
use crate::cluster::kubernetes::{ConnectOptions, Scope};
use crate::gateway::pooled::origin::{Origin, PlainHttp};
use crate::gateway::pooled::secret::{AdminToken, Secret};
use crate::pool::ids::{Namespace, ObjectName};
use crate::store::open::Kind;
use crate::trino::http::ProbeOptions;

/// A command line that makes sense.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) store: String,
    pub(super) connect: ConnectOptions,
    pub(super) scope: Scope,
    pub(super) origin: Origin,
    pub(super) token: AdminToken,
    pub(super) probes: ProbeOptions,
    pub(super) listen: SocketAddr,
    pub(super) settings: Settings,
}

impl Checked {
    /// Checks everything that is said; reads the token file.
    pub(super) fn of(args: &RunArgs) -> Result<Self, CliError> {
        let kind = Kind::of(&args.store).map_err(CliError::of_store_url)?;
        if kind == Kind::Sqlite && !args.no_leader_election {
            return Err(CliError::SqliteElection);
        }
        let plain = if args.gateway_plain_http {
            PlainHttp::LoopbackOnly
        } else {
            PlainHttp::Refused
        };
        let origin = Origin::parse(&args.gateway_url, plain)
            .map_err(|error| CliError::GatewayUrl(without_user(&args.gateway_url), error))?;
        let probes = ProbeOptions {
            address: args.coordinator_address.parse()?,
            user: trino_user(&args.trino_user)?,
            ..ProbeOptions::default()
        };
        Ok(Self {
            store: args.store.clone(),
            connect: connect(&args.connect),
            scope: scope(&args.namespaces)?,
            origin,
            token: token(&args.gateway_token_file)?,
            probes,
            listen: args.listen,
            settings: settings(args)?,
        })
    }
}

fn settings(args: &RunArgs) -> Result<Settings, CliError> {
    let owner = match &args.identity {
        Some(identity) => checked_identity(identity)?,
        None => identity(&host_name(), uuid::Uuid::new_v4()),
    };
    dns_label("--lease-namespace", &args.lease_namespace)?;
    dns_name("--lease-name", &args.lease_name)?;
    Ok(Settings {
        node_replacement: args.node_replacement,
        replacement_budget: args.replacement_budget,
        lease: LeaseSettings {
            elect: !args.no_leader_election,
            namespace: Namespace::new(args.lease_namespace.clone()),
            name: ObjectName::new(args.lease_name.clone()),
            ..LeaseSettings::default()
        },
        ..Settings::new(owner)
    })
}

/// The token, without the line break that editors and `kubectl create secret` leave at its end.
fn token(file: &Path) -> Result<AdminToken, CliError> {
    let text = std::fs::read_to_string(file).map_err(|error| CliError::TokenFile(file.to_owned(), error))?;
    AdminToken::new(&Secret::new(text.trim_end_matches(['\r', '\n'])))
        .map_err(|error| CliError::Token(file.to_owned(), error))
}

/// A URL as it may be shown: whatever stands in front of an @ may be a password.
fn without_user(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        (None, Some((_, rest))) => format!("…@{rest}"),
        (_, None) => url.to_owned(),
    }
}

fn trino_user(user: &str) -> Result<String, CliError> {
    let sendable =
        !user.is_empty() && user.trim() == user && user.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    if sendable {
        return Ok(user.to_owned());
    }
    Err(CliError::Name {
        option: "--trino-user",
        value: user.to_owned(),
        rule: "it must be printable ASCII, as an HTTP header holds it",
    })
}

fn checked_identity(identity: &str) -> Result<String, CliError> {
    let allowed = (1..=200).contains(&identity.len()) && identity.chars().all(of_identity);
    if allowed {
        return Ok(identity.to_owned());
    }
    Err(CliError::Name {
        option: "--identity",
        value: identity.to_owned(),
        rule: "it must be 1 to 200 characters of A-Z a-z 0-9 . : _ -",
    })
}

const fn of_identity(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-')
}

/// Unique among all processes that may run at once: a pod that is recreated keeps its host name.
fn identity(host: &str, unique: uuid::Uuid) -> String {
    let host: String = host.chars().filter(|c| of_identity(*c)).take(150).collect();
    let unique = unique.simple().to_string();
    let suffix = unique.get(..8).unwrap_or(&unique);
    if host.is_empty() {
        return format!("trino-pool-operator-{suffix}");
    }
    format!("{host}-{suffix}")
}

/// The pod's name in a cluster. Only a label for people: uniqueness comes from the suffix.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::{Cli, Command};

    fn checked(more: &[&str]) -> Result<Checked, CliError> {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, format!("{}\n", "x".repeat(40))).unwrap();
        let mut line = vec!["trino-pool-operator", "run", "--gateway-token-file"];
        line.push(token.to_str().unwrap());
        let given = |name: &str| more.contains(&name);
        if !given("--store") {
            line.extend(["--store", "postgres://operator@db/pools"]);
        }
        if !given("--gateway-url") {
            line.extend(["--gateway-url", "https://gateway.example"]);
        }
        line.extend(more);
        let Command::Run(args) = Cli::try_parse_from(line).unwrap().command else {
            panic!("parsed as another command")
        };
        Checked::of(&args)
    }

    fn refused(more: &[&str]) -> String {
        checked(more).unwrap_err().to_string()
    }

    #[test]
    fn a_token_file_may_end_with_a_line_break_and_the_defaults_fit_together() {
        let checked = checked(&[]).unwrap();
        assert_eq!(checked.scope, Scope::All);
        assert!(checked.settings.lease.elect);
        assert!(!checked.settings.node_replacement);
        assert!(checked_identity(&checked.settings.owner).is_ok());
        assert_eq!(checked.settings.replacement_budget, None);
    }

    #[test]
    fn the_replacement_budget_is_what_was_said() {
        let settings = checked(&["--replacement-budget", "7"]).unwrap().settings;
        assert_eq!(settings.replacement_budget, Some(7));
    }

    #[test]
    fn every_wrong_option_is_named() {
        for (more, named) in [
            (&["--store", "mysql://root:hunter2@db"][..], "--store"),
            (&["--store", "sqlite:x.db"], "--no-leader-election"),
            (&["--gateway-url", "http://gw.example"], "--gateway-plain-http"),
            (
                &["--gateway-url", "https://me:hunter2@gw.example"],
                "--gateway-url",
            ),
            (
                &["--gateway-url", "http://gw.example", "--gateway-plain-http"],
                "--gateway-url",
            ),
            (&["--coordinator-address", "dns"], "--coordinator-address"),
            (&["--namespace", "Trino"], "--namespace"),
            (&["--lease-namespace", "a.b"], "--lease-namespace"),
            (&["--lease-name", "x-"], "--lease-name"),
            (&["--identity", "two words"], "--identity"),
            (&["--trino-user", "line\nbreak"], "--trino-user"),
        ] {
            let line = refused(more);
            assert!(line.contains(named), "{more:?}: {line}");
            assert!(!line.contains("hunter2"), "{line}");
        }
    }

    #[test]
    fn clear_text_to_this_machine_must_be_asked_for() {
        let here = ["--gateway-url", "http://127.0.0.1:8080"];
        assert!(refused(&here).contains("--gateway-plain-http"));
        assert!(checked(&[&here[..], &["--gateway-plain-http"]].concat()).is_ok());
    }

    #[test]
    fn an_identity_is_the_host_and_something_unique() {
        let unique = uuid::Uuid::nil();
        assert_eq!(identity("pod-0", unique), "pod-0-00000000");
        assert_eq!(identity("höst!", unique), "hst-00000000");
        assert_eq!(identity("", unique), "trino-pool-operator-00000000");
        assert!(checked_identity(&identity(&"x".repeat(400), unique)).is_ok());
    }
}
