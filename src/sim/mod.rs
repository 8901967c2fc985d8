//! (stage)
pub mod gateway;
