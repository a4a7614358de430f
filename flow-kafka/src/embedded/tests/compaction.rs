//! Compaction and retention, as readers see them.

use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::*;
use kafka_protocol::records::{
    Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};

use super::Broker;
use super::requests::*;

const COMPACT: (&str, &str) = ("cleanup.policy", "compact");

/// A batch of these keys and values, with sequence numbers from `sequence` on, at this time.
fn keyed(producer: Producer, sequence: i32, time: i64, records: &[(&str, &str)]) -> Bytes {
    let record = |(i, (key, value)): (usize, &(&str, &str))| Record {
        transactional: producer.transactional,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        timestamp_type: TimestampType::Creation,
        offset: i as i64,
        sequence: if producer.id < 0 { -1 } else { sequence } + i as i32,
        timestamp: time + i as i64,
        key: (!key.is_empty()).then(|| Bytes::copy_from_slice(key.as_bytes())),
        value: (!value.is_empty()).then(|| Bytes::copy_from_slice(value.as_bytes())),
        headers: Default::default(),
    };
    let records: Vec<Record> = records.iter().enumerate().map(record).collect();
    let mut bytes = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut bytes, &records, &options).unwrap();
    bytes.freeze()
}

/// The same batch, its records packed with gzip.
fn packed(batch: &Bytes) -> Bytes {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(batch[..61].to_vec(), flate2::Compression::default());
    encoder.write_all(&batch[61..]).unwrap();
    let mut bytes = encoder.finish().unwrap();
    let length = i32::try_from(bytes.len() - 12).unwrap();
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[22] |= 1;
    let checksum = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    bytes.into()
}

impl Broker {
    #[track_caller]
    fn put(&mut self, topic: &str, records: &[(&str, &str)]) {
        let batch = keyed(PLAIN, 0, self.now, records);
        assert_eq!(self.produce_bytes(topic, batch, false).0, 0);
    }

    #[track_caller]
    fn put_in_transaction(&mut self, topic: &str, producer: Producer, sequence: i32, records: &[(&str, &str)]) {
        assert_eq!(self.add_partition(producer, topic), 0);
        let batch = keyed(producer, sequence, self.now, records);
        assert_eq!(self.produce_bytes(topic, batch, true).0, 0);
    }

    fn compact(&mut self, topic: &str) {
        self.machine.compact(topic, 0, self.now).unwrap();
    }

    /// Offset, key and value of all records that a reader of this isolation level gets, and where its position is then.
    #[track_caller]
    fn read(&mut self, topic: &str, from: i64, isolation: i8) -> (Vec<String>, i64) {
        let (mut position, mut seen) = (from, vec![]);
        loop {
            let data = self.fetch(topic, position, isolation);
            assert_eq!(data.error_code, 0);
            let aborted = data.aborted_transactions.unwrap_or_default();
            let mut bytes = data.records.unwrap();
            let Some(next) = crate::embedded::direct::next_offset(&bytes) else { return (seen, position) };
            for record in RecordBatchDecoder::decode_all(&mut bytes).unwrap().into_iter().flat_map(|set| set.records) {
                let is_aborted = aborted.iter().any(|aborted| {
                    aborted.producer_id.0 == record.producer_id
                        && record.transactional
                        && aborted.first_offset <= record.offset
                });
                if record.offset >= position && !record.control && !is_aborted {
                    let text = |bytes: Option<Bytes>| String::from_utf8(bytes.unwrap_or_default().to_vec()).unwrap();
                    seen.push(format!("{} {}={}", record.offset, text(record.key), text(record.value)));
                }
            }
            position = next;
        }
    }
}

