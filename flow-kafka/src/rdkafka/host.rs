//! The real machine: std's clock, sleep and threads. The only place of this crate that may use them.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use flow_core::Timestamp;

use crate::broker::{BrokerError, ErrorKind, Host, Joiner};

/// Now, on a clock that never goes back.
#[allow(clippy::disallowed_methods, reason = "this is the side of the seam that others ask for the time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// A named thread.
#[allow(clippy::disallowed_methods, reason = "this is the side of the seam that others ask for threads")]
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// A point in time up to which a call may go on.
#[derive(Clone, Copy)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    /// `timeout` from now; one beyond the clock's range never comes.
    pub(super) fn after(timeout: Duration) -> Self {
        Deadline(now().checked_add(timeout))
    }

    /// What is left; zero when it has passed.
    pub(super) fn left(self) -> Duration {
        self.0.map_or(Duration::MAX, |at| at.saturating_duration_since(now()))
    }

    /// True once it has passed.
    pub(super) fn passed(self) -> bool {
        self.left().is_zero()
    }
}

/// The machine this process runs on.
pub(super) struct Machine {
    started: Instant,
    made: AtomicU64,
}

impl Machine {
    pub(super) fn new() -> Self {
        Machine { started: now(), made: AtomicU64::new(0) }
    }
}

impl Host for Machine {
    fn now(&self) -> Timestamp {
        #[allow(clippy::disallowed_methods, reason = "this is the side of the seam that others ask for the time")]
        let now = SystemTime::now();
        let since = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(match now.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => since(after),
            Err(before) => -since(before.duration()),
        })
    }

    fn elapsed(&self) -> Duration {
        now().saturating_duration_since(self.started)
    }

    #[allow(clippy::disallowed_methods, reason = "this is the side of the seam that others ask to sleep")]
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn spawn(&self, name: &str, run: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Joiner>, BrokerError> {
        match spawn(name, run) {
            Ok(handle) => Ok(Box::new(Thread(handle))),
            Err(error) => {
                Err(BrokerError::new(ErrorKind::Refused, format!("could not start the thread {name}: {error}")))
            }
        }
    }

    fn unique(&self) -> u64 {
        // The keys of a `RandomState` come from the system's randomness, so this is a random number; the process and the count
        // make two of one process differ even where that is weak.
        let mut hash = RandomState::new().build_hasher();
        hash.write_u32(std::process::id());
        hash.write_u64(self.made.fetch_add(1, Ordering::Relaxed));
        hash.write_i64(self.now().as_millis());
        hash.finish()
    }
}

struct Thread(JoinHandle<()>);

impl Joiner for Thread {
    fn join(self: Box<Self>) -> Result<(), String> {
        self.0.join().map_err(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            text.or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "a panic without a text".to_owned())
        })
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_thread_is_its_message() {
        let host = Machine::new();
        let thread = host.spawn("falls", Box::new(|| panic!("fell at {}", 3))).unwrap();
        assert_eq!(thread.join(), Err("fell at 3".to_owned()));
        assert_eq!(host.spawn("stands", Box::new(|| {})).unwrap().join(), Ok(()));
    }

    #[test]
    fn unique_numbers_do_not_repeat() {
        let (one, two) = (Machine::new(), Machine::new());
        let made: std::collections::HashSet<_> = (0..1000).flat_map(|_| [one.unique(), two.unique()]).collect();
        assert_eq!(made.len(), 2000);
    }

    #[test]
    fn time_does_not_go_back() {
        let host = Machine::new();
        let first = host.elapsed();
        host.sleep(Duration::from_millis(2));
        assert!(host.elapsed() >= first + Duration::from_millis(2));
        assert!(host.now() > Timestamp::from_millis(1_600_000_000_000));
    }
}
