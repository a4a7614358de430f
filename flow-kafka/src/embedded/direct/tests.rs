//! The direct door's clients on the embedded broker, under the virtual clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow_core::{HeadersRef, Offset, Partition};

use super::{DirectBroker, Isolation, Seen};
use crate::broker::*;
use crate::config::ClientSettings;
use crate::embedded::Options;
use crate::sim::{self, Fault, Process, Report, Simulation, Trigger};

const LONG: Duration = Duration::from_secs(5);

fn settings() -> ClientSettings {
    ClientSettings {
        bootstrap: String::new(),
        session_timeout: Duration::from_secs(10),
        transaction_timeout: Duration::from_secs(8),
        message_timeout: Duration::from_secs(6),
        max_poll_interval: Duration::from_secs(300),
        instance: None,
        overrides: Vec::new(),
    }
}

fn simulation(seed: u64) -> Simulation {
    Simulation::new(sim::Options::new(seed), Options::default())
}

fn spec(assignor: Assignor) -> ConsumerSpec {
    ConsumerSpec { group: "g".into(), assignor, client_id: "c".into() }
}

fn record(key: &str) -> Seen {
    Seen { key: Some(key.into()), value: Some(b"v".to_vec()), timestamp: 1000, ..Seen::default() }
}

fn feed(simulation: &Simulation, topic: &str, partitions: i32, each: usize) {
    let view = simulation.view();
    view.create_topic(topic, partitions).unwrap();
    for number in 0..partitions {
        let records: Vec<_> = (0..each).map(|index| record(&format!("{number}-{index}"))).collect();
        view.produce(&TopicPartition::new(topic, number), &records).unwrap();
    }
}

fn start(simulation: &Simulation, process: Process, run: impl FnOnce(&DirectBroker) + Send + 'static) {
    let broker = simulation.broker(process, &settings());
    simulation.actor(process, "main", move || run(&broker)).unwrap();
}

/// What the members of a group own, by process, and every record that they were handed.
#[derive(Default)]
struct Group {
    owned: BTreeMap<&'static str, BTreeSet<i32>>,
    records: Vec<(String, Duration)>,
    events: Vec<String>,
}

type Shared = Arc<Mutex<Group>>;

/// A member that owns what it is given, and reads it from the start.
fn member(simulation: &Simulation, name: &'static str, assignor: Assignor, until: Duration, group: &Shared) -> Process {
    let process = simulation.process(name);
    let group = Arc::clone(group);
    start(simulation, process, move |broker| {
        let mut consumer = broker.consumer(&spec(assignor)).unwrap();
        consumer.subscribe(&["in".to_owned()]).unwrap();
        while broker.host().elapsed() < until {
            let mut polled = Vec::new();
            let event = consumer.poll(Duration::from_millis(100), &mut |record| {
                polled.push(String::from_utf8(record.record.key.unwrap().to_vec()).unwrap());
                Next::Continue
            });
            let now = broker.host().elapsed();
            group.lock().unwrap().records.extend(polled.into_iter().map(|key| (key, now)));
            let Some(event) = event.unwrap() else { continue };
            let mut group = group.lock().unwrap();
            group.events.push(format!("{name} {event:?}"));
            let owned = group.owned.entry(name).or_default();
            match &event {
                Rebalance::Assigned(added) => owned.extend(added.iter().map(|p| p.partition.0)),
                Rebalance::Revoked(gone) | Rebalance::Lost(gone) => {
                    gone.iter().for_each(|p| assert!(owned.remove(&p.partition.0)));
                }
            }
            drop(group);
            consumer.acknowledge(&event).unwrap();
            if let Rebalance::Assigned(added) = &event {
                let at: Vec<_> = added.iter().map(|partition| (partition.clone(), Offset(0))).collect();
                consumer.start(&at).unwrap();
            }
        }
        consumer.close();
    });
    process
}

fn at(simulation: &Simulation, time: Duration, look: impl FnOnce() + Send + 'static) {
    let process = simulation.process("test");
    start(simulation, process, move |broker| {
        broker.host().sleep(time);
        look();
    });
}

