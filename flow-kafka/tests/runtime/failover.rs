//! How long a partition is silent after its owner was killed.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flow_core::{ByType, Topic, Topology, TopologyBuilder, Utf8};
use flow_kafka::{KafkaConfig, start};
use futures::executor::block_on;

use crate::kafka::{Kafka, record, wait_for};

const CHILD: &str = "FLOW_FAILOVER_CHILD";
const KEYS: usize = 100_000;
/// What [`Kafka::config`] asks for.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

fn topology(kafka: &Kafka) -> Topology {
    let topology = TopologyBuilder::new();
    let events: Topic<str, str, ByType, Utf8> = Topic::new(kafka.topic("in"));
    topology.stream(events).count("counts").changes().to(Topic::<str, u64>::new(kafka.topic("out")));
    topology.build().unwrap()
}

/// Not a test of its own: where this binary runs as an owner that will be killed.
#[test]
fn owner_process() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let [bootstrap, app, how] = arguments.split(' ').collect::<Vec<_>>()[..] else { panic!("{arguments}") };
    let kafka = Kafka::of(bootstrap, app);
    let config = if how == OUTSIDE { outside(&kafka) } else { kafka.config() };
    // It ends by being killed.
    drop(block_on(start(topology(&kafka), config).unwrap().wait()));
}

const OUTSIDE: &str = "outside";

/// Outputs leave at once, and commits are rare.
fn outside(kafka: &Kafka) -> KafkaConfig {
    let config = kafka.config().at_least_once_output(true);
    config.transaction_timeout(Duration::from_secs(60)).commit_interval(Duration::from_secs(25))
}

struct Owner(Child);

impl Owner {
    fn start(kafka: &Kafka, how: &str) -> Owner {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "failover::owner_process"])
            .env(CHILD, format!("{} {} {how}", kafka.bootstrap, kafka.app))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Owner(child.unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // It is dead already where the test got that far.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn output_goes_on_within_the_session_timeout_and_three_seconds_of_a_kill_with_100_000_keys_to_restore() {
    let kafka = Kafka::new("failover");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    let keys: Vec<String> = (0..KEYS).map(|n| format!("key-{n}")).collect();
    let mut first = Owner::start(&kafka, "inside");
    kafka.send("in", &keys.iter().map(|key| record(key, "e")).collect::<Vec<_>>());
    wait_for("the first owner commits", || kafka.committed("in") == Some(KEYS as i64));
    // The second one is a member without a partition. It joins while the first one owns and has nothing open.
    let second = start(topology(&kafka), kafka.config()).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let owner_gone = Instant::now();
    first.kill();
    kafka.send("in", &[record("key-7", "e")]);
    wait_for("the second owner commits", || kafka.committed("in") == Some(KEYS as i64 + 1));
    let silent = owner_gone.elapsed();
    let counters = block_on(second.shutdown()).unwrap().counters;
    println!("output went on {} ms after the kill, {} snapshots restored", silent.as_millis(), counters.restored);
    assert_eq!(kafka.numbers("out").last(), Some(&2), "the count goes on where it was");
    assert!(silent < SESSION_TIMEOUT + Duration::from_secs(3), "silent for {} ms", silent.as_millis());
}

#[test]
fn outputs_outside_the_transaction_come_again_after_a_kill_and_the_state_counts_them_once() {
    let kafka = Kafka::new("outside");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    let mut owner = Owner::start(&kafka, OUTSIDE);
    // Its first commit, right after its start, is of nothing; the next one is far away.
    wait_for("the owner has started", || kafka.committed("in") == Some(0));
    kafka.send("in", &[record("k", "e"), record("k", "e"), record("k", "e")]);
    wait_for("outputs are there before their commit", || kafka.numbers("out") == [1, 2, 3]);
    assert_eq!(kafka.committed("in"), Some(0));
    owner.kill();
    kafka.send("in", &[record("k", "e")]);
    let successor = start(topology(&kafka), kafka.config().at_least_once_output(true)).unwrap();
    wait_for("the successor commits", || kafka.committed("in") == Some(4));
    block_on(successor.shutdown()).unwrap();
    assert_eq!(kafka.numbers("out"), [1, 2, 3, 1, 2, 3, 4]);
    assert_eq!(kafka.newest_snapshot("counts"), 4);
}
