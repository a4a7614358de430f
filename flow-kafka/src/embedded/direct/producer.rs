//! The seam's transactional producer.
//!
//! Records wait in a queue and are shipped by a flush, a commit, or, where the seed says so, at once, as librdkafka's background
//! thread may. A failed call poisons the transaction or the producer as it does there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flow_core::{Headers, Timestamp};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, GroupId, InitProducerIdRequest, ProduceRequest,
    ProducerId, RequestKind, ResponseKind, TransactionalId, TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::assign::{by_topic, topic_name};
use super::codes::{self, Verdict};
use super::link::{Host, Judged, Link};
use super::records::{self, Kept, Origin};
use crate::broker::{
    BrokerError, ErrorKind, Generation, OffsetCommit, Outgoing, Producer, ProducerSpec, Sender, TopicId, TopicPartition,
};

/// A record larger than this is refused by the client, which leaves the transaction good (`message.max.bytes`).
const RECORD_BYTES: usize = 1_000_000;
/// A batch is closed when it reaches either bound.
const BATCH_BYTES: usize = 500_000;
const BATCH_RECORDS: usize = 10_000;

pub(super) struct DirectProducer {
    link: Link,
    id: String,
    transaction_timeout: Duration,
    message_timeout: Duration,
    start: Timestamp,
    topics: Topics,
    producer: i64,
    epoch: i16,
    state: State,
    queue: BTreeMap<TopicPartition, VecDeque<Kept>>,
    sequences: BTreeMap<TopicPartition, i32>,
    /// Partitions in the transaction, as the coordinator knows them.
    added: BTreeSet<TopicPartition>,
    offsets_added: bool,
    /// The batches that were sent and not answered: sent again, they must be the same.
    in_flight: BTreeMap<TopicPartition, usize>,
    /// A batch failed, or its outcome is not known: the broker may miss a sequence, so the epoch is raised after the abort.
    gap: bool,
}

/// Where the producer is in its life.
enum State {
    New,
    Ready,
    Open,
    /// A commit or an abort has no final answer yet.
    Ending {
        commit: bool,
    },
    /// The transaction can only be aborted.
    Failed(BrokerError),
    /// The producer is of no use any more.
    Dead(BrokerError),
}

impl DirectProducer {
    pub(super) fn new(
        host: &Arc<Host>,
        spec: &ProducerSpec,
        transaction_timeout: Duration,
        message_timeout: Duration,
    ) -> Self {
        DirectProducer {
            link: Link::open(host),
            id: spec.transactional_id.clone(),
            transaction_timeout,
            message_timeout,
            start: host.scheduler().options().start,
            topics: Topics::default(),
            producer: -1,
            epoch: -1,
            state: State::New,
            queue: BTreeMap::new(),
            sequences: BTreeMap::new(),
            added: BTreeSet::new(),
            offsets_added: false,
            in_flight: BTreeMap::new(),
            gap: false,
        }
    }

    fn transactional_id(&self) -> TransactionalId {
        TransactionalId(StrBytes::from_string(self.id.clone()))
    }

    /// An error of an open transaction leaves its mark on the producer.
    fn marked(&mut self, error: BrokerError) -> BrokerError {
        match error.kind {
            ErrorKind::Retriable => {}
            ErrorKind::Fenced | ErrorKind::Fatal => self.state = State::Dead(error.clone()),
            _ => self.state = State::Failed(error.clone()),
        }
        error
    }

    /// The transaction is open and nothing has failed in it.
    fn check_open(&self, what: &str) -> Result<(), BrokerError> {
        let wrong = |state: &str| BrokerError::new(ErrorKind::Refused, format!("{what}: {state}"));
        match &self.state {
            State::Open => Ok(()),
            State::New => Err(wrong("the producer was not initialised")),
            State::Ready => Err(wrong("no transaction is open")),
            State::Ending { .. } => Err(wrong("a commit or abort of the transaction has no final answer yet")),
            State::Failed(error) | State::Dead(error) => Err(error.clone()),
        }
    }

