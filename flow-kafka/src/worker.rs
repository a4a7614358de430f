//! A worker: one thread that owns a group member, a transactional producer and the tasks of its partitions.
//!
//! Records are folded on the thread that polls, so no channel and no lock lies between them and the state, and the rebalance,
//! the generation and the commit cannot race. A rebalance is only noted inside the client; the worker acts when `poll`
//! returns, with everything in its hands, and acknowledges then.

mod ownership;
mod pace;
mod progress;
mod recoveries;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use flow_core::Timestamp;

use self::pace::{Pace, What};
use self::progress::Overview;
use crate::app::{Counters, Shared};
use crate::broker::{
    Assignor, Broker, BrokerError, Consumer, ConsumerSpec, ErrorKind, Joiner, Next, Rebalance, TopicPartition,
};
use crate::commit::{Committer, Outcome};
use crate::config::KafkaConfig;
use crate::error::RunError;
use crate::failure::{Failure, Halt, guard, halted};
use crate::purge::Purge;
use crate::recovery::Report;
use crate::tasks::{Active, Tasks};
use crate::topics::{Layout, TaskId};
use crate::warm::Warm;

/// The longest wait in one poll: a stop is noticed after it.
const POLL_MAX: Duration = Duration::from_millis(100);
/// The wait while recoveries are under way: their reports do not wake a poll.
const POLL_RECOVERING: Duration = Duration::from_millis(5);
/// Kept effects are sent ahead of the commit from this size on, so that the network works while the fold goes on.
const SEND_AHEAD_BYTES: usize = 256 << 10;
/// Records queued per input of a task with several inputs: paused above, resumed below half of it.
const QUEUE_MAX: usize = 4000;
/// How long the last commit and the end of a worker may take.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// See the module.
pub(crate) struct Worker {
    number: usize,
    broker: Arc<dyn Broker>,
    layout: Arc<Layout>,
    config: KafkaConfig,
    shared: Arc<Shared>,
    tasks: Tasks,
    committer: Committer,
    purge: Purge,
    /// Partitions that the group gave us and that we have not given back.
    owned: BTreeSet<TopicPartition>,
    /// Tasks being recovered.
    pending: BTreeMap<TaskId, Pending>,
    /// Tasks that were taken away, until the next assignment tells whether they come back.
    aside: BTreeMap<TaskId, Box<Active>>,
    /// Tasks that stop at a record which is known to fail.
    halts: BTreeMap<TaskId, Halt>,
    reports: (Sender<Report>, Receiver<Report>),
    threads: Vec<Box<dyn Joiner>>,
    epoch: u64,
    pace: Pace,
    /// Queued records are left that the last batch had no time for.
    behind: bool,
    last_commit: Duration,
    overview: Overview,
    /// Counts of tasks that are gone.
    past: Counters,
    joined: bool,
    /// Only the last commit is left to do.
    ending: bool,
}

