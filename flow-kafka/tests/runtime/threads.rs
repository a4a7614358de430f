//! Many workers: as many as there are tasks, started together, sharing the work of one process and of several.

use std::time::{Duration, Instant};

use flow_core::{ByType, Topic, Topology, TopologyBuilder, Utf8};
use flow_kafka::{App, State, start};
use futures::executor::block_on;

use crate::kafka::{Kafka, wait_for};

fn counts(kafka: &Kafka) -> Topology {
    let topology = TopologyBuilder::new();
    let events: Topic<str, str, ByType, Utf8> = Topic::new(kafka.topic("in"));
    topology.stream(events).count("counts").changes().to(Topic::<str, u64>::new(kafka.topic("out")));
    topology.build().unwrap()
}

fn application(name: &str, partitions: i32) -> Kafka {
    let kafka = Kafka::new(name);
    kafka.create("in", partitions, &[]);
    kafka.create("out", 1, &[]);
    kafka
}

fn run(kafka: &Kafka, workers: usize) -> App {
    start(counts(kafka), kafka.config().workers(workers)).unwrap()
}

/// One record of each key, then another one; every key's counts must be 1 and 2.
fn feed_and_check(kafka: &Kafka, keys: usize) {
    for _ in 0..2 {
        kafka.spread("in", keys);
    }
    wait_for("all is counted", || kafka.values("out").len() == 2 * keys);
    let mut counts = kafka.numbers("out");
    counts.sort_unstable();
    assert_eq!(counts, [vec![1; keys], vec![2; keys]].concat());
}

#[test]
fn thirty_two_workers_start_together_within_seconds() {
    let kafka = application("many-workers", 32);
    let begin = Instant::now();
    let app = run(&kafka, 32);
    wait_for("all tasks run", || app.state() == State::Running && app.counters().tasks == 32);
    let started = begin.elapsed();
    println!("32 workers: all tasks run {} ms after the start", started.as_millis());
    assert_eq!(kafka.members(), 32);
    // The broker itself waits for 3 s for more members of a group that is empty (group.initial.rebalance.delay.ms).
    assert!(started < Duration::from_secs(15), "{started:?}");
    feed_and_check(&kafka, 500);
    let stop = Instant::now();
    block_on(app.shutdown()).unwrap();
    println!("32 workers: ended {} ms after they were asked to", stop.elapsed().as_millis());
    assert!(stop.elapsed() < Duration::from_secs(15));
    assert_eq!(kafka.members(), 0, "all have left");
}

#[test]
fn there_are_never_more_workers_than_tasks() {
    let kafka = application("few-tasks", 3);
    let app = run(&kafka, 8);
    wait_for("all tasks run", || app.state() == State::Running && app.counters().tasks == 3);
    assert_eq!(kafka.members(), 3);
    feed_and_check(&kafka, 20);
    block_on(app.shutdown()).unwrap();
}

#[test]
fn workers_of_a_second_process_take_their_share_and_one_more_than_there_are_tasks_waits() {
    let kafka = application("second-process", 4);
    let first = run(&kafka, 2);
    wait_for("all tasks run", || first.counters().tasks == 4);
    let second = run(&kafka, 2);
    wait_for("the work is shared", || (first.counters().tasks, second.counters().tasks) == (2, 2));
    let third = run(&kafka, 1);
    wait_for("a worker waits", || kafka.members() == 5 && third.state() == State::Running);
    feed_and_check(&kafka, 40);
    assert_eq!(third.counters().tasks, 0);
    block_on(first.shutdown()).unwrap();
    wait_for("it takes over", || second.counters().tasks + third.counters().tasks == 4 && third.counters().tasks > 0);
    block_on(second.shutdown()).unwrap();
    block_on(third.shutdown()).unwrap();
}
