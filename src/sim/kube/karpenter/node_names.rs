//! Names of machines, in the manner of the KWOK provider.

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

const HOW: [&str; 16] = [
    "amber", "brisk", "calm", "deft", "eager", "frank", "gentle", "humble", "ivory", "jolly", "keen",
    "lucid", "merry", "noble", "patient", "quiet",
];
const WHO: [&str; 16] = [
    "ada", "bohr", "curie", "darwin", "euler", "fermi", "gauss", "hopper", "joule", "kepler", "lovelace",
    "maxwell", "newton", "ohm", "pascal", "turing",
];

/// A name like `brisk-euler-3275360167`.
pub(super) fn node_name(rng: &mut ChaCha8Rng) -> String {
    let how = HOW[rng.random_range(0..HOW.len())];
    let who = WHO[rng.random_range(0..WHO.len())];
    format!("{how}-{who}-{}", rng.next_u32())
}