#[test]
fn two_members_share_the_partitions_and_the_one_that_stays_gets_all_back() {
    for assignor in [Assignor::Range, Assignor::CooperativeSticky] {
        for seed in 0..5 {
            let simulation = simulation(seed);
            feed(&simulation, "in", 4, 3);
            let group = Shared::default();
            member(&simulation, "a", assignor, Duration::from_secs(20), &group);
            member(&simulation, "b", assignor, Duration::from_secs(10), &group);
            let seen = Arc::clone(&group);
            at(&simulation, Duration::from_secs(9), move || {
                let owned = seen.lock().unwrap().owned.clone();
                assert_eq!(owned.values().map(BTreeSet::len).collect::<Vec<_>>(), [2, 2], "{assignor:?} {owned:?}");
                assert!(owned["a"].is_disjoint(&owned["b"]));
            });
            let seen = Arc::clone(&group);
            at(&simulation, Duration::from_secs(19), move || {
                assert_eq!(seen.lock().unwrap().owned["a"].len(), 4, "{assignor:?}");
            });
            simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
            let keys: BTreeSet<_> = group.lock().unwrap().records.iter().map(|(key, _)| key.clone()).collect();
            assert_eq!(keys.len(), 12);
        }
    }
}

#[test]
fn a_cooperative_rebalance_revokes_only_what_moves() {
    let simulation = simulation(1);
    feed(&simulation, "in", 4, 1);
    let group = Shared::default();
    member(&simulation, "a", Assignor::CooperativeSticky, Duration::from_secs(20), &group);
    let (later, shared) = (simulation.clone(), Arc::clone(&group));
    at(&simulation, Duration::from_secs(5), move || {
        member(&later, "b", Assignor::CooperativeSticky, Duration::from_secs(20), &shared);
    });
    simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
    let events = group.lock().unwrap().events.clone();
    let revoked: Vec<_> = events.iter().filter(|event| event.contains("Revoked")).collect();
    assert_eq!(revoked.len(), 1, "{events:#?}");
    assert!(revoked[0].starts_with("a "));
    assert_eq!(group.lock().unwrap().owned["b"].len(), 2);
}

#[test]
fn the_partitions_of_a_killed_member_move_after_its_session_timeout() {
    for assignor in [Assignor::Range, Assignor::CooperativeSticky] {
        let simulation = simulation(2);
        feed(&simulation, "in", 4, 1);
        let group = Shared::default();
        member(&simulation, "a", assignor, Duration::from_secs(40), &group);
        let b = member(&simulation, "b", assignor, Duration::from_secs(40), &group);
        simulation.plan(b, Trigger::Time(Duration::from_secs(10)), Fault::Crash);
        let seen = Arc::clone(&group);
        at(&simulation, Duration::from_secs(18), move || assert_eq!(seen.lock().unwrap().owned["a"].len(), 2));
        let seen = Arc::clone(&group);
        at(&simulation, Duration::from_secs(23), move || assert_eq!(seen.lock().unwrap().owned["a"].len(), 4));
        simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
        assert!(simulation.is_crashed(b));
    }
}

