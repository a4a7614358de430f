//! A simulation: real, blocking worker code on a virtual clock, with one seed deciding what happens next.
//!
//! Every *actor* is an operating system thread, but exactly one of them runs at any moment: it holds the baton, and each call
//! through the broker seam is a point at which the seed may hand it to another. Time stands still while somebody can run (but
//! for a few microseconds that every step costs) and jumps to the next deadline when all wait. Thus a run is a function of its
//! seed: the same seed gives the same schedule, bit for bit, and [`Report::trace_hash`] tells whether it did.
//!
//! Actors belong to *processes*. A process can be crashed or paused at any step, see [`Trigger`] and [`Fault`]: its threads never
//! come back from the seam, its memory is gone, and the broker learns of it as it would of a killed one.
//!
//! What must hold for a replay to be exact: actors wait, sleep, read the time, start threads and draw unique numbers only through
//! the seam, and let no order depend on a hash map. An actor that blocks on anything else holds the baton for ever; the
//! simulation then ends with [`FailureKind::Stalled`] instead of hanging.

mod host;
mod plan;
mod random;
mod scheduler;
mod simulation;
mod trace;

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use flow_core::Timestamp;

pub use plan::{Fault, Trigger};
pub use random::Random;
pub use simulation::Simulation;

pub(crate) use host::{SimHost, gone};
pub(crate) use scheduler::{On, Scheduler, World};

/// What makes one run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides everything.
    pub seed: u64,
    /// The wall clock at the start.
    pub start: Timestamp,
    /// The run fails when the virtual clock has moved this far.
    pub time_limit: Duration,
    /// The run fails after this many steps.
    pub step_limit: u64,
    /// A step takes a seeded time below this, so that no loop of calls can stop the clock.
    pub step_cost: Duration,
    /// How many of the last trace lines are kept to be printed; their hash always covers all.
    pub trace_kept: usize,
    /// How long (in real time) an actor may stay away from the seam before the run is given up.
    pub stall: Duration,
}

impl Options {
    /// The defaults, with this seed.
    pub fn new(seed: u64) -> Self {
        Options {
            seed,
            start: Timestamp::from_millis(1_704_067_200_000),
            time_limit: Duration::from_secs(600),
            step_limit: 1_000_000,
            step_cost: Duration::from_micros(200),
            trace_kept: 200,
            stall: Duration::from_secs(30),
        }
    }
}

/// A group of actors that crash and pause together: a simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process(pub(crate) usize);

/// A run that ended as it should.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Steps taken: seam calls and the requests in them.
    pub steps: u64,
    /// Virtual time passed.
    pub elapsed: Duration,
    /// A hash of every trace line: two runs of one seed must agree.
    pub trace_hash: u64,
    /// The last trace lines.
    pub trace: Vec<String>,
    /// Panics of threads that were started through the seam; their joiners were told.
    pub panics: Vec<String>,
}

/// Why a run was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// Nobody can run, and no passing of time will change that.
    Deadlock,
    /// [`Options::time_limit`] was reached.
    TimeLimit,
    /// [`Options::step_limit`] was reached.
    StepLimit,
    /// An actor panicked.
    Panicked,
    /// An actor stayed away from the seam: it blocks on something that the simulation does not see.
    Stalled,
}

/// A run that did not end as it should, with what is needed to look at it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Why.
    pub kind: FailureKind,
    /// What exactly, and what every actor was waiting for.
    pub message: String,
    /// The run up to there.
    pub report: Report,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {} (step {}, {:?})",
            self.report.seed, self.message, self.report.steps, self.report.elapsed
        )?;
        for line in &self.report.trace {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
