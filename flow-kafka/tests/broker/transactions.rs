//! What readers see of transactions.

use rdkafka::producer::Producer as _;

use crate::clients::{
    COMMITTED, LIMIT, Producer, UNCOMMITTED, await_markers, producer, send, transactional_producer, values,
};
use crate::cluster::Cluster;

#[test]
fn b_readers_of_committed_records_see_no_aborted_and_no_open_transaction() {
    let cluster = Cluster::new("b");
    let topic = cluster.topic("t", 1);
    let producer = transactional_producer(&cluster, &cluster.name("tx"));
    write(&producer, &topic, &["c1", "c2", "c3"]);
    producer.commit_transaction(LIMIT).unwrap();
    write(&producer, &topic, &["x1", "x2", "x3"]);
    producer.abort_transaction(LIMIT).unwrap();
    write(&producer, &topic, &["c4", "c5"]);
    producer.commit_transaction(LIMIT).unwrap();
    await_markers(&cluster, &topic, 0);

    assert_eq!(values(&cluster, &topic, COMMITTED), ["c1", "c2", "c3", "c4", "c5"]);
    assert_eq!(values(&cluster, &topic, UNCOMMITTED), ["c1", "c2", "c3", "x1", "x2", "x3", "c4", "c5"]);

    write(&producer, &topic, &["open"]);
    write_plain(&cluster, &topic, "behind");
    let held = values(&cluster, &topic, COMMITTED);
    assert_eq!(held, ["c1", "c2", "c3", "c4", "c5"], "the open transaction holds back what is behind it");

    producer.commit_transaction(LIMIT).unwrap();
    await_markers(&cluster, &topic, 0);
    assert_eq!(values(&cluster, &topic, COMMITTED), ["c1", "c2", "c3", "c4", "c5", "open", "behind"]);
}

fn write(producer: &Producer, topic: &str, values: &[&str]) {
    producer.begin_transaction().unwrap();
    for value in values {
        send(producer, topic, 0, value).unwrap();
    }
    producer.flush(LIMIT).unwrap();
}

fn write_plain(cluster: &Cluster, topic: &str, value: &str) {
    let producer = producer(cluster);
    send(&producer, topic, 0, value).unwrap();
    producer.flush(LIMIT).unwrap();
}