#[test]
fn a_member_that_was_stopped_for_long_learns_that_it_lost_everything_and_returns() {
    for assignor in [Assignor::Range, Assignor::CooperativeSticky] {
        let simulation = simulation(3);
        feed(&simulation, "in", 4, 1);
        let group = Shared::default();
        member(&simulation, "a", assignor, Duration::from_secs(60), &group);
        let b = member(&simulation, "b", assignor, Duration::from_secs(60), &group);
        simulation.plan(b, Trigger::Time(Duration::from_secs(10)), Fault::Pause(Duration::from_secs(20)));
        let seen = Arc::clone(&group);
        at(&simulation, Duration::from_secs(28), move || assert_eq!(seen.lock().unwrap().owned["a"].len(), 4));
        let seen = Arc::clone(&group);
        at(&simulation, Duration::from_secs(45), move || {
            let seen = seen.lock().unwrap();
            assert!(seen.events.iter().any(|event| event.starts_with("b Lost")), "{:#?}", seen.events);
            assert_eq!(seen.owned["b"].len(), 2);
        });
        simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn a_member_that_does_not_poll_in_time_loses_its_partitions() {
    let simulation = simulation(1);
    feed(&simulation, "in", 2, 1);
    let process = simulation.process("a");
    let broker =
        simulation.broker(process, &ClientSettings { max_poll_interval: Duration::from_secs(20), ..settings() });
    simulation
        .actor(process, "main", move || {
            let mut consumer = broker.consumer(&spec(Assignor::Range)).unwrap();
            consumer.subscribe(&["in".to_owned()]).unwrap();
            let next = |consumer: &mut Box<dyn Consumer>| loop {
                if let Some(event) = consumer.poll(LONG, &mut |_| Next::Continue).unwrap() {
                    return event;
                }
            };
            let assigned = next(&mut consumer);
            consumer.acknowledge(&assigned).unwrap();
            let generation = consumer.generation().unwrap();
            broker.host().sleep(Duration::from_secs(30));
            assert_eq!(consumer.generation().unwrap_err().kind, ErrorKind::NoGeneration);
            let lost = next(&mut consumer);
            assert!(matches!(&lost, Rebalance::Lost(gone) if gone.len() == 2), "{lost:?}");
            consumer.acknowledge(&lost).unwrap();
            let again = next(&mut consumer);
            assert!(matches!(&again, Rebalance::Assigned(added) if added.len() == 2), "{again:?}");
            assert!(consumer.generation().unwrap().id > generation.id);
        })
        .unwrap();
    simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
}

/// Joins alone and owns everything, started at the beginning.
fn join_alone(broker: &DirectBroker) -> Box<dyn Consumer> {
    let mut consumer = broker.consumer(&spec(Assignor::Range)).unwrap();
    consumer.subscribe(&["in".to_owned()]).unwrap();
    loop {
        if let Some(event) = consumer.poll(LONG, &mut |_| Next::Continue).unwrap() {
            consumer.acknowledge(&event).unwrap();
            return consumer;
        }
    }
}

fn producer(broker: &DirectBroker, id: &str) -> Box<dyn Producer> {
    let spec = ProducerSpec { transactional_id: id.into(), client_id: "p".into() };
    let mut producer = broker.producer(&spec).unwrap();
    producer.init(LONG).unwrap();
    producer
}

fn send(producer: &mut dyn Producer, keys: &[&str]) {
    let topic = producer.topic("out").unwrap();
    let records: Vec<_> = keys
        .iter()
        .map(|key| Outgoing {
            topic,
            partition: Partition(0),
            key: Some(key.as_bytes()),
            value: Some(b"v"),
            timestamp: None,
            headers: HeadersRef::default(),
        })
        .collect();
    producer.send(&records).unwrap();
}

fn commit_of(offset: i64) -> Vec<OffsetCommit> {
    let partition = TopicPartition::new("in", 0);
    vec![OffsetCommit { partition, offset: Offset(offset), metadata: "é".into() }]
}

fn keys(records: &[Seen]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8(record.key.clone().unwrap()).unwrap()).collect()
}

#[test]
fn a_transaction_commits_records_and_offsets_together_and_an_abort_leaves_neither() {
    for seed in 0..8 {
        let simulation = simulation(seed);
        feed(&simulation, "in", 1, 1);
        simulation.view().create_topic("out", 1).unwrap();
        start(&simulation, simulation.process("a"), |broker| {
            let mut consumer = join_alone(broker);
            let mut producer = producer(broker, "t");
            let generation = consumer.generation().unwrap();
            for (round, name) in ["one", "two", "three", "four"].into_iter().enumerate() {
                producer.begin().unwrap();
                send(&mut *producer, &[name, name]);
                producer.flush(LONG).unwrap();
                producer.send_offsets(&commit_of(round as i64 + 1), &generation, LONG).unwrap();
                match round % 2 {
                    0 => producer.commit(LONG).unwrap(),
                    _ => producer.abort(LONG).unwrap(),
                }
            }
            let mut reader = broker.reader().unwrap();
            let committed = reader.committed("g", &[TopicPartition::new("in", 0)], LONG).unwrap();
            assert_eq!(committed, [Some(Committed { offset: Offset(3), metadata: "é".into() })]);
            let out = TopicPartition::new("out", 0);
            let ends = reader.watermarks(std::slice::from_ref(&out), LONG).unwrap();
            assert_eq!(ends, [Watermarks { low: Offset(0), high: Offset(12) }]);
            reader.assign(&[(out.clone(), Offset(0))]).unwrap();
            let mut read = Vec::new();
            while reader.position(&out).unwrap() != Some(Offset(12)) {
                reader
                    .poll(LONG, &mut |polled| {
                        read.push(String::from_utf8(polled.record.key.unwrap().to_vec()).unwrap());
                    })
                    .unwrap();
            }
            assert_eq!(read, ["one", "one", "three", "three"]);
        });
        simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
        let out = TopicPartition::new("out", 0);
        let view = simulation.view();
        assert_eq!(keys(&view.read(&out, Isolation::Committed).unwrap()), ["one", "one", "three", "three"]);
        assert_eq!(view.read(&out, Isolation::Uncommitted).unwrap().len(), 8);
    }
}

#[test]
fn a_lost_answer_neither_doubles_nor_loses_what_it_answered() {
    // Each request of the transaction in turn: the broker did it, the client does not know.
    for step in 1..40 {
        let simulation = simulation(step);
        feed(&simulation, "in", 1, 1);
        simulation.view().create_topic("out", 1).unwrap();
        let process = simulation.process("a");
        simulation.plan(process, Trigger::BeforeStep(step), Fault::LoseAnswer);
        start(&simulation, process, |broker| {
            let mut consumer = join_alone(broker);
            let mut producer = producer(broker, "t");
            let generation = consumer.generation().unwrap();
            for round in 1..=2 {
                producer.begin().unwrap();
                send(&mut *producer, &["k"]);
                producer.flush(LONG).unwrap();
                producer.send_offsets(&commit_of(round), &generation, LONG).unwrap();
                producer.commit(LONG).unwrap();
            }
        });
        simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
        let view = simulation.view();
        let out = TopicPartition::new("out", 0);
        assert_eq!(keys(&view.read(&out, Isolation::Committed).unwrap()), ["k", "k"], "step {step}");
        let committed = view.committed("g", &[TopicPartition::new("in", 0)]).unwrap();
        assert_eq!(committed[0].as_ref().unwrap().offset, Offset(2));
    }
}

/// Process `a` is stopped at some point, `b` takes over and commits, then `a` goes on with what it had begun.
fn zombie(seed: u64, inside: bool, ignore_fences: bool) -> (Result<(), ErrorKind>, Vec<String>, i64) {
    let options = Options { ignore_fences, ..Options::default() };
    let simulation = Simulation::new(sim::Options::new(seed), options);
    feed(&simulation, "in", 1, 1);
    simulation.view().create_topic("out", 1).unwrap();
    let (a, b) = (simulation.process("a"), simulation.process("b"));
    let outcome = Arc::new(Mutex::new(None));
    let (report, control) = (Arc::clone(&outcome), simulation.clone());
    start(&simulation, a, move |broker| {
        let mut consumer = join_alone(broker);
        let mut producer = producer(broker, "a");
        let generation = consumer.generation().unwrap();
        let stop = || {
            control.fault(a, Fault::Pause(Duration::from_secs(40)));
            broker.host().sleep(Duration::from_millis(1));
        };
        if !inside {
            stop();
        }
        producer.begin().unwrap();
        send(&mut *producer, &["stale"]);
        let result = producer.flush(LONG).and_then(|()| {
            if inside {
                stop();
            }
            producer.send_offsets(&commit_of(1), &generation, LONG)
        });
        let result = result.and_then(|()| producer.commit(LONG));
        *report.lock().unwrap() = Some(result.map_err(|error| error.kind));
    });
    start(&simulation, b, |broker| {
        broker.host().sleep(Duration::from_secs(5));
        let mut consumer = join_alone(broker);
        let mut producer = producer(broker, "b");
        producer.begin().unwrap();
        send(&mut *producer, &["fresh"]);
        producer.flush(LONG).unwrap();
        producer.send_offsets(&commit_of(7), &consumer.generation().unwrap(), LONG).unwrap();
        producer.commit(LONG).unwrap();
    });
    simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
    let view = simulation.view();
    let out = keys(&view.read(&TopicPartition::new("out", 0), Isolation::Committed).unwrap());
    let offset = view.committed("g", &[TopicPartition::new("in", 0)]).unwrap()[0].as_ref().unwrap().offset.0;
    let outcome = outcome.lock().unwrap().take().expect("a came to its end");
    (outcome, out, offset)
}

#[test]
fn a_zombie_that_opens_its_transaction_late_is_refused_by_its_generation() {
    for seed in 0..5 {
        let (outcome, out, offset) = zombie(seed, false, false);
        assert_eq!((outcome, out, offset), (Err(ErrorKind::StaleGeneration), vec!["fresh".to_owned()], 7));
    }
}

#[test]
fn a_zombie_that_was_stopped_inside_its_transaction_is_refused_by_its_epoch() {
    for seed in 0..5 {
        let (outcome, out, offset) = zombie(seed, true, false);
        assert_eq!((outcome, out, offset), (Err(ErrorKind::Fenced), vec!["fresh".to_owned()], 7));
    }
}

#[test]
fn without_the_fence_the_same_zombie_corrupts() {
    let (outcome, out, offset) = zombie(1, false, true);
    assert_eq!((outcome, out, offset), (Ok(()), vec!["fresh".to_owned(), "stale".to_owned()], 1));
}

#[test]
fn an_open_transaction_hides_its_offsets_until_the_broker_gives_it_up() {
    let simulation = simulation(4);
    feed(&simulation, "in", 1, 1);
    simulation.view().create_topic("out", 1).unwrap();
    let a = simulation.process("a");
    let control = simulation.clone();
    start(&simulation, a, move |broker| {
        let mut consumer = join_alone(broker);
        let mut producer = producer(broker, "a");
        producer.begin().unwrap();
        send(&mut *producer, &["k"]);
        producer.flush(LONG).unwrap();
        producer.send_offsets(&commit_of(1), &consumer.generation().unwrap(), LONG).unwrap();
        control.fault(a, Fault::Crash);
        broker.host().sleep(LONG);
        unreachable!("a crashed process does not go on");
    });
    start(&simulation, simulation.process("b"), |broker| {
        broker.host().sleep(Duration::from_secs(2));
        let mut reader = broker.reader().unwrap();
        let of = [TopicPartition::new("in", 0)];
        let unstable = reader.committed("g", &of, Duration::from_secs(1)).unwrap_err();
        assert_eq!(unstable.kind, ErrorKind::Unstable, "{unstable}");
        assert_eq!(reader.committed("g", &of, Duration::from_secs(30)).unwrap(), [None]);
    });
    simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
    let out = TopicPartition::new("out", 0);
    assert!(simulation.view().read(&out, Isolation::Committed).unwrap().is_empty());
}

#[test]
fn what_the_broker_will_not_take_is_refused_and_the_producer_goes_on() {
    let simulation = simulation(1);
    feed(&simulation, "in", 1, 1);
    simulation.view().create_topic("out", 1).unwrap();
    start(&simulation, simulation.process("a"), |broker| {
        let mut consumer = join_alone(broker);
        let mut producer = producer(broker, "a");
        let generation = consumer.generation().unwrap();
        producer.begin().unwrap();
        assert_eq!(producer.send_offsets(&[], &generation, LONG).unwrap_err().kind, ErrorKind::Refused);
        let late = Generation { id: generation.id + 1, ..generation.clone() };
        let refused = producer.send_offsets(&commit_of(1), &late, LONG).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::StaleGeneration, "{refused}");
        assert!(producer.commit(LONG).is_err(), "no way leads past a failed send_offsets");
        producer.abort(LONG).unwrap();
        producer.begin().unwrap();
        let topic = producer.topic("nowhere").unwrap();
        let record = Outgoing {
            topic,
            partition: Partition(0),
            key: None,
            value: None,
            timestamp: None,
            headers: HeadersRef::default(),
        };
        producer.send(&[record]).unwrap();
        let refused = producer.flush(LONG).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::RecordRefused, "{refused}");
        assert!(refused.message.contains("nowhere/0"), "{refused}");
        producer.abort(LONG).unwrap();
        producer.begin().unwrap();
        send(&mut *producer, &["k"]);
        producer.flush(LONG).unwrap();
        producer.send_offsets(&commit_of(1), &generation, LONG).unwrap();
        producer.commit(LONG).unwrap();
    });
    simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
    let out = TopicPartition::new("out", 0);
    assert_eq!(keys(&simulation.view().read(&out, Isolation::Committed).unwrap()), ["k"]);
}

