//! A world that stays: its addresses, what one can do with them, and time that goes on until interrupted.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::super::error::CliError;
use super::super::output;
use super::super::signals::Signals;
use super::status;
use crate::gateway::pooled::TOKEN_HEADER;
use crate::sim::scenario::Open;
use crate::sim::world::{ADMIN_TOKEN, Addresses, NAMESPACE, kubeconfig};

/// Between two steps of the world, by its own clock.
const PAUSE: Duration = Duration::from_millis(200);

/// Says where everything is and lets time pass until the first signal. The operator goes on as well.
pub(super) async fn until_interrupted(
    open: Open,
    signals: &mut Signals,
    passed: bool,
) -> Result<ExitCode, CliError> {
    let kubeconfig = match &open.served {
        Some(served) => Some(Kubeconfig::write(served.addresses)?),
        None => None,
    };
    if let (Some(served), Some(kubeconfig)) = (&open.served, &kubeconfig) {
        output::line(&invitation(served.addresses, &kubeconfig.path));
    }
    tokio::select! {
        () = open.world.run(Arc::clone(&open.clock), PAUSE) => {}
        () = signals.received() => {}
    }
    open.close().await;
    Ok(status(passed))
}

/// What can be done with the open world.
fn invitation(at: Addresses, kubeconfig: &Path) -> String {
    format!(
        "\nThe world stays open, and the operator in it, until you press Ctrl-C.\n\
         \x20 Kubernetes   http://{kube}\n\
         \x20 gateway      http://{gateway}\n\
         \x20 coordinators http://{trino} (by Host header)\n\
         Try, in another terminal:\n\
         \x20 export KUBECONFIG={kubeconfig}\n\
         \x20 kubectl get nodes,nodeclaims\n\
         \x20 kubectl -n {NAMESPACE} get trinopools,pods\n\
         \x20 kubectl delete nodeclaim --wait=false NAME    # and watch its instance being replaced first\n\
         \x20 curl -s -u me:me -H 'X-Trino-Routing-Group: analytics' http://{gateway}/v1/statement -d 'SELECT 1'\n\
         \x20 curl -s http://{gateway}/gateway/v1/pools/analytics/members \\\n\
         \x20      -H '{TOKEN_HEADER}: {ADMIN_TOKEN}'",
        kube = at.kube,
        gateway = at.gateway,
        trino = at.trino,
        kubeconfig = kubeconfig.display(),
    )
}

/// A kubeconfig file of the simulated API server, removed at the end.
struct Kubeconfig {
    path: PathBuf,
}

impl Kubeconfig {
    fn write(at: Addresses) -> Result<Self, CliError> {
        let name = format!("trino-pool-operator-{}.kubeconfig", std::process::id());
        let path = std::env::temp_dir().join(name);
        let text = kubeconfig(&format!("http://{}", at.kube));
        std::fs::write(&path, text).map_err(CliError::Process)?;
        Ok(Self { path })
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(file = %self.path.display(), error = %error, "a temporary file stays behind");
        }
    }
}
