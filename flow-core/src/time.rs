//! Event time: milliseconds since the epoch, signed. Arithmetic with durations saturates, so an operator never wraps around.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since 1970-01-01T00:00Z, negative before.
///
/// Adding and subtracting a [`Duration`] saturates at [`Timestamp::MIN`] and [`Timestamp::MAX`]; fractions of a millisecond are
/// cut off. [`Timestamp::MAX`] as a timer's deadline means never.
///
/// ```
/// use std::time::Duration;
/// use flow_core::Timestamp;
///
/// let noon = Timestamp::from_millis(43_200_000);
/// assert_eq!((noon + Duration::from_secs(1)).as_millis(), 43_201_000);
/// assert_eq!(Timestamp::MAX + Duration::from_secs(1), Timestamp::MAX);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest time.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// The latest time.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// The time `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The time from `earlier` to this one, none if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        u64::try_from(i128::from(self.0) - i128::from(earlier.0)).map_or(Duration::ZERO, Duration::from_millis)
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;
    fn add(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(millis(duration)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;
    fn sub(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(millis(duration)))
    }
}

impl AddAssign<Duration> for Timestamp {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl SubAssign<Duration> for Timestamp {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Timestamp::MAX + Duration::MAX, Timestamp::MAX);
        assert_eq!(Timestamp::MIN - Duration::from_millis(1), Timestamp::MIN);
        assert_eq!(Timestamp::from_millis(-5) - Duration::from_millis(5), Timestamp::from_millis(-10));
    }

    #[test]
    fn time_since_something_later_is_nothing() {
        assert_eq!(Timestamp::from_millis(7).since(Timestamp::from_millis(2)), Duration::from_millis(5));
        assert_eq!(Timestamp::from_millis(2).since(Timestamp::from_millis(7)), Duration::ZERO);
        assert_eq!(Timestamp::MAX.since(Timestamp::MIN), Duration::from_millis(u64::MAX));
    }

    #[test]
    fn serde_sees_a_plain_number() {
        assert_eq!(serde_json::to_string(&Timestamp::from_millis(-3)).unwrap(), "-3");
        assert_eq!(serde_json::from_str::<Timestamp>("12").unwrap(), Timestamp::from_millis(12));
    }
}
