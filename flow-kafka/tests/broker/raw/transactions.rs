//! Transactions, and what fences them.

use super::code;
use super::group::Member;
use super::producer::{Producer, Sender};
use crate::cluster::Cluster;

#[test]
fn a_transactional_batch_is_refused_before_its_partition_is_added() {
    let cluster = Cluster::new("verify");
    let topic = cluster.topic("t", 2);
    let mut wire = cluster.connect();
    let producer = Producer::transactional(&mut wire, &cluster.name("tx"));

    assert_eq!(producer.produce(&mut wire, &topic, 0, 0, 1).0, code::INVALID_TXN_STATE);
    assert_eq!(producer.add_partition(&mut wire, &topic, 0), code::NONE);
    assert_eq!(producer.produce(&mut wire, &topic, 0, 0, 1).0, code::NONE);
}

#[test]
fn offsets_in_a_transaction_are_fenced_by_generation_and_member_and_pending_until_its_end() {
    let cluster = Cluster::new("offsets");
    let (topic, group) = (cluster.topic("t", 2), cluster.name("g"));
    let mut wire = cluster.connect();
    let mut members_wire = cluster.connect();
    let mut member = Member::join(&mut members_wire, &group, &topic);
    let id = member.id.to_string();
    let right = Sender { group: &group, generation: member.generation, member: &id };
    let producer = Producer::transactional(&mut wire, &cluster.name("tx"));
    assert_eq!(producer.add_partition(&mut wire, &topic, 0), code::NONE);
    assert_eq!(producer.add_offsets(&mut wire, &group), code::NONE);

    let mut commit = |from: Sender<'_>, offset| producer.commit_offset(&mut wire, from, &topic, offset);
    assert_eq!(commit(Sender { generation: right.generation + 5, ..right }, 7), code::ILLEGAL_GENERATION);
    assert_eq!(commit(Sender { generation: right.generation - 1, ..right }, 7), code::ILLEGAL_GENERATION);
    assert_eq!(commit(Sender { member: "nobody", ..right }, 7), code::UNKNOWN_MEMBER_ID);
    assert_eq!(commit(right, 4), code::NONE);

    assert_eq!(member.stable_offset().0, code::UNSTABLE_OFFSET_COMMIT);
    let wrong = Producer { epoch: 7, ..producer.clone() };
    assert!(code::FENCED.contains(&wrong.end(&mut wire, true)));
    assert_eq!(producer.end(&mut wire, true), code::NONE);
    assert_eq!(stable_offset_in_the_end(&mut member), 4);
}

#[test]
fn offsets_of_nobody_in_particular_pass_the_fence_of_a_live_group() {
    let cluster = Cluster::new("nobody");
    let (topic, group) = (cluster.topic("t", 2), cluster.name("g"));
    let mut wire = cluster.connect();
    let mut members_wire = cluster.connect();
    let mut member = Member::join(&mut members_wire, &group, &topic);
    let producer = Producer::transactional(&mut wire, &cluster.name("tx"));
    assert_eq!(producer.add_offsets(&mut wire, &group), code::NONE);

    // This is why the client's side must refuse an unknown generation: the broker does not.
    let nobody = Sender { group: &group, generation: -1, member: "" };
    assert_eq!(producer.commit_offset(&mut wire, nobody, &topic, 5), code::NONE);
    assert_eq!(producer.end(&mut wire, true), code::NONE);
    assert_eq!(stable_offset_in_the_end(&mut member), 5);
}

