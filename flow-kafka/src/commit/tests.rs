//! The order of a commit, and what follows each kind of failure, on a scripted broker.

use std::collections::BTreeSet;

use flow_core::{ByType, Offset, Partition, RecordRef, TaskOptions, Timestamp, Topic, Topology, TopologyBuilder, Utf8};

use super::failing::REFUSALS_MAX;
use super::*;
use crate::KafkaConfig;
use crate::broker::{Committed, Host, TopicInfo};
use crate::fake::Fake;
use crate::tasks::Sent;
use crate::topics;

const EVENTS: Topic<str, str, ByType, Utf8> = Topic::new("events");
const COUNTS: Topic<str, u64> = Topic::new("counts");

fn topology() -> Topology {
    let topology = TopologyBuilder::new();
    topology.stream(EVENTS).count("per-key").changes().to(COUNTS);
    topology.build().unwrap()
}

struct Bench {
    fake: Fake,
    committer: Committer,
    tasks: Vec<Active>,
}

fn bench() -> Bench {
    let fake = Fake::default();
    for topic in ["events", "counts"] {
        fake.script(|s| s.topics.insert(topic.into(), TopicInfo { partitions: 1, cleanup_policy: None }));
    }
    let config = KafkaConfig::new("nowhere:1", "app");
    let layout = Arc::new(topics::prepare(&mut fake.clone(), &fake, &topology(), &config).unwrap());
    let (broker, stopping) = (Arc::new(fake.clone()), Arc::new(|| true));
    let committer = Committer::new(broker, Arc::clone(&layout), "w".into(), Duration::from_secs(8), stopping);
    let id = TaskId { sub: 0, partition: Partition(0) };
    let task = layout.subs[0].topology.task(id.partition, &TaskOptions::default());
    let (inputs, start) = (layout.inputs(id), vec![Offset(0)]);
    let active = Active {
        id,
        task,
        inputs,
        sources: vec!["events".into()],
        committed_at: start.clone(),
        start,
        commit: 4,
        committed_by: String::new(),
        written: BTreeSet::new(),
        announces: false,
        sent: Sent::default(),
        paused: vec![false],
    };
    fake.calls();
    Bench { fake, committer, tasks: vec![active] }
}

impl Bench {
    fn process(&mut self, offset: i64) {
        let record = RecordRef {
            key: Some(b"k"),
            value: Some(b"v"),
            timestamp: Some(Timestamp::from_millis(1)),
            offset: Offset(offset),
            headers: flow_core::HeadersRef::default(),
        };
        self.tasks[0].task.process(0, &record).unwrap();
    }

    fn commit(&mut self) -> Result<Outcome, RunError> {
        self.committer.commit(&mut self.tasks, &mut self.fake)
    }

    fn note(&self) -> Note {
        Note::decode(&self.fake.script(|s| s.offsets[0].metadata.clone())).unwrap()
    }
}

const COMMIT: [&str; 8] = ["producer", "init", "begin", "send 1", "send 1", "flush", "generation", "send_offsets 1"];

#[test]
fn outputs_snapshots_and_offsets_go_before_the_commit_and_the_generation_is_read_last() {
    let mut bench = bench();
    bench.process(0);
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    assert_eq!(bench.fake.calls(), [&COMMIT[..], &["commit"]].concat());
    assert_eq!((bench.note().commit, bench.note().member.as_str()), (5, "m"));
    assert_eq!(bench.tasks[0].commit, 5);
    assert!(!bench.tasks[0].task.is_dirty());
}

#[test]
fn nothing_to_commit_opens_no_transaction() {
    let mut bench = bench();
    assert_eq!(bench.commit().unwrap(), Outcome::Nothing);
    assert_eq!(bench.fake.calls(), Vec::<String>::new());
}

#[test]
fn a_stale_generation_is_aborted_and_everything_is_sent_again() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("send_offsets", &[ErrorKind::StaleGeneration]);
    assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    assert_eq!(bench.fake.calls(), [&COMMIT[..], &["abort"]].concat());
    bench.process(1);
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    // Both outputs, and both snapshots in their order: the newer one wins.
    assert_eq!(bench.fake.calls(), ["begin", "send 2", "send 2", "flush", "generation", "send_offsets 2", "commit"]);
}

#[test]
fn an_unknown_generation_never_reaches_the_broker() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("generation", &[ErrorKind::NoGeneration]);
    assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    assert_eq!(bench.fake.calls(), [&COMMIT[..7], &["abort"]].concat());
}

#[test]
fn offsets_that_get_no_answer_are_asked_again_and_never_skipped() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("send_offsets", &[ErrorKind::Retriable]);
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    assert_eq!(bench.fake.calls(), [&COMMIT[..], &["send_offsets 1", "commit"]].concat());
    bench.process(1);
    bench.fake.plan("send_offsets", &[ErrorKind::Retriable; 30]);
    assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    assert!(!bench.fake.calls().contains(&"commit".to_owned()));
}

