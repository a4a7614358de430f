//! How long a group's offsets are kept.

use std::time::Duration;

use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::*;

use super::Broker;
use super::requests::*;
use crate::embedded::Options;

const RETENTION: i64 = 60_000;
const CHECK: i64 = 1_000;
/// What a fetch answers for a partition without an offset.
const NONE: (i16, i64) = (0, -1);

fn broker() -> Broker {
    let mut broker = Broker::with(Options {
        offsets_retention: Duration::from_millis(RETENTION as u64),
        offsets_check_interval: Duration::from_millis(CHECK as u64),
        ..Options::default()
    });
    broker.create("t", &[]);
    broker.create("u", &[]);
    broker
}

fn commit(broker: &mut Broker, group: (&str, i32, &str), topic: &str, offset: i64) {
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group_id(group.0))
        .with_generation_id_or_member_epoch(group.1)
        .with_member_id(group.2.to_owned().into())
        .with_topics(vec![topic]);
    assert_eq!(broker.ask(request, 7).topics[0].partitions[0].error_code, 0);
}

/// Keeps a member alive for so long.
fn live(broker: &mut Broker, group: &str, generation: i32, member: &str, millis: i64) {
    for _ in 0..millis / 5_000 {
        broker.pass(5_000);
        assert_eq!(broker.ask(heartbeat_request(group, generation, member), 3).error_code, 0);
    }
}

#[test]
fn offsets_of_a_group_are_kept_while_it_has_members_and_for_the_retention_after_that() {
    let mut broker = broker();
    let (member, generation) = broker.sole_member("g");
    commit(&mut broker, ("g", generation, &member), "t", 7);
    live(&mut broker, "g", generation, &member, 3 * RETENTION);
    assert_eq!(broker.stable_offset("g", "t"), (0, 7), "however old its commit is");
    // Its session ends 10 s after its last heartbeat; from then on it counts.
    broker.pass(10_000 + RETENTION - CHECK);
    assert_eq!(broker.stable_offset("g", "t"), (0, 7));
    broker.pass(3 * CHECK);
    assert_eq!(broker.stable_offset("g", "t"), NONE);
    assert_eq!(broker.ask(ListGroupsRequest::default(), 0).groups.len(), 0, "nothing of it is left");
}

#[test]
fn a_group_that_comes_back_in_time_keeps_its_offsets() {
    let mut broker = broker();
    let (member, generation) = broker.sole_member("g");
    commit(&mut broker, ("g", generation, &member), "t", 7);
    broker.pass(10_000 + RETENTION / 2);
    let (member, generation) = broker.sole_member("g");
    live(&mut broker, "g", generation, &member, 2 * RETENTION);
    assert_eq!(broker.stable_offset("g", "t"), (0, 7));
}

#[test]
fn offsets_of_a_group_that_never_had_a_member_expire_each_by_its_own_age() {
    let mut broker = broker();
    commit(&mut broker, ("g", -1, ""), "t", 7);
    broker.pass(RETENTION / 2);
    commit(&mut broker, ("g", -1, ""), "u", 8);
    broker.pass(RETENTION / 2 + 2 * CHECK);
    assert_eq!((broker.stable_offset("g", "t"), broker.stable_offset("g", "u")), (NONE, (0, 8)));
    broker.pass(RETENTION / 2);
    assert_eq!(broker.stable_offset("g", "u"), NONE);
}

#[test]
fn an_offset_that_a_transaction_is_about_to_move_does_not_expire() {
    let mut broker = broker();
    commit(&mut broker, ("g", -1, ""), "t", 7);
    broker.pass(RETENTION - CHECK);
    let producer = broker.init();
    broker.add_offsets(producer, "g");
    assert_eq!(broker.commit_offset(producer, ("g", -1, ""), "t", 9), 0);
    broker.pass(5 * CHECK);
    assert_eq!(broker.end(producer, false), 0);
    assert_eq!(broker.stable_offset("g", "t"), (0, 7));
    broker.pass(2 * CHECK);
    assert_eq!(broker.stable_offset("g", "t"), NONE, "it was old enough");
    // What a transaction commits counts from there.
    broker.add_offsets(producer, "g");
    assert_eq!(broker.commit_offset(producer, ("g", -1, ""), "t", 9), 0);
    assert_eq!(broker.end(producer, true), 0);
    broker.pass(RETENTION - CHECK);
    assert_eq!(broker.stable_offset("g", "t"), (0, 9));
    broker.pass(3 * CHECK);
    assert_eq!(broker.stable_offset("g", "t"), NONE);
}
