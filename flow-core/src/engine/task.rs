//! A task: one sub-topology on one partition.

use std::sync::Arc;

use super::failure::Failure;
use super::queue::Queue;
use super::{Effects, Program, RestoreError, TaskCounters, TaskData, TaskError, TaskErrorKind, TaskOptions};
use crate::flow::Clock;
use crate::{Offset, Partition, RecordRef, Timestamp};

/// One sub-topology on one partition: stores, clocks, queues and effects.
///
/// It does no I/O and reads no clock. Records go in, [`Effects`] come out, and are kept until they are known to be committed. What
/// it does is a function of what it is given: the same snapshots, records and times give the same effects, bit for bit.
pub struct Task {
    program: Arc<Program>,
    data: TaskData,
    queues: Vec<Queue>,
    positions: Vec<Option<Offset>>,
    dirty: bool,
    max_record_bytes: usize,
}

impl Task {
    pub(crate) fn new(program: Arc<Program>, partition: Partition, options: &TaskOptions) -> Self {
        let journaled = program.journaled(&options.policies);
        let stores = program.stores.iter().map(|store| (store.make)(journaled)).collect();
        let data = TaskData::new(stores, journaled, &program, partition, options);
        let sources = program.sources.len();
        Task {
            data,
            queues: (0..sources).map(|_| Queue::default()).collect(),
            positions: vec![None; sources],
            dirty: false,
            max_record_bytes: options.max_record_bytes,
            program,
        }
    }

    /// Gives back one entry of a store from its snapshot topic; `None` is a tombstone.
    ///
    /// # Errors
    /// When this program cannot go on from that snapshot.
    ///
    /// # Panics
    /// When the sub-topology has no store of this number.
    pub fn restore(&mut self, store: usize, entry: &[u8], value: Option<&[u8]>) -> Result<(), RestoreError> {
        self.data.stores[store].restore(entry, value)
    }

    /// Gives back the clock of a store's step; the highest one given counts. Names this task does not have are ignored.
    pub fn restore_clock(&mut self, store: &str, clock: Timestamp) {
        for (info, state) in self.program.store_infos.iter().zip(&mut self.data.stores) {
            if info.name == store {
                state.set_clock(state.clock().max(clock.as_millis()));
            }
        }
    }

    /// The clocks to commit: by store name, those that have moved.
    pub fn clocks(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        let clocks = self.program.store_infos.iter().zip(&self.data.stores);
        clocks.filter_map(|(info, store)| {
            let clock = store.clock();
            (clock != i64::MIN).then(|| (info.name.as_str(), Timestamp::from_millis(clock)))
        })
    }

    /// Processes a borrowed record. For tasks with one source; others take [`Task::enqueue`].
    ///
    /// # Errors
    /// When the record fails and its policy says stop. Its effects are cut off; see [`TaskError::torn`] for its states.
    ///
    /// # Panics
    /// When the sub-topology has no source of this number.
    pub fn process(&mut self, source: usize, record: &RecordRef<'_>) -> Result<(), TaskError> {
        run(&self.program, &mut self.data, source, record)?;
        self.positions[source] = Some(Offset(record.offset.0 + 1));
        self.dirty = true;
        Ok(())
    }

    /// Copies a record into the queue of its source.
    ///
    /// # Panics
    /// When the sub-topology has no source of this number.
    pub fn enqueue(&mut self, source: usize, record: &RecordRef<'_>) {
        self.queues[source].push(record);
    }

    /// Forgets the records that wait in queues, for a caller that will bring them again from [`Task::position`] on.
    pub fn forget_queued(&mut self) {
        self.queues.iter_mut().for_each(Queue::clear);
    }

    /// How many records of a source wait.
    pub fn queued(&self, source: usize) -> usize {
        self.queues.get(source).map_or(0, Queue::len)
    }

    /// Processes queued records, smallest timestamp first (then by source), at most `max`, while every source has one queued or
    /// is `drained` (has no more to come for now). Answers how many were processed.
    ///
    /// # Errors
    /// When a record fails and its policy says stop; it stays in the queue.
    pub fn process_queued(&mut self, drained: &dyn Fn(usize) -> bool, max: usize) -> Result<usize, TaskError> {
        for done in 0..max {
            let Some(source) = self.next_source(drained) else { return Ok(done) };
            let Some(record) = self.queues[source].front() else { return Ok(done) };
            run(&self.program, &mut self.data, source, &record)?;
            self.positions[source] = Some(Offset(record.offset.0 + 1));
            self.dirty = true;
            self.queues[source].pop();
        }
        Ok(max)
    }

    fn next_source(&self, drained: &dyn Fn(usize) -> bool) -> Option<usize> {
        let mut smallest = None;
        for (source, queue) in self.queues.iter().enumerate() {
            match queue.front() {
                // A record without a timestamp fails whenever it comes, so it comes at once.
                Some(record) => {
                    let time = record.timestamp.unwrap_or(Timestamp::MIN);
                    if smallest.is_none_or(|(other, _)| time < other) {
                        smallest = Some((time, source));
                    }
                }
                None if drained(source) => {}
                None => return None,
            }
        }
        smallest.map(|(_, source)| source)
    }

