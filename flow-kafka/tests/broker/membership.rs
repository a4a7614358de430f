//! How partitions move between members.

use std::time::Duration;

use rdkafka::Offset;
use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::Producer as _;

use crate::clients::{
    COMMITTED, LIMIT, abortable, client, committed, consumer_config, metadata_of, offset_of, owned, poll_until,
    producer, send, transact, transactional_producer, wait_until,
};
use crate::cluster::Cluster;

#[test]
fn e_cooperative_members_share_and_deleted_records_are_gone() {
    let cluster = Cluster::new("e");
    let (topic, group) = (cluster.topic("t", 4), cluster.name("g"));
    let plain = producer(&cluster);
    for i in 0..8 {
        send(&plain, &topic, i % 4, "v").unwrap();
    }
    plain.flush(LIMIT).unwrap();
    let member = || -> BaseConsumer {
        let mut config = consumer_config(&cluster, &group, COMMITTED);
        let member: BaseConsumer = config.set("partition.assignment.strategy", "cooperative-sticky").create().unwrap();
        member.subscribe(&[&topic]).unwrap();
        member
    };
    let first = member();
    poll_until(&[&first], || owned(&first).len() == 4);
    let second = member();
    poll_until(&[&first, &second], || owned(&first).len() == 2 && owned(&second).len() == 2);

    delete_records(&cluster, &topic, 0, 1);
    assert_eq!(first.fetch_watermarks(&topic, 0, LIMIT).unwrap(), (1, 2));
}

#[test]
fn m_the_newer_of_two_static_members_wins_at_once() {
    let cluster = Cluster::new("m");
    let (input, output, group) = (cluster.topic("in", 2), cluster.topic("out", 1), cluster.name("g"));
    let member = || -> BaseConsumer {
        let mut config = consumer_config(&cluster, &group, COMMITTED);
        let member: BaseConsumer = config.set("group.instance.id", "instance").create().unwrap();
        member.subscribe(&[&input]).unwrap();
        poll_until(&[&member], || owned(&member).len() == 2);
        member
    };
    let older = member();
    let stale = metadata_of(&older);
    let newer = member();
    let producer = transactional_producer(&cluster, &cluster.name("tx"));

    let refused = transact(&producer, &output, &offset_of(&input, 0, 7), &stale);
    assert_eq!(abortable(refused), RDKafkaErrorCode::FencedInstanceId);
    transact(&producer, &output, &offset_of(&input, 0, 1), &metadata_of(&newer)).unwrap();
    assert_eq!(committed(&cluster, &group, &input, 0), Some(1));

    wait_until(|| {
        drop(older.poll(Duration::from_millis(20)));
        older.client().fatal_error().is_some()
    });
    let (code, _) = older.client().fatal_error().unwrap();
    assert_eq!(code, RDKafkaErrorCode::FencedInstanceId);
}

fn delete_records(cluster: &Cluster, topic: &str, partition: i32, before: i64) {
    let admin: AdminClient<DefaultClientContext> = client(cluster).create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(before)).unwrap();
    let options = AdminOptions::new().request_timeout(Some(LIMIT));
    let deleted = futures::executor::block_on(admin.delete_records(&list, &options)).unwrap();
    deleted.elements()[0].error().unwrap();
}
