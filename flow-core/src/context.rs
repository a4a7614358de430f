//! What a step is told, and what it asks for: data, with no engine inside.

use std::sync::Arc;

use crate::flow::Timer;
use crate::{HeadersRef, Offset, Partition, Timestamp};

/// The other side of a step: its time and its record, and what it wants beyond changing its state.
///
/// Everything asked for is data that the engine carries out when the step returns: emitted values leave in order, timers are set.
/// In a unit test, [`testing::ContextExt`](crate::testing::ContextExt) makes one and looks into it.
pub struct Context<Out> {
    now: Timestamp,
    timestamp: Timestamp,
    emitted: Emitted<Out>,
    kept: Box<Kept>,
}

/// Where a record came from. It identifies the record in retries and replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position<'c> {
    /// The topic as the topology names it.
    pub topic: &'c str,
    /// The partition.
    pub partition: Partition,
    /// The offset.
    pub offset: Offset,
}

/// None, one inline, or many: a step that emits at most once a call allocates nothing.
pub(crate) enum Emitted<Out> {
    None,
    One(Out),
    Many(Vec<Out>),
}

/// What survives a call, so that no call allocates: the task lends it to one context at a time.
pub(crate) struct Kept {
    pub(crate) topics: Arc<[String]>,
    pub(crate) source: usize,
    pub(crate) partition: Partition,
    pub(crate) offset: Offset,
    /// False while timers fire: what they emit has no record and no headers.
    pub(crate) has_record: bool,
    pub(crate) headers: Vec<u8>,
    pub(crate) timers: Vec<(Timer, Option<Timestamp>)>,
    pub(crate) wall: Timestamp,
}

impl Kept {
    pub(crate) fn new(topics: Arc<[String]>, partition: Partition) -> Self {
        Kept {
            topics,
            source: 0,
            partition,
            offset: Offset(0),
            has_record: false,
            headers: Vec::new(),
            timers: Vec::new(),
            wall: Timestamp::MIN,
        }
    }
}

impl<Out> Context<Out> {
    #[inline]
    pub(crate) fn new(now: Timestamp, timestamp: Timestamp, kept: Box<Kept>) -> Self {
        Context { now, timestamp, emitted: Emitted::None, kept }
    }

    #[inline]
    pub(crate) fn finish(self) -> (Emitted<Out>, Box<Kept>) {
        (self.emitted, self.kept)
    }

    pub(crate) fn emitted_so_far(&self) -> &[Out] {
        match &self.emitted {
            Emitted::None => &[],
            Emitted::One(out) => std::slice::from_ref(out),
            Emitted::Many(all) => all,
        }
    }

    pub(crate) fn timers_so_far(&self) -> &[(Timer, Option<Timestamp>)] {
        &self.kept.timers
    }

    pub(crate) fn kept_mut(&mut self) -> &mut Kept {
        &mut self.kept
    }

    /// The step's clock: the highest timestamp of the records that reached this step, in this partition.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The timestamp of the record; in a timer's handler the deadline of an event-time timer, or the step's clock for a
    /// wall-clock timer. What is emitted carries it.
    #[inline]
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// The machine's clock as the task last heard of it. It differs in a replay: use it for wall-clock timers, not for results.
    #[inline]
    pub fn wall_clock(&self) -> Timestamp {
        self.kept.wall
    }

    /// Sends `out` on to the steps behind this one, with this record's key and timestamp.
    #[inline]
    pub fn emit(&mut self, out: Out) {
        self.emitted = match std::mem::replace(&mut self.emitted, Emitted::None) {
            Emitted::None => Emitted::One(out),
            Emitted::One(first) => Emitted::Many(vec![first, out]),
            Emitted::Many(mut all) => {
                all.push(out);
                Emitted::Many(all)
            }
        };
    }

    /// Sets this key's `timer`, or moves it if it is pending.
    ///
    /// A deadline that has passed fires when the step returns (event time) or when the task next hears of the time (wall clock).
    /// In a timer's handler the deadline must lie in the future.
    #[inline]
    pub fn set_timer(&mut self, timer: Timer, deadline: Timestamp) {
        self.kept.timers.push((timer, Some(deadline)));
    }

    /// Cancels this key's `timer` if it is pending.
    #[inline]
    pub fn cancel_timer(&mut self, timer: Timer) {
        self.kept.timers.push((timer, None));
    }

    /// Where the record came from; `None` in a timer's handler.
    pub fn position(&self) -> Option<Position<'_>> {
        let kept = &self.kept;
        let topic = kept.topics.get(kept.source)?;
        kept.has_record.then(|| Position { topic, partition: kept.partition, offset: kept.offset })
    }

    /// The record's headers; none in a timer's handler.
    pub fn headers(&self) -> HeadersRef<'_> {
        if self.kept.has_record { HeadersRef::new(&self.kept.headers) } else { HeadersRef::EMPTY }
    }
}
