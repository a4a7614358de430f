//! A second and a third version of a program's state: what the earlier ones wrote, byte for byte, is read, upgraded, and refused
//! where nobody says how.

use flow_core::{
    BigEndian, Context, Flow, Fold, HeadersRef, Json, Offset, Partition, RecordRef, RestoreError, StepError, Task,
    TaskErrorKind, TaskOptions, Timer, Timestamp, Topic, Topology, TopologyBuilder, Upgrades,
};
use serde::{Deserialize, Serialize};

const CLICKS: Topic<str, String> = Topic::new("clicks");
const OUT: Topic<str, String> = Topic::new("out");

/// Version 2; version 1 was the number of clicks alone, as big-endian bytes.
#[derive(Serialize, Deserialize)]
struct Counted {
    clicks: u64,
}

/// Version 3.
#[derive(Clone, Serialize, Deserialize)]
struct Session {
    clicks: u64,
    pages: Vec<String>,
}

struct Sessions;

impl Sessions {
    const IDLE: Timer = Timer::event_time("idle");
}

impl Flow for Sessions {
    const NAME: &'static str = "sessions";
    const STATE_VERSION: u32 = 3;
    const TIMERS: &'static [Timer] = &[Sessions::IDLE];
    type State = Session;
    type Codec = Json;
    type Out = String;

    fn upgrades() -> Upgrades<Session, Json> {
        Upgrades::<i64, BigEndian>::from_version(1)
            .try_then(|clicks| {
                if clicks < 1_000 { Ok(Counted { clicks: clicks.unsigned_abs() }) } else { Err("too many clicks") }
            })
            .written_by::<Json>()
            .then(|counted: Counted| Session { clicks: counted.clicks, pages: vec!["?".to_owned()] })
    }

    fn timer(&self, _: Timer, state: &mut Option<Session>, cx: &mut Context<String>) -> Result<(), StepError> {
        let session = state.take().ok_or_else(|| StepError::new("no session"))?;
        cx.emit(format!("{} on {}", session.clicks, session.pages.join(" ")));
        Ok(())
    }
}

impl Fold<String> for Sessions {
    fn fold(&self, state: &mut Option<Session>, page: &String, _: &mut Context<String>) -> Result<(), StepError> {
        let session = state.get_or_insert(Session { clicks: 0, pages: Vec::new() });
        session.clicks += 1;
        session.pages.push(page.clone());
        Ok(())
    }
}

fn topology() -> Topology {
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).flow(Sessions).to(OUT);
    topology.build().expect("a valid topology")
}

fn task() -> Task {
    topology().sub_topologies()[0].task(Partition(0), &TaskOptions::default())
}

fn click(key: &str, offset: i64) -> RecordRef<'_> {
    RecordRef {
        key: Some(key.as_bytes()),
        value: Some(b"\"home\""),
        timestamp: Some(Timestamp::from_millis(0)),
        offset: Offset(offset),
        headers: HeadersRef::EMPTY,
    }
}

fn snapshots(task: &mut Task) -> Vec<(String, Vec<u8>)> {
    task.prepare_commit().expect("snapshots of their size");
    let effects = task.effects();
    let all = (0..effects.snapshots_len()).map(|i| effects.snapshot(i));
    all.map(|s| (String::from_utf8_lossy(s.key).into_owned(), s.value.unwrap_or(b"gone").to_vec())).collect()
}

/// What the first version wrote for 7 clicks, with the timer `idle` pending at 50.
const VERSION_1: &[u8] =
    b"\x01\x04\x00\x00\x00\x01\x01\x04idle\x00\x00\x00\x00\x00\x00\x00\x32\x00\x00\x00\x00\x00\x00\x00\x07";
/// What the second version wrote, with the same timer.
const VERSION_2: &[u8] = b"\x01\x01\x00\x00\x00\x02\x01\x04idle\x00\x00\x00\x00\x00\x00\x00\x32{\"clicks\":8}";

