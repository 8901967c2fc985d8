//! (stage)
