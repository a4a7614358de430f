//! The simulated machine: clock, sleep and threads of one simulated process.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use flow_core::Timestamp;

use super::{On, Process, Random, Scheduler, World};
use crate::broker::{BrokerError, ErrorKind, Host, Joiner};

/// The [`Host`] of one process.
pub(crate) struct SimHost<W> {
    scheduler: Arc<Scheduler<W>>,
    process: Process,
    unique: Mutex<Random>,
}

impl<W: World> SimHost<W> {
    pub(crate) fn new(scheduler: Arc<Scheduler<W>>, process: Process) -> Self {
        let unique = Mutex::new(Random::stream(scheduler.options().seed, 1000 + process.0 as u64));
        SimHost { scheduler, process, unique }
    }

    pub(crate) fn scheduler(&self) -> &Arc<Scheduler<W>> {
        &self.scheduler
    }

    pub(crate) fn process(&self) -> Process {
        self.process
    }
}

impl<W: World> Host for SimHost<W> {
    fn now(&self) -> Timestamp {
        self.scheduler.options().start + self.scheduler.clock()
    }

    fn elapsed(&self) -> Duration {
        self.scheduler.clock()
    }

    fn sleep(&self, time: Duration) {
        let until = self.scheduler.clock() + time;
        // A caller that is gone has nobody to sleep for.
        let _ = self
            .scheduler
            .step(format_args!("sleep({time:?})"))
            .and_then(|_| self.scheduler.wait(Some(until), On::Nothing));
    }

    fn spawn(&self, name: &str, run: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Joiner>, BrokerError> {
        self.scheduler.step(format_args!("spawn({name})")).map_err(|_| gone())?;
        let actor = self.scheduler.spawn(self.process, name, true, run).map_err(|error| {
            BrokerError::new(ErrorKind::Fatal, format!("thread {name} could not be started: {error}"))
        })?;
        Ok(Box::new(SimJoiner { scheduler: Arc::clone(&self.scheduler), actor }))
    }

    fn unique(&self) -> u64 {
        self.unique.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}

/// What a seam call answers to a thread that is no longer, or never was, part of the run.
pub(crate) fn gone() -> BrokerError {
    BrokerError::new(ErrorKind::Fatal, "the simulated process has ended, or did not start this thread")
}

struct SimJoiner<W> {
    scheduler: Arc<Scheduler<W>>,
    actor: usize,
}

impl<W: World> Joiner for SimJoiner<W> {
    fn join(self: Box<Self>) -> Result<(), String> {
        // Not a step when there is nothing to wait for: destructors join, too, also after the run.
        loop {
            if let Some(result) = self.scheduler.finished(self.actor) {
                return result;
            }
            if self.scheduler.wait(None, On::Finish(self.actor)).is_err() {
                return Err(gone().message);
            }
        }
    }

    fn is_finished(&self) -> bool {
        self.scheduler.finished(self.actor).is_some()
    }
}
