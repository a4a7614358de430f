//! The producer under errors that no broker can be asked for: librdkafka's own mock cluster, which lives in the client under
//! test, answers with them. (It knows no fences and no markers; what those do is tested against brokers that have them.)

use std::ffi::{CString, c_int, c_void};
use std::time::Duration;

use flow_core::{HeadersRef, Offset, Partition};
use rdkafka_sys as sys;

use super::host::{Deadline, now};
use super::producer::RdkafkaProducer;
use super::reach::Reach;
use crate::broker::{
    BrokerError, ErrorKind, Generation, OffsetCommit, Outgoing, Producer, ProducerSpec, Sender, TopicId, TopicPartition,
};
use crate::config::ClientSettings;

unsafe extern "C" {
    fn rd_kafka_handle_mock_cluster(rk: *const sys::rd_kafka_t) -> *mut c_void;
    fn rd_kafka_mock_topic_create(
        cluster: *mut c_void,
        topic: *const std::ffi::c_char,
        partitions: c_int,
        replicas: c_int,
    ) -> c_int;
    fn rd_kafka_mock_push_request_errors_array(cluster: *mut c_void, api: i16, count: usize, codes: *const c_int);
    fn rd_kafka_mock_broker_set_rtt(cluster: *mut c_void, broker: i32, millis: c_int) -> c_int;
}

const PRODUCE: i16 = 0;
const INIT_PRODUCER_ID: i16 = 22;
const ADD_PARTITIONS: i16 = 24;
const ADD_OFFSETS: i16 = 25;
const END: i16 = 26;
const OFFSET_COMMIT: i16 = 28;

const COORDINATOR_NOT_AVAILABLE: c_int = 15;
const MSG_SIZE_TOO_LARGE: c_int = 10;
const ILLEGAL_GENERATION: c_int = 22;
const UNKNOWN_MEMBER_ID: c_int = 25;
const TOPIC_AUTHORIZATION_FAILED: c_int = 29;
const INVALID_PRODUCER_EPOCH: c_int = 47;
const INVALID_TXN_STATE: c_int = 48;
const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: c_int = 53;
const FENCED_INSTANCE_ID: c_int = 82;
const PRODUCER_FENCED: c_int = 90;
/// No Kafka has it: what a newer broker's error looks like.
const OF_THE_FUTURE: c_int = 4242;

const LONG: Duration = Duration::from_secs(20);

struct Mock {
    producer: RdkafkaProducer,
    cluster: *mut c_void,
    topic: TopicId,
}

impl Mock {
    fn new() -> Mock {
        let settings = ClientSettings {
            bootstrap: "127.0.0.1:1".to_owned(),
            session_timeout: Duration::from_secs(6),
            transaction_timeout: Duration::from_secs(8),
            message_timeout: Duration::from_secs(6),
            max_poll_interval: Duration::from_secs(60),
            instance: None,
            overrides: vec![("test.mock.num.brokers".to_owned(), "1".to_owned())],
        };
        let spec = ProducerSpec { transactional_id: "t".to_owned(), client_id: "c".to_owned() };
        let mut producer = RdkafkaProducer::new(&settings, &spec, &Reach::new(&settings)).unwrap();
        let name = CString::new("topic").unwrap();
        // SAFETY: the client lives, and the cluster as long as it; the name lives for the call.
        let cluster = unsafe {
            let cluster = rd_kafka_handle_mock_cluster(producer.raw());
            assert!(!cluster.is_null());
            assert_eq!(rd_kafka_mock_topic_create(cluster, name.as_ptr(), 4, 1), 0);
            cluster
        };
        let topic = producer.topic("topic").unwrap();
        Mock { producer, cluster, topic }
    }

    fn ready() -> Mock {
        let mut mock = Mock::new();
        mock.producer.init(LONG).unwrap();
        mock
    }

    /// The next requests of this kind are answered with these errors.
    fn answer(&self, api: i16, codes: &[c_int]) {
        // SAFETY: the cluster lives with the client; the array has this many places and is copied.
        unsafe { rd_kafka_mock_push_request_errors_array(self.cluster, api, codes.len(), codes.as_ptr()) };
    }

    /// Every answer takes this long.
    fn slow(&self, time: Duration) {
        // SAFETY: the cluster lives with the client.
        unsafe { rd_kafka_mock_broker_set_rtt(self.cluster, 1, time.as_millis() as c_int) };
    }

    fn send(&mut self) -> Result<(), BrokerError> {
        self.producer.begin()?;
        self.producer.send(&[Outgoing {
            topic: self.topic,
            partition: Partition(2),
            key: None,
            value: Some(b"v"),
            timestamp: None,
            headers: HeadersRef::EMPTY,
        }])
    }

    fn send_offsets(&mut self) -> Result<(), BrokerError> {
        let offsets =
            [OffsetCommit { partition: TopicPartition::new("topic", 0), offset: Offset(5), metadata: "m".to_owned() }];
        let generation = Generation { group: "g".to_owned(), id: 3, member: "m".to_owned(), instance: None };
        self.producer.send_offsets(&offsets, &generation, LONG)
    }

