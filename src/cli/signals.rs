//! The two signals that end a process politely: SIGTERM from a kubelet, SIGINT from a keyboard.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::CliError;

/// Listens from the moment it is made.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on neither signal ends the process by itself.
    pub fn listen() -> Result<Self, CliError> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(CliError::Process)?,
            interrupt: signal(SignalKind::interrupt()).map_err(CliError::Process)?,
        })
    }

    /// Waits for the next one of either.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
