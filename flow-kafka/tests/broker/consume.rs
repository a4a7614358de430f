//! Topics, plain producers and groups.

use std::time::Duration;

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::producer::Producer as _;

use crate::clients::{COMMITTED, LIMIT, committed, consumer, producer, send, wait_until};
use crate::cluster::Cluster;

#[test]
fn a_a_group_consumes_what_was_produced_and_commits_its_place() {
    let cluster = Cluster::new("a");
    let (topic, group) = (cluster.topic("t", 2), cluster.name("g"));
    let producer = producer(&cluster);
    for i in 0..10 {
        send(&producer, &topic, i % 2, &format!("v{i}")).unwrap();
    }
    producer.flush(LIMIT).unwrap();
    let member = consumer(&cluster, &group, COMMITTED);
    member.subscribe(&[&topic]).unwrap();
    let mut records = 0;
    let mut next = || {
        records += usize::from(matches!(member.poll(Duration::from_millis(20)), Some(Ok(_))));
        records
    };

    wait_until(|| next() == 10);
    member.commit_consumer_state(CommitMode::Sync).unwrap();

    assert_eq!([0, 1].map(|partition| committed(&cluster, &group, &topic, partition)), [Some(5), Some(5)]);
    assert_eq!(member.fetch_watermarks(&topic, 0, LIMIT).unwrap(), (0, 5));

    send(&producer, &topic, 0, "late").unwrap();
    wait_until(|| next() == 11);
}
