//! A task: one sub-topology on one partition.

use std::sync::Arc;

use super::{Effects, Program, RestoreError, TaskCounters, TaskError, TaskOptions};
use crate::{Offset, Partition, RecordRef, Timestamp};

/// One sub-topology on one partition: stores, clocks, queues and effects. It does no I/O and reads no clock.
pub struct Task {
    program: Arc<Program>,
    effects: Effects,
    counters: TaskCounters,
}

impl Task {
    pub(crate) fn new(program: Arc<Program>, _partition: Partition, _options: &TaskOptions) -> Self {
        Task { program, effects: Effects::default(), counters: TaskCounters::default() }
    }

    /// Gives back one entry of a store from its snapshot topic; `None` is a tombstone.
    ///
    /// # Errors
    /// When this program cannot go on from that snapshot.
    pub fn restore(&mut self, store: usize, entry: &[u8], value: Option<&[u8]>) -> Result<(), RestoreError> {
        let _ = (store, entry, value);
        Ok(())
    }

    /// Gives back the clock of a store's step; the highest one given counts. Names this task does not have are ignored.
    pub fn restore_clock(&mut self, store: &str, clock: Timestamp) {
        let _ = (store, clock);
    }

    /// The clocks to commit: by store name, those that have moved.
    pub fn clocks(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        self.program.store_infos.iter().map(|store| (store.name.as_str(), Timestamp::MIN))
    }

    /// Processes a borrowed record. For tasks with one source; others take [`Task::enqueue`].
    ///
    /// # Errors
    /// When the record fails and its policy says stop.
    pub fn process(&mut self, source: usize, record: &RecordRef<'_>) -> Result<(), TaskError> {
        let _ = (source, record);
        Ok(())
    }

    /// Copies a record into the queue of its source.
    pub fn enqueue(&mut self, source: usize, record: &RecordRef<'_>) {
        let _ = (source, record);
    }

    /// How many records of a source wait.
    pub fn queued(&self, source: usize) -> usize {
        let _ = source;
        0
    }

    /// Processes queued records, smallest timestamp first (then by source), at most `max`, while every source has one queued or
    /// is `drained` (has no more to come for now). Answers how many were processed.
    ///
    /// # Errors
    /// When a record fails and its policy says stop.
    pub fn process_queued(&mut self, drained: &dyn Fn(usize) -> bool, max: usize) -> Result<usize, TaskError> {
        let _ = (drained, max);
        Ok(0)
    }

    /// The offset behind the last record of a source that was processed or skipped.
    pub fn position(&self, source: usize) -> Option<Offset> {
        let _ = source;
        None
    }

    /// Tells the task the wall clock, and fires the wall-clock timers that are due.
    ///
    /// # Errors
    /// When a timer fails and its policy says stop.
    pub fn advance(&mut self, now: Timestamp) -> Result<(), TaskError> {
        let _ = now;
        Ok(())
    }

    /// When the next wall-clock timer is due.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        None
    }

    /// Moves the clock of every step to `to` at least, and fires the event-time timers that are due. (For tests: in production
    /// only records move event time.)
    ///
    /// # Errors
    /// When a timer fails and its policy says stop.
    pub fn advance_event_time(&mut self, to: Timestamp) -> Result<(), TaskError> {
        let _ = to;
        Ok(())
    }

    /// What is to be sent and written since the last [`Task::committed`].
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Adds the snapshots of all entries that changed since the last call to the effects.
    ///
    /// # Errors
    /// When a state cannot be written, or is too big: always a stop.
    pub fn prepare_commit(&mut self) -> Result<(), TaskError> {
        Ok(())
    }

    /// The effects are committed: forget them.
    pub fn committed(&mut self) {
        self.effects.clear();
    }

    /// True if there is something to commit: a record processed or skipped, a timer fired, effects kept.
    pub fn is_dirty(&self) -> bool {
        false
    }

    /// What the task has done since it was made.
    pub fn counters(&self) -> &TaskCounters {
        &self.counters
    }
}
