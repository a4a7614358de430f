//! What the tests of the client share: a broker, topics of their own, and a few words for what they do again and again.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use flow_core::{Headers, HeadersRef, Offset, Partition, Timestamp};
use flow_kafka::ClientSettings;
use flow_kafka::broker::{
    Assignor, Broker, Consumer, ConsumerSpec, Generation, NewTopic, Next, OffsetCommit, Outgoing, Producer,
    ProducerSpec, Reader, Rebalance, TopicId, TopicPartition,
};
use flow_kafka::embedded::EmbeddedBroker;
use flow_kafka::rdkafka::RdkafkaBroker;

/// Longer than anything here should take, on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn settings() -> ClientSettings {
    ClientSettings {
        bootstrap: bootstrap(),
        session_timeout: Duration::from_secs(6),
        transaction_timeout: Duration::from_secs(8),
        message_timeout: Duration::from_secs(6),
        max_poll_interval: Duration::from_secs(60),
        instance: None,
        overrides: Vec::new(),
    }
}

/// All tests share one broker, as they would share a real one.
fn bootstrap() -> String {
    static EMBEDDED: OnceLock<EmbeddedBroker> = OnceLock::new();
    std::env::var("KAFKA_BOOTSTRAP")
        .unwrap_or_else(|_| EMBEDDED.get_or_init(|| EmbeddedBroker::start("127.0.0.1:0").unwrap()).bootstrap())
}

pub(crate) fn broker() -> RdkafkaBroker {
    RdkafkaBroker::new(settings()).unwrap()
}

#[allow(clippy::disallowed_methods, reason = "a test against a real broker lives in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "a test against a real broker lives in real time")]
pub(crate) fn wall_clock() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64
}

/// A name that no other test and no other run uses.
pub(crate) fn fresh(what: &str, broker: &dyn Broker) -> String {
    format!("{what}-{:016x}", broker.host().unique())
}

/// A topic of its own, with these settings.
pub(crate) fn topic_with(broker: &dyn Broker, what: &str, partitions: i32, config: &[(&str, &str)]) -> String {
    let name = fresh(what, broker);
    let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let topic = NewTopic { name: name.clone(), partitions, replication: 1, config };
    broker.admin().unwrap().create(&[topic], LONG).unwrap();
    name
}

pub(crate) fn topic(broker: &dyn Broker, what: &str, partitions: i32) -> String {
    topic_with(broker, what, partitions, &[])
}

pub(crate) fn spec(group: &str, client_id: &str, assignor: Assignor) -> ConsumerSpec {
    ConsumerSpec { group: group.to_owned(), assignor, client_id: client_id.to_owned() }
}

pub(crate) fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

/// An initialised producer.
pub(crate) fn producer(broker: &dyn Broker) -> Box<dyn Producer> {
    let id = fresh("tx", broker);
    let mut producer = broker.producer(&ProducerSpec { client_id: id.clone(), transactional_id: id }).unwrap();
    producer.init(LONG).unwrap();
    producer
}

pub(crate) fn record<'r>(topic: TopicId, partition: i32, value: &'r str) -> Outgoing<'r> {
    Outgoing {
        topic,
        partition: Partition(partition),
        key: Some(value.as_bytes()),
        value: Some(value.as_bytes()),
        timestamp: None,
        headers: HeadersRef::EMPTY,
    }
}

/// Opens a transaction and puts `values` into it.
pub(crate) fn fill(producer: &mut dyn Producer, topic: &str, partition: i32, values: &[&str]) {
    producer.begin().unwrap();
    let topic = producer.topic(topic).unwrap();
    let records: Vec<_> = values.iter().map(|value| record(topic, partition, value)).collect();
    producer.send(&records).unwrap();
    producer.flush(LONG).unwrap();
}

/// Writes `values` to a partition and commits them.
pub(crate) fn write(broker: &dyn Broker, topic: &str, partition: i32, values: &[&str]) {
    let mut producer = producer(broker);
    fill(&mut *producer, topic, partition, values);
    producer.commit(LONG).unwrap();
}

pub(crate) fn offsets(topic: &str, partition: i32, offset: i64, metadata: &str) -> Vec<OffsetCommit> {
    vec![OffsetCommit { partition: at(topic, partition), offset: Offset(offset), metadata: metadata.to_owned() }]
}

/// A record that was read, owned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) at: TopicPartition,
    pub(crate) offset: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) headers: Headers,
}

