//! A partition's log.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;

use super::batch::Batch;
use super::producers::Producers;
use super::{marker, times};

/// What a topic's and the broker's settings ask of a batch.
#[derive(Clone, Copy, Debug)]
pub(in crate::embedded) struct Rules {
    pub(in crate::embedded) batch_bytes_max: usize,
    pub(in crate::embedded) lead_max: i64,
    pub(in crate::embedded) log_append_time: bool,
    /// The topic is compacted: each record needs a key.
    pub(in crate::embedded) wants_keys: bool,
    pub(in crate::embedded) segment: SegmentRules,
    pub(in crate::embedded) ignore_fences: bool,
}

/// When the active segment ends and the next one begins.
#[derive(Clone, Copy, Debug)]
pub(in crate::embedded) struct SegmentRules {
    pub(in crate::embedded) millis: i64,
    pub(in crate::embedded) bytes: u64,
}

/// A transaction that was aborted: readers of committed records drop this producer's from `first` on until its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Aborted {
    pub(in crate::embedded) producer_id: i64,
    pub(in crate::embedded) first: i64,
    pub(super) last: i64,
}

/// The log of one partition.
#[derive(Debug, Default)]
pub(in crate::embedded) struct PartitionLog {
    pub(super) batches: VecDeque<Stored>,
    pub(super) start: i64,
    pub(super) end: i64,
    /// The position behind the last batch.
    pub(super) bytes_end: u64,
    pub(super) producers: Producers,
    /// First offset of each open transaction, by producer id.
    open: BTreeMap<i64, i64>,
    pub(super) aborted: Vec<Aborted>,
    pub(super) active: Active,
    /// Everything before this offset has been through a compaction.
    pub(super) clean_end: i64,
    /// Parked fetches that want to know of new records: see `fetch`.
    pub(in crate::embedded) waiting: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct Stored {
    pub(super) base: i64,
    pub(super) last: i64,
    pub(super) max_timestamp: i64,
    /// Bytes before this batch, so that sizes of ranges are differences.
    pub(super) position: u64,
    /// When its tombstones, or the marker that it is, may go.
    pub(super) delete_horizon: Option<i64>,
    pub(super) bytes: Bytes,
}

/// The segment that is written to, which is never compacted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Active {
    pub(super) base: i64,
    since: i64,
    bytes: u64,
}

impl PartitionLog {
    /// The first offset that is still here.
    pub(in crate::embedded) fn start(&self) -> i64 {
        self.start
    }

    /// The offset after the last record: with one replica, the high watermark.
    pub(in crate::embedded) fn end(&self) -> i64 {
        self.end
    }

    /// The last stable offset: the first record of the oldest open transaction, or the end.
    pub(in crate::embedded) fn stable_end(&self) -> i64 {
        self.open.values().min().map_or(self.end, |first| (*first).max(self.start))
    }

    /// Whether this producer has an open transaction here.
    pub(in crate::embedded) fn is_open(&self, producer_id: i64) -> bool {
        self.open.contains_key(&producer_id)
    }

    /// Appends a batch, or recognises a repeat: the offset of its first record in either case.
    ///
    /// # Errors
    /// What Kafka answers a batch that is too large, too far in the future, out of sequence or of a fenced producer.
    pub(in crate::embedded) fn append(
        &mut self,
        mut batch: Batch,
        rules: &Rules,
        now: i64,
    ) -> Result<i64, ResponseError> {
        if rules.log_append_time {
            batch.stamp(now);
        } else if batch.max_timestamp > now.saturating_add(rules.lead_max) {
            return Err(ResponseError::InvalidTimestamp);
        }
        if batch.len() > rules.batch_bytes_max {
            return Err(ResponseError::MessageTooLarge);
        }
        if rules.wants_keys {
            batch.check_keys()?;
        }
        if batch.producer_id >= 0 {
            if let Some(offset) = self.producers.check(&batch, rules.ignore_fences)? {
                return Ok(offset);
            }
            // A producer inside a transaction may not write beside it.
            if !batch.is_transactional() && self.is_open(batch.producer_id) {
                return Err(ResponseError::InvalidTxnState);
            }
            self.producers.wrote(&batch, self.end);
            if batch.is_transactional() {
                self.open.entry(batch.producer_id).or_insert(self.end);
            }
        }
        self.roll(rules.segment, batch.len(), now);
        Ok(self.push(batch.placed_at(self.end), batch.last_offset_delta, batch.max_timestamp))
    }

    /// Begins a new segment if the active one is old or full.
    fn roll(&mut self, rules: SegmentRules, coming: usize, now: i64) {
        let bytes = self.active.bytes + coming as u64;
        if self.active.bytes == 0 || bytes > rules.bytes || now.saturating_sub(self.active.since) >= rules.millis {
            self.active = Active { base: self.end, since: now, bytes: 0 };
        }
    }

