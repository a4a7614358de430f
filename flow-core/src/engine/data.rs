//! The data of a task: everything that changes while a record visits its program.

use std::sync::Arc;

use super::effects::{Mark, Output};
use super::failure::Place;
use super::letter::Failed;
use super::push::Step;
use super::{
    Effects, FailedTimer, Failure, Policies, Policy, Program, TaskCounters, TaskError, TaskErrorKind, TaskOptions,
};
use crate::codec::CodecError;
use crate::context::Kept;
use crate::flow::State;
use crate::state::{AnyStore, KvStore, StoreId, StoreMark};
use crate::{Offset, Partition, RecordRef, Timestamp};

pub(crate) struct TaskData {
    pub(crate) stores: Vec<Box<dyn AnyStore>>,
    pub(crate) effects: Effects,
    pub(crate) counters: TaskCounters,
    /// The time of what is being processed: a record, or a timer's deadline. Outputs carry it.
    pub(crate) timestamp: Timestamp,
    /// A store was opened for writing since the current record, or timer, began.
    pub(crate) touched: bool,
    /// The step that was entered last.
    pub(crate) at: u32,
    /// The source and offset of the record being processed.
    pub(crate) record: Option<(usize, Offset)>,
    /// The names of steps, by their number, and of the sources' topics.
    steps: Arc<[String]>,
    topics: Arc<[String]>,
    partition: Partition,
    policies: Policies,
    journaled: bool,
    max_record_bytes: usize,
    max_lead: Option<std::time::Duration>,
    /// The latest timestamp that may pass, by `max_lead`.
    latest: Timestamp,
    /// Lent to one context at a time.
    kept: Option<Box<Kept>>,
    /// Buffers for keys, taken and given back in turn.
    scratch: Vec<Vec<u8>>,
    /// Where the stores' journals stood, for records and, nested in them, timers.
    marks: Vec<StoreMark>,
}

/// What a failed record, or timer, is rolled back to.
#[derive(Clone, Copy)]
pub(crate) struct UnitMark {
    effects: Mark,
    counters: TaskCounters,
    marks: usize,
}

/// What a firing timer puts aside.
pub(crate) struct Suspended {
    timestamp: Timestamp,
    has_record: bool,
}

