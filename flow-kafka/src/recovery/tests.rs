//! Recoveries that are overtaken, and recoveries that get nowhere.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use flow_core::testing::TestDriver;
use flow_core::{HeadersRef, Partition, RecordRef, TaskOptions, Timestamp, Topic, Topology, TopologyBuilder};

use super::*;
use crate::broker::{Generation, OffsetCommit, Outgoing, Producer, ProducerSpec, TopicInfo};
use crate::config::{ClientSettings, KafkaConfig};
use crate::embedded;
use crate::embedded::direct::{DirectBroker, Isolation, Seen, View};
use crate::fake::Fake;
use crate::sim::{Fault, Options, Process, Simulation, Trigger};
use crate::topics;

const IN: Topic<str, u64> = Topic::new("in");
const OUT: Topic<str, u64> = Topic::new("out");
const LONG: Duration = Duration::from_secs(5);

fn topology() -> Topology {
    let topology = TopologyBuilder::new();
    topology.stream(IN).count("counts").changes().to(OUT);
    topology.build().unwrap()
}

/// A transaction with the snapshots that so many records leave, if each is committed alone; it is still open.
fn write(broker: &DirectBroker, id: &str, records: u32) -> Box<dyn Producer> {
    let mut driver = TestDriver::new(topology());
    let mut snapshots = Vec::new();
    for _ in 0..records {
        driver.send(IN, Timestamp::from_millis(0), "ann", &1);
        driver.commit();
        snapshots.extend(driver.snapshots("counts"));
    }
    let spec = ProducerSpec { transactional_id: id.into(), client_id: id.into() };
    let mut producer = broker.producer(&spec).unwrap();
    producer.init(LONG).unwrap();
    let topic = producer.topic("app-counts-changelog").unwrap();
    producer.begin().unwrap();
    let records: Vec<Outgoing<'_>> = snapshots
        .iter()
        .map(|(key, value)| Outgoing {
            topic,
            partition: Partition(0),
            key: Some(key),
            value: Some(value),
            timestamp: None,
            headers: HeadersRef::default(),
        })
        .collect();
    producer.send(&records).unwrap();
    producer.flush(LONG).unwrap();
    producer
}

/// What a worker commits after so many records: snapshots, and the offset behind the records. The group has no member, so no
/// generation is asked for.
fn commit(broker: &DirectBroker, records: u32) {
    let mut producer = write(broker, "other", records);
    let metadata = Note { commit: 1, ..Note::default() }.encode();
    let offset = OffsetCommit { partition: TopicPartition::new("in", 0), offset: Offset(records.into()), metadata };
    let anybody = Generation { group: "app".into(), id: -1, member: String::new(), instance: None };
    producer.send_offsets(&[offset], &anybody, LONG).unwrap();
    producer.commit(LONG).unwrap();
}

/// What a recovery reports in the end.
fn outcome(received: &Receiver<Report>) -> Report {
    received.try_iter().find(|report| !matches!(report, Report::Reading(_))).unwrap()
}

/// What a recovery reports that is stopped after this step, while somebody else commits.
fn overtaken_after(step: u64) -> Report {
    let simulation = Simulation::new(Options::new(step), embedded::Options::default());
    let view = simulation.view();
    view.create_topic("in", 1).unwrap();
    view.create_topic("out", 1).unwrap();
    view.produce(&TopicPartition::new("in", 0), &[Seen { key: Some(b"ann".to_vec()), ..Seen::default() }]).unwrap();
    let settings = ClientSettings::new("nowhere:0");
    let broker = |process: Process| simulation.broker(process, &settings);
    let (test, stopped, other) =
        (simulation.process("test"), simulation.process("stopped"), simulation.process("other"));
    simulation.plan(stopped, Trigger::AfterStep(step), Fault::Pause(Duration::from_secs(10)));
    let (setup, stopped_broker, other_broker) = (broker(test), broker(stopped), broker(other));
    let (reports, received) = channel();
    let (own, received) = (simulation.clone(), Arc::new(Mutex::new(received)));
    let prepare = move || {
        let config = KafkaConfig::new("nowhere:0", "app");
        let layout = topics::prepare(&mut *setup.admin().unwrap(), setup.host(), &topology(), &config).unwrap();
        let recover = move || {
            let id = TaskId { sub: 0, partition: Partition(0) };
            let task = layout.subs[0].topology.task(id.partition, &TaskOptions::default());
            let jobs = vec![Job { id, epoch: 7, task, cancelled: Arc::default(), warm: None }];
            run(&stopped_broker, &layout, jobs, Duration::from_secs(120), &reports);
        };
        own.actor(stopped, "recovery", recover).unwrap();
        let commit = move || {
            other_broker.host().sleep(Duration::from_secs(5));
            commit(&other_broker, 1);
        };
        own.actor(other, "owner", commit).unwrap();
    };
    simulation.actor(test, "main", prepare).unwrap();
    simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
    outcome(&received.lock().unwrap())
}

