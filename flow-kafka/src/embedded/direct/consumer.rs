//! The seam's consumer, for the worker's thread; its other half is the [`Member`] in the background.

use std::sync::Arc;
use std::time::Duration;

use flow_core::Offset;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::{GroupId, OffsetCommitRequest, OffsetCommitResponse, RequestKind, ResponseKind};
use kafka_protocol::protocol::StrBytes;

use super::assign::topic_name;
use super::codes;
use super::fetcher::Chunk;
use super::link::{self, Host, Judged, Link};
use super::member::{Member, MemberSettings};
use crate::broker::{
    BrokerError, CommitAnswer, Consumer, ErrorKind, Generation, Next, OffsetCommit, Polled, Rebalance, Standing,
    TopicPartition,
};
use crate::embedded::ConnectionId;
use crate::sim::{On, gone};

/// A poll hands out a seeded number of records up to this one, so that polls differ.
const RECORDS: u64 = 64;

pub(super) struct DirectConsumer {
    host: Arc<Host>,
    connection: ConnectionId,
}

/// What a poll found.
enum Found {
    Records(Vec<Chunk>),
    Rebalance(Rebalance),
    Nothing,
}

impl DirectConsumer {
    pub(super) fn new(host: &Arc<Host>, settings: MemberSettings) -> Self {
        let connection = host.scheduler().world(|net, now| net.open_member(host.process(), Member::new(settings, now)));
        DirectConsumer { host: Arc::clone(host), connection }
    }

    fn call<T>(
        &self,
        what: std::fmt::Arguments<'_>,
        run: impl FnOnce() -> Result<T, BrokerError>,
        show: impl FnOnce(&T) -> String,
    ) -> Result<T, BrokerError> {
        link::call(self.host.scheduler(), what, run, show)
    }

    /// Works on the member, as the client's own lock would allow.
    fn member<R>(&self, work: impl FnOnce(&mut Member, Duration) -> Result<R, BrokerError>) -> Result<R, BrokerError> {
        self.host
            .scheduler()
            .world(|net, now| net.member(self.connection, now, |member| work(member, now)))
            .unwrap_or_else(|| Err(gone()))
    }

    fn for_each(
        &self,
        what: &str,
        partitions: &[TopicPartition],
        run: impl Fn(&mut Member, &TopicPartition) -> Result<(), BrokerError>,
    ) -> Result<(), BrokerError> {
        self.call(
            format_args!("{what} {}", list(partitions)),
            || self.member(|member, _| partitions.iter().try_for_each(|partition| run(member, partition))),
            |()| "ok".to_owned(),
        )
    }

    /// Looks once for something to hand out. A rebalance comes after the records in front of it, or before.
    fn look(&self, records: bool) -> Result<Found, BrokerError> {
        let (mut max, first) =
            self.host.scheduler().world(|net, _| (1 + net.random().below(RECORDS) as usize, net.random().chance(1, 2)));
        self.member(|member, now| {
            member.polled(now);
            if let Some(failure) = member.take_failure() {
                return Err(failure);
            }
            if !member.may_hand_out() {
                return Ok(Found::Nothing);
            }
            if (first || !records)
                && let Some(rebalance) = member.next_rebalance()
            {
                return Ok(Found::Rebalance(rebalance));
            }
            let mut chunks = Vec::new();
            while records
                && max > 0
                && let Some(chunk) = member.fetcher.take(max)
            {
                max -= chunk.records.len();
                chunks.push(chunk);
            }
            if !chunks.is_empty() {
                return Ok(Found::Records(chunks));
            }
            Ok(member.next_rebalance().map_or(Found::Nothing, Found::Rebalance))
        })
    }

