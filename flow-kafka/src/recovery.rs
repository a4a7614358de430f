//! Recovery: brings tasks to the state that was committed, off the poll thread, many partitions at once.
//!
//! The order is the argument. First the committed offset, by a stable fetch that waits while a transaction on it is open: from
//! then on no older owner can commit, since its generation is stale. Only then the high watermark of the snapshot partition,
//! read uncommitted: every snapshot of that commit lies below it. Then the snapshots, read committed, until the *position*
//! reaches the watermark: the log may end in markers, in aborted records or in a gap left by compaction, so neither a record
//! nor an end-of-partition event says that it is over.

mod patience;
mod reading;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use flow_core::{Offset, Task};

use self::patience::{Patience, Stall};
pub(crate) use self::reading::ReadTo;
use self::reading::{Reading, have, state_is_gone};
use crate::broker::{Broker, BrokerError, Committed, ErrorKind, Host, Reader, TopicPartition, Watermarks};
use crate::error::RunError;
use crate::offsets::Note;
use crate::takeover::Takeover;
use crate::topics::{Layout, TaskId};
use crate::warm::Warm;

/// A task to recover.
pub(crate) struct Job {
    pub(crate) id: TaskId,
    /// Tells this attempt from an earlier one of the same task.
    pub(crate) epoch: u64,
    /// The task, still empty.
    pub(crate) task: Task,
    /// Set when the task is not wanted any more.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// The same task as it was when it was put aside.
    pub(crate) warm: Option<Warm>,
}

/// A recovered task, and where it goes on.
pub(crate) struct Restored {
    pub(crate) id: TaskId,
    pub(crate) epoch: u64,
    pub(crate) task: Task,
    /// The next offset of each source.
    pub(crate) offsets: Vec<Offset>,
    /// The number of the last commit.
    pub(crate) commit: u64,
    /// The transactional id of the last commit.
    pub(crate) committed_by: String,
    /// Stores that have ever written a snapshot.
    pub(crate) written: BTreeSet<String>,
    /// The records read.
    pub(crate) records: u64,
}

/// What a recovery thread reports.
pub(crate) enum Report {
    /// It goes on.
    Reading(Vec<ReadTo>),
    /// A task is ready.
    Restored(Box<Restored>),
    /// Nobody has committed for the task since it was put aside: it goes on as it is.
    Warm {
        /// The task.
        id: TaskId,
        /// The attempt.
        epoch: u64,
    },
    /// Somebody else committed for the task since its offsets were read: we are not, or were not, its owner. Begin again, unless
    /// it is taken away.
    Outdated {
        /// The task.
        id: TaskId,
        /// The attempt.
        epoch: u64,
    },
    /// Some of these tasks (with their epochs) cannot be recovered.
    Failed(Vec<(TaskId, u64)>, RunError),
}

const SLICE: Duration = Duration::from_secs(1);
const SINGLE: Duration = Duration::from_millis(200);
const POLL: Duration = Duration::from_millis(50);
/// Snapshots that bring nothing for so long are held back by an open transaction.
const STALLED: Duration = Duration::from_millis(250);
/// How often the worker is told how far it is.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// Recovers the jobs and reports each as soon as it is ready.
pub(crate) fn run(broker: &dyn Broker, layout: &Layout, jobs: Vec<Job>, deadline: Duration, reports: &Sender<Report>) {
    let wanted = jobs.iter().map(|job| Arc::clone(&job.cancelled)).collect();
    let ids = jobs.iter().map(|job| (job.id, job.epoch)).collect();
    let patience = Patience::new(broker.host(), deadline);
    let recovery = Recovery { broker, host: broker.host(), layout, deadline, patience, reports, wanted };
    let outcome =
        broker.reader().map_err(|cause| RunError::Broker { doing: "opening a recovery client".into(), cause });
    if let Err(error) = outcome.and_then(|mut reader| recovery.run(&mut *reader, jobs)) {
        // The worker may have ended meanwhile; then nobody waits for the report.
        let _ = reports.send(Report::Failed(ids, error));
    }
}

struct Recovery<'a> {
    broker: &'a dyn Broker,
    host: &'a dyn Host,
    layout: &'a Layout,
    deadline: Duration,
    patience: Patience<'a>,
    reports: &'a Sender<Report>,
    /// Each job's sign that it is not wanted any more.
    wanted: Vec<Arc<AtomicBool>>,
}

