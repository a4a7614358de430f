//! A running topology, as its process sees it: state, counters, shutdown.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, sync::Arc};

use futures::Stream;
use futures::channel::{mpsc, oneshot};

use crate::broker::TopicPartition;
use crate::error::RunError;
use crate::progress::{Partitions, Progress};

/// What a running topology is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// Reading the topics and starting workers.
    Starting,
    /// Partitions are being assigned, or tasks recovered.
    Rebalancing,
    /// Every task that this process owns is processing.
    Running,
    /// Committing for the last time and leaving the group.
    Stopping,
    /// Ended as asked.
    Stopped,
    /// Ended by an error.
    Failed,
}

/// What was done so far. Published by the workers between batches of records, at most a second late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Tasks processing now.
    pub tasks: u64,
    /// Records processed, those of repartition topics included.
    pub records: u64,
    /// Records emitted to topics.
    pub outputs: u64,
    /// Timers fired.
    pub timers: u64,
    /// Records skipped because key, value or timestamp could not be read.
    pub skipped_decode: u64,
    /// Records skipped because a step failed.
    pub skipped_step: u64,
    /// Records skipped because no broker would take their output.
    pub skipped_produce: u64,
    /// Dead letters of records whose key, value or timestamp could not be read.
    pub dead_lettered_decode: u64,
    /// Dead letters of records, and of timers, for which a step failed.
    pub dead_lettered_step: u64,
    /// Dead letters of records, and of timers, whose output no broker would take.
    pub dead_lettered_produce: u64,
    /// Records dropped by an aggregation because their key is null.
    pub dropped_null_key: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions aborted and sent again.
    pub aborts: u64,
    /// Snapshot records read by recoveries.
    pub restored: u64,
    /// Tasks that a rebalance took away and gave back, and that went on as they were: nothing was restored for them.
    pub warm: u64,
}

impl Counters {
    pub(crate) fn add(&mut self, other: &Counters) {
        self.combine(other, u64::wrapping_add);
    }

    /// Takes counts out again that were added before.
    pub(crate) fn subtract(&mut self, other: &Counters) {
        self.combine(other, u64::wrapping_sub);
    }

    fn combine(&mut self, other: &Counters, with: fn(u64, u64) -> u64) {
        let Counters {
            tasks,
            records,
            outputs,
            timers,
            skipped_decode,
            skipped_step,
            skipped_produce,
            dead_lettered_decode,
            dead_lettered_step,
            dead_lettered_produce,
            dropped_null_key,
            commits,
            aborts,
            restored,
            warm,
        } = self;
        for (one, other) in [
            (tasks, other.tasks),
            (records, other.records),
            (outputs, other.outputs),
            (timers, other.timers),
            (skipped_decode, other.skipped_decode),
            (skipped_step, other.skipped_step),
            (skipped_produce, other.skipped_produce),
            (dead_lettered_decode, other.dead_lettered_decode),
            (dead_lettered_step, other.dead_lettered_step),
            (dead_lettered_produce, other.dead_lettered_produce),
            (dropped_null_key, other.dropped_null_key),
            (commits, other.commits),
            (aborts, other.aborts),
            (restored, other.restored),
            (warm, other.warm),
        ] {
            *one = with(*one, other);
        }
    }
}

/// What a run did, once it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The final counts.
    pub counters: Counters,
    /// From start to end.
    pub time: Duration,
    /// Records of its partitions that were not processed when it ended, as far as its clients knew: see [`App::lags`].
    pub lag: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.counters;
        let seconds = self.time.as_secs_f64();
        write!(
            f,
            "{} records in {seconds:.1} s ({:.0} a second), {} outputs, {} timers fired, {} commits, {} aborts",
            c.records,
            c.records as f64 / seconds.max(0.001),
            c.outputs,
            c.timers,
            c.commits,
            c.aborts
        )?;
        if c.restored > 0 {
            write!(f, ", {} snapshots restored", c.restored)?;
        }
        if c.warm > 0 {
            write!(f, ", {} tasks went on warm", c.warm)?;
        }
        let by_place = [
            ("skipped", [c.skipped_decode, c.skipped_step, c.skipped_produce]),
            ("dead letters", [c.dead_lettered_decode, c.dead_lettered_step, c.dead_lettered_produce]),
        ];
        for (what, [decode, step, produce]) in by_place {
            let all = decode + step + produce;
            if all > 0 {
                write!(f, ", {all} {what} ({decode} unreadable, {step} failed in a step, {produce} not sendable)")?;
            }
        }
        if c.dropped_null_key > 0 {
            write!(f, ", {} dropped for a null key", c.dropped_null_key)?;
        }
        if self.lag > 0 {
            write!(f, ", {} records behind", self.lag)?;
        }
        Ok(())
    }
}

/// A handle on a running topology.
///
/// Dropping it asks the topology to stop and does not wait for it.
#[derive(Debug)]
#[must_use = "dropping the handle stops the topology"]
pub struct App {
    pub(crate) shared: Arc<Shared>,
    pub(crate) end: Option<oneshot::Receiver<Result<Summary, RunError>>>,
}

impl App {
    /// What it is doing now.
    pub fn state(&self) -> State {
        self.shared.lock().state
    }

    /// Each change of state from now on, starting with the present one. Ends when the topology has ended.
    pub fn states(&self) -> impl Stream<Item = State> + Send + use<> {
        let (sender, receiver) = mpsc::unbounded();
        let mut inner = self.shared.lock();
        // A receiver that was just made is open.
        let _ = sender.unbounded_send(inner.state);
        if !matches!(inner.state, State::Stopped | State::Failed) {
            inner.listeners.push(sender);
        }
        receiver
    }

