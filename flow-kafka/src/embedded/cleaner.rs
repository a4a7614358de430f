//! When logs are compacted, and when records get too old: every [`Options::cleaner_interval`], where something may have changed.

use kafka_protocol::ResponseError;

use super::clock::after;
use super::{Machine, Options};

/// The broker's cleaner.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    /// When it looks at the logs next; none if only an append can give it something to do.
    due: Option<i64>,
}

impl Cleaner {
    /// Something was appended.
    pub(super) fn wake(&mut self, now: i64, options: &Options) {
        let next = after(now, options.cleaner_interval);
        self.due = Some(self.due.map_or(next, |due| due.min(next)));
    }

    pub(super) fn next_deadline(&self) -> Option<i64> {
        self.due
    }
}

impl Machine {
    /// Compacts and deletes what is due.
    pub(super) fn clean(&mut self, now: i64) {
        if self.cleaner.due.is_none_or(|due| due > now) {
            return;
        }
        let mut again: Option<i64> = None;
        for topic in self.topics.iter_mut() {
            let (compaction, retention) = (topic.compaction, topic.retention);
            for log in &mut topic.partitions {
                let compacted = compaction.and_then(|rules| log.compact_if_due(&rules, now));
                let expired = retention.and_then(|rules| log.expire(&rules, now));
                again = compacted.into_iter().chain(expired).chain(again).min();
            }
        }
        let interval = self.options.cleaner_interval;
        self.cleaner.due = again.map(|at| after(at.max(now), interval));
    }

    /// Compacts a partition now: everything but the last batch, up to its last stable offset, and whatever its topic's settings say
    /// but for `delete.retention.ms`; so that a test need not wait until it would happen. Returns how many records went.
    ///
    /// # Errors
    /// If there is no such partition, or its topic's `cleanup.policy` has no `compact`.
    pub fn compact(&mut self, topic: &str, partition: i32, now: i64) -> Result<usize, ResponseError> {
        let found = self.topics.get_mut(topic)?;
        let rules = found.compaction.ok_or(ResponseError::PolicyViolation)?;
        Ok(found.partition_mut(partition)?.compact_all(rules.delete_retention, now))
    }

    /// How many bytes of record batches the broker keeps, of all topics together.
    pub fn log_bytes(&self) -> u64 {
        self.topics.iter().flat_map(|topic| &topic.partitions).map(|log| log.bytes()).sum()
    }
}
