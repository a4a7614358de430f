//! Records that go because they are too old or too many.

use super::PartitionLog;

/// What a topic was told to keep. What it was not told it keeps for ever: where Kafka has a default of seven days by the
/// records' own times, an example that replays last year's records would lose them while it runs.
#[derive(Clone, Copy, Debug)]
pub(in crate::embedded) struct Retention {
    /// `retention.ms`
    pub(in crate::embedded) millis: Option<i64>,
    /// `retention.bytes`
    pub(in crate::embedded) bytes: Option<u64>,
}

impl PartitionLog {
    /// Deletes from the front the batches that are too old, and those without which there are still enough bytes; never one of an
    /// open transaction. Returns when the next one gets too old. (Kafka deletes whole segments.)
    pub(in crate::embedded) fn expire(&mut self, rules: &Retention, now: i64) -> Option<i64> {
        let stable = self.stable_end();
        let mut bytes = self.bytes();
        let mut upto = self.start();
        let mut next = None;
        for stored in self.batches.iter().take_while(|stored| stored.last < stable) {
            let rest = bytes - stored.bytes.len() as u64;
            let too_old_at = rules.millis.map(|millis| stored.max_timestamp.saturating_add(millis).saturating_add(1));
            let is_too_old = too_old_at.is_some_and(|at| at <= now);
            if !is_too_old && rules.bytes.is_none_or(|enough| rest < enough) {
                next = too_old_at;
                break;
            }
            bytes = rest;
            upto = stored.last + 1;
        }
        if upto > self.start() {
            // It lies below the end, so nothing can refuse it.
            let _ = self.delete_before(upto);
        }
        next
    }
}
