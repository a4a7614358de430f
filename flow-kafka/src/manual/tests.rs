//! What a commit is worth, answer by answer, on a scripted broker.

use super::*;
use crate::broker::CommitAnswer;
use crate::fake::Fake;

fn at(partition: i32) -> TopicPartition {
    TopicPartition::new("in", partition)
}

/// A member with partitions 0 and 1, which begin at offset 0.
fn joined(fake: &Fake) -> ManualConsumer {
    fake.script(|s| {
        s.high = 100;
        s.rebalances.push_back(Rebalance::Assigned(vec![at(0), at(1)]));
    });
    let config = KafkaConfig::new("nowhere:1", "app");
    let mut consumer = ManualConsumer::join_on(Arc::new(fake.clone()), &config, &["in"]).unwrap();
    assert!(consumer.poll(Duration::ZERO).unwrap().is_empty());
    fake.calls();
    consumer
}

/// Brings these records.
fn bring(fake: &Fake, consumer: &mut ManualConsumer, records: &[(i32, i64)]) -> Vec<Record> {
    fake.script(|s| s.records.extend(records.iter().map(|(partition, offset)| (at(*partition), *offset))));
    let all = consumer.poll(Duration::ZERO).unwrap();
    assert_eq!(all.len(), records.len());
    all
}

fn commits(fake: &Fake) -> Vec<String> {
    fake.calls().into_iter().filter(|call| call.starts_with("commit offsets")).collect()
}

/// Finishes 0/0, 0/1 and 1/7, and commits.
fn commit_two(fake: &Fake, consumer: &mut ManualConsumer) -> Result<Vec<(TopicPartition, Offset)>, CommitError> {
    let records = bring(fake, consumer, &[(0, 0), (0, 1), (1, 7)]);
    records.iter().for_each(|record| assert!(consumer.done(record)));
    consumer.commit().map_err(|error| match error {
        ManualError::Commit(error) => error,
        other => panic!("{other}"),
    })
}

#[test]
fn a_commit_is_of_the_longest_finished_run_of_each_partition() {
    let fake = Fake::default();
    let mut consumer = joined(&fake);
    let records = bring(&fake, &mut consumer, &[(0, 0), (0, 1), (0, 4), (1, 7)]);
    assert!(consumer.commit().unwrap().is_empty());
    assert!(consumer.done(&records[1]) && consumer.done(&records[2]));
    assert!(consumer.commit().unwrap().is_empty(), "the first one is not finished");
    assert_eq!(commits(&fake), [""; 0], "and nobody is asked");
    assert!(consumer.done(&records[0]));
    assert_eq!(consumer.commit().unwrap(), [(at(0), Offset(5))]);
    assert!(consumer.done(&records[3]));
    assert_eq!(consumer.commit().unwrap(), [(at(1), Offset(8))]);
    assert_eq!(commits(&fake), ["commit offsets in/0@5", "commit offsets in/1@8"]);
    assert!(consumer.commit().unwrap().is_empty());
}

#[test]
fn a_commit_without_an_answer_names_every_partition_and_counts_for_nothing() {
    let fake = Fake::default();
    let mut consumer = joined(&fake);
    fake.plan("commit offsets", &[ErrorKind::Retriable]);
    let error = commit_two(&fake, &mut consumer).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the commit of group app failed, and none of it counts: planned Retriable; in/0 to offset 2: committed or not, in/1 to offset \
         8: committed or not"
    );
    commits(&fake);
    assert_eq!(consumer.commit().unwrap(), [(at(0), Offset(2)), (at(1), Offset(8))], "the same again");
    assert_eq!(commits(&fake), ["commit offsets in/0@2 in/1@8"]);
}

/// What the next commit answers, and what its error says of partition 1.
fn answered(answers: Vec<CommitAnswer>) -> String {
    let fake = Fake::default();
    let mut consumer = joined(&fake);
    fake.script(|s| s.answers = Some(answers));
    let error = commit_two(&fake, &mut consumer).unwrap_err().to_string();
    let said =
        error.strip_prefix("the commit of group app failed, and none of it counts; in/0 to offset 2: committed, ");
    commits(&fake);
    assert_eq!(
        consumer.commit().unwrap(),
        [(at(0), Offset(2)), (at(1), Offset(8))],
        "also what was good is committed again"
    );
    said.unwrap_or_else(|| panic!("{error}")).to_owned()
}

