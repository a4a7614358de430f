//! Rebalances by plan: processes come, go, fall and stand still while input flows all the time.
//!
//! Every record is counted per key and each count is an output, so what a `read_committed` reader sees of a key must be 1, 2, 3..
//! up to the number of its records, whatever happened.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow_core::{ByType, Topic, Topology, TopologyBuilder, Utf8, partition_for};
use flow_kafka::broker::{Broker, TopicPartition};
use flow_kafka::embedded::direct::{Isolation, Seen, View};
use flow_kafka::sim::{Fault, Options, Process, Simulation};
use flow_kafka::{ClientSettings, Counters, KafkaConfig, State, start_on};
use futures::FutureExt;

use crate::slow;

const NOWHERE: &str = "nowhere:0";
const PARTITIONS: i32 = 4;
const KEYS: u32 = 40;
/// The session timeout is as long.
const POLL_LIMIT: Duration = Duration::from_secs(10);
const LEFT: Topic<str, str, ByType, Utf8> = Topic::new("left");
const RIGHT: Topic<str, str, ByType, Utf8> = Topic::new("right");
const COUNTS: Topic<str, u64> = Topic::new("counts");

/// How the group assigns: a task with two inputs makes it eager.
#[derive(Clone, Copy, PartialEq)]
enum Group {
    Cooperative,
    Eager,
}

/// A record whose value is a number takes its step so many milliseconds.
fn topology(group: Group, broker: Arc<dyn Broker>) -> Topology {
    let topology = TopologyBuilder::new();
    let mut events = topology.stream(LEFT);
    if group == Group::Eager {
        events = events.merge(topology.stream(RIGHT));
    }
    let events = events.inspect(move |_, value| {
        if let Ok(millis) = value.parse() {
            broker.host().sleep(Duration::from_millis(millis));
        }
    });
    events.count("counts").changes().to(COUNTS);
    topology.build().unwrap()
}

