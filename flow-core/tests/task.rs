//! A task as the runtime uses it: effects kept until committed, snapshots byte for byte, queues, restore.

mod common;

use common::{CLICKS, ORDERS, OUT, Sessions, ms, words};
use flow_core::{
    Context, Flow, Fold, Headers, HeadersRef, Json, Never, Offset, Partition, RecordRef, RestoreError, StepError, Task,
    TaskErrorKind, TaskOptions, Timer, Topology, TopologyBuilder,
};

fn record<'r>(key: &'r str, value: &'r str, at: i64, offset: i64) -> RecordRef<'r> {
    RecordRef {
        key: Some(key.as_bytes()),
        value: Some(value.as_bytes()),
        timestamp: Some(ms(at)),
        offset: Offset(offset),
        headers: HeadersRef::EMPTY,
    }
}

fn task(topology: &Topology) -> Task {
    topology.sub_topologies()[0].task(Partition(4), &TaskOptions::default())
}

fn snapshots(task: &Task) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let effects = task.effects();
    let all = (0..effects.snapshots_len()).map(|i| effects.snapshot(i));
    all.map(|snapshot| (snapshot.key.to_vec(), snapshot.value.map(<[u8]>::to_vec))).collect()
}

#[test]
fn snapshots_are_written_once_per_entry_in_the_order_of_first_touch() {
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).flow(Sessions).to(OUT);
    let mut task = task(&topology.build().unwrap());
    for (offset, key) in ["z", "a", "z", "m"].into_iter().enumerate() {
        task.process(0, &record(key, "\"x\"", 1, offset as i64)).unwrap();
    }
    assert!(task.is_dirty());
    task.prepare_commit().unwrap();
    let idle = b"\x01\x01\x00\x00\x00\x01\x01\x04idle\x00\x00\x00\x00\x00\x00\x00\x0b";
    let of = |count: &[u8]| Some([&idle[..], count].concat());
    assert_eq!(snapshots(&task), [(b"z".to_vec(), of(b"2")), (b"a".to_vec(), of(b"1")), (b"m".to_vec(), of(b"1"))]);
    task.committed();
    assert!(!task.is_dirty() && task.effects().is_empty());
    task.prepare_commit().unwrap();
    assert_eq!(snapshots(&task), []);
    // The sessions close: tombstones, because the snapshot topic holds values.
    task.advance_event_time(ms(11)).unwrap();
    task.prepare_commit().unwrap();
    assert_eq!(snapshots(&task), [(b"a".to_vec(), None), (b"m".to_vec(), None), (b"z".to_vec(), None)]);
    assert_eq!(task.effects().outputs_len(), 3);
    assert_eq!(task.clocks().collect::<Vec<_>>(), [("sessions", ms(11))]);
}

#[test]
fn effects_are_kept_until_they_are_known_to_be_committed() {
    let topology = TopologyBuilder::new();
    topology.stream(ORDERS).count("counts").changes().to(flow_core::Topic::<str, u64>::new("counted"));
    let mut task = task(&topology.build().unwrap());
    let mut headers = Headers::new();
    headers.push("h", Some(b"1"));
    task.process(0, &RecordRef { headers: headers.as_ref(), ..record("a", "1", 3, 7) }).unwrap();
    task.prepare_commit().unwrap();
    // The commit was aborted: the same effects are sent again, with those of what came after.
    task.process(0, &record("a", "1", 4, 8)).unwrap();
    task.prepare_commit().unwrap();
    let effects = task.effects();
    let values: Vec<_> = (0..effects.outputs_len()).map(|i| effects.output(i).value).collect();
    assert_eq!(values, [Some(&b"1"[..]), Some(&b"2"[..])]);
    assert_eq!((effects.output(0).headers, effects.output(0).timestamp), (headers.as_ref(), ms(3)));
    assert!(effects.output(1).headers.is_empty());
    let values: Vec<_> = (0..effects.snapshots_len()).map(|i| effects.snapshot(i).value.unwrap().to_vec()).collect();
    assert_eq!(values, [b"\x01\x01\x00\x00\x00\x01\x001", b"\x01\x01\x00\x00\x00\x01\x002"]);
    assert_eq!((task.position(0), task.counters().outputs), (Some(Offset(9)), 2));
}

#[test]
fn a_failed_record_does_not_move_the_position() {
    let mut task = task(&words());
    task.process(0, &record("a", "\"x\"", 0, 0)).unwrap();
    let error = task.process(0, &record("a", "\"say x, fail\"", 0, 1)).unwrap_err();
    assert_eq!(
        (error.partition, error.offset, error.topic.as_deref()),
        (Partition(4), Some(Offset(1)), Some("clicks"))
    );
    assert_eq!((task.position(0), task.effects().outputs_len()), (Some(Offset(1)), 0));
}

