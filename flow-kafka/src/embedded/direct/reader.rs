//! The seam's client outside the group: committed offsets, watermarks, and whole partitions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flow_core::Offset;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{
    BrokerId, DescribeGroupsRequest, FetchResponse, GroupId, ListOffsetsRequest, OffsetFetchRequest, RequestKind,
    ResponseKind,
};
use kafka_protocol::protocol::StrBytes;

use super::assign::by_topic;
use super::codes;
use super::fetcher::{fetch_request, partitions_of, read_partition};
use super::link::{Host, Judged, Link};
use super::records::Kept;
use crate::broker::{BrokerError, Committed, ErrorKind, Polled, Reader, TopicPartition, Watermarks};

/// Kafka's names for the first offset and the one after the last record.
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;

pub(super) struct DirectReader {
    link: Link,
    partitions: BTreeMap<TopicPartition, Position>,
}

#[derive(Clone, Copy)]
struct Position {
    next: i64,
    /// Whether anything was passed yet: a position at the end of the log is unknown, as in librdkafka.
    moved: bool,
}

fn offsets_text(of: &[TopicPartition], found: &[Option<Committed>]) -> String {
    let text = of.iter().zip(found).map(|(partition, committed)| match committed {
        Some(committed) => format!("{partition}@{}", committed.offset.0),
        None => format!("{partition}@none"),
    });
    text.collect::<Vec<_>>().join(" ")
}

/// What a poll brought: records to hand out.
type Brought = Vec<(TopicPartition, Vec<Kept>)>;

impl DirectReader {
    pub(super) fn new(host: &Arc<Host>) -> Self {
        DirectReader { link: Link::open(host), partitions: BTreeMap::new() }
    }