impl Seen {
    pub(crate) fn of(polled: &flow_kafka::broker::Polled<'_>) -> Seen {
        Seen {
            at: at(polled.topic, polled.partition.0),
            offset: polled.record.offset.0,
            key: polled.record.key.map(<[u8]>::to_vec),
            value: polled.record.value.map(<[u8]>::to_vec),
            timestamp: polled.record.timestamp,
            headers: polled.record.headers.into(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.value.as_deref().unwrap_or_default()).unwrap()
    }
}

pub(crate) fn texts(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(Seen::text).collect()
}

/// Polls until a rebalance comes. Records on the way are a mistake of the test.
pub(crate) fn rebalance(consumer: &mut dyn Consumer) -> Rebalance {
    let until = now() + LONG;
    while now() < until {
        let polled = consumer.poll(Duration::from_millis(100), &mut |polled| {
            panic!("a record of {}/{} instead of a rebalance", polled.topic, polled.partition)
        });
        if let Some(rebalance) = polled.unwrap() {
            return rebalance;
        }
    }
    panic!("no rebalance within {LONG:?}")
}

/// Polls and acknowledges until exactly `count` partitions are owned, which are returned in order.
pub(crate) fn owned(consumer: &mut dyn Consumer, mine: &mut Vec<TopicPartition>, count: usize) {
    let until = now() + LONG;
    while mine.len() != count {
        assert!(now() < until, "owns {mine:?} instead of {count} partitions after {LONG:?}");
        step(consumer, mine);
    }
    mine.sort();
}

/// One poll, with what it brings acknowledged.
pub(crate) fn step(consumer: &mut dyn Consumer, mine: &mut Vec<TopicPartition>) {
    if let Some(rebalance) = consumer.poll(Duration::from_millis(50), &mut |_| Next::Continue).unwrap() {
        match &rebalance {
            Rebalance::Assigned(partitions) => mine.extend(partitions.iter().cloned()),
            Rebalance::Revoked(partitions) | Rebalance::Lost(partitions) => mine.retain(|p| !partitions.contains(p)),
        }
        consumer.acknowledge(&rebalance).unwrap();
    }
}

/// A member of a new group that owns all `count` partitions of these topics, none started.
pub(crate) fn member(broker: &dyn Broker, topics: &[&str], count: usize) -> Box<dyn Consumer> {
    let group = fresh("group", broker);
    let mut consumer = broker.consumer(&spec(&group, &group, Assignor::CooperativeSticky)).unwrap();
    consumer.subscribe(&topics.iter().map(|topic| (*topic).to_owned()).collect::<Vec<_>>()).unwrap();
    owned(&mut *consumer, &mut Vec::new(), count);
    consumer
}

/// Polls until `count` records have come.
pub(crate) fn take(consumer: &mut dyn Consumer, count: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    let until = now() + LONG;
    while seen.len() < count {
        assert!(now() < until, "only {} of {count} records after {LONG:?}: {seen:?}", seen.len());
        let rebalance = consumer.poll(Duration::from_millis(100), &mut |polled| {
            if seen.len() == count {
                return Next::Stop;
            }
            seen.push(Seen::of(polled));
            Next::Continue
        });
        assert_eq!(rebalance.unwrap(), None);
    }
    seen
}

/// Whatever comes within some time.
pub(crate) fn drain(consumer: &mut dyn Consumer, time: Duration) -> Vec<Seen> {
    let mut seen = Vec::new();
    let until = now() + time;
    while now() < until {
        let rebalance = consumer.poll(Duration::from_millis(20), &mut |polled| {
            seen.push(Seen::of(polled));
            Next::Continue
        });
        assert_eq!(rebalance.unwrap(), None);
    }
    seen
}

/// The partition's committed records from `from` to its high watermark, read until the position is there.
pub(crate) fn read(reader: &mut dyn Reader, of: &TopicPartition, from: i64) -> Vec<Seen> {
    let high = reader.watermarks(std::slice::from_ref(of), LONG).unwrap()[0].high;
    reader.assign(&[(of.clone(), Offset(from))]).unwrap();
    let mut seen = Vec::new();
    let until = now() + LONG;
    while from < high.0 && reader.position(of).unwrap().is_none_or(|position| position < high) {
        assert!(now() < until, "at {:?} of {high} after {LONG:?}", reader.position(of));
        reader.poll(Duration::from_millis(50), &mut |polled| seen.push(Seen::of(polled))).unwrap();
    }
    seen
}

/// A membership that some member of `group` has.
pub(crate) fn stale(generation: &Generation) -> Generation {
    Generation { id: generation.id + 7, ..generation.clone() }
}