    /// What was done so far, by all workers of this process.
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// The snapshot partitions that this process is restoring state from, and how far each has come. At most a second late; add
    /// them up for the whole: `app.restoring().into_values().sum::<Progress>()`.
    ///
    /// A partition whose snapshots are all read stays until its worker is done with all that it restores together; then they are
    /// gone. One that has no snapshots, or whose committed offset is not known yet, is not here.
    pub fn restoring(&self) -> BTreeMap<TopicPartition, Progress> {
        self.shared.merge(|partitions| &partitions.restoring)
    }

    /// The input partitions that were behind when this process started on them, and how far each has come, as
    /// [`restoring`](Self::restoring) does it. What a partition needs is what it held at the first look, within a second of the
    /// start; so a catch-up ends, also where records never stop coming. How far behind a partition is of all, [`lags`](Self::lags) says.
    pub fn catching_up(&self) -> BTreeMap<TopicPartition, Progress> {
        self.shared.merge(|partitions| &partitions.catching_up)
    }

    /// How many records this process has yet to process of each input partition that it owns, repartition topics included: the
    /// offsets from where it is to the end that the client has last seen, so those of open transactions and their markers count.
    /// No broker is asked for it. At most a second late, and by a fetch; records that are processed but not committed are done.
    ///
    /// `None` where that is not known: the task is being restored, or nothing was fetched yet.
    pub fn lags(&self) -> BTreeMap<TopicPartition, Option<u64>> {
        self.shared.merge(|partitions| &partitions.lags)
    }

    /// Asks it to stop: commit, leave the group, end. Does not wait.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Waits until it has ended, by itself or because it was asked to.
    ///
    /// # Errors
    /// Why it ended, if nobody asked for it.
    pub async fn wait(mut self) -> Result<Summary, RunError> {
        let end = self.end.take().ok_or_else(|| RunError::Internal("the end was taken already".into()))?;
        end.await.unwrap_or_else(|_| Err(RunError::Internal("the supervisor thread ended without a result".into())))
    }

    /// Stops and waits for the end.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn shutdown(self) -> Result<Summary, RunError> {
        self.stop();
        self.wait().await
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

/// What the workers, their supervisor and the handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    stop: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: State,
    workers: Vec<Option<Published>>,
    failure: Option<RunError>,
    listeners: Vec<mpsc::UnboundedSender<State>>,
}

/// What a worker said last.
#[derive(Clone, Debug)]
struct Published {
    running: bool,
    counters: Counters,
    partitions: Partitions,
}

impl Shared {
    pub(crate) fn new() -> Self {
        let inner = Inner { state: State::Starting, workers: Vec::new(), failure: None, listeners: Vec::new() };
        Shared { stop: AtomicBool::new(false), inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Plain values: they are whole also after a panic of their holder.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn expect_workers(&self, number: usize) {
        self.lock().workers = vec![None; number];
    }

    /// A worker's counts, whether all its tasks are processing, and what it knows of its partitions, if that has changed.
    pub(crate) fn publish(&self, worker: usize, running: bool, counters: Counters, partitions: Option<Partitions>) {
        let mut inner = self.lock();
        let partitions =
            partitions.or_else(|| inner.workers[worker].take().map(|before| before.partitions)).unwrap_or_default();
        inner.workers[worker] = Some(Published { running, counters, partitions });
        if matches!(inner.state, State::Starting | State::Rebalancing | State::Running) {
            let all = inner.workers.iter().all(|worker| worker.as_ref().is_some_and(|published| published.running));
            set(&mut inner, if all { State::Running } else { State::Rebalancing });
        }
    }

    /// The first failure is the one that is returned; the others follow from it.
    pub(crate) fn fail(&self, error: RunError) {
        self.stop();
        let mut inner = self.lock();
        if inner.failure.is_none() {
            log::error!("stopping: {error}");
            inner.failure = Some(error);
        } else {
            log::error!("also: {error}");
        }
    }

    pub(crate) fn enter(&self, state: State) {
        set(&mut self.lock(), state);
    }

    pub(crate) fn take_failure(&self) -> Option<RunError> {
        self.lock().failure.take()
    }

    pub(crate) fn end(&self, failed: bool) {
        let mut inner = self.lock();
        set(&mut inner, if failed { State::Failed } else { State::Stopped });
        inner.listeners.clear();
    }

    pub(crate) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.lock().workers.iter().flatten().for_each(|published| sum.add(&published.counters));
        sum
    }

    /// What is known of the workers' partitions, of one kind.
    fn merge<T: Copy>(&self, kind: fn(&Partitions) -> &BTreeMap<TopicPartition, T>) -> BTreeMap<TopicPartition, T> {
        let inner = self.lock();
        let all = inner.workers.iter().flatten().flat_map(|published| kind(&published.partitions));
        all.map(|(partition, what)| (partition.clone(), *what)).collect()
    }

    /// All lags that are known.
    pub(crate) fn lag(&self) -> u64 {
        self.merge(|partitions| &partitions.lags).into_values().flatten().sum()
    }
}

fn set(inner: &mut Inner, state: State) {
    if inner.state == state {
        return;
    }
    log::info!("{:?} -> {state:?}", inner.state);
    inner.state = state;
    inner.listeners.retain(|listener| listener.unbounded_send(state).is_ok());
}
