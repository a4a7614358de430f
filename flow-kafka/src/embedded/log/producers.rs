//! What a partition knows of its producers: their epoch and last batches, to drop repeats and refuse gaps (KIP-98).

use std::collections::{BTreeMap, VecDeque};

use kafka_protocol::ResponseError;

use super::batch::Batch;

/// How many batches of a producer can be recognised as repeats: as many as a client may have in flight.
const REMEMBERED: usize = 5;

/// All producers that wrote to a partition.
#[derive(Debug, Default)]
pub(super) struct Producers {
    entries: BTreeMap<i64, Entry>,
}

#[derive(Debug)]
struct Entry {
    epoch: i16,
    batches: VecDeque<Written>,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
}

impl Producers {
    /// Judges a batch before it is appended: `Some(offset)` if it was appended already, at that offset.
    ///
    /// # Errors
    /// `INVALID_PRODUCER_EPOCH` if a newer producer with the same id was here, `OUT_OF_ORDER_SEQUENCE_NUMBER` after a gap.
    pub(super) fn check(&self, batch: &Batch, ignore_fences: bool) -> Result<Option<i64>, ResponseError> {
        let Some(entry) = self.entries.get(&batch.producer_id) else {
            // An unknown producer may start anywhere: what it wrote before may have been deleted.
            return Ok(None);
        };
        if batch.producer_epoch != entry.epoch {
            return match batch.producer_epoch < entry.epoch {
                _ if ignore_fences => Ok(None),
                true => Err(ResponseError::InvalidProducerEpoch),
                false if batch.base_sequence != 0 => Err(ResponseError::OutOfOrderSequenceNumber),
                false => Ok(None),
            };
        }
        let last_sequence = batch.last_sequence();
        let same = |w: &&Written| w.first_sequence == batch.base_sequence && w.last_sequence == last_sequence;
        if let Some(written) = entry.batches.iter().find(same) {
            return Ok(Some(written.base_offset));
        }
        let expected = entry.batches.back().map_or(0, |last| last.last_sequence.checked_add(1).unwrap_or(0));
        if batch.base_sequence == expected { Ok(None) } else { Err(ResponseError::OutOfOrderSequenceNumber) }
    }

    /// Notes a batch that was appended at `base_offset`.
    pub(super) fn wrote(&mut self, batch: &Batch, base_offset: i64) {
        let batches = self.at_epoch(batch.producer_id, batch.producer_epoch);
        if batches.len() == REMEMBERED {
            batches.pop_front();
        }
        let (first_sequence, last_sequence) = (batch.base_sequence, batch.last_sequence());
        batches.push_back(Written { first_sequence, last_sequence, base_offset });
    }

    /// The offset of the last batch that a producer wrote.
    pub(super) fn last_batch_of(&self, producer_id: i64) -> Option<i64> {
        self.entries.get(&producer_id)?.batches.back().map(|written| written.base_offset)
    }

    /// Notes a marker. Its epoch may be newer than the producer's last batch, and then fences it.
    pub(super) fn ended(&mut self, producer_id: i64, epoch: i16) {
        self.at_epoch(producer_id, epoch);
    }

    fn at_epoch(&mut self, producer_id: i64, epoch: i16) -> &mut VecDeque<Written> {
        let entry = self.entries.entry(producer_id).or_insert_with(|| Entry { epoch, batches: VecDeque::new() });
        if entry.epoch != epoch {
            entry.epoch = epoch;
            entry.batches.clear();
        }
        &mut entry.batches
    }
}
