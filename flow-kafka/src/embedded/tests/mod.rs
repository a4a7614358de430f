//! The state machine under a clock that only the test moves.

mod compaction;
mod fetches;
mod groups;
mod offsets;
mod producers;
mod requests;
pub(super) mod samples;
mod topics;
mod transactions;

use bytes::BytesMut;
use kafka_protocol::messages::{RequestKind, ResponseKind};
use kafka_protocol::protocol::{Decodable, Request};

use super::{ConnectionId, Machine, Options, Reply};

/// A machine, its clock, and the replies that have come.
struct Broker {
    machine: Machine,
    now: i64,
    connections: ConnectionId,
    arrived: Vec<Reply>,
}

impl Broker {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        Broker { machine: Machine::new(options), now: 1_700_000_000_000, connections: 0, arrived: vec![] }
    }

    /// Sends a request that is answered at once.
    #[track_caller]
    fn ask<Q: Request + Into<RequestKind>>(&mut self, request: Q, version: i16) -> Q::Response {
        let connection = self.post(request, version);
        self.answer::<Q>(connection).expect("an answer at once")
    }

    /// Sends a request on a connection of its own.
    fn post(&mut self, request: impl Into<RequestKind>, version: i16) -> ConnectionId {
        self.connections += 1;
        self.machine.handle(self.connections, 0, version, request.into(), self.now, &mut self.arrived);
        self.connections
    }

    /// The reply to a request of this type, if it has come: as its client reads it.
    fn answer<Q: Request>(&mut self, connection: ConnectionId) -> Option<Q::Response> {
        let index = self.arrived.iter().position(|reply| reply.to == connection)?;
        let reply = self.arrived.remove(index);
        Some(over_the_wire::<Q>(&reply.response, reply.version))
    }

    /// Lets time pass, from deadline to deadline.
    fn pass(&mut self, millis: i64) {
        let until = self.now + millis;
        while let Some(deadline) = self.machine.next_deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            self.machine.advance(self.now, &mut self.arrived);
            let next = self.machine.next_deadline();
            assert!(next.is_none_or(|next| next > self.now), "the deadline {next:?} was not met at {}", self.now);
        }
        self.now = until;
        self.machine.advance(self.now, &mut self.arrived);
    }
}

fn over_the_wire<Q: Request>(response: &ResponseKind, version: i16) -> Q::Response {
    let mut bytes = BytesMut::new();
    response.encode(&mut bytes, version).unwrap();
    Q::Response::decode(&mut bytes.freeze(), version).unwrap()
}
