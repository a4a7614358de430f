//! Compaction: of each key only the last record stays.
//!
//! Offsets stay what they were, and so does a batch's header: a reader steps over what is gone. As in Kafka,
//!
//! - nothing at or above the last stable offset is touched, so no open transaction loses a record; nor is the last batch, however
//!   old, and so a reader's position always gets to the end (librdkafka's does not move over a batch without records);
//! - records of aborted transactions go, whatever their key;
//! - a tombstone stays for `delete.retention.ms` from the first compaction that keeps it, so that a reader who has seen the record
//!   before it sees it too; a transaction's marker stays as long after the last of its records went;
//! - the last batch of a producer stays as an empty one if none of its records does.
//!
//! What is simpler than in Kafka: a batch packed with zstd is plain after it lost records, and the marker of a transaction goes also
//! where it is the last that its producer wrote.

use std::collections::{BTreeSet, HashMap, VecDeque};

use bytes::Bytes;

use super::batch::Batch;
use super::partition::Stored;
use super::records::{Record, Records};
use super::{Aborted, PartitionLog};

/// The time of a batch without records.
const NO_TIME: i64 = -1;

/// What a topic's settings say about compaction.
#[derive(Clone, Copy, Debug)]
pub(in crate::embedded) struct Compaction {
    /// `delete.retention.ms`
    pub(in crate::embedded) delete_retention: i64,
    /// `min.cleanable.dirty.ratio`
    pub(in crate::embedded) dirty_ratio: f64,
    /// `min.compaction.lag.ms`
    pub(in crate::embedded) lag_min: i64,
    /// `max.compaction.lag.ms`
    pub(in crate::embedded) lag_max: i64,
}

impl PartitionLog {
    /// Compacts what the settings let be compacted, if there is enough of it. Returns when it is worth to look again, though
    /// nothing was appended: a time that is not after `now` means at the next look.
    pub(in crate::embedded) fn compact_if_due(&mut self, rules: &Compaction, now: i64) -> Option<i64> {
        let stable = self.stable_end();
        let first_dirty = self.batches.partition_point(|batch| batch.last < self.clean_end);
        let oldest = self.batches.get(first_dirty).map(|batch| batch.max_timestamp)?;
        let is_overdue = now.saturating_sub(oldest) > rules.lag_max;
        // A record that waited for too long is reason enough to end the segment that it is in.
        let upto = if is_overdue { stable } else { stable.min(self.active.base) };
        let is_young = |batch: &&Stored| batch.max_timestamp > now.saturating_sub(rules.lag_min);
        let young = self.batches.range(first_dirty..).take_while(|batch| batch.base < upto).find(is_young);
        let (upto, until) = match young {
            Some(young) if rules.lag_min > 0 => (young.base, Some(young.max_timestamp.saturating_add(rules.lag_min))),
            _ => (upto, None),
        };
        let (clean, dirty) =
            (self.bytes_between(self.start(), self.clean_end), self.bytes_between(self.clean_end, upto));
        let ratio = dirty as f64 / (clean + dirty).max(1) as f64;
        if dirty > 0 && (is_overdue || ratio > rules.dirty_ratio) {
            self.compact(upto, rules.delete_retention, now);
        }
        let due_by_age = (rules.lag_max < i64::MAX && self.clean_end < self.end())
            .then(|| oldest.saturating_add(rules.lag_max).saturating_add(1));
        until.into_iter().chain(due_by_age).min()
    }

    /// Compacts everything but the last batch, up to the last stable offset; returns how many records and markers went.
    pub(in crate::embedded) fn compact_all(&mut self, delete_retention: i64, now: i64) -> usize {
        self.compact(self.stable_end(), delete_retention, now)
    }

    fn compact(&mut self, upto: i64, delete_retention: i64, now: i64) -> usize {
        let below = self.batches.partition_point(|batch| batch.last < upto.min(self.stable_end()));
        let rest = self.batches.split_off(below.min(self.batches.len().saturating_sub(1)));
        let whole = std::mem::take(&mut self.batches);
        self.clean_end = whole.back().map_or(self.clean_end, |batch| batch.last + 1);
        let mut cleaner = Cleaner {
            latest: latest(&whole, &self.aborted),
            aborted: std::mem::take(&mut self.aborted),
            now,
            horizon: now.saturating_add(delete_retention),
            with_data: BTreeSet::new(),
            gone: 0,
        };
        let producers = &self.producers;
        let is_last = |batch: &Batch, base| producers.last_batch_of(batch.producer_id) == Some(base);
        let cleaned = whole.into_iter().filter_map(|stored| cleaner.clean(stored, is_last));
        self.batches = cleaned.chain(rest).collect();
        self.count_positions();
        // Below the end nothing of an aborted transaction is left. Its marker goes one day, and a reader who was told of the
        // transaction would wait for it and drop what its producer commits.
        let clean_end = self.clean_end;
        self.aborted = cleaner.aborted.into_iter().filter(|aborted| aborted.last >= clean_end).collect();
        cleaner.gone
    }

