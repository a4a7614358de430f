//! Watermarks, the last stable offset, positions over markers and the end of a partition: what recovery stands on.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;

use crate::clients::{
    COMMITTED, LIMIT, UNCOMMITTED, consumer, consumer_config, offset_of, position, producer, send,
    transactional_producer, wait_until,
};
use crate::cluster::Cluster;

#[test]
fn j_positions_pass_markers_and_committed_readers_end_at_the_last_stable_offset() {
    let cluster = Cluster::new("j");
    let topic = cluster.topic("t", 1);
    let producer_of_transactions = transactional_producer(&cluster, &cluster.name("tx"));
    let begin_with = |values: &[&str]| {
        producer_of_transactions.begin_transaction().unwrap();
        values.iter().for_each(|value| send(&producer_of_transactions, &topic, 0, value).unwrap());
        producer_of_transactions.flush(LIMIT).unwrap();
    };
    let end_for = |isolation| {
        let client = consumer(&cluster, &cluster.name("w"), isolation);
        client.fetch_watermarks(&topic, 0, LIMIT).unwrap().1
    };
    let read = |from| read_to_end_of_partition(&cluster, &topic, from);

    begin_with(&["1", "2"]);
    producer_of_transactions.commit_transaction(LIMIT).unwrap();
    begin_with(&["3", "4"]);
    producer_of_transactions.abort_transaction(LIMIT).unwrap();
    wait_until(|| end_for(COMMITTED) == 6);
    assert_eq!(end_for(UNCOMMITTED), 6);
    assert_eq!(read(0), (2, Some(6)), "the position passes aborted records and both markers");
    assert_eq!(read(5), (0, Some(6)), "also where only a marker is left");
    assert_eq!(read(6), (0, None), "at the end there is nothing to pass");

    begin_with(&["open"]);
    let plain = producer(&cluster);
    send(&plain, &topic, 0, "plain").unwrap();
    plain.flush(LIMIT).unwrap();
    assert_eq!((end_for(COMMITTED), end_for(UNCOMMITTED)), (6, 8));
    assert_eq!(read(0), (2, Some(6)));

    producer_of_transactions.abort_transaction(LIMIT).unwrap();
    wait_until(|| end_for(COMMITTED) == 9);
    assert_eq!(read(0), (3, Some(9)), "the record behind the aborted transaction appears");
}

/// How many records there are from an offset to the end of the partition, as a committed reader sees it, and the position there.
fn read_to_end_of_partition(cluster: &Cluster, topic: &str, from: i64) -> (usize, Option<i64>) {
    let mut config = consumer_config(cluster, &cluster.name("r"), COMMITTED);
    let reader: BaseConsumer = config.set("enable.partition.eof", "true").create().unwrap();
    reader.assign(&offset_of(topic, 0, from)).unwrap();
    let mut records = 0;
    wait_until(|| match reader.poll(Duration::from_millis(20)) {
        Some(Err(KafkaError::PartitionEOF(_))) => true,
        Some(Ok(_)) => {
            records += 1;
            false
        }
        Some(Err(error)) => panic!("{error}"),
        None => false,
    });
    (records, position(&reader))
}
