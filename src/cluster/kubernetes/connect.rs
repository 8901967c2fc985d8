//! From the environment to a client, with errors that say what to do about them.

use std::path::PathBuf;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// Where the API server is and who we are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    /// A kubeconfig file; without one, `KUBECONFIG`, `~/.kube/config` and the pod's service account are
    /// tried in this order.
    pub kubeconfig: Option<PathBuf>,
    /// A context of that file instead of its current one.
    pub context: Option<String>,
}

/// Why there is no client. One line each, for a person.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The named file cannot be read or understood.
    #[error("kubeconfig {0}: {1}")]
    Kubeconfig(String, String),
    /// Neither a kubeconfig nor a service account is there.
    #[error("no Kubernetes configuration: {0}")]
    NotFound(String),
    /// The configuration is there, and no client can be made of it.
    #[error("the Kubernetes configuration cannot be used: {0}")]
    Unusable(String),
}

/// Makes a client. Nothing is sent: whether the server answers is found out by the first request.
pub(super) async fn client(options: &ConnectOptions) -> Result<Client, ConnectError> {
    let mut config = config(options).await?;
    // The throttle and the ticks decide about retries; hidden ones would break its promise and the
    // deadline of a call.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| ConnectError::Unusable(one_line(&error)))
}

async fn config(options: &ConnectOptions) -> Result<Config, ConnectError> {
    let chosen = KubeConfigOptions {
        context: options.context.clone(),
        ..KubeConfigOptions::default()
    };
    let Some(path) = &options.kubeconfig else {
        if options.context.is_some() {
            return Config::from_kubeconfig(&chosen)
                .await
                .map_err(|error| ConnectError::NotFound(one_line(&error)));
        }
        return Config::infer()
            .await
            .map_err(|error| ConnectError::NotFound(one_line(&error)));
    };
    let named = |error: &(dyn std::error::Error + 'static)| {
        ConnectError::Kubeconfig(path.display().to_string(), one_line(error))
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| named(&error))?;
    Config::from_custom_kubeconfig(kubeconfig, &chosen)
        .await
        .map_err(|error| named(&error))
}

fn one_line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    if quotes_the_file(error) || source.is_some_and(quotes_the_file) {
        return "it is not a kubeconfig; what it holds is not repeated here, since it may be secret"
            .to_owned();
    }
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Whether an error's text shows lines of the file: the parser quotes what surrounds its complaint.
fn quotes_the_file(error: &(dyn std::error::Error + 'static)) -> bool {
    let parsing = error.downcast_ref::<KubeconfigError>();
    parsing.is_some_and(|error| matches!(error, KubeconfigError::Parse(_)))
}
