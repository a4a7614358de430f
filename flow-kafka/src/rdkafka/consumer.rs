//! A group member on librdkafka.
//!
//! Rebalances are only noted: librdkafka stops all records of this member and waits until somebody answers,
//! and heartbeats go on meanwhile. So the worker gets a rebalance from `poll`, with everything in its hands, and answers when
//! it is done.
//!
//! A partition is paused and then assigned at offset 0, which asks the broker for nothing. It flows once the
//! worker has recovered its state and says from where (`start`: seek, then resume). Records of a partition that was not started
//! are not handed out whatever librdkafka does: this table of partitions decides, too.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use flow_core::{Headers, Offset};
use rdkafka_sys as sys;

use super::client::{Client, c_string, millis};
use super::error::{Code, Failure, general_kind, heals_itself, text};
use super::feed::{BATCH, Feed, Notice, Watch};
use super::host::Deadline;
use super::list::{List, NO_OFFSET, entries};
use super::message::Message;
use super::parts::{Flow, Parts};
use super::queue::{Queue, Wake};
use super::reach::Reach;
use super::{raw, settings};
use crate::broker::{
    Assignor, BrokerError, CommitAnswer, Consumer, ConsumerSpec, ErrorKind, Generation, Next, OffsetCommit, Polled,
    Rebalance, Standing, TopicPartition,
};
use crate::config::ClientSettings;

/// How long an assigned partition may take until it can be moved to an offset: its start is asynchronous, but local.
const START_WAIT: Duration = Duration::from_secs(5);
/// How long a high watermark from before a start may be old news: several fetches.
const FRESH_AFTER: Duration = Duration::from_millis(300);
/// Longest wait between two looks at the events, so that the client knows that its user is alive.
const LOOK: Duration = Duration::from_secs(1);

pub(super) struct RdkafkaConsumer {
    parts: Parts,
    waiting: VecDeque<Message>,
    noted: VecDeque<Rebalance>,
    unanswered: Option<Rebalance>,
    headers: Headers,
    spec: ConsumerSpec,
    reach: Arc<Reach>,
    instance: Option<String>,
    // Last, in this order: what belongs to the client goes before the client.
    feed: Option<Feed>,
    client: Option<Client>,
}

impl RdkafkaConsumer {
    pub(super) fn new(settings: &ClientSettings, spec: &ConsumerSpec, reach: &Arc<Reach>) -> Result<Self, BrokerError> {
        let watch = Watch::of(reach);
        let client = Client::consumer(&settings::consumer(settings, spec)?, &watch)?;
        Ok(RdkafkaConsumer {
            parts: Parts::default(),
            waiting: VecDeque::new(),
            noted: VecDeque::new(),
            unanswered: None,
            headers: Headers::new(),
            spec: spec.clone(),
            reach: Arc::clone(reach),
            instance: settings.instance_of(&spec.client_id),
            feed: Some(Feed::new(&client, &watch)?),
            client: Some(client),
        })
    }

    // Both are only taken out by `drop`, which has no use for them afterwards.
    fn client(&self) -> &Client {
        self.client.as_ref().expect("the client lives until the consumer is dropped")
    }

    fn feed(&mut self) -> &mut Feed {
        self.feed.as_mut().expect("the feed lives until the consumer is dropped")
    }

    /// Takes what the client has, unless much waits already, and sorts out what is no record.
    fn listen(&mut self) -> Result<(), BrokerError> {
        if !self.is_full() {
            let feed = self.feed.as_mut().expect("the feed lives until the consumer is dropped");
            feed.take(&mut self.waiting);
        }
        while let Some(notice) = self.feed().notice() {
            match notice {
                Notice::Rebalance(rebalance) => {
                    log::debug!("{}: {rebalance:?}", self.spec.client_id);
                    self.noted.push_back(rebalance);
                }
                Notice::Error { code, text } => self.error(code, &text)?,
            }
        }
        Ok(())
    }

    /// Enough waits to be handed out. What waits for a paused partition does not count: behind it may be a rebalance, or the
    /// record that its task is waiting for.
    fn is_full(&mut self) -> bool {
        const ENOUGH: usize = 4 * BATCH;
        let (parts, waiting) = (&mut self.parts, &self.waiting);
        let mut flows = |message: &&Message| {
            parts.of(message).is_some_and(|part| matches!(part.flow, Flow::Started { paused: false, .. }))
        };
        waiting.len() >= ENOUGH && waiting.iter().filter(|message| flows(message)).count() >= ENOUGH
    }

