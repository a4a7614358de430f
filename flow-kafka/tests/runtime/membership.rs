//! Who may be a member of the group: static members of one name, and members that assign partitions in different ways.

use std::time::{Duration, Instant};

use flow_core::{ByType, Topic, Topology, TopologyBuilder, Utf8};
use flow_kafka::broker::Assignor;
use flow_kafka::{KafkaConfig, RunError, State, start};
use futures::executor::block_on;

use crate::kafka::{Kafka, record, wait_for};

fn topology(kafka: &Kafka, topics: &[&str]) -> Topology {
    let topology = TopologyBuilder::new();
    let source = |what| topology.stream(Topic::<str, str, ByType, Utf8>::new(kafka.topic(what)));
    let all = topics[1..].iter().fold(source(topics[0]), |all, what| all.merge(source(what)));
    all.count("counts").changes().to(Topic::<str, u64>::new(kafka.topic("out")));
    topology.build().unwrap()
}

fn kafka(name: &str) -> Kafka {
    let kafka = Kafka::new(name);
    for topic in ["in", "more", "out"] {
        kafka.create(topic, 1, &[]);
    }
    kafka
}

fn static_member(kafka: &Kafka) -> KafkaConfig {
    kafka.config().instance("pod-0")
}

/// Restarting itself would shut the newer one out, and so on for ever.
#[test]
fn the_older_of_two_processes_with_one_instance_name_ends_with_an_error_of_its_own() {
    let kafka = kafka("static");
    let older = start(topology(&kafka, &["in"]), static_member(&kafka)).unwrap();
    kafka.send("in", &[record("k", "e"), record("k", "e")]);
    wait_for("the older one commits", || kafka.committed("in") == Some(2));
    let newer = start(topology(&kafka, &["in"]), static_member(&kafka)).unwrap();
    let error = block_on(older.wait()).unwrap_err();
    let instance = format!("pod-0-{}-worker-0", kafka.app);
    assert!(matches!(&error, RunError::InstanceTaken { instance: taken, .. } if *taken == instance), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&instance) && text.contains("give each process an instance name of its own"), "{text}");
    kafka.send("in", &[record("k", "e")]);
    wait_for("the newer one commits", || kafka.committed("in") == Some(3));
    assert_eq!(kafka.numbers("out"), [1, 2, 3]);
    assert_ne!(newer.state(), State::Failed);
    block_on(newer.shutdown()).unwrap();
}

#[test]
fn a_static_member_that_comes_back_goes_on_before_its_session_would_have_ended() {
    let kafka = kafka("static-again");
    let first = start(topology(&kafka, &["in"]), static_member(&kafka)).unwrap();
    kafka.send("in", &[record("k", "e")]);
    wait_for("the first run commits", || kafka.committed("in") == Some(1));
    block_on(first.shutdown()).unwrap();
    kafka.send("in", &[record("k", "e")]);
    let again = Instant::now();
    let second = start(topology(&kafka, &["in"]), static_member(&kafka)).unwrap();
    wait_for("the second run commits", || kafka.committed("in") == Some(2));
    // The session timeout is 6 s, and the member did not leave.
    assert!(again.elapsed() < Duration::from_secs(4), "{:?}", again.elapsed());
    block_on(second.shutdown()).unwrap();
    assert_eq!(kafka.numbers("out"), [1, 2]);
}

#[test]
fn a_topology_that_needs_another_assignor_is_refused_until_the_old_one_is_stopped() {
    let kafka = kafka("assignor");
    let old = start(topology(&kafka, &["in"]), kafka.config()).unwrap();
    kafka.send("in", &[record("k", "e")]);
    wait_for("the old one commits", || kafka.committed("in") == Some(1));
    let joined = start(topology(&kafka, &["in", "more"]), kafka.config()).unwrap();
    let error = block_on(joined.wait()).unwrap_err();
    assert!(matches!(error, RunError::Assignor { ours: Assignor::Range, .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&kafka.app) && text.contains("`range`") && text.contains("needs a full stop"), "{text}");
    // The old one is none the worse for it.
    kafka.send("in", &[record("k", "e")]);
    wait_for("the old one commits again", || kafka.committed("in") == Some(2));
    block_on(old.shutdown()).unwrap();
    let new = start(topology(&kafka, &["in", "more"]), kafka.config()).unwrap();
    kafka.send("more", &[record("k", "e")]);
    wait_for("the new one commits", || kafka.committed("more") == Some(1));
    block_on(new.shutdown()).unwrap();
    assert_eq!(kafka.numbers("out"), [1, 2, 3]);
}
