//! What a task is told about its surroundings, and what it counts.

use std::time::Duration;

/// What becomes of a record that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The task stops, with the offset on the failing record.
    #[default]
    Stop,
    /// The record is counted and leaves nothing behind: no output, no change of a state, no timer.
    Skip,
}

/// One policy per place where a record can fail. All stop by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policies {
    /// Reading a record: key, value, timestamp.
    pub decode: Policy,
    /// A step returns an error.
    pub step: Policy,
    /// An output that cannot be sent: too big, too far ahead, not encodable.
    pub produce: Policy,
}

/// What a [`Task`](crate::Task) is told when it is made.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// What becomes of records that fail.
    pub policies: Policies,
    /// The biggest record (key, value, headers and Kafka's own bytes) that the broker takes.
    pub max_record_bytes: usize,
    /// How far a timestamp may be ahead of the wall clock; the broker refuses those beyond its own limit (an hour by default).
    pub max_lead: Option<Duration>,
}

impl Default for TaskOptions {
    /// Policies that stop, and Kafka's default of 1 MiB.
    fn default() -> Self {
        TaskOptions { policies: Policies::default(), max_record_bytes: 1024 * 1024, max_lead: None }
    }
}

/// What a task has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskCounters {
    /// Records processed to the end.
    pub processed: u64,
    /// Records and timer firings that were skipped, by reason.
    pub skipped: Skipped,
    /// Records dropped for their null key, by `count`, `reduce`, `aggregate` or in front of a repartition topic.
    pub dropped_null_key: u64,
    /// Timers fired.
    pub timers_fired: u64,
    /// Records sent, to repartition topics too.
    pub outputs: u64,
}

/// What was skipped, by the policy that said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Could not be read.
    pub decode: u64,
    /// A step returned an error.
    pub step: u64,
    /// An output could not be sent.
    pub produce: u64,
}
