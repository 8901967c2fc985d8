//! The world as its many users share it: faces, the driver of time, and whoever looks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::{PacedClock, World};
use crate::clock::Clock;
use crate::sim::kube::server::{Face, Pulse};

/// A world behind a lock, with the pulse that wakes open watches. Cloning shares.
#[derive(Clone, Debug)]
pub struct SharedWorld {
    world: Arc<Mutex<World>>,
    pulse: Pulse,
    paced: Option<Arc<PacedClock>>,
}

impl SharedWorld {
    /// Shares a world.
    #[must_use]
    pub fn new(world: World) -> Self {
        Self {
            world: Arc::new(Mutex::new(world)),
            pulse: Pulse::default(),
            paced: None,
        }
    }

    /// Shares a world whose clock waits for its steps.
    #[must_use]
    pub fn pacing(world: World, clock: Arc<PacedClock>) -> Self {
        Self {
            paced: Some(clock),
            ..Self::new(world)
        }
    }

    /// Looks at the world, or does something to it. Never hold it across an await.
    pub fn with<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        let result = act(&mut self.lock());
        self.pulse.beat();
        result
    }

    /// Looks at the world and changes nothing. Never hold it across an await.
    pub fn peek<R>(&self, look: impl FnOnce(&World) -> R) -> R {
        look(&self.lock())
    }

    /// Lets the world move on to `now`.
    pub fn step(&self, now: Timestamp) {
        self.with(|world| world.step(now));
        if let Some(clock) = &self.paced {
            clock.stepped();
        }
    }

    /// Waits between two steps. Whoever makes the steps waits with this: a clock that waits for the world
    /// would have them wait for themselves.
    pub async fn wait(&self, clock: &dyn Clock, pause: Duration) {
        match &self.paced {
            Some(paced) => paced.wait_really(pause).await,
            None => clock.sleep(pause).await,
        }
    }

    /// Lets time pass by `clock` for ever, a step every `pause`. Run it beside the operator and drop it to
    /// stop the world.
    pub async fn run(&self, clock: Arc<dyn Clock>, pause: Duration) {
        loop {
            self.wait(clock.as_ref(), pause).await;
            self.step(clock.now());
        }
    }

    /// The face of the API server.
    #[must_use]
    pub fn kube_face(&self) -> Face<World> {
        Face::new(Arc::clone(&self.world), self.pulse.clone())
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        // A panic elsewhere leaves the world as it was after its last whole change.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
