//! `check`: whether a cluster is as the operator needs it. It sends reads only.
//!
//! Owns the order of reading: pods, then the nodes beneath them, then the claims, as the rule asks for
//! (`pool::protection_audit`). An API that does not answer ends the check, since half a check that finds nothing would
//! read like a whole one; an object that cannot be decoded is the rule's to judge.

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

use futures::stream::{StreamExt, TryStreamExt, iter};

use self::report::Report;
use super::args::{CheckArgs, Output};
use super::error::CliError;
use super::output;
use super::target::{connect, scope};
use crate::cluster::facts::{Lookup, NodeFacts};
use crate::cluster::kubernetes::{KubernetesCluster, Scope};
use crate::cluster::port::{Cluster, ClusterError};
use crate::pool::ids::NodeName;
use crate::pool::observation::{Claims, Fault, NodeReadings, Reading};
use crate::pool::protection_audit::{audit, nodes_of};

/// Nodes that are read at once: quick over a fleet, and nothing to an API server.
const NODES_AT_ONCE: usize = 8;

/// Runs the command to its exit status.
pub async fn command(args: &CheckArgs) -> Result<ExitCode, CliError> {
    let scope = scope(&args.namespaces)?;
    let cluster = KubernetesCluster::from_environment(&connect(&args.connect), scope.clone()).await?;
    let listing = match &scope {
        Scope::All => "list pods in the whole cluster, or choose with --namespace",
        Scope::Namespaces(_) => "list pods in each --namespace",
    };
    let pods = cluster
        .labelled_pods()
        .await
        .map_err(|error| unread("pods".to_owned(), listing, error))?;
    let readings = NodeReadings {
        nodes: read_nodes(&cluster, nodes_of(&pods)).await?,
        claims: read_claims(&cluster).await?,
    };
    let report = Report::of(&audit(&pods, &readings), &scope, &pods);
    output::line(&match args.output {
        Output::Text => report.text(),
        Output::Json => serde_json::to_string(&report).map_err(CliError::Json)?,
    });
    Ok(if report.passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn read_nodes(
    cluster: &KubernetesCluster,
    names: BTreeSet<NodeName>,
) -> Result<BTreeMap<NodeName, Reading<Option<NodeFacts>>>, CliError> {
    iter(names)
        .map(|name| async move {
            let reading = match cluster.node(&name).await {
                Ok(Lookup::Found(node)) => Reading::Seen(Some(node)),
                Ok(Lookup::Absent) => Reading::Seen(None),
                Err(ref error @ ClusterError::Undecodable(_, ref problem)) => Reading::Unknown(Fault {
                    label: error.label(),
                    subject: name.to_string(),
                    detail: problem.clone(),
                }),
                Err(error) => return Err(unread(format!("node {name}"), "get nodes", error)),
            };
            Ok((name, reading))
        })
        .buffered(NODES_AT_ONCE)
        .try_collect()
        .await
}

async fn read_claims(cluster: &KubernetesCluster) -> Result<Claims, CliError> {
    match cluster.claims().await {
        Ok(inventory) => Ok(Claims::Inventory(Arc::new(inventory))),
        Err(error) => Err(unread(
            "NodeClaims".to_owned(),
            "list nodeclaims.karpenter.sh",
            error,
        )),
    }
}

fn unread(what: String, permission: &'static str, error: ClusterError) -> CliError {
    CliError::Unread {
        what,
        permission,
        error,
    }
}