#[test]
fn a_fenced_producer_is_replaced_under_a_new_id() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("send_offsets", &[ErrorKind::Fenced]);
    assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    let first = bench.note().transactional_id;
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    assert_ne!(bench.note().transactional_id, first);
}

#[test]
fn an_unknown_outcome_that_was_a_commit_is_not_sent_again() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("commit", &[ErrorKind::Fatal]);
    let committed =
        |bench: &Bench| Committed { offset: Offset(1), metadata: bench.fake.script(|s| s.offsets[0].metadata.clone()) };
    // The broker committed, its answer was lost: the first attempt tells what the note looks like.
    bench.fake.plan("committed", &[ErrorKind::Unstable]);
    let fake = bench.fake.clone();
    let note = Note {
        commit: 5,
        transactional_id: bench.committer.transactional_id.clone(),
        member: "m".into(),
        written: BTreeSet::from(["per-key".to_owned()]),
        ..Note::default()
    };
    fake.script(|s| s.committed = Some(Committed { offset: Offset(1), metadata: note.encode() }));
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    assert_eq!(committed(&bench).metadata, note.encode());
    assert_eq!(bench.fake.calls(), [&COMMIT[..], &["commit", "producer", "init", "committed", "committed"]].concat());
    assert_eq!(bench.tasks[0].commit, 5);
    assert!(!bench.tasks[0].task.is_dirty());
}

#[test]
fn an_unknown_outcome_that_was_no_commit_is_sent_again() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("commit", &[ErrorKind::Fatal]);
    let before = Note { commit: 4, transactional_id: "earlier".into(), ..Note::default() };
    bench.fake.script(|s| s.committed = Some(Committed { offset: Offset(0), metadata: before.encode() }));
    assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    bench.fake.calls();
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    assert_eq!(bench.fake.calls(), ["begin", "send 1", "send 1", "flush", "generation", "send_offsets 1", "commit"]);
}

#[test]
fn a_task_that_somebody_else_committed_is_superseded() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("commit", &[ErrorKind::Fatal]);
    let theirs = Note { commit: 9, transactional_id: "theirs".into(), ..Note::default() };
    bench.fake.script(|s| s.committed = Some(Committed { offset: Offset(3), metadata: theirs.encode() }));
    assert_eq!(bench.commit().unwrap(), Outcome::Superseded(vec![TaskId { sub: 0, partition: Partition(0) }]));
}

#[test]
fn a_record_that_the_broker_refuses_ends_the_run_after_a_few_attempts() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("flush", &[ErrorKind::RecordRefused; 9]);
    for _ in 1..REFUSALS_MAX {
        assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    }
    let error = bench.commit().unwrap_err().to_string();
    assert_eq!(error, "the commit failed 4 times in a row, nothing of it is visible: planned RecordRefused");
    assert!(!bench.fake.calls().contains(&"commit".to_owned()));
}

#[test]
fn a_commit_that_takes_long_is_asked_again_until_it_has_ended() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("commit", &[ErrorKind::Retriable, ErrorKind::Retriable]);
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    assert_eq!(bench.fake.calls(), [&COMMIT[..], &["commit"; 3]].concat());
}

#[test]
fn a_lost_task_takes_its_effects_out_of_the_open_transaction() {
    let mut bench = bench();
    bench.process(0);
    bench.committer.send_ahead(&mut bench.tasks);
    assert!(bench.committer.holds(&bench.tasks[0]));
    bench.tasks.clear();
    bench.committer.abort(&mut bench.tasks);
    assert_eq!(bench.fake.calls(), ["producer", "init", "begin", "send 1", "abort"]);
}

#[test]
fn an_outcome_that_stays_unknown_is_never_sent_again_and_holds_no_shutdown_up_for_ever() {
    for (call, kind) in
        [("committed", ErrorKind::Refused), ("committed", ErrorKind::Unstable), ("init", ErrorKind::Retriable)]
    {
        let mut bench = bench();
        bench.process(0);
        bench.commit().unwrap();
        bench.process(1);
        bench.fake.plan("commit", &[ErrorKind::Fatal]);
        bench.fake.plan(call, &[kind; 1000]);
        let given_up = Outcome::Superseded(vec![TaskId { sub: 0, partition: Partition(0) }]);
        assert_eq!(bench.commit().unwrap(), given_up, "{call} {kind:?}");
    }
}

#[test]
fn a_send_ahead_that_fails_half_way_is_sent_again_in_another_transaction() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("send", &[ErrorKind::Abort]);
    bench.committer.send_ahead(&mut bench.tasks);
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    let begun = ["producer", "init", "begin", "send 1", "abort"];
    let rest = ["begin", "send 1", "send 1", "flush", "generation", "send_offsets 1", "commit"];
    assert_eq!(bench.fake.calls(), [&begun[..], &rest[..]].concat());
}

#[test]
fn an_outage_that_aborts_transactions_does_not_count_as_a_refusal() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("flush", &[ErrorKind::Abort; 9]);
    for _ in 0..9 {
        assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    }
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
}

