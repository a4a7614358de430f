//! Batches: repeats, gaps, sizes, times, checksums.

use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::InitProducerIdRequest;

use super::Broker;
use super::requests::*;

fn idempotent(broker: &mut Broker) -> Producer {
    let request = InitProducerIdRequest::default().with_transactional_id(None);
    let id = broker.ask(request, 4).producer_id.0;
    Producer { id, epoch: 0, transactional: false }
}

#[test]
fn any_of_the_last_five_batches_is_recognised_as_a_repeat() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let producer = idempotent(&mut broker);
    for i in 0..6 {
        assert_eq!(broker.produce("t", producer, 2 * i, 2), (0, 2 * i64::from(i)));
    }

    for i in 1..6 {
        assert_eq!(broker.produce("t", producer, 2 * i, 2), (0, 2 * i64::from(i)));
    }
    assert_eq!(broker.produce("t", producer, 0, 2).0, ResponseError::OutOfOrderSequenceNumber.code());
    assert_eq!(broker.offset("t", LATEST, UNCOMMITTED), 12);
}

#[test]
fn a_gap_is_refused_and_a_new_epoch_begins_at_zero() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let producer = idempotent(&mut broker);
    let next_epoch = Producer { epoch: 1, ..producer };
    assert_eq!(broker.produce("t", producer, 0, 1).0, 0);

    assert_eq!(broker.produce("t", producer, 5, 1).0, ResponseError::OutOfOrderSequenceNumber.code());
    assert_eq!(broker.produce("t", next_epoch, 1, 1).0, ResponseError::OutOfOrderSequenceNumber.code());
    assert_eq!(broker.produce("t", next_epoch, 0, 1).0, 0);
    assert_eq!(broker.produce("t", producer, 1, 1).0, ResponseError::InvalidProducerEpoch.code());
}

#[test]
fn sequence_numbers_wrap_to_zero() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let producer = idempotent(&mut broker);
    assert_eq!(broker.produce("t", producer, i32::MAX - 1, 2).0, 0);
    assert_eq!(broker.produce("t", producer, 0, 1), (0, 2));
}

#[test]
fn a_batch_over_the_topics_size_is_refused() {
    let mut broker = Broker::new();
    broker.create("t", &[("max.message.bytes", "100")]);
    assert_eq!(broker.produce("t", PLAIN, 0, 1).0, 0);
    assert_eq!(broker.produce("t", PLAIN, 0, 20).0, ResponseError::MessageTooLarge.code());
}

#[test]
fn a_record_an_hour_ahead_is_refused_with_its_whole_batch() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    broker.create("lenient", &[("message.timestamp.after.max.ms", "9223372036854775807")]);
    let times = [broker.now, broker.now + 3_600_001];

    let refused = broker.produce_bytes("t", batch(PLAIN, 0, &times), false);
    assert_eq!(refused.0, ResponseError::InvalidTimestamp.code());
    assert_eq!(broker.offset("t", LATEST, UNCOMMITTED), 0);
    assert_eq!(broker.produce_bytes("t", batch(PLAIN, 0, &[broker.now + 3_600_000]), false).0, 0);
    assert_eq!(broker.produce_bytes("lenient", batch(PLAIN, 0, &times), false).0, 0);
}

#[test]
fn log_append_time_overwrites_and_the_checksum_still_holds() {
    let mut broker = Broker::new();
    broker.create("t", &[("message.timestamp.type", "LogAppendTime")]);
    assert_eq!(broker.produce_bytes("t", batch(PLAIN, 0, &[5]), false).0, 0);

    let mut records = broker.fetch("t", 0, UNCOMMITTED).records.unwrap();
    let decoded = kafka_protocol::records::RecordBatchDecoder::decode(&mut records).unwrap();
    assert_eq!(broker.offset("t", broker.now, UNCOMMITTED), 0, "found by the broker's time");
    assert_eq!(decoded.records[0].timestamp_type, kafka_protocol::records::TimestampType::LogAppend);
}

#[test]
fn damaged_batches_are_refused() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let good = batch(PLAIN, 0, &[1, 2]);
    let corrupt = ResponseError::CorruptMessage.code();
    let invalid = ResponseError::InvalidRecord.code();
    let changed = |at: usize, byte: u8| {
        let mut bytes = BytesMut::from(&good[..]);
        bytes[at] = byte;
        bytes.freeze()
    };

    assert_eq!(broker.produce_bytes("t", changed(good.len() - 1, 9), false).0, corrupt, "checksum");
    assert_eq!(broker.produce_bytes("t", changed(8, 0x7f), false).0, corrupt, "length");
    assert_eq!(broker.produce_bytes("t", changed(16, 1), false).0, invalid, "magic");
    assert_eq!(broker.produce_bytes("t", Bytes::new(), false).0, corrupt);
    let twice = [&good[..], &good[..]].concat();
    assert_eq!(broker.produce_bytes("t", twice.into(), false).0, invalid, "two batches");
    for length in 0..good.len() {
        assert_eq!(broker.produce_bytes("t", good.slice(..length), false).0, corrupt, "cut to {length} bytes");
    }
    assert_eq!(broker.offset("t", LATEST, UNCOMMITTED), 0);
}

#[test]
fn a_producer_that_wants_no_answer_gets_none() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let request = produce_request("t", batch(PLAIN, 0, &[1]), false).with_acks(0);
    let connection = broker.post(request, 7);
    assert!(broker.answer::<kafka_protocol::messages::ProduceRequest>(connection).is_none());
    assert_eq!(broker.offset("t", LATEST, UNCOMMITTED), 1);
}