    /// Hands the records out until the callback stops; how many were taken.
    fn hand_out(
        &self,
        chunks: Vec<Chunk>,
        each: &mut dyn FnMut(&Polled<'_>) -> Next,
    ) -> Result<(usize, bool), BrokerError> {
        let mut taken = 0;
        let mut rest = Vec::new();
        for mut chunk in chunks {
            while rest.is_empty()
                && let Some(kept) = chunk.records.front()
            {
                let (topic, partition) = (chunk.partition.topic.as_str(), chunk.partition.partition);
                if each(&Polled { topic, partition, record: kept.as_record() }) == Next::Stop {
                    break;
                }
                taken += 1;
                chunk.records.pop_front();
            }
            if !chunk.records.is_empty() {
                rest.push(chunk);
            }
        }
        let stopped = !rest.is_empty();
        self.member(|member, _| {
            rest.into_iter().rev().for_each(|chunk| member.fetcher.give_back(chunk));
            Ok((taken, stopped))
        })
    }

    fn poll_until(
        &self,
        deadline: Duration,
        each: &mut dyn FnMut(&Polled<'_>) -> Next,
    ) -> Result<(usize, Option<Rebalance>), BrokerError> {
        let scheduler = self.host.scheduler();
        loop {
            match self.look(true)? {
                Found::Rebalance(rebalance) => return Ok((0, Some(rebalance))),
                Found::Records(chunks) => {
                    let (taken, stopped) = self.hand_out(chunks, each)?;
                    if stopped {
                        return Ok((taken, None));
                    }
                    return match self.look(false)? {
                        Found::Rebalance(rebalance) => Ok((taken, Some(rebalance))),
                        Found::Records(_) | Found::Nothing => Ok((taken, None)),
                    };
                }
                Found::Nothing if scheduler.clock() >= deadline => return Ok((0, None)),
                Found::Nothing => {
                    scheduler.wait(Some(deadline), On::World(self.connection)).map_err(|_| gone())?;
                }
            }
        }
    }

    fn leave(&self) {
        let _ = self.member(|member, _| {
            member.leave();
            Ok(())
        });
        self.host.scheduler().world(|net, _| net.close(self.connection));
    }
}

impl Consumer for DirectConsumer {
    fn subscribe(&mut self, topics: &[String]) -> Result<(), BrokerError> {
        self.call(
            format_args!("subscribe {}", topics.join(" ")),
            || {
                self.member(|member, now| {
                    member.subscribe(topics, now);
                    Ok(())
                })
            },
            |()| "ok".to_owned(),
        )
    }

    fn poll(
        &mut self,
        timeout: Duration,
        each: &mut dyn FnMut(&Polled<'_>) -> Next,
    ) -> Result<Option<Rebalance>, BrokerError> {
        let poll = || self.poll_until(self.host.scheduler().clock() + timeout, each);
        let show = |(taken, rebalance): &(usize, Option<Rebalance>)| match rebalance {
            Some(rebalance) => format!("{taken} records, {}", rebalance_text(rebalance)),
            None => format!("{taken} records"),
        };
        self.call(format_args!("poll {timeout:?}"), poll, show).map(|(_, rebalance)| rebalance)
    }

    fn commit(&mut self, offsets: &[OffsetCommit], timeout: Duration) -> Result<Vec<CommitAnswer>, BrokerError> {
        let generation = self.generation()?;
        let link = Link::open(&self.host);
        let text: Vec<_> = offsets.iter().map(|commit| format!("{}@{}", commit.partition, commit.offset.0)).collect();
        let commit = || commit_offsets(&link, &generation, offsets, timeout);
        self.call(format_args!("commit {}", text.join(" ")), commit, |answers| format!("{} answers", answers.len()))
    }

    fn acknowledge(&mut self, rebalance: &Rebalance) -> Result<(), BrokerError> {
        self.call(
            format_args!("acknowledge {}", rebalance_text(rebalance)),
            || self.member(|member, now| member.acknowledge(rebalance, now)),
            |()| "ok".to_owned(),
        )
    }

    fn start(&mut self, at: &[(TopicPartition, Offset)]) -> Result<(), BrokerError> {
        let text: Vec<String> = at.iter().map(|(partition, offset)| format!("{partition}@{}", offset.0)).collect();
        self.call(
            format_args!("start {}", text.join(" ")),
            || {
                self.member(|member, _| {
                    at.iter().try_for_each(|(partition, offset)| member.fetcher.start(partition, offset.0))
                })
            },
            |()| "ok".to_owned(),
        )
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), BrokerError> {
        self.for_each("pause", partitions, |member, partition| member.fetcher.set_paused(partition, true))
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), BrokerError> {
        self.for_each("resume", partitions, |member, partition| member.fetcher.set_paused(partition, false))
    }

    fn generation(&mut self) -> Result<Generation, BrokerError> {
        self.call(
            format_args!("generation"),
            || self.member(|member, _| member.generation()),
            |generation| format!("{} {}", generation.id, generation.member),
        )
    }

    fn standing(&mut self, partition: &TopicPartition) -> Option<Standing> {
        self.member(|member, _| Ok(member.fetcher.standing(partition))).ok().flatten()
    }

    fn close(self: Box<Self>) {
        let close = || {
            self.leave();
            Ok(())
        };
        // A caller that is gone has nothing to close.
        let _ = self.call(format_args!("close"), close, |()| "ok".to_owned());
    }
}

impl Drop for DirectConsumer {
    fn drop(&mut self) {
        // What the real client does in its destructor. After a crash the connection is closed already.
        self.leave();
    }
}

fn list(partitions: &[TopicPartition]) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn rebalance_text(rebalance: &Rebalance) -> String {
    match rebalance {
        Rebalance::Assigned(partitions) => format!("assigned [{}]", list(partitions)),
        Rebalance::Revoked(partitions) => format!("revoked [{}]", list(partitions)),
        Rebalance::Lost(partitions) => format!("lost [{}]", list(partitions)),
    }
}

/// `OffsetCommit`, repeated while its coordinator is not there.
fn commit_offsets(
    link: &Link,
    generation: &Generation,
    offsets: &[OffsetCommit],
    timeout: Duration,
) -> Result<Vec<CommitAnswer>, BrokerError> {
    let topics = offsets.iter().map(|commit| {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(commit.partition.partition.0)
            .with_committed_offset(commit.offset.0)
            .with_committed_metadata(Some(StrBytes::from_string(commit.metadata.clone())));
        OffsetCommitRequestTopic::default()
            .with_name(topic_name(&commit.partition.topic))
            .with_partitions(vec![partition])
    });
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(StrBytes::from_string(generation.group.clone())))
        .with_generation_id_or_member_epoch(generation.id)
        .with_member_id(StrBytes::from_string(generation.member.clone()))
        .with_group_instance_id(generation.instance.clone().map(StrBytes::from_string))
        .with_topics(topics.collect());
    let answer =
        link.ask("committing offsets", 7, &RequestKind::OffsetCommit(request), link.deadline(timeout), |answer| {
            let ResponseKind::OffsetCommit(answer) = answer else { return None };
            let again = codes_of(&answer).filter_map(|(.., code)| codes::error(code)).any(codes::is_transient);
            Some(if again { Judged::Again } else { Judged::Done(answer) })
        })?;
    let asked = |topic: &str, index: i32| {
        offsets.iter().find(|commit| commit.partition.topic == topic && commit.partition.partition.0 == index)
    };
    let answers = codes_of(&answer).filter_map(|(topic, index, code)| {
        let partition = TopicPartition::new(topic, index);
        let what = format!("committing the offset of {partition}");
        let error = codes::error(code).map(|error| codes::refusal(ErrorKind::StaleGeneration, &what, error));
        Some(CommitAnswer { offset: asked(topic, index)?.offset, partition, error })
    });
    Ok(answers.collect())
}

fn codes_of(answer: &OffsetCommitResponse) -> impl Iterator<Item = (&str, i32, i16)> {
    answer.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| (&**topic.name, partition.partition_index, partition.error_code))
    })
}