    /// An error that is no record's. Most say that the client is busy healing itself.
    fn error(&self, code: Code, what: &str) -> Result<(), BrokerError> {
        let who = format!("the consumer {} of group {}", self.spec.client_id, self.spec.group);
        if let Some((code, text)) = self.client().fatal() {
            let kind = match general_kind(code) {
                ErrorKind::InstanceTaken => ErrorKind::InstanceTaken,
                _ => ErrorKind::Fatal,
            };
            return Err(BrokerError::new(kind, format!("{who}: {text} ({})", code.name())));
        }
        let message = format!("{who}: {what} ({})", code.name());
        if heals_itself(code) {
            self.reach.error(code, &message);
            return Ok(());
        }
        Err(BrokerError::new(general_kind(code), message))
    }

    /// Hands out the records that wait, but for those of paused partitions, which go on waiting in their order.
    fn hand_out(&mut self, each: &mut dyn FnMut(&Polled<'_>) -> Next) -> Result<bool, BrokerError> {
        let mut handed = false;
        let mut paused = 0;
        while let Some(message) = self.waiting.get(paused) {
            let Some(part) = self.parts.of(message) else {
                // An error of no partition of ours, or a record that came before its partition was given up.
                if let Some(message) = self.waiting.remove(paused)
                    && !matches!(message.code(), Code::NONE | Code::PARTITION_EOF)
                {
                    self.error(message.code(), &message.error_text())?;
                }
                continue;
            };
            match &part.flow {
                Flow::NotStarted => {
                    // Something that came between the assignment and the pause.
                    self.waiting.remove(paused);
                    continue;
                }
                Flow::Started { paused: true, .. } => {
                    paused += 1;
                    continue;
                }
                Flow::Started { paused: false, .. } => {}
            }
            if message.code() != Code::NONE {
                let (code, what, of) = (message.code(), message.error_text(), part.of.clone());
                self.waiting.remove(paused);
                self.partition_error(code, &what, &of)?;
                continue;
            }
            let polled = Polled {
                topic: &part.of.topic,
                partition: part.of.partition,
                record: message.record(&mut self.headers),
            };
            handed = true;
            if each(&polled) == Next::Stop {
                break;
            }
            self.waiting.remove(paused);
        }
        Ok(handed)
    }

    fn partition_error(&self, code: Code, what: &str, of: &TopicPartition) -> Result<(), BrokerError> {
        if code == Code::PARTITION_EOF {
            return Ok(());
        }
        self.error(code, &format!("{of}: {what}"))
    }

    /// Tells the client that these partitions are now ours or no more. Cooperatively a change is the difference, eagerly it is
    /// everything.
    fn answer(&mut self, rebalance: &Rebalance) -> Result<(), BrokerError> {
        let rk = self.client().raw();
        let eager = self.spec.assignor == Assignor::Range;
        match rebalance {
            Rebalance::Assigned(partitions) => {
                if eager {
                    self.parts.clear();
                }
                self.parts.add(partitions);
                self.pause_before_it_begins(partitions)?;
                let list = List::at(partitions.iter().map(|partition| (partition, 0)))?;
                // SAFETY: the client and the list live for the calls; what is returned is taken over.
                unsafe {
                    if eager {
                        Code(raw::rd_kafka_assign(rk, list.raw())).ok()
                    } else {
                        Failure::take(sys::rd_kafka_incremental_assign(rk, list.raw()))
                    }
                    .map_err(|failure| failure.general(format_args!("take over {}", names(partitions))))
                }
            }
            Rebalance::Revoked(partitions) | Rebalance::Lost(partitions) => {
                if eager {
                    self.parts.clear();
                } else {
                    self.parts.remove(partitions);
                }
                let parts = &self.parts;
                self.waiting.retain(|message| parts.owns(message.topic(), message.partition()));
                let list = List::of(partitions)?;
                // SAFETY: as above; null gives up everything.
                unsafe {
                    if eager {
                        Code(raw::rd_kafka_assign(rk, std::ptr::null())).ok()
                    } else {
                        Failure::take(sys::rd_kafka_incremental_unassign(rk, list.raw()))
                    }
                }
                .map_err(|failure| failure.general(format_args!("give up {}", names(partitions))))
            }
        }
    }

    /// Pauses partitions that the client may not know yet. A pause after the assignment would leave time for a fetch at offset
    /// 0, and where the first records were deleted that fails, and the partition with it: it could not be moved afterwards.
    fn pause_before_it_begins(&self, partitions: &[TopicPartition]) -> Result<(), BrokerError> {
        let list = List::of(partitions)?;
        // SAFETY: the client and the list live for the call.
        let code = Code(unsafe { raw::rd_kafka_position(self.client().raw(), list.raw()) });
        // Asking for a position makes the client know the partition; it is not there for the answer.
        code.ok().map_err(|failure| failure.general(format_args!("look at {}", names(partitions))))?;
        self.set_paused(partitions, true)
    }

    fn set_paused(&self, partitions: &[TopicPartition], paused: bool) -> Result<(), BrokerError> {
        if partitions.is_empty() {
            return Ok(());
        }
        let list = List::of(partitions)?;
        let rk = self.client().raw();
        let what = if paused { "pause" } else { "resume" };
        // SAFETY: the client and the list live for the call.
        let code = Code(unsafe {
            match paused {
                true => raw::rd_kafka_pause_partitions(rk, list.raw()),
                false => raw::rd_kafka_resume_partitions(rk, list.raw()),
            }
        });
        code.ok().map_err(|failure| failure.general(format_args!("{what} {}", names(partitions))))?;
        match list.entries().find(|entry| entry.code() != Code::NONE) {
            None => Ok(()),
            Some(entry) => Err(Failure::from(entry.code()).general(format_args!("{what} {}", entry.partition()))),
        }
    }

    /// Moves partitions to their offsets. One that the client has not yet begun to fetch cannot be moved: again, until it can.
    fn seek(&self, at: &[(TopicPartition, Offset)]) -> Result<(), BrokerError> {
        let deadline = Deadline::after(START_WAIT);
        let between = Wake::default();
        let mut left: Vec<_> = at.iter().map(|(partition, offset)| (partition, offset.0)).collect();
        while !left.is_empty() {
            let list = List::at(left.iter().copied())?;
            // SAFETY: the client and the list live for the call; the error is taken over.
            let sought = unsafe {
                Failure::take(sys::rd_kafka_seek_partitions(self.client().raw(), list.raw(), millis(deadline.left())))
            };
            let mut again = Vec::new();
            for entry in list.entries() {
                match entry.code() {
                    Code::NONE => {}
                    Code::STATE | Code::IN_PROGRESS | Code::PREV_IN_PROGRESS if !deadline.passed() => {
                        again.extend(left.iter().copied().filter(|(partition, _)| entry.is(partition)));
                    }
                    code => {
                        let what = format_args!("move {} to offset {}", entry.partition(), entry.offset()).to_string();
                        return Err(Failure::from(code).general(what));
                    }
                }
            }
            if let Err(failure) = sought {
                return Err(failure.general(format_args!("move {} to their offsets", names(at.iter().map(|(p, _)| p)))));
            }
            left = again;
            if !left.is_empty() {
                between.wait(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    fn mine(&self, partition: &TopicPartition) -> Result<usize, BrokerError> {
        self.parts.index(&partition.topic, partition.partition.0).ok_or_else(|| {
            let message = format!("{partition} is not assigned to the consumer {}", self.spec.client_id);
            BrokerError::new(ErrorKind::Refused, message)
        })
    }

    /// The end as the client last saw it; negative: not yet.
    fn seen_end(&self, partition: &TopicPartition) -> i64 {
        let Ok(topic) = c_string(&partition.topic) else { return NO_OFFSET };
        let (mut low, mut high) = (NO_OFFSET, NO_OFFSET);
        // SAFETY: the client, the name and both places live for the call.
        let code = Code(unsafe {
            raw::rd_kafka_get_watermark_offsets(
                self.client().raw(),
                topic.as_ptr(),
                partition.partition.0,
                &raw mut low,
                &raw mut high,
            )
        });
        if code == Code::NONE { high } else { NO_OFFSET }
    }
}

impl Consumer for RdkafkaConsumer {
    fn subscribe(&mut self, topics: &[String]) -> Result<(), BrokerError> {
        let topics: Vec<_> = topics.iter().map(|topic| TopicPartition::new(topic.as_str(), -1)).collect();
        let list = List::of(&topics)?;
        // SAFETY: the client and the list live for the call.
        let code = Code(unsafe { raw::rd_kafka_subscribe(self.client().raw(), list.raw()) });
        code.ok().map_err(|failure| failure.general(format_args!("subscribe to {}", names(&topics))))
    }

    fn poll(
        &mut self,
        timeout: Duration,
        each: &mut dyn FnMut(&Polled<'_>) -> Next,
    ) -> Result<Option<Rebalance>, BrokerError> {
        let deadline = Deadline::after(timeout);
        loop {
            self.listen()?;
            if self.unanswered.is_none() {
                if let Some(rebalance) = self.noted.pop_front() {
                    self.unanswered = Some(rebalance.clone());
                    return Ok(Some(rebalance));
                }
                if self.hand_out(each)? {
                    return Ok(None);
                }
            }
            let left = deadline.left();
            if left.is_zero() {
                return Ok(None);
            }
            self.feed().wait(left.min(LOOK));
        }
    }

    fn acknowledge(&mut self, rebalance: &Rebalance) -> Result<(), BrokerError> {
        if self.unanswered.as_ref() != Some(rebalance) {
            let message =
                format!("{rebalance:?} is not the rebalance that the consumer {} waits for", self.spec.client_id);
            return Err(BrokerError::new(ErrorKind::Refused, message));
        }
        // Also after a failure: what made it fail is the next thing that the client reports, and must not wait behind this.
        self.unanswered = None;
        self.answer(rebalance)
    }

    fn start(&mut self, at: &[(TopicPartition, Offset)]) -> Result<(), BrokerError> {
        if at.is_empty() {
            return Ok(());
        }
        let indices = at.iter().map(|(partition, _)| self.mine(partition)).collect::<Result<Vec<_>, _>>()?;
        self.waiting.retain(|message| {
            !at.iter().any(|(to, _)| to.partition.0 == message.partition() && to.topic == message.topic())
        });
        self.seek(at)?;
        for (index, (partition, offset)) in indices.into_iter().zip(at) {
            let old_end = self.seen_end(partition);
            let fresh = Deadline::after(FRESH_AFTER);
            self.parts.all[index].flow = Flow::Started { from: *offset, old_end, fresh, paused: false };
        }
        let partitions: Vec<_> = at.iter().map(|(partition, _)| partition.clone()).collect();
        self.set_paused(&partitions, false)
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), BrokerError> {
        for partition in partitions {
            let index = self.mine(partition)?;
            if let Flow::Started { paused, .. } = &mut self.parts.all[index].flow {
                *paused = true;
            }
        }
        self.set_paused(partitions, true)
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), BrokerError> {
        for partition in partitions {
            let index = self.mine(partition)?;
            match &mut self.parts.all[index].flow {
                Flow::Started { paused, .. } => *paused = false,
                Flow::NotStarted => {
                    let message = format!("{partition} cannot be resumed before it was started at an offset");
                    return Err(BrokerError::new(ErrorKind::Refused, message));
                }
            }
        }
        self.set_paused(partitions, false)
    }

    fn generation(&mut self) -> Result<Generation, BrokerError> {
        // SAFETY: the client lives. The metadata is a copy that is ours, read before it is freed.
        let (id, member) = unsafe {
            let metadata = sys::rd_kafka_consumer_group_metadata(self.client().raw());
            if metadata.is_null() {
                (-1, String::new())
            } else {
                let id = sys::rd_kafka_consumer_group_metadata_generation_id(metadata);
                let member = text(sys::rd_kafka_consumer_group_metadata_member_id(metadata)).to_owned();
                sys::rd_kafka_consumer_group_metadata_destroy(metadata);
                (id, member)
            }
        };
        // The broker takes an unknown member (-1 and "") for somebody outside the group and lets it commit unfenced.
        if id <= 0 || member.is_empty() {
            let message = format!(
                "the membership of {} in group {} is not known now (generation {id}, member {member:?})",
                self.spec.client_id, self.spec.group
            );
            return Err(BrokerError::new(ErrorKind::NoGeneration, message));
        }
        Ok(Generation { group: self.spec.group.clone(), id, member, instance: self.instance.clone() })
    }

    fn commit(&mut self, offsets: &[OffsetCommit], timeout: Duration) -> Result<Vec<CommitAnswer>, BrokerError> {
        // Without a membership the broker would take it for somebody's outside the group, and not compare anything.
        self.generation()?;
        let what = format!("commit offsets of group {}", self.spec.group);
        let mut list = List::with_capacity(offsets.len());
        for commit in offsets {
            list.push(&commit.partition, commit.offset.0, Some(&commit.metadata))?;
        }
        let queue = Queue::new(self.client())?;
        // SAFETY: the client, the list and the queue live for the call; there is no callback. The answer is an event of the queue.
        let sent = Code(unsafe {
            raw::rd_kafka_commit_queue(self.client().raw(), list.raw(), queue.raw(), None, std::ptr::null_mut())
        });
        sent.ok().map_err(|failure| failure.general(&what))?;
        let Some(event) = queue.event(timeout) else { return Err(Failure::from(Code::TIMED_OUT).general(&what)) };
        // SAFETY: the event lives while its list is read.
        let answers: Vec<CommitAnswer> = unsafe { entries(sys::rd_kafka_event_topic_partition_list(event.raw())) }
            .map(|entry| {
                let error = match entry.code() {
                    Code::NONE => None,
                    code => {
                        Some(Failure::from(code).general(format_args!("commit the offset of {}", entry.partition())))
                    }
                };
                CommitAnswer { partition: entry.partition(), offset: Offset(entry.offset()), error }
            })
            .collect();
        match event.code() {
            // The error of all is one of those of the partitions, where they have any.
            Code::NONE => Ok(answers),
            _ if answers.iter().any(|answer| answer.error.is_some()) => Ok(answers),
            code => Err(Failure { text: event.text(), ..code.into() }.general(&what)),
        }
    }

    fn standing(&mut self, partition: &TopicPartition) -> Option<Standing> {
        let index = self.parts.index(&partition.topic, partition.partition.0)?;
        let Flow::Started { from, old_end, fresh, .. } = &self.parts.all[index].flow else { return None };
        let list = List::of([partition]).ok()?;
        // SAFETY: the client and the list live for the call.
        let code = Code(unsafe { raw::rd_kafka_position(self.client().raw(), list.raw()) });
        // Unknown until something was passed.
        let position =
            list.entries().next().filter(|_| code == Code::NONE).map_or(from.0, |entry| entry.offset().max(from.0));
        let mut taken =
            self.waiting.iter().filter(|m| m.partition() == partition.partition.0 && m.topic() == partition.topic);
        let read = taken.next().map_or(position, Message::offset);
        let end = self.seen_end(partition);
        // An end seen in an earlier assignment says nothing about what came since.
        let known = end >= 0 && (end != *old_end || position > from.0 || fresh.passed());
        known.then_some(Standing { position: Offset(read), end: Offset(end) })
    }

    fn close(mut self: Box<Self>) {
        self.let_go(true);
    }
}

impl RdkafkaConsumer {
    /// Ends the client. A rebalance that nobody answered would hold it up for ever.
    fn let_go(&mut self, wait: bool) {
        if self.client.is_none() {
            return;
        }
        // Some may not have been listened to yet, behind an error that ended the last poll.
        while let Some(notice) = self.feed.as_ref().and_then(Feed::notice) {
            if let Notice::Rebalance(rebalance) = notice {
                self.noted.push_back(rebalance);
            }
        }
        for rebalance in self.unanswered.take().into_iter().chain(std::mem::take(&mut self.noted)) {
            if let Err(error) = self.answer(&rebalance) {
                log::debug!("{} is closing: {error}", self.spec.client_id);
            }
        }
        self.waiting.clear();
        self.feed = None;
        if let Some(client) = self.client.take()
            && wait
        {
            client.close();
        }
    }
}

impl Drop for RdkafkaConsumer {
    fn drop(&mut self) {
        self.let_go(false);
    }
}

/// For messages: some of the partitions, and how many more.
pub(super) fn names<'p>(partitions: impl IntoIterator<Item = &'p TopicPartition>) -> String {
    let all: Vec<_> = partitions.into_iter().map(TopicPartition::to_string).collect();
    match all.len() {
        0 => "no partition".to_owned(),
        1..=8 => all.join(", "),
        more => format!("{} and {} more", all[..8].join(", "), more - 8),
    }
}
