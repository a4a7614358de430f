//! The broker seam: all that the runtime asks of Kafka, and of the machine it runs on.
//!
//! Two sides implement it. `crate::rdkafka` is the real one, on librdkafka. `crate::embedded::direct` talks to the embedded
//! broker's state machine without a network; a simulation uses it, because there every call is a point at which one seed
//! decides what happens next. The worker, the commit, the rebalance and the recovery above the seam are the same code on both.
//!
//! The seam moves records in batches: a poll hands borrowed records to a callback, a send takes a slice. Nothing here is
//! `async`, and nothing above it may ask the machine for time, sleep or threads other than through [`Host`].

use std::fmt;
use std::time::Duration;

use flow_core::{HeadersRef, Offset, Partition, RecordRef, Timestamp};

/// Makes the clients of one Kafka cluster, and gives the runtime its clock and its threads.
pub trait Broker: Send + Sync + 'static {
    /// A member of the consumer group, for one worker. It does not join before [`Consumer::subscribe`].
    fn consumer(&self, spec: &ConsumerSpec) -> Result<Box<dyn Consumer>, BrokerError>;
    /// A transactional producer, for one worker. It must be initialised before its first transaction.
    fn producer(&self, spec: &ProducerSpec) -> Result<Box<dyn Producer>, BrokerError>;
    /// A producer without transactions.
    fn sender(&self, client_id: &str) -> Result<Box<dyn Sender>, BrokerError>;
    /// A client that reads snapshots and committed offsets, outside the group.
    fn reader(&self) -> Result<Box<dyn Reader>, BrokerError>;
    /// A client that describes and creates topics.
    fn admin(&self) -> Result<Box<dyn Admin>, BrokerError>;
    /// Clock, sleep and threads.
    fn host(&self) -> &dyn Host;
}

/// The machine: everything that is not a function of the records.
pub trait Host: Send + Sync {
    /// The wall clock.
    fn now(&self) -> Timestamp;
    /// Time since some fixed start; never goes back.
    fn elapsed(&self) -> Duration;
    /// Sleeps on the calling thread.
    fn sleep(&self, time: Duration);
    /// Starts a named thread.
    fn spawn(&self, name: &str, run: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Joiner>, BrokerError>;
    /// Bytes that no other call, in this process or another one, will ever return: they make ids unique.
    fn unique(&self) -> u64;
}

/// Waits for a thread that [`Host::spawn`] started.
pub trait Joiner: Send {
    /// Blocks until the thread has ended; a panic of the thread is its message.
    fn join(self: Box<Self>) -> Result<(), String>;
    /// True once the thread has ended.
    fn is_finished(&self) -> bool;
}

/// What makes one group member.
#[derive(Clone, Debug)]
pub struct ConsumerSpec {
    /// The consumer group; also the application id.
    pub group: String,
    /// Range if any task has several inputs, else cooperative-sticky.
    pub assignor: Assignor,
    /// A name for logs, unique in the process. The name of a static member is made with it.
    pub client_id: String,
}

/// How the group's leader spreads partitions. A group has one: the two kinds do not mix in a rolling upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignor {
    /// Equal partition numbers of all topics go to one member (eager: everything is revoked at each rebalance).
    Range,
    /// Partitions stay where they are as far as possible (cooperative: only what moves is revoked).
    CooperativeSticky,
}

/// What makes one transactional producer.
#[derive(Clone, Debug)]
pub struct ProducerSpec {
    /// Unique for each incarnation of a worker: initialising it again would fence this producer.
    pub transactional_id: String,
    /// A name for logs, unique in the process.
    pub client_id: String,
}

impl fmt::Display for Assignor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Assignor::Range => "range",
            Assignor::CooperativeSticky => "cooperative-sticky",
        })
    }
}

/// One partition of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic's full name.
    pub topic: String,
    /// The partition's number.
    pub partition: Partition,
}

impl TopicPartition {
    /// The partition `partition` of `topic`.
    pub fn new(topic: impl Into<String>, partition: i32) -> Self {
        TopicPartition { topic: topic.into(), partition: Partition(partition) }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition.0)
    }
}