#[test]
fn a_second_producer_fences_every_request_of_the_first() {
    let cluster = Cluster::new("fenced");
    let (topic, group, id) = (cluster.topic("t", 2), cluster.name("g"), cluster.name("tx"));
    let mut wire = cluster.connect();
    let mut members_wire = cluster.connect();
    let member = Member::join(&mut members_wire, &group, &topic);
    let member_id = member.id.to_string();
    let from = Sender { group: &group, generation: member.generation, member: &member_id };
    let first = Producer::transactional(&mut wire, &id);
    assert_eq!(first.add_partition(&mut wire, &topic, 0), code::NONE);
    assert_eq!(first.end(&mut wire, true), code::NONE);

    let second = Producer::transactional(&mut wire, &id);
    assert_eq!((second.id, second.epoch), (first.id, first.epoch + 1));

    assert!(code::FENCED.contains(&first.add_partition(&mut wire, &topic, 0)));
    assert!(code::FENCED.contains(&first.add_offsets(&mut wire, &group)));
    assert_eq!(first.produce(&mut wire, &topic, 0, 0, 1).0, code::INVALID_PRODUCER_EPOCH);
    assert!(code::FENCED.contains(&first.commit_offset(&mut wire, from, &topic, 9)));
    assert!(code::FENCED.contains(&first.end(&mut wire, true)));
}

#[test]
fn a_producer_may_raise_its_own_epoch_but_not_a_successors() {
    let cluster = Cluster::new("bump");
    let mut wire = cluster.connect();
    let id = cluster.name("tx");
    let first = Producer::transactional(&mut wire, &id);
    let second = Producer::transactional(&mut wire, &id);

    assert_eq!(first.init(&mut wire).unwrap_err(), code::PRODUCER_FENCED);
    let raised = second.init(&mut wire).unwrap();
    assert_eq!((raised.id, raised.epoch), (second.id, second.epoch + 1));
}

#[test]
fn a_producer_that_raises_its_epoch_inside_a_transaction_aborts_it() {
    let cluster = Cluster::new("bump-inside");
    let topic = cluster.topic("t", 1);
    let mut wire = cluster.connect();
    let producer = Producer::transactional(&mut wire, &cluster.name("tx"));
    assert_eq!(producer.add_partition(&mut wire, &topic, 0), code::NONE);
    assert_eq!(producer.produce(&mut wire, &topic, 0, 0, 1).0, code::NONE);

    let raised = producer.init(&mut wire).unwrap();
    assert_eq!((raised.id, raised.epoch), (producer.id, producer.epoch + 1));
    assert_eq!(producer.init(&mut wire).unwrap().epoch, raised.epoch, "the first answer may have been lost");
    assert!(code::FENCED.contains(&producer.end(&mut wire, true)));
    assert_eq!(raised.end(&mut wire, true), code::INVALID_TXN_STATE, "there is none any more");
}

#[test]
fn a_stale_producer_that_raises_its_epoch_is_refused_but_aborts_its_successors_transaction() {
    let cluster = Cluster::new("bump-stale");
    let topic = cluster.topic("t", 1);
    let mut wire = cluster.connect();
    let first = Producer::transactional(&mut wire, &cluster.name("tx"));
    assert_eq!(first.add_partition(&mut wire, &topic, 0), code::NONE);
    let second = Producer::transactional(&mut wire, &cluster.name("tx"));
    assert_eq!(second.epoch, first.epoch + 2, "one for the abort, one for the successor");
    assert_eq!(second.add_partition(&mut wire, &topic, 0), code::NONE);

    assert_eq!(first.init(&mut wire).unwrap_err(), code::PRODUCER_FENCED);
    assert!(code::FENCED.contains(&second.end(&mut wire, true)));
    assert_eq!(second.init(&mut wire).unwrap().epoch, second.epoch + 1, "it can go on, with a new transaction");
}

/// The stable offset once the markers are written: a real broker writes them after it has answered.
#[allow(clippy::disallowed_methods, reason = "a real broker needs real time")]
fn stable_offset_in_the_end(member: &mut Member<'_>) -> i64 {
    for _ in 0..100 {
        match member.stable_offset() {
            (code::UNSTABLE_OFFSET_COMMIT, _) => std::thread::sleep(std::time::Duration::from_millis(50)),
            (error, offset) => {
                assert_eq!(error, code::NONE);
                return offset;
            }
        }
    }
    panic!("the offset is still pending");
}
