//! The real client, with short waits.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

use crate::cluster::Cluster;

/// Events of this producer are served by a thread of its own.
pub(crate) type Producer = ThreadedProducer<DefaultProducerContext>;

/// No call of these tests takes as long on a healthy broker, also on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) const COMMITTED: &str = "read_committed";
pub(crate) const UNCOMMITTED: &str = "read_uncommitted";

/// Settings of every client.
pub(crate) fn client(cluster: &Cluster) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap());
    config
}

/// Settings of a consumer that commits by hand.
pub(crate) fn consumer_config(cluster: &Cluster, group: &str, isolation: &str) -> ClientConfig {
    let mut config = client(cluster);
    config
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", isolation)
        .set("session.timeout.ms", "10000")
        .set("heartbeat.interval.ms", "200")
        .set("fetch.wait.max.ms", "50")
        .set("retry.backoff.ms", "5")
        .set("retry.backoff.max.ms", "50");
    config
}

pub(crate) fn consumer(cluster: &Cluster, group: &str, isolation: &str) -> BaseConsumer {
    consumer_config(cluster, group, isolation).create().unwrap()
}

/// A member of a group that owns all `partitions` of the topic.
pub(crate) fn sole_member(cluster: &Cluster, group: &str, topic: &str, partitions: usize) -> BaseConsumer {
    let member = consumer(cluster, group, COMMITTED);
    member.subscribe(&[topic]).unwrap();
    poll_until(&[&member], || owned(&member).len() == partitions);
    member
}

pub(crate) fn producer(cluster: &Cluster) -> Producer {
    client(cluster).set("linger.ms", "0").create().unwrap()
}

/// A transactional producer that is not initialised yet.
pub(crate) fn uninitialised_producer(cluster: &Cluster, transactional_id: &str) -> Producer {
    client(cluster)
        .set("linger.ms", "0")
        .set("retry.backoff.ms", "10")
        .set("transactional.id", transactional_id)
        .set("transaction.timeout.ms", "60000")
        .create()
        .unwrap()
}

pub(crate) fn transactional_producer(cluster: &Cluster, transactional_id: &str) -> Producer {
    let producer = uninitialised_producer(cluster, transactional_id);
    producer.init_transactions(LIMIT).unwrap();
    producer
}

pub(crate) fn send(producer: &Producer, topic: &str, partition: i32, value: &str) -> KafkaResult<()> {
    let record = BaseRecord::to(topic).partition(partition).key("k").payload(value);
    producer.send(record).map_err(|(error, _)| error)
}

/// An offset of one partition, for a transaction.
pub(crate) fn offset_of(topic: &str, partition: i32, offset: i64) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
    list
}

/// One transaction: a record, offsets, and commit; aborted if one of them fails.
pub(crate) fn transact(
    producer: &Producer,
    output: &str,
    offsets: &TopicPartitionList,
    metadata: &ConsumerGroupMetadata,
) -> KafkaResult<()> {
    producer.begin_transaction()?;
    let result = send(producer, output, 0, "v")
        .and_then(|()| producer.send_offsets_to_transaction(offsets, metadata, LIMIT))
        .and_then(|()| producer.commit_transaction(LIMIT));
    if result.is_err() {
        producer.abort_transaction(LIMIT)?;
    }
    result
}

pub(crate) fn metadata_of<C: ConsumerContext>(consumer: &BaseConsumer<C>) -> ConsumerGroupMetadata {
    consumer.group_metadata().unwrap()
}

/// The code of an error after which the transaction must be aborted and the producer goes on.
#[track_caller]
pub(crate) fn abortable(result: KafkaResult<()>) -> RDKafkaErrorCode {
    match result {
        Err(KafkaError::Transaction(error)) if error.txn_requires_abort() => error.code(),
        other => panic!("expected an error that asks for an abort, not {other:?}"),
    }
}

/// The code of an error after which the producer is of no use.
#[track_caller]
pub(crate) fn fatal(result: KafkaResult<()>) -> RDKafkaErrorCode {
    match result {
        Err(KafkaError::Transaction(error)) if error.is_fatal() => error.code(),
        other => panic!("expected a fatal error, not {other:?}"),
    }
}

