//! A client's connection, as its thread uses it: every call, and every request in it, is a step of the simulation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::{RequestKind, ResponseKind};

use super::codes::{self, Verdict};
use super::net::Net;
use super::refuse::refused;
use crate::broker::{BrokerError, ErrorKind};
use crate::embedded::ConnectionId;
use crate::sim::{On, Process, Scheduler, SimHost, gone};

/// A client sends a request again when no answer came for this long.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it waits before it repeats what the broker could not do.
const RETRY: Duration = Duration::from_millis(20);

pub(super) type Host = SimHost<Net>;

pub(super) struct Link {
    host: Arc<Host>,
    connection: ConnectionId,
}

impl Link {
    pub(super) fn open(host: &Arc<Host>) -> Self {
        let connection = host.scheduler().world(|net, _| net.open(Some(host.process())));
        Link { host: Arc::clone(host), connection }
    }

    pub(super) fn scheduler(&self) -> &Scheduler<Net> {
        self.host.scheduler()
    }

    pub(super) fn host(&self) -> &Arc<Host> {
        &self.host
    }

    pub(super) fn process(&self) -> Process {
        self.host.process()
    }

    /// The time at which a call that starts now gives up.
    pub(super) fn deadline(&self, timeout: Duration) -> Duration {
        self.scheduler().clock() + timeout
    }

    /// One request and its answer; `None` if none came before the deadline.
    pub(super) fn request(
        &self,
        what: &str,
        version: i16,
        request: &RequestKind,
        deadline: Duration,
    ) -> Result<Option<ResponseKind>, BrokerError> {
        let scheduler = self.scheduler();
        loop {
            let step = scheduler.step(format_args!("  {what}")).map_err(|_| gone())?;
            if let Some((code, refusal)) = scheduler.refuses(|code| refused(request, code)) {
                scheduler.done(step, format_args!("is refused with {code}")).map_err(|_| gone())?;
                return Ok(Some(refusal));
            }
            let sent = match scheduler.loses_request() || scheduler.world(|net, now| net.is_away(now)) {
                true => None,
                false => Some(
                    scheduler
                        .world(|net, now| net.send(self.connection, version, request.clone(), now))
                        .ok_or_else(gone)?,
                ),
            };
            let arrives = sent.filter(|_| !scheduler.loses_answer());
            let outcome = match (sent, arrives) {
                (None, _) => "is lost",
                (Some(_), None) => "its answer is lost",
                (Some(_), Some(_)) => "sent",
            };
            scheduler.done(step, format_args!("{outcome}")).map_err(|_| gone())?;
            let resend = scheduler.clock() + REQUEST_TIMEOUT;
            match arrives {
                None => scheduler.wait(Some(resend.min(deadline)), On::Nothing).map_err(|_| gone())?,
                Some(sent) => {
                    if let Some(answer) = self.await_answer(sent, deadline)? {
                        return Ok(Some(answer));
                    }
                }
            }
            if scheduler.clock() >= deadline {
                return Ok(None);
            }
        }
    }

    fn await_answer(&self, sent: i32, deadline: Duration) -> Result<Option<ResponseKind>, BrokerError> {
        let scheduler = self.scheduler();
        loop {
            if let Some(answer) = scheduler.world(|net, _| net.answer(self.connection, sent)) {
                return Ok(Some(answer));
            }
            if scheduler.clock() >= deadline || scheduler.world(|net, _| net.is_cut(self.connection, sent)) {
                return Ok(None);
            }
            scheduler.wait(Some(deadline), On::World(self.connection)).map_err(|_| gone())?;
        }
    }

    /// Asks until the answer is final. `judge` says what an answer's codes mean; `None`: it is no answer to this request.
    pub(super) fn ask<T>(
        &self,
        what: &str,
        version: i16,
        request: &RequestKind,
        deadline: Duration,
        mut judge: impl FnMut(ResponseKind) -> Option<Judged<T>>,
    ) -> Result<T, BrokerError> {
        loop {
            let Some(answer) = self.request(what, version, request, deadline)? else {
                return Err(codes::timed_out(what));
            };
            match judge(answer) {
                Some(Judged::Done(result)) => return Ok(result),
                Some(Judged::Failed(error)) => return Err(error),
                Some(Judged::Again) => {}
                None => {
                    return Err(BrokerError::new(ErrorKind::Fatal, format!("{what}: the answer is of another kind")));
                }
            }
            let again = self.deadline(RETRY);
            if again >= deadline {
                return Err(codes::timed_out(what));
            }
            self.scheduler().wait(Some(again), On::Nothing).map_err(|_| gone())?;
        }
    }

    /// A seam call: a step, and its outcome in the trace.
    pub(super) fn call<T>(
        &self,
        what: fmt::Arguments<'_>,
        run: impl FnOnce() -> Result<T, BrokerError>,
        show: impl FnOnce(&T) -> String,
    ) -> Result<T, BrokerError> {
        call(self.scheduler(), what, run, show)
    }
}

/// A seam call: a step, and its outcome in the trace.
pub(super) fn call<T>(
    scheduler: &Scheduler<Net>,
    what: fmt::Arguments<'_>,
    run: impl FnOnce() -> Result<T, BrokerError>,
    show: impl FnOnce(&T) -> String,
) -> Result<T, BrokerError> {
    let step = scheduler.step(what).map_err(|_| gone())?;
    let result = run();
    let outcome = match &result {
        Ok(result) => show(result),
        Err(error) => format!("{:?}: {error}", error.kind),
    };
    scheduler.done(step, format_args!("{outcome}")).map_err(|_| gone())?;
    result
}

/// What a judge found.
pub(super) enum Judged<T> {
    Done(T),
    Again,
    Failed(BrokerError),
}

impl<T> Judged<T> {
    /// Judges a request that has one code and brings nothing.
    pub(super) fn of(what: &str, code: i16, verdict: Verdict, done: T) -> Self {
        match (verdict, codes::error(code)) {
            (Verdict::Failed(kind), Some(error)) => Judged::Failed(codes::refusal(kind, what, error)),
            (Verdict::Again, _) => Judged::Again,
            (Verdict::Done | Verdict::Failed(_), _) => Judged::Done(done),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.scheduler().world(|net, _| net.close(self.connection));
    }
}