#[test]
fn several_inputs_go_by_time_and_wait_for_those_that_may_have_more() {
    let topology = TopologyBuilder::new();
    topology.flow(Sessions).fold(topology.stream(CLICKS)).fold(topology.stream(ORDERS)).output().to(OUT);
    let mut task = task(&topology.build().unwrap());
    task.enqueue(0, &record("a", "\"x\"", 5, 0));
    task.enqueue(0, &record("a", "\"x\"", 30, 1));
    assert_eq!(task.process_queued(&|_| false, 10).unwrap(), 0, "the other input may have something earlier");
    task.enqueue(1, &record("a", "10", 5, 0));
    task.enqueue(1, &record("a", "10", 6, 1));
    assert_eq!(task.process_queued(&|_| false, 10).unwrap(), 3);
    assert_eq!((task.queued(0), task.queued(1)), (1, 0));
    assert_eq!((task.position(0), task.position(1)), (Some(Offset(1)), Some(Offset(2))));
    assert_eq!(task.process_queued(&|source| source == 1, 10).unwrap(), 1);
    let closed = task.effects().output(0);
    assert_eq!((closed.value, closed.timestamp), (Some(&b"\"closed 21\""[..]), ms(16)));
}

#[test]
fn queued_records_can_be_forgotten_and_come_again_from_the_position_on() {
    let topology = TopologyBuilder::new();
    topology.flow(Sessions).fold(topology.stream(CLICKS)).fold(topology.stream(ORDERS)).output().to(OUT);
    let mut task = task(&topology.build().unwrap());
    task.enqueue(0, &record("a", "\"x\"", 5, 0));
    task.enqueue(0, &record("a", "\"x\"", 6, 1));
    assert_eq!(task.process_queued(&|source| source == 1, 1).unwrap(), 1);
    task.forget_queued();
    assert_eq!((task.queued(0), task.position(0)), (0, Some(Offset(1))));
    task.enqueue(0, &record("a", "\"x\"", 6, 1));
    assert_eq!(task.process_queued(&|source| source == 1, 9).unwrap(), 1);
    assert_eq!(task.position(0), Some(Offset(2)));
}

#[test]
fn a_record_that_stops_stays_in_its_queue() {
    let topology = TopologyBuilder::new();
    topology.flow(Sessions).fold(topology.stream(CLICKS)).fold(topology.stream(ORDERS)).output().to(OUT);
    let mut task = task(&topology.build().unwrap());
    task.enqueue(0, &RecordRef { timestamp: None, ..record("a", "\"x\"", 0, 3) });
    task.enqueue(1, &record("a", "1", 0, 0));
    let error = task.process_queued(&|_| true, 10).unwrap_err();
    assert_eq!((error.kind, error.offset), (TaskErrorKind::Decode, Some(Offset(3))));
    assert_eq!((task.queued(0), task.queued(1)), (1, 1));
}

struct Second;
impl Flow for Second {
    const NAME: &'static str = "sessions";
    type State = u64;
    type Codec = Json;
    type Out = Never;
    const STATE_VERSION: u32 = 2;
    const TIMERS: &'static [Timer] = &[Timer::event_time("other")];
}
impl Fold<u64> for Second {
    fn fold(&self, _: &mut Option<u64>, _: &u64, _: &mut Context<Never>) -> Result<(), StepError> {
        Ok(())
    }
}

#[test]
fn snapshots_this_program_cannot_go_on_from_are_refused_with_the_reason() {
    let topology = TopologyBuilder::new();
    let _ = topology.stream(ORDERS).flow(Second);
    let mut task = task(&topology.build().unwrap());
    let mut refused = |bytes: &[u8]| task.restore(0, b"k", Some(bytes)).unwrap_err();
    let store = || "sessions".to_owned();
    assert_eq!(refused(b"\x02rest"), RestoreError::Format { store: store(), found: 2 });
    assert_eq!(refused(b"\x01\x01\x00"), RestoreError::Truncated { store: store() });
    assert_eq!(refused(b""), RestoreError::Truncated { store: store() });
    assert_eq!(
        refused(b"\x01\x02\x00\x00\x00\x02\x001"),
        RestoreError::Codec { store: store(), found: 2, expected: 1 }
    );
    assert_eq!(
        refused(b"\x01\x01\x00\x00\x00\x02\x01\x04idle\x00\x00\x00\x00\x00\x00\x00\x0b1"),
        RestoreError::Timer { store: store(), timer: "idle".to_owned() }
    );
}