#[test]
fn states_of_earlier_versions_are_upgraded_when_their_key_is_first_used_and_written_as_this_version() {
    let mut task = task();
    task.restore(0, b"first", Some(VERSION_1)).unwrap();
    task.restore(0, b"second", Some(VERSION_2)).unwrap();
    task.restore(0, b"unused", Some(VERSION_1)).unwrap();
    task.process(0, &click("first", 0)).unwrap();
    task.process(0, &click("second", 1)).unwrap();
    let idle = b"\x01\x01\x00\x00\x00\x03\x01\x04idle\x00\x00\x00\x00\x00\x00\x00\x32";
    let written = |state: &str| [idle, state.as_bytes()].concat();
    assert_eq!(
        snapshots(&mut task),
        [
            ("first".to_owned(), written(r#"{"clicks":8,"pages":["?","home"]}"#)),
            ("second".to_owned(), written(r#"{"clicks":9,"pages":["?","home"]}"#)),
        ]
    );
}

#[test]
fn the_timers_of_an_upgraded_state_fire_and_see_it_as_this_version() {
    let mut task = task();
    task.restore(0, b"first", Some(VERSION_1)).unwrap();
    task.restore(0, b"second", Some(VERSION_2)).unwrap();
    task.advance_event_time(Timestamp::from_millis(49)).unwrap();
    assert_eq!(task.effects().outputs_len(), 0);
    task.advance_event_time(Timestamp::from_millis(50)).unwrap();
    let effects = task.effects();
    let said: Vec<_> = (0..effects.outputs_len()).map(|i| effects.output(i).value.unwrap()).collect();
    assert_eq!(said, [b"\"7 on ?\"", b"\"8 on ?\""]);
    let gone = |key: &str| (key.to_owned(), b"gone".to_vec());
    assert_eq!(snapshots(&mut task), [gone("first"), gone("second")]);
}

#[test]
fn a_newer_version_is_refused_when_it_is_restored_with_its_store_and_both_versions() {
    let error = task().restore(0, b"k", Some(b"\x01\x01\x00\x00\x00\x04\x00{}")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a snapshot of store `sessions` has state version 4, and this program has version 3: it was written by a newer program, run \
         that one"
    );
}

#[test]
fn a_version_without_an_upgrade_is_refused_when_it_is_restored() {
    let error = task().restore(0, b"k", Some(b"\x01\x01\x00\x00\x00\x00\x00{}")).unwrap_err();
    assert_eq!(error, RestoreError::Version { store: "sessions".to_owned(), found: 0, expected: 3, oldest: 1 },);
    assert_eq!(
        error.to_string(),
        "a snapshot of store `sessions` has state version 0, and this program has version 3 and upgrades from 1 on: give it an \
         upgrade from 0, or give the store another name and lose its state"
    );
}

#[test]
fn each_version_is_read_by_its_own_codec_and_by_no_other() {
    let refused = |bytes: &[u8]| task().restore(0, b"k", Some(bytes)).unwrap_err();
    let codec = |found, expected| RestoreError::Codec { store: "sessions".to_owned(), found, expected };
    assert_eq!(refused(b"\x01\x01\x00\x00\x00\x01\x007"), codec(1, 4));
    assert_eq!(refused(b"\x01\x04\x00\x00\x00\x02\x007"), codec(4, 1));
    assert_eq!(
        refused(b"\x01\x84\x00\x00\x00\x03\x007").to_string(),
        "a snapshot of store `sessions` was written by the codec `Nullable<BigEndian>`, and this program reads it by `Json`: give \
         the store its former codec back, or give its state a new version with an upgrade (`Upgrades::written_by`)"
    );
}

#[test]
fn a_state_that_cannot_be_upgraded_stops_with_its_store_key_and_version() {
    let mut task = task();
    task.restore(0, b"many", Some(b"\x01\x04\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x03\xe8")).unwrap();
    task.restore(0, b"short", Some(b"\x01\x04\x00\x00\x00\x01\x00\x07")).unwrap();
    let error = task.process(0, &click("many", 0)).unwrap_err();
    assert_eq!((error.kind, error.step.as_str()), (TaskErrorKind::Snapshot, "sessions"));
    assert_eq!(error.message, "the state of key `many` cannot be upgraded from version 1: too many clicks");
    let error = task.process(0, &click("short", 0)).unwrap_err();
    assert_eq!(error.message, "the state of key `short` cannot be read as version 1: expected 8 bytes, found 1");
}

#[test]
fn a_state_that_could_not_be_read_stays_as_it_was_written() {
    let mut task = task();
    let unreadable = b"\x01\x01\x00\x00\x00\x02\x01\x04idle\x00\x00\x00\x00\x00\x00\x00\x32{";
    task.restore(0, b"k", Some(unreadable)).unwrap();
    assert!(task.advance_event_time(Timestamp::from_millis(50)).is_err());
    assert_eq!(snapshots(&mut task), [("k".to_owned(), b"\x01\x01\x00\x00\x00\x02\x00{".to_vec())]);
}

/// A flow whose upgrades stop short of its version.
struct Short;

impl Flow for Short {
    const NAME: &'static str = "short";
    const STATE_VERSION: u32 = 3;
    type State = u64;
    type Codec = Json;
    type Out = String;

    fn upgrades() -> Upgrades<u64, Json> {
        Upgrades::from_version(1).then(|state: u64| state + 1)
    }
}

impl Fold<String> for Short {
    fn fold(&self, _: &mut Option<u64>, _: &String, _: &mut Context<String>) -> Result<(), StepError> {
        Ok(())
    }
}

#[test]
fn upgrades_that_do_not_end_at_the_flows_version_are_a_broken_rule() {
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).flow(Short).to(OUT);
    let error = topology.build().unwrap_err();
    let [rule] = error.rules() else { panic!("{error}") };
    assert!(rule.starts_with("the upgrades of the flow `short`, placed at flow-core/tests/upgrades.rs:"), "{rule}");
    assert!(rule.contains("end at version 2, and its state has version 3"), "{rule}");
}

#[test]
fn a_flow_without_upgrades_reads_its_own_version_only() {
    assert_eq!(Upgrades::<u64, Json>::from_version(5).version(), 5);
    assert_eq!(format!("{:?}", Sessions::upgrades()), "Upgrades { version: 3, older: [1, 2] }");
}
