//! Stories: a simulated world, an operator in it, things that happen, and what must hold at the end.
//!
//! A story is one async function over a [`Stage`]: it says what happens, does it to the world, and waits until
//! something holds. The same stories run over real HTTP at some multiple of real time (`simulate`), and in
//! process under virtual time from a seed (the tests). The stage watches the safety rules all the while.

pub mod catalogue;
pub mod frame;
mod narrator;
pub mod report;
mod run;
mod stage;
mod stories;

use futures::future::BoxFuture;

pub use run::{Mode, Open, Run, run};
pub use stage::{Broken, Onlooker, Scene, Stage};

use crate::sim::invariants::Ending;
use crate::sim::world::WorldOptions;

/// What happens in a story.
pub type Play = for<'a> fn(&'a mut Stage) -> BoxFuture<'a, Result<(), Broken>>;

/// One story.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Given, when, then, in one sentence.
    pub story: &'static str,
    /// How its world differs from the ordinary one.
    pub setup: fn(&mut Setup),
    /// What happens.
    pub play: Play,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The circumstances of a story.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The world.
    pub world: WorldOptions,
    /// The process flag of node replacement.
    pub node_replacement: bool,
    /// What must have happened by the end; `None`: the story says so itself.
    pub ending: Option<Ending>,
    /// Queries may be lost, because the story takes their coordinator away: it judges them itself.
    pub losses_are_told: bool,
}
