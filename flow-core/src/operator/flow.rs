//! The step of a user's flow: its clock, its timers, its folds.

use std::panic::Location;

use crate::context::{Context, Emitted, Kept};
use crate::engine::{FailedTimer, Failure, Fire, Key, KeyFormat, Next, Push, Step, TaskData, TaskErrorKind};
use crate::flow::{Clock, Flow, Fold, StepError, Timer};
use crate::state::{Due, KvStore, StoreId};
use crate::topology::{JointFlow, Stream};
use crate::{Timestamp, flow};

impl<'t, K: ?Sized + 'static, V: ?Sized + 'static> Stream<'t, K, V> {
    /// Folds the records into the state of their key, as the flow says; the result is what it emits.
    ///
    /// The flow works in place, on the record's own key. A null key is a decode failure. Where the flow names a key itself, that
    /// key must be the record's, or the record fails.
    ///
    /// ```
    /// use flow_core::testing::example;
    /// use flow_core::{Context, Flow, Fold, Json, StepError};
    ///
    /// /// Emits the number of records whenever it has doubled.
    /// struct Doublings;
    ///
    /// impl Flow for Doublings {
    ///     const NAME: &'static str = "doublings";
    ///     type State = u64;
    ///     type Codec = Json;
    ///     type Out = u64;
    /// }
    ///
    /// impl Fold<u64> for Doublings {
    ///     fn fold(&self, state: &mut Option<u64>, _: &u64, cx: &mut Context<u64>) -> Result<(), StepError> {
    ///         let count = state.insert(state.unwrap_or(0) + 1);
    ///         if count.is_power_of_two() {
    ///             cx.emit(*count);
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let out = example(|numbers| numbers.flow(Doublings), &[("a", 7), ("a", 7), ("a", 7), ("a", 7)]);
    /// assert_eq!(out, [("a".to_owned(), 1), ("a".to_owned(), 2), ("a".to_owned(), 4)]);
    /// ```
    #[track_caller]
    pub fn flow<F: Fold<V>>(self, flow: F) -> Stream<'t, K, F::Out> {
        JointFlow::new(self.builder, flow, Location::caller()).fold(self).output()
    }
}

pub(crate) struct FlowStep<F: Flow, K: ?Sized> {
    flow: F,
    store: StoreId<F::State>,
    step: u32,
    next: Next<K, F::Out>,
    key: KeyFormat<K>,
}

impl<F: Fold<E>, E: ?Sized, K: ?Sized + 'static> Push<K, E> for FlowStep<F, K> {
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, event: &E) -> Step {
        task.at = self.step;
        let bytes = key.ask_bytes(self.step)?;
        self.check_key(task, bytes, event)?;
        let timestamp = task.timestamp;
        let store = task.writable(self.store);
        let now = store.move_clock(timestamp.as_millis());
        // Due timers first, then the record: what is late has passed.
        if store.timers.may_be_due(Clock::Event, now) {
            self.fire_due(task, Clock::Event, now)?;
        }
        task.at = self.step;
        let mut cx = Context::new(Timestamp::from_millis(now), timestamp, task.lend());
        let store = task.store(self.store);
        let at = store.slot(bytes);
        let folded = match store.open(at) {
            Ok(state) => self.flow.fold(state, event, &mut cx),
            Err(error) => {
                task.give_back(cx.finish().1);
                return Err(error);
            }
        };
        let (emitted, mut kept) = cx.finish();
        let settled = self.settle(store, at, &mut kept, folded, None);
        task.give_back(kept);
        settled?;
        self.emit(task, key, emitted)?;
        // A timer that was set in the past fires when the step returns.
        if task.store(self.store).timers.may_be_due(Clock::Event, now) {
            self.fire_due(task, Clock::Event, now)?;
        }
        Ok(())
    }
}

impl<F: Flow, K: ?Sized> FlowStep<F, K> {
    pub(crate) fn new(flow: F, store: StoreId<F::State>, step: u32, next: Next<K, F::Out>, key: KeyFormat<K>) -> Self {
        FlowStep { flow, store, step, next, key }
    }

    /// The key that the event names must be the record's.
    #[inline]
    fn check_key<E: ?Sized>(&self, task: &mut TaskData, bytes: &[u8], event: &E) -> Step
    where
        F: Fold<E>,
    {
        let mut named = task.take_scratch();
        let checked = match self.flow.key(event, &mut named) {
            Ok(false) => Ok(()),
            Ok(true) if named == bytes => Ok(()),
            Ok(true) => Err(other_key(self.step, &named, bytes)),
            Err(error) => Err(failed(self.step, &error)),
        };
        task.give_scratch(named);
        checked
    }

    /// Carries out what a step asked of its timers. `firing` is the clock, and its time, in whose handler it was.
    #[inline]
    fn settle(
        &self,
        store: &mut KvStore<F::State>,
        at: u32,
        kept: &mut Kept,
        done: Result<(), StepError>,
        firing: Option<(Clock, i64)>,
    ) -> Step {
        if let Err(error) = done {
            kept.timers.clear();
            return Err(failed(self.step, &error));
        }
        if store.is_gone(at) {
            // The key is forgotten, and its timers with it.
            store.timers.cancel_all(at);
            kept.timers.clear();
            return Ok(());
        }
        for (timer, deadline) in kept.timers.drain(..) {
            let Some(index) = store.timers.index_of(timer) else { return Err(unknown_timer::<F>(self.step, timer)) };
            let deadline = deadline.unwrap_or(Timestamp::MAX).as_millis();
            if firing.is_some_and(|(clock, now)| clock == timer.clock() && deadline <= now) {
                return Err(not_in_the_future(self.step, timer, deadline));
            }
            store.timers.set(at, index, deadline);
        }
        Ok(())
    }

