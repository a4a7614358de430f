//! What a worker shows of its partitions: how far restores and catch-ups have come, and how far behind it is.
//!
//! A catch-up goes from where a task starts to the end that its partition had when it was first seen: it ends also where records
//! never stop coming. What came later is lag. Both are looked at once a second, in what the client knows by itself; no broker is
//! asked, and no record waits for it.
//!
//! Partitions that are done stay in the picture until all that the worker restores, or catches up on, are done with them. So the
//! sum only grows.

use std::collections::BTreeMap;
use std::time::Duration;

use flow_core::Offset;

use super::Worker;
use crate::broker::{Consumer, Standing, TopicPartition};
use crate::progress::{Meter, Partitions, Progress};
use crate::recovery::ReadTo;
use crate::topics::TaskId;

/// How often the client is asked where it is.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often something is published that has changed.
const PUBLISH_EVERY: Duration = Duration::from_millis(200);
/// How often the log tells of something that goes on.
const SAY_EVERY: Duration = Duration::from_secs(3);

/// See the module.
#[derive(Default)]
pub(super) struct Overview {
    restore: Activity,
    catch_up: Activity,
    /// Inputs that have not reached the end which they had at their start.
    starts: BTreeMap<TopicPartition, Start>,
    lags: BTreeMap<TopicPartition, Option<u64>>,
    changed: bool,
    looked: Duration,
    published: Duration,
}

/// Where an input began.
struct Start {
    task: TaskId,
    at: Duration,
    from: Offset,
    /// The end that was seen first.
    end: Option<Offset>,
}

impl Overview {
    /// Snapshots of a task were read so far.
    pub(super) fn restoring(&mut self, read: &ReadTo, now: Duration) {
        self.changed = true;
        self.restore.see(read.id, &read.partition, (read.need, read.have), now, now);
    }

    /// A task's records flow, from these offsets on. Its snapshots are all read, if there were any.
    pub(super) fn started(&mut self, task: TaskId, inputs: &[(TopicPartition, Offset)], now: Duration) {
        self.changed = true;
        self.restore.complete(task);
        self.starts.extend(inputs.iter().map(|(input, from)| {
            let start = Start { task, at: now, from: *from, end: None };
            (input.clone(), start)
        }));
    }

    /// A task is not worked on any more.
    pub(super) fn forget(&mut self, task: TaskId) {
        self.changed = true;
        self.starts.retain(|_, start| start.task != task);
        self.restore.tracks.retain(|_, track| track.task != task);
        self.catch_up.tracks.retain(|_, track| track.task != task);
    }

    /// The client is there in an input, and so many records of it wait in a queue of the task.
    fn reached(&mut self, task: TaskId, input: &TopicPartition, standing: Standing, queued: u64, now: Duration) {
        let lag = standing.lag() + queued;
        self.lags.insert(input.clone(), Some(lag));
        let Some(start) = self.starts.get_mut(input) else { return };
        let is_first_look = start.end.is_none();
        let end = *start.end.get_or_insert(standing.end);
        let distance = |to: i64, from: i64| u64::try_from(to - from).unwrap_or(0);
        let need = distance(end.0, start.from.0);
        let left = lag.saturating_sub(distance(standing.end.0, end.0)).min(need);
        let since = start.at;
        if left == 0 {
            self.starts.remove(input);
        }
        // What was done before anybody looked is not worth a word.
        if left > 0 || !is_first_look {
            self.catch_up.see(task, input, (need, need - left), since, now);
        }
    }

    /// What to tell, now.
    pub(super) fn lines(&mut self, now: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((open, all, progress)) = self.restore.due(now) {
            let held = match progress.estimate() {
                None => " (a transaction that is still open holds back what lies above it)",
                Some(_) => "",
            };
            lines.push(format!("restoring {open} of {all} snapshot partitions: {progress}{held}"));
        }
        if let Some((open, all, progress)) = self.catch_up.due(now) {
            lines.push(format!("catching up on {open} of {all} partitions: {progress}"));
        }
        if let Some(done) = self.restore.take_done(now) {
            lines.push(format!("restored snapshot partitions: {done}"));
        }
        if let Some(done) = self.catch_up.take_done(now) {
            lines.push(format!("caught up on partitions: {done}"));
        }
        self.changed |= !lines.is_empty();
        lines
    }

    /// What there is to show, if it has changed since the last time.
    fn changes(&mut self) -> Option<Partitions> {
        std::mem::take(&mut self.changed).then(|| Partitions {
            restoring: self.restore.progress(),
            catching_up: self.catch_up.progress(),
            lags: self.lags.clone(),
        })
    }
}

/// A restore, or a catch-up, of some partitions.
#[derive(Default)]
struct Activity {
    begun: Duration,
    said: Duration,
    tracks: BTreeMap<TopicPartition, Track>,
}

