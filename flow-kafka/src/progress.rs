//! Progress: how much of what has a known end is done, how fast it goes, and how long the rest will take.
//!
//! It is counted in offsets: records, and what stands between them (markers of transactions, and gaps that compaction left). An
//! offset that was passed is done whatever it held, so the count always reaches its end, and an estimate needs no guess.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::iter::Sum;
use std::time::Duration;

use crate::broker::TopicPartition;

/// How far a restore or a catch-up has come. Sums up: the progress of many partitions is one progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Records to read in all.
    pub need: u64,
    /// Records read so far: never more than `need`.
    pub have: u64,
    /// Records per second, over the last five seconds. 0 if nothing has moved for so long, or if it has just begun.
    pub rate_per_second: f64,
}

impl Progress {
    /// Records that are left to read.
    pub fn remaining(&self) -> u64 {
        self.need.saturating_sub(self.have)
    }

    /// The time that the rest will take at the present rate. `None` if nothing moves: it may take for ever.
    pub fn estimate(&self) -> Option<Duration> {
        match self.remaining() {
            0 => Some(Duration::ZERO),
            remaining => Duration::try_from_secs_f64(remaining as f64 / self.rate_per_second).ok(),
        }
    }

    /// True if nothing is left.
    pub fn is_done(&self) -> bool {
        self.remaining() == 0
    }
}

impl Sum for Progress {
    fn sum<I: Iterator<Item = Progress>>(all: I) -> Progress {
        all.fold(Progress::default(), |sum, one| Progress {
            need: sum.need.saturating_add(one.need),
            have: sum.have.saturating_add(one.have),
            rate_per_second: sum.rate_per_second + one.rate_per_second,
        })
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Progress { need, have, rate_per_second: rate } = self;
        let percent = if *need == 0 { 100 } else { u128::from(*have) * 100 / u128::from(*need) };
        write!(f, "{have} of {need} ({percent} %), {} to go", self.remaining())?;
        // Where a second brings less than ten, their fraction matters.
        let digits = usize::from(*rate < 10.0);
        match self.estimate() {
            Some(time) => write!(f, ", {rate:.digits$} a second, about {} s", time.as_millis().div_ceil(1000)),
            None => f.write_str(", nothing moves now"),
        }
    }
}

/// What a worker knows of its partitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Partitions {
    /// Snapshot partitions that are being read.
    pub(crate) restoring: BTreeMap<TopicPartition, Progress>,
    /// Input partitions that were behind when they were started.
    pub(crate) catching_up: BTreeMap<TopicPartition, Progress>,
    /// How far each input partition is behind, where that is known.
    pub(crate) lags: BTreeMap<TopicPartition, Option<u64>>,
}

/// Measures a rate over the last few seconds.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// What there was, and when: the first as old as the window, if it has been open for so long.
    samples: VecDeque<(Duration, u64)>,
}

/// The time over which a rate is measured: what has not moved for so long has none.
const WINDOW: Duration = Duration::from_secs(5);
/// How far samples are apart.
const SPACING: Duration = Duration::from_millis(500);
/// A shorter time says nothing.
const SHORTEST: Duration = Duration::from_millis(100);

impl Meter {
    pub(crate) fn new(now: Duration, have: u64) -> Meter {
        Meter { samples: VecDeque::from([(now, have)]) }
    }

    /// Takes notice of how much there is now; how many come in a second.
    pub(crate) fn look(&mut self, now: Duration, have: u64) -> f64 {
        while self.samples.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= WINDOW) {
            self.samples.pop_front();
        }
        if self.samples.back().is_none_or(|(at, _)| now.saturating_sub(*at) >= SPACING) {
            self.samples.push_back((now, have));
        }
        let (then, had) = self.samples[0];
        let time = now.saturating_sub(then);
        if time < SHORTEST { 0.0 } else { have.saturating_sub(had) as f64 / time.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(need: u64, have: u64, rate_per_second: f64) -> Progress {
        Progress { need, have, rate_per_second }
    }

    #[test]
    fn the_estimate_is_what_is_left_at_the_present_rate() {
        assert_eq!(progress(1_000, 400, 100.0).remaining(), 600);
        assert_eq!(progress(1_000, 400, 100.0).estimate(), Some(seconds(6)));
        assert_eq!(progress(1_000, 999, 0.1).estimate(), Some(seconds(10)));
        assert_eq!(progress(u64::MAX, 0, 1e-9).estimate(), None, "longer than anybody can say");
    }

    #[test]
    fn what_does_not_move_has_no_estimate_and_what_is_done_needs_no_time() {
        assert_eq!(progress(1_000, 400, 0.0).estimate(), None);
        assert_eq!(progress(1_000, 1_000, 0.0).estimate(), Some(Duration::ZERO));
        assert_eq!(Progress::default().estimate(), Some(Duration::ZERO));
        assert!(progress(5, 5, 0.0).is_done() && !progress(5, 4, 9.0).is_done());
    }

    #[test]
    fn the_progress_of_many_is_one_progress() {
        let sum: Progress = [progress(100, 20, 10.0), progress(300, 300, 0.0), progress(50, 0, 5.5)].into_iter().sum();
        assert_eq!(sum, progress(450, 320, 15.5));
    }

    #[test]
    fn it_is_said_in_plain_words() {
        assert_eq!(progress(500, 125, 50.4).to_string(), "125 of 500 (25 %), 375 to go, 50 a second, about 8 s");
        assert_eq!(progress(500, 498, 0.25).to_string(), "498 of 500 (99 %), 2 to go, 0.2 a second, about 8 s");
        assert_eq!(progress(500, 499, 0.0).to_string(), "499 of 500 (99 %), 1 to go, nothing moves now");
        assert_eq!(progress(0, 0, 0.0).to_string(), "0 of 0 (100 %), 0 to go, 0.0 a second, about 0 s");
    }

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_steady_rate_is_measured_as_it_is_from_the_first_moment_on() {
        let mut meter = Meter::new(millis(5_000), 70);
        assert_eq!(meter.look(millis(5_000), 70), 0.0, "nobody knows yet");
        for tick in 1..=200 {
            assert_eq!(meter.look(millis(5_000 + 200 * tick), 70 + 40 * tick).round(), 200.0, "tick {tick}");
        }
        assert!(meter.samples.len() <= 11, "it does not grow");
    }

    #[test]
    fn a_rate_is_that_of_the_last_five_seconds() {
        let mut meter = Meter::new(seconds(0), 0);
        assert_eq!(meter.look(seconds(1), 1_000), 1_000.0);
        // Faster now.
        assert_eq!(meter.look(seconds(3), 9_000), 3_000.0);
        assert_eq!(meter.look(seconds(5), 17_000), 17_000.0 / 5.0);
        // The slow first second is forgotten.
        assert_eq!(meter.look(seconds(6), 21_000), 4_000.0);
        // Nothing comes any more.
        assert_eq!(meter.look(seconds(9), 21_000), 12_000.0 / 6.0);
        assert_eq!(meter.look(seconds(11), 21_000), 0.0);
        assert_eq!(meter.look(seconds(40), 21_000), 0.0);
    }

    #[test]
    fn a_moment_is_too_short_for_a_rate() {
        let mut meter = Meter::new(seconds(0), 0);
        assert_eq!(meter.look(millis(1), 500), 0.0, "500 in a millisecond");
        assert_eq!(meter.look(millis(50), 600), 0.0);
        assert_eq!(meter.look(seconds(1), 1_000), 1_000.0);
    }
}