#[test]
fn a_recovery_that_was_overtaken_says_so_and_does_not_call_for_repairs() {
    let mut outdated = 0;
    for step in 1..30 {
        match overtaken_after(step) {
            Report::Restored(restored) => assert_eq!(restored.offsets[0].0 as u64, restored.commit, "step {step}"),
            Report::Outdated { epoch, .. } => {
                assert_eq!(epoch, 7);
                outdated += 1;
            }
            Report::Warm { .. } | Report::Reading(_) => panic!("step {step}: there was nothing warm"),
            Report::Failed(_, error) => panic!("step {step}: {error}"),
        }
    }
    assert!(outdated > 0);
}

/// What a recovery reports of a log that `prepare` has written, and the snapshot partition's readable offsets.
fn recovered_from(prepare: impl FnOnce(&DirectBroker, &View) + Send + 'static) -> (Vec<Report>, Vec<i64>) {
    let simulation = Simulation::new(Options::new(1), embedded::Options::default());
    let view = simulation.view();
    view.create_topic("in", 1).unwrap();
    view.create_topic("out", 1).unwrap();
    let ann = Seen { key: Some(b"ann".to_vec()), ..Seen::default() };
    view.produce(&TopicPartition::new("in", 0), &vec![ann; 9]).unwrap();
    let test = simulation.process("test");
    let settings = ClientSettings { transaction_timeout: Duration::from_secs(60), ..ClientSettings::new("nowhere:0") };
    let (broker, own) = (simulation.broker(test, &settings), simulation.view());
    let (reports, received) = channel();
    let recover = move || {
        let config = KafkaConfig::new("nowhere:0", "app");
        let layout = topics::prepare(&mut *broker.admin().unwrap(), broker.host(), &topology(), &config).unwrap();
        prepare(&broker, &own);
        let id = TaskId { sub: 0, partition: Partition(0) };
        let task = layout.subs[0].topology.task(id.partition, &TaskOptions::default());
        let jobs = vec![Job { id, epoch: 1, task, cancelled: Arc::default(), warm: None }];
        run(&broker, &layout, jobs, Duration::from_secs(120), &reports);
    };
    simulation.actor(test, "recovery", recover).unwrap();
    let report = simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.panics, Vec::<String>::new());
    let readable = view.read(&TopicPartition::new("app-counts-changelog", 0), Isolation::Committed).unwrap();
    (received.try_iter().collect(), readable.iter().map(|record| record.offset).collect())
}

/// What was restored: its offset, and what the next record of the key makes of its count.
fn outcome_of(reports: Vec<Report>) -> (i64, Vec<u8>) {
    let restored = reports.into_iter().find(|report| !matches!(report, Report::Reading(_)));
    let Some(Report::Restored(mut restored)) = restored else { panic!("nothing was restored") };
    let record = RecordRef {
        offset: restored.offsets[0],
        key: Some(b"ann"),
        value: Some(b"1"),
        timestamp: Some(Timestamp::from_millis(0)),
        headers: HeadersRef::default(),
    };
    restored.task.process(0, &record).unwrap();
    (restored.offsets[0].0, restored.task.effects().output(0).value.unwrap().to_vec())
}

/// How far each report says that it was read, of how much.
fn read(reports: &[Report]) -> Vec<(u64, u64)> {
    let read = reports.iter().filter_map(|report| match report {
        Report::Reading(read) => Some(read.iter().map(|read| (read.have, read.need))),
        _ => None,
    });
    read.flatten().collect()
}

