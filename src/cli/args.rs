//! What can be said on the command line. Parsing only; nothing here reaches out.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::telemetry::logging::LogFormat;

/// Replaces Trino instances before Karpenter disrupts the nodes beneath them, and loses no query.
#[derive(Debug, Parser)]
#[command(name = "trino-pool-operator", version, about, long_about = None, propagate_version = true)]
#[command(after_help = "\
Examples:
  trino-pool-operator simulate
      See a whole replacement, live, in a simulated world. Needs nothing but this binary.
  trino-pool-operator check --protection
      Whether everything that keeps Karpenter off the pods stands, in the cluster of your kubeconfig; reads only.
  trino-pool-operator migrate --store postgres://operator@db/trino_pools
      Bring the store's schema up to date; do this before a new version runs.
  trino-pool-operator run --store postgres://operator@db/trino_pools \\
      --gateway-url https://gateway.example --gateway-token-file /run/secrets/gateway/token
      Run the controller in a cluster.

Exit status: 0 done; 1 it ran and something did not hold; 2 it could not start, and why.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the controller.
    Run(Box<RunArgs>),
    /// Show the operator at work in a simulated world.
    Simulate(Box<SimulateArgs>),
    /// Check a cluster, changing nothing in it.
    Check(CheckArgs),
    /// Bring the store's schema up to date.
    Migrate(MigrateArgs),
    /// Print the TrinoPool custom resource definition as JSON, for `kubectl apply -f -`.
    Crd,
}

/// How to log.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// How log lines look.
    #[arg(long, env = "TPO_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// What is logged: a level, or tracing directives.
    #[arg(long, env = "TPO_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,
}

/// Which cluster.
#[derive(Debug, Args)]
pub struct ConnectArgs {
    /// Kubeconfig file. Default: $KUBECONFIG, else ~/.kube/config, else the pod's own service account.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: its current one.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// `run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trino-pool-operator run --store sqlite:/var/lib/tpo/store.db --no-leader-election \\
      --gateway-url https://gateway.example --gateway-token-file token
  trino-pool-operator run --store postgres://operator@db/trino_pools --node-replacement \\
      --gateway-url https://gateway.example --gateway-token-file token --namespace trino

Node replacement is off unless both --node-replacement and spec.nodeReplacement.enabled of a pool are set.")]
pub struct RunArgs {
    /// Where state lives: postgres://… or sqlite:PATH (one replica only).
    #[arg(long, env = "TPO_STORE", value_name = "URL")]
    pub store: String,
    /// Serve the TrinoPools of this namespace only; may be given more than once. Default: all.
    #[arg(long = "namespace", value_name = "NAME")]
    pub namespaces: Vec<String>,
    /// Which cluster.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Origin of the gateway, https://HOST[:PORT].
    #[arg(long, env = "TPO_GATEWAY_URL", value_name = "URL")]
    pub gateway_url: String,
    /// File that holds the gateway's admin token, at least 32 bytes.
    #[arg(long, env = "TPO_GATEWAY_TOKEN_FILE", value_name = "FILE")]
    pub gateway_token_file: PathBuf,
    /// Allow http:// to a gateway on this machine (127.0.0.1, [::1], localhost); elsewhere it must be https://.
    #[arg(long)]
    pub gateway_plain_http: bool,
    /// How coordinators are reached: service, pod-ip, or resolve=HOST:PORT (keep the URL, dial there).
    #[arg(long, default_value = "service", value_name = "HOW")]
    pub coordinator_address: String,
    /// User of probe statements.
    #[arg(long, default_value = "trino-pool-operator", value_name = "NAME")]
    pub trino_user: String,
    /// Handle nodes that are drifted or being deleted, in pools that enable it. Off by default.
    #[arg(long, env = "TPO_NODE_REPLACEMENT")]
    pub node_replacement: bool,
    /// How many pools may have a planned replacement under way at once, at least 1. The most urgent go first: a
    /// known forced end, then nodes being deleted, then drifted ones, then releases. Default: a quarter of the pools,
    /// and at least 4.
    #[arg(long, env = "TPO_REPLACEMENT_BUDGET", value_name = "N", value_parser = budget)]
    pub replacement_budget: Option<usize>,
    /// Run without a Lease. Safe only while nothing else runs against the same store.
    #[arg(long)]
    pub no_leader_election: bool,
    /// Namespace of the leadership Lease.
    #[arg(
        long,
        env = "TPO_LEASE_NAMESPACE",
        default_value = "default",
        value_name = "NAME"
    )]
    pub lease_namespace: String,
    /// Name of the leadership Lease.
    #[arg(long, default_value = "trino-pool-operator", value_name = "NAME")]
    pub lease_name: String,
    /// Name of this process in the Lease and in the store. Default: host name and a random suffix.
    #[arg(long, env = "TPO_IDENTITY", value_name = "NAME")]
    pub identity: Option<String>,
    /// Where /metrics, /healthz and /readyz are served.
    #[arg(long, default_value = "0.0.0.0:9090", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Logging.
    #[command(flatten)]
    pub logging: LogArgs,
}

/// `migrate`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trino-pool-operator migrate --store postgres://operator@db/trino_pools
  trino-pool-operator migrate --store sqlite:/var/lib/tpo/store.db")]
pub struct MigrateArgs {
    /// Where state lives: postgres://… or sqlite:PATH.
    #[arg(long, env = "TPO_STORE", value_name = "URL")]
    pub store: String,
    /// Logging.
    #[command(flatten)]
    pub logging: LogArgs,
}

