//! Repartition topics are purged behind the commit, and nothing needs what was purged.

use std::time::Duration;

use flow_core::{Topic, Topology, TopologyBuilder};
use flow_kafka::{App, start};
use futures::executor::block_on;

use crate::kafka::{Kafka, record, wait_for};

const REPARTITION: &str = "by-number-repartition";

fn run(kafka: &Kafka) -> App {
    start(topology(kafka), kafka.config().purge_interval(Duration::from_millis(300))).unwrap()
}

fn topology(kafka: &Kafka) -> Topology {
    let topology = TopologyBuilder::new();
    let numbers: Topic<str, u64> = Topic::new(kafka.topic("in"));
    let counts: Topic<String, u64> = Topic::new(kafka.topic("out"));
    topology.stream(numbers).key_by("by-number", |_, number| number.to_string()).count("counts").changes().to(counts);
    topology.build().unwrap()
}

/// Sends records and waits until they are counted, and purged from the repartition topic.
fn count(kafka: &Kafka, records: usize, in_all: usize) {
    kafka.send("in", &vec![record("k", "7"); records]);
    wait_for("all is counted", || kafka.numbers("out").len() >= in_all);
    wait_for("all that is committed is purged", || {
        let (low, high) = kafka.watermarks(REPARTITION);
        // A transaction's marker follows its records, and nothing is committed behind it before there is a record.
        kafka.committed(REPARTITION) == Some(low) && low >= in_all as i64 && high >= low
    });
}

#[test]
fn a_repartition_topic_is_purged_behind_the_commit_and_a_restart_needs_nothing_of_it() {
    let kafka = Kafka::new("purge");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    let first = run(&kafka);
    count(&kafka, 20, 20);
    block_on(first.shutdown()).unwrap();
    let second = run(&kafka);
    count(&kafka, 5, 25);
    block_on(second.shutdown()).unwrap();
    assert_eq!(kafka.numbers("out"), (1..=25).collect::<Vec<u64>>());
}

#[test]
fn records_that_were_deleted_before_anybody_read_them_end_the_run_with_the_reason() {
    let kafka = Kafka::new("deleted");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    let app = run(&kafka);
    kafka.send("in", &[record("k", "7")]);
    wait_for("a commit", || kafka.committed("in") == Some(1));
    block_on(app.shutdown()).unwrap();
    kafka.send("in", &vec![record("k", "7"); 5]);
    kafka.delete_below("in", 4);
    let error = block_on(run(&kafka).wait()).unwrap_err().to_string();
    assert!(error.contains("in/0") && error.contains("its committed offset 1 is outside the log (4..6)"), "{error}");
    assert!(error.contains("records were deleted before they were read"), "{error}");
}