/// A job whose offsets are known.
struct Located {
    job: Job,
    /// The offsets as they were read.
    committed: Vec<Option<Committed>>,
    offsets: Vec<Offset>,
    note: Option<Note>,
    /// Snapshot partitions that are not read to the end yet.
    open: usize,
    records: u64,
}

impl Recovery<'_> {
    /// True once nobody wants any of the tasks.
    fn is_abandoned(&self) -> bool {
        self.wanted.iter().all(|cancelled| cancelled.load(Ordering::Acquire))
    }

    fn run(&self, reader: &mut dyn Reader, mut jobs: Vec<Job>) -> Result<(), RunError> {
        let mut since = self.patience.now();
        let mut said = false;
        let mut takeover = Takeover::new(self.broker, &self.layout.app);
        while !jobs.is_empty() {
            jobs.retain(|job| !job.cancelled.load(Ordering::Acquire));
            let (located, waiting) = self.locate(reader, jobs)?;
            jobs = waiting;
            if !located.is_empty() {
                self.restore(reader, &mut takeover, located)?;
                since = self.patience.now();
            } else if let Some(job) = jobs.first() {
                let inputs = self.layout.inputs(job.id);
                if !said {
                    log::info!("recovery of {} waits for an open transaction on its offset to end", inputs[0]);
                    said = true;
                }
                let waiting: Vec<_> = jobs.iter().map(|job| self.layout.inputs(job.id)).collect();
                takeover.free_offsets(reader, &waiting);
                if self.patience.ends(since) {
                    return Err(self.stalled(&inputs[0], "a transaction that commits its offset is still open: its producer hangs, or the broker does not abort it (transaction.timeout.ms)"));
                }
                self.host.sleep(POLL);
            }
        }
        Ok(())
    }

    fn stalled(&self, task: &TopicPartition, diagnosis: &str) -> RunError {
        let message = format!("no progress for {} ms: {diagnosis}", self.deadline.as_millis());
        RunError::Recovery { task: task.clone(), message }
    }

    /// Splits the jobs in those whose committed offsets are stable, and those that must wait.
    fn locate(&self, reader: &mut dyn Reader, jobs: Vec<Job>) -> Result<(Vec<Located>, Vec<Job>), RunError> {
        let inputs: Vec<Vec<TopicPartition>> = jobs.iter().map(|job| self.layout.inputs(job.id)).collect();
        let all: Vec<TopicPartition> = inputs.iter().flatten().cloned().collect();
        if all.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let mut located = Vec::new();
        let mut waiting = Vec::new();
        match self.committed(reader, &all, if jobs.len() == 1 { SLICE } else { SINGLE })? {
            Some(committed) => {
                let mut committed = committed.into_iter();
                for (job, inputs) in jobs.into_iter().zip(&inputs) {
                    let mine: Vec<Option<Committed>> = committed.by_ref().take(inputs.len()).collect();
                    located.extend(self.place(reader, job, inputs, mine)?);
                }
            }
            // One pending partition holds up the answer for all: ask for each task alone.
            None if jobs.len() > 1 => {
                for (job, inputs) in jobs.into_iter().zip(&inputs) {
                    match self.committed(reader, inputs, SINGLE)? {
                        Some(committed) => located.extend(self.place(reader, job, inputs, committed)?),
                        None => waiting.push(job),
                    }
                }
            }
            None => waiting = jobs,
        }
        Ok((located, waiting))
    }

    /// The stable offsets, or `None` while one of them is pending.
    fn committed(
        &self,
        reader: &mut dyn Reader,
        of: &[TopicPartition],
        wait: Duration,
    ) -> Result<Option<Vec<Option<Committed>>>, RunError> {
        let outcome = self.retry(|| match reader.committed(&self.layout.app, of, wait) {
            Ok(committed) => Ok(Some(committed)),
            Err(error) if error.kind == ErrorKind::Unstable => Ok(None),
            Err(error) => Err(error),
        });
        outcome.map_err(|cause| RunError::Broker { doing: format!("reading the committed offset of {}", of[0]), cause })
    }

    /// Repeats a request that got no answer, as long as anybody wants it.
    fn retry<T>(&self, request: impl FnMut() -> Result<T, BrokerError>) -> Result<T, BrokerError> {
        self.patience.ask(&|| self.is_abandoned(), request)
    }

    /// Decides where the task goes on, and gives it its clocks. `None`: it goes on warm, or its offsets are outdated.
    fn place(
        &self,
        reader: &mut dyn Reader,
        mut job: Job,
        inputs: &[TopicPartition],
        committed: Vec<Option<Committed>>,
    ) -> Result<Option<Located>, RunError> {
        if job.warm.take().is_some_and(|warm| warm.goes_on(&committed)) {
            // The worker may have ended meanwhile; then nobody waits for the report.
            let _ = self.reports.send(Report::Warm { id: job.id, epoch: job.epoch });
            return Ok(None);
        }
        let marks = self.watermarks(reader, inputs)?;
        let mut note: Option<Note> = None;
        let mut offsets = Vec::with_capacity(inputs.len());
        for ((input, read), marks) in inputs.iter().zip(&committed).zip(&marks) {
            let failed = |message: String| RunError::Recovery { task: input.clone(), message };
            let Some(read) = read else {
                offsets.push(marks.low);
                continue;
            };
            let theirs = Note::decode(&read.metadata).map_err(failed)?;
            for (store, clock) in &theirs.clocks {
                job.task.restore_clock(store, *clock);
            }
            if note.as_ref().is_none_or(|n| n.commit < theirs.commit) {
                note = Some(theirs);
            }
            let at = read.offset;
            if at < marks.low || at > marks.high {
                if self.is_outdated(reader, &job, inputs, &committed)? {
                    return Ok(None);
                }
                return Err(failed(format!(
                    "its committed offset {at} is outside the log ({}..{}): records were deleted before they were read, or the topic was \
                     recreated. Reset the group's offset by hand if they may be skipped",
                    marks.low, marks.high
                )));
            }
            offsets.push(at);
        }
        Ok(Some(Located { job, committed, offsets, note, open: 0, records: 0 }))
    }

    /// Something is wrong with a task. Before anybody is told to repair it: do its offsets still stand? A process that was
    /// stopped after it read them, for long enough to lose the task, goes on here and sees what its successor did.
    fn is_outdated(
        &self,
        reader: &mut dyn Reader,
        job: &Job,
        inputs: &[TopicPartition],
        committed: &[Option<Committed>],
    ) -> Result<bool, RunError> {
        if self.committed(reader, inputs, SLICE)?.is_some_and(|now| now == committed) {
            return Ok(false);
        }
        log::info!("recovery of {}: somebody else committed meanwhile", inputs[0]);
        // The worker may have ended meanwhile; then nobody waits for the report.
        let _ = self.reports.send(Report::Outdated { id: job.id, epoch: job.epoch });
        Ok(true)
    }

    fn watermarks(&self, reader: &mut dyn Reader, of: &[TopicPartition]) -> Result<Vec<Watermarks>, RunError> {
        self.retry(|| reader.watermarks(of, SLICE * 5))
            .map_err(|cause| RunError::Broker { doing: format!("reading the watermarks of {}", of[0]), cause })
    }

    /// Reads the snapshot partitions of all located jobs together.
    fn restore(
        &self,
        reader: &mut dyn Reader,
        takeover: &mut Takeover<'_>,
        mut located: Vec<Located>,
    ) -> Result<(), RunError> {
        let mut readings = Vec::new();
        for (at, item) in located.iter_mut().enumerate() {
            let id = item.job.id;
            self.refuse_other_stores(reader, item)?;
            let changelogs = &self.layout.subs[id.sub].changelogs;
            let partitions: Vec<TopicPartition> =
                changelogs.iter().map(|t| TopicPartition::new(t.as_str(), id.partition.0)).collect();
            if partitions.is_empty() {
                continue;
            }
            let marks = self.watermarks(reader, &partitions)?;
            for (store, (partition, marks)) in partitions.into_iter().zip(marks).enumerate() {
                let name = &self.layout.subs[id.sub].topology.stores()[store].name;
                if marks.low == marks.high && item.note.as_ref().is_some_and(|note| note.written.contains(name)) {
                    let task = self.layout.inputs(id)[0].clone();
                    return Err(RunError::Recovery { task, message: state_is_gone(&partition) });
                }
                // A start at the high watermark is done at once: no position is ever reported there.
                if marks.low < marks.high {
                    item.open += 1;
                    readings.push(Reading {
                        at,
                        store,
                        partition,
                        from: marks.low,
                        high: marks.high,
                        position: marks.low,
                    });
                }
            }
        }
        // Report in order, and do not read for those that have nothing to read.
        let mut slots: Vec<Option<Located>> = located.into_iter().map(Some).collect();
        for slot in &mut slots {
            if slot.as_ref().is_some_and(|item| item.open == 0) {
                self.ready(reader, slot.take())?;
            }
        }
        if readings.is_empty() { Ok(()) } else { self.read(reader, takeover, readings, slots) }
    }

    /// A task's note names the stores that it has written. One that this topology does not have there, while its log is, belongs
    /// to another topology, or was renamed: going on would count from nothing. One whose log is gone was let go of on purpose.
    fn refuse_other_stores(&self, reader: &mut dyn Reader, item: &mut Located) -> Result<(), RunError> {
        let Located { job, note: Some(note), .. } = item else { return Ok(()) };
        let stores = self.layout.subs[job.id.sub].topology.stores();
        let other = |name: &&String| !stores.iter().any(|store| store.name == **name);
        for name in note.written.iter().filter(other).cloned().collect::<Vec<_>>() {
            let changelog = self.layout.changelog(&name);
            let partition = TopicPartition::new(changelog.as_str(), job.id.partition.0);
            let marks = self.retry(|| match reader.watermarks(std::slice::from_ref(&partition), SLICE * 5) {
                Ok(marks) => Ok(marks.first().is_some_and(|marks| marks.low < marks.high)),
                Err(error) if error.kind == ErrorKind::UnknownTopic => Ok(false),
                Err(error) => Err(error),
            });
            let doing = || format!("reading the watermarks of {partition}");
            if marks.map_err(|cause| RunError::Broker { doing: doing(), cause })? {
                let task = self.layout.inputs(job.id).swap_remove(0);
                return Err(RunError::Recovery { task, message: other_store(&name, &changelog, &self.layout.app) });
            }
            note.written.remove(&name);
        }
        Ok(())
    }

    fn read(
        &self,
        reader: &mut dyn Reader,
        takeover: &mut Takeover<'_>,
        mut readings: Vec<Reading>,
        mut slots: Vec<Option<Located>>,
    ) -> Result<(), RunError> {
        let from: Vec<(TopicPartition, Offset)> = readings.iter().map(|r| (r.partition.clone(), r.from)).collect();
        self.retry(|| reader.assign(&from))
            .map_err(|cause| RunError::Broker { doing: format!("reading the snapshots of {}", from[0].0), cause })?;
        self.tell(&readings, &slots);
        let start = self.host.elapsed();
        let (mut progressed, mut told) = (start, start);
        let mut stall = Stall::new(self.deadline, start);
        while !readings.is_empty() {
            let before = have(&readings);
            self.poll(reader, &mut readings, &mut slots)?;
            readings.iter_mut().try_for_each(|reading| self.advance(reader, reading))?;
            let now = self.host.elapsed();
            if have(&readings) > before {
                progressed = now;
                stall.is_over(now);
            }
            if now.saturating_sub(told) >= TELL_EVERY || readings.iter().any(Reading::is_done) {
                told = now;
                self.tell(&readings, &slots);
            }
            let mut index = 0;
            while index < readings.len() {
                let reading = &readings[index];
                let wanted = slots[reading.at].as_ref().is_some_and(|item| !item.job.cancelled.load(Ordering::Acquire));
                if wanted && !reading.is_done() {
                    index += 1;
                    continue;
                }
                let reading = readings.swap_remove(index);
                progressed = now;
                stall.is_over(now);
                if let Some(item) = &mut slots[reading.at] {
                    item.open -= 1;
                    if item.open == 0 {
                        self.ready(reader, slots[reading.at].take())?;
                    }
                }
            }
            if let Some(first) = readings.first()
                && stall.is_due(now)
            {
                let answered = self.is_answered(reader, &first.partition);
                stall.asked(self.host.elapsed(), answered);
            }
            if now.saturating_sub(progressed) > STALLED {
                let held = readings.iter().filter_map(|reading| slots[reading.at].as_ref());
                let owners = held.filter_map(|s| Some((s.note.as_ref()?, self.layout.inputs(s.job.id).swap_remove(0))));
                takeover.free_snapshots(reader, owners);
            }
            if let Some(first) = readings.first()
                && stall.ends()
            {
                let task = self.layout.inputs(
                    slots[first.at]
                        .as_ref()
                        .map_or(TaskId { sub: 0, partition: first.partition.partition }, |s| s.job.id),
                );
                return Err(self.stalled(&task[0], &first.diagnosis()));
            }
        }
        Ok(())
    }

    /// True if a broker answers. Else nothing can be said of a log that brings nothing.
    fn is_answered(&self, reader: &mut dyn Reader, partition: &TopicPartition) -> bool {
        let answer = reader.watermarks(std::slice::from_ref(partition), SLICE * 5);
        !answer.is_err_and(|error| error.kind == ErrorKind::Retriable)
    }

    /// Tells the worker how far the snapshots are read.
    fn tell(&self, readings: &[Reading], slots: &[Option<Located>]) {
        let read = readings.iter().filter_map(|reading| Some(reading.read_to(&slots[reading.at].as_ref()?.job)));
        // The worker may have ended meanwhile; then nobody waits for the report.
        let _ = self.reports.send(Report::Reading(read.collect()));
    }

    fn poll(
        &self,
        reader: &mut dyn Reader,
        readings: &mut [Reading],
        slots: &mut [Option<Located>],
    ) -> Result<(), RunError> {
        let mut failed = None;
        let mut current = 0;
        let outcome = reader.poll(POLL, &mut |polled| {
            let is = |r: &Reading| r.partition.partition == polled.partition && r.partition.topic == polled.topic;
            if !readings.get(current).is_some_and(is) {
                match readings.iter().position(is) {
                    Some(found) => current = found,
                    None => return, // finished or cancelled
                }
            }
            let reading = &mut readings[current];
            let offset = polled.record.offset;
            if offset >= reading.high {
                reading.position = reading.high;
                return;
            }
            reading.position = Offset(offset.0 + 1);
            let (Some(item), Some(key)) = (&mut slots[reading.at], polled.record.key) else { return };
            item.records += 1;
            if let Err(error) = item.job.task.restore(reading.store, key, polled.record.value) {
                let message = format!("{} offset {offset}: {error}", reading.partition);
                failed.get_or_insert((item.job.id, message));
            }
        });
        if let Some((id, message)) = failed {
            return Err(RunError::Recovery { task: self.layout.inputs(id)[0].clone(), message });
        }
        match outcome {
            Ok(()) => Ok(()),
            Err(error) if error.kind == ErrorKind::Retriable => {
                log::debug!("recovery polls again: {error}");
                Ok(())
            }
            Err(cause) => {
                Err(RunError::Broker { doing: format!("reading the snapshots of {}", readings[0].partition), cause })
            }
        }
    }

    /// Takes over the client's position, which also passes markers and gaps.
    fn advance(&self, reader: &mut dyn Reader, reading: &mut Reading) -> Result<(), RunError> {
        let position = reader.position(&reading.partition).map_err(|cause| RunError::Broker {
            doing: format!("reading the position in {}", reading.partition),
            cause,
        })?;
        reading.position = position.map_or(reading.position, |position| position.max(reading.position));
        Ok(())
    }

    fn ready(&self, reader: &mut dyn Reader, item: Option<Located>) -> Result<(), RunError> {
        let Some(Located { job, committed, offsets, note, records, .. }) = item else { return Ok(()) };
        if job.cancelled.load(Ordering::Acquire) {
            return Ok(());
        }
        let inputs = self.layout.inputs(job.id);
        let first = inputs[0].clone();
        if records > 0 && note.is_none() {
            if self.is_outdated(reader, &job, &inputs, &committed)? {
                return Ok(());
            }
            return Err(RunError::Recovery {
                task: first,
                message: format!(
                    "there are {records} snapshot records but no committed offset: the group's offsets expired or were deleted, and \
                     starting again would count records twice. Restore the offsets, or reset the application (delete its internal \
                     topics) to start from the beginning. Or another topology with a store of the same name runs under this \
                     application id: give one of them another id"
                ),
            });
        }
        log::debug!("{first}: {records} snapshot records restored, goes on at {offsets:?}");
        let Note { commit, written, transactional_id: committed_by, .. } = note.unwrap_or_default();
        let (id, epoch, task) = (job.id, job.epoch, job.task);
        let restored = Restored { id, epoch, task, offsets, commit, committed_by, written, records };
        // The worker may have ended meanwhile; then nobody waits for the report.
        let _ = self.reports.send(Report::Restored(Box::new(restored)));
        Ok(())
    }
}

fn other_store(name: &str, changelog: &str, app: &str) -> String {
    format!(
        "it has committed state to the store `{name}`, which this topology does not have there: the store was renamed or moved, or \
         another topology runs under the application id `{app}`. Give the store its name back, give this topology another id, \
         or, if that state may go, delete the topic `{changelog}`"
    )
}

#[cfg(test)]
#[cfg(feature = "embedded")]
mod tests;
