//! Stories: a simulated world, an operator in it, things that happen, and what must hold at the end.

pub mod frame;
pub mod report;