struct Track {
    task: TaskId,
    meter: Meter,
    progress: Progress,
}

impl Activity {
    /// A partition that began at `since` needs and has so much now.
    fn see(&mut self, task: TaskId, of: &TopicPartition, (need, have): (u64, u64), since: Duration, now: Duration) {
        if self.tracks.is_empty() {
            (self.begun, self.said) = (since, now);
        }
        let new = || Track { task, meter: Meter::new(since, 0), progress: Progress::default() };
        let track = self.tracks.entry(of.clone()).or_insert_with(new);
        let have = have.min(need);
        let rate_per_second = track.meter.look(now, have);
        track.progress = Progress { need, have, rate_per_second: if have < need { rate_per_second } else { 0.0 } };
    }

    /// Nothing of a task is left to do.
    fn complete(&mut self, task: TaskId) {
        for track in self.tracks.values_mut().filter(|track| track.task == task) {
            track.progress = Progress { have: track.progress.need, rate_per_second: 0.0, ..track.progress };
        }
    }

    fn progress(&self) -> BTreeMap<TopicPartition, Progress> {
        self.tracks.iter().map(|(of, track)| (of.clone(), track.progress)).collect()
    }

    fn sum(&self) -> Progress {
        self.tracks.values().map(|track| track.progress).sum()
    }

    /// How many partitions are not done, of how many, and how far all are: if it is time to say it.
    fn due(&mut self, now: Duration) -> Option<(usize, usize, Progress)> {
        let open = self.tracks.values().filter(|track| !track.progress.is_done()).count();
        if open == 0 || now.saturating_sub(self.said) < SAY_EVERY {
            return None;
        }
        self.said = now;
        Some((open, self.tracks.len(), self.sum()))
    }

    /// Ends once all is done; what that was.
    fn take_done(&mut self, now: Duration) -> Option<String> {
        if self.tracks.is_empty() || !self.sum().is_done() {
            return None;
        }
        let (count, need) = (self.tracks.len(), self.sum().need);
        let seconds = now.saturating_sub(self.begun).as_secs_f64();
        self.tracks.clear();
        Some(format!("{count}, {need} offsets in {seconds:.1} s ({:.0} a second)", need as f64 / seconds.max(0.001)))
    }
}

impl Worker {
    /// Looks where the client is in every partition.
    pub(super) fn look(&mut self, consumer: &mut dyn Consumer) {
        let now = self.broker.host().elapsed();
        self.overview.looked = now;
        self.overview.changed = true;
        self.overview.lags = self.owned.iter().map(|owned| (owned.clone(), None)).collect();
        for active in self.tasks.iter() {
            for (source, input) in active.inputs.iter().enumerate() {
                if let Some(standing) = consumer.standing(input) {
                    let queued = active.task.queued(source) as u64;
                    self.overview.reached(active.id, input, standing, queued, now);
                }
            }
        }
    }

    /// Publishes now and then, and tells the log what goes on.
    pub(super) fn publish_if_due(&mut self, consumer: &mut dyn Consumer) {
        let now = self.broker.host().elapsed();
        if now.saturating_sub(self.overview.looked) >= LOOK_EVERY {
            self.look(consumer);
        } else if now.saturating_sub(self.overview.published) < PUBLISH_EVERY {
            return;
        }
        self.publish(self.is_running());
    }

    pub(super) fn publish(&mut self, running: bool) {
        let now = self.broker.host().elapsed();
        for line in self.overview.lines(now) {
            log::info!("worker {}: {line}", self.number);
        }
        let mut counters = self.past;
        self.tasks.iter().for_each(|task| counters.add(&super::counts(task)));
        counters.tasks = self.tasks.iter().count() as u64;
        counters.commits = self.committer.commits;
        counters.aborts = self.committer.aborts;
        self.overview.published = now;
        self.shared.publish(self.number, running, counters, self.overview.changes());
    }
}

#[cfg(test)]
mod tests {
    use flow_core::Partition;

    use super::*;

    fn task(partition: i32) -> TaskId {
        TaskId { sub: 0, partition: Partition(partition) }
    }

    fn read(partition: i32, need: u64, have: u64) -> ReadTo {
        ReadTo { id: task(partition), epoch: 1, partition: TopicPartition::new("log", partition), need, have }
    }

