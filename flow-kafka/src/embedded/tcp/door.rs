//! What the threads of the TCP door share: the machine, the clock, and where replies go.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kafka_protocol::messages::RequestKind;

use crate::embedded::{ConnectionId, Machine, Options, Reply};

#[derive(Debug)]
pub(super) struct Door {
    inside: Mutex<Inside>,
    /// Rung when the timer has to look at its deadline again.
    bell: Condvar,
}

#[derive(Debug)]
struct Inside {
    machine: Machine,
    clock: Clock,
    connections: BTreeMap<ConnectionId, Outlet>,
    next_connection: ConnectionId,
    /// When the timer wakes up next.
    wakes_at: Option<i64>,
    is_closed: bool,
}

/// One connection as the others see it.
#[derive(Debug)]
struct Outlet {
    replies: Sender<Reply>,
    stream: TcpStream,
}

impl Door {
    pub(super) fn new(options: Options) -> Self {
        let inside = Inside {
            machine: Machine::new(options),
            clock: Clock::start(),
            connections: BTreeMap::new(),
            next_connection: 0,
            wakes_at: None,
            is_closed: false,
        };
        Door { inside: Mutex::new(inside), bell: Condvar::new() }
    }

    /// `None` once a thread has panicked inside: nothing can be said of the machine any more.
    fn enter(&self) -> Option<MutexGuard<'_, Inside>> {
        self.inside.lock().ok()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.enter().is_none_or(|inside| inside.is_closed)
    }

    /// Ends all threads: the timer, and the connections by closing their sockets.
    pub(super) fn close(&self) {
        if let Some(mut inside) = self.enter() {
            inside.is_closed = true;
            for outlet in std::mem::take(&mut inside.connections).into_values() {
                hang_up(&outlet.stream);
            }
        }
        self.bell.notify_all();
    }

    /// A new connection, and where its replies arrive. `None` if the door is closed.
    pub(super) fn connect(&self, stream: TcpStream) -> Option<(ConnectionId, Receiver<Reply>)> {
        let mut inside = self.enter().filter(|inside| !inside.is_closed)?;
        let id = inside.next_connection;
        inside.next_connection += 1;
        let (replies, arrivals) = channel();
        inside.connections.insert(id, Outlet { replies, stream });
        Some((id, arrivals))
    }

    pub(super) fn disconnect(&self, id: ConnectionId) {
        if let Some(mut inside) = self.enter() {
            inside.machine.disconnect(id);
            if let Some(outlet) = inside.connections.remove(&id) {
                hang_up(&outlet.stream);
            }
        }
    }

    /// Gives a request to the machine. Its reply, if there is one already; those of other connections go to their threads.
    pub(super) fn handle(
        &self,
        from: ConnectionId,
        correlation: i32,
        version: i16,
        request: RequestKind,
    ) -> Option<Reply> {
        let mut inside = self.enter()?;
        let mut replies = vec![];
        let now = inside.clock.now();
        inside.machine.handle(from, correlation, version, request, now, &mut replies);
        let own = replies.iter().position(|reply| reply.to == from).map(|index| replies.swap_remove(index));
        inside.deliver(replies);
        let deadline = inside.machine.next_deadline();
        if deadline.is_some_and(|deadline| inside.wakes_at.is_none_or(|wakes_at| deadline < wakes_at)) {
            inside.wakes_at = deadline;
            self.bell.notify_one();
        }
        own
    }

    /// Does something to the machine that is no request.
    ///
    /// # Errors
    /// If a thread has panicked inside.
    pub(super) fn work<R>(&self, work: impl FnOnce(&mut Machine, i64) -> R) -> io::Result<R> {
        let mut inside =
            self.enter().ok_or_else(|| io::Error::other("a thread of the embedded broker has panicked"))?;
        let now = inside.clock.now();
        Ok(work(&mut inside.machine, now))
    }

    /// Calls the machine when its deadlines come, until the door closes.
    pub(super) fn run_timer(&self) {
        let Some(mut inside) = self.enter() else { return };
        while !inside.is_closed {
            let now = inside.clock.now();
            if inside.wakes_at.is_none_or(|wakes_at| wakes_at <= now) {
                let mut replies = vec![];
                inside.machine.advance(now, &mut replies);
                inside.deliver(replies);
                inside.wakes_at = inside.machine.next_deadline();
            }
            let wait = inside.wakes_at.map(|at| Duration::from_millis(u64::try_from(at - now).unwrap_or(0)));
            let entered = match wait {
                Some(wait) => self.bell.wait_timeout(inside, wait).map(|(inside, _)| inside).ok(),
                None => self.bell.wait(inside).ok(),
            };
            match entered {
                Some(entered) => inside = entered,
                None => return,
            }
        }
    }

    /// Waits a moment, or until the door closes.
    pub(super) fn pause(&self) {
        if let Some(inside) = self.enter() {
            drop(self.bell.wait_timeout_while(inside, Duration::from_millis(100), |inside| !inside.is_closed));
        }
    }
}

impl Inside {
    fn deliver(&self, replies: Vec<Reply>) {
        for reply in replies {
            if let Some(outlet) = self.connections.get(&reply.to)
                && outlet.replies.send(reply).is_err()
            {
                log::debug!("a client of the embedded broker went away before its answer came");
            }
        }
    }
}

/// Wakes a connection's thread out of its read or write. One that is closed already needs no waking.
fn hang_up(stream: &TcpStream) {
    if let Err(error) = stream.shutdown(Shutdown::Both) {
        log::trace!("the connection was closed before: {error}");
    }
}

/// The wall clock, but never backwards: where the wall clock is set back, time goes on from where it was.
#[derive(Debug)]
struct Clock {
    start: Instant,
    /// The time at the start; raised when the wall clock leaps ahead, as after a sleep of the whole machine.
    start_millis: i64,
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the door is where the state machine meets the machine's clock")]
    fn start() -> Self {
        Clock { start: Instant::now(), start_millis: wall_millis() }
    }

    fn now(&mut self) -> i64 {
        let elapsed = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        let steady = self.start_millis.saturating_add(elapsed);
        let now = steady.max(wall_millis());
        self.start_millis = self.start_millis.saturating_add(now - steady);
        now
    }
}

#[allow(clippy::disallowed_methods, reason = "the door is where the state machine meets the machine's clock")]
fn wall_millis() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(0)
}
