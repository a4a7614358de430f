//! Topics and brokers that do not fit: the run does not start, and says what to do.

use std::time::Duration;

use flow_core::{Topic, Topology, TopologyBuilder};
use flow_kafka::{KafkaConfig, RunError, start};
use futures::executor::block_on;

use crate::kafka::{Kafka, record, wait_for};

fn counts(kafka: &Kafka) -> Topology {
    counting(kafka, "counts")
}

fn refused(kafka: &Kafka, config: KafkaConfig) -> RunError {
    block_on(start(counts(kafka), config).unwrap().wait()).expect_err("a refusal")
}

#[test]
fn a_topic_that_does_not_exist_is_named() {
    let kafka = Kafka::new("missing");
    let error = refused(&kafka, kafka.config()).to_string();
    assert!(error.contains(&format!("topic `{}` does not exist", kafka.topic("in"))), "{error}");
    assert!(error.contains(&format!("topic `{}` does not exist", kafka.topic("out"))), "{error}");
}

#[test]
fn an_internal_topic_with_the_wrong_partitions_or_cleanup_policy_is_refused() {
    let kafka = Kafka::new("wrong-internal");
    kafka.create("in", 2, &[]);
    kafka.create("out", 1, &[]);
    kafka.create("counts-changelog", 3, &[("cleanup.policy", "compact")]);
    let error = refused(&kafka, kafka.config()).to_string();
    assert!(error.contains("has 3 partitions, its inputs have 2"), "{error}");

    let kafka = Kafka::new("wrong-policy");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    kafka.create("counts-changelog", 1, &[("cleanup.policy", "delete")]);
    let error = refused(&kafka, kafka.config()).to_string();
    assert!(error.contains("cleanup.policy=delete, it must be compact"), "{error}");
}

#[test]
fn a_broker_that_is_away_at_start_is_named_after_the_start_timeout() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let kafka = Kafka::of(&format!("127.0.0.1:{port}"), "away");
    let error = refused(&kafka, kafka.config().start_timeout(Duration::from_secs(2)));
    assert!(matches!(error, RunError::BrokerAway { .. }), "{error}");
    assert!(error.to_string().contains(&format!("no broker answered at 127.0.0.1:{port}")), "{error}");
}

#[test]
fn a_snapshot_of_an_unknown_version_is_refused_with_its_place() {
    let kafka = Kafka::new("future-snapshot");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    kafka.create("counts-changelog", 1, &[("cleanup.policy", "compact")]);
    kafka.send("counts-changelog", &[record("k", "\u{7f}whatever")]);
    let error = refused(&kafka, kafka.config()).to_string();
    assert!(error.contains("counts-changelog/0 offset 0") && error.contains("format 127"), "{error}");
    assert_eq!(kafka.committed("in"), None);
}

#[test]
fn a_setting_that_would_break_a_guarantee_is_refused_by_name() {
    let kafka = Kafka::new("settings");
    let config = kafka.config().set("enable.auto.commit", "true").set("isolation.level", "read_uncommitted");
    let error = start(counts(&kafka), config).expect_err("a refusal").to_string();
    assert!(error.contains("`enable.auto.commit` cannot be set") && error.contains("`isolation.level`"), "{error}");
}

#[test]
fn offsets_whose_state_is_gone_are_refused() {
    let kafka = Kafka::new("state-gone");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    kafka.send("in", &[record("k", "1")]);
    let app = start(counts(&kafka), kafka.config()).unwrap();
    wait_for("a commit", || kafka.committed("in") == Some(1));
    block_on(app.shutdown()).unwrap();
    kafka.delete("counts-changelog");
    let error = refused(&kafka, kafka.config()).to_string();
    assert!(error.contains("counts-changelog/0 is empty") && error.contains("reset the application"), "{error}");
}

#[test]
fn state_whose_offsets_are_gone_is_refused() {
    let before = Kafka::new("offsets-before");
    let after = Kafka::new("offsets-gone");
    for kafka in [&before, &after] {
        kafka.create("in", 1, &[]);
        kafka.create("out", 1, &[]);
    }
    before.send("in", &[record("k", "1")]);
    let app = start(counts(&before), before.config()).unwrap();
    wait_for("a commit", || before.committed("in") == Some(1));
    block_on(app.shutdown()).unwrap();
    // The same snapshots under another group: one that has no offsets.
    after.create("counts-changelog", 1, &[("cleanup.policy", "compact")]);
    for snapshot in before.values("counts-changelog") {
        after.send("counts-changelog", &[record("k", std::str::from_utf8(&snapshot).unwrap())]);
    }
    let error = refused(&after, after.config()).to_string();
    assert!(error.contains("no committed offset") && error.contains("reset the application"), "{error}");
}

/// Counts, under this name of the store.
fn counting(kafka: &Kafka, store: &'static str) -> Topology {
    let topology = TopologyBuilder::new();
    let numbers: Topic<str, u64> = Topic::new(kafka.topic("in"));
    topology.stream(numbers).count(store).changes().to(Topic::<str, u64>::new(kafka.topic("out")));
    topology.build().unwrap()
}

