//! The group's generation as the fence around a transaction's offsets (KIP-447).

use std::cell::OnceCell;
use std::sync::Mutex;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::Producer as _;

use crate::clients::{
    COMMITTED, LIMIT, Producer, abortable, committed, consumer, consumer_config, metadata_of, offset_of, owned,
    poll_until, send, sole_member, transact, transactional_producer, wait_until,
};
use crate::cluster::Cluster;
use crate::raw::group::member_ids;
use crate::raw::producer::{Producer as RawProducer, Sender};

#[test]
fn c_offsets_commit_with_a_transaction_of_a_member_and_are_refused_from_a_former_one() {
    let cluster = Cluster::new("c");
    let (input, output, group) = (cluster.topic("in", 2), cluster.topic("out", 1), cluster.name("g"));
    let first = sole_member(&cluster, &group, &input, 2);
    let producer = transactional_producer(&cluster, &cluster.name("tx"));
    let stale = metadata_of(&first);

    transact(&producer, &output, &offset_of(&input, 0, 3), &stale).unwrap();
    assert_eq!(committed(&cluster, &group, &input, 0), Some(3));

    producer.begin_transaction().unwrap();
    send(&producer, &output, 0, "aborted").unwrap();
    producer.send_offsets_to_transaction(&offset_of(&input, 0, 7), &stale, LIMIT).unwrap();
    producer.abort_transaction(LIMIT).unwrap();
    assert_eq!(committed(&cluster, &group, &input, 0), Some(3), "an aborted transaction moves no offset");

    let second = consumer(&cluster, &group, COMMITTED);
    second.subscribe(&[&input]).unwrap();
    poll_until(&[&first, &second], || owned(&first).len() == 1 && owned(&second).len() == 1);
    let refused = transact(&producer, &output, &offset_of(&input, 0, 9), &stale);
    assert_eq!(abortable(refused), RDKafkaErrorCode::IllegalGeneration);
    assert_eq!(committed(&cluster, &group, &input, 0), Some(3));

    let fresh = metadata_of(&first);
    transact(&producer, &output, &offset_of(&input, 0, 5), &fresh).unwrap();
    assert_eq!(committed(&cluster, &group, &input, 0), Some(5));

    first.unsubscribe();
    poll_until(&[&first, &second], || owned(&second).len() == 2);
    let refused = transact(&producer, &output, &offset_of(&input, 0, 11), &fresh);
    assert_eq!(abortable(refused), RDKafkaErrorCode::UnknownMemberId);
    assert_eq!(committed(&cluster, &group, &input, 0), Some(5));
}

#[test]
fn h_range_fences_a_generation_that_is_over_and_lets_a_revoke_commit() {
    commits_at_the_fence("h-range", "range");
}

#[test]
fn h_cooperative_fences_a_generation_that_is_over_and_lets_a_revoke_commit() {
    commits_at_the_fence("h-cooperative", "cooperative-sticky");
}

fn commits_at_the_fence(test: &str, strategy: &str) {
    let cluster = Cluster::new(test);
    let (input, output, group) = (cluster.topic("in", 4), cluster.topic("out", 1), cluster.name("g"));
    let mut config = consumer_config(&cluster, &group, COMMITTED);
    config.set("partition.assignment.strategy", strategy);
    let context = CommitOnRevoke {
        producer: transactional_producer(&cluster, &cluster.name("tx")),
        output: output.clone(),
        result: Mutex::default(),
    };
    let first: BaseConsumer<CommitOnRevoke> = config.create_with_context(context).unwrap();
    let poll_first = || drop(first.poll(Duration::from_millis(20)));
    let producer = &first.context().producer;
    let commit =
        |partition, offset, metadata: &_| transact(producer, &output, &offset_of(&input, partition, offset), metadata);

    first.subscribe(&[&input]).unwrap();
    wait_until(|| {
        poll_first();
        owned(&first).len() == 4
    });
    let stale = metadata_of(&first);
    commit(0, 1, &stale).unwrap();

    let second: BaseConsumer = config.create().unwrap();
    second.subscribe(&[&input]).unwrap();
    wait_until(|| {
        poll_first();
        drop(second.poll(Duration::from_millis(20)));
        owned(&first).len() == 2 && owned(&second).len() == 2
    });
    let on_revoke = first.context().result.lock().unwrap().take();
    on_revoke.expect("partitions were revoked").expect("a transaction inside the revoke callback commits");

    let given_away = owned(&second)[0];
    assert_eq!(abortable(commit(given_away, 50, &stale)), RDKafkaErrorCode::IllegalGeneration);
    commit(owned(&first)[0], 2, &metadata_of(&first)).expect("the same producer goes on with fresh metadata");
    refuses_invented_members(&cluster, &group, &input);

    let departed = metadata_of(&second);
    drop(second);
    wait_until(|| {
        poll_first();
        owned(&first).len() == 4
    });
    assert_eq!(abortable(commit(0, 52, &departed)), RDKafkaErrorCode::UnknownMemberId);
}

/// Metadata that no client has at this moment: an unknown member, and a generation from the future.
fn refuses_invented_members(cluster: &Cluster, group: &str, input: &str) {
    let mut wire = cluster.connect();
    let member = member_ids(&mut wire, group).remove(0);
    let producer = RawProducer::transactional(&mut wire, &cluster.name("invented"));
    assert_eq!(producer.add_offsets(&mut wire, group), 0);
    let mut commit =
        |generation, member: &str| producer.commit_offset(&mut wire, Sender { group, generation, member }, input, 51);
    assert_eq!(commit(1, "nobody"), RDKafkaErrorCode::UnknownMemberId as i16);
    assert_eq!(commit(1_000_000, &member), RDKafkaErrorCode::IllegalGeneration as i16);
    assert_eq!(producer.end(&mut wire, false), 0);
}

/// Commits a transaction inside the first callback that takes partitions away, as long as they are still ours.
struct CommitOnRevoke {
    producer: Producer,
    output: String,
    result: Mutex<OnceCell<KafkaResult<()>>>,
}

impl ClientContext for CommitOnRevoke {}

impl ConsumerContext for CommitOnRevoke {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(revoked) = rebalance
            && let Some(first) = revoked.elements().first()
        {
            let offsets = offset_of(first.topic(), first.partition(), 2);
            let commit = || transact(&self.producer, &self.output, &offsets, &metadata_of(consumer));
            self.result.lock().unwrap().get_or_init(commit);
        }
    }
}
