//! A task with several inputs: two topics folded into one state, in the order of their timestamps, by a group that rebalances.

use std::time::Duration;

use flow_core::{ByType, Context, Flow, Fold, Json, StepError, Topic, Topology, TopologyBuilder, Utf8};
use flow_kafka::start;
use futures::executor::block_on;

use crate::kafka::{Kafka, Sent, wait_for};

/// Writes down what it sees, in order.
struct Journal;

impl Flow for Journal {
    const NAME: &'static str = "journal";
    type State = String;
    type Codec = Json;
    type Out = String;
}

impl Fold<str> for Journal {
    fn fold(&self, state: &mut Option<String>, event: &str, cx: &mut Context<String>) -> Result<(), StepError> {
        let journal = state.get_or_insert_default();
        journal.push_str(event);
        cx.emit(journal.clone());
        Ok(())
    }
}

fn topology(kafka: &Kafka) -> Topology {
    let topology = TopologyBuilder::new();
    let letters: Topic<str, str, ByType, Utf8> = Topic::new(kafka.topic("letters"));
    let digits: Topic<str, str, ByType, Utf8> = Topic::new(kafka.topic("digits"));
    let out: Topic<str, String, ByType, Utf8> = Topic::new(kafka.topic("out"));
    // One key, so all of it lies in partition 0 of every topic.
    let journal = topology.flow(Journal).fold(topology.stream(letters)).fold(topology.stream(digits));
    journal.output().to(out);
    topology.build().unwrap()
}

fn at(value: &str, timestamp: i64) -> Sent<'_> {
    Sent { key: Some("k"), value, timestamp: Some(timestamp) }
}

#[test]
fn two_topics_are_folded_in_the_order_of_their_timestamps_and_go_on_after_a_takeover() {
    let kafka = Kafka::new("several");
    for (topic, partitions) in [("letters", 2), ("digits", 2), ("out", 1)] {
        kafka.create(topic, partitions, &[]);
    }
    kafka.send("letters", &[at("a", 1_000), at("c", 3_000), at("e", 5_000)]);
    kafka.send("digits", &[at("2", 2_000), at("4", 4_000)]);
    let committed =
        |letters, digits| kafka.committed("letters") == Some(letters) && kafka.committed("digits") == Some(digits);
    let first = start(topology(&kafka), kafka.config().workers(2)).unwrap();
    wait_for("both topics are committed", || committed(3, 2));
    // Another process joins and takes its share; then the first one leaves, and the second one has all.
    let second = start(topology(&kafka), kafka.config().workers(2)).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    block_on(first.shutdown()).unwrap();
    kafka.send("digits", &[at("6", 6_000), at("8", 8_000)]);
    kafka.send("letters", &[at("g", 7_000)]);
    wait_for("the rest is committed", || committed(4, 4));
    block_on(second.shutdown()).unwrap();
    let seen: Vec<String> = kafka.values("out").into_iter().map(|value| String::from_utf8(value).unwrap()).collect();
    assert_eq!(seen.len(), 8, "{seen:?}");
    assert_eq!(&seen[..5], ["a", "a2", "a2c", "a2c4", "a2c4e"]);
    // What arrives live comes in the order in which both topics are known, and nothing of it is lost or doubled.
    assert!(seen[7].starts_with("a2c4e"), "{seen:?}");
    let mut all: Vec<char> = seen[7].chars().collect();
    all.sort_unstable();
    assert_eq!(all.into_iter().collect::<String>(), "2468aceg");
}
