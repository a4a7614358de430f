//! A stale owner on a real client: a process is suspended in a commit, another one takes its partition over, and the first one
//! goes on where it stopped. Nothing that it still has in its hands may become visible.
//!
//! Runs on the broker at `KAFKA_BOOTSTRAP`, or on an embedded one. An embedded broker that ignores generations and epochs shows
//! that the scenario corrupts without the fence, so that the other tests mean something.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flow_core::{Topic, Topology, TopologyBuilder, Utf8};
use flow_kafka::broker::Broker;
use flow_kafka::embedded::{EmbeddedBroker, Options};
use flow_kafka::{ClientSettings, RdkafkaBroker, start_on};

use crate::gate::{Gate, StopAt};
use crate::kafka::{Kafka, record, wait_for};

const CHILD: &str = "FLOW_STALE_OWNER_CHILD";
/// What [`Kafka::config`] asks for.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// How long the broker waits for a dead owner's transaction: nobody else should.
const LONG: Duration = Duration::from_secs(60);

fn topology(kafka: &Kafka) -> Topology {
    let topology = TopologyBuilder::new();
    let events: Topic<str, str, flow_core::ByType, Utf8> = Topic::new(kafka.topic("in"));
    let counts: Topic<str, u64> = Topic::new(kafka.topic("out"));
    topology.stream(events).count("counts").changes().to(counts);
    topology.build().expect("a valid topology")
}

/// The other process: not a test of its own, but where this binary runs when a test starts it as an owner.
#[test]
fn owner_process() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let [bootstrap, app, stop] = arguments[..] else { panic!("{arguments:?}") };
    let kafka = Kafka::of(bootstrap, app);
    let (topology, config) = (topology(&kafka), kafka.config().transaction_timeout(LONG));
    let settings = ClientSettings {
        session_timeout: SESSION_TIMEOUT,
        transaction_timeout: LONG,
        ..ClientSettings::new(bootstrap)
    };
    let broker = RdkafkaBroker::new(settings).unwrap();
    let broker: Arc<dyn Broker> = match stop {
        "begin" => Arc::new(Gate::new(broker, StopAt::Begin, 100)),
        "commit" => Arc::new(Gate::new(broker, StopAt::Commit, 100)),
        _ => Arc::new(broker),
    };
    let app = start_on(broker, topology, config).unwrap();
    let ended = futures::executor::block_on(app.wait());
    println!("ENDED {ended:?}");
}

/// A running owner; killed when dropped.
struct Owner {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Owner {
    fn start(kafka: &Kafka, stop: &str) -> Owner {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stale_owner::owner_process", "--nocapture"])
            .env(CHILD, format!("{} {} {stop}", kafka.bootstrap, kafka.app))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (lines, sink) = (BufReader::new(child.stdout.take().unwrap()).lines(), Arc::clone(&said));
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| sink.lock().unwrap().push(line)));
        Owner { child, said }
    }

    fn said(&self, word: &str) -> bool {
        self.said.lock().unwrap().iter().any(|line| line.contains(word))
    }

    fn resume(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-CONT", &pid]).status().unwrap().success());
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is left when everything has come to rest.
struct Left {
    outputs: Vec<u64>,
    state: u64,
    offset: i64,
    first_owner: Vec<String>,
}

/// 100 records for an owner that is suspended, 50 for the one that takes over, 10 once the first one is back.
fn suspend(kafka: &Kafka, stop: &str) -> Left {
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    let events = |count| kafka.send("in", &vec![record("k", "e"); count]);
    let first = Owner::start(kafka, stop);
    events(100);
    wait_for("the first owner stops", || first.said("STOPPING"));
    let second = Owner::start(kafka, "never");
    events(50);
    wait_for("the second owner commits", || kafka.committed("in") == Some(150));
    first.resume();
    wait_for("the first owner goes on", || first.said("RESUMED"));
    // Long enough for a commit that would get through, and for the group to settle.
    std::thread::sleep(Duration::from_secs(8));
    events(10);
    wait_for("all is committed", || kafka.committed("in") == Some(160) || kafka.numbers("out").len() >= 160);
    std::thread::sleep(Duration::from_secs(1));
    let first_owner = first.said.lock().unwrap().clone();
    drop((first, second));
    let (outputs, state) = (kafka.numbers("out"), kafka.newest_snapshot("counts"));
    Left { outputs, state, offset: kafka.committed("in").unwrap_or(-1), first_owner }
}

impl Left {
    fn assert_as_if_nothing_had_happened(&self) {
        assert_eq!(self.outputs, (1..=160).collect::<Vec<u64>>(), "{:?}", self.first_owner);
        assert_eq!((self.state, self.offset), (160, 160), "{:?}", self.first_owner);
    }

    fn is_corrupt(&self) -> bool {
        self.outputs != (1..=160).collect::<Vec<u64>>() || self.state != 160
    }
}

#[test]
fn an_owner_suspended_before_its_transaction_is_refused_by_its_generation() {
    let left = suspend(&Kafka::new("stale-before"), "begin");
    assert!(left.first_owner.iter().any(|line| line.contains("REFUSED StaleGeneration")), "{:?}", left.first_owner);
    left.assert_as_if_nothing_had_happened();
}

#[test]
fn an_owner_suspended_inside_its_transaction_is_refused_by_its_epoch() {
    let left = suspend(&Kafka::new("stale-inside"), "commit");
    assert!(left.first_owner.iter().any(|line| line.starts_with("COMMIT")), "{:?}", left.first_owner);
    left.assert_as_if_nothing_had_happened();
}

#[test]
fn a_transaction_that_a_killed_owner_left_open_is_ended_by_its_successor() {
    let kafka = Kafka::new("takeover");
    kafka.create("in", 1, &[]);
    kafka.create("out", 1, &[]);
    let events = |count| kafka.send("in", &vec![record("k", "e"); count]);
    let first = Owner::start(&kafka, "commit");
    wait_for("the first owner has said who it is", || kafka.committed("in") == Some(0));
    events(100);
    wait_for("the first owner stops inside its transaction", || first.said("STOPPING"));
    let killed = Instant::now();
    drop(first);
    let second = Owner::start(&kafka, "never");
    events(50);
    wait_for("the second owner commits", || kafka.committed("in") == Some(150));
    let silent = killed.elapsed();
    println!("committed again {} ms after the kill", silent.as_millis());
    drop(second);
    assert_eq!(kafka.numbers("out"), (1..=150).collect::<Vec<u64>>());
    assert!(silent < SESSION_TIMEOUT + Duration::from_secs(3), "silent for {} ms", silent.as_millis());
}

#[test]
fn without_the_brokers_fence_the_same_scenario_corrupts() {
    let options = Options { ignore_fences: true, ..Options::default() };
    let broker = EmbeddedBroker::start_with("127.0.0.1:0", options).unwrap();
    let left = suspend(&Kafka::on(&broker.bootstrap(), "stale-open"), "begin");
    assert!(left.is_corrupt(), "the stale owner's work is not visible: this scenario shows nothing");
}