    fn init_request(&self) -> RequestKind {
        RequestKind::InitProducerId(
            InitProducerIdRequest::default()
                .with_transactional_id(Some(self.transactional_id()))
                .with_transaction_timeout_ms(self.transaction_timeout.as_millis() as i32)
                .with_producer_id(ProducerId(self.producer))
                .with_producer_epoch(self.epoch),
        )
    }

    /// `InitProducerId`: a producer id and its epoch; with the ones that it has, the next epoch (KIP-360).
    fn init_until(&mut self, deadline: Duration) -> Result<(), BrokerError> {
        let what = format!("initialising transactional id {}", self.id);
        let (producer, epoch) = self.link.ask(&what, 4, &self.init_request(), deadline, |answer| {
            let ResponseKind::InitProducerId(answer) = answer else { return None };
            let code = answer.error_code;
            Some(Judged::of(&what, code, codes::of_init(code), (answer.producer_id.0, answer.producer_epoch)))
        })?;
        (self.producer, self.epoch) = (producer, epoch);
        self.sequences.clear();
        self.gap = false;
        Ok(())
    }

    fn initialise(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        match &self.state {
            State::New => {}
            State::Dead(error) => return Err(error.clone()),
            _ => return Err(BrokerError::new(ErrorKind::Refused, "the producer was initialised before")),
        }
        match self.init_until(self.link.deadline(timeout)) {
            Ok(()) => self.state = State::Ready,
            Err(error) if matches!(error.kind, ErrorKind::Fenced | ErrorKind::Fatal) => return Err(self.marked(error)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn enqueue(&mut self, records: &[Outgoing<'_>]) -> Result<(), BrokerError> {
        self.check_open("send")?;
        let now = self.start + self.link.scheduler().clock();
        for record in records {
            let partition = self.topics.partition(record)?;
            let size = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
            if size > RECORD_BYTES {
                let text = format!("a record of {size} bytes for {partition} is larger than message.max.bytes");
                return Err(BrokerError::new(ErrorKind::RecordRefused, text));
            }
            self.queue.entry(partition).or_default().push_back(kept(record, now));
        }
        Ok(())
    }

    /// Sends all that is queued: first the new partitions to the coordinator, then batches.
    fn ship(&mut self, deadline: Duration) -> Result<(), BrokerError> {
        if self.queue.is_empty() {
            return Ok(());
        }
        let result = self.add_partitions(deadline).and_then(|()| {
            while !self.queue.is_empty() {
                self.produce(deadline)?;
            }
            Ok(())
        });
        result.map_err(|error| self.marked(error))
    }

    fn add_partitions(&mut self, deadline: Duration) -> Result<(), BrokerError> {
        let new: Vec<_> = self.queue.keys().filter(|&partition| !self.added.contains(partition)).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        let topics = by_topic(&new)
            .map(|(name, partitions)| AddPartitionsToTxnTopic::default().with_name(name).with_partitions(partitions));
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.transactional_id())
            .with_v3_and_below_producer_id(ProducerId(self.producer))
            .with_v3_and_below_producer_epoch(self.epoch)
            .with_v3_and_below_topics(topics.collect());
        let what = "adding partitions to the transaction";
        self.link.ask(what, 3, &RequestKind::AddPartitionsToTxn(request), deadline, |answer| {
            let ResponseKind::AddPartitionsToTxn(answer) = answer else { return None };
            let results = answer.results_by_topic_v3_and_below.iter().flat_map(|topic| {
                topic.results_by_partition.iter().map(|result| {
                    (format!("{what}: {}/{}", &*topic.name, result.partition_index), result.partition_error_code)
                })
            });
            Some(first_wrong(results, |code| match codes::error(code) {
                Some(kafka_protocol::ResponseError::UnknownTopicOrPartition) => {
                    Verdict::Failed(ErrorKind::RecordRefused)
                }
                _ => codes::of_transaction(code),
            }))
        })?;
        self.added.extend(new);
        Ok(())
    }

    /// One batch for each partition that has records.
    fn produce(&mut self, deadline: Duration) -> Result<(), BrokerError> {
        if self.in_flight.is_empty() {
            self.in_flight =
                self.queue.iter().map(|(partition, waiting)| (partition.clone(), batch_size(waiting))).collect();
        }
        let mut topics: BTreeMap<&str, Vec<PartitionProduceData>> = BTreeMap::new();
        for (partition, &count) in &self.in_flight {
            let Some(waiting) = self.queue.get_mut(partition) else { continue };
            let batch = &waiting.make_contiguous()[..count];
            let sequence = self.sequences.get(partition).copied().unwrap_or(0);
            let origin = Origin { producer: self.producer, epoch: self.epoch, sequence, transactional: true };
            let bytes = records::encode(origin, batch)
                .map_err(|message| BrokerError::new(ErrorKind::RecordRefused, message))?;
            let data = PartitionProduceData::default().with_index(partition.partition.0).with_records(Some(bytes));
            topics.entry(&partition.topic).or_default().push(data);
        }
        let topics = topics
            .into_iter()
            .map(|(name, data)| TopicProduceData::default().with_name(topic_name(name)).with_partition_data(data));
        let request = ProduceRequest::default()
            .with_transactional_id(Some(TransactionalId(StrBytes::from_string(self.id.clone()))))
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(topics.collect());
        self.gap = true;
        self.link.ask("produce", 7, &RequestKind::Produce(request), deadline, |answer| {
            let ResponseKind::Produce(answer) = answer else { return None };
            let results = answer.responses.iter().flat_map(|topic| {
                topic.partition_responses.iter().map(|result| {
                    let what = format!("a record for {}/{}", &*topic.name, result.index);
                    (what, result.error_code)
                })
            });
            Some(first_wrong(results, codes::of_produce))
        })?;
        self.gap = false;
        for (partition, count) in std::mem::take(&mut self.in_flight) {
            if let Some(waiting) = self.queue.get_mut(&partition) {
                waiting.drain(..count);
            }
            let sequence = self.sequences.entry(partition).or_default();
            *sequence = sequence.wrapping_add(count as i32);
        }
        self.queue.retain(|_, waiting| !waiting.is_empty());
        Ok(())
    }

    fn add_offsets(
        &mut self,
        offsets: &[OffsetCommit],
        generation: &Generation,
        timeout: Duration,
    ) -> Result<(), BrokerError> {
        if offsets.is_empty() {
            return Err(BrokerError::new(ErrorKind::Refused, "no offsets were given: the commit would fence nobody"));
        }
        self.check_open("send_offsets")?;
        let deadline = self.link.deadline(timeout);
        let result = self
            .ask_add_offsets(&generation.group, deadline)
            .and_then(|()| self.ask_commit_offsets(offsets, generation, deadline));
        result.map_err(|error| self.marked(error))
    }

    fn ask_add_offsets(&mut self, group: &str, deadline: Duration) -> Result<(), BrokerError> {
        if self.offsets_added {
            return Ok(());
        }
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(ProducerId(self.producer))
            .with_producer_epoch(self.epoch)
            .with_group_id(GroupId(StrBytes::from_string(group.to_owned())));
        let what = "adding offsets to the transaction";
        self.link.ask(what, 3, &RequestKind::AddOffsetsToTxn(request), deadline, |answer| {
            let ResponseKind::AddOffsetsToTxn(answer) = answer else { return None };
            Some(Judged::of(what, answer.error_code, codes::of_transaction(answer.error_code), ()))
        })?;
        self.offsets_added = true;
        Ok(())
    }

    fn ask_commit_offsets(
        &mut self,
        offsets: &[OffsetCommit],
        generation: &Generation,
        deadline: Duration,
    ) -> Result<(), BrokerError> {
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_group_id(GroupId(StrBytes::from_string(generation.group.clone())))
            .with_producer_id(ProducerId(self.producer))
            .with_producer_epoch(self.epoch)
            .with_generation_id(generation.id)
            .with_member_id(StrBytes::from_string(generation.member.clone()))
            .with_group_instance_id(generation.instance.clone().map(StrBytes::from_string))
            .with_topics(offset_topics(offsets));
        self.link.ask("sending offsets", 3, &RequestKind::TxnOffsetCommit(request), deadline, |answer| {
            let ResponseKind::TxnOffsetCommit(answer) = answer else { return None };
            let results = answer.topics.iter().flat_map(|topic| {
                topic.partitions.iter().map(|result| {
                    (format!("the offset of {}/{}", &*topic.name, result.partition_index), result.error_code)
                })
            });
            Some(first_wrong(results, codes::of_offsets))
        })
    }

    fn end(&mut self, commit: bool, deadline: Duration) -> Result<(), BrokerError> {
        if !self.added.is_empty() || self.offsets_added {
            self.state = State::Ending { commit };
            let request = EndTxnRequest::default()
                .with_transactional_id(self.transactional_id())
                .with_producer_id(ProducerId(self.producer))
                .with_producer_epoch(self.epoch)
                .with_committed(commit);
            let what = if commit { "committing the transaction" } else { "aborting the transaction" };
            let result = self.link.ask(what, 3, &RequestKind::EndTxn(request), deadline, |answer| {
                let ResponseKind::EndTxn(answer) = answer else { return None };
                Some(Judged::of(what, answer.error_code, codes::of_transaction(answer.error_code), ()))
            });
            result.map_err(|error| self.marked(error))?;
        }
        self.added.clear();
        self.offsets_added = false;
        self.state = State::Ready;
        Ok(())
    }

    fn commit_until(&mut self, deadline: Duration) -> Result<(), BrokerError> {
        if !matches!(self.state, State::Ending { commit: true }) {
            self.check_open("commit")?;
            self.ship(deadline)?;
        }
        self.end(true, deadline)
    }

    fn abort_until(&mut self, deadline: Duration) -> Result<(), BrokerError> {
        match &self.state {
            State::Open | State::Failed(_) | State::Ending { commit: false } => {}
            // The bump after an abort that was final.
            State::Ready if self.gap => {}
            _ => self.check_open("abort")?,
        }
        self.queue.clear();
        self.in_flight.clear();
        self.end(false, deadline)?;
        if self.gap {
            self.init_until(deadline).map_err(|error| match error.kind {
                ErrorKind::Fenced | ErrorKind::Fatal => self.marked(error),
                _ => error,
            })?;
        }
        Ok(())
    }
}

impl Sender for DirectProducer {
    fn topic(&mut self, name: &str) -> Result<TopicId, BrokerError> {
        Ok(self.topics.number(name))
    }

    fn send(&mut self, records: &[Outgoing<'_>]) -> Result<(), BrokerError> {
        let scheduler = Arc::clone(self.link.host().scheduler());
        let deadline = self.link.deadline(self.message_timeout);
        let at_once = scheduler.world(|net, _| net.random().chance(1, 4));
        let send = || {
            self.enqueue(records)?;
            // What goes wrong in the background shows at the flush.
            match at_once.then(|| self.ship(deadline)) {
                Some(Err(error)) if self.link.scheduler().is_crashed(self.link.process()) => Err(error),
                _ => Ok(()),
            }
        };
        super::link::call(&scheduler, format_args!("send {} records", records.len()), send, ok)
    }

    fn flush(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        let scheduler = Arc::clone(self.link.host().scheduler());
        let deadline = self.link.deadline(timeout);
        let flush = || {
            self.check_open("flush")?;
            self.ship(deadline)
        };
        super::link::call(&scheduler, format_args!("flush"), flush, ok)
    }
}

impl Producer for DirectProducer {
    fn init(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        let (scheduler, id) = (Arc::clone(self.link.host().scheduler()), self.id.clone());
        super::link::call(&scheduler, format_args!("init {id}"), || self.initialise(timeout), ok)
    }

    fn begin(&mut self) -> Result<(), BrokerError> {
        let scheduler = Arc::clone(self.link.host().scheduler());
        let begin = || match &self.state {
            State::Ready => {
                self.state = State::Open;
                Ok(())
            }
            State::Open => Err(BrokerError::new(ErrorKind::Refused, "begin: a transaction is open already")),
            _ => self.check_open("begin"),
        };
        super::link::call(&scheduler, format_args!("begin"), begin, ok)
    }

    fn send_offsets(
        &mut self,
        offsets: &[OffsetCommit],
        generation: &Generation,
        timeout: Duration,
    ) -> Result<(), BrokerError> {
        let scheduler = Arc::clone(self.link.host().scheduler());
        let text: Vec<_> = offsets.iter().map(|commit| format!("{}@{}", commit.partition, commit.offset.0)).collect();
        super::link::call(
            &scheduler,
            format_args!("send_offsets {} in generation {}", text.join(" "), generation.id),
            || self.add_offsets(offsets, generation, timeout),
            ok,
        )
    }

    fn commit(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        let scheduler = Arc::clone(self.link.host().scheduler());
        let deadline = self.link.deadline(timeout);
        super::link::call(&scheduler, format_args!("commit"), || self.commit_until(deadline), ok)
    }

    fn abort(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        let scheduler = Arc::clone(self.link.host().scheduler());
        let deadline = self.link.deadline(timeout);
        super::link::call(&scheduler, format_args!("abort"), || self.abort_until(deadline), ok)
    }
}

pub(super) fn ok((): &()) -> String {
    "ok".to_owned()
}

/// The first result that is no success; an error before a request to wait.
pub(super) fn first_wrong(results: impl Iterator<Item = (String, i16)>, judge: impl Fn(i16) -> Verdict) -> Judged<()> {
    let mut judged = Judged::Done(());
    for (what, code) in results {
        match Judged::of(&what, code, judge(code), ()) {
            Judged::Failed(error) => return Judged::Failed(error),
            Judged::Again => judged = Judged::Again,
            Judged::Done(()) => {}
        }
    }
    judged
}

/// How many of the waiting records make the next batch.
pub(super) fn batch_size(waiting: &VecDeque<Kept>) -> usize {
    let mut bytes = 0;
    let within = |record: &&Kept| {
        bytes += record.key.as_ref().map_or(0, Bytes::len) + record.value.as_ref().map_or(0, Bytes::len);
        bytes <= BATCH_BYTES
    };
    waiting.iter().take(BATCH_RECORDS).take_while(within).count().max(1)
}

pub(super) fn kept(record: &Outgoing<'_>, now: Timestamp) -> Kept {
    let timestamp = match record.timestamp.unwrap_or(now).as_millis() {
        // librdkafka's "unset": the seam sends it as 1.
        0 => 1,
        timestamp => timestamp,
    };
    Kept {
        offset: 0,
        key: record.key.map(Bytes::copy_from_slice),
        value: record.value.map(Bytes::copy_from_slice),
        timestamp,
        headers: Headers::from(record.headers),
    }
}

/// The topics that a client sends to, by their numbers.
#[derive(Default)]
pub(super) struct Topics(Vec<String>);

impl Topics {
    /// A topic's number, which it gets now if it has none.
    pub(super) fn number(&mut self, name: &str) -> TopicId {
        let known = self.0.iter().position(|topic| topic == name);
        let index = known.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        TopicId(index as u32)
    }

    /// Where a record goes.
    pub(super) fn partition(&self, record: &Outgoing<'_>) -> Result<TopicPartition, BrokerError> {
        match self.0.get(record.topic.0 as usize) {
            Some(topic) => Ok(TopicPartition { topic: topic.clone(), partition: record.partition }),
            None => Err(BrokerError::new(ErrorKind::Refused, format!("topic number {} is unknown", record.topic.0))),
        }
    }
}

fn offset_topics(offsets: &[OffsetCommit]) -> Vec<TxnOffsetCommitRequestTopic> {
    let mut topics: BTreeMap<&str, Vec<TxnOffsetCommitRequestPartition>> = BTreeMap::new();
    for commit in offsets {
        let partition = TxnOffsetCommitRequestPartition::default()
            .with_partition_index(commit.partition.partition.0)
            .with_committed_offset(commit.offset.0)
            .with_committed_metadata(Some(StrBytes::from_string(commit.metadata.clone())));
        topics.entry(&commit.partition.topic).or_default().push(partition);
    }
    topics
        .into_iter()
        .map(|(topic, partitions)| {
            TxnOffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(partitions)
        })
        .collect()
}