#[test]
fn of_each_key_only_the_last_record_stays_and_at_its_offset() {
    let mut broker = Broker::new();
    broker.create("t", &[COMPACT]);
    broker.put("t", &[("a", "1"), ("b", "1"), ("a", "2")]);
    broker.put("t", &[("b", "2")]);
    broker.put("t", &[("b", "3"), ("c", "1")]);
    broker.put("t", &[("c", "2")]);
    let before = broker.machine.log_bytes();
    broker.compact("t");
    let left = ["2 a=2", "4 b=3", "5 c=1", "6 c=2"].map(str::to_owned).to_vec();
    assert_eq!(broker.read("t", 0, UNCOMMITTED), (left.clone(), 7), "but the last batch is left alone");
    assert_eq!(broker.read("t", 3, COMMITTED), (left[1..].to_vec(), 7), "a reader in the gap goes on behind it");
    assert!(broker.machine.log_bytes() < before);
    broker.compact("t");
    assert_eq!(broker.read("t", 0, UNCOMMITTED).0, left, "a second time changes nothing");
    assert_eq!(broker.offset("t", LATEST, UNCOMMITTED), 7);
    assert_eq!(broker.offset("t", EARLIEST, UNCOMMITTED), 0);
}

#[test]
fn the_last_batch_of_a_producer_stays_as_an_empty_one() {
    let mut broker = Broker::new();
    broker.create("t", &[COMPACT]);
    let producer = Producer { id: 7, epoch: 0, transactional: false };
    for sequence in 0..2 {
        let batch = keyed(producer, sequence, broker.now, &[("a", "1")]);
        assert_eq!(broker.produce_bytes("t", batch, false).0, 0);
    }
    broker.put("t", &[("a", "2")]);
    broker.put("t", &[("end", "1")]);
    broker.compact("t");
    assert_eq!(broker.read("t", 0, COMMITTED), (vec!["2 a=2".into(), "3 end=1".into()], 4));
    let first = broker.fetch("t", 0, UNCOMMITTED).records.unwrap();
    assert_eq!((first[7], first[60]), (1, 0), "the first batch is the second one, with no records");
    assert_eq!(crate::embedded::direct::next_offset(&first.slice(..61)), Some(2));
    assert_eq!(broker.produce_bytes("t", keyed(producer, 2, broker.now, &[("a", "3")]), false), (0, 4));
}

#[test]
fn a_tombstone_stays_for_its_retention_from_the_first_compaction_on() {
    let mut broker = Broker::new();
    broker.create("t", &[COMPACT, ("delete.retention.ms", "1000")]);
    broker.put("t", &[("a", "1"), ("b", "1")]);
    broker.put("t", &[("a", "")]);
    broker.put("t", &[("end", "1")]);
    broker.pass(5000);
    for _ in 0..2 {
        broker.compact("t");
        assert_eq!(broker.read("t", 0, COMMITTED).0, ["1 b=1", "2 a=", "3 end=1"]);
        broker.pass(500);
    }
    broker.compact("t");
    assert_eq!(broker.read("t", 0, COMMITTED), (vec!["1 b=1".into(), "3 end=1".into()], 4));
}

#[test]
fn what_an_open_transaction_may_still_abort_replaces_nothing() {
    let mut broker = Broker::new();
    broker.create("t", &[COMPACT]);
    broker.put("t", &[("a", "1"), ("a", "2")]);
    let producer = broker.init();
    broker.put_in_transaction("t", producer, 0, &[("a", "open")]);
    broker.put("t", &[("b", "1"), ("b", "2")]);
    broker.compact("t");
    assert_eq!(broker.read("t", 0, UNCOMMITTED).0, ["1 a=2", "2 a=open", "3 b=1", "4 b=2"]);
    broker.end(producer, false);
    broker.compact("t");
    assert_eq!(broker.read("t", 0, UNCOMMITTED), (vec!["1 a=2".into(), "4 b=2".into()], 6), "aborted records go");
}

