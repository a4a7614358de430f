//! A transactional id in new hands.

use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer as _;

use crate::clients::{
    COMMITTED, LIMIT, UNCOMMITTED, committed, consumer, fatal, fetch_committed, metadata_of, offset_of, send,
    sole_member, transact, transactional_producer, uninitialised_producer, values,
};
use crate::cluster::Cluster;

#[test]
fn d_a_second_producer_fences_the_first_and_only_its_records_are_seen() {
    let cluster = Cluster::new("d");
    let (topic, id) = (cluster.topic("t", 1), cluster.name("tx"));
    let first = transactional_producer(&cluster, &id);
    first.begin_transaction().unwrap();
    send(&first, &topic, 0, "open").unwrap();
    first.flush(LIMIT).unwrap();

    let second = transactional_producer(&cluster, &id);
    send(&first, &topic, 0, "zombie").unwrap();
    assert_eq!(fatal(first.commit_transaction(LIMIT)), RDKafkaErrorCode::Fenced);

    second.begin_transaction().unwrap();
    send(&second, &topic, 0, "second").unwrap();
    second.commit_transaction(LIMIT).unwrap();
    crate::clients::wait_until(|| values(&cluster, &topic, COMMITTED) == ["second"]);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a takeover is a matter of time")]
fn g_initialising_a_dead_owners_id_ends_its_transaction_at_once() {
    let cluster = Cluster::new("g");
    let (input, snapshots) = (cluster.topic("in", 1), cluster.topic("snapshots", 1));
    let (group, id) = (cluster.name("g"), cluster.name("tx"));
    let member = sole_member(&cluster, &group, &input, 1);
    let dead = transactional_producer(&cluster, &id);
    transact(&dead, &snapshots, &offset_of(&input, 0, 1), &metadata_of(&member)).unwrap();
    dead.begin_transaction().unwrap();
    send(&dead, &snapshots, 0, "open").unwrap();
    dead.flush(LIMIT).unwrap();
    dead.send_offsets_to_transaction(&offset_of(&input, 0, 2), &metadata_of(&member), LIMIT).unwrap();
    let held = fetch_committed(&cluster, &group, COMMITTED, (&input, 0), Duration::from_millis(500));
    assert!(held.is_err(), "the open transaction holds the stable offset back: {held:?}");

    let start = Instant::now();
    let successor = uninitialised_producer(&cluster, &id);
    successor.init_transactions(LIMIT).unwrap();
    assert_eq!(committed(&cluster, &group, &input, 0), Some(1));
    assert!(start.elapsed() < Duration::from_secs(30), "half of the transaction timeout");

    let end_for = |isolation| {
        let client = consumer(&cluster, &cluster.name("w"), isolation);
        client.fetch_watermarks(&snapshots, 0, LIMIT).unwrap().1
    };
    crate::clients::wait_until(|| end_for(COMMITTED) == 4);
    assert_eq!(end_for(UNCOMMITTED), 4, "two records, two markers");

    let fenced = dead.commit_transaction(LIMIT);
    assert!(matches!(&fenced, Err(KafkaError::Transaction(error)) if error.is_fatal()), "{fenced:?}");
    assert_eq!(committed(&cluster, &group, &input, 0), Some(1));
    transact(&successor, &snapshots, &offset_of(&input, 0, 3), &metadata_of(&member)).unwrap();
}
