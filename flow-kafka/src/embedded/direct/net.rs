//! The world of a simulation: the broker, and the connections to it with the clients' background threads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flow_core::Timestamp;
use kafka_protocol::messages::{RequestKind, ResponseKind};

use super::member::{Member, Outbox};
use crate::embedded::{ConnectionId, Machine, Options, Reply};
use crate::sim::{Process, Random, World};

/// How much later than its application the background thread of a process that was stopped may go on.
const WAKES_LATE_MS: u64 = 50;

/// The broker, what is connected to it, and the time between them.
pub(crate) struct Net {
    machine: Machine,
    /// The wall clock at the start.
    start: i64,
    random: Random,
    connections: BTreeMap<ConnectionId, Connection>,
    last: ConnectionId,
    /// Until when no connection reaches the broker.
    away_until: Duration,
    replies: Vec<Reply>,
}

struct Connection {
    /// Whose it is; the test's own has none.
    process: Option<Process>,
    client: Client,
    /// Answers that came while the process was stopped.
    held: Vec<Reply>,
    asleep: Sleep,
}

/// Whether a connection's background thread runs.
#[derive(Clone, Copy, PartialEq)]
enum Sleep {
    Awake,
    Stopped,
    /// The process goes on, and this thread will at that time.
    Until(Duration),
}

enum Client {
    /// The caller's thread waits for each answer.
    Blocking {
        correlation: i32,
        answers: BTreeMap<i32, ResponseKind>,
        /// The last request whose answer went with its connection.
        cut: i32,
    },
    Member(Box<Member>),
}

impl Net {
    pub(crate) fn new(options: Options, start: Timestamp, seed: u64) -> Self {
        Net {
            machine: Machine::new(options),
            start: start.as_millis(),
            random: Random::stream(seed, 2),
            connections: BTreeMap::new(),
            last: 0,
            away_until: Duration::ZERO,
            replies: Vec::new(),
        }
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    pub(super) fn open(&mut self, process: Option<Process>) -> ConnectionId {
        self.connect(process, Client::Blocking { correlation: 0, answers: BTreeMap::new(), cut: 0 })
    }

    pub(super) fn open_member(&mut self, process: Process, member: Member) -> ConnectionId {
        self.connect(Some(process), Client::Member(Box::new(member)))
    }

    fn connect(&mut self, process: Option<Process>, client: Client) -> ConnectionId {
        self.last += 1;
        self.connections.insert(self.last, Connection { process, client, held: Vec::new(), asleep: Sleep::Awake });
        self.last
    }

    pub(super) fn close(&mut self, connection: ConnectionId) {
        if self.connections.remove(&connection).is_some() {
            self.machine.disconnect(connection);
        }
    }

    /// Sends a request for a caller that will wait for its answer; earlier answers are not wanted any more.
    pub(super) fn send(
        &mut self,
        connection: ConnectionId,
        version: i16,
        request: RequestKind,
        now: Duration,
    ) -> Option<i32> {
        let Client::Blocking { correlation, answers, .. } = &mut self.connections.get_mut(&connection)?.client else {
            return None;
        };
        answers.clear();
        *correlation += 1;
        let sent = *correlation;
        self.handle(connection, sent, version, request, now);
        self.settle(now);
        Some(sent)
    }

    /// The answer to that request, if it is there. Others are thrown away.
    pub(super) fn answer(&mut self, connection: ConnectionId, correlation: i32) -> Option<ResponseKind> {
        let Client::Blocking { answers, .. } = &mut self.connections.get_mut(&connection)?.client else { return None };
        let answer = answers.remove(&correlation);
        answers.clear();
        answer
    }

    /// True while no request reaches the broker.
    pub(super) fn is_away(&self, now: Duration) -> bool {
        now < self.away_until
    }

    /// True if no answer to that request will come.
    pub(super) fn is_cut(&self, connection: ConnectionId, correlation: i32) -> bool {
        match self.connections.get(&connection).map(|connection| &connection.client) {
            Some(Client::Blocking { cut, .. }) => *cut >= correlation,
            Some(Client::Member(_)) | None => false,
        }
    }

    /// Works on a consumer, and lets its background thread act on it. `None`: it is closed, or its process was crashed.
    pub(super) fn member<R>(
        &mut self,
        connection: ConnectionId,
        now: Duration,
        work: impl FnOnce(&mut Member) -> R,
    ) -> Option<R> {
        let Client::Member(member) = &mut self.connections.get_mut(&connection)?.client else { return None };
        let result = work(member);
        self.tick(connection, now);
        self.settle(now);
        Some(result)
    }

    /// Does something to the broker that is no request; `work` gets the wall clock's time, too.
    pub(super) fn machine<R>(&mut self, now: Duration, work: impl FnOnce(&mut Machine, i64) -> R) -> R {
        let wall = self.wall(now);
        work(&mut self.machine, wall)
    }

    fn wall(&self, now: Duration) -> i64 {
        self.start + now.as_millis() as i64
    }

    fn handle(&mut self, from: ConnectionId, correlation: i32, version: i16, request: RequestKind, now: Duration) {
        let wall = self.wall(now);
        self.machine.handle(from, correlation, version, request, wall, &mut self.replies);
    }

    /// Delivers answers, and what clients send because of them, until nothing is left.
    fn settle(&mut self, now: Duration) {
        while !self.replies.is_empty() {
            for reply in std::mem::take(&mut self.replies) {
                self.deliver(reply, now);
            }
        }
    }

    fn deliver(&mut self, reply: Reply, now: Duration) {
        let Some(connection) = self.connections.get_mut(&reply.to) else { return };
        if connection.asleep != Sleep::Awake {
            connection.held.push(reply);
            return;
        }
        match &mut connection.client {
            Client::Blocking { answers, .. } => {
                answers.insert(reply.correlation, reply.response);
            }
            Client::Member(member) => {
                member.answer(reply.correlation, reply.response, now);
                self.tick(reply.to, now);
            }
        }
    }

    /// Lets a consumer's background thread do what is due, and sends what it wants sent.
    fn tick(&mut self, id: ConnectionId, now: Duration) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Client::Member(member) = &mut connection.client else { return };
        if connection.asleep == Sleep::Awake {
            member.tick(now);
        }
        let outbox: Outbox = member.take_outbox();
        if now < self.away_until && !outbox.is_empty() {
            member.cut_off(now);
            return;
        }
        for outgoing in outbox {
            self.handle(id, outgoing.correlation, outgoing.version, outgoing.request, now);
        }
    }