/// Runs until so many records are committed.
fn run(kafka: &Kafka, topology: Topology, records: i64) {
    let app = start(topology, kafka.config()).unwrap();
    wait_for("a commit", || kafka.committed("in") == Some(records));
    block_on(app.shutdown()).unwrap();
}

#[test]
fn a_store_that_was_renamed_is_refused_until_its_old_state_is_let_go_of() {
    let kafka = Kafka::new("renamed");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    kafka.send("in", &[record("k", "1"), record("k", "1")]);
    run(&kafka, counting(&kafka, "counts"), 2);
    let renamed = start(counting(&kafka, "totals"), kafka.config()).unwrap();
    let error = block_on(renamed.wait()).expect_err("a refusal").to_string();
    assert!(error.contains("the store `counts`, which this topology does not have there"), "{error}");
    assert!(error.contains("was renamed or moved, or another topology runs under the application id"), "{error}");
    assert!(error.contains(&format!("delete the topic `{}`", kafka.topic("counts-changelog"))), "{error}");
    assert_eq!(kafka.committed("in"), Some(2));
    // Under its own name it goes on.
    kafka.send("in", &[record("k", "1")]);
    run(&kafka, counting(&kafka, "counts"), 3);
    assert_eq!(kafka.numbers("out"), [1, 2, 3]);
    kafka.delete("counts-changelog");
    kafka.send("in", &[record("k", "1")]);
    run(&kafka, counting(&kafka, "totals"), 4);
    assert_eq!(kafka.numbers("out"), [1, 2, 3, 1]);
    // And that is the end of it.
    kafka.send("in", &[record("k", "1")]);
    run(&kafka, counting(&kafka, "totals"), 5);
    assert_eq!(kafka.numbers("out"), [1, 2, 3, 1, 2]);
}

#[test]
fn a_store_that_is_added_starts_empty() {
    let kafka = Kafka::new("added");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    kafka.send("in", &[record("k", "1")]);
    run(&kafka, counting(&kafka, "counts"), 1);
    let topology = TopologyBuilder::new();
    let numbers = topology.stream(Topic::<str, u64>::new(kafka.topic("in")));
    numbers.count("counts").changes().to(Topic::<str, u64>::new(kafka.topic("out")));
    numbers.count("more").changes().map_values(|count| count + 100).to(Topic::<str, u64>::new(kafka.topic("out")));
    kafka.send("in", &[record("k", "1")]);
    run(&kafka, topology.build().unwrap(), 2);
    assert_eq!(kafka.numbers("out"), [1, 2, 101]);
}

#[test]
fn another_topology_under_the_same_application_id_is_refused_and_reads_none_of_its_state() {
    let kafka = Kafka::new("two-of-one-name");
    for topic in ["in", "other", "out"] {
        kafka.create(topic, 1, &[]);
    }
    kafka.send("in", &[record("k", "1")]);
    run(&kafka, counting(&kafka, "counts"), 1);
    // Another input, and a store of the same name.
    kafka.send("other", &[record("k", "1")]);
    let topology = TopologyBuilder::new();
    let numbers: Topic<str, u64> = Topic::new(kafka.topic("other"));
    topology.stream(numbers).count("counts").changes().to(Topic::<str, u64>::new(kafka.topic("out")));
    let error = block_on(start(topology.build().unwrap(), kafka.config()).unwrap().wait()).expect_err("a refusal");
    let error = error.to_string();
    assert!(error.contains("another topology with a store of the same name runs under this application id"), "{error}");
    assert_eq!((kafka.committed("other"), kafka.numbers("out")), (None, vec![1]));
}

#[test]
fn an_input_whose_partitions_were_raised_is_refused_where_state_stands_behind_it() {
    let kafka = Kafka::new("raised");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    kafka.send("in", &[record("k", "1")]);
    run(&kafka, counting(&kafka, "counts"), 1);
    kafka.raise("in", 3);
    let error = refused(&kafka, kafka.config()).to_string();
    let changelog = kafka.topic("counts-changelog");
    assert!(error.contains(&format!("internal topic `{changelog}` has 1 partitions, its inputs have 3")), "{error}");
    assert!(error.contains("Give the input its former number of partitions back, or reset"), "{error}");
    assert_eq!((kafka.committed("in"), kafka.numbers("out")), (Some(1), vec![1]));
}

#[test]
fn an_input_whose_partitions_are_raised_while_it_is_read_ends_the_run_with_the_reason() {
    let kafka = Kafka::new("raised-while-read");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    kafka.send("in", &[record("k", "1")]);
    let config = kafka.config().set("topic.metadata.refresh.interval.ms", "500");
    let app = start(counting(&kafka, "counts"), config).unwrap();
    wait_for("a commit", || kafka.committed("in") == Some(1));
    kafka.raise("in", 2);
    let error = block_on(app.wait()).expect_err("a stop").to_string();
    assert!(error.contains("got the partition 1 after this application had started"), "{error}");
    assert_eq!((kafka.committed("in"), kafka.numbers("out")), (Some(1), vec![1]));
}
