//! Readers of a log that was compacted: offsets have gaps, and positions reach the end all the same.

use std::time::{Duration, Instant};

use flow_core::Offset;
use flow_kafka::ClientSettings;
use flow_kafka::broker::{Broker, TopicPartition};
use flow_kafka::rdkafka::RdkafkaBroker;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, Producer as _};

use crate::clients::{
    COMMITTED, LIMIT, Producer, client, consumer_config, offset_of, position, producer, transactional_producer,
    wait_until,
};
use crate::cluster::Cluster;

const COMPACT: (&str, &str) = ("cleanup.policy", "compact");

/// How long a real Kafka may take to compact: its cleaner looks every 15 s.
const PATIENCE: Duration = Duration::from_secs(20);

fn put(producer: &Producer, topic: &str, key: &str, value: Option<&str>) {
    let record = BaseRecord::to(topic).partition(0).key(key);
    let record = BaseRecord { payload: value, ..record };
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(LIMIT).unwrap();
}

/// What a reader of committed records gets from an offset to the end of the partition, and where its position is then.
fn read(cluster: &Cluster, topic: &str, from: i64) -> (Vec<String>, Option<i64>) {
    let mut config = consumer_config(cluster, &cluster.name("r"), COMMITTED);
    let reader: BaseConsumer = config.set("enable.partition.eof", "true").create().unwrap();
    reader.assign(&offset_of(topic, 0, from)).unwrap();
    let mut records = vec![];
    wait_until(|| match reader.poll(Duration::from_millis(20)) {
        Some(Err(KafkaError::PartitionEOF(_))) => true,
        Some(Ok(record)) => {
            let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
            records.push(format!("{} {}={}", record.offset(), text(record.key()), text(record.payload())));
            false
        }
        Some(Err(error)) => panic!("{error}"),
        None => false,
    });
    (records, position(&reader))
}

/// Waits until the topic's one partition is compacted. False if this Kafka does not do it in time.
#[allow(clippy::disallowed_methods, reason = "a real Kafka needs real time")]
fn compacts(cluster: &Cluster, topic: &str, is_done: impl Fn() -> bool) -> bool {
    if let Some(embedded) = cluster.embedded() {
        assert!(embedded.compact(topic, 0).unwrap() > 0);
        return is_done();
    }
    let start = Instant::now();
    while !is_done() {
        if start.elapsed() > PATIENCE {
            eprintln!("skipped: this Kafka did not compact {topic} within {PATIENCE:?}");
            return false;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    true
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a real Kafka ends a segment only after some time")]
fn readers_go_on_behind_the_gaps_of_a_compacted_log() {
    let cluster = Cluster::new("compact");
    let settings = [COMPACT, ("segment.ms", "100"), ("min.cleanable.dirty.ratio", "0.01")];
    let topic = cluster.topic_with("t", 1, &settings);
    let producer = transactional_producer(&cluster, &cluster.name("tx"));
    let transaction = |records: &[(&str, &str)], commit: bool| {
        producer.begin_transaction().unwrap();
        records.iter().for_each(|(key, value)| put(&producer, &topic, key, Some(value)));
        match commit {
            true => producer.commit_transaction(LIMIT).unwrap(),
            false => producer.abort_transaction(LIMIT).unwrap(),
        }
    };
    transaction(&[("a", "1"), ("b", "1")], true);
    transaction(&[("a", "2")], true);
    transaction(&[("a", "3"), ("b", "2")], false);
    if cluster.embedded().is_none() {
        std::thread::sleep(Duration::from_millis(300));
    }
    transaction(&[("end", "1")], true);
    let left = ["1 b=1", "3 a=2", "8 end=1"].map(str::to_owned);

    if !compacts(&cluster, &topic, || read(&cluster, &topic, 0).0 == left) {
        return;
    }

    for from in 0..=8 {
        let expected = left.iter().filter(|text| text.split_once(' ').unwrap().0.parse::<i64>().unwrap() >= from);
        assert_eq!(read(&cluster, &topic, from), (expected.cloned().collect(), Some(10)), "from {from}");
    }
    assert_eq!(read(&cluster, &topic, 9), (vec![], Some(10)), "only a marker is left");
}

/// The highest record that is left lies far below the end: what came after it was aborted.
#[test]
fn a_recovery_ends_at_the_end_of_a_compacted_log_though_the_last_records_are_gone() {
    let cluster = Cluster::new("tail");
    let Some(embedded) = cluster.embedded() else { return };
    let topic = cluster.topic_with("t", 1, &[COMPACT, ("delete.retention.ms", "0")]);
    let plain = producer(&cluster);
    put(&plain, &topic, "a", Some("1"));
    for value in [Some("1"), None] {
        put(&plain, &topic, "b", value);
    }
    let aborting = transactional_producer(&cluster, &cluster.name("tx"));
    aborting.begin_transaction().unwrap();
    (0..5).for_each(|_| put(&aborting, &topic, "a", Some("aborted")));
    aborting.abort_transaction(LIMIT).unwrap();
    wait_until(|| {
        embedded.compact(&topic, 0).unwrap();
        read(&cluster, &topic, 0) == (vec!["0 a=1".to_owned()], Some(9))
    });
    assert_eq!(read(&cluster, &topic, 1), (vec![], Some(9)), "also from within the gap");

    // As recovery reads: until the position is where the high watermark was.
    let broker = RdkafkaBroker::new(ClientSettings::new(cluster.bootstrap())).unwrap();
    let mut reader = broker.reader().unwrap();
    let partition = TopicPartition::new(topic.as_str(), 0);
    let high = reader.watermarks(std::slice::from_ref(&partition), LIMIT).unwrap()[0].high;
    assert_eq!(high, Offset(9));
    reader.assign(&[(partition.clone(), Offset(0))]).unwrap();
    let mut records = 0;
    wait_until(|| {
        reader.poll(Duration::from_millis(50), &mut |_| records += 1).unwrap();
        reader.position(&partition).unwrap() == Some(high)
    });
    assert_eq!(records, 1);
}

#[test]
fn batches_of_every_codec_are_compacted() {
    let cluster = Cluster::new("codecs");
    if cluster.embedded().is_none() {
        // That Kafka compacts what is compressed needs no test of ours, and takes long.
        return;
    }
    for codec in ["gzip", "snappy", "lz4"] {
        let topic = cluster.topic_with(codec, 1, &[COMPACT]);
        let producer: Producer =
            client(&cluster).set("compression.codec", codec).set("linger.ms", "200").create().unwrap();
        let value = "value ".repeat(100);
        for number in 0..100 {
            let key = format!("{}", number % 3);
            producer.send(BaseRecord::to(&topic).partition(0).key(&key).payload(&value)).map_err(|(e, _)| e).unwrap();
        }
        producer.flush(LIMIT).unwrap();
        put(&producer, &topic, "end", None);
        assert!(compacts(&cluster, &topic, || true));
        let offsets: Vec<String> = read(&cluster, &topic, 0).0.iter().map(|text| text[..4].to_owned()).collect();
        assert_eq!(offsets, ["97 1", "98 2", "99 0", "100 "], "{codec}");
    }
}