/// A member of the group, in one generation of it. Only a fresh one may carry offsets: see [`Consumer::generation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The group.
    pub group: String,
    /// The generation's number: 1 or more.
    pub id: i32,
    /// The member: never empty.
    pub member: String,
    /// The static member's name, if it has one.
    pub instance: Option<String>,
}

/// A group member. Owned and used by one worker thread.
pub trait Consumer: Send {
    /// Joins the group for these topics.
    fn subscribe(&mut self, topics: &[String]) -> Result<(), BrokerError>;
    /// Waits up to `timeout` for records or a rebalance and hands each record that is there, up to a few thousand, to `each`.
    ///
    /// A rebalance is only noted inside the client; it comes back from here, with no record after it in the same call, and
    /// waits for [`acknowledge`](Self::acknowledge). Until then no record of any partition is handed out.
    /// `each` answers [`Next::Stop`] to leave the rest for the next call: that record counts as not handed out. Not for long: who
    /// wants no more records for a while pauses, or the client cannot get past them to a rebalance.
    fn poll(
        &mut self,
        timeout: Duration,
        each: &mut dyn FnMut(&Polled<'_>) -> Next,
    ) -> Result<Option<Rebalance>, BrokerError>;
    /// Answers a rebalance after everything was done for it. Newly assigned partitions start paused; a revoked one must not be
    /// touched afterwards.
    fn acknowledge(&mut self, rebalance: &Rebalance) -> Result<(), BrokerError>;
    /// Moves an owned partition to `offset` and lets its records flow.
    fn start(&mut self, at: &[(TopicPartition, Offset)]) -> Result<(), BrokerError>;
    /// Stops the records of owned partitions until [`resume`](Self::resume). Records already handed out are not handed out again.
    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), BrokerError>;
    /// Lets them flow again from where they were paused.
    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), BrokerError>;
    /// Reads the group membership from the client, now. An unknown generation (no member, or none yet) is an error
    /// ([`ErrorKind::NoGeneration`]): the broker would accept it from anybody.
    fn generation(&mut self) -> Result<Generation, BrokerError>;
    /// Commits offsets outside of any transaction, as the member that this is, and waits for the broker's answer: what it says of each
    /// partition that it names. An error: there is no answer, or one for all of them together.
    fn commit(&mut self, offsets: &[OffsetCommit], timeout: Duration) -> Result<Vec<CommitAnswer>, BrokerError>;
    /// Where the client is in a partition that was started, and the end of the partition as it last saw it, without asking the
    /// broker. `None`: not known yet.
    fn standing(&mut self, partition: &TopicPartition) -> Option<Standing>;
    /// How far the client is behind the end that it last saw: see [`standing`](Self::standing).
    fn lag(&mut self, partition: &TopicPartition) -> Option<u64> {
        self.standing(partition).map(|standing| standing.lag())
    }
    /// Leaves the group and closes. A pending rebalance is acknowledged inside.
    fn close(self: Box<Self>);
}

/// What a commit outside of a transaction answers for one partition.
#[derive(Clone, Debug)]
pub struct CommitAnswer {
    /// The partition.
    pub partition: TopicPartition,
    /// The offset.
    pub offset: Offset,
    /// Why it is not committed.
    pub error: Option<BrokerError>,
}

/// How far a member has come in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The offset behind the last record that was handed out, and behind markers and gaps that were passed.
    pub position: Offset,
    /// The high watermark: records of open transactions count.
    pub end: Offset,
}

impl Standing {
    /// Offsets between the two.
    pub fn lag(&self) -> u64 {
        u64::try_from(self.end.0 - self.position.0).unwrap_or(0)
    }
}

/// One record from a poll, borrowed from the client.
pub struct Polled<'r> {
    /// The topic.
    pub topic: &'r str,
    /// The partition.
    pub partition: Partition,
    /// The record: offset, key, value, timestamp, headers.
    pub record: RecordRef<'r>,
}

/// What a poll's callback answers for each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The record was taken; go on.
    Continue,
    /// The record was not taken; it comes again with the next poll.
    Stop,
}

