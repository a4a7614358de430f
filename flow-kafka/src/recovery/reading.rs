//! A snapshot partition that is being read: how far it is, and what is wrong where it gets no further.

use flow_core::Offset;

use super::Job;
use crate::broker::TopicPartition;
use crate::topics::TaskId;

/// How far the snapshots of a task were read, in one of its partitions: offsets in all, and offsets passed.
pub(crate) struct ReadTo {
    pub(crate) id: TaskId,
    pub(crate) epoch: u64,
    pub(crate) partition: TopicPartition,
    pub(crate) need: u64,
    pub(crate) have: u64,
}

/// A snapshot partition being read.
pub(super) struct Reading {
    /// The place of its task.
    pub(super) at: usize,
    pub(super) store: usize,
    pub(super) partition: TopicPartition,
    pub(super) from: Offset,
    pub(super) high: Offset,
    pub(super) position: Offset,
}

impl Reading {
    pub(super) fn is_done(&self) -> bool {
        self.position >= self.high
    }

    /// What the worker is told.
    pub(super) fn read_to(&self, job: &Job) -> ReadTo {
        let count = |to: Offset| u64::try_from(to.0 - self.from.0).unwrap_or(0);
        let (need, have) = (count(self.high), count(self.position.min(self.high)));
        ReadTo { id: job.id, epoch: job.epoch, partition: self.partition.clone(), need, have }
    }

    /// What it may be that nothing more comes.
    pub(super) fn diagnosis(&self) -> String {
        format!(
            "{} was read up to {} of {}. Either its log was truncated, or a transaction is open above that offset and neither commits nor \
             aborts (look for it with `kafka-transactions find-hanging`)",
            self.partition, self.position, self.high
        )
    }
}

/// Offsets passed so far.
pub(super) fn have(readings: &[Reading]) -> i64 {
    readings.iter().map(|r| r.position.0 - r.from.0).sum()
}

pub(super) fn state_is_gone(partition: &TopicPartition) -> String {
    format!(
        "{partition} is empty, but its task has committed snapshots to it: the topic was deleted, and going on would count from \
         nothing. Restore the topic, or reset the application (delete its internal topics and its group's offsets)"
    )
}
