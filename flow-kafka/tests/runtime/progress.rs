//! What an application shows of itself while it restores and catches up, with the real client.

use std::time::Duration;

use flow_core::{ByType, Topic, Topology, TopologyBuilder, Utf8};
use flow_kafka::broker::TopicPartition;
use flow_kafka::{App, Progress, State, start};
use futures::executor::block_on;

use crate::kafka::{Kafka, Sent, record, wait_for};

/// A record whose value is a number takes its step so many milliseconds.
fn topology(kafka: &Kafka) -> Topology {
    let topology = TopologyBuilder::new();
    let events: Topic<str, str, ByType, Utf8> = Topic::new(kafka.topic("in"));
    let events = topology.stream(events).inspect(|_, value| {
        if let Ok(millis) = value.parse() {
            std::thread::sleep(Duration::from_millis(millis));
        }
    });
    events.count("counts").changes().to(Topic::<str, u64>::new(kafka.topic("out")));
    topology.build().unwrap()
}

fn restoring(app: &App, kafka: &Kafka) -> Option<Progress> {
    app.restoring().remove(&TopicPartition::new(kafka.topic("counts-changelog"), 0))
}

fn lag(app: &App, kafka: &Kafka) -> Option<u64> {
    app.lags()[&TopicPartition::new(kafka.topic("in"), 0)]
}

#[test]
fn a_restore_shows_how_far_it_is_until_a_strangers_transaction_lets_it_end_and_then_the_lag_comes_down() {
    let kafka = Kafka::new("progress");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    let keys: Vec<String> = (0..100).map(|n| format!("key-{n}")).collect();
    let of_each_key = |value| -> Vec<Sent<'_>> { keys.iter().map(|key| record(key, value)).collect() };
    let first = start(topology(&kafka), kafka.config()).unwrap();
    kafka.send("in", &of_each_key("x"));
    wait_for("the first process commits", || kafka.committed("in") == Some(100));
    wait_for("nothing is left", || lag(&first, &kafka) == Some(0) && first.restoring().is_empty());
    block_on(first.shutdown()).unwrap();
    let stranger = kafka.open_transaction("counts-changelog", &[record("key-0", "no snapshot")]);
    let (_, end) = kafka.watermarks("counts-changelog");
    kafka.send("in", &of_each_key("20"));

    let second = start(topology(&kafka), kafka.config()).unwrap();
    wait_for("all that lies below the open transaction is read", || {
        restoring(&second, &kafka).is_some_and(|progress| progress.have == end as u64 - 1)
    });
    let progress = restoring(&second, &kafka).unwrap();
    assert_eq!((progress.need, progress.remaining()), (end as u64, 1), "{progress}");
    assert_eq!((second.state(), lag(&second, &kafka)), (State::Rebalancing, None));
    stranger.abort();
    wait_for("it has restored all", || second.restoring().is_empty() && second.state() == State::Running);
    wait_for("it catches up", || second.catching_up().into_values().any(|p| p.have > 0 && p.rate_per_second > 0.0));
    let behind = lag(&second, &kafka).unwrap();
    assert!(behind > 0 && behind < 100, "{behind}");
    wait_for("nothing is left", || lag(&second, &kafka) == Some(0) && second.catching_up().is_empty());
    let summary = block_on(second.shutdown()).unwrap();
    assert_eq!((summary.counters.records, summary.lag), (100, 0));
    assert_eq!(kafka.numbers("out"), [[1; 100], [2; 100]].concat());
}