/// A change of what this member owns. Acknowledge it with [`Consumer::acknowledge`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebalance {
    /// These partitions are now ours, in addition to the ones we have (may be empty).
    Assigned(Vec<TopicPartition>),
    /// These must be given up; until the acknowledgement we still own them and may commit.
    Revoked(Vec<TopicPartition>),
    /// These are gone already: nothing may be committed for them.
    Lost(Vec<TopicPartition>),
}

/// A topic that a [`Sender`] sends to, by number: see [`Sender::topic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicId(pub u32);

/// One record to send, borrowed from the kept effects.
#[derive(Clone, Copy)]
pub struct Outgoing<'r> {
    /// The topic.
    pub topic: TopicId,
    /// The partition: always chosen by us (Kafka's murmur2).
    pub partition: Partition,
    /// The key; `None` is null.
    pub key: Option<&'r [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'r [u8]>,
    /// The create time; `None` lets the client choose now. 0 cannot be sent by librdkafka and is sent as 1.
    pub timestamp: Option<Timestamp>,
    /// The headers.
    pub headers: HeadersRef<'r>,
}

/// Next offset to read of a partition, and what we note beside it (at most 4,096 bytes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommit {
    /// The partition.
    pub partition: TopicPartition,
    /// The offset of the next record to process.
    pub offset: Offset,
    /// Clocks, transactional id, member, commit number: `crate::offsets` writes it.
    pub metadata: String,
}

/// Sends records. By itself, as [`Broker::sender`] makes it, without transactions: what it sends is visible at once, and in order
/// unless a call fails; then nobody knows what has arrived. Owned and used by one worker thread.
pub trait Sender: Send {
    /// The number of a topic, for [`Outgoing::topic`].
    fn topic(&mut self, name: &str) -> Result<TopicId, BrokerError>;
    /// Takes the records into the client's queue; waits for room there, up to the configured `message.timeout.ms`.
    fn send(&mut self, records: &[Outgoing<'_>]) -> Result<(), BrokerError>;
    /// Waits until every record is acknowledged. The error names the first record that was refused (topic, partition, reason).
    fn flush(&mut self, timeout: Duration) -> Result<(), BrokerError>;
}

/// A transactional producer. Owned and used by one worker thread.
///
/// Only `crate::commit` calls it, in this order: `begin`, `send`.., `flush`, `send_offsets`, `commit`; no way leads past a failed
/// `send_offsets` to `commit`.
pub trait Producer: Sender {
    /// Registers the transactional id; fences and aborts whatever used it before.
    fn init(&mut self, timeout: Duration) -> Result<(), BrokerError>;
    /// Opens a transaction (local).
    fn begin(&mut self) -> Result<(), BrokerError>;
    /// Adds offsets to the transaction. Refuses an empty list: Kafka's client would say Ok, send nothing, and fence nobody.
    fn send_offsets(
        &mut self,
        offsets: &[OffsetCommit],
        generation: &Generation,
        timeout: Duration,
    ) -> Result<(), BrokerError>;
    /// Commits. [`ErrorKind::Retriable`] after `timeout` means not known yet: call it again.
    fn commit(&mut self, timeout: Duration) -> Result<(), BrokerError>;
    /// Aborts. [`ErrorKind::Retriable`] after `timeout` means not known yet: call it again.
    fn abort(&mut self, timeout: Duration) -> Result<(), BrokerError>;
}

/// A committed offset as a stable fetch reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The offset of the next record to process.
    pub offset: Offset,
    /// What was noted beside it.
    pub metadata: String,
}

/// First offset and high watermark of a partition (the end of the log, open transactions included).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// The first offset that is still there.
    pub low: Offset,
    /// The offset after the last record.
    pub high: Offset,
}