    fn at(position: i64, end: i64) -> Standing {
        Standing { position: Offset(position), end: Offset(end) }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn progress(of: BTreeMap<TopicPartition, Progress>) -> Vec<(String, u64, u64)> {
        of.into_iter().map(|(of, progress)| (of.to_string(), progress.need, progress.have)).collect()
    }

    #[test]
    fn a_restore_is_told_every_three_seconds_and_once_more_with_its_totals() {
        let mut overview = Overview::default();
        overview.restoring(&read(0, 3_000, 0), seconds(10));
        overview.restoring(&read(1, 1_000, 0), seconds(10));
        assert_eq!(overview.lines(seconds(12)), [""; 0]);
        overview.restoring(&read(0, 3_000, 400), seconds(14));
        overview.restoring(&read(1, 1_000, 1_000), seconds(14));
        let line = "restoring 1 of 2 snapshot partitions: 1400 of 4000 (35 %), 2600 to go, 100 a second, about 26 s";
        assert_eq!(overview.lines(seconds(14)), [line]);
        assert_eq!(overview.lines(seconds(16)), [""; 0]);
        overview.started(task(1), &[], seconds(16));
        assert_eq!(overview.lines(seconds(16)), [""; 0], "the other one is not done");
        overview.started(task(0), &[], seconds(18));
        assert_eq!(
            overview.lines(seconds(18)),
            ["restored snapshot partitions: 2, 4000 offsets in 8.0 s (500 a second)"]
        );
        assert_eq!(overview.lines(seconds(30)), [""; 0]);
        assert_eq!(overview.changes().unwrap().restoring, BTreeMap::new());
    }

    #[test]
    fn snapshots_that_do_not_come_are_told_with_the_likely_reason() {
        let mut overview = Overview::default();
        overview.restoring(&read(0, 5, 0), seconds(0));
        overview.restoring(&read(0, 5, 0), seconds(3));
        let line = "restoring 1 of 1 snapshot partitions: 0 of 5 (0 %), 5 to go, nothing moves now (a transaction that is still \
                    open holds back what lies above it)";
        assert_eq!(overview.lines(seconds(3)), [line]);
    }

    #[test]
    fn a_task_that_is_taken_away_leaves_the_picture() {
        let mut overview = Overview::default();
        overview.restoring(&read(0, 10, 4), seconds(0));
        overview.restoring(&read(1, 10, 4), seconds(0));
        overview.started(task(2), &[(TopicPartition::new("in", 2), Offset(0))], seconds(0));
        overview.reached(task(2), &TopicPartition::new("in", 2), at(1, 9), 0, seconds(1));
        [0, 2].into_iter().for_each(|partition| overview.forget(task(partition)));
        let shown = overview.changes().unwrap();
        assert_eq!(progress(shown.restoring), [("log/1".to_owned(), 10, 4)]);
        assert_eq!(shown.catching_up, BTreeMap::new());
        assert!(overview.starts.is_empty());
        assert!(overview.changes().is_none(), "nothing has changed since");
    }

    #[test]
    fn a_catch_up_ends_at_the_end_that_was_there_at_its_start_and_the_rest_is_lag() {
        let (mut overview, input) = (Overview::default(), TopicPartition::new("in", 0));
        overview.started(task(0), &[(input.clone(), Offset(100))], seconds(0));
        let mut look = |standing, queued, now| {
            overview.reached(task(0), &input, standing, queued, seconds(now));
            let lines = overview.lines(seconds(now));
            let shown = overview.changes();
            overview.changed = true;
            let shown = shown.unwrap();
            (progress(shown.catching_up), shown.lags[&input], lines)
        };
        let step = |have| vec![("in/0".to_owned(), 1_000, have)];
        assert_eq!(look(at(300, 1_100), 50, 1), (step(150), Some(850), vec![]));
        // The end moves on; what is needed does not.
        assert_eq!(look(at(500, 9_000), 0, 2), (step(400), Some(8_500), vec![]));
        let line =
            "catching up on 1 of 1 partitions: 700 of 1000 (70 %), 300 to go, 175 a second, about 2 s".to_owned();
        assert_eq!(look(at(800, 9_000), 0, 4), (step(700), Some(8_200), vec![line]));
        let line = "caught up on partitions: 1, 1000 offsets in 5.0 s (200 a second)".to_owned();
        assert_eq!(look(at(1_100, 9_000), 0, 5), (vec![], Some(7_900), vec![line]));
        assert_eq!(look(at(1_200, 9_000), 0, 6), (vec![], Some(7_800), vec![]));
    }

    #[test]
    fn a_task_that_is_at_its_end_when_it_is_first_looked_at_has_nothing_to_catch_up_on() {
        let (mut overview, input) = (Overview::default(), TopicPartition::new("in", 0));
        for (from, end) in [(100, 100), (100, 140)] {
            overview.started(task(0), &[(input.clone(), Offset(from))], seconds(0));
            overview.reached(task(0), &input, at(end, end), 0, seconds(1));
            assert_eq!(overview.lines(seconds(9)), [""; 0]);
            let shown = overview.changes().unwrap();
            assert_eq!((shown.catching_up, shown.lags[&input]), (BTreeMap::new(), Some(0)));
        }
    }
}
