//! Fencing, markers, the last stable offset, timeouts, the stable fetch.

use std::time::Duration;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::InitProducerIdRequest;

use super::requests::*;
use super::{Broker, Options};

/// A producer inside a transaction that has written `records` to the topic "t".
fn in_transaction(broker: &mut Broker, records: usize) -> Producer {
    let producer = broker.init();
    assert_eq!(broker.add_partition(producer, "t"), 0);
    assert_eq!(broker.produce("t", producer, 0, records).0, 0);
    producer
}

fn broker_with_topic() -> Broker {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    broker
}

#[test]
fn an_open_transaction_holds_back_everything_behind_it() {
    let mut broker = broker_with_topic();
    broker.produce("t", PLAIN, 0, 1);
    let producer = in_transaction(&mut broker, 2);
    broker.produce("t", PLAIN, 0, 1);
    assert_eq!((broker.offset("t", LATEST, COMMITTED), broker.offset("t", LATEST, UNCOMMITTED)), (1, 4));
    assert!(broker.fetch("t", 1, COMMITTED).records.unwrap().is_empty());

    assert_eq!(broker.end(producer, true), 0);
    assert_eq!((broker.offset("t", LATEST, COMMITTED), broker.offset("t", LATEST, UNCOMMITTED)), (5, 5));
}

#[test]
fn readers_are_told_which_transactions_were_aborted_and_only_those_in_their_range() {
    let mut broker = broker_with_topic();
    let producer = in_transaction(&mut broker, 2); // 0, 1
    broker.end(producer, false); // 2
    broker.add_partition(producer, "t");
    broker.produce("t", producer, 2, 1); // 3
    broker.end(producer, true); // 4
    broker.add_partition(producer, "t");
    broker.produce("t", producer, 3, 1); // 5
    broker.end(producer, false); // 6

    let mut aborted = |from| {
        let list = broker.fetch("t", from, COMMITTED).aborted_transactions.unwrap();
        list.iter().map(|aborted| aborted.first_offset).collect::<Vec<_>>()
    };
    assert_eq!(aborted(0), [0, 5]);
    assert_eq!(aborted(2), [0, 5], "the marker belongs to it");
    assert_eq!(aborted(3), [5]);
    assert_eq!(aborted(7), [] as [i64; 0]);
    assert_eq!(broker.fetch("t", 0, UNCOMMITTED).aborted_transactions, None);
}

#[test]
fn a_successor_aborts_the_open_transaction_and_fences_its_producer_everywhere() {
    let mut broker = broker_with_topic();
    let first = in_transaction(&mut broker, 1);
    let second = broker.init();
    assert_eq!(
        (second.id, second.epoch),
        (first.id, first.epoch + 2),
        "one epoch for the abort, one for the successor"
    );
    assert_eq!(broker.offset("t", LATEST, COMMITTED), 2);

    let fenced = ResponseError::ProducerFenced.code();
    assert_eq!(broker.add_partition(first, "t"), fenced);
    assert_eq!(broker.add_offsets(first, "g"), fenced);
    assert_eq!(broker.end(first, true), fenced);
    let by_its_older_name = ResponseError::InvalidProducerEpoch.code();
    assert_eq!(broker.produce("t", first, 1, 1).0, by_its_older_name);
    assert_eq!(broker.commit_offset(first, ("g", -1, ""), "t", 1), by_its_older_name);
}

#[test]
fn a_producer_raises_its_epoch_and_may_ask_twice() {
    let mut broker = broker_with_topic();
    let first = broker.init();
    let mut raise = |known| {
        let response = broker.ask(init_request(Some(known)), 4);
        (response.error_code, response.producer_epoch)
    };
    assert_eq!(raise(first), (0, 1));
    assert_eq!(raise(first), (0, 1), "the first answer was lost");
    assert_eq!(raise(Producer { epoch: 1, ..first }), (0, 2));
    assert_eq!(raise(first).0, ResponseError::ProducerFenced.code());
    assert_eq!(raise(Producer { id: 99, epoch: 2, ..first }).0, ResponseError::ProducerFenced.code());
}