/// A client outside the group: reads committed offsets and whole partitions (`read_committed`).
pub trait Reader: Send {
    /// The committed offsets of the group, stable: waits up to `timeout` while a transaction that commits some of them is open
    /// and then fails with [`ErrorKind::Unstable`]. `None`: never committed.
    fn committed(
        &mut self,
        group: &str,
        of: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>, BrokerError>;
    /// The committed offsets of the group as they stand without the transactions that are still open: never waits for one.
    fn last_committed(
        &mut self,
        group: &str,
        of: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>, BrokerError>;
    /// The ids of the group's members, those in the middle of a rebalance included. [`ErrorKind::Retriable`] while nobody can say
    /// for sure.
    fn members(&mut self, group: &str, timeout: Duration) -> Result<Vec<String>, BrokerError>;
    /// Both watermarks, `read_uncommitted`: the high one counts records of open transactions.
    fn watermarks(&mut self, of: &[TopicPartition], timeout: Duration) -> Result<Vec<Watermarks>, BrokerError>;
    /// Replaces what is read: each partition from an offset on.
    fn assign(&mut self, from: &[(TopicPartition, Offset)]) -> Result<(), BrokerError>;
    /// Waits up to `timeout` for records and hands out those that are there.
    fn poll(&mut self, timeout: Duration, each: &mut dyn FnMut(&Polled<'_>)) -> Result<(), BrokerError>;
    /// The offset after the last record, marker or gap that was passed; `None` before the first one.
    fn position(&mut self, of: &TopicPartition) -> Result<Option<Offset>, BrokerError>;
}

/// A topic as the broker has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// The number of partitions.
    pub partitions: i32,
    /// `cleanup.policy`, where it was asked for.
    pub cleanup_policy: Option<String>,
}

/// A topic to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// The full name.
    pub name: String,
    /// The number of partitions.
    pub partitions: i32,
    /// The replication factor; -1 takes the broker's default.
    pub replication: i32,
    /// Topic settings, such as `cleanup.policy`.
    pub config: Vec<(String, String)>,
}

/// Describes and creates topics.
pub trait Admin: Send {
    /// What the broker knows of these topics; `None` where a topic does not exist.
    fn topics(&mut self, names: &[String], timeout: Duration) -> Result<Vec<Option<TopicInfo>>, BrokerError>;
    /// Creates topics; one that exists already is not an error.
    fn create(&mut self, topics: &[NewTopic], timeout: Duration) -> Result<(), BrokerError>;
    /// Deletes all records below the offsets.
    fn delete_records(&mut self, below: &[(TopicPartition, Offset)], timeout: Duration) -> Result<(), BrokerError>;
}

/// What the caller can do about an error. The classes of `rd_kafka_error_t`, with the ones we must tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not done yet, or no answer: the same call again, until its deadline.
    Retriable,
    /// The transaction failed and must be aborted; the producer is good for another.
    Abort,
    /// What was sent got no answer in time (also an `Abort`): the broker is away, and nobody refused anything.
    Unanswered,
    /// The broker refused the generation or the member (also an `Abort`): we may not be the owner any more.
    StaleGeneration,
    /// Our transactional id was initialised by somebody, or the broker aborted at the transaction timeout: a new producer.
    Fenced,
    /// The client is of no use any more: a new one. What it was doing has an unknown outcome.
    Fatal,
    /// A record was refused by the broker (too large, timestamp out of range, unknown topic..): must be aborted.
    RecordRefused,
    /// The group membership is not known at this moment.
    NoGeneration,
    /// Another process has joined under our name of a static member, and took our place.
    InstanceTaken,
    /// The members of the group assign partitions in another way than we do.
    AssignorMismatch,
    /// A transaction that commits offsets of a partition is still open.
    Unstable,
    /// The topic or partition does not exist.
    UnknownTopic,
    /// An offset is out of the log's range: the log was truncated.
    OffsetOutOfRange,
    /// The request itself is wrong or not allowed: trying again will not help.
    Refused,
}

/// An error of the broker or its client.
#[derive(Clone, Debug)]
pub struct BrokerError {
    /// What can be done.
    pub kind: ErrorKind,
    /// What was tried, and what the broker or client said: plain words, with the error's Kafka name.
    pub message: String,
}

impl BrokerError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        BrokerError { kind, message: message.into() }
    }
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BrokerError {}