    /// Ends a producer's transaction with a marker.
    pub(in crate::embedded) fn end_transaction(&mut self, producer_id: i64, epoch: i16, commit: bool, now: i64) {
        let Ok(batch) = Batch::read(marker::encode(producer_id, epoch, commit, now)) else {
            return;
        };
        let offset = self.push(batch.placed_at(self.end), batch.last_offset_delta, batch.max_timestamp);
        self.producers.ended(producer_id, epoch);
        if let Some(first) = self.open.remove(&producer_id)
            && !commit
        {
            self.aborted.push(Aborted { producer_id, first, last: offset });
        }
    }

    fn push(&mut self, bytes: Bytes, last_offset_delta: i32, max_timestamp: i64) -> i64 {
        let base = self.end;
        let last = base + i64::from(last_offset_delta);
        let position = self.bytes_end;
        self.bytes_end += bytes.len() as u64;
        self.active.bytes += bytes.len() as u64;
        self.end = last + 1;
        self.batches.push_back(Stored { base, last, max_timestamp, position, delete_horizon: None, bytes });
        base
    }

    /// How many bytes it keeps.
    pub(in crate::embedded) fn bytes(&self) -> u64 {
        self.batches.front().map_or(0, |first| self.bytes_end - first.position)
    }

    /// How many bytes there are from `offset` up to, not including, `upto`.
    pub(in crate::embedded) fn bytes_between(&self, offset: i64, upto: i64) -> u64 {
        let position = |offset: i64| {
            let index = self.batches.partition_point(|batch| batch.last < offset);
            self.batches.get(index).map_or(self.bytes_end, |batch| batch.position)
        };
        position(upto).saturating_sub(position(offset))
    }

    /// Whole batches from the one that holds `offset` up to, not including, `upto`, within `max` bytes; the first one always if
    /// `at_least_one`. Also the offset after the last of them.
    pub(in crate::embedded) fn read(&self, offset: i64, upto: i64, max: usize, at_least_one: bool) -> (Bytes, i64) {
        let from = self.batches.partition_point(|batch| batch.last < offset);
        let mut size = 0;
        let taken = self.batches.range(from..).take_while(|batch| {
            let fits = batch.base < upto && (size + batch.bytes.len() <= max || (size == 0 && at_least_one));
            size += if fits { batch.bytes.len() } else { 0 };
            fits
        });
        let count = taken.count();
        let mut batches = self.batches.range(from..from + count);
        let next = batches.clone().next_back().map_or(offset, |batch| batch.last + 1);
        match count {
            0 => (Bytes::new(), next),
            1 => (batches.next().map(|batch| batch.bytes.clone()).unwrap_or_default(), next),
            _ => {
                let mut bytes = BytesMut::with_capacity(size);
                batches.for_each(|batch| bytes.extend_from_slice(&batch.bytes));
                (bytes.freeze(), next)
            }
        }
    }

    /// The aborted transactions that have records or their marker in `from..upto`.
    pub(in crate::embedded) fn aborted_between(&self, from: i64, upto: i64) -> impl Iterator<Item = &Aborted> {
        // Markers are appended in order, so the list is sorted by `last`.
        let first = self.aborted.partition_point(|aborted| aborted.last < from);
        self.aborted[first..].iter().filter(move |aborted| aborted.first < upto)
    }

    /// Offset and time of the first record at or after `time`.
    pub(in crate::embedded) fn at_time(&self, time: i64) -> Option<(i64, i64)> {
        self.batches.iter().filter(|stored| stored.max_timestamp >= time).find_map(|stored| {
            let batch = Batch::read(stored.bytes.clone()).ok()?;
            let (delta, timestamp) = times::first_at(&batch, time)?;
            Some((stored.base + delta, timestamp)).filter(|(offset, _)| *offset >= self.start)
        })
    }

    /// Offset and time of the record with the highest time.
    pub(in crate::embedded) fn at_max_time(&self) -> Option<(i64, i64)> {
        let highest = self.batches.iter().map(|stored| stored.max_timestamp).max()?;
        self.at_time(highest)
    }

    /// Forgets all records before `offset`; returns the new start.
    ///
    /// # Errors
    /// `OFFSET_OUT_OF_RANGE` beyond the end.
    pub(in crate::embedded) fn delete_before(&mut self, offset: i64) -> Result<i64, ResponseError> {
        let offset = if offset == -1 { self.end } else { offset };
        if !(0..=self.end).contains(&offset) {
            return Err(ResponseError::OffsetOutOfRange);
        }
        self.start = self.start.max(offset);
        let gone = self.batches.partition_point(|batch| batch.last < self.start);
        self.batches.drain(..gone);
        // A queue that was long once does not keep its room.
        if self.batches.capacity() > 4 * self.batches.len().max(16) {
            self.batches.shrink_to_fit();
        }
        self.aborted.retain(|aborted| aborted.last >= self.start);
        Ok(self.start)
    }
}