#[test]
fn markers_go_when_their_records_are_gone_and_what_their_producer_commits_later_is_read() {
    let mut broker = Broker::new();
    broker.create("t", &[COMPACT, ("delete.retention.ms", "1000")]);
    let producer = broker.init();
    broker.put_in_transaction("t", producer, 0, &[("a", "aborted")]);
    broker.end(producer, false);
    broker.put_in_transaction("t", producer, 1, &[("a", "1")]);
    broker.end(producer, true);
    broker.put("t", &[("end", "1")]);
    let batches = |broker: &mut Broker| {
        let mut bytes = broker.fetch("t", 0, UNCOMMITTED).records.unwrap();
        RecordBatchDecoder::decode_all(&mut bytes).unwrap().iter().flat_map(|set| &set.records).count()
    };
    broker.compact("t");
    assert_eq!(batches(&mut broker), 4, "two records and two markers");
    broker.pass(1000);
    broker.compact("t");
    assert_eq!(batches(&mut broker), 3, "the marker of the records that are there stays");
    assert_eq!(broker.read("t", 0, COMMITTED), (vec!["2 a=1".into(), "4 end=1".into()], 5));
    assert!(broker.fetch("t", 0, COMMITTED).aborted_transactions.unwrap().is_empty(), "nobody waits for a marker");
}

#[test]
fn packed_batches_are_compacted_like_others() {
    let mut broker = Broker::new();
    broker.create("t", &[COMPACT]);
    let batch = packed(&keyed(PLAIN, 0, broker.now, &[("a", "1"), ("b", "1"), ("a", "2")]));
    assert_eq!(broker.produce_bytes("t", batch, false), (0, 0));
    broker.put("t", &[("b", "2")]);
    broker.put("t", &[("end", "1")]);
    broker.compact("t");
    let raw = broker.fetch("t", 0, UNCOMMITTED).records.unwrap();
    assert_eq!((raw[22] & 7, raw[60]), (1, 1), "one record is left, packed as before");
    assert_eq!(broker.read("t", 3, UNCOMMITTED), (vec!["3 b=2".into(), "4 end=1".into()], 5));
}

#[test]
fn a_compacted_topic_takes_no_record_without_a_key() {
    let mut broker = Broker::new();
    broker.create("t", &[COMPACT]);
    let batch = keyed(PLAIN, 0, broker.now, &[("a", "1"), ("", "1")]);
    for batch in [packed(&batch), batch] {
        assert_eq!(broker.produce_bytes("t", batch, false), (ResponseError::InvalidRecord.code(), -1));
    }
    let mut unreadable = packed(&keyed(PLAIN, 0, broker.now, &[("a", "1")])).to_vec();
    unreadable[61] = 0;
    let checksum = crc32c::crc32c(&unreadable[21..]);
    unreadable[17..21].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(broker.produce_bytes("t", unreadable.into(), false), (ResponseError::CorruptMessage.code(), -1));
}

#[test]
fn old_segments_are_compacted_by_themselves_when_enough_of_them_is_new() {
    let mut broker = Broker::new();
    broker.create("t", &[COMPACT, ("segment.ms", "1000"), ("min.cleanable.dirty.ratio", "0.4")]);
    broker.put("t", &[("a", "1"), ("a", "2")]);
    broker.pass(60_000);
    assert_eq!(broker.read("t", 0, UNCOMMITTED).0.len(), 2, "the active segment is left alone");
    broker.put("t", &[("b", "1"), ("b", "2")]);
    broker.pass(15_000);
    assert_eq!(broker.read("t", 0, UNCOMMITTED), (vec!["1 a=2".into(), "2 b=1".into(), "3 b=2".into()], 4));
    assert_eq!(broker.machine.next_deadline(), None, "nothing happens before there is more");

    (0..3).for_each(|_| broker.put("t", &[("a", "3")]));
    broker.pass(15_000);
    let left = ["1 a=2", "3 b=2", "4 a=3", "5 a=3", "6 a=3"];
    assert_eq!(broker.read("t", 0, UNCOMMITTED).0, left, "what stands in the active segment replaces nothing yet");
}