#[test]
fn an_id_that_has_used_up_its_epochs_gets_a_new_producer_id() {
    let mut broker = broker_with_topic();
    let mut producer = broker.init();
    let first_id = producer.id;
    for _ in 0..i16::MAX - 1 {
        producer = broker.init();
    }
    assert_eq!((producer.id, producer.epoch), (first_id, i16::MAX - 1));
    producer = broker.init();
    assert_ne!(producer.id, first_id);
    assert_eq!(producer.epoch, 0);
}

#[test]
fn an_end_may_be_repeated_but_not_turned_around() {
    let mut broker = broker_with_topic();
    let producer = in_transaction(&mut broker, 1);
    assert_eq!(broker.end(producer, true), 0);
    assert_eq!(broker.end(producer, true), 0, "the first answer was lost");
    assert_eq!(broker.end(producer, false), ResponseError::InvalidTxnState.code());
    assert_eq!(broker.offset("t", LATEST, UNCOMMITTED), 2, "one marker");
}

#[test]
fn a_transaction_ends_at_the_first_look_after_its_timeout_and_its_producer_is_fenced() {
    let mut broker = broker_with_topic();
    broker.now = 1_700_000_001_000;
    let producer = in_transaction(&mut broker, 1);
    broker.pass(38_999);
    assert_eq!(broker.offset("t", LATEST, COMMITTED), 0, "30 s are over, the next look comes every 10 s");
    broker.pass(1);
    assert_eq!(broker.offset("t", LATEST, COMMITTED), 2);
    assert_eq!(broker.end(producer, true), ResponseError::ProducerFenced.code());
    assert_eq!(broker.machine.next_deadline(), None, "no more looks without open transactions");
    let again = broker.ask(init_request(Some(producer)), 4);
    assert_eq!((again.error_code, again.producer_epoch), (0, 1), "it can go on with a new epoch");
}

#[test]
fn how_often_timeouts_are_looked_at_can_be_chosen() {
    let options = Options { transaction_check_interval: Duration::from_millis(100), ..Options::default() };
    let mut broker = Broker::with(options);
    broker.create("t", &[]);
    in_transaction(&mut broker, 1);
    broker.pass(30_000);
    assert_eq!(broker.offset("t", LATEST, COMMITTED), 0);
    broker.pass(100);
    assert_eq!(broker.offset("t", LATEST, COMMITTED), 2);
}

#[test]
fn pending_offsets_make_a_stable_fetch_wait_and_appear_with_the_commit_only() {
    let mut broker = broker_with_topic();
    let (member, generation) = broker.sole_member("g");
    let producer = broker.init();
    for (commit, offset, seen) in [(true, 5, 5), (false, 9, 5)] {
        assert_eq!(broker.add_offsets(producer, "g"), 0);
        assert_eq!(broker.commit_offset(producer, ("g", generation, &member), "t", offset), 0);
        assert_eq!(broker.stable_offset("g", "t").0, ResponseError::UnstableOffsetCommit.code());
        assert_eq!(broker.end(producer, commit), 0);
        assert_eq!(broker.stable_offset("g", "t"), (0, seen));
    }
}

#[test]
fn offsets_need_an_open_transaction_that_knows_the_group() {
    let mut broker = broker_with_topic();
    let producer = broker.init();
    let refused = ResponseError::InvalidTxnState.code();
    assert_eq!(broker.commit_offset(producer, ("g", -1, ""), "t", 1), refused);
    broker.add_offsets(producer, "other");
    assert_eq!(broker.commit_offset(producer, ("g", -1, ""), "t", 1), refused);
    broker.add_offsets(producer, "g");
    assert_eq!(broker.commit_offset(producer, ("g", -1, ""), "t", 1), 0);
    assert_eq!(
        broker.commit_offset(producer, ("g", -1, ""), "missing", 1),
        ResponseError::UnknownTopicOrPartition.code()
    );
}