    /// The offset behind the last record of a source that was processed or skipped.
    pub fn position(&self, source: usize) -> Option<Offset> {
        self.positions.get(source).copied().flatten()
    }

    /// Tells the task the wall clock, and fires the wall-clock timers that are due.
    ///
    /// # Errors
    /// When a timer fails and its policy says stop.
    pub fn advance(&mut self, now: Timestamp) -> Result<(), TaskError> {
        self.data.set_wall(now);
        self.fire(Clock::Wall, now)
    }

    /// The wall clock at which [`Task::advance`] should be called next, if timers wait for it: never later than the first deadline,
    /// and earlier than that only where a timer was cancelled or moved.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.data.stores.iter().filter_map(|store| store.next_wall()).min().map(Timestamp::from_millis)
    }

    /// Moves the clock of every step to `to` at least, and fires the event-time timers that are due. (For tests: in production
    /// only records move event time.)
    ///
    /// # Errors
    /// When a timer fails and its policy says stop.
    pub fn advance_event_time(&mut self, to: Timestamp) -> Result<(), TaskError> {
        self.fire(Clock::Event, to)
    }

    fn fire(&mut self, clock: Clock, now: Timestamp) -> Result<(), TaskError> {
        let program = Arc::clone(&self.program);
        for (at, store) in program.stores.iter().enumerate() {
            let Some(step) = &store.fire else { continue };
            let state = &mut self.data.stores[at];
            if clock == Clock::Event && state.clock() < now.as_millis() {
                state.set_clock(now.as_millis());
                self.dirty = true;
            }
            if state.may_be_due(clock, now.as_millis()) {
                self.dirty = true;
                self.data.touched = false;
                let mark = self.data.mark();
                let fired = step.fire_due(&mut self.data, clock, now.as_millis());
                if let Err(failure) = fired {
                    let error = self.data.error(None, failure);
                    self.data.roll_back(&mark);
                    self.data.end_record();
                    return Err(error);
                }
                self.data.end_record();
            }
        }
        Ok(())
    }

    /// What is to be sent and written since the last [`Task::committed`].
    pub fn effects(&self) -> &Effects {
        &self.data.effects
    }

    /// Adds the snapshots of all entries that changed since the last call to the effects.
    ///
    /// # Errors
    /// When a state cannot be written, or is too big: always a stop.
    pub fn prepare_commit(&mut self) -> Result<(), TaskError> {
        let TaskData { stores, effects, .. } = &mut self.data;
        for (index, store) in stores.iter_mut().enumerate() {
            if let Err(failure) = store.snapshot(index as u32, effects, self.max_record_bytes) {
                return Err(self.data.error(None, failure));
            }
        }
        Ok(())
    }

    /// The effects are committed: forget them.
    pub fn committed(&mut self) {
        self.data.effects.clear();
        self.dirty = false;
    }

    /// True if there is something to commit: a record processed or skipped, a clock moved, a timer fired, effects kept.
    pub fn is_dirty(&self) -> bool {
        self.dirty || !self.data.effects.is_empty()
    }

    /// The step that was entered last, as `describe()` prints it: after a panic of user code, the step that panicked.
    pub fn current_step(&self) -> &str {
        self.program.steps.get(self.data.at as usize).map_or("", String::as_str)
    }

    /// The source and offset of the record being processed: after a panic of user code, the record that brought it about.
    pub fn current_record(&self) -> Option<(usize, Offset)> {
        self.data.record
    }

    /// What the task has done since it was made.
    pub fn counters(&self) -> &TaskCounters {
        &self.data.counters
    }
}

/// One record through the program; a free function, because the record may be borrowed from the task's own queue.
#[inline]
fn run(program: &Program, data: &mut TaskData, source: usize, record: &RecordRef<'_>) -> Result<(), TaskError> {
    data.touched = false;
    data.at = program.readers[source].step;
    let mark = data.mark();
    let timestamp = record.timestamp.unwrap_or(Timestamp::MIN);
    data.begin_record(source, record, timestamp);
    let done = if timestamp < Timestamp::from_millis(0) || timestamp > data.latest() {
        Err(bad_timestamp(program.readers[source].step, record.timestamp, data))
    } else {
        program.read(source, data, record)
    };
    match done {
        Ok(()) => data.counters.processed += 1,
        Err(failure) => data.record_failed(source, record, &mark, failure)?,
    }
    data.end_record();
    Ok(())
}

#[cold]
fn bad_timestamp(step: u32, timestamp: Option<Timestamp>, data: &TaskData) -> Box<Failure> {
    let message = match timestamp {
        None => "the record has no timestamp: let its producer set one, or give the topic `message.timestamp.type` \
                 LogAppendTime"
            .to_owned(),
        Some(time) if time > data.latest() => format!(
            "the record's timestamp, {time}, is later than {}, the furthest ahead of the wall clock that is allowed",
            data.latest()
        ),
        Some(time) => format!("the record's timestamp is negative: {time}"),
    };
    Failure::of_step(TaskErrorKind::Decode, step, message)
}