/// A recovery that waits for a record at "end minus one" would wait for ever.
#[test]
fn a_recovery_ends_where_its_log_ends_in_a_marker_in_aborted_records_or_in_a_gap() {
    let changelog = TopicPartition::new("app-counts-changelog", 0);
    let (reports, readable) = recovered_from(|broker, _| commit(broker, 3));
    assert_eq!(readable, [0, 1, 2]);
    assert_eq!(read(&reports).last(), Some(&(4, 4)), "with the marker");
    assert_eq!(outcome_of(reports), (3, b"4".to_vec()));

    let aborted = |broker: &DirectBroker| {
        commit(broker, 3);
        write(broker, "foreign", 5).abort(LONG).unwrap();
    };
    let (reports, readable) = recovered_from(move |broker, _| aborted(broker));
    assert_eq!(readable, [0, 1, 2]);
    assert_eq!(read(&reports).last(), Some(&(10, 10)));
    assert_eq!(outcome_of(reports), (3, b"4".to_vec()), "nothing of the aborted transaction");

    let (reports, readable) = recovered_from(move |broker, view| {
        aborted(broker);
        // Of four snapshots one is left, and nothing that was aborted.
        assert_eq!(view.compact(&changelog).unwrap(), 7);
    });
    assert_eq!(readable, [2], "far below the end");
    let read = read(&reports);
    assert_eq!((read.first(), read.last()), (Some(&(0, 10)), Some(&(10, 10))));
    assert_eq!(outcome_of(reports), (3, b"4".to_vec()));
}

/// Its own end, as a reader of committed records sees it, lies below what was committed above the open transaction.
#[test]
fn a_recovery_does_not_end_below_a_transaction_that_is_open_and_misses_nothing_above_it() {
    let (reports, _) = recovered_from(|broker, _| {
        drop(write(broker, "foreign", 5));
        commit(broker, 3);
    });
    let read = read(&reports);
    assert!(read.contains(&(0, 9)) && read.last() == Some(&(9, 9)), "{read:?}");
    assert_eq!(outcome_of(reports), (3, b"4".to_vec()));
}

/// What a recovery reports on a scripted broker that has both topics.
fn recovered(fake: &Fake) -> Report {
    for topic in ["in", "out"] {
        fake.script(|s| s.topics.insert(topic.into(), TopicInfo { partitions: 1, cleanup_policy: None }));
    }
    let config = KafkaConfig::new("nowhere:0", "app");
    let layout = topics::prepare(&mut fake.clone(), fake, &topology(), &config).unwrap();
    let id = TaskId { sub: 0, partition: Partition(0) };
    let task = layout.subs[0].topology.task(id.partition, &TaskOptions::default());
    let jobs = vec![Job { id, epoch: 1, task, cancelled: Arc::default(), warm: None }];
    let (reports, received) = channel();
    run(fake, &layout, jobs, Duration::from_secs(120), &reports);
    outcome(&received)
}

fn failure(fake: &Fake) -> String {
    match recovered(fake) {
        Report::Failed(jobs, error) => {
            assert_eq!(jobs, [(TaskId { sub: 0, partition: Partition(0) }, 1)]);
            error.to_string()
        }
        _ => panic!("the recovery should have failed"),
    }
}

#[test]
fn an_offset_that_stays_pending_ends_with_a_diagnosis_after_the_deadline() {
    let fake = Fake::default();
    fake.plan("committed", &[ErrorKind::Unstable; 200]);
    let error = failure(&fake);
    assert!(error.contains("in/0") && error.contains("no progress for 120000 ms"), "{error}");
    assert!(error.contains("a transaction that commits its offset is still open"), "{error}");
}

#[test]
fn an_offset_that_is_pending_for_a_while_is_waited_for() {
    let fake = Fake::default();
    fake.plan("committed", &[ErrorKind::Unstable; 20]);
    assert!(matches!(recovered(&fake), Report::Restored(_)));
}

#[test]
fn snapshots_that_cannot_be_read_to_their_end_end_with_a_diagnosis_after_the_deadline() {
    let fake = Fake::default();
    fake.script(|s| s.high = 5);
    let error = failure(&fake);
    assert!(error.contains("no progress for 120000 ms"), "{error}");
    assert!(error.contains("app-counts-changelog/0 was read up to 0 of 5"), "{error}");
    assert!(error.contains("kafka-transactions find-hanging"), "{error}");
}