impl TaskData {
    pub(crate) fn new(
        stores: Vec<Box<dyn AnyStore>>,
        journaled: bool,
        program: &Program,
        partition: Partition,
        options: &TaskOptions,
    ) -> Self {
        TaskData {
            stores,
            effects: Effects::default(),
            counters: TaskCounters::default(),
            timestamp: Timestamp::MIN,
            touched: false,
            at: 0,
            record: None,
            steps: Arc::clone(&program.steps),
            topics: Arc::clone(&program.topics),
            partition,
            policies: options.policies,
            journaled,
            max_record_bytes: options.max_record_bytes,
            max_lead: options.max_lead,
            latest: Timestamp::MAX,
            kept: Some(Box::new(Kept::new(Arc::clone(&program.topics), partition))),
            scratch: Vec::new(),
            marks: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn store<S: State>(&mut self, id: StoreId<S>) -> &mut KvStore<S> {
        self.stores[id.index()].as_any().downcast_mut().expect("an id is made with its store")
    }

    /// A store about to be opened for writing.
    #[inline]
    pub(crate) fn writable<S: State>(&mut self, id: StoreId<S>) -> &mut KvStore<S> {
        self.touched = true;
        self.store(id)
    }

    #[inline]
    pub(crate) fn lend(&mut self) -> Box<Kept> {
        self.kept.take().expect("each context gives back what it was lent before the next is made")
    }

    #[inline]
    pub(crate) fn give_back(&mut self, kept: Box<Kept>) {
        self.kept = Some(kept);
    }

    fn kept(&mut self) -> &mut Kept {
        self.kept.as_mut().expect("no context is alive between steps")
    }

    #[inline]
    pub(crate) fn take_scratch(&mut self) -> Vec<u8> {
        let mut scratch = self.scratch.pop().unwrap_or_default();
        scratch.clear();
        scratch
    }

    #[inline]
    pub(crate) fn give_scratch(&mut self, scratch: Vec<u8>) {
        self.scratch.push(scratch);
    }

    pub(crate) fn set_wall(&mut self, now: Timestamp) {
        self.kept().wall = now;
        self.latest = self.max_lead.map_or(Timestamp::MAX, |lead| now + lead);
    }

    /// After a failure: states may include half of it, because there are no copies to put back.
    pub(crate) fn is_torn(&self) -> bool {
        self.touched && !self.journaled
    }

    pub(crate) fn latest(&self) -> Timestamp {
        self.latest
    }

    /// What there is to say about the current record's origin and headers is what a context will show.
    #[inline]
    pub(crate) fn begin_record(&mut self, source: usize, record: &RecordRef<'_>, timestamp: Timestamp) {
        self.timestamp = timestamp;
        self.record = Some((source, record.offset));
        let kept = self.kept();
        kept.source = source;
        kept.offset = record.offset;
        kept.has_record = true;
        if !(record.headers.is_empty() && kept.headers.is_empty()) {
            kept.headers.clear();
            kept.headers.extend_from_slice(record.headers.bytes());
        }
    }

    #[inline]
    pub(crate) fn end_record(&mut self) {
        self.record = None;
        self.kept().has_record = false;
        if self.journaled {
            self.marks.clear();
            self.stores.iter_mut().for_each(|store| store.forget_journal());
        }
    }

    /// Puts the record aside while a timer fires at `timestamp`.
    pub(crate) fn begin_timer(&mut self, timestamp: Timestamp) -> Suspended {
        let has_record = std::mem::replace(&mut self.kept().has_record, false);
        Suspended { timestamp: std::mem::replace(&mut self.timestamp, timestamp), has_record }
    }

    pub(crate) fn end_timer(&mut self, suspended: &Suspended) {
        self.timestamp = suspended.timestamp;
        self.kept().has_record = suspended.has_record;
    }

    #[inline]
    pub(crate) fn mark(&mut self) -> UnitMark {
        let mark = UnitMark { effects: self.effects.mark(), counters: self.counters, marks: self.marks.len() };
        if self.journaled {
            let TaskData { marks, stores, .. } = self;
            marks.extend(stores.iter().map(|store| store.mark()));
        }
        mark
    }

    /// The unit is over, and went well: its mark is needed no more.
    pub(crate) fn unmark(&mut self, mark: &UnitMark) {
        self.marks.truncate(mark.marks);
    }

    /// Cuts off the effects since the mark, and puts states, timers and clocks back where they are journaled.
    #[cold]
    pub(crate) fn roll_back(&mut self, mark: &UnitMark) {
        self.effects.cut_back(mark.effects);
        self.counters = mark.counters;
        if self.journaled {
            for (store, to) in self.stores.iter_mut().zip(&self.marks[mark.marks..]) {
                store.rollback(*to);
            }
            self.marks.truncate(mark.marks);
        }
    }

    /// A record failed: nothing of it stays, and its policy decides whether the task goes on.
    #[cold]
    pub(crate) fn record_failed(
        &mut self,
        source: usize,
        record: &RecordRef<'_>,
        mark: &UnitMark,
        failure: Box<Failure>,
    ) -> Result<(), TaskError> {
        self.roll_back(mark);
        let failed = Failed::Record { source, record, latest: self.latest };
        let error = self.pass_over(failure, Some((source, record.offset)), &failed);
        error.map_or(Ok(()), |failure| {
            let error = self.error(Some((source, record.offset)), failure);
            self.end_record();
            Err(error)
        })
    }

    /// A timer failed: as a record does, but it has fired.
    #[cold]
    pub(crate) fn timer_failed(
        &mut self,
        timer: FailedTimer,
        timestamp: Timestamp,
        mark: &UnitMark,
        mut failure: Box<Failure>,
    ) -> Step {
        failure.timer = Some(Box::new(timer.clone()));
        if self.policy(failure.kind) == Policy::Stop {
            return Err(failure); // what it is part of is rolled back
        }
        self.roll_back(mark);
        let failed = Failed::Timer { timer: &timer, timestamp };
        self.pass_over(failure, None, &failed).map_or(Ok(()), Err)
    }

    /// Counts what failed, or makes a dead letter of it, as the policy says. Answers the failure if it is to stop the task.
    fn pass_over(
        &mut self,
        mut failure: Box<Failure>,
        record: Option<(usize, Offset)>,
        failed: &Failed<'_>,
    ) -> Option<Box<Failure>> {
        let kind = failure.kind;
        match self.policy(kind) {
            Policy::Stop => return Some(failure),
            Policy::Skip => self.counters.skipped.count(kind),
            Policy::DeadLetter => {
                let error = self.error(record, failure.clone());
                let before = self.effects.mark();
                let size = self.effects.bury(failed, &error);
                if size > self.max_record_bytes {
                    self.effects.cut_back(before);
                    failure.message.push_str(&format!(
                        " (and its dead letter takes {size} bytes, where the limit is {}: raise the limit of the topic \
                         and of the client)",
                        self.max_record_bytes
                    ));
                    return Some(failure);
                }
                self.counters.dead_lettered.count(kind);
            }
        }
        None
    }

    fn policy(&self, kind: TaskErrorKind) -> Policy {
        match kind {
            TaskErrorKind::Decode => self.policies.decode,
            TaskErrorKind::Step => self.policies.step,
            TaskErrorKind::Produce => self.policies.produce,
            TaskErrorKind::Snapshot => Policy::Stop,
        }
    }

    /// A failure with its place.
    #[cold]
    #[allow(clippy::boxed_local, reason = "failures travel boxed")]
    pub(crate) fn error(&self, record: Option<(usize, Offset)>, failure: Box<Failure>) -> TaskError {
        TaskError {
            kind: failure.kind,
            step: match failure.place {
                Place::Step(step) => self.steps.get(step as usize).cloned().unwrap_or_default(),
                Place::Store(name) => name,
            },
            topic: record.and_then(|(source, _)| self.topics.get(source).cloned()),
            partition: self.partition,
            offset: record.map(|(_, offset)| offset),
            timer: failure.timer,
            message: failure.message,
            torn: self.is_torn(),
        }
    }

    /// Adds a record to the effects: `key` and `value` append their bytes and say whether they are null.
    #[inline]
    pub(crate) fn send(
        &mut self,
        sink: u32,
        step: u32,
        key: impl FnOnce(&mut Vec<u8>) -> Result<bool, CodecError>,
        value: impl FnOnce(&mut Vec<u8>) -> Result<bool, CodecError>,
    ) -> Step {
        if self.timestamp > self.latest || self.timestamp.as_millis() < 0 {
            return Err(self.bad_timestamp(step));
        }
        let kept = self.kept.as_ref().expect("no context is alive between steps");
        let bytes = &mut self.effects.bytes;
        let start = bytes.len();
        let null_key = key(bytes).map_err(|error| unwritable("key", step, &error))?;
        let key_end = bytes.len();
        let null_value = value(bytes).map_err(|error| unwritable("value", step, &error))?;
        let value_end = bytes.len();
        if kept.has_record && !kept.headers.is_empty() {
            bytes.extend_from_slice(&kept.headers);
        }
        let end = bytes.len();
        if end - start > self.max_record_bytes {
            return Err(too_big(end - start, self.max_record_bytes, step));
        }
        self.counters.outputs += 1;
        self.effects.outputs.push(Output {
            sink,
            timestamp: self.timestamp,
            start,
            key: if null_key { -1 } else { (key_end - start) as i32 },
            value: if null_value { -1 } else { (value_end - key_end) as i32 },
            headers: (end - value_end) as i32,
        });
        Ok(())
    }

    #[cold]
    fn bad_timestamp(&self, step: u32) -> Box<Failure> {
        let (timestamp, latest) = (self.timestamp, self.latest);
        let message = if timestamp > latest {
            format!(
                "the output's timestamp, {timestamp}, is later than {latest}, the furthest ahead of the wall clock that \
                 is allowed: the broker would refuse it"
            )
        } else {
            format!("the output's timestamp is negative, which Kafka does not take: {timestamp}")
        };
        Failure::of_step(TaskErrorKind::Produce, step, message)
    }
}

#[cold]
fn unwritable(part: &str, step: u32, error: &CodecError) -> Box<Failure> {
    Failure::of_step(TaskErrorKind::Produce, step, format_args!("the output's {part} {error}"))
}

#[cold]
fn too_big(size: usize, limit: usize, step: u32) -> Box<Failure> {
    let message = format_args!(
        "the output takes {size} bytes, and the limit is {limit}: send less in one record, or raise the limit of the \
         topic and of the client"
    );
    Failure::of_step(TaskErrorKind::Produce, step, message)
}
