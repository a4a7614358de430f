//! Commits that fail in a row: what is said about them, and when it is enough.
//!
//! A commit is tried again for as long as the broker is away, or says that we are not the owner. A broker that answers, and says
//! something else again and again, ends the run.

use std::time::Duration;

use crate::broker::ErrorKind;

/// After an aborted batch librdkafka may fail the next transaction once more, so one more than three.
pub(super) const REFUSALS_MAX: u32 = 4;
/// How long a broker that answers may fail commits in a row.
const FAILING_MAX: Duration = Duration::from_secs(600);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Failing {
    attempts: u32,
    /// When the first of them failed.
    since: Duration,
    /// How many of them failed because the broker refused a record.
    refusals: u32,
    /// When the first of them failed that had an answer.
    answered: Option<Duration>,
}

/// What follows from a commit that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the first in a row: worth a line in the log.
    First,
    /// It is one of many.
    Again,
    /// Trying on will not help, after so many attempts.
    Enough(u32),
}

impl Failing {
    /// A commit failed.
    pub(super) fn failed(&mut self, now: Duration, kind: ErrorKind) -> Verdict {
        if self.attempts == 0 {
            self.since = now;
        }
        self.attempts += 1;
        let excused = matches!(
            kind,
            ErrorKind::StaleGeneration
                | ErrorKind::NoGeneration
                | ErrorKind::Retriable
                | ErrorKind::Unanswered
                | ErrorKind::Fenced
                | ErrorKind::Fatal
        );
        if !excused {
            self.refusals += u32::from(kind == ErrorKind::RecordRefused);
            let since = *self.answered.get_or_insert(now);
            if self.refusals >= REFUSALS_MAX || now.saturating_sub(since) > FAILING_MAX {
                return Verdict::Enough(self.attempts);
            }
        }
        if self.attempts == 1 { Verdict::First } else { Verdict::Again }
    }

    /// A commit passed, or there is nothing left to commit. Answers what to say if one had failed.
    pub(super) fn over(&mut self, now: Duration) -> Option<String> {
        let Failing { attempts, since, .. } = std::mem::take(self);
        let time = now.saturating_sub(since).as_secs_f64();
        (attempts > 0).then(|| format!("commits again, {time:.1} s after the first of {attempts} attempts that failed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_outage_of_an_hour_is_one_failure_and_one_end() {
        let mut failing = Failing::default();
        assert_eq!(failing.failed(s(10), ErrorKind::Unanswered), Verdict::First);
        for minute in 1..60 {
            for kind in [ErrorKind::Unanswered, ErrorKind::Retriable, ErrorKind::NoGeneration] {
                assert_eq!(failing.failed(s(60 * minute), kind), Verdict::Again);
            }
        }
        assert_eq!(
            failing.over(s(3610)).as_deref(),
            Some("commits again, 3600.0 s after the first of 178 attempts that failed")
        );
        assert_eq!(failing.over(s(3611)), None);
        assert_eq!(failing.failed(s(3612), ErrorKind::StaleGeneration), Verdict::First);
    }

    #[test]
    fn a_broker_that_answers_with_an_abort_for_ten_minutes_ends_the_run() {
        let mut failing = Failing::default();
        // What went before without an answer does not count.
        assert_eq!(failing.failed(s(0), ErrorKind::Unanswered), Verdict::First);
        assert_eq!(failing.failed(s(1000), ErrorKind::Abort), Verdict::Again);
        assert_eq!(failing.failed(s(1600), ErrorKind::Abort), Verdict::Again);
        assert_eq!(failing.failed(s(1601), ErrorKind::Abort), Verdict::Enough(4));
    }
}
