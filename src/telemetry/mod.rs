//! What the process says about itself: log lines, counters, and the page Prometheus reads.
//!
//! Every noteworthy happening is one struct in [`events`] whose `emit` writes the log line *and* bumps the
//! counter, so that the two can't drift apart. Gauges are not kept here: they are computed from the
//! process's status when the page is read. Nothing here decides anything, and nothing secret is written.

pub mod counters;
pub mod events;
pub mod logging;
