//! What the examples share: making an input, running an example on a broker, and comparing every record that it writes with what a
//! plain loop computes.
//!
//! The examples themselves are the programs in `src/bin`, one file each; read those first. Nothing in here is needed to use the
//! library.

use std::fmt;
use std::time::{Duration, Instant};

mod drive;
mod kafka;
mod killer;
mod logging;
mod options;
mod outcome;
mod progress;
mod random;
mod results;
mod run;
mod workers;

pub mod clicks;

pub use options::Options;
pub use random::Random;
pub use results::{Results, Times, Verdict};
pub use run::{Example, Run};

/// The README's programs, compiled and (where they need no broker) run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

/// One record of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The partition that it is written to.
    pub partition: i32,
    /// The key; `None` is null.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Vec<u8>,
    /// Milliseconds since the epoch.
    pub timestamp: i64,
}

/// The records of an input, one after another.
pub type Input = Box<dyn Iterator<Item = Record>>;

/// Why an example could not be run to its end.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    fn new(message: impl Into<String>) -> Error {
        Error(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Any error ends an example: all that is left to do is to print it.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        Error(error.to_string())
    }
}

#[allow(clippy::disallowed_methods, reason = "an example measures itself, outside the runtime")]
fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "an example waits for processes, outside the runtime")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[allow(clippy::disallowed_methods, reason = "names a run, which must differ from those before it")]
fn unix_millis() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_millis())
}
