//! What a test sees and does from outside: no process of its own, no steps, no time passes.

use std::sync::Arc;

use bytes::Bytes;
use flow_core::{Headers, Offset, Timestamp};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    BrokerId, GroupId, ListOffsetsRequest, OffsetFetchRequest, ProduceRequest, RequestKind, ResponseKind,
};
use kafka_protocol::protocol::StrBytes;

use super::admin::create_request;
use super::assign::{by_topic, topic_name};
use super::codes;
use super::fetcher::{fetch_request, partitions_of};
use super::net::Net;
use super::records::{self, Kept, Origin};
use crate::broker::{BrokerError, Committed, ErrorKind, NewTopic, TopicPartition};
use crate::embedded::ConnectionId;
use crate::sim::Scheduler;

/// A record as a test writes and reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Where it stands; ignored when it is written.
    pub offset: i64,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// Milliseconds since the epoch; -1 for none.
    pub timestamp: i64,
    /// The headers.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// The end of a log, where a time is asked for.
const END: i64 = -1;
/// Its start.
const START: i64 = -2;

/// Which records a reader gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Those of committed transactions, up to the first open one.
    Committed,
    /// All.
    Uncommitted,
}

/// Looks into the broker of a simulation. What it does happens at once, takes no time and is no step.
pub struct View {
    scheduler: Arc<Scheduler<Net>>,
    connection: ConnectionId,
}

impl View {
    pub(crate) fn new(scheduler: Arc<Scheduler<Net>>) -> Self {
        let connection = scheduler.world(|net, _| net.open(None));
        View { scheduler, connection }
    }

    fn ask(&self, what: &str, version: i16, request: RequestKind) -> Result<ResponseKind, BrokerError> {
        self.scheduler
            .world(|net, now| {
                let sent = net.send(self.connection, version, request, now)?;
                net.answer(self.connection, sent)
            })
            .ok_or_else(|| BrokerError::new(ErrorKind::Fatal, format!("{what}: the broker does not answer at once")))
    }

