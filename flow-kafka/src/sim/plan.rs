//! Faults, and when they strike.

use std::time::Duration;

use super::Process;

/// When a planned fault strikes.
///
/// The *steps* of a process are its seam calls and the requests that its clients make inside them, counted from 1. A step can
/// thus be the commit, or only the `TxnOffsetCommit` inside a `send_offsets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trigger {
    /// When the clock reaches this time since the start.
    Time(Duration),
    /// Before this step of the process has any effect.
    BeforeStep(u64),
    /// When this step of the process took effect, and before the caller learns it.
    AfterStep(u64),
}

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Like SIGKILL: no thread of the process returns from the seam any more; its connections close, nothing else is told to
    /// the broker.
    Crash,
    /// Like SIGSTOP, and SIGCONT after this time: no thread of the process runs, no heartbeat is sent, answers wait.
    Pause(Duration),
    /// The answer to the next request takes effect on the broker but does not arrive; the client sends it again when its
    /// request timeout has passed.
    LoseAnswer,
    /// The next so many requests never arrive; the client sends each again when its request timeout has passed.
    LoseRequests(u64),
    /// The next request that a broker may answer with this error code of Kafka's is answered with it, and the broker never sees it:
    /// a coordinator that moved (16) or is just loading (14), a leader that moved (6), a time-out (7), a fence (90).. Of the requests
    /// of producers, and those for offsets.
    Refuse(i16),
    /// No process reaches the broker for this time, and all connections break; what was on its way is lost. For the broker time goes
    /// on: sessions and transactions run out.
    Unreachable(Duration),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) process: Process,
    pub(crate) trigger: Trigger,
    pub(crate) fault: Fault,
}

/// The faults that have not struck yet, in the order in which they were planned.
#[derive(Default)]
pub(crate) struct Plan {
    planned: Vec<Planned>,
}

impl Plan {
    pub(crate) fn add(&mut self, planned: Planned) {
        self.planned.push(planned);
    }

    /// Takes the first fault that this condition meets.
    pub(crate) fn take(&mut self, strikes: impl Fn(&Planned) -> bool) -> Option<Planned> {
        let index = self.planned.iter().position(strikes)?;
        Some(self.planned.remove(index))
    }

    /// The earliest time at which one strikes by the clock.
    pub(crate) fn next_time(&self) -> Option<Duration> {
        self.planned
            .iter()
            .filter_map(|planned| match planned.trigger {
                Trigger::Time(at) => Some(at),
                Trigger::BeforeStep(_) | Trigger::AfterStep(_) => None,
            })
            .min()
    }
}