    fn fetch_offsets(
        &self,
        group: &str,
        of: &[TopicPartition],
        stable: bool,
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>, BrokerError> {
        let topics = by_topic(of)
            .map(|(name, numbers)| OffsetFetchRequestTopic::default().with_name(name).with_partition_indexes(numbers));
        let request = OffsetFetchRequest::default()
            .with_group_id(GroupId(StrBytes::from_string(group.to_owned())))
            .with_topics(Some(topics.collect()))
            .with_require_stable(stable);
        let what = format!("reading the committed offsets of group {group}");
        let mut unstable = None;
        let found =
            self.link.ask(&what, 7, &RequestKind::OffsetFetch(request), self.link.deadline(timeout), |answer| {
                let ResponseKind::OffsetFetch(answer) = answer else { return None };
                let mut found = BTreeMap::new();
                let mut codes = vec![(what.clone(), answer.error_code)];
                for topic in &answer.topics {
                    for entry in &topic.partitions {
                        let partition = TopicPartition::new(topic.name.to_string(), entry.partition_index);
                        codes.push((format!("{what} for {partition}"), entry.error_code));
                        let committed = (entry.committed_offset >= 0).then(|| Committed {
                            offset: Offset(entry.committed_offset),
                            metadata: entry.metadata.as_ref().map(ToString::to_string).unwrap_or_default(),
                        });
                        found.insert(partition, committed);
                    }
                }
                for (what, code) in codes {
                    match Judged::of(&what, code, codes::of_read(code), ()) {
                        Judged::Done(()) => {}
                        Judged::Again => return Some(Judged::Again),
                        // Asked again until the transaction has ended or the time is over.
                        Judged::Failed(error) if error.kind == ErrorKind::Unstable => {
                            unstable = Some(error);
                            return Some(Judged::Again);
                        }
                        Judged::Failed(error) => return Some(Judged::Failed(error)),
                    }
                }
                unstable = None;
                Some(Judged::Done(found))
            });
        match (found, unstable) {
            (Ok(found), _) => Ok(of.iter().map(|partition| found.get(partition).cloned().flatten()).collect()),
            (Err(error), Some(unstable)) if error.kind == ErrorKind::Retriable => Err(unstable),
            (Err(error), _) => Err(error),
        }
    }

    fn describe_group(&self, group: &str, timeout: Duration) -> Result<Vec<String>, BrokerError> {
        let what = format!("describing group {group}");
        let id = GroupId(StrBytes::from_string(group.to_owned()));
        let request = RequestKind::DescribeGroups(DescribeGroupsRequest::default().with_groups(vec![id]));
        self.link.ask(&what, 5, &request, self.link.deadline(timeout), |answer| {
            let ResponseKind::DescribeGroups(answer) = answer else { return None };
            let described = answer.groups.first()?;
            let code = described.error_code;
            if code == 0 && !["Stable", "PreparingRebalance", "CompletingRebalance"].contains(&&*described.group_state)
            {
                let text = format!("{what}: it is {}, so nobody is a member for sure", described.group_state);
                return Some(Judged::Failed(BrokerError::new(ErrorKind::Retriable, text)));
            }
            let members = described.members.iter().map(|member| member.member_id.to_string()).collect();
            Some(Judged::of(&what, code, codes::of_read(code), members))
        })
    }

    /// Offsets by Kafka's special timestamps, uncommitted records counted.
    fn list(
        &self,
        of: &[TopicPartition],
        timestamp: i64,
        deadline: Duration,
    ) -> Result<BTreeMap<TopicPartition, i64>, BrokerError> {
        let topics = by_topic(of).map(|(name, numbers)| {
            let partitions = numbers
                .into_iter()
                .map(|number| ListOffsetsPartition::default().with_partition_index(number).with_timestamp(timestamp));
            ListOffsetsTopic::default().with_name(name).with_partitions(partitions.collect())
        });
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_isolation_level(0)
            .with_topics(topics.collect());
        self.link.ask("listing offsets", 5, &RequestKind::ListOffsets(request), deadline, |answer| {
            let ResponseKind::ListOffsets(answer) = answer else { return None };
            let mut found = BTreeMap::new();
            for topic in &answer.topics {
                for entry in &topic.partitions {
                    let partition = TopicPartition::new(topic.name.to_string(), entry.partition_index);
                    let what = format!("listing offsets of {partition}");
                    match Judged::of(&what, entry.error_code, codes::of_read(entry.error_code), ()) {
                        Judged::Done(()) => found.insert(partition, entry.offset),
                        Judged::Again => return Some(Judged::Again),
                        Judged::Failed(error) => return Some(Judged::Failed(error)),
                    };
                }
            }
            Some(Judged::Done(found))
        })
    }

    fn both_ends(&self, of: &[TopicPartition], timeout: Duration) -> Result<Vec<Watermarks>, BrokerError> {
        let deadline = self.link.deadline(timeout);
        let low = self.list(of, EARLIEST, deadline)?;
        let high = self.list(of, LATEST, deadline)?;
        of.iter()
            .map(|partition| match (low.get(partition), high.get(partition)) {
                (Some(&low), Some(&high)) => Ok(Watermarks { low: Offset(low), high: Offset(high) }),
                _ => {
                    let text = format!("listing offsets: the answer has none for {partition}");
                    Err(BrokerError::new(ErrorKind::Fatal, text))
                }
            })
            .collect()
    }

    /// One fetch. A long wait is the broker's, with what is there after it.
    fn fetch(&mut self, timeout: Duration) -> Result<Brought, BrokerError> {
        let from = self.partitions.iter().map(|(partition, at)| (partition, at.next));
        let request = RequestKind::Fetch(fetch_request(from, timeout));
        // Room for the broker to answer a fetch that waited for as long as it may.
        let deadline = self.link.deadline(timeout + Duration::from_secs(1));
        let answer = match self.link.request("fetch", 11, &request, deadline)? {
            None => return Ok(Vec::new()),
            Some(ResponseKind::Fetch(answer)) => answer,
            Some(_) => {
                return Err(BrokerError::new(ErrorKind::Fatal, "fetch: the answer is of another kind"));
            }
        };
        self.take_in(&answer)
    }

    fn take_in(&mut self, answer: &FetchResponse) -> Result<Brought, BrokerError> {
        let mut brought = Vec::new();
        for (partition, data) in partitions_of(answer) {
            let Some(at) = self.partitions.get_mut(&partition) else { continue };
            let Some(fetched) = read_partition(&partition, at.next, data)? else { continue };
            if let Some(next) = fetched.next.filter(|&next| next > at.next) {
                *at = Position { next, moved: true };
                brought.push((partition, fetched.records.into()));
            }
        }
        Ok(brought)
    }
}

impl Reader for DirectReader {
    fn committed(
        &mut self,
        group: &str,
        of: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>, BrokerError> {
        self.link.call(
            format_args!("committed of {} partitions", of.len()),
            || self.fetch_offsets(group, of, true, timeout),
            |found| offsets_text(of, found),
        )
    }

    fn last_committed(
        &mut self,
        group: &str,
        of: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>, BrokerError> {
        self.link.call(
            format_args!("last committed of {} partitions", of.len()),
            || self.fetch_offsets(group, of, false, timeout),
            |found| offsets_text(of, found),
        )
    }

    fn members(&mut self, group: &str, timeout: Duration) -> Result<Vec<String>, BrokerError> {
        self.link.call(
            format_args!("members of group {group}"),
            || self.describe_group(group, timeout),
            |members| members.join(" "),
        )
    }

    fn watermarks(&mut self, of: &[TopicPartition], timeout: Duration) -> Result<Vec<Watermarks>, BrokerError> {
        self.link.call(
            format_args!("watermarks of {} partitions", of.len()),
            || self.both_ends(of, timeout),
            |found| {
                let text =
                    of.iter().zip(found).map(|(partition, at)| format!("{partition}:{}..{}", at.low.0, at.high.0));
                text.collect::<Vec<_>>().join(" ")
            },
        )
    }

    fn assign(&mut self, from: &[(TopicPartition, Offset)]) -> Result<(), BrokerError> {
        let text: Vec<_> = from.iter().map(|(partition, offset)| format!("{partition}@{}", offset.0)).collect();
        let scheduler = Arc::clone(self.link.host().scheduler());
        let assign = || {
            let place = |(partition, offset): &(TopicPartition, Offset)| {
                (partition.clone(), Position { next: offset.0, moved: false })
            };
            self.partitions = from.iter().map(place).collect();
            Ok(())
        };
        super::link::call(&scheduler, format_args!("assign {}", text.join(" ")), assign, |()| "ok".to_owned())
    }

    fn poll(&mut self, timeout: Duration, each: &mut dyn FnMut(&Polled<'_>)) -> Result<(), BrokerError> {
        let scheduler = Arc::clone(self.link.host().scheduler());
        let count =
            |brought: &Brought| format!("{} records", brought.iter().map(|(_, records)| records.len()).sum::<usize>());
        let brought = super::link::call(&scheduler, format_args!("read {timeout:?}"), || self.fetch(timeout), count)?;
        for (partition, records) in &brought {
            for kept in records {
                let (topic, partition) = (partition.topic.as_str(), partition.partition);
                each(&Polled { topic, partition, record: kept.as_record() });
            }
        }
        Ok(())
    }

    fn position(&mut self, of: &TopicPartition) -> Result<Option<Offset>, BrokerError> {
        match self.partitions.get(of) {
            Some(at) => Ok(at.moved.then_some(Offset(at.next))),
            None => Err(BrokerError::new(ErrorKind::Refused, format!("partition {of} is not assigned to this reader"))),
        }
    }
}