#[test]
fn a_log_that_is_hardly_dirty_is_not_compacted() {
    let mut broker = Broker::new();
    broker.create("t", &[COMPACT, ("segment.ms", "1"), ("min.cleanable.dirty.ratio", "0.9")]);
    for key in ["a", "b", "c", "d", "a", "a"] {
        broker.put("t", &[(key, "1")]);
        broker.pass(15_000);
    }
    assert_eq!(broker.read("t", 0, UNCOMMITTED).0.len(), 6);
    let mut broker = Broker::new();
    broker.create("t", &[COMPACT, ("segment.ms", "1"), ("min.cleanable.dirty.ratio", "0.1")]);
    for key in ["a", "b", "c", "d", "a", "a"] {
        broker.put("t", &[(key, "1")]);
        broker.pass(15_000);
    }
    assert_eq!(broker.read("t", 0, UNCOMMITTED).0, ["1 b=1", "2 c=1", "3 d=1", "4 a=1", "5 a=1"]);
}

#[test]
fn young_records_wait_and_old_ones_are_not_kept_waiting() {
    let mut broker = Broker::new();
    let lag = [COMPACT, ("segment.ms", "1"), ("min.cleanable.dirty.ratio", "0"), ("min.compaction.lag.ms", "40000")];
    broker.create("young", &lag);
    broker.create("old", &[COMPACT, ("max.compaction.lag.ms", "40000")]);
    for topic in ["young", "old"] {
        broker.put(topic, &[("a", "1"), ("a", "2")]);
    }
    broker.put("old", &[("b", "1")]);
    broker.pass(2);
    broker.put("young", &[("b", "1")]);
    broker.pass(30_000);
    assert_eq!(broker.read("young", 0, UNCOMMITTED).0.len(), 3);
    assert_eq!(broker.read("old", 0, UNCOMMITTED).0.len(), 3);
    broker.pass(30_000);
    assert_eq!(broker.read("young", 0, UNCOMMITTED).0, ["1 a=2", "2 b=1"]);
    assert_eq!(broker.read("old", 0, UNCOMMITTED).0, ["1 a=2", "2 b=1"], "also out of the active segment");
}

#[test]
fn records_that_are_too_old_or_too_many_go_where_a_topic_says_so() {
    let mut broker = Broker::new();
    broker.create("old", &[("retention.ms", "60000")]);
    broker.create("many", &[("retention.bytes", "300")]);
    broker.create("both", &[("cleanup.policy", "compact,delete"), ("retention.ms", "60000")]);
    broker.create("kept", &[]);
    let topics = ["old", "many", "both", "kept"];
    for _ in 0..10 {
        topics.iter().for_each(|topic| broker.put(topic, &[("a", "1")]));
        broker.pass(10_000);
    }
    broker.pass(15_000);
    let starts = topics.map(|topic| broker.offset(topic, EARLIEST, UNCOMMITTED));
    assert_eq!(starts, [6, 5, 6, 0]);
    broker.pass(100_000);
    assert_eq!(broker.read("old", 10, UNCOMMITTED), (vec![], 10));
    assert_eq!(broker.offset("old", EARLIEST, UNCOMMITTED), 10, "the last ones, too, without anything new");
    assert_eq!(broker.machine.next_deadline(), None);
}

#[test]
fn memory_is_given_back_behind_deleted_and_compacted_records() {
    let mut broker = Broker::new();
    broker.create("deleted", &[]);
    broker.create("compacted", &[COMPACT]);
    let value = "v".repeat(1000);
    for round in 0..1000 {
        broker.put("deleted", &[("a", &value)]);
        broker.put("compacted", &[(&format!("{}", round % 10), &value)]);
    }
    let full = broker.machine.log_bytes();
    assert!(full > 2_000_000);
    broker.compact("compacted");
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(999);
    let topic = DeleteRecordsTopic::default().with_name(topic_name("deleted")).with_partitions(vec![partition]);
    broker.ask(DeleteRecordsRequest::default().with_topics(vec![topic]), 1);
    let left = broker.machine.log_bytes();
    assert!((12_000..14_000).contains(&left), "{left}");
}