/// What happens to a process.
#[derive(Clone, Copy)]
enum Event {
    Start(&'static str),
    /// It is asked to end.
    Stop(&'static str),
    Kill(&'static str),
    /// For so many seconds.
    Pause(&'static str, u64),
    /// So many records of one key come that take their step so many milliseconds each.
    Slow(u32, u64),
}
use Event::{Kill, Pause, Slow, Start, Stop};

/// A process that runs the application.
#[derive(Default)]
struct Running {
    stop: AtomicBool,
    ended: Mutex<Option<Result<Counters, String>>>,
}

/// A plan, and what to look at.
struct Plan<'p> {
    group: Group,
    /// By the second.
    events: &'p [(u64, Event)],
    /// The input ends here.
    end: u64,
    /// What a read of snapshots costs.
    recovery_delay: Duration,
}

/// What came of it.
struct Outcome {
    /// What each process that was not killed has counted.
    counters: BTreeMap<&'static str, Counters>,
    /// Why processes ended by themselves.
    failures: BTreeMap<&'static str, String>,
    /// For each partition the longest time without a commit of new input, while there was some, from this second on.
    silence: BTreeMap<i32, Duration>,
    /// How often somebody learned that its partitions were lost.
    losses: usize,
}

/// Runs a plan, feeding all keys round and round; `watch` is the second from which silence counts.
fn run(plan: &Plan<'_>, watch: u64) -> Outcome {
    let outcome = run_any(plan, watch);
    assert_eq!(outcome.failures, BTreeMap::new());
    outcome
}

/// The same, where processes may end by themselves.
fn run_any(plan: &Plan<'_>, watch: u64) -> Outcome {
    let trace_kept = usize::MAX;
    let options =
        Options { time_limit: Duration::from_secs(900), step_limit: 4_000_000, trace_kept, ..Options::new(3) };
    let simulation = Simulation::new(options, Default::default());
    let view = simulation.view();
    for topic in ["left", "right", "counts"] {
        view.create_topic(topic, PARTITIONS).unwrap();
    }
    let test = simulation.process("test");
    let broker = simulation.broker(test, &ClientSettings::new(NOWHERE));
    let stage = Arc::new(Stage { simulation: simulation.clone(), group: plan.group, delay: plan.recovery_delay });
    let (events, end) = (plan.events.to_vec(), plan.end);
    let outcome = Arc::new(Mutex::new(None));
    let result = Arc::clone(&outcome);
    let drive = move || {
        let outcome = stage.drive(&broker, &events, end, watch);
        *result.lock().unwrap() = Some(outcome);
    };
    simulation.actor(test, "driver", drive).unwrap();
    let report = simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.panics, Vec::<String>::new());
    let mut outcome: Outcome = outcome.lock().unwrap().take().unwrap();
    outcome.losses = report.trace.iter().filter(|line| line.contains(", lost [")).count();
    outcome
}

struct Stage {
    simulation: Simulation,
    group: Group,
    delay: Duration,
}

impl Stage {
    fn start(self: &Arc<Self>, name: &str) -> (Process, Arc<Running>) {
        let process = self.simulation.process(name);
        let (stage, running) = (Arc::clone(self), Arc::<Running>::default());
        let own = Arc::clone(&running);
        self.simulation.actor(process, "main", move || stage.work(process, &own)).unwrap();
        (process, running)
    }

    fn work(&self, process: Process, running: &Running) {
        let settings = ClientSettings { max_poll_interval: POLL_LIMIT, ..ClientSettings::new(NOWHERE) };
        let broker = self.simulation.broker(process, &settings);
        let broker: Arc<dyn Broker> = Arc::new(slow::Slow::new(broker, self.delay));
        let config = KafkaConfig::new(NOWHERE, "app")
            .workers(1)
            .commit_interval(Duration::from_millis(200))
            .max_poll_interval(POLL_LIMIT);
        let app = start_on(Arc::clone(&broker), topology(self.group, Arc::clone(&broker)), config).unwrap();
        while !matches!(app.state(), State::Stopped | State::Failed) {
            if running.stop.load(Ordering::Relaxed) {
                app.stop();
            }
            broker.host().sleep(Duration::from_millis(50));
        }
        let ended = app.wait().now_or_never().expect("it has ended");
        *running.ended.lock().unwrap() = Some(ended.map(|summary| summary.counters).map_err(|error| error.to_string()));
    }

    fn drive(self: &Arc<Self>, broker: &dyn Broker, events: &[(u64, Event)], end: u64, watch: u64) -> Outcome {
        let (host, view) = (broker.host(), self.simulation.view());
        let mut events = events.iter().peekable();
        let mut all: BTreeMap<&'static str, (Process, Arc<Running>)> = BTreeMap::new();
        let (mut fed, mut seen) = (Fed::default(), BTreeMap::new());
        let mut silence = BTreeMap::new();
        while host.elapsed() < Duration::from_secs(end) {
            while let Some((_, event)) = events.next_if(|(at, _)| host.elapsed() >= Duration::from_secs(*at)) {
                match event {
                    Start(name) => drop(all.insert(name, self.start(name))),
                    Stop(name) => all[name].1.stop.store(true, Ordering::Relaxed),
                    Kill(name) => self.simulation.fault(all[name].0, Fault::Crash),
                    Pause(name, time) => {
                        self.simulation.fault(all[name].0, Fault::Pause(Duration::from_secs(*time)));
                    }
                    Slow(records, millis) => {
                        let value = millis.to_string();
                        (0..*records).for_each(|_| fed.send(&view, "left", "slow", &value, host.now().as_millis()));
                    }
                }
            }
            fed.feed(&view, self.group, host.now().as_millis());
            host.sleep(Duration::from_millis(100));
            let now = host.elapsed();
            for partition in 0..PARTITIONS {
                let done = processed(&view, partition);
                let (known, at) = seen.entry(partition).or_insert((0, now));
                if done > *known || now < Duration::from_secs(watch) {
                    (*known, *at) = (done, now);
                }
                let longest: &mut Duration = silence.entry(partition).or_default();
                *longest = (*longest).max(now - *at);
            }
        }
        while (0..PARTITIONS).map(|partition| processed(&view, partition)).sum::<i64>() < i64::from(fed.records) {
            host.sleep(Duration::from_millis(500));
        }
        let living = |process: &Process| !self.simulation.is_crashed(*process);
        let (mut counters, mut failures) = (BTreeMap::new(), BTreeMap::new());
        for (name, (process, running)) in all.iter().filter(|(_, (process, _))| living(process)) {
            running.stop.store(true, Ordering::Relaxed);
            while running.ended.lock().unwrap().is_none() {
                assert!(living(process));
                host.sleep(Duration::from_millis(100));
            }
            match running.ended.lock().unwrap().clone().unwrap() {
                Ok(counted) => drop(counters.insert(*name, counted)),
                Err(error) => drop(failures.insert(*name, error)),
            }
        }
        fed.check(&view);
        Outcome { counters, failures, silence, losses: 0 }
    }
}

/// How many records of a partition are processed and committed, in both topics.
fn processed(view: &View, partition: i32) -> i64 {
    let inputs = ["left", "right"].map(|topic| TopicPartition::new(topic, partition));
    view.committed("app", &inputs).unwrap().into_iter().flatten().map(|committed| committed.offset.0).sum()
}

/// What was sent so far.
#[derive(Default)]
struct Fed {
    records: u32,
    of_key: BTreeMap<String, u64>,
}

impl Fed {
    /// Ten records more: one for each of ten keys.
    fn feed(&mut self, view: &View, group: Group, now: i64) {
        for _ in 0..10 {
            let key = format!("k{}", self.records % KEYS);
            // Every key comes from both sides.
            let right = group == Group::Eager && (self.records / KEYS) % 2 == 1;
            self.send(view, if right { "right" } else { "left" }, &key, "x", now);
        }
    }

    fn send(&mut self, view: &View, topic: &str, key: &str, value: &str, now: i64) {
        let partition = partition_for(key.as_bytes(), PARTITIONS).0;
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        let record = Seen { key: bytes(key), value: bytes(value), timestamp: now, ..Seen::default() };
        view.produce(&TopicPartition::new(topic, partition), &[record]).unwrap();
        *self.of_key.entry(key.to_owned()).or_default() += 1;
        self.records += 1;
    }

    fn counted(view: &View) -> BTreeMap<String, Vec<u64>> {
        let mut counts: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for partition in 0..PARTITIONS {
            for record in view.read(&TopicPartition::new("counts", partition), Isolation::Committed).unwrap() {
                let key = String::from_utf8(record.key.unwrap()).unwrap();
                counts.entry(key).or_default().push(serde_json::from_slice(&record.value.unwrap()).unwrap());
            }
        }
        counts
    }

    /// Each count of each key once, and in order.
    fn check(&self, view: &View) {
        let wanted = self.of_key.iter().map(|(key, sent)| (key.clone(), (1..=*sent).collect())).collect();
        assert_eq!(Fed::counted(view), wanted);
    }
}

const QUICK: Duration = Duration::ZERO;

#[test]
fn tasks_that_an_eager_rebalance_takes_and_returns_go_on_without_a_restore() {
    let events = &[(0, Start("a")), (5, Start("b")), (12, Stop("b"))];
    let outcome = run(&Plan { group: Group::Eager, events, end: 20, recovery_delay: QUICK }, 0);
    let (a, b) = (outcome.counters["a"], outcome.counters["b"]);
    // Both keep two of four when the other one comes or goes; the other two have to be restored by who gets them.
    assert_eq!((a.warm, b.warm), (4, 0));
    assert!(b.restored > 0 && a.restored > 0);
}

#[test]
fn a_process_that_was_thrown_out_and_comes_back_first_sends_its_work_again_and_restores_nothing() {
    for group in [Group::Eager, Group::Cooperative] {
        let events = &[(0, Start("a")), (5, Pause("a", 30))];
        let outcome = run(&Plan { group, events, end: 45, recovery_delay: QUICK }, 0);
        let a = outcome.counters["a"];
        assert_eq!((a.warm, a.restored), (4, 0));
    }
}

/// Its tasks look warm to it, but somebody else has committed for them.
#[test]
fn a_process_that_comes_back_after_its_successor_restores_what_that_one_did() {
    for group in [Group::Eager, Group::Cooperative] {
        let events = &[(0, Start("a")), (5, Pause("a", 30)), (6, Start("b")), (40, Kill("b"))];
        let outcome = run(&Plan { group, events, end: 60, recovery_delay: QUICK }, 0);
        assert!(outcome.counters["a"].restored > 0);
    }
}

#[test]
fn a_second_rebalance_in_the_middle_of_a_recovery_loses_nothing() {
    for group in [Group::Eager, Group::Cooperative] {
        let events = &[
            (0, Start("first")),
            (8, Stop("first")),
            (12, Start("a")),
            (14, Start("b")),
            (16, Kill("b")),
            (18, Start("c")),
        ];
        run(&Plan { group, events, end: 72, recovery_delay: Duration::from_secs(2) }, 0);
    }
}

/// The generation rises with each of them, for everybody.
#[test]
fn members_that_keep_their_partitions_work_on_while_another_one_restarts_again_and_again() {
    let mut events = vec![(0, Start("a")), (0, Start("b"))];
    for (round, name) in ["c1", "c2", "c3", "c4", "c5", "c6"].into_iter().enumerate() {
        let at = 10 + 10 * round as u64;
        events.extend([(at, Start(name)), (at + 5, Stop(name))]);
    }
    let outcome = run(&Plan { group: Group::Cooperative, events: &events, end: 75, recovery_delay: QUICK }, 8);
    let longest = outcome.silence.values().max().unwrap();
    assert!(*longest < Duration::from_secs(2), "{:?}", outcome.silence);
    let aborts: u64 = outcome.counters.values().map(|counters| counters.aborts).sum();
    assert!(aborts < 12, "{aborts} transactions were aborted in 12 rebalances");
}

#[test]
fn partitions_that_stay_where_they_are_do_not_notice_a_cooperative_rebalance() {
    // The newcomer takes long to recover what it gets; what stays does not wait for that.
    let events = &[(0, Start("a")), (10, Start("b"))];
    let outcome = run(&Plan { group: Group::Cooperative, events, end: 25, recovery_delay: Duration::from_secs(3) }, 8);
    let mut silence: Vec<Duration> = outcome.silence.into_values().collect();
    silence.sort_unstable();
    assert!(silence[1] < Duration::from_secs(1), "two of four stay: {silence:?}");
    assert!(silence[2] > Duration::from_secs(2), "two of four move: {silence:?}");
}

/// Thrown out in the middle of the record, it comes back, and the record that it had done meanwhile is sent.
#[test]
fn a_record_that_takes_longer_than_the_poll_interval_is_done_once_if_nobody_else_is_there() {
    for group in [Group::Eager, Group::Cooperative] {
        let events = &[(0, Start("a")), (10, Slow(1, 15_000))];
        let outcome = run(&Plan { group, events, end: 60, recovery_delay: QUICK }, 8);
        let a = outcome.counters["a"];
        assert_eq!((outcome.losses, a.warm, a.restored), (1, 4, 0));
        let longest = outcome.silence.values().max().unwrap();
        assert!(*longest < Duration::from_secs(17), "{:?}", outcome.silence);
    }
}

/// Each has to throw its work away because the other one has the partition by then. One says so and ends, and the other one gets it
/// done; unless one of them comes back in time to send what it has.
#[test]
fn processes_that_take_a_slow_record_from_each_other_do_not_do_so_for_ever() {
    for group in [Group::Eager, Group::Cooperative] {
        let events = &[(0, Start("a")), (0, Start("b")), (10, Slow(1, 15_000))];
        let outcome = run_any(&Plan { group, events, end: 150, recovery_delay: QUICK }, 8);
        let failed: Vec<String> = outcome.failures.into_values().collect();
        assert!(
            failed.len() < 2 && failed.iter().all(|why| why.contains("took 15000 ms, twice and in vain")),
            "{failed:?}"
        );
    }
}

/// Records that are slow, but each within the limit, do not add up to an overrun.
#[test]
fn a_batch_of_slow_records_is_left_off_before_the_group_takes_its_worker_for_dead() {
    for group in [Group::Eager, Group::Cooperative] {
        let events = &[(0, Start("a")), (5, Slow(100, 300))];
        let outcome = run(&Plan { group, events, end: 10, recovery_delay: QUICK }, 8);
        assert_eq!(outcome.losses, 0);
    }
}