/// `check`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trino-pool-operator check --protection
      In every namespace of your kubeconfig's current cluster.
  trino-pool-operator check --protection --namespace trino --context production
  trino-pool-operator check --protection --output json | jq -r '.findings[] | .kind + \" \" + .name'

--protection judges every live coordinator and worker pod that carries the operator's labels, also of pools whose \
TrinoPool is gone, and whatever those pools have enabled: it must carry exactly karpenter.sh/do-not-disrupt=\"true\", and \
the node beneath it must be owned by exactly one karpenter.sh/v1 NodeClaim without a terminationGracePeriod. A pod that \
finished or is terminating is left out: the annotation holds nothing there. A pod that waits for a node is judged by its \
annotation alone. What cannot be decoded is a finding.

It knows no store, so it takes labels for what they say: they prove neither that the operator made a pod, nor that none \
of its pods lost them.

Permissions: list pods (in each --namespace, or in the whole cluster), get nodes, list nodeclaims.karpenter.sh.

Exit status: 0 nothing found; 1 a finding, or no pod of ours in a --namespace; 2 it could not start, or could not read what it has to.")]
pub struct CheckArgs {
    /// What to check.
    #[command(flatten)]
    pub what: WhatArgs,
    /// Only in this namespace; may be given more than once. Default: all.
    #[arg(long = "namespace", value_name = "NAME")]
    pub namespaces: Vec<String>,
    /// Which cluster.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// What `check` checks: at least one thing.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct WhatArgs {
    /// Whether pods, and the nodes beneath them, hold Karpenter off.
    #[arg(long)]
    pub protection: bool,
}

/// `simulate`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trino-pool-operator simulate
      The story of one drift, live.
  trino-pool-operator simulate --list
  trino-pool-operator simulate --scenario mass-drift --pools 3 --seed 7
  trino-pool-operator simulate --scenario all --output json
      Every scenario; one JSON object each; exit status 1 if a query was lost that the scenario does not
      announce, a rule was broken or an expectation failed.
  trino-pool-operator simulate --keep-open
      Leave the world and its HTTP ports up afterwards, for curl and kubectl.")]
pub struct SimulateArgs {
    /// Which story, or `all`.
    #[arg(long, default_value = "drift", value_name = "NAME")]
    pub scenario: String,
    /// List the scenarios and what each expects.
    #[arg(long)]
    pub list: bool,
    /// Pools. Default: the scenario's own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50))]
    pub pools: Option<u32>,
    /// Instances of each pool. Default: the scenario's own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20))]
    pub instances: Option<u32>,
    /// Workers of each instance. Default: the scenario's own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20))]
    pub workers: Option<u32>,
    /// Names and every random choice. Over HTTP the timing of the machine varies too.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Seconds of the story per second of yours, above 0 and at most 200. Default: 6, and 20 with `all`.
    #[arg(long, value_name = "FACTOR", value_parser = speed)]
    pub speed: Option<f64>,
    /// With `all`: how many scenarios run at once.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = jobs)]
    pub jobs: usize,
    /// Where the operator keeps its state: sqlite (a temporary file), memory, or an empty store at sqlite:PATH or
    /// postgres://…
    #[arg(long, default_value = "sqlite", value_name = "URL")]
    pub store: String,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Leave the world and its HTTP ports up afterwards, until interrupted.
    #[arg(long)]
    pub keep_open: bool,
    /// What the operator logs meanwhile, on standard error.
    #[arg(long, env = "TPO_LOG", default_value = "off", value_name = "FILTER")]
    pub log: String,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 && speed <= 200.0 => Ok(speed),
        Ok(_) | Err(_) => Err("it must be a number above 0 and at most 200".to_owned()),
    }
}

fn jobs(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(jobs @ 1..=32) => Ok(jobs),
        Ok(_) | Err(_) => Err("it must be a number from 1 to 32".to_owned()),
    }
}

fn budget(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(places) if places >= 1 => Ok(places),
        Ok(_) => Err("it must be at least 1: with 0 no pool would ever replace an instance".to_owned()),
        Err(_) => Err("it must be a whole number, at least 1".to_owned()),
    }
}

/// How `simulate` and `check` say what they have to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people; `simulate` draws in place on a terminal.
    Text,
    /// For scripts: one JSON object; `simulate` prints one per scenario.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_check_has_to_be_told_what_to_check() {
        let told = |more: &[&str]| Cli::try_parse_from([&["trino-pool-operator", "check"], more].concat());
        let error = told(&["--output", "json"]).unwrap_err().to_string();
        assert!(error.contains("--protection"), "{error}");
        let Command::Check(check) = told(&["--protection"]).unwrap().command else {
            panic!("parsed as another command")
        };
        assert!(check.what.protection);
        assert_eq!(check.output, Output::Text);
    }

    #[test]
    fn node_replacement_is_off_unless_asked_for() {
        let cli = Cli::try_parse_from([
            "trino-pool-operator",
            "run",
            "--store",
            "sqlite:x.db",
            "--gateway-url",
            "https://gateway.example",
            "--gateway-token-file",
            "token",
        ])
        .unwrap();
        let Command::Run(run) = cli.command else {
            panic!("parsed as another command")
        };
        assert!(!run.node_replacement);
        assert!(!run.no_leader_election);
    }
}