#[test]
fn a_restored_state_is_read_when_its_key_is_first_used() {
    let topology = TopologyBuilder::new();
    topology.stream(ORDERS).count("counts").changes().to(flow_core::Topic::<str, u64>::new("counted"));
    let mut task = task(&topology.build().unwrap());
    task.restore(0, b"bad", Some(b"\x01\x01\x00\x00\x00\x01\x00{")).unwrap();
    task.restore(0, b"a", Some(b"\x01\x01\x00\x00\x00\x01\x0041")).unwrap();
    task.restore(0, b"gone", Some(b"\x01\x01\x00\x00\x00\x01\x007")).unwrap();
    task.restore(0, b"gone", None).unwrap();
    task.process(0, &record("a", "1", 0, 0)).unwrap();
    task.process(0, &record("gone", "1", 0, 1)).unwrap();
    let error = task.process(0, &record("bad", "1", 0, 2)).unwrap_err();
    assert_eq!((error.kind, error.step.as_str()), (TaskErrorKind::Snapshot, "counts"));
    assert!(
        error.message.starts_with("the state of key `bad` cannot be read: not the expected JSON"),
        "{}",
        error.message
    );
    let effects = task.effects();
    let values: Vec<_> = (0..effects.outputs_len()).map(|i| effects.output(i).value).collect();
    assert_eq!(values, [Some(&b"42"[..]), Some(&b"1"[..])]);
}

#[test]
fn clocks_are_restored_to_the_highest_that_was_noted() {
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).flow(Sessions).to(OUT);
    let mut task = task(&topology.build().unwrap());
    assert_eq!(task.clocks().count(), 0);
    task.restore_clock("sessions", ms(50));
    task.restore_clock("sessions", ms(40));
    task.restore_clock("unknown", ms(90));
    assert_eq!(task.clocks().collect::<Vec<_>>(), [("sessions", ms(50))]);
}

#[test]
fn a_task_can_move_between_threads_and_a_topology_is_shared() {
    fn send<T: Send>() {}
    fn share<T: Send + Sync + Clone>() {}
    send::<Task>();
    share::<Topology>();
}

#[test]
fn the_context_knows_the_record_it_is_about() {
    struct Tells;
    impl Flow for Tells {
        const NAME: &'static str = "tells";
        type State = ();
        type Codec = Json;
        type Out = String;
    }
    impl Fold<String> for Tells {
        fn fold(&self, _: &mut Option<()>, _: &String, cx: &mut Context<String>) -> Result<(), StepError> {
            let position = cx.position().ok_or_else(|| StepError::new("no position"))?;
            let header = cx.headers().last("h").map(String::from_utf8_lossy).unwrap_or_default().into_owned();
            cx.emit(format!("{} {} {} {header}", position.topic, position.partition, position.offset));
            Ok(())
        }
    }
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).flow(Tells).to(OUT);
    let mut task = task(&topology.build().unwrap());
    let mut headers = Headers::new();
    headers.push("h", Some(b"yes"));
    task.process(0, &RecordRef { headers: headers.as_ref(), ..record("a", "\"\"", 0, 7) }).unwrap();
    task.process(0, &record("a", "\"\"", 0, 8)).unwrap();
    let value = |i: usize| String::from_utf8_lossy(task.effects().output(i).value.unwrap()).into_owned();
    assert_eq!((value(0), value(1)), ("\"clicks 4 7 yes\"".to_owned(), "\"clicks 4 8 \"".to_owned()));
}

#[test]
fn a_snapshot_that_cannot_be_written_fails_each_commit_and_is_never_left_out_of_one() {
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).flow(common::Words).to(OUT);
    let options = TaskOptions { max_record_bytes: 100, ..TaskOptions::default() };
    let mut task = topology.build().unwrap().sub_topologies()[0].task(Partition(0), &options);
    let long = format!("\"{}\"", "x".repeat(200));
    for (offset, (key, value)) in [("a", "\"x\""), ("b", long.as_str()), ("c", "\"x\"")].into_iter().enumerate() {
        task.process(0, &record(key, value, 1, offset as i64)).unwrap();
    }
    // A worker that stops commits for a last time: that must fail as the first attempt did.
    for _ in 0..2 {
        let error = task.prepare_commit().unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::Snapshot);
        assert!(error.message.contains("key `b`"), "{error}");
    }
    let keys: Vec<_> = snapshots(&task).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [b"a".to_vec()]);
}