/// The partitions that a consumer owns, in order.
pub(crate) fn owned<C: ConsumerContext>(consumer: &BaseConsumer<C>) -> Vec<i32> {
    let assignment = consumer.assignment().unwrap();
    let mut partitions: Vec<i32> = assignment.elements().iter().map(|element| element.partition()).collect();
    partitions.sort_unstable();
    partitions
}

/// Polls consumers in turn until the condition holds; what they read is thrown away.
#[track_caller]
pub(crate) fn poll_until(consumers: &[&BaseConsumer], condition: impl Fn() -> bool) {
    wait_until(|| {
        for consumer in consumers {
            if let Some(Err(error)) = consumer.poll(Duration::from_millis(20)) {
                eprintln!("poll: {error}");
            }
        }
        condition()
    });
}

/// Tries until it is true.
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "a real client needs real time")]
pub(crate) fn wait_until(mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < LIMIT, "did not happen within {LIMIT:?}");
    }
}

/// All records of a partition up to where a reader of this isolation level may read: offsets and values.
pub(crate) fn read_to_end(cluster: &Cluster, topic: &str, partition: i32, isolation: &str) -> Vec<(i64, String)> {
    let reader = consumer(cluster, &cluster.name("reader"), isolation);
    let (start, end) = reader.fetch_watermarks(topic, partition, LIMIT).unwrap();
    let mut records = vec![];
    if start == end {
        return records;
    }
    reader.assign(&offset_of(topic, partition, start)).unwrap();
    wait_until(|| {
        if let Some(record) = reader.poll(Duration::from_millis(20)) {
            let record = record.unwrap();
            records.push((record.offset(), String::from_utf8_lossy(record.payload().unwrap()).into_owned()));
        }
        position(&reader).is_some_and(|position| position >= end)
    });
    records
}

/// Waits until no transaction is open on a partition. A commit ends when the coordinator has decided it: its markers, without
/// which no reader of committed records sees it, are written some moments later.
#[track_caller]
pub(crate) fn await_markers(cluster: &Cluster, topic: &str, partition: i32) {
    let end = |isolation| {
        let client = consumer(cluster, &cluster.name("ends"), isolation);
        client.fetch_watermarks(topic, partition, LIMIT).unwrap().1
    };
    wait_until(|| end(COMMITTED) == end(UNCOMMITTED));
}

/// Ends clients on a thread of their own. Closing a member waits for its group without any limit, so nothing that must end
/// waits for it.
#[allow(clippy::disallowed_methods, reason = "closing a real client blocks")]
pub(crate) fn retire(clients: impl Send + 'static) {
    let (closed, done) = mpsc::channel();
    thread::spawn(move || {
        drop(clients);
        // Nobody waits any more after the limit.
        let _ = closed.send(());
    });
    if done.recv_timeout(LIMIT / 2).is_err() {
        eprintln!("a client does not close; it is left behind");
    }
}

/// The values of [`read_to_end`].
pub(crate) fn values(cluster: &Cluster, topic: &str, isolation: &str) -> Vec<String> {
    read_to_end(cluster, topic, 0, isolation).into_iter().map(|(_, value)| value).collect()
}

/// Where a consumer of one partition stands.
pub(crate) fn position(consumer: &BaseConsumer) -> Option<i64> {
    consumer.position().unwrap().elements()[0].offset().to_raw().filter(|offset| *offset >= 0)
}

/// Offset and metadata of a group's partition: stable if `isolation` is [`COMMITTED`]. `None` if there is none.
pub(crate) fn fetch_committed(
    cluster: &Cluster,
    group: &str,
    isolation: &str,
    of: (&str, i32),
    limit: Duration,
) -> KafkaResult<Option<(i64, String)>> {
    let client = consumer(cluster, group, isolation);
    let mut list = TopicPartitionList::new();
    list.add_partition(of.0, of.1);
    let fetched = client.committed_offsets(list, limit)?;
    let element = &fetched.elements()[0];
    element.error()?;
    Ok(match element.offset() {
        Offset::Offset(offset) => Some((offset, element.metadata().to_owned())),
        _ => None,
    })
}

/// The stable offset of a group's partition.
pub(crate) fn committed(cluster: &Cluster, group: &str, topic: &str, partition: i32) -> Option<i64> {
    fetch_committed(cluster, group, COMMITTED, (topic, partition), LIMIT).unwrap().map(|(offset, _)| offset)
}
