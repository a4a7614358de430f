//! The tasks that a worker processes, and how records find them.

use std::collections::BTreeSet;

use flow_core::{Offset, Partition, StoreInfo, Task};

use crate::broker::TopicPartition;
use crate::topics::TaskId;

/// A task that is being processed.
pub(crate) struct Active {
    pub(crate) id: TaskId,
    pub(crate) task: Task,
    /// Input partitions, by source.
    pub(crate) inputs: Vec<TopicPartition>,
    /// The sources' topics as the topology names them.
    pub(crate) sources: Vec<String>,
    /// Where each source went on after the recovery.
    pub(crate) start: Vec<Offset>,
    /// The offset of each source that is known to be committed: nothing below it is needed any more.
    pub(crate) committed_at: Vec<Offset>,
    /// The number of the last commit.
    pub(crate) commit: u64,
    /// The transactional id of the last commit; empty before the first one.
    pub(crate) committed_by: String,
    /// Stores that have ever written a snapshot of this task: their logs must not be empty when it is recovered.
    pub(crate) written: BTreeSet<String>,
    /// Its offset commits once more, also where nothing moved: at its start and when it is given up, so that a successor finds who
    /// had it last.
    pub(crate) announces: bool,
    /// Outputs, dead letters and snapshots of the kept effects that the open transaction has already.
    pub(crate) sent: Sent,
    /// Sources that are paused because too much of theirs waits in memory.
    pub(crate) paused: Vec<bool>,
}

/// How much of the kept effects was sent in the open transaction. An abort sets it back to nothing: all is sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) outputs: usize,
    pub(crate) letters: usize,
    pub(crate) snapshots: usize,
    /// Outputs sent outside of transactions: what an abort does not take back.
    pub(crate) outside: usize,
}

impl Sent {
    /// True if the open transaction has some of it.
    pub(crate) fn is_inside(self) -> bool {
        Sent { outside: 0, ..self } != Sent::default()
    }

    /// The transaction is gone.
    pub(crate) fn aborted(&mut self) {
        *self = Sent { outside: self.outside, ..Sent::default() };
    }
}

impl Active {
    /// The offset of the next record to process: what a commit commits.
    pub(crate) fn next(&self, source: usize) -> Offset {
        self.task.position(source).unwrap_or(self.start[source])
    }

    /// True if a commit concerns this task.
    pub(crate) fn has_to_commit(&self) -> bool {
        self.announces || self.task.is_dirty()
    }

    /// What it had is committed, by the producer of this transactional id.
    pub(crate) fn committed(&mut self, by: &str) {
        self.commit += 1;
        for source in 0..self.inputs.len() {
            self.committed_at[source] = self.next(source);
        }
        if self.committed_by != by {
            by.clone_into(&mut self.committed_by);
        }
        self.announces = false;
        self.sent = Sent::default();
        self.task.committed();
    }

    /// Notes the stores that the kept effects write to.
    pub(crate) fn note_written(&mut self, stores: &[StoreInfo]) {
        let effects = self.task.effects();
        for at in 0..effects.snapshots_len() {
            let name = &stores[effects.snapshot(at).store].name;
            if !self.written.contains(name) {
                self.written.insert(name.clone());
            }
        }
    }

    /// True for a task that copies its records into queues, because it must choose between inputs.
    pub(crate) fn queues(&self) -> bool {
        self.inputs.len() > 1
    }
}

/// A worker's tasks. Few, so a scan finds one; the last one found is tried first, as records come in runs.
#[derive(Default)]
pub(crate) struct Tasks {
    all: Vec<Active>,
    last: (usize, usize),
}

impl Tasks {
    pub(crate) fn add(&mut self, task: Active) {
        self.all.push(task);
        self.all.sort_by_key(|task| task.id);
    }

    pub(crate) fn remove(&mut self, id: TaskId) -> Option<Active> {
        let at = self.all.iter().position(|task| task.id == id)?;
        Some(self.all.remove(at))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Active> {
        self.all.iter()
    }

    /// In order of their ids.
    pub(crate) fn all(&mut self) -> &mut [Active] {
        &mut self.all
    }

    /// The task that reads a partition, and the source it is there.
    pub(crate) fn find(&mut self, topic: &str, partition: Partition) -> Option<(&mut Active, usize)> {
        let is = |input: &TopicPartition| input.partition == partition && input.topic == topic;
        let (at, source) = self.last;
        if !self.all.get(at).and_then(|task| task.inputs.get(source)).is_some_and(is) {
            self.last = self
                .all
                .iter()
                .enumerate()
                .find_map(|(at, task)| task.inputs.iter().position(is).map(|source| (at, source)))?;
        }
        let (at, source) = self.last;
        Some((&mut self.all[at], source))
    }
}