#[test]
fn paused_partitions_rest_and_a_record_that_was_not_taken_comes_again() {
    for seed in 0..5 {
        let simulation = simulation(seed);
        feed(&simulation, "in", 2, 20);
        start(&simulation, simulation.process("a"), |broker| {
            let mut consumer = join_alone(broker);
            let (zero, one) = (TopicPartition::new("in", 0), TopicPartition::new("in", 1));
            consumer.start(&[(zero.clone(), Offset(5)), (one.clone(), Offset(0))]).unwrap();
            consumer.pause(std::slice::from_ref(&one)).unwrap();
            let mut seen = Vec::new();
            // Takes records until there are that many, and refuses every third one at first.
            let poll = |consumer: &mut Box<dyn Consumer>, seen: &mut Vec<String>, until: usize| {
                let mut offered = 0;
                for _ in 0..100 {
                    let event = consumer.poll(Duration::from_millis(10), &mut |polled| {
                        offered += 1;
                        if seen.len() >= until || offered % 3 == 0 {
                            return Next::Stop;
                        }
                        seen.push(format!("{}/{}", polled.partition.0, polled.record.offset.0));
                        Next::Continue
                    });
                    assert_eq!(event.unwrap(), None);
                }
            };
            poll(&mut consumer, &mut seen, 7);
            let expected: Vec<_> = (5..12).map(|offset| format!("0/{offset}")).collect();
            assert_eq!(seen, expected);
            assert_eq!(consumer.lag(&zero), Some(8));
            consumer.pause(std::slice::from_ref(&zero)).unwrap();
            consumer.resume(std::slice::from_ref(&one)).unwrap();
            poll(&mut consumer, &mut seen, 27);
            consumer.resume(&[zero]).unwrap();
            poll(&mut consumer, &mut seen, usize::MAX);
            let expected = (5..12)
                .map(|offset| format!("0/{offset}"))
                .chain((0..20).map(|offset| format!("1/{offset}")))
                .chain((12..20).map(|offset| format!("0/{offset}")));
            assert_eq!(seen, expected.collect::<Vec<_>>());
        });
        simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn topics_are_described_created_and_purged() {
    let simulation = simulation(1);
    feed(&simulation, "in", 1, 10);
    start(&simulation, simulation.process("a"), |broker| {
        let mut admin = broker.admin().unwrap();
        let new = NewTopic {
            name: "log".into(),
            partitions: 3,
            replication: -1,
            config: vec![("cleanup.policy".into(), "compact".into())],
        };
        admin.create(std::slice::from_ref(&new), LONG).unwrap();
        admin.create(&[new], LONG).unwrap();
        let found = admin.topics(&["log".into(), "none".into()], LONG).unwrap();
        assert_eq!(found[0], Some(TopicInfo { partitions: 3, cleanup_policy: Some("compact".into()) }));
        assert_eq!(found[1], None);
        let partition = TopicPartition::new("in", 0);
        admin.delete_records(&[(partition.clone(), Offset(4))], LONG).unwrap();
        let mut reader = broker.reader().unwrap();
        let ends = reader.watermarks(std::slice::from_ref(&partition), LONG).unwrap();
        assert_eq!(ends, [Watermarks { low: Offset(4), high: Offset(10) }]);
        let missing = reader.watermarks(&[TopicPartition::new("none", 0)], LONG).unwrap_err();
        assert_eq!(missing.kind, ErrorKind::UnknownTopic, "{missing}");
        reader.assign(&[(partition, Offset(1))]).unwrap();
        assert_eq!(reader.poll(LONG, &mut |_| {}).unwrap_err().kind, ErrorKind::OffsetOutOfRange);
    });
    simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
    let seen = simulation.view().read(&TopicPartition::new("in", 0), Isolation::Committed).unwrap();
    assert_eq!(seen.len(), 6);
}

fn churn(seed: u64) -> Report {
    let simulation = simulation(seed);
    feed(&simulation, "in", 6, 50);
    let group = Shared::default();
    let processes = ["a", "b", "c"]
        .map(|name| member(&simulation, name, Assignor::CooperativeSticky, Duration::from_secs(60), &group));
    simulation.plan(processes[1], Trigger::BeforeStep(60), Fault::Crash);
    simulation.plan(processes[2], Trigger::AfterStep(90), Fault::Pause(Duration::from_secs(15)));
    simulation.run().unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn a_seed_replays_members_crashes_and_pauses_bit_for_bit() {
    for seed in 0..5 {
        let (first, second) = (churn(seed), churn(seed));
        assert!(first.steps > 500);
        assert_eq!((first.trace_hash, first.steps, first.trace), (second.trace_hash, second.steps, second.trace));
    }
    assert_ne!(churn(1).trace_hash, churn(2).trace_hash);
}
