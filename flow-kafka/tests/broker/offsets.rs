//! Offsets with metadata, and the stable fetch.

use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::Producer as _;

use crate::clients::{
    COMMITTED, LIMIT, UNCOMMITTED, abortable, fetch_committed, metadata_of, offset_of, sole_member,
    transactional_producer,
};
use crate::cluster::Cluster;

const NOTE: &str = "v1;tx=é;1700000000123";

#[test]
fn f_metadata_travels_with_offsets_and_a_stable_fetch_waits_for_pending_ones() {
    let cluster = Cluster::new("f");
    let (topic, group) = (cluster.topic("t", 2), cluster.name("g"));
    let member = sole_member(&cluster, &group, &topic, 2);
    let producer = transactional_producer(&cluster, &cluster.name("tx"));
    let begin_with = |offset, note: &str| {
        let offsets = offset_of(&topic, 0, offset);
        offsets.find_partition(&topic, 0).unwrap().set_metadata(note);
        producer.begin_transaction().unwrap();
        producer.send_offsets_to_transaction(&offsets, &metadata_of(&member), LIMIT)
    };
    let fetch = |isolation, partition, limit| fetch_committed(&cluster, &group, isolation, (&topic, partition), limit);
    let noted = Some((5, NOTE.to_owned()));

    begin_with(5, NOTE).unwrap();
    producer.commit_transaction(LIMIT).unwrap();
    assert_eq!(fetch(COMMITTED, 0, LIMIT).unwrap(), noted);

    begin_with(9, "pending").unwrap();
    assert_eq!(fetch(UNCOMMITTED, 0, LIMIT).unwrap(), noted, "a plain fetch gives the offset before");
    assert!(fetch(COMMITTED, 0, Duration::from_millis(500)).is_err(), "a stable fetch waits");
    assert_eq!(fetch(COMMITTED, 1, LIMIT).unwrap(), None, "another partition is free");
    producer.abort_transaction(LIMIT).unwrap();
    assert_eq!(fetch(COMMITTED, 0, LIMIT).unwrap(), noted);

    assert_eq!(abortable(begin_with(6, &"m".repeat(4097))), RDKafkaErrorCode::OffsetMetadataTooLarge);
    producer.abort_transaction(LIMIT).unwrap();
    assert_eq!(fetch(COMMITTED, 0, LIMIT).unwrap(), noted);
}