#[test]
fn a_timer_whose_failure_was_skipped_does_not_fire_again_after_a_restart() {
    let topology = words();
    let sub = &topology.sub_topologies()[0];
    let mut task = sub.task(Partition(0), &common::skip(false, true, false));
    task.process(0, &record("k", "\"on a: fail, a=10\"", 1, 0)).unwrap();
    task.prepare_commit().unwrap();
    let before = snapshots(&task);
    task.committed();
    task.process(0, &record("other", "\"x\"", 20, 1)).unwrap();
    assert_eq!(task.counters().skipped.step, 1);
    task.prepare_commit().unwrap();
    let mut again = sub.task(Partition(0), &common::skip(false, true, false));
    for (key, value) in before.into_iter().chain(snapshots(&task)) {
        again.restore(0, &key, value.as_deref()).unwrap();
    }
    again.restore_clock("words", ms(20));
    again.process(0, &record("other", "\"x\"", 30, 2)).unwrap();
    assert_eq!((again.counters().skipped.step, again.counters().timers_fired), (0, 0));
}

/// Panics at a word, wherever it comes from.
struct Fragile;

impl Flow for Fragile {
    const NAME: &'static str = "fragile";
    type State = u64;
    type Codec = Json;
    type Out = Never;
}

impl Fold<String> for Fragile {
    fn fold(&self, _: &mut Option<u64>, event: &String, _: &mut Context<Never>) -> Result<(), StepError> {
        assert_ne!(event, "panic");
        Ok(())
    }
}

impl Fold<u64> for Fragile {
    fn fold(&self, _: &mut Option<u64>, _: &u64, _: &mut Context<Never>) -> Result<(), StepError> {
        Ok(())
    }
}

#[test]
fn after_a_panic_the_task_knows_which_of_its_queued_records_it_was() {
    let topology = TopologyBuilder::new();
    let _ = topology.flow(Fragile).fold(topology.stream(ORDERS)).fold(topology.stream(CLICKS)).output();
    let mut task = task(&topology.build().unwrap());
    task.enqueue(0, &record("a", "1", 1, 7));
    task.enqueue(1, &record("a", "\"panic\"", 2, 3));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.process_queued(&|_| true, 9)));
    assert!(panicked.is_err());
    assert_eq!((task.current_record(), task.position(0)), (Some((1, Offset(3))), Some(Offset(8))));
}

/// Keeps the last event, and emits when its timer fires, ten milliseconds after the first.
struct Latest;

impl Latest {
    const LATER: Timer = Timer::event_time("later");
}

impl Flow for Latest {
    const NAME: &'static str = "latest";
    const TIMERS: &'static [Timer] = &[Latest::LATER];
    type State = String;
    type Codec = Json;
    type Out = String;

    fn timer(&self, _: Timer, _: &mut Option<String>, cx: &mut Context<String>) -> Result<(), StepError> {
        cx.emit(format!("due {}", cx.timestamp().as_millis()));
        Ok(())
    }
}

impl Fold<String> for Latest {
    fn fold(&self, state: &mut Option<String>, event: &String, cx: &mut Context<String>) -> Result<(), StepError> {
        if state.is_none() && event.len() < 10 {
            cx.set_timer(Self::LATER, cx.timestamp() + std::time::Duration::from_millis(10));
        }
        *state = Some(event.clone());
        Ok(())
    }
}

#[test]
fn a_hot_key_is_written_once_a_commit_and_keeps_no_neighbour_waiting() {
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).flow(Latest).to(OUT);
    let mut task = topology.build().unwrap().sub_topologies()[0].task(Partition(0), &TaskOptions::default());
    let big = format!("\"{}\"", "x".repeat(10 * 1024));
    let (mut offset, mut written) = (0, 0);
    let mut send = |task: &mut Task, key: &str, value: &str, at: i64| {
        let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
        let headers = HeadersRef::EMPTY;
        let record = RecordRef { key, value, timestamp: Some(ms(at)), offset: Offset(offset), headers };
        task.process(0, &record).unwrap();
        offset += 1;
    };
    let commits: i64 = 20;
    for commit in 0..commits {
        let now = commit * 100;
        send(&mut task, &format!("c{commit}"), "\"x\"", now);
        (0..500).for_each(|at| send(&mut task, "hot", &big, now + at / 5));
        task.prepare_commit().unwrap();
        let effects = task.effects();
        written +=
            (0..effects.snapshots_len()).map(|at| effects.snapshot(at).value.map_or(0, <[u8]>::len)).sum::<usize>();
        // The neighbour's timer was due in the middle of all that.
        let due = format!("\"due {}\"", now + 10);
        let outputs: Vec<_> = (0..effects.outputs_len()).map(|at| effects.output(at).value.unwrap().to_vec()).collect();
        assert_eq!(outputs, [due.into_bytes()]);
        task.committed();
    }
    let each = written as i64 / commits;
    assert!((10 * 1024..11 * 1024).contains(&each), "{each} bytes a commit");
}
