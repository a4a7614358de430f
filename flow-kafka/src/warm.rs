//! Warm tasks: what a rebalance took away is put aside, and goes on as it is if it comes back unchanged.
//!
//! An eager rebalance takes everything from everybody and returns most of it, and a lost session is often won again. Whether a
//! task that comes back may go on is no guess. The broker has the note of its last commit. Where that is the task's own, by
//! transactional id and commit number, nobody else has committed for it: what it holds in memory is what a recovery would find,
//! with the work on top that it has not committed yet. So this holds however the partition was taken away.

use std::sync::{Arc, Mutex, PoisonError};

use crate::broker::Committed;
use crate::offsets::Note;
use crate::tasks::{Active, Sent};

/// A task that was put aside, shared by the worker and the recovery that judges it. One that cannot go on is dropped there, off
/// the thread that polls.
#[derive(Clone)]
pub(crate) struct Warm(Arc<Mutex<Option<Box<Active>>>>);

impl Warm {
    pub(crate) fn new(active: Box<Active>) -> Self {
        Warm(Arc::new(Mutex::new(Some(active))))
    }

    /// The task, unless it was dropped or taken before.
    pub(crate) fn take(&self) -> Option<Box<Active>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// True if the task is there and may go on from these committed offsets. Drops it if it may not.
    pub(crate) fn goes_on(&self, committed: &[Option<Committed>]) -> bool {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = slot.take_if(|active| !active.is_newest(committed));
        let goes_on = slot.is_some();
        drop(slot);
        drop(stale);
        goes_on
    }
}

impl Active {
    /// Makes it ready to be put aside: nothing of it is on its way, and what waits in its queues comes again.
    pub(crate) fn rest(&mut self) {
        self.announces = false;
        self.sent = Sent::default();
        self.paused.fill(false);
        self.task.forget_queued();
    }

    /// True if these committed offsets are of this task's own last commit, all of them.
    fn is_newest(&self, committed: &[Option<Committed>]) -> bool {
        if self.committed_by.is_empty() {
            // Never committed. An offset that was set by hand has no note and may be another one than we started from.
            return committed.iter().all(Option::is_none);
        }
        let is_ours = |note: Note| note.commit == self.commit && note.transactional_id == self.committed_by;
        committed.iter().all(|committed| {
            committed.as_ref().is_some_and(|committed| Note::decode(&committed.metadata).is_ok_and(is_ours))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flow_core::{Offset, Partition, RecordRef, TaskOptions, Timestamp, Topic, TopologyBuilder};

    use super::*;
    use crate::broker::TopicPartition;
    use crate::topics::TaskId;

    fn active(commit: u64, committed_by: &str) -> Box<Active> {
        let topology = TopologyBuilder::new();
        topology.stream(Topic::<str, u64>::new("in")).count("counts").changes().to(Topic::<str, u64>::new("out"));
        let partition = Partition(0);
        let task = topology.build().unwrap().sub_topologies()[0].task(partition, &TaskOptions::default());
        Box::new(Active {
            id: TaskId { sub: 0, partition },
            task,
            inputs: vec![TopicPartition::new("in", 0)],
            sources: vec!["in".to_owned()],
            start: vec![Offset(3)],
            committed_at: vec![Offset(3)],
            commit,
            committed_by: committed_by.to_owned(),
            written: BTreeSet::new(),
            announces: true,
            sent: Sent { outputs: 1, outside: 1, ..Sent::default() },
            paused: vec![true],
        })
    }

    fn committed(commit: u64, by: &str) -> Option<Committed> {
        let note = Note { commit, transactional_id: by.to_owned(), ..Note::default() };
        Some(Committed { offset: Offset(3), metadata: note.encode() })
    }

    fn by_hand() -> Option<Committed> {
        Some(Committed { offset: Offset(1), metadata: String::new() })
    }

    #[test]
    fn a_task_goes_on_only_where_the_last_commit_is_its_own() {
        for (goes_on, found) in [
            (true, committed(7, "me")),
            (false, committed(8, "me")),
            (false, committed(7, "other")),
            (false, committed(8, "other")),
            (false, by_hand()),
            (false, None),
        ] {
            let warm = Warm::new(active(7, "me"));
            assert_eq!(warm.goes_on(std::slice::from_ref(&found)), goes_on, "{found:?}");
            assert_eq!(warm.take().is_some(), goes_on, "one that may not go on is dropped");
        }
    }

    #[test]
    fn a_task_that_never_committed_goes_on_only_where_nobody_has() {
        for (goes_on, found) in [(true, None), (false, committed(1, "other")), (false, by_hand())] {
            assert_eq!(Warm::new(active(0, "")).goes_on(std::slice::from_ref(&found)), goes_on, "{found:?}");
        }
    }

    #[test]
    fn every_input_has_to_agree() {
        let (ours, theirs) = (committed(7, "me"), committed(9, "other"));
        assert!(Warm::new(active(7, "me")).goes_on(&[ours.clone(), ours.clone()]));
        assert!(!Warm::new(active(7, "me")).goes_on(&[ours.clone(), theirs]));
        assert!(!Warm::new(active(7, "me")).goes_on(&[ours, None]));
    }

    #[test]
    fn a_task_at_rest_keeps_its_work_and_its_place_and_forgets_what_was_on_its_way() {
        let mut active = active(7, "me");
        let record = RecordRef {
            key: Some(b"k"),
            value: Some(b"1"),
            timestamp: Some(Timestamp::from_millis(1)),
            offset: Offset(3),
            headers: flow_core::HeadersRef::default(),
        };
        active.task.process(0, &record).unwrap();
        active.task.enqueue(0, &RecordRef { offset: Offset(4), ..record });
        active.rest();
        assert_eq!((active.next(0), active.task.queued(0)), (Offset(4), 0));
        assert_eq!((active.task.effects().outputs_len(), active.sent), (1, Sent::default()));
        assert!(active.has_to_commit() && !active.announces && !active.paused[0]);
    }
}
