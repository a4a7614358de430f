//! The consumer loop that commits by hand, on a real client.

use std::time::Duration;

use flow_core::Offset;
use flow_kafka::manual::{ManualConsumer, ManualError, Record};

use crate::kafka::{Kafka, record, wait_for};

fn application(name: &str) -> Kafka {
    let kafka = Kafka::new(name);
    kafka.create("in", 1, &[]);
    kafka
}

fn join(kafka: &Kafka) -> ManualConsumer {
    ManualConsumer::join(&kafka.config(), &[kafka.topic("in")]).unwrap()
}

/// Polls until so many records have come.
fn take(consumer: &mut ManualConsumer, count: usize) -> Vec<Record> {
    let mut all = Vec::new();
    wait_for("the records", || {
        all.extend(consumer.poll(Duration::from_millis(100)).unwrap());
        all.len() >= count
    });
    assert_eq!(all.len(), count);
    all
}

fn values(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| std::str::from_utf8(record.value.as_deref().unwrap()).unwrap()).collect()
}

#[test]
fn what_is_not_finished_comes_again_and_what_is_committed_does_not() {
    let kafka = application("manual");
    kafka.send("in", &[record("k", "a"), record("k", "b"), record("k", "c")]);
    let mut consumer = join(&kafka);
    let records = take(&mut consumer, 3);
    assert_eq!((values(&records), records[0].key.as_deref()), (vec!["a", "b", "c"], Some(&b"k"[..])));
    assert!(consumer.done(&records[2]) && consumer.done(&records[0]));
    let committed = consumer.commit().unwrap();
    assert_eq!(committed.iter().map(|(_, offset)| *offset).collect::<Vec<_>>(), [Offset(1)], "b is open");
    assert_eq!(kafka.committed("in"), Some(1));
    consumer.close().unwrap();
    let mut consumer = join(&kafka);
    let records = take(&mut consumer, 2);
    assert_eq!(values(&records), ["b", "c"], "c was finished, but behind b");
    records.iter().for_each(|record| assert!(consumer.done(record)));
    consumer.close().unwrap();
    assert_eq!(kafka.committed("in"), Some(3), "a close commits what is finished");
}

#[test]
fn a_member_that_was_thrown_out_commits_nothing_and_says_so() {
    let kafka = application("manual-late");
    kafka.send("in", &[record("k", "a"), record("k", "b")]);
    let late = kafka.config().max_poll_interval(Duration::from_secs(6));
    let mut first = ManualConsumer::join(&late, &[kafka.topic("in")]).unwrap();
    let records = take(&mut first, 2);
    assert!(first.done(&records[0]));
    // It does not poll, and another one takes its place.
    let mut second = join(&kafka);
    let again = take(&mut second, 2);
    assert_eq!(values(&again), ["a", "b"]);
    again.iter().for_each(|record| assert!(second.done(record)));
    second.commit().unwrap();
    assert!(first.done(&records[1]), "it does not know yet");
    let ManualError::Commit(error) = first.commit().unwrap_err() else { panic!("another error") };
    let said = error.to_string();
    assert!(
        said.contains("none of it counts") && said.contains(&format!("{}/0 to offset 2", kafka.topic("in"))),
        "{said}"
    );
    assert_eq!(kafka.committed("in"), Some(2));
    second.close().unwrap();
    drop(first);
}

#[test]
fn records_that_were_deleted_before_they_were_read_are_an_error_and_no_silent_jump() {
    let kafka = application("manual-hole");
    kafka.send("in", &[record("k", "a"), record("k", "b"), record("k", "c")]);
    let mut consumer = join(&kafka);
    let records = take(&mut consumer, 3);
    assert!(consumer.done(&records[0]));
    consumer.close().unwrap();
    kafka.delete_below("in", 2);
    let mut consumer = join(&kafka);
    let mut error = None;
    wait_for("the error", || {
        error = consumer.poll(Duration::from_millis(100)).err();
        error.is_some()
    });
    let said = error.unwrap().to_string();
    assert!(said.contains("committed offset 1 is outside the log (2..3)"), "{said}");
}
