//! Record batches: written by our producer, read with the rules of `read_committed`.
//!
//! The codec keeps the headers of a record in a map, so here a record has each header name once.

use std::collections::{BTreeSet, VecDeque};

use bytes::{Buf, Bytes, BytesMut};
use flow_core::{Headers, HeadersRef, Offset, RecordRef, Timestamp};
use kafka_protocol::messages::fetch_response::AbortedTransaction;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions,
    TimestampType,
};

/// A record as a client of this process keeps it.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) offset: i64,
    pub(super) key: Option<Bytes>,
    pub(super) value: Option<Bytes>,
    pub(super) timestamp: i64,
    pub(super) headers: Headers,
}

impl Kept {
    pub(super) fn as_record(&self) -> RecordRef<'_> {
        RecordRef {
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            timestamp: (self.timestamp != -1).then(|| Timestamp::from_millis(self.timestamp)),
            offset: Offset(self.offset),
            headers: self.headers.as_ref(),
        }
    }
}

/// Which producer wrote a batch, and where in its sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) producer: i64,
    pub(super) epoch: i16,
    pub(super) sequence: i32,
    pub(super) transactional: bool,
}

/// One batch with these records; their offsets are the broker's business and written as 0, 1, 2..
pub(super) fn encode(origin: Origin, records: &[Kept]) -> Result<Bytes, String> {
    let records: Vec<Record> = records.iter().zip(0..).map(|(kept, index)| record(origin, kept, index)).collect();
    let mut out = BytesMut::new();
    RecordBatchEncoder::encode(&mut out, &records, &RecordEncodeOptions { version: 2, compression: Compression::None })
        .map_err(|error| format!("the records could not be encoded: {error}"))?;
    Ok(out.freeze())
}

fn record(origin: Origin, kept: &Kept, index: i32) -> Record {
    Record {
        transactional: origin.transactional,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        producer_id: origin.producer,
        producer_epoch: origin.epoch,
        timestamp_type: TimestampType::Creation,
        offset: i64::from(index),
        sequence: origin.sequence.wrapping_add(index),
        timestamp: kept.timestamp,
        key: kept.key.clone(),
        value: kept.value.clone(),
        headers: header_map(kept.headers.as_ref()),
    }
}

fn header_map<M: FromIterator<(StrBytes, Option<Bytes>)>>(headers: HeadersRef<'_>) -> M {
    headers
        .iter()
        .map(|(name, value)| (StrBytes::from_string(name.to_owned()), value.map(Bytes::copy_from_slice)))
        .collect()
}

/// What a fetch of one partition brought.
pub(super) struct Fetched {
    /// The records to hand out.
    pub(super) records: VecDeque<Kept>,
    /// The offset after the last record, marker or gap in the answer; `None` if it was empty.
    pub(super) next: Option<i64>,
}

/// Reads the batches of a fetch from offset `from` on; with `aborted`, without the records of those transactions.
pub(super) fn decode(bytes: &Bytes, from: i64, aborted: Option<&[AbortedTransaction]>) -> Result<Fetched, String> {
    let next = next_offset(bytes);
    let sets = RecordBatchDecoder::decode_all(&mut bytes.clone())
        .map_err(|error| format!("the fetched records could not be decoded: {error}"))?;
    let mut filter = Aborts::new(aborted.unwrap_or_default());
    let mut records = VecDeque::new();
    for record in sets.into_iter().flat_map(|set| set.records) {
        if filter.passes(&record, aborted.is_some()) && record.offset >= from {
            records.push_back(keep(record));
        }
    }
    Ok(Fetched { records, next })
}

fn keep(record: Record) -> Kept {
    let mut headers = Headers::default();
    for (name, value) in &record.headers {
        headers.push(name, value.as_deref());
    }
    Kept { offset: record.offset, key: record.key, value: record.value, timestamp: record.timestamp, headers }
}

/// The aborted transactions that the reader is inside of: KIP-98's filter.
struct Aborts {
    ahead: Vec<(i64, i64)>,
    inside: BTreeSet<i64>,
}

impl Aborts {
    fn new(aborted: &[AbortedTransaction]) -> Self {
        let mut ahead: Vec<_> = aborted.iter().map(|entry| (entry.first_offset, entry.producer_id.0)).collect();
        // The nearest one is taken from the end.
        ahead.sort_unstable_by(|a, b| b.cmp(a));
        Aborts { ahead, inside: BTreeSet::new() }
    }

