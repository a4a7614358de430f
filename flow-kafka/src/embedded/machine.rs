//! The broker as one state machine: requests and the time in, replies out.

use kafka_protocol::messages::{RequestKind, ResponseKind};

use super::cleaner::Cleaner;
use super::fetch::Fetches;
use super::groups::Groups;
use super::topics::Topics;
use super::transactions::Transactions;
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

/// Who waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) to: ConnectionId,
    correlation: i32,
    pub(super) version: i16,
}

impl Caller {
    pub(super) fn reply(self, response: ResponseKind) -> Reply {
        Reply { to: self.to, correlation: self.correlation, version: self.version, response }
    }
}

/// The embedded broker. All times are milliseconds since the epoch and must not go back.
///
/// ```
/// use flow_kafka::embedded::{Machine, Options};
/// use kafka_protocol::messages::{MetadataRequest, ResponseKind};
///
/// let mut machine = Machine::new(Options::default());
/// let mut replies = vec![];
/// let (connection, correlation, version, now) = (1, 7, 9, 0);
/// machine.handle(connection, correlation, version, MetadataRequest::default().into(), now, &mut replies);
/// assert_eq!(replies[0].correlation, 7);
/// assert!(matches!(replies[0].response, ResponseKind::Metadata(_)));
/// ```
#[derive(Debug)]
pub struct Machine {
    pub(super) options: Options,
    pub(super) topics: Topics,
    pub(super) groups: Groups,
    pub(super) transactions: Transactions,
    pub(super) fetches: Fetches,
    pub(super) cleaner: Cleaner,
}

impl Machine {
    /// A broker with no topics and no groups.
    pub fn new(options: Options) -> Self {
        Machine {
            options,
            topics: Topics::default(),
            groups: Groups::default(),
            transactions: Transactions::default(),
            fetches: Fetches::default(),
            cleaner: Cleaner::default(),
        }
    }

    /// Takes a request. Its reply, and those of other requests that waited for this one, are appended to `out`; a request that
    /// has to wait is answered by a later call. A `Produce` that wants no answer (`acks=0`) and a request that the broker does
    /// not know ([`supports`](Self::supports)) are never answered.
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
        let caller = Caller { to: from, correlation, version };
        if let Some(response) = self.dispatch(caller, request, now, out) {
            out.push(caller.reply(response));
        }
        self.serve_woken(out);
    }

    /// Does what is due at `now`: expired members, rebalances, offsets and transactions, logs to be compacted, and waiting requests whose
    /// time is over.
    pub fn advance(&mut self, now: i64, out: &mut Vec<Reply>) {
        self.groups.expire(now, out);
        self.groups.forget_old_offsets(now, &self.options);
        self.expire_transactions(now);
        self.clean(now);
        self.serve_woken(out);
        self.serve_expired(now, out);
    }

    /// When [`advance`](Self::advance) has to be called next, if nothing else happens before.
    pub fn next_deadline(&self) -> Option<i64> {
        let deadlines = [
            self.groups.next_deadline(),
            self.transactions.next_deadline(),
            self.fetches.next_deadline(),
            self.cleaner.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Forgets the requests of a connection that wait. Group members live on until their session expires, as in Kafka.
    pub fn disconnect(&mut self, from: ConnectionId) {
        self.drop_fetches(from);
    }

    /// Whether the broker answers this request in this version.
    pub fn supports(api: kafka_protocol::messages::ApiKey, version: i16) -> bool {
        versions::is_supported(api, version)
    }

    /// The response, where it is known at once.
    fn dispatch(
        &mut self,
        caller: Caller,
        request: RequestKind,
        now: i64,
        out: &mut Vec<Reply>,
    ) -> Option<ResponseKind> {
        use {RequestKind as Q, ResponseKind as R};
        let version = caller.version;
        Some(match request {
            Q::Produce(request) => R::Produce(self.produce(request, now)?),
            Q::Fetch(request) => {
                self.fetch(caller, request, now, out);
                return None;
            }
            Q::ListOffsets(request) => R::ListOffsets(self.list_offsets(&request, version)),
            Q::OffsetForLeaderEpoch(request) => R::OffsetForLeaderEpoch(self.offset_for_leader_epoch(&request)),
            Q::DeleteRecords(request) => R::DeleteRecords(self.delete_records(&request)),
            Q::ApiVersions(_) => R::ApiVersions(versions::answer()),
            Q::Metadata(request) => R::Metadata(self.metadata(&request, version)),
            Q::DescribeCluster(_) => R::DescribeCluster(self.describe_cluster()),
            Q::FindCoordinator(request) => R::FindCoordinator(self.find_coordinator(request, version)),
            Q::CreateTopics(request) => R::CreateTopics(self.create_topics(&request, version)),
            Q::CreatePartitions(request) => R::CreatePartitions(self.create_partitions(&request)),
            Q::DeleteTopics(request) => R::DeleteTopics(self.delete_topics(&request)),
            Q::DescribeConfigs(request) => R::DescribeConfigs(self.describe_configs(&request)),
            Q::InitProducerId(request) => R::InitProducerId(self.init_producer_id(&request, version, now)),
            Q::AddPartitionsToTxn(request) => R::AddPartitionsToTxn(self.add_partitions(&request, version, now)),
            Q::AddOffsetsToTxn(request) => R::AddOffsetsToTxn(self.add_offsets(&request, version, now)),
            Q::TxnOffsetCommit(request) => R::TxnOffsetCommit(self.commit_in_transaction(&request, now)),
            Q::EndTxn(request) => R::EndTxn(self.end_transaction(&request, version, now)),
            Q::OffsetCommit(request) => R::OffsetCommit(self.commit_offsets(&request, now)),
            Q::OffsetFetch(request) => R::OffsetFetch(self.fetch_offsets(&request, version)),
            Q::OffsetDelete(request) => R::OffsetDelete(self.delete_offsets(&request)),
            Q::DescribeGroups(request) => R::DescribeGroups(self.describe_groups(&request)),
            Q::ListGroups(request) => R::ListGroups(self.list_groups(&request)),
            Q::DeleteGroups(request) => R::DeleteGroups(self.delete_groups(&request)),
            request => return self.dispatch_membership(caller, request, now, out),
        })
    }

    /// The requests that can move a deadline of a group.
    fn dispatch_membership(
        &mut self,
        caller: Caller,
        request: RequestKind,
        now: i64,
        out: &mut Vec<Reply>,
    ) -> Option<ResponseKind> {
        let response = match request {
            RequestKind::JoinGroup(request) => {
                self.join_group(caller, &request, now, out);
                None
            }
            RequestKind::SyncGroup(request) => {
                self.sync_group(caller, &request, now, out);
                None
            }
            RequestKind::Heartbeat(request) => Some(ResponseKind::Heartbeat(self.heartbeat(&request, now))),
            RequestKind::LeaveGroup(request) => {
                Some(ResponseKind::LeaveGroup(self.leave_group(&request, caller.version, now, out)))
            }
            _ => return None,
        };
        self.groups.find_deadline();
        response
    }
}