#[test]
fn the_fence_lets_pass_the_generation_and_a_sender_that_names_none() {
    let mut broker = broker_with_topic();
    let (member, generation) = broker.sole_member("g");
    let producer = broker.init();
    broker.add_offsets(producer, "g");
    let mut commit = |generation, member: &str| broker.commit_offset(producer, ("g", generation, member), "t", 1);
    let illegal = ResponseError::IllegalGeneration.code();
    let unknown = ResponseError::UnknownMemberId.code();
    assert_eq!(commit(generation, &member), 0);
    assert_eq!(commit(generation - 1, &member), illegal);
    assert_eq!(commit(generation + 1, &member), illegal);
    assert_eq!(commit(-1, &member), illegal);
    assert_eq!(commit(generation, "nobody"), unknown);
    assert_eq!(commit(generation, ""), unknown);
    assert_eq!(commit(-1, ""), 0);
}

#[test]
fn the_switch_lets_a_fenced_owner_overwrite_its_successor() {
    let mut broker = Broker::with(Options { ignore_fences: true, ..Options::default() });
    broker.create("t", &[]);
    let (member, generation) = broker.sole_member("g");
    let stale = in_transaction(&mut broker, 1);
    let successor = broker.init();
    broker.add_offsets(successor, "g");
    broker.commit_offset(successor, ("g", generation, &member), "t", 9);
    assert_eq!(broker.end(successor, true), 0);

    assert_eq!(broker.add_partition(stale, "t"), 0);
    assert_eq!(broker.produce("t", stale, 1, 1).0, 0);
    assert_eq!(broker.add_offsets(stale, "g"), 0);
    assert_eq!(broker.commit_offset(stale, ("g", generation - 1, "gone"), "t", 2), 0);
    assert_eq!(broker.end(stale, true), 0);
    assert_eq!(broker.stable_offset("g", "t"), (0, 2), "that is the corruption that the fences prevent");
}

#[test]
fn a_topic_that_is_deleted_inside_a_transaction_does_not_stop_its_end() {
    let mut broker = broker_with_topic();
    let producer = in_transaction(&mut broker, 1);
    let request = kafka_protocol::messages::DeleteTopicsRequest::default().with_topic_names(vec![topic_name("t")]);
    broker.ask(request, 4);
    assert_eq!(broker.end(producer, true), 0);
}

#[test]
fn nonsense_in_place_of_a_producer_is_refused() {
    let mut broker = broker_with_topic();
    let stranger = Producer { id: 7, epoch: 0, transactional: true };
    assert_eq!(broker.end(stranger, true), ResponseError::InvalidProducerIdMapping.code());
    assert_eq!(broker.produce("t", stranger, 0, 1).0, ResponseError::InvalidProducerIdMapping.code());
    let mut init = |request: InitProducerIdRequest| broker.ask(request, 4).error_code;
    assert_eq!(
        init(init_request(None).with_transaction_timeout_ms(0)),
        ResponseError::InvalidTransactionTimeout.code()
    );
    assert_eq!(
        init(init_request(None).with_transactional_id(Some(Default::default()))),
        ResponseError::InvalidRequest.code()
    );
}

#[test]
fn the_same_requests_at_the_same_times_give_the_same_replies() {
    let run = || {
        let mut broker = broker_with_topic();
        let mut replies = vec![];
        for request in 0..50 {
            let producer = broker.init();
            broker.add_partition(producer, "t");
            broker.produce("t", producer, 0, 1);
            broker.post(join_request("g", "", None), 5);
            broker.post(join_request(&format!("g{request}"), "", None), 3);
            broker.pass(700);
            replies.append(&mut broker.arrived);
        }
        replies
    };
    assert_eq!(run(), run());
}
