//! Proof that a registered process has ended.