    #[inline]
    fn emit(&self, task: &mut TaskData, key: Key<'_, K>, emitted: Emitted<F::Out>) -> Step {
        match emitted {
            Emitted::None => Ok(()),
            Emitted::One(out) => self.next.push(task, key, &out),
            Emitted::Many(all) => all.iter().try_for_each(|out| self.next.push(task, key, out)),
        }
    }

    /// Fires one timer. It is a unit of its own: where its failure is passed over, it leaves nothing behind but has fired.
    fn fire(&self, task: &mut TaskData, due: &Due, now: i64) -> Step {
        let store = task.writable(self.store);
        if !store.timers.still_due(due) {
            return Ok(()); // a handler before it cancelled or moved it
        }
        store.timers.set(due.at, due.timer as usize, i64::MAX);
        // That it has fired must last, also where what it did is undone: or it would fire again after a restart.
        store.touch(due.at);
        task.counters.timers_fired += 1;
        let Some(&timer) = F::TIMERS.get(due.timer as usize) else { return Ok(()) };
        let mark = task.mark();
        let deadline = Timestamp::from_millis(due.deadline);
        let step_clock = task.store(self.store).clock;
        // Without a clock (its offset metadata was lost) a wall-clock timer still has to carry some time, and the same in a replay.
        let step_clock = Timestamp::from_millis(if step_clock == i64::MIN { 0 } else { step_clock });
        let timestamp = match timer.clock() {
            Clock::Event => deadline,
            Clock::Wall => step_clock,
        };
        let suspended = task.begin_timer(timestamp);
        let done = self.call(task, due.at, timer, (step_clock, timestamp), now);
        task.end_timer(&suspended);
        match done {
            Ok(()) => {
                task.unmark(&mark);
                Ok(())
            }
            Err(failure) => {
                let key = task.store(self.store).key(due.at).to_vec();
                let failed = FailedTimer { name: timer.name().to_owned(), key, deadline };
                task.timer_failed(failed, timestamp, &mark, failure)
            }
        }
    }

    fn call(&self, task: &mut TaskData, at: u32, timer: Timer, times: (Timestamp, Timestamp), now: i64) -> Step {
        task.at = self.step;
        let mut cx = Context::new(times.0, times.1, task.lend());
        let store = task.store(self.store);
        let handled = match store.open(at) {
            Ok(state) => self.flow.timer(timer, state, &mut cx),
            Err(error) => {
                task.give_back(cx.finish().1);
                return Err(error);
            }
        };
        let (emitted, mut kept) = cx.finish();
        let settled = self.settle(store, at, &mut kept, handled, Some((timer.clock(), now)));
        task.give_back(kept);
        settled?;
        if let Emitted::None = emitted {
            return Ok(());
        }
        let mut bytes = task.take_scratch();
        bytes.extend_from_slice(task.store(self.store).key(at));
        let mut emitted = Some(emitted);
        let done = self.key.with(&bytes, &mut |key| {
            self.emit(task, Key { bytes: Some(&bytes), value: Some(key) }, emitted.take().unwrap_or(Emitted::None))
        });
        task.give_scratch(bytes);
        done.unwrap_or_else(|error| {
            // The key was readable when its record came, so this is another codec's store: no policy skips that.
            let message = format_args!("the key of the timer `{}` is {error}", timer.name());
            Err(Failure::of_step(TaskErrorKind::Snapshot, self.step, message))
        })
    }
}

impl<F: Flow, K: ?Sized> Fire for FlowStep<F, K> {
    #[cold]
    fn fire_due(&self, task: &mut TaskData, clock: Clock, now: i64) -> Step {
        while task.store(self.store).timers.may_be_due(clock, now) {
            let ready = task.store(self.store).due(clock, now);
            let fired = ready.iter().try_for_each(|due| self.fire(task, due, now));
            task.store(self.store).give_back(ready);
            fired?;
        }
        Ok(())
    }
}

#[cold]
fn failed(step: u32, error: &StepError) -> Box<Failure> {
    Failure::of_step(TaskErrorKind::Step, step, error)
}

#[cold]
fn other_key(step: u32, named: &[u8], found: &[u8]) -> Box<Failure> {
    let message = format_args!(
        "the event names the key `{}`, and its record has the key `{}`: put a `key_by` in front of the flow, or correct \
         its key function",
        named.escape_ascii(),
        found.escape_ascii()
    );
    Failure::of_step(TaskErrorKind::Decode, step, message)
}

#[cold]
fn unknown_timer<F: flow::Flow>(step: u32, timer: Timer) -> Box<Failure> {
    let message =
        format_args!("the flow `{}` sets the timer `{}`, which its `TIMERS` do not list", F::NAME, timer.name());
    Failure::of_step(TaskErrorKind::Step, step, message)
}

#[cold]
fn not_in_the_future(step: u32, timer: Timer, deadline: i64) -> Box<Failure> {
    let message = format_args!(
        "a timer's handler sets the timer `{}` for {}, which has passed: it would fire for ever, so set it for a later time",
        timer.name(),
        Timestamp::from_millis(deadline)
    );
    Failure::of_step(TaskErrorKind::Step, step, message)
}
