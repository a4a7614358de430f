//! Records that the broker refuses inside a transaction, and the producer after it.

use std::time::{SystemTime, UNIX_EPOCH};

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::{BaseRecord, Producer as _};

use crate::clients::{
    LIMIT, abortable, committed, metadata_of, offset_of, sole_member, transact, transactional_producer,
};
use crate::cluster::Cluster;

#[test]
fn l_a_record_too_large_for_its_topic_fails_the_transaction_but_not_the_producer() {
    let cluster = Cluster::new("l-large");
    let output = cluster.topic_with("small", 1, &[("max.message.bytes", "1000")]);
    refuses(&cluster, &output, &"x".repeat(5000), 0, RDKafkaErrorCode::MessageSizeTooLarge);
}

#[test]
fn l_a_time_far_ahead_fails_the_transaction_but_not_the_producer() {
    let cluster = Cluster::new("l-ahead");
    let output = cluster.topic("out", 1);
    refuses(&cluster, &output, "x", 2 * 3_600_000, RDKafkaErrorCode::InvalidTimestamp);
}

/// Sends a record that must be refused, `ahead` milliseconds before its time.
#[allow(clippy::disallowed_methods, reason = "the broker compares with its clock")]
fn refuses(cluster: &Cluster, output: &str, value: &str, ahead: i64, error: RDKafkaErrorCode) {
    let (input, group) = (cluster.topic("in", 1), cluster.name("g"));
    let member = sole_member(cluster, &group, &input, 1);
    let producer = transactional_producer(cluster, &cluster.name("tx"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let time = i64::try_from(now).unwrap() + ahead;

    producer.begin_transaction().unwrap();
    let record = BaseRecord::to(output).partition(0).key("k").payload(value).timestamp(time);
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(LIMIT).unwrap();
    let refused = producer.send_offsets_to_transaction(&offset_of(&input, 0, 9), &metadata_of(&member), LIMIT);
    assert_eq!(abortable(refused), error);
    producer.abort_transaction(LIMIT).unwrap();
    assert_eq!(committed(cluster, &group, &input, 0), None);

    // The client takes a new epoch meanwhile, so the next transaction may fail once more.
    let works = (0..5).any(|_| transact(&producer, output, &offset_of(&input, 0, 1), &metadata_of(&member)).is_ok());
    assert!(works, "the producer did not recover");
    assert_eq!(committed(cluster, &group, &input, 0), Some(1));
}
