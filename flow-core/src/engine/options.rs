//! What a task is told about its surroundings, and what it counts.

use std::time::Duration;

use super::TaskErrorKind;

/// What becomes of a record that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The task stops, with the offset on the failing record.
    #[default]
    Stop,
    /// The record is counted and leaves nothing behind: no output, no change of a state, no timer.
    Skip,
    /// As [`Skip`](Policy::Skip), and the record goes, as it was and with the error in its headers ([`dead_letter`](crate::dead_letter)),
    /// to the topic of dead letters, in the transaction that commits its offset.
    DeadLetter,
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
    pub skipped: FailureCounts,
    /// Records and timer firings that became dead letters, by reason.
    pub dead_lettered: FailureCounts,
    /// Records dropped for their null key, by `count`, `reduce`, `aggregate` or in front of a repartition topic.
    pub dropped_null_key: u64,
    /// Timers fired.
    pub timers_fired: u64,
    /// Records sent, to repartition topics too.
    pub outputs: u64,
}

/// How many records and timer firings failed and were passed over, by the place of the failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailureCounts {
    /// Could not be read.
    pub decode: u64,
    /// A step returned an error.
    pub step: u64,
    /// An output could not be sent.
    pub produce: u64,
}

impl FailureCounts {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.decode + self.step + self.produce
    }

    pub(crate) fn count(&mut self, kind: TaskErrorKind) {
        match kind {
            TaskErrorKind::Decode => self.decode += 1,
            TaskErrorKind::Step => self.step += 1,
            TaskErrorKind::Produce => self.produce += 1,
            TaskErrorKind::Snapshot => {} // never passed over
        }
    }

    pub(crate) fn add(&mut self, other: &FailureCounts) {
        self.decode += other.decode;
        self.step += other.step;
        self.produce += other.produce;
    }
}