fn good(partition: i32, offset: i64) -> CommitAnswer {
    CommitAnswer { partition: at(partition), offset: Offset(offset), error: None }
}

#[test]
fn an_error_on_one_partition_fails_the_commit() {
    let stale = BrokerError::new(ErrorKind::StaleGeneration, "stale");
    let answers = vec![good(0, 2), CommitAnswer { error: Some(stale), ..good(1, 8) }];
    assert_eq!(answered(answers), "in/1 to offset 8: refused (stale)");
}

#[test]
fn a_partition_that_is_missing_in_the_answer_fails_the_commit() {
    assert_eq!(answered(vec![good(0, 2)]), "in/1 to offset 8: not in the answer: committed or not");
    assert_eq!(answered(vec![good(0, 2), good(2, 8)]), "in/1 to offset 8: not in the answer: committed or not");
}

#[test]
fn another_offset_than_asked_for_fails_the_commit() {
    assert_eq!(answered(vec![good(0, 2), good(1, 7)]), "in/1 to offset 8: answered with offset 7");
    assert_eq!(answered(vec![good(0, 2), good(1, 8), good(1, 9)]), "in/1 to offset 8: answered with offset 9");
}

#[test]
fn partitions_commit_what_is_finished_before_they_are_given_up() {
    let fake = Fake::default();
    let mut consumer = joined(&fake);
    let records = bring(&fake, &mut consumer, &[(0, 0), (0, 1), (1, 7)]);
    assert!(consumer.done(&records[0]) && consumer.done(&records[2]));
    fake.script(|s| s.rebalances.push_back(Rebalance::Revoked(vec![at(0)])));
    assert!(consumer.poll(Duration::ZERO).unwrap().is_empty());
    assert_eq!(commits(&fake), ["commit offsets in/0@1"], "the other one stays, and need not be in it");
    assert!(!consumer.done(&records[1]), "it comes again to its next owner");
    assert_eq!(consumer.commit().unwrap(), [(at(1), Offset(8))]);
}

#[test]
fn a_record_of_an_earlier_assignment_does_not_count_in_a_later_one() {
    let fake = Fake::default();
    let mut consumer = joined(&fake);
    let before = bring(&fake, &mut consumer, &[(0, 0)]);
    fake.script(|s| s.rebalances.extend([Rebalance::Lost(vec![at(0), at(1)]), Rebalance::Assigned(vec![at(0)])]));
    assert!(consumer.poll(Duration::ZERO).unwrap().is_empty());
    assert!(consumer.poll(Duration::ZERO).unwrap().is_empty());
    let again = bring(&fake, &mut consumer, &[(0, 0)]);
    assert!(!consumer.done(&before[0]));
    assert!(consumer.commit().unwrap().is_empty());
    assert!(consumer.done(&again[0]));
    assert_eq!(consumer.commit().unwrap(), [(at(0), Offset(1))]);
    assert_eq!(commits(&fake), ["commit offsets in/0@1"], "nothing was committed for what was lost");
}

#[test]
fn a_commit_that_fails_before_a_revocation_is_an_error_and_the_partitions_are_given_up() {
    let fake = Fake::default();
    let mut consumer = joined(&fake);
    let records = bring(&fake, &mut consumer, &[(0, 0)]);
    assert!(consumer.done(&records[0]));
    fake.plan("commit offsets", &[ErrorKind::StaleGeneration]);
    fake.script(|s| s.rebalances.push_back(Rebalance::Revoked(vec![at(0), at(1)])));
    let error = consumer.poll(Duration::ZERO).unwrap_err();
    assert!(matches!(error, ManualError::Commit(_)), "{error}");
    assert!(consumer.commit().unwrap().is_empty());
}
