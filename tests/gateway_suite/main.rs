//! The gateway suite: what every implementation of the `Gateway` port must do against a server of the
//! pooled-member protocol, told as stories.
//!
//! Each story runs twice: with the production client in process, and with the same client over real HTTP
//! on 127.0.0.1. Time is the stage's own; nothing sleeps.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at the first surprise, and so may its stage"
)]

mod fleet;
mod stage;

mod authority;
mod identity;
mod lifecycle;
mod lost_answers;
mod obligations;
mod races;
mod repair;

/// Runs a story in process and over HTTP.
macro_rules! stories {
    ($($(#[$note:meta])* $name:ident;)+) => {
        mod in_process {
            $($(#[$note])* #[tokio::test] async fn $name() {
                super::$name(&$crate::stage::Stage::in_process()).await;
            })+
        }
        mod over_http {
            $($(#[$note])* #[tokio::test] async fn $name() {
                super::$name(&$crate::stage::Stage::over_http().await).await;
            })+
        }
    };
}
pub(crate) use stories;