    /// Creates a topic.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), BrokerError> {
        self.create_topic_with(name, partitions, &[])
    }

    /// Creates a topic with these settings.
    pub fn create_topic_with(&self, name: &str, partitions: i32, config: &[(&str, &str)]) -> Result<(), BrokerError> {
        let config = config.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let topic = NewTopic { name: name.to_owned(), partitions, replication: 1, config };
        let what = format!("creating topic {name}");
        let request = RequestKind::CreateTopics(create_request(&[topic]));
        let ResponseKind::CreateTopics(answer) = self.ask(&what, 5, request)? else { return Err(odd(&what)) };
        answer.topics.iter().try_for_each(|topic| checked(&what, topic.error_code))
    }

    /// Appends records, in one batch, outside any transaction.
    pub fn produce(&self, partition: &TopicPartition, records: &[Seen]) -> Result<(), BrokerError> {
        let what = format!("producing to {partition}");
        let origin = Origin { producer: -1, epoch: -1, sequence: -1, transactional: false };
        let kept: Vec<Kept> = records.iter().map(written).collect();
        let bytes = records::encode(origin, &kept)
            .map_err(|message| BrokerError::new(ErrorKind::RecordRefused, format!("{what}: {message}")))?;
        let data = PartitionProduceData::default().with_index(partition.partition.0).with_records(Some(bytes));
        let topic = TopicProduceData::default().with_name(topic_name(&partition.topic)).with_partition_data(vec![data]);
        let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(1000).with_topic_data(vec![topic]);
        let ResponseKind::Produce(answer) = self.ask(&what, 7, RequestKind::Produce(request))? else {
            return Err(odd(&what));
        };
        let results = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
        results.into_iter().try_for_each(|result| checked(&what, result.error_code))
    }

    /// Compacts a partition now, and returns how many records went: see [`Machine::compact`](crate::embedded::Machine::compact).
    pub fn compact(&self, partition: &TopicPartition) -> Result<usize, BrokerError> {
        self.scheduler
            .world(|net, now| {
                net.machine(now, |machine, wall| machine.compact(&partition.topic, partition.partition.0, wall))
            })
            .map_err(|error| codes::refusal(ErrorKind::Refused, &format!("compacting {partition}"), error))
    }

    /// All records of a partition.
    pub fn read(&self, partition: &TopicPartition, isolation: Isolation) -> Result<Vec<Seen>, BrokerError> {
        let what = format!("reading {partition}");
        let (mut from, mut seen) = (0, Vec::new());
        loop {
            let request = fetch_request([(partition, from)], std::time::Duration::ZERO)
                .with_isolation_level(i8::from(isolation == Isolation::Committed));
            let ResponseKind::Fetch(answer) = self.ask(&what, 11, RequestKind::Fetch(request))? else {
                return Err(odd(&what));
            };
            let Some((_, data)) = partitions_of(&answer).next() else { return Ok(seen) };
            if data.error_code == kafka_protocol::ResponseError::OffsetOutOfRange.code() && from < data.log_start_offset
            {
                from = data.log_start_offset;
                continue;
            }
            checked(&what, data.error_code)?;
            let bytes = data.records.clone().unwrap_or_default();
            let aborted = data.aborted_transactions.as_deref().unwrap_or_default();
            let filter = (isolation == Isolation::Committed).then_some(aborted);
            let fetched = records::decode(&bytes, from, filter)
                .map_err(|message| BrokerError::new(ErrorKind::Fatal, format!("{what}: {message}")))?;
            seen.extend(fetched.records.iter().map(read));
            match fetched.next {
                Some(next) if next > from => from = next,
                _ => return Ok(seen),
            }
        }
    }

    /// True if no transaction is open on the partition: all of it is there for a reader of committed records.
    pub fn is_stable(&self, partition: &TopicPartition) -> Result<bool, BrokerError> {
        Ok(self.list(partition, END, Isolation::Committed)? == self.list(partition, END, Isolation::Uncommitted)?)
    }

    /// The first offset that was not deleted.
    pub fn first_offset(&self, partition: &TopicPartition) -> Result<i64, BrokerError> {
        self.list(partition, START, Isolation::Uncommitted)
    }

    fn list(&self, partition: &TopicPartition, which: i64, isolation: Isolation) -> Result<i64, BrokerError> {
        let what = format!("reading the ends of {partition}");
        let entry = ListOffsetsPartition::default().with_partition_index(partition.partition.0).with_timestamp(which);
        let topic = ListOffsetsTopic::default().with_name(topic_name(&partition.topic)).with_partitions(vec![entry]);
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_isolation_level(i8::from(isolation == Isolation::Committed))
            .with_topics(vec![topic]);
        let ResponseKind::ListOffsets(answer) = self.ask(&what, 5, RequestKind::ListOffsets(request))? else {
            return Err(odd(&what));
        };
        let entry = answer.topics.first().and_then(|topic| topic.partitions.first()).ok_or_else(|| odd(&what))?;
        checked(&what, entry.error_code)?;
        Ok(entry.offset)
    }

    /// The committed offsets of a group, whatever transactions are open.
    pub fn committed(&self, group: &str, of: &[TopicPartition]) -> Result<Vec<Option<Committed>>, BrokerError> {
        let what = format!("reading the committed offsets of group {group}");
        let topics = by_topic(of)
            .map(|(name, numbers)| OffsetFetchRequestTopic::default().with_name(name).with_partition_indexes(numbers));
        let request = OffsetFetchRequest::default()
            .with_group_id(GroupId(StrBytes::from_string(group.to_owned())))
            .with_topics(Some(topics.collect()));
        let ResponseKind::OffsetFetch(answer) = self.ask(&what, 7, RequestKind::OffsetFetch(request))? else {
            return Err(odd(&what));
        };
        checked(&what, answer.error_code)?;
        let find = |partition: &TopicPartition| {
            let topic = answer.topics.iter().find(|topic| **topic.name == *partition.topic)?;
            let entry = topic.partitions.iter().find(|entry| entry.partition_index == partition.partition.0)?;
            (entry.committed_offset >= 0).then(|| Committed {
                offset: Offset(entry.committed_offset),
                metadata: entry.metadata.as_ref().map(ToString::to_string).unwrap_or_default(),
            })
        };
        Ok(of.iter().map(find).collect())
    }
}

fn checked(what: &str, code: i16) -> Result<(), BrokerError> {
    match codes::error(code) {
        None => Ok(()),
        Some(error) => Err(codes::refusal(ErrorKind::Refused, what, error)),
    }
}

fn odd(what: &str) -> BrokerError {
    BrokerError::new(ErrorKind::Fatal, format!("{what}: the answer is of another kind"))
}

fn written(record: &Seen) -> Kept {
    let mut headers = Headers::default();
    for (name, value) in &record.headers {
        headers.push(name, value.as_deref());
    }
    Kept {
        offset: 0,
        key: record.key.clone().map(Bytes::from),
        value: record.value.clone().map(Bytes::from),
        timestamp: record.timestamp,
        headers,
    }
}

fn read(kept: &Kept) -> Seen {
    let record = kept.as_record();
    Seen {
        offset: kept.offset,
        key: record.key.map(<[u8]>::to_vec),
        value: record.value.map(<[u8]>::to_vec),
        timestamp: record.timestamp.map_or(-1, Timestamp::as_millis),
        headers: record.headers.iter().map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec))).collect(),
    }
}