    fn passes(&mut self, record: &Record, committed_only: bool) -> bool {
        while self.ahead.last().is_some_and(|&(first, _)| first <= record.offset) {
            if let Some((_, producer)) = self.ahead.pop() {
                self.inside.insert(producer);
            }
        }
        if record.control {
            if is_abort(record) {
                self.inside.remove(&record.producer_id);
            }
            return false;
        }
        !(committed_only && record.transactional && self.inside.contains(&record.producer_id))
    }
}

/// A marker's key holds its version and its type: 0 aborts, 1 commits.
fn is_abort(marker: &Record) -> bool {
    marker.key.as_ref().is_some_and(|key| key.len() >= 4 && key.slice(2..4).get_i16() == 0)
}

/// The end of the last whole batch, from its header: base offset, and last offset as a delta. (The last record may have been
/// compacted away.)
pub(in crate::embedded) fn next_offset(bytes: &Bytes) -> Option<i64> {
    const LENGTH: usize = 8;
    const AFTER_LENGTH: usize = 12;
    const DELTA: usize = 23;
    let mut at = 0;
    let mut next = None;
    while bytes.len() >= at + DELTA + 4 {
        let base = bytes.slice(at..).get_i64();
        let length = bytes.slice(at + LENGTH..).get_i32();
        let delta = bytes.slice(at + DELTA..).get_i32();
        let end = at + AFTER_LENGTH + usize::try_from(length).ok()?;
        if end > bytes.len() {
            break;
        }
        next = Some(base + i64::from(delta) + 1);
        at = end;
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::ProducerId;

    fn kept(offset: i64, key: &str) -> Kept {
        let mut headers = Headers::default();
        headers.push("h", Some(b"1"));
        Kept { offset, key: Some(Bytes::copy_from_slice(key.as_bytes())), value: None, timestamp: 5, headers }
    }

    fn raw(records: &[Record]) -> Bytes {
        let mut out = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: Compression::None };
        RecordBatchEncoder::encode(&mut out, records, &options).unwrap();
        out.freeze()
    }

    fn data(producer: i64, offset: i64, key: &str) -> Record {
        let origin = Origin { producer, epoch: 0, sequence: 0, transactional: true };
        Record { offset, sequence: 0, ..record(origin, &kept(offset, key), 0) }
    }

    fn marker(producer: i64, offset: i64, commit: bool) -> Record {
        let key = Some(Bytes::from(vec![0, 0, 0, u8::from(commit)]));
        Record { control: true, key, ..data(producer, offset, "") }
    }

    fn keys(fetched: &Fetched) -> Vec<String> {
        fetched.records.iter().map(|r| String::from_utf8(r.key.clone().unwrap().to_vec()).unwrap()).collect()
    }

    #[test]
    fn records_survive_a_batch_as_they_were() {
        let origin = Origin { producer: 4, epoch: 1, sequence: 10, transactional: true };
        let bytes = encode(origin, &[kept(0, "a"), kept(0, "b")]).unwrap();
        let fetched = decode(&bytes, 0, None).unwrap();
        assert_eq!(keys(&fetched), ["a", "b"]);
        assert_eq!(fetched.next, Some(2));
        let record = fetched.records[1].as_record();
        assert_eq!((record.value, record.timestamp, record.offset), (None, Some(Timestamp::from_millis(5)), Offset(1)));
        assert_eq!(record.headers.iter().collect::<Vec<_>>(), [("h", Some(&b"1"[..]))]);
    }

    #[test]
    fn read_committed_drops_exactly_the_records_of_aborted_transactions() {
        let bytes = raw(&[
            data(1, 0, "aborted"),
            data(2, 1, "committed"),
            marker(1, 2, false),
            data(1, 3, "later"),
            marker(2, 4, true),
            marker(1, 5, true),
        ]);
        let aborted = [AbortedTransaction::default().with_producer_id(ProducerId(1)).with_first_offset(0)];
        let committed = decode(&bytes, 0, Some(&aborted)).unwrap();
        assert_eq!(keys(&committed), ["committed", "later"]);
        assert_eq!(committed.next, Some(6), "the position passes the markers");
        assert_eq!(keys(&decode(&bytes, 0, None).unwrap()), ["aborted", "committed", "later"]);
        assert_eq!(keys(&decode(&bytes, 2, Some(&aborted)).unwrap()), ["later"]);
    }
}
