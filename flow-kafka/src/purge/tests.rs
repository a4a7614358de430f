//! What is purged, and what becomes of failures, on a scripted broker.

use std::collections::BTreeSet;

use flow_core::{Partition, RecordRef, TaskOptions, Timestamp, Topic, TopologyBuilder};

use super::*;
use crate::KafkaConfig;
use crate::broker::{ErrorKind, TopicInfo};
use crate::fake::Fake;
use crate::tasks::Sent;
use crate::topics::{self, TaskId};

const LINES: Topic<str, u64> = Topic::new("lines");
const COUNTS: Topic<String, u64> = Topic::new("counts");
const EVERY: Duration = Duration::from_secs(30);

/// The tasks of partition 0 of both sub-topologies: the first reads the user's topic, the second one the repartition topic.
struct Bench {
    fake: Fake,
    layout: Layout,
    purge: Purge,
    tasks: Vec<Active>,
}

fn bench() -> Bench {
    let fake = Fake::default();
    for topic in ["lines", "counts"] {
        fake.script(|s| s.topics.insert(topic.into(), TopicInfo { partitions: 1, cleanup_policy: None }));
    }
    let topology = TopologyBuilder::new();
    topology.stream(LINES).key_by("by-line", |_, line| line.to_string()).count("counts").changes().to(COUNTS);
    let config = KafkaConfig::new("nowhere:1", "app");
    let layout = topics::prepare(&mut fake.clone(), &fake, &topology.build().unwrap(), &config).unwrap();
    let tasks = (0..2).map(|sub| active(&layout, TaskId { sub, partition: Partition(0) })).collect();
    let purge = Purge::new(Arc::new(fake.clone()), 0, EVERY);
    fake.calls();
    Bench { fake, layout, purge, tasks }
}

fn active(layout: &Layout, id: TaskId) -> Active {
    Active {
        id,
        task: layout.subs[id.sub].topology.task(id.partition, &TaskOptions::default()),
        inputs: layout.inputs(id),
        sources: layout.subs[id.sub].sources.clone(),
        start: vec![Offset(4)],
        committed_at: vec![Offset(4)],
        commit: 1,
        committed_by: "me".to_owned(),
        written: BTreeSet::new(),
        announces: false,
        sent: Sent::default(),
        paused: vec![false],
    }
}

impl Bench {
    /// Both tasks process the record of this offset.
    fn process(&mut self, offset: i64) {
        for task in &mut self.tasks {
            let record = RecordRef {
                key: Some(b"k"),
                value: Some(b"1"),
                timestamp: Some(Timestamp::from_millis(1)),
                offset: Offset(offset),
                headers: flow_core::HeadersRef::default(),
            };
            task.task.process(0, &record).unwrap();
        }
    }

    fn commit(&mut self) {
        self.tasks.iter_mut().for_each(|task| task.committed("me"));
    }

    /// What is done when this many intervals have passed.
    fn after(&mut self, intervals: u32) -> Vec<String> {
        self.purge.begin_if_due(EVERY * intervals, &self.layout, self.tasks.iter());
        self.fake.calls()
    }
}

fn purged_below(offset: i64) -> [String; 2] {
    ["spawn flow-purge-0".to_owned(), format!("delete_records app-by-line-repartition/0<{offset}")]
}

#[test]
fn a_repartition_topic_is_purged_up_to_the_committed_offset_and_no_other_topic_is() {
    let mut bench = bench();
    assert_eq!(bench.after(1), purged_below(4));
    bench.process(9);
    assert_eq!(bench.after(2), Vec::<String>::new(), "what is not committed stays");
    bench.commit();
    assert_eq!(bench.after(3), purged_below(10));
    assert_eq!(bench.after(4), Vec::<String>::new(), "there is nothing new to purge");
}

#[test]
fn work_that_an_abort_keeps_in_memory_stays_in_the_log() {
    let mut bench = bench();
    bench.process(6);
    bench.commit();
    // Sent, aborted, to be sent again: the position has moved, the committed offset has not.
    bench.process(7);
    bench.tasks[1].rest();
    assert_eq!(bench.after(1), purged_below(7));
}

#[test]
fn nothing_is_purged_before_it_is_time() {
    let mut bench = bench();
    assert_eq!(bench.after(0), Vec::<String>::new());
    assert_eq!(bench.after(1).len(), 2);
    bench.process(5);
    bench.commit();
    assert_eq!(bench.after(1), Vec::<String>::new());
}

#[test]
fn what_could_not_be_purged_is_tried_again_with_what_came_since() {
    let mut bench = bench();
    bench.fake.plan("delete_records", &[ErrorKind::Retriable]);
    assert_eq!(bench.after(1), purged_below(4));
    bench.fake.plan("spawn", &[ErrorKind::Refused]);
    assert_eq!(bench.after(2), ["spawn flow-purge-0"]);
    assert!(bench.purge.failing);
    bench.process(5);
    bench.commit();
    assert_eq!(bench.after(3), purged_below(6));
    assert_eq!(bench.after(4), Vec::<String>::new());
    assert!(!bench.purge.failing, "a success ends the trouble");
}

#[test]
fn a_purge_that_takes_longer_than_the_interval_is_not_joined_by_another() {
    let mut bench = bench();
    let (slow, outcome) = channel();
    bench.purge.under_way = Some(outcome);
    assert_eq!(bench.after(1), Vec::<String>::new());
    slow.send(Ok(Below::new())).unwrap();
    assert_eq!(bench.after(2), purged_below(4));
}
