//! The broker as one state machine: requests and the time in, replies out.

use kafka_protocol::messages::{RequestKind, ResponseKind};

use super::{Options, versions};

/// Names a connection, for the replies that come later. The caller chooses it.
pub type ConnectionId = u64;

/// An answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The connection that the request came from.
    pub to: ConnectionId,
    /// The request's correlation id.
    pub correlation: i32,
    /// The version that the response must be encoded in.
    pub version: i16,
    /// The response.
    pub response: ResponseKind,
}

/// The embedded broker. All times are milliseconds since the epoch and must not go back.
#[derive(Debug)]
pub struct Machine {
    #[expect(dead_code, reason = "read by the request handlers")]
    options: Options,
}

impl Machine {
    /// A broker with no topics and no groups.
    pub fn new(options: Options) -> Self {
        Machine { options }
    }

    /// Takes a request. Its reply, and those of other requests that waited for this one, are appended to `out`; a request that
    /// has to wait is answered by a later call, one that wants no answer (`acks=0`) never is.
    pub fn handle(
        &mut self,
        from: ConnectionId,
        correlation: i32,
        version: i16,
        request: RequestKind,
        now: i64,
        out: &mut Vec<Reply>,
    ) {
        self.advance(now, out);
        let response = match request {
            RequestKind::ApiVersions(_) => ResponseKind::ApiVersions(versions::answer()),
            _ => return,
        };
        out.push(Reply { to: from, correlation, version, response });
    }

    /// Does what is due at `now`: expired members, rebalances and transactions, and waiting requests whose time is over.
    pub fn advance(&mut self, _now: i64, _out: &mut Vec<Reply>) {}

    /// When [`advance`](Self::advance) has to be called next, if nothing else happens before.
    pub fn next_deadline(&self) -> Option<i64> {
        None
    }

    /// Forgets the requests of a connection that wait. Group members live on until their session expires, as in Kafka.
    pub fn disconnect(&mut self, _from: ConnectionId) {}
}
