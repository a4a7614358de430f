//! What can go wrong in a task, and where it says it happened.

use std::fmt;

use crate::codec::describe;
use crate::{Offset, Partition, Timestamp};

/// A record, a timer or a snapshot failed, and its policy (or its nature) says stop.
#[derive(Debug)]
#[non_exhaustive]
pub struct TaskError {
    /// What kind of failure.
    pub kind: TaskErrorKind,
    /// The step (source, processor, sink) as `describe()` prints it; for a snapshot the store.
    pub step: String,
    /// The topic of the record, as the topology names it; `None` if a timer fired or a snapshot was written.
    pub topic: Option<String>,
    /// The task's partition.
    pub partition: Partition,
    /// The offset of the record.
    pub offset: Option<Offset>,
    /// The timer, if it was one that failed; where a record moved time on, that record is given as well.
    pub timer: Option<Box<FailedTimer>>,
    /// What is wrong, and what to do.
    pub message: String,
    /// A store was opened for writing before the failure, so states may include half of the record: this task's states must not be
    /// committed. (The effects of the failed record are always cut off.)
    pub torn: bool,
}

/// A timer whose handler failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTimer {
    /// The timer's name.
    pub name: String,
    /// The bytes of its key.
    pub key: Vec<u8>,
    /// When it was due.
    pub deadline: Timestamp,
}

/// The kinds of [`TaskError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskErrorKind {
    /// A key, value or timestamp could not be read, or a null key where one is needed.
    Decode,
    /// A step returned an error.
    Step,
    /// An output could not be written, is too big, or is too far ahead.
    Produce,
    /// A state could not be read from its snapshot or written to it, or is too big. Never skipped.
    Snapshot,
}

impl fmt::Display for TaskErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TaskErrorKind::Decode => "decode",
            TaskErrorKind::Step => "step",
            TaskErrorKind::Produce => "produce",
            TaskErrorKind::Snapshot => "snapshot",
        })
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failure in step `{}`, ", self.kind, self.step)?;
        match (&self.topic, self.offset) {
            (Some(topic), Some(offset)) => write!(f, "topic {topic}, partition {}, offset {offset}", self.partition)?,
            _ => write!(f, "partition {}", self.partition)?,
        }
        if let Some(FailedTimer { name, key, deadline }) = self.timer.as_deref() {
            write!(f, ", timer `{name}` of key `{}` due at {deadline}", String::from_utf8_lossy(key).escape_debug())?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for TaskError {}

/// A snapshot could not be restored. All of them mean: this binary cannot go on from this state.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError {
    /// The envelope has a format that this version of the library does not know.
    Format {
        /// The store.
        store: String,
        /// The format found.
        found: u8,
    },
    /// The envelope ends too early.
    Truncated {
        /// The store.
        store: String,
    },
    /// The state was written by another codec.
    Codec {
        /// The store.
        store: String,
        /// The id of the codec that wrote it.
        found: u8,
        /// The id of the store's codec.
        expected: u8,
    },
    /// The state has a version that this program cannot read: a newer one, or one that it has no upgrade from.
    Version {
        /// The store.
        store: String,
        /// The version found.
        found: u32,
        /// The version of this program.
        expected: u32,
        /// The oldest version that this program can upgrade; its own if there is none.
        oldest: u32,
    },
    /// A timer is pending that this program does not declare.
    Timer {
        /// The store.
        store: String,
        /// The timer's name.
        timer: String,
    },
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::Format { store, found } => write!(
                f,
                "a snapshot of store `{store}` has format {found}, and this version of the library reads format {}: \
                 run the version that wrote it, or a newer one",
                crate::state::FORMAT
            ),
            RestoreError::Truncated { store } => write!(
                f,
                "a snapshot of store `{store}` ends too early: something else writes to its topic, or its name was given to another store"
            ),
            RestoreError::Codec { store, found, expected } => write!(
                f,
                "a snapshot of store `{store}` was written by the codec `{}`, and this program reads it by `{}`: give the store its \
                 former codec back, or give its state a new version with an upgrade (`Upgrades::written_by`)",
                describe(*found),
                describe(*expected)
            ),
            RestoreError::Version { store, found, expected, .. } if found > expected => write!(
                f,
                "a snapshot of store `{store}` has state version {found}, and this program has version {expected}: it was written \
                 by a newer program, run that one"
            ),
            RestoreError::Version { store, found, expected, oldest } => write!(
                f,
                "a snapshot of store `{store}` has state version {found}, and this program has version {expected} and upgrades \
                 from {oldest} on: give it an upgrade from {found}, or give the store another name and lose its state"
            ),
            RestoreError::Timer { store, timer } => write!(
                f,
                "a snapshot of store `{store}` has the timer `{timer}` pending, and this program does not declare it: \
                 declare it, or give the store another name"
            ),
        }
    }
}

impl std::error::Error for RestoreError {}