    fn count_positions(&mut self) {
        let mut position = 0;
        for stored in &mut self.batches {
            stored.position = position;
            position += stored.bytes.len() as u64;
        }
        self.bytes_end = position;
    }
}

/// The offset of the last record of each key.
fn latest(batches: &VecDeque<Stored>, aborted: &[Aborted]) -> HashMap<Bytes, i64> {
    let mut latest = HashMap::new();
    for stored in batches {
        let Some(batch) = Batch::fields(stored.bytes.clone()) else { continue };
        if batch.is_control() || is_aborted(aborted, &batch, stored.base) {
            continue;
        }
        for record in Records::of(&batch).into_iter().flatten().flatten() {
            if let Some(key) = record.key {
                latest.insert(key, stored.base + record.offset_delta);
            }
        }
    }
    latest
}

/// Whether a batch belongs to a transaction that was aborted.
fn is_aborted(aborted: &[Aborted], batch: &Batch, base: i64) -> bool {
    // Markers are appended in order, so the list is sorted by `last`.
    let ended_behind = aborted.partition_point(|aborted| aborted.last <= base);
    let is_inside = |aborted: &Aborted| aborted.producer_id == batch.producer_id && aborted.first <= base;
    batch.is_transactional() && aborted[ended_behind..].iter().any(is_inside)
}

/// One run over the batches, from the first to the last.
struct Cleaner {
    latest: HashMap<Bytes, i64>,
    aborted: Vec<Aborted>,
    now: i64,
    /// Until when a tombstone or marker stays that waits from now on.
    horizon: i64,
    /// Producers with records left of the transaction whose marker comes next.
    with_data: BTreeSet<i64>,
    /// How many records and markers went.
    gone: usize,
}

impl Cleaner {
    /// What is left of a batch. `is_last` says whether it is the last of its producer.
    fn clean(&mut self, mut stored: Stored, is_last: impl Fn(&Batch, i64) -> bool) -> Option<Stored> {
        let Some(batch) = Batch::fields(stored.bytes.clone()) else { return Some(stored) };
        if batch.is_control() {
            let stays = self.with_data.remove(&batch.producer_id)
                || *stored.delete_horizon.get_or_insert(self.horizon) > self.now;
            self.gone += if stays { 0 } else { batch.count() as usize };
            return stays.then_some(stored);
        }
        // A batch that cannot be read was not let in.
        let records: Vec<Record> = Records::of(&batch).into_iter().flatten().flatten().collect();
        let is_aborted = is_aborted(&self.aborted, &batch, stored.base);
        let is_over = stored.delete_horizon.is_some_and(|horizon| horizon <= self.now);
        let stays = |record: &&Record| {
            let is_latest =
                record.key.as_ref().and_then(|key| self.latest.get(key)) == Some(&(stored.base + record.offset_delta));
            is_latest && !is_aborted && !(record.is_tombstone && is_over)
        };
        let kept: Vec<&Record> = records.iter().filter(stays).collect();
        self.gone += records.len() - kept.len();
        if kept.is_empty() {
            let bytes = is_last(&batch, stored.base).then(|| batch.keep(&[], NO_TIME))?;
            return Some(Stored { max_timestamp: NO_TIME, delete_horizon: None, bytes, ..stored });
        }
        if kept.iter().any(|record| record.is_tombstone) {
            stored.delete_horizon.get_or_insert(self.horizon);
        }
        if batch.is_transactional() {
            self.with_data.insert(batch.producer_id);
        }
        if kept.len() < records.len() {
            if !batch.has_one_time() {
                let times = kept.iter().map(|record| batch.base_timestamp.saturating_add(record.timestamp_delta));
                stored.max_timestamp = times.max().unwrap_or(NO_TIME);
            }
            let bytes: Vec<Bytes> = kept.iter().map(|record| record.bytes.clone()).collect();
            stored.bytes = batch.keep(&bytes, stored.max_timestamp);
        }
        Some(stored)
    }
}