#[test]
fn a_broker_that_is_away_is_waited_for_longer_than_the_deadline() {
    let fake = Fake::default();
    fake.plan("committed", &[ErrorKind::Retriable; 500]);
    assert!(matches!(recovered(&fake), Report::Restored(_)));
}

#[test]
fn a_pending_offset_is_not_blamed_for_the_time_in_which_no_broker_answered() {
    let fake = Fake::default();
    fake.plan("committed", &[ErrorKind::Unstable; 20]);
    fake.plan("committed", &[ErrorKind::Retriable; 500]);
    fake.plan("committed", &[ErrorKind::Unstable; 20]);
    assert!(matches!(recovered(&fake), Report::Restored(_)));
}

#[test]
fn snapshots_that_bring_nothing_are_not_blamed_for_the_time_in_which_no_broker_answered() {
    let fake = Fake::default();
    let seconds = Duration::from_secs;
    fake.script(|s| (s.high, s.away) = (5, seconds(60)..seconds(1000)));
    assert!(failure(&fake).contains("no progress for 120000 ms"));
    let failed = fake.elapsed();
    assert!((seconds(1110)..seconds(1140)).contains(&failed), "{failed:?}");
}

#[test]
fn an_offset_outside_the_log_is_refused() {
    let fake = Fake::default();
    fake.script(|s| s.committed = Some(Committed { offset: Offset(9), metadata: Note::default().encode() }));
    let error = failure(&fake);
    assert!(error.contains("its committed offset 9 is outside the log (0..0)"), "{error}");
}

#[test]
fn a_note_of_a_newer_release_is_refused() {
    let fake = Fake::default();
    fake.script(|s| s.committed = Some(Committed { offset: Offset(0), metadata: r#"{"v":9}"#.into() }));
    assert!(failure(&fake).contains("version 9"));
}

/// A broker on which `dead` committed last, as the member `gone`.
fn left_by_a_dead_owner(members: &[&str]) -> Fake {
    let fake = Fake::default();
    let note = Note { commit: 3, transactional_id: "dead".into(), member: "gone".into(), ..Note::default() };
    fake.script(|s| {
        s.committed = Some(Committed { offset: Offset(0), metadata: note.encode() });
        s.members = members.iter().map(|member| (*member).to_owned()).collect();
    });
    fake
}

fn takeovers(fake: &Fake) -> usize {
    fake.calls().iter().filter(|call| *call == "producer dead").count()
}

#[test]
fn an_offset_that_a_dead_owner_left_pending_is_freed_by_initialising_its_id_once() {
    let fake = left_by_a_dead_owner(&["alive"]);
    fake.plan("committed", &[ErrorKind::Unstable; 20]);
    assert!(matches!(recovered(&fake), Report::Restored(_)));
    assert_eq!(takeovers(&fake), 1);
}

#[test]
fn an_initialisation_that_gets_no_answer_is_asked_again() {
    let fake = left_by_a_dead_owner(&["alive"]);
    fake.plan("committed", &[ErrorKind::Unstable; 20]);
    fake.plan("init", &[ErrorKind::Retriable]);
    assert!(matches!(recovered(&fake), Report::Restored(_)));
    assert_eq!(takeovers(&fake), 2);
}

/// Initialising the id of a producer that works would shut it out.
#[test]
fn the_id_of_an_owner_that_may_live_is_never_initialised() {
    for (members, asked) in [(&["alive", "gone"][..], ErrorKind::Unstable), (&[], ErrorKind::Unstable)] {
        let fake = left_by_a_dead_owner(members);
        fake.plan("committed", &[asked; 20]);
        assert!(matches!(recovered(&fake), Report::Restored(_)));
        assert_eq!(takeovers(&fake), 0, "{members:?}");
    }
    let fake = left_by_a_dead_owner(&["alive"]);
    fake.plan("committed", &[ErrorKind::Unstable; 20]);
    fake.plan("members", &[ErrorKind::Retriable; 20]);
    assert!(matches!(recovered(&fake), Report::Restored(_)));
    assert_eq!(takeovers(&fake), 0, "nobody knows who lives");
}

#[test]
fn snapshots_that_a_dead_owner_holds_back_are_freed_too() {
    let fake = left_by_a_dead_owner(&["alive"]);
    fake.script(|s| s.high = 5);
    failure(&fake);
    assert_eq!(takeovers(&fake), 1);
}
