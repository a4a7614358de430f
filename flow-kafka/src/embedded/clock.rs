//! Times at which the broker looks by itself.

use std::time::Duration;

/// The next multiple of `interval` after `now`: the broker looks at fixed times, not when something is due.
pub(super) fn after(now: i64, interval: Duration) -> i64 {
    let interval = millis(interval).max(1);
    now.div_euclid(interval).saturating_add(1).saturating_mul(interval)
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