#[test]
fn an_outage_of_any_length_ends_no_run() {
    let mut bench = bench();
    bench.process(0);
    for _ in 0..9 {
        bench.fake.plan("flush", &[ErrorKind::Unanswered]);
        assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
        bench.fake.sleep(Duration::from_secs(600));
    }
    // The next transaction after an aborted one may fail once more.
    bench.fake.plan("flush", &[ErrorKind::Abort]);
    assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
}

/// Its session ended, and a quarter of an hour later it is a member again.
#[test]
fn a_commit_that_failed_before_its_tasks_were_lost_does_not_count_once_they_are_back() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("flush", &[ErrorKind::Abort]);
    assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    let lost = std::mem::take(&mut bench.tasks);
    assert_eq!(bench.commit().unwrap(), Outcome::Nothing);
    bench.fake.sleep(Duration::from_secs(900));
    bench.tasks = lost;
    bench.fake.plan("flush", &[ErrorKind::Abort]);
    assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
}

#[test]
fn a_task_that_is_given_up_commits_its_offset_even_where_nothing_moved() {
    let mut bench = bench();
    bench.tasks[0].announces = true;
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    let calls = bench.fake.calls();
    assert_eq!(calls, ["producer", "init", "begin", "flush", "generation", "send_offsets 0", "commit"]);
    assert_eq!(bench.commit().unwrap(), Outcome::Nothing);
}

#[test]
fn a_note_names_the_stores_that_have_ever_been_written() {
    let mut bench = bench();
    bench.process(0);
    bench.commit().unwrap();
    assert_eq!(bench.note().written, BTreeSet::from(["per-key".to_owned()]));
}

#[test]
fn a_producer_that_failed_but_was_not_fenced_is_replaced_under_the_same_id_which_aborts_its_transaction() {
    let mut bench = bench();
    bench.process(0);
    bench.fake.plan("send_offsets", &[ErrorKind::Fatal]);
    assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    let first = bench.note().transactional_id;
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    assert_eq!(bench.note().transactional_id, first);
}

/// A successor ends what an id left open once the member that it stands for is gone from the group.
#[test]
fn a_worker_that_is_another_member_commits_under_another_id() {
    let mut bench = bench();
    bench.process(0);
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    let first = bench.note().transactional_id;
    bench.fake.script(|s| s.member = "m-again".into());
    bench.process(1);
    bench.fake.calls();
    assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    assert_eq!(bench.fake.calls(), ["begin", "send 1", "send 1", "flush", "generation", "abort"]);
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    assert_ne!(bench.note().transactional_id, first);
    assert_eq!(bench.note().member, "m-again");
}

#[test]
fn outputs_outside_the_transaction_have_arrived_before_it_begins_to_commit_anything() {
    let mut bench = bench();
    bench.committer.outputs_outside();
    bench.process(0);
    bench.committer.send_outside(&mut bench.tasks);
    assert_eq!(bench.fake.calls(), ["sender", "send outside 1"], "at once, without a transaction");
    bench.process(1);
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    let calls = ["send outside 1", "producer", "init", "begin", "send 1", "flush outside", "flush"];
    assert_eq!(bench.fake.calls(), [&calls[..], &["generation", "send_offsets 2", "commit"]].concat());
    bench.process(2);
    bench.committer.send_outside(&mut bench.tasks);
    assert_eq!(bench.fake.calls(), ["send outside 1"], "what is committed is not sent again");
}

#[test]
fn an_abort_does_not_repeat_outputs_that_have_arrived() {
    let mut bench = bench();
    bench.committer.outputs_outside();
    bench.process(0);
    bench.fake.plan("send_offsets", &[ErrorKind::StaleGeneration]);
    assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    bench.fake.calls();
    assert_eq!(bench.commit().unwrap(), Outcome::Done);
    let again = ["begin", "send 1", "flush outside", "flush", "generation", "send_offsets 1", "commit"];
    assert_eq!(bench.fake.calls(), again, "the snapshot only");
}

#[test]
fn outputs_that_did_not_arrive_keep_their_offset_from_committing_and_are_sent_again() {
    for call in ["send outside", "flush outside"] {
        let mut bench = bench();
        bench.committer.outputs_outside();
        bench.process(0);
        bench.committer.send_outside(&mut bench.tasks);
        bench.process(1);
        bench.fake.plan(call, &[ErrorKind::RecordRefused]);
        assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
        assert!(!bench.fake.calls().iter().any(|call| call.starts_with("send_offsets") || call == "commit"));
        assert_eq!(bench.commit().unwrap(), Outcome::Done);
        let calls = bench.fake.calls();
        assert_eq!(calls[..2], ["sender", "send outside 2"], "all that is kept, by another client");
    }
}

#[test]
fn outputs_that_never_arrive_end_the_run_with_the_reason() {
    let mut bench = bench();
    bench.committer.outputs_outside();
    bench.process(0);
    bench.fake.plan("flush outside", &[ErrorKind::RecordRefused; 4]);
    for _ in 0..3 {
        assert!(matches!(bench.commit().unwrap(), Outcome::Again(_)));
    }
    assert!(matches!(bench.commit(), Err(RunError::Commit { attempts: 4, .. })));
}
