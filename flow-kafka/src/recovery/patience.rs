//! How long a recovery waits: for a broker that does not answer as long as it takes, for one that answers and brings nothing up
//! to a deadline. An outage is nothing that a recovery could be blamed for, and ending the process would not end it.

use std::cell::Cell;
use std::time::Duration;

use crate::broker::{BrokerError, ErrorKind, Host};

/// The pause before a request that got no answer is sent again.
const PAUSE: Duration = Duration::from_millis(50);
/// A wait that is worth a line in the log.
const LONG: Duration = Duration::from_secs(30);

/// How often the broker is asked whether it is there while a log brings nothing.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct Patience<'a> {
    host: &'a dyn Host,
    deadline: Duration,
    /// The time spent on requests that got no answer.
    unanswered: Cell<Duration>,
}

impl<'a> Patience<'a> {
    pub(super) fn new(host: &'a dyn Host, deadline: Duration) -> Self {
        Patience { host, deadline, unanswered: Cell::new(Duration::ZERO) }
    }

    /// The time on a clock that stands still while no broker answers.
    pub(super) fn now(&self) -> Duration {
        self.host.elapsed().saturating_sub(self.unanswered.get())
    }

    /// True if the deadline has passed since that time of [`now`](Self::now).
    pub(super) fn ends(&self, since: Duration) -> bool {
        self.now().saturating_sub(since) > self.deadline
    }

    /// Repeats a request until it gets an answer, or nobody wants to know any more.
    pub(super) fn ask<T>(
        &self,
        abandoned: &dyn Fn() -> bool,
        mut request: impl FnMut() -> Result<T, BrokerError>,
    ) -> Result<T, BrokerError> {
        let start = self.host.elapsed();
        let mut said = false;
        loop {
            match self.once(&mut request) {
                Err(error) if error.kind == ErrorKind::Retriable && !abandoned() => {
                    log::debug!("recovery asks again: {error}");
                    let waited = self.host.elapsed().saturating_sub(start);
                    if waited >= LONG && !std::mem::replace(&mut said, true) {
                        log::warn!("a recovery has waited for {} s and goes on to: {error}", waited.as_secs());
                    }
                    self.unanswered.set(self.unanswered.get() + PAUSE);
                    self.host.sleep(PAUSE);
                }
                other => return other,
            }
        }
    }

    /// Asks once. The time does not count if there is no answer.
    pub(super) fn once<T>(&self, request: impl FnOnce() -> Result<T, BrokerError>) -> Result<T, BrokerError> {
        let start = self.host.elapsed();
        let answer = request();
        if answer.as_ref().is_err_and(|error| error.kind == ErrorKind::Retriable) {
            self.unanswered.set(self.unanswered.get() + self.host.elapsed().saturating_sub(start));
        }
        answer
    }
}

/// A log that brings nothing, although a broker answers: how long already.
pub(super) struct Stall {
    deadline: Duration,
    every: Duration,
    asked: Duration,
    silent: Duration,
}

impl Stall {
    pub(super) fn new(deadline: Duration, now: Duration) -> Self {
        Stall { deadline, every: ASK_EVERY.min(deadline / 4), asked: now, silent: Duration::ZERO }
    }

    /// The log has brought something.
    pub(super) fn is_over(&mut self, now: Duration) {
        (self.asked, self.silent) = (now, Duration::ZERO);
    }

    /// True if it is time to ask whether a broker is there.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.asked) >= self.every
    }

    /// Takes the answer. Much more time than was meant to pass since the last one passed somewhere else: in a request that got
    /// no answer, or in a process that was suspended.
    pub(super) fn asked(&mut self, now: Duration, answered: bool) {
        let time = now.saturating_sub(self.asked).min(self.every * 2);
        self.silent = if answered { self.silent + time } else { Duration::ZERO };
        self.asked = now;
    }

    /// True if it is enough.
    pub(super) fn ends(&self) -> bool {
        self.silent > self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Asks from one second to another, as often as is due.
    fn ask(stall: &mut Stall, seconds: std::ops::Range<u64>, answered: bool) {
        for second in seconds {
            if stall.is_due(s(second)) {
                stall.asked(s(second), answered);
            }
        }
    }

    #[test]
    fn only_the_time_counts_in_which_a_broker_answers() {
        let mut stall = Stall::new(s(120), s(0));
        ask(&mut stall, 0..100, true);
        ask(&mut stall, 100..1000, false);
        ask(&mut stall, 1000..1115, true);
        assert!(!stall.ends());
        ask(&mut stall, 1115..1130, true);
        assert!(stall.ends());
        stall.is_over(s(1130));
        assert!(!stall.ends());
    }

    #[test]
    fn a_recovery_that_was_suspended_is_not_blamed_for_the_time() {
        let mut stall = Stall::new(s(120), s(0));
        stall.asked(s(3600), true);
        assert!(!stall.ends());
    }
}
