//! The pace of a worker: how long it stays away from its client.
//!
//! Folding and talking to the group happen on one thread. So a batch of records ends after a while, however many are there, and
//! commits and rebalances get their turn. What cannot be cut is one record, one timer or one commit: where such takes longer than
//! the group allows (`max.poll.interval.ms`), the group takes the worker for dead. That is noticed afterwards, and said with what took
//! the time. A single record that was too slow twice, in vain, ends the run before it is done once more: processes could go on for
//! ever to take it from each other and never get it done, and all look healthy. There is no second thread that would poll
//! meanwhile: it would keep the partitions of a worker that hangs.

use std::fmt;
use std::time::Duration;

use flow_core::Offset;

use crate::broker::{Host, TopicPartition};
use crate::error::RunError;
use crate::tasks::Active;

/// How long one batch of records may take.
const BATCH_MAX: Duration = Duration::from_millis(100);
/// Records between two looks at the clock, at most; the slower the records, the fewer.
const STRIDE_MAX: usize = 16;
/// Records are quick if a stride of them takes less than this.
const QUICK: Duration = Duration::from_millis(1);
/// What takes less than this is not worth a word.
const NOTABLE: Duration = Duration::from_millis(500);

pub(super) struct Pace {
    /// How long the group waits for a poll.
    limit: Duration,
    batch_max: Duration,
    /// When the last poll began.
    begun: Duration,
    /// When the first record of its batch came.
    batch: Option<Duration>,
    /// The last look at the clock.
    looked: Duration,
    stride: usize,
    /// Records until the next look.
    left: usize,
    over: bool,
    slowest: Option<Slow>,
    /// Looks at the clock after each record: it was too late once, and wants to know the record.
    careful: bool,
    /// The record that was too slow.
    suspect: Option<Suspect>,
}

/// A record that took longer than the group waits.
struct Suspect {
    at: TopicPartition,
    offset: Offset,
    step: String,
    took: Duration,
    times: u32,
}

/// What took longest since the last poll.
struct Slow {
    took: Duration,
    what: What,
}

/// What a worker does between two polls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// So many records, up to this one.
    Records { count: usize, last: TopicPartition, offset: Offset, step: String },
    /// A task's wall-clock timers, or a commit.
    Other(&'static str),
}

impl What {
    /// The records that a task has just processed.
    pub(super) fn records(count: usize, active: &Active, source: usize, offset: Offset) -> What {
        What::Records {
            count,
            last: active.inputs[source].clone(),
            offset,
            step: active.task.current_step().to_owned(),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Records { count: 1, last, offset, step } => {
                write!(f, "{last} offset {offset}, which ended in step `{step}`")
            }
            What::Records { count, last, offset, step } => {
                write!(f, "{count} records up to {last} offset {offset}, which ended in step `{step}`")
            }
            What::Other(what) => f.write_str(what),
        }
    }
}

impl Pace {
    pub(super) fn new(limit: Duration, commit_interval: Duration) -> Self {
        Pace {
            limit,
            batch_max: BATCH_MAX.min(commit_interval),
            begun: Duration::ZERO,
            batch: None,
            looked: Duration::ZERO,
            stride: 1,
            left: 1,
            over: false,
            slowest: None,
            careful: false,
            suspect: None,
        }
    }

    /// A poll begins. If it comes too late for the group, what to say about it.
    pub(super) fn begin(&mut self, host: &dyn Host) -> Option<String> {
        let now = host.elapsed();
        let away = now.saturating_sub(self.begun);
        let late = !self.begun.is_zero() && away > self.limit;
        let slowest = self.slowest.take();
        (self.begun, self.batch, self.looked, self.left, self.over) = (now, None, now, self.stride, false);
        late.then(|| self.overrun(away, slowest))
    }

    fn overrun(&mut self, away: Duration, slowest: Option<Slow>) -> String {
        (self.careful, self.stride, self.left) = (true, 1, 1);
        let longest = slowest.as_ref().map_or_else(
            || "no single record or commit stands out".to_owned(),
            |slow| format!("the longest part were {} ms for {}", slow.took.as_millis(), slow.what),
        );
        if let Some(Slow { took, what: What::Records { count: 1, last, offset, step } }) = slowest
            && took > self.limit
        {
            let before = self.suspect.take().filter(|suspect| suspect.at == last && suspect.offset == offset);
            let times = before.map_or(0, |suspect| suspect.times) + 1;
            self.suspect = Some(Suspect { at: last, offset, step, took, times });
        }
        format!(
            "{} ms passed between two polls, and the group takes a worker for dead after max_poll_interval = {} ms: its partitions \
             are given away ({longest}). Its work is sent again if they come back before somebody else commits for them. Make that \
             step faster, or raise KafkaConfig::max_poll_interval",
            away.as_millis(),
            self.limit.as_millis()
        )
    }

    /// A partition is about to be processed from an offset that somebody committed.
    ///
    /// # Errors
    /// When a record from there on was done twice already, both times too late for the group.
    pub(super) fn check(&self, of: &TopicPartition, from: Offset) -> Result<(), RunError> {
        match &self.suspect {
            Some(suspect) if suspect.times > 1 && suspect.at == *of && suspect.offset >= from => {
                Err(RunError::TooSlow {
                    at: suspect.at.clone(),
                    offset: suspect.offset.0,
                    step: suspect.step.clone(),
                    took_ms: suspect.took.as_millis() as u64,
                    limit_ms: self.limit.as_millis() as u64,
                })
            }
            _ => Ok(()),
        }
    }

