//! The binary as people and scripts meet it: what it prints, and with which status it ends.

// Everything here is a test.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod check;
mod cluster;
#[path = "../support/postgres.rs"]
#[allow(dead_code, reason = "the store suite uses more of it")]
mod postgres;
mod run;
mod said;
mod simulate;
mod start;