struct Pending {
    epoch: u64,
    cancelled: Arc<AtomicBool>,
    /// The task as it was when it was taken away.
    warm: Option<Warm>,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        broker: Arc<dyn Broker>,
        layout: Arc<Layout>,
        config: KafkaConfig,
        shared: Arc<Shared>,
    ) -> Self {
        let client_id = format!("worker-{number}");
        let (timeout, stop) = (config.client.transaction_timeout, Arc::clone(&shared));
        let stopping = Arc::new(move || stop.stopping());
        let purge = Purge::new(Arc::clone(&broker), number, config.purge_interval);
        let mut committer = Committer::new(Arc::clone(&broker), Arc::clone(&layout), client_id, timeout, stopping);
        if config.at_least_once_output {
            committer.outputs_outside();
        }
        let pace = Pace::new(config.client.poll_limit(), config.commit_interval);
        Worker {
            number,
            broker,
            layout,
            config,
            shared,
            tasks: Tasks::default(),
            committer,
            purge,
            owned: BTreeSet::new(),
            pending: BTreeMap::new(),
            aside: BTreeMap::new(),
            halts: BTreeMap::new(),
            reports: channel(),
            threads: Vec::new(),
            epoch: 0,
            pace,
            behind: false,
            last_commit: Duration::ZERO,
            overview: Overview::default(),
            past: Counters::default(),
            joined: false,
            ending: false,
        }
    }

    /// Works until a stop or a failure; commits what is whole, leaves the group.
    pub(crate) fn run(mut self) -> Result<(), RunError> {
        let mut consumer = self.join_group()?;
        self.committer.warm_up();
        let worked = self.work(&mut consumer);
        self.ending = true;
        self.cancel_all();
        self.look(&mut *consumer);
        let closed = self.finish(&mut *consumer);
        // What could not commit must not keep the next owner waiting for the transaction's timeout.
        self.committer.abort(self.tasks.all());
        consumer.close();
        for thread in std::mem::take(&mut self.threads) {
            thread.join().map_err(RunError::Internal)?;
        }
        self.publish(false);
        worked.and(closed)
    }

    /// A task with several inputs needs the same partition of each of them.
    fn assignor(&self) -> Assignor {
        if self.layout.joins_inputs() { Assignor::Range } else { Assignor::CooperativeSticky }
    }

    fn client_id(&self) -> String {
        format!("{}-worker-{}", self.config.app, self.number)
    }

    fn join_group(&self) -> Result<Box<dyn Consumer>, RunError> {
        let spec =
            ConsumerSpec { group: self.config.app.clone(), assignor: self.assignor(), client_id: self.client_id() };
        let joined = self.broker.consumer(&spec).and_then(|mut consumer| {
            consumer.subscribe(&self.layout.subscription())?;
            Ok(consumer)
        });
        joined.map_err(|cause| self.broken("joining the group", cause))
    }

    fn broken(&self, doing: &str, cause: BrokerError) -> RunError {
        RunError::Broker { doing: format!("worker {}: {doing}", self.number), cause }
    }

    /// The group does not have us any more, or never did.
    fn refused(&self, cause: BrokerError) -> RunError {
        let group = self.config.app.clone();
        match cause.kind {
            ErrorKind::InstanceTaken => {
                let instance = self.config.client.instance_of(&self.client_id()).unwrap_or_default();
                RunError::InstanceTaken { group, instance, cause }
            }
            ErrorKind::AssignorMismatch => RunError::Assignor { group, ours: self.assignor(), cause },
            _ => self.broken("polling", cause),
        }
    }

    fn work(&mut self, consumer: &mut Box<dyn Consumer>) -> Result<(), RunError> {
        let mut troubled = false;
        while !self.shared.stopping() {
            self.start_recovered(&mut **consumer)?;
            if let Some(late) = self.pace.begin(self.broker.host()) {
                log::error!("worker {}: {late}", self.number);
            }
            let timeout = self.timeout();
            let (polled, failure) = self.poll(&mut **consumer, timeout);
            if let Some(failure) = failure {
                self.fail(*failure, &mut **consumer)?;
            }
            match polled {
                Ok(rebalance) => {
                    if std::mem::take(&mut troubled) {
                        log::info!("worker {}: the broker answers again", self.number);
                    }
                    if let Some(rebalance) = rebalance {
                        self.rebalance(&rebalance, &mut **consumer)?;
                    }
                }
                Err(error) if error.kind == ErrorKind::Retriable => {
                    if !std::mem::replace(&mut troubled, true) {
                        log::warn!("worker {}: polling goes on without an answer: {error}", self.number);
                    }
                }
                Err(error)
                    if matches!(error.kind, ErrorKind::Fatal | ErrorKind::Fenced | ErrorKind::OffsetOutOfRange) =>
                {
                    log::warn!("worker {}: the consumer is of no use any more, a new one joins: {error}", self.number);
                    self.lose_everything()?;
                    if error.kind == ErrorKind::OffsetOutOfRange {
                        // Either another owner went on and has purged what we were about to read, and we have yet to learn that
                        // we lost the partition; or records were deleted before anybody read them, or the log was cut off. The
                        // recovery can tell, but only from the broker's offsets: where the tasks were is of no use.
                        self.aside.clear();
                    }
                    let dead = std::mem::replace(consumer, self.join_group()?);
                    // It ends on a thread of its own; nothing here waits for that.
                    drop(dead);
                }
                Err(error) => return Err(self.refused(error)),
            }
            self.queues(&mut **consumer)?;
            self.committer.send_outside(self.tasks.all());
            self.throttle(&mut **consumer)?;
            self.commit_if_due(&mut **consumer)?;
            self.publish_if_due(&mut **consumer);
        }
        Ok(())
    }

    fn timeout(&self) -> Duration {
        if self.behind {
            return Duration::ZERO;
        }
        let host = self.broker.host();
        let mut timeout = if self.pending.is_empty() { POLL_MAX } else { POLL_RECOVERING };
        if self.tasks.iter().any(Active::has_to_commit) {
            timeout = timeout.min((self.last_commit + self.config.commit_interval).saturating_sub(host.elapsed()));
        }
        if let Some(wakeup) = self.tasks.iter().filter_map(|task| task.task.next_wakeup()).min() {
            timeout = timeout.min(until(host.now(), wakeup));
        }
        timeout
    }

    /// Polls once and folds what comes. A failure ends the batch before its record.
    fn poll(
        &mut self,
        consumer: &mut dyn Consumer,
        timeout: Duration,
    ) -> (Result<Option<Rebalance>, BrokerError>, Option<Box<Failure>>) {
        let host = self.broker.host();
        let now = host.now();
        for active in self.tasks.all() {
            if let Err(failure) = guard(active, None, |active| active.task.advance(now)) {
                return (Ok(None), Some(failure));
            }
        }
        self.pace.note(host, || What::Other("timers"));
        let (tasks, halts, pace) = (&mut self.tasks, &mut self.halts, &mut self.pace);
        let mut failure = None;
        let polled = consumer.poll(timeout, &mut |polled| {
            // A record of a partition that is not started is not ours to count: the start seeks to its own offset.
            let Some((active, source)) = tasks.find(polled.topic, polled.partition) else { return Next::Continue };
            let offset = polled.record.offset;
            if !halts.is_empty()
                && let Some(halted) = halted(halts, active.id, source, offset)
            {
                failure = Some(halted);
                return Next::Stop;
            }
            if active.queues() {
                active.task.enqueue(source, &polled.record);
                return Next::Continue;
            }
            if !pace.takes(host) {
                return Next::Stop;
            }
            match guard(active, Some((source, offset)), |active| active.task.process(source, &polled.record)) {
                Ok(()) => {
                    pace.record(host, active, source, offset);
                    Next::Continue
                }
                Err(failed) => {
                    failure = Some(failed);
                    Next::Stop
                }
            }
        });
        (polled, failure)
    }

    /// Processes queued records of tasks with several inputs.
    fn queues(&mut self, consumer: &mut dyn Consumer) -> Result<(), RunError> {
        if !self.layout.joins_inputs() {
            return Ok(());
        }
        let mut failures = Vec::new();
        self.behind = false;
        let (host, pace, behind) = (self.broker.host(), &mut self.pace, &mut self.behind);
        for active in self.tasks.all().iter_mut().filter(|active| active.queues()) {
            let drained: Vec<bool> = active.inputs.iter().map(|input| consumer.lag(input) == Some(0)).collect();
            if let Err(failure) = guard(active, None, |active| {
                // At least some, whatever the time: a batch without any would be followed by another one.
                loop {
                    let more = pace.takes(host);
                    let stride = pace.stride();
                    let done = active.task.process_queued(&|source| drained[source], stride)?;
                    let last = active.task.current_record();
                    pace.look(host, || match last {
                        Some((source, offset)) if done > 0 => What::records(done, active, source, offset),
                        _ => What::Other("timers"),
                    });
                    *behind |= done == stride && !more;
                    if done < stride || !more {
                        return Ok(());
                    }
                }
            }) {
                failures.push(failure);
            }
        }
        // All of them, whatever the first one means for the run: a torn task must not see the last commit.
        let mut outcome = Ok(());
        for failure in failures {
            outcome = outcome.and(self.fail(*failure, consumer));
        }
        outcome
    }

    /// Keeps what waits in memory within bounds. Where much is uncommitted (the broker is away) nothing more is taken until it
    /// commits. Partitions are paused for that, so that polls go on: a rebalance may be what the commit waits for.
    fn throttle(&mut self, consumer: &mut dyn Consumer) -> Result<(), RunError> {
        let full = self.kept() >= self.config.commit_bytes.saturating_mul(2);
        for active in self.tasks.all() {
            throttle(active, full, consumer)
                .map_err(|cause| RunError::Broker { doing: format!("pausing {}", active.inputs[0]), cause })?;
        }
        Ok(())
    }

    /// A task failed and the policy is to stop. What came before the record must commit first; where its state may hold half of
    /// the record, the task is recovered and replayed up to it.
    fn fail(&mut self, failure: Failure, consumer: &mut dyn Consumer) -> Result<(), RunError> {
        let Failure { id, record, torn, error } = failure;
        if !torn {
            return Err(error);
        }
        let Some(active) = self.drop_task(id) else { return Err(error) };
        let Some((source, offset)) = record else { return Err(error) };
        if active.next(source) > offset || self.shared.stopping() {
            return Err(error);
        }
        log::error!(
            "worker {}: {error}; what came before it is replayed and committed, then the run stops",
            self.number
        );
        consumer.pause(&active.inputs).map_err(|cause| self.broken("pausing a failed task", cause))?;
        self.halts.insert(id, Halt { source, offset, error });
        self.recover(vec![id])
    }

    fn is_running(&self) -> bool {
        self.joined && self.pending.is_empty() && self.halts.is_empty()
    }

    /// Bytes of effects that wait for their commit.
    fn kept(&self) -> usize {
        self.tasks.iter().map(|task| task.task.effects().bytes()).sum()
    }

    fn commit_if_due(&mut self, consumer: &mut dyn Consumer) -> Result<(), RunError> {
        let now = self.broker.host().elapsed();
        let kept = self.kept();
        if now.saturating_sub(self.last_commit) < self.config.commit_interval && kept < self.config.commit_bytes {
            if kept >= SEND_AHEAD_BYTES {
                self.committer.send_ahead(self.tasks.all());
            }
            return Ok(());
        }
        self.commit(consumer)?;
        self.pace.note(self.broker.host(), || What::Other("a commit"));
        let now = self.broker.host().elapsed();
        self.purge.begin_if_due(now, &self.layout, self.tasks.iter());
        Ok(())
    }

    /// Commits what the tasks have; answers why nothing was committed, if it was refused and is kept.
    fn commit(&mut self, consumer: &mut dyn Consumer) -> Result<Option<String>, RunError> {
        let outcome = self.committer.commit(self.tasks.all(), consumer);
        self.last_commit = self.broker.host().elapsed();
        let superseded = match outcome? {
            Outcome::Done | Outcome::Nothing => return Ok(None),
            Outcome::Again(why) => return Ok(Some(why)),
            Outcome::Superseded(ids) => ids,
        };
        for id in &superseded {
            log::warn!(
                "worker {}: somebody else committed for {}; it is recovered",
                self.number,
                self.layout.inputs(*id)[0]
            );
            if let Some(active) = self.drop_task(*id) {
                consumer.pause(&active.inputs).map_err(|cause| self.broken("pausing a superseded task", cause))?;
            }
        }
        self.recover(superseded)?;
        Ok(None)
    }

    /// The last commit, before the group is left. What cannot commit now is replayed by the next owner.
    fn finish(&mut self, consumer: &mut dyn Consumer) -> Result<(), RunError> {
        let host = Arc::clone(&self.broker);
        let start = host.host().elapsed();
        loop {
            let Some(why) = self.commit(consumer)? else { return Ok(()) };
            if host.host().elapsed().saturating_sub(start) > CLOSE_MAX {
                log::warn!("worker {}: ends without its last commit, which the next owner replays: {why}", self.number);
                return Ok(());
            }
            // A rebalance may be what refused it; records that come are not taken.
            match consumer.poll(POLL_MAX, &mut |_| Next::Stop) {
                Ok(Some(rebalance @ (Rebalance::Revoked(_) | Rebalance::Lost(_)))) => {
                    self.rebalance(&rebalance, consumer)?;
                }
                Ok(Some(rebalance)) => {
                    consumer.acknowledge(&rebalance).map_err(|cause| self.broken("acknowledging", cause))?;
                }
                Ok(None) => {}
                Err(error) if !matches!(error.kind, ErrorKind::Retriable | ErrorKind::NoGeneration) => {
                    log::warn!(
                        "worker {}: ends without its last commit, which the next owner replays: {error}",
                        self.number
                    );
                    return Ok(());
                }
                Err(error) => log::debug!("worker {}: polling before the last commit: {error}", self.number),
            }
        }
    }
}

fn throttle(active: &mut Active, full: bool, consumer: &mut dyn Consumer) -> Result<(), BrokerError> {
    for source in 0..active.inputs.len() {
        let (queued, paused) = (active.task.queued(source), active.paused[source]);
        let pause = full || queued > QUEUE_MAX || paused && queued >= QUEUE_MAX / 2;
        if pause == paused {
            continue;
        }
        let input = std::slice::from_ref(&active.inputs[source]);
        if pause {
            consumer.pause(input)?;
        } else {
            consumer.resume(input)?;
        }
        active.paused[source] = pause;
    }
    Ok(())
}

fn counts(active: &Active) -> Counters {
    let c = active.task.counters();
    Counters {
        records: c.processed,
        outputs: c.outputs,
        timers: c.timers_fired,
        skipped_decode: c.skipped.decode,
        skipped_step: c.skipped.step,
        skipped_produce: c.skipped.produce,
        dead_lettered_decode: c.dead_lettered.decode,
        dead_lettered_step: c.dead_lettered.step,
        dead_lettered_produce: c.dead_lettered.produce,
        dropped_null_key: c.dropped_null_key,
        ..Counters::default()
    }
}

fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(then.as_millis().saturating_sub(now.as_millis())).unwrap_or(0))
}