    /// A record is about to be processed; false once the batch has taken its time, and the rest is for the next one. The first
    /// record of a batch is never refused: time spent waiting for it, or on timers before it, is not the batch's.
    pub(super) fn takes(&mut self, host: &dyn Host) -> bool {
        if self.batch.is_none() {
            self.looked = host.elapsed();
            self.batch = Some(self.looked);
            self.over = false;
        }
        !self.over
    }

    /// How many records may be processed before the next look at the clock.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// A record was processed.
    pub(super) fn record(&mut self, host: &dyn Host, active: &Active, source: usize, offset: Offset) {
        self.left -= 1;
        if self.left == 0 {
            let records = self.stride;
            self.look(host, || What::records(records, active, source, offset));
        }
    }

    /// A stride of records was processed; looks at the clock.
    pub(super) fn look(&mut self, host: &dyn Host, what: impl FnOnce() -> What) {
        let took = self.note(host, what);
        self.over = self.batch.is_some_and(|begun| self.looked.saturating_sub(begun) >= self.batch_max);
        let quick = took < QUICK && !self.careful;
        self.stride = if quick { STRIDE_MAX.min(self.stride + 1) } else { (self.stride / 4).max(1) };
        self.left = self.stride;
    }

    /// Something else was done; how long it took.
    pub(super) fn note(&mut self, host: &dyn Host, what: impl FnOnce() -> What) -> Duration {
        let now = host.elapsed();
        let took = now.saturating_sub(self.looked);
        self.looked = now;
        if took >= NOTABLE && self.slowest.as_ref().is_none_or(|slow| slow.took < took) {
            self.slowest = Some(Slow { took, what: what() });
        }
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn pace() -> (Fake, Pace) {
        let host = Fake::default();
        host.sleep(Duration::from_secs(1));
        let mut pace = Pace::new(Duration::from_secs(6), Duration::from_millis(100));
        assert_eq!(begin(&mut pace, &host), None);
        (host, pace)
    }

    fn begin(pace: &mut Pace, host: &Fake) -> Option<String> {
        pace.begin(host)
    }

    /// A stride that takes so long and ends with this offset.
    fn spend(pace: &mut Pace, host: &Fake, millis: u64, offset: i64) {
        pace.takes(host);
        host.sleep(Duration::from_millis(millis));
        let (count, last, step) = (pace.stride(), TopicPartition::new("in", 0), "slow".to_owned());
        pace.look(host, || What::Records { count, last, offset: Offset(offset), step });
    }

    #[test]
    fn a_batch_ends_after_a_while_and_the_next_one_begins_anew() {
        let (host, mut pace) = pace();
        // Waiting for the first record is nobody's time.
        host.sleep(Duration::from_millis(500));
        spend(&mut pace, &host, 60, 1);
        assert!(pace.takes(&host));
        spend(&mut pace, &host, 60, 2);
        assert!(!pace.takes(&host));
        begin(&mut pace, &host);
        host.sleep(Duration::from_millis(500));
        pace.note(&host, || What::Other("timers"));
        assert!(pace.takes(&host));
    }

    #[test]
    fn the_clock_is_looked_at_seldom_where_records_are_quick_and_often_where_they_are_slow() {
        let (host, mut pace) = pace();
        (0..20).for_each(|offset| spend(&mut pace, &host, 0, offset));
        assert_eq!(pace.stride(), STRIDE_MAX);
        (0..2).for_each(|offset| spend(&mut pace, &host, 50, offset));
        assert_eq!(pace.stride(), 1);
    }

    #[test]
    fn a_poll_that_comes_too_late_says_by_how_much_what_for_and_what_to_do() {
        let (host, mut pace) = pace();
        spend(&mut pace, &host, 900, 3);
        spend(&mut pace, &host, 10_000, 4);
        assert_eq!(
            begin(&mut pace, &host).unwrap(),
            "10900 ms passed between two polls, and the group takes a worker for dead after max_poll_interval = 6000 ms: its \
             partitions are given away (the longest part were 10000 ms for in/0 offset 4, which ended in step `slow`). Its work is \
             sent again if they come back before somebody else commits for them. Make that step faster, or raise \
             KafkaConfig::max_poll_interval"
        );
        host.sleep(Duration::from_secs(5));
        assert_eq!(begin(&mut pace, &host), None);
        host.sleep(Duration::from_secs(7));
        pace.note(&host, || What::Other("a commit"));
        assert!(begin(&mut pace, &host).unwrap().contains("7000 ms for a commit"));
    }

    #[test]
    fn a_record_that_was_too_slow_twice_is_not_done_a_third_time() {
        let (host, mut pace) = pace();
        let input = TopicPartition::new("in", 0);
        (0..9).for_each(|offset| spend(&mut pace, &host, 0, offset));
        // Some of many: which one is not known yet, so each is looked at from now on.
        spend(&mut pace, &host, 10_000, 20);
        assert!(begin(&mut pace, &host).unwrap().contains("10 records up to in/0 offset 20"));
        for offset in [12, 13, 13] {
            assert!(pace.check(&input, Offset(11)).is_ok());
            spend(&mut pace, &host, 0, 11);
            spend(&mut pace, &host, 10_000, offset);
            assert!(begin(&mut pace, &host).unwrap().contains(&format!("for in/0 offset {offset},")));
        }
        let error = pace.check(&input, Offset(11)).unwrap_err();
        assert!(matches!(error, RunError::TooSlow { offset: 13, took_ms: 10_000, limit_ms: 6_000, .. }), "{error:?}");
        // Somebody got it done.
        assert!(pace.check(&input, Offset(14)).is_ok());
        assert!(pace.check(&TopicPartition::new("in", 1), Offset(11)).is_ok());
    }
}