    /// One whole transaction.
    fn transaction(&mut self) -> Result<(), BrokerError> {
        self.send()?;
        self.producer.flush(LONG)?;
        self.send_offsets()?;
        self.producer.commit(LONG)
    }

    /// After a failed transaction: it is aborted, and the next one passes.
    fn again(&mut self) -> Result<(), BrokerError> {
        self.producer.abort(LONG)?;
        self.transaction()
    }
}

#[test]
fn a_refused_membership_aborts_and_the_producer_goes_on() {
    let mut mock = Mock::ready();
    mock.transaction().unwrap();
    for code in [ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID] {
        mock.answer(OFFSET_COMMIT, &[code]);
        let error = mock.transaction().unwrap_err();
        assert_eq!(error.kind, ErrorKind::StaleGeneration, "{error}");
        mock.again().unwrap();
    }
}

#[test]
fn a_code_of_a_newer_broker_is_an_abort_with_its_number() {
    let mut mock = Mock::ready();
    mock.answer(OFFSET_COMMIT, &[OF_THE_FUTURE]);
    let error = mock.transaction().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Abort, "{error}");
    assert!(error.message.contains("4242"), "{error}");
    mock.again().unwrap();
}

#[test]
fn every_way_to_be_fenced_is_fenced() {
    for (api, code) in [
        (ADD_OFFSETS, PRODUCER_FENCED),
        (ADD_OFFSETS, INVALID_PRODUCER_EPOCH),
        (OFFSET_COMMIT, INVALID_PRODUCER_EPOCH),
        (ADD_PARTITIONS, INVALID_PRODUCER_EPOCH),
        (PRODUCE, INVALID_PRODUCER_EPOCH),
        (END, PRODUCER_FENCED),
        (END, INVALID_PRODUCER_EPOCH),
    ] {
        let mut mock = Mock::ready();
        mock.transaction().unwrap();
        mock.answer(api, &[code]);
        let error = mock.transaction().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Fenced, "request {api}, error {code}: {error}");
    }
}

#[test]
fn a_transaction_that_the_broker_does_not_have_is_fatal() {
    let mut mock = Mock::ready();
    mock.answer(END, &[INVALID_TXN_STATE]);
    let error = mock.transaction().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Fatal, "{error}");
    assert_eq!(mock.producer.begin().unwrap_err().kind, ErrorKind::Fatal);
}

#[test]
fn a_coordinator_that_is_moving_is_waited_for() {
    let mut mock = Mock::ready();
    mock.answer(END, &[COORDINATOR_NOT_AVAILABLE; 2]);
    mock.answer(OFFSET_COMMIT, &[COORDINATOR_NOT_AVAILABLE; 2]);
    mock.transaction().unwrap();
}

#[test]
fn a_commit_without_an_answer_is_not_known_yet_and_the_same_call_ends_it() {
    let mut mock = Mock::ready();
    mock.send().unwrap();
    mock.producer.flush(LONG).unwrap();
    mock.send_offsets().unwrap();
    mock.slow(Duration::from_millis(800));
    let started = now();
    let error = mock.producer.commit(Duration::from_millis(100)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retriable, "{error}");
    assert!(started.elapsed() < Duration::from_millis(600), "{:?}", started.elapsed());
    mock.producer.commit(LONG).unwrap();
    mock.slow(Duration::ZERO);
    mock.transaction().unwrap();
}

#[test]
fn a_flush_without_an_answer_is_not_known_yet() {
    let mut mock = Mock::ready();
    mock.transaction().unwrap();
    mock.slow(Duration::from_millis(500));
    mock.send().unwrap();
    let error = mock.producer.flush(Duration::from_millis(100)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retriable, "{error}");
    mock.producer.flush(LONG).unwrap();
    mock.send_offsets().unwrap();
    mock.producer.commit(LONG).unwrap();
}

/// Without reading the reports in between, the commit would wait for its whole timeout and the abort after it, too.
#[test]
fn a_commit_names_the_record_that_was_refused_and_does_not_wait() {
    for code in [MSG_SIZE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED] {
        let mut mock = Mock::ready();
        mock.transaction().unwrap();
        mock.answer(PRODUCE, &[code]);
        mock.send().unwrap();
        let deadline = Deadline::after(LONG / 2);
        let error = mock.producer.commit(LONG).unwrap_err();
        assert!(!deadline.passed(), "{error}");
        assert_eq!(error.kind, ErrorKind::RecordRefused, "{error}");
        assert!(error.message.contains("topic/2"), "{error}");
        mock.producer.abort(LONG).unwrap();
        assert!(!deadline.passed());
        if code == MSG_SIZE_TOO_LARGE {
            mock.transaction().or_else(|_| mock.again()).unwrap();
        }
    }
}

#[test]
fn an_id_that_one_may_not_use_is_refused_by_init() {
    let mut mock = Mock::new();
    mock.answer(INIT_PRODUCER_ID, &[TRANSACTIONAL_ID_AUTHORIZATION_FAILED]);
    let error = mock.producer.init(LONG).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.message.contains("TRANSACTIONAL_ID_AUTHORIZATION_FAILED"), "{error}");
}