    fn wake(&mut self, now: Duration) {
        for id in self.ids(|connection| matches!(connection.asleep, Sleep::Until(at) if at <= now)) {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.asleep = Sleep::Awake;
            let held = std::mem::take(&mut connection.held);
            self.replies.extend(held);
        }
    }

    fn ids(&self, of: impl Fn(&Connection) -> bool) -> Vec<ConnectionId> {
        self.connections.iter().filter(|(_, connection)| of(connection)).map(|(&id, _)| id).collect()
    }
}

impl World for Net {
    fn advance(&mut self, now: Duration) {
        if self.next_deadline().is_none_or(|due| due > now) {
            return;
        }
        self.wake(now);
        let wall = self.wall(now);
        self.machine.advance(wall, &mut self.replies);
        self.settle(now);
        let due = |connection: &Connection| {
            connection.asleep == Sleep::Awake
                && matches!(&connection.client, Client::Member(member) if member.due().is_some_and(|due| due <= now))
        };
        for id in self.ids(due) {
            self.tick(id, now);
        }
        self.settle(now);
    }

    fn next_deadline(&self) -> Option<Duration> {
        let machine = self.machine.next_deadline().map(|at| Duration::from_millis((at - self.start).max(0) as u64));
        let clients =
            self.connections.values().filter_map(|connection| match (connection.asleep, &connection.client) {
                (Sleep::Until(at), _) => Some(at),
                (Sleep::Awake, Client::Member(member)) => member.due(),
                (Sleep::Stopped, _) | (Sleep::Awake, Client::Blocking { .. }) => None,
            });
        machine.into_iter().chain(clients).min()
    }

    fn is_ready(&self, key: u64) -> bool {
        self.connections.get(&key).is_none_or(|connection| match &connection.client {
            Client::Blocking { answers, correlation, cut } => !answers.is_empty() || cut == correlation,
            Client::Member(member) => member.has_news(),
        })
    }

    fn crashed(&mut self, process: Process, _: Duration) {
        let gone: BTreeSet<_> = self.ids(|connection| connection.process == Some(process)).into_iter().collect();
        for connection in gone {
            self.close(connection);
        }
    }

    fn unreachable(&mut self, until: Duration, now: Duration) {
        self.away_until = self.away_until.max(until);
        for (id, connection) in &mut self.connections {
            self.machine.disconnect(*id);
            connection.held.clear();
            match &mut connection.client {
                Client::Blocking { answers, correlation, cut } => {
                    answers.clear();
                    *cut = *correlation;
                }
                Client::Member(member) => member.cut_off(now),
            }
        }
    }

    fn paused(&mut self, process: Process, paused: bool, now: Duration) {
        for id in self.ids(|connection| connection.process == Some(process)) {
            // The threads of a process do not wake in one instant. A stale owner that commits before its own client has noticed
            // anything is the case that the fence is for.
            let late = match paused {
                true => Duration::ZERO,
                false => Duration::from_micros(self.random.below(WAKES_LATE_MS * 1000)),
            };
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.asleep = match (paused, &connection.client) {
                    (true, _) => Sleep::Stopped,
                    (false, Client::Member(_)) => Sleep::Until(now + late),
                    (false, Client::Blocking { .. }) => Sleep::Until(now),
                };
            }
        }
    }
}
