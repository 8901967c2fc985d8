//! Which cluster a command is about, and which of its namespaces: what `run` and `check` are told in the same words.

use super::args::ConnectArgs;
use super::error::CliError;
use crate::cluster::kubernetes::{ConnectOptions, Scope};
use crate::pool::ids::Namespace;

/// Where the API server is and who we are.
pub fn connect(args: &ConnectArgs) -> ConnectOptions {
    ConnectOptions {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
    }
}

/// The namespaces named, each once; none means all.
pub fn scope(namespaces: &[String]) -> Result<Scope, CliError> {
    if namespaces.is_empty() {
        return Ok(Scope::All);
    }
    let mut names: Vec<&String> = namespaces.iter().collect();
    names.sort_unstable();
    names.dedup();
    for name in &names {
        dns_label("--namespace", name)?;
    }
    Ok(Scope::Namespaces(
        names
            .into_iter()
            .map(|name| Namespace::new(name.clone()))
            .collect(),
    ))
}

/// Refuses what Kubernetes would not take as a namespace.
pub fn dns_label(option: &'static str, value: &str) -> Result<(), CliError> {
    named(
        option,
        value,
        is_label(value),
        "it must be a Kubernetes namespace: up to 63 of a-z 0-9 -, not beginning or ending with -",
    )
}

/// Refuses what Kubernetes would not take as an object's name.
pub fn dns_name(option: &'static str, value: &str) -> Result<(), CliError> {
    named(
        option,
        value,
        value.len() <= 253 && value.split('.').all(is_label),
        "it must be a Kubernetes name: a-z 0-9 - in parts divided by dots",
    )
}

fn is_label(label: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&label.len())
        && label.chars().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn named(option: &'static str, value: &str, good: bool, rule: &'static str) -> Result<(), CliError> {
    if good {
        return Ok(());
    }
    Err(CliError::Name {
        option,
        value: value.to_owned(),
        rule,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scoped(names: &[&str]) -> Result<Scope, CliError> {
        scope(&names.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn namespaces_are_taken_once_each_and_none_means_all() {
        let both = Scope::Namespaces(vec![Namespace::new("a"), Namespace::new("b")]);
        assert_eq!(scoped(&["b", "a", "b"]).unwrap(), both);
        assert_eq!(scoped(&[]).unwrap(), Scope::All);
    }

    #[test]
    fn what_is_no_namespace_is_named() {
        for wrong in ["Trino", "", "-a", "a-", "a.b", "a/b", &"x".repeat(64)] {
            let line = scoped(&["good", wrong]).unwrap_err().to_string();
            assert!(
                line.starts_with("--namespace") && line.contains(&format!("{wrong:?}")),
                "{line}"
            );
        }
    }
}
