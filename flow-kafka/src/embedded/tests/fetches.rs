//! Reading: waiting, sizes, what is visible.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{DeleteTopicsRequest, FetchRequest, FetchResponse};

use super::Broker;
use super::requests::*;

fn records_in(response: &FetchResponse) -> usize {
    response.responses[0].partitions[0].records.as_ref().unwrap().len()
}

#[test]
fn a_fetch_at_the_end_waits_for_records() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let waiting = broker.post(fetch_request("t", 0, UNCOMMITTED), 11);
    assert!(broker.answer::<FetchRequest>(waiting).is_none());

    broker.produce("t", PLAIN, 0, 3);
    assert!(records_in(&broker.answer::<FetchRequest>(waiting).unwrap()) > 0);
    assert_eq!(broker.machine.next_deadline(), None, "nothing waits any more");
}

#[test]
fn a_fetch_is_answered_empty_when_its_time_is_over() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let waiting = broker.post(fetch_request("t", 0, UNCOMMITTED), 11);
    broker.pass(499);
    assert!(broker.answer::<FetchRequest>(waiting).is_none());
    broker.pass(1);
    assert_eq!(records_in(&broker.answer::<FetchRequest>(waiting).unwrap()), 0);
}

#[test]
fn a_fetch_waits_for_as_many_bytes_as_it_wants() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let waiting = broker.post(fetch_request("t", 0, UNCOMMITTED).with_min_bytes(200), 11);
    for _ in 0..2 {
        broker.produce("t", PLAIN, 0, 1);
        assert!(broker.answer::<FetchRequest>(waiting).is_none());
    }
    broker.produce("t", PLAIN, 0, 10);
    assert!(records_in(&broker.answer::<FetchRequest>(waiting).unwrap()) > 200);
}

#[test]
fn a_committed_reader_is_woken_by_the_marker() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let producer = broker.init();
    broker.add_partition(producer, "t");
    let waiting = broker.post(fetch_request("t", 0, COMMITTED), 11);
    broker.produce("t", producer, 0, 1);
    assert!(broker.answer::<FetchRequest>(waiting).is_none());

    broker.end(producer, true);
    let response = broker.answer::<FetchRequest>(waiting).unwrap();
    assert_eq!(response.responses[0].partitions[0].last_stable_offset, 2);
}

#[test]
fn a_waiting_fetch_learns_that_its_topic_is_gone() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let waiting = broker.post(fetch_request("t", 0, UNCOMMITTED), 11);
    broker.ask(DeleteTopicsRequest::default().with_topic_names(vec![topic_name("t")]), 4);
    let response = broker.answer::<FetchRequest>(waiting).unwrap();
    let error = response.responses[0].partitions[0].error_code;
    assert_eq!(error, ResponseError::UnknownTopicOrPartition.code());
}

#[test]
fn a_lost_connection_waits_for_nothing() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let waiting = broker.post(fetch_request("t", 0, UNCOMMITTED), 11);
    broker.machine.disconnect(waiting);
    broker.produce("t", PLAIN, 0, 1);
    broker.pass(1000);
    assert!(broker.answer::<FetchRequest>(waiting).is_none());
}

#[test]
fn only_whole_batches_within_the_size_are_sent_but_always_one() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    for _ in 0..3 {
        broker.produce("t", PLAIN, 0, 1);
    }
    let one = records_in(&read(&mut broker, 1, 1 << 20));
    assert!(one > 1, "a batch that is larger than asked for");
    assert_eq!(records_in(&read(&mut broker, 1 << 20, 1)), one);
    assert_eq!(records_in(&read(&mut broker, (2 * one + 1) as i32, 1 << 20)), 2 * one);
    assert_eq!(records_in(&read(&mut broker, 1 << 20, 1 << 20)), 3 * one);
}

fn read(broker: &mut Broker, of_partition: i32, in_all: i32) -> FetchResponse {
    let mut request = fetch_request("t", 0, UNCOMMITTED).with_max_bytes(in_all);
    request.topics[0].partitions[0].partition_max_bytes = of_partition;
    broker.ask(request, 11)
}

#[test]
fn offsets_out_of_the_log_are_an_error_at_once() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    broker.produce("t", PLAIN, 0, 1);
    for offset in [-1, 2] {
        let response = broker.ask(fetch_request("t", offset, UNCOMMITTED), 11);
        let partition = &response.responses[0].partitions[0];
        assert_eq!(partition.error_code, ResponseError::OffsetOutOfRange.code());
        assert_eq!(partition.high_watermark, 1);
    }
}

#[test]
fn a_fetch_session_is_refused_so_that_clients_send_whole_requests() {
    let mut broker = Broker::new();
    let response = broker.ask(FetchRequest::default().with_session_id(7), 11);
    assert_eq!(response.error_code, ResponseError::FetchSessionIdNotFound.code());
}
