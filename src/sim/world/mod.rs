//! The joined world.

mod clock;

pub use clock::{SimClock, SimEntropy};
