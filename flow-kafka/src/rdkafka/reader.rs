//! A client outside the group: committed offsets, watermarks, and whole partitions from an offset on.
//!
//! One client does all three: the admin interface takes the group and the isolation level with each request, so committed
//! offsets are asked for as stable and watermarks as uncommitted, while records are read as committed.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::fmt::Display;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flow_core::{Headers, Offset, Partition};
use rdkafka_sys as sys;

use super::client::{Client, c_string};
use super::consumer::names;
use super::coordinator::Questions;
use super::error::{Code, Failure, general_kind, heals_itself};
use super::feed::{Feed, Notice, Watch};
use super::host::Deadline;
use super::list::{Entry, List, entries};
use super::members::members;
use super::message::Message;
use super::queue::{Queue, Wake};
use super::reach::Reach;
use super::request::{Options, answer, array};
use super::{raw, settings};
use crate::broker::{BrokerError, Committed, ErrorKind, Polled, Reader, TopicPartition, Watermarks};
use crate::config::ClientSettings;

/// Pause before a request whose answer was "not yet" is sent again.
const AGAIN: Duration = Duration::from_millis(5);

/// How long a new assignment may take until it replaces an old one: it is local, but waits for a fetch on the way.
const START_WAIT: Duration = Duration::from_secs(10);

pub(super) struct RdkafkaReader {
    settings: ClientSettings,
    reach: Arc<Reach>,
    assigned: Vec<(TopicPartition, Offset)>,
    waiting: VecDeque<Message>,
    headers: Headers,
    // Last, in this order: what belongs to the client goes before the client.
    questions: Questions,
    feed: Option<Feed>,
    client: Option<Client>,
}

impl RdkafkaReader {
    pub(super) fn new(settings: &ClientSettings, reach: &Arc<Reach>) -> Self {
        RdkafkaReader {
            settings: settings.clone(),
            reach: Arc::clone(reach),
            assigned: Vec::new(),
            waiting: VecDeque::new(),
            headers: Headers::new(),
            questions: Questions::default(),
            feed: None,
            client: None,
        }
    }

    /// The client, made at its first use: librdkafka wants a group's name for it, and the first caller knows one that its user
    /// has a right to. It never joins that group.
    fn client(&mut self, group: Option<&str>) -> Result<&Client, BrokerError> {
        if self.client.is_none() {
            static MADE: AtomicU64 = AtomicU64::new(0);
            let name = format!("reader-{}", MADE.fetch_add(1, Ordering::Relaxed));
            let settings = settings::reader(&self.settings, &name, group.unwrap_or("flow-reader"))?;
            let watch = Watch::of(&self.reach);
            let client = Client::consumer(&settings, &watch)?;
            self.feed = Some(Feed::new(&client, &watch)?);
            self.client = Some(client);
        }
        Ok(self.client.as_ref().expect("made above"))
    }

    /// Asks the group's coordinator something, with a new client where this one has lost hope.
    fn ask_coordinator<T>(
        &mut self,
        group: &str,
        ask: impl FnOnce(&Client, &mut Questions) -> Result<T, BrokerError>,
    ) -> Result<T, BrokerError> {
        if self.questions.are_hopeless() {
            self.renew(group)?;
        }
        self.client(Some(group))?;
        let client = self.client.as_ref().expect("made above");
        ask(client, &mut self.questions)
    }

    /// Goes on with a new client, from where this one has read to.
    fn renew(&mut self, group: &str) -> Result<(), BrokerError> {
        let mut from = self.assigned.clone();
        for (of, offset) in &mut from {
            let mut taken = self.waiting.iter().filter(|m| m.partition() == of.partition.0 && m.topic() == of.topic);
            let next = match taken.next() {
                Some(message) => Some(Offset(message.offset())),
                None => self.position(of)?,
            };
            *offset = next.unwrap_or(*offset);
        }
        log::debug!("the reader of group {group} goes on with a new client");
        // What belongs to the client goes before it.
        self.waiting.clear();
        self.questions = Questions::default();
        self.feed = None;
        self.client = None;
        self.client(Some(group))?;
        if from.is_empty() { Ok(()) } else { self.assign(&from) }
    }

    fn ask_committed(
        &mut self,
        group: &str,
        of: &[TopicPartition],
        stable: bool,
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>, BrokerError> {
        let what = format!("read the committed offsets of group {group}");
        let open = if stable { " once they are stable" } else { "" };
        let question = format!("{what} in {of:?}{open}");
        let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS;
        let event = self.ask_coordinator(group, |client, questions| {
            questions.ask(client, &question, operation, timeout, |options, queue| {
                let request = OffsetsOf::new(group, of)?;
                // SAFETY: client, options, request and queue live for the calls; librdkafka copies the request.
                unsafe {
                    Failure::take(sys::rd_kafka_AdminOptions_set_require_stable_offsets(
                        options.raw(),
                        c_int::from(stable),
                    ))
                    .map_err(|failure| failure.general(&what))?;
                    let mut requests = [request.0.as_ptr()];
                    let count = requests.len();
                    sys::rd_kafka_ListConsumerGroupOffsets(
                        client.raw(),
                        requests.as_mut_ptr(),
                        count,
                        options.raw(),
                        queue.raw(),
                    );
                }
                Ok(())
            })
        })?;
        let mut found: Vec<Option<Option<Committed>>> = vec![None; of.len()];
        // SAFETY: the answer is of this request; groups and partitions in it live with the event.
        unsafe {
            let result = sys::rd_kafka_event_ListConsumerGroupOffsets_result(event.raw());
            let mut count = 0;
            let groups = sys::rd_kafka_ListConsumerGroupOffsets_result_groups(result, &raw mut count);
            for group in array(groups.cast_const(), count) {
                Failure::read(sys::rd_kafka_group_result_error(*group)).map_err(|failure| failure.general(&what))?;
                for entry in entries(sys::rd_kafka_group_result_partitions(*group)) {
                    entry
                        .code()
                        .ok()
                        .map_err(|failure| failure.general(format_args!("{what} for {}", entry.partition())))?;
                    if let Some(index) = of.iter().position(|partition| entry.is(partition)) {
                        let is_there = entry.offset() >= 0;
                        found[index] = Some(is_there.then(|| committed(&entry)).transpose()?);
                    }
                }
            }
        }
        // "Never committed" is something that a broker has to say: a task would begin at the beginning.
        found
            .into_iter()
            .zip(of)
            .map(|(found, of)| found.ok_or_else(|| left_out(format_args!("{what} for {of}"))))
            .collect()
    }

    fn ask_watermarks(&mut self, of: &[TopicPartition], timeout: Duration) -> Result<Vec<Watermarks>, BrokerError> {
        let client = self.client(None)?;
        // Both are on the way at once.
        let low =
            ListOffsets::ask(client, of, sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_EARLIEST as i64, timeout)?;
        let high =
            ListOffsets::ask(client, of, sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i64, timeout)?;
        let (low, high) = (low.answer(of, timeout)?, high.answer(of, timeout)?);
        Ok(low.into_iter().zip(high).map(|(low, high)| Watermarks { low, high }).collect())
    }

    /// Waits until no position of an earlier assignment is left: librdkafka begins to read on a thread of its own and forgets
    /// the old position then. A new one only comes with the next poll.
    fn await_positions(&mut self) -> Result<(), BrokerError> {
        let deadline = Deadline::after(START_WAIT);
        let between = Wake::default();
        loop {
            let list = List::of(self.assigned.iter().map(|(of, _)| of))?;
            // SAFETY: the client and the list live for the call.
            let code = Code(unsafe { raw::rd_kafka_position(self.client(None)?.raw(), list.raw()) });
            code.ok().map_err(|failure| failure.general("read the positions"))?;
            let Some(old) = list.entries().find(|entry| entry.offset() >= 0) else { return Ok(()) };
            if deadline.passed() {
                let message = format!("the reader does not begin to read {} again", old.partition());
                return Err(BrokerError::new(ErrorKind::Retriable, message));
            }
            between.wait(Duration::from_millis(1));
        }
    }

    /// Takes what the client has; false if that is nothing.
    fn listen(&mut self) -> Result<bool, BrokerError> {
        let (Some(feed), Some(client)) = (&mut self.feed, &self.client) else { return Ok(false) };
        feed.take(&mut self.waiting);
        while let Some(notice) = feed.notice() {
            // It is in no group, so there are no rebalances.
            let Notice::Error { code, text } = notice else { continue };
            let message = format!("the reader {}: {text} ({})", client.name(), code.name());
            if client.fatal().is_some() {
                return Err(BrokerError::new(ErrorKind::Fatal, message));
            }
            if !heals_itself(code) {
                return Err(BrokerError::new(general_kind(code), message));
            }
            self.reach.error(code, &message);
        }
        Ok(!self.waiting.is_empty())
    }

    /// Hands out what was taken from the client.
    fn hand_out(&mut self, each: &mut dyn FnMut(&Polled<'_>)) -> Result<(), BrokerError> {
        while let Some(message) = self.waiting.pop_front() {
            let (topic, partition, code) = (message.topic(), message.partition(), message.code());
            match code {
                Code::NONE => {
                    let record = message.record(&mut self.headers);
                    each(&Polled { topic, partition: Partition(partition), record });
                }
                Code::PARTITION_EOF => {}
                code if heals_itself(code) => {
                    log::debug!("the reader at {topic}/{partition}: {}", message.error_text());
                }
                code => {
                    let failure = Failure { text: message.error_text(), ..code.into() };
                    return Err(failure.general(format_args!("read {topic}/{partition}")));
                }
            }
        }
        Ok(())
    }
}

impl Reader for RdkafkaReader {
    fn committed(
        &mut self,
        group: &str,
        of: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>, BrokerError> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        until(timeout, |left| self.ask_committed(group, of, true, left))
    }

    fn last_committed(
        &mut self,
        group: &str,
        of: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>, BrokerError> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        until(timeout, |left| self.ask_committed(group, of, false, left))
    }

    fn members(&mut self, group: &str, timeout: Duration) -> Result<Vec<String>, BrokerError> {
        self.ask_coordinator(group, |client, questions| members(client, questions, group, timeout))
    }

    fn watermarks(&mut self, of: &[TopicPartition], timeout: Duration) -> Result<Vec<Watermarks>, BrokerError> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        until(timeout, |left| self.ask_watermarks(of, left))
    }

    fn assign(&mut self, from: &[(TopicPartition, Offset)]) -> Result<(), BrokerError> {
        self.waiting.clear();
        let list = List::at(from.iter().map(|(partition, offset)| (partition, offset.0)))?;
        // SAFETY: the client and the list live for the call.
        let code = Code(unsafe { raw::rd_kafka_assign(self.client(None)?.raw(), list.raw()) });
        code.ok().map_err(|failure| failure.general(format_args!("read {}", names(from.iter().map(|(of, _)| of)))))?;
        self.assigned = from.to_vec();
        self.await_positions()
    }

    fn poll(&mut self, timeout: Duration, each: &mut dyn FnMut(&Polled<'_>)) -> Result<(), BrokerError> {
        let deadline = Deadline::after(timeout);
        loop {
            if self.listen()? {
                return self.hand_out(each);
            }
            let left = deadline.left();
            match &self.feed {
                Some(feed) if !left.is_zero() => feed.wait(left.min(Duration::from_secs(1))),
                _ => return Ok(()),
            }
        }
    }

    fn position(&mut self, of: &TopicPartition) -> Result<Option<Offset>, BrokerError> {
        let Some((_, from)) = self.assigned.iter().find(|(partition, _)| partition == of) else {
            let message = format!("the reader does not read {of}");
            return Err(BrokerError::new(ErrorKind::Refused, message));
        };
        let from = from.0;
        let list = List::of([of])?;
        // SAFETY: the client and the list live for the call.
        let code = Code(unsafe { raw::rd_kafka_position(self.client(None)?.raw(), list.raw()) });
        code.ok().map_err(|failure| failure.general(format_args!("read the position in {of}")))?;
        Ok(list.entries().next().map(|entry| entry.offset()).filter(|offset| *offset > from).map(Offset))
    }
}

/// Asks again while the answer is "not yet", until the time is over.
fn until<T>(timeout: Duration, mut ask: impl FnMut(Duration) -> Result<T, BrokerError>) -> Result<T, BrokerError> {
    let deadline = Deadline::after(timeout);
    let between = Wake::default();
    let mut unstable = None;
    loop {
        match ask(deadline.left()) {
            Err(error) if matches!(error.kind, ErrorKind::Retriable | ErrorKind::Unstable) => {
                // The last request may have run out of time for no other reason than this one.
                if error.kind == ErrorKind::Unstable {
                    unstable = Some(error.clone());
                }
                between.wait(AGAIN.min(deadline.left()));
                if deadline.passed() {
                    return Err(unstable.unwrap_or(error));
                }
            }
            done => return done,
        }
    }
}

fn committed(entry: &Entry<'_>) -> Result<Committed, BrokerError> {
    let Ok(metadata) = std::str::from_utf8(entry.metadata()) else {
        let message = format!("the metadata of the committed offset of {} is not UTF-8", entry.partition());
        return Err(BrokerError::new(ErrorKind::Refused, message));
    };
    Ok(Committed { offset: Offset(entry.offset()), metadata: metadata.to_owned() })
}

/// The partitions of one group to ask for.
struct OffsetsOf(NonNull<sys::rd_kafka_ListConsumerGroupOffsets_t>);

impl OffsetsOf {
    fn new(group: &str, of: &[TopicPartition]) -> Result<OffsetsOf, BrokerError> {
        let list = List::of(of)?;
        let group = c_string(group)?;
        // SAFETY: both live for the call and are copied.
        let made = unsafe { sys::rd_kafka_ListConsumerGroupOffsets_new(group.as_ptr(), list.raw()) };
        NonNull::new(made)
            .map(OffsetsOf)
            .ok_or_else(|| BrokerError::new(ErrorKind::Refused, "could not ask for committed offsets"))
    }
}

impl Drop for OffsetsOf {
    fn drop(&mut self) {
        // SAFETY: live and only ours.
        unsafe { sys::rd_kafka_ListConsumerGroupOffsets_destroy(self.0.as_ptr()) };
    }
}

/// A request for one end of some partitions, on its way.
struct ListOffsets {
    queue: Queue,
}

impl ListOffsets {
    fn ask(client: &Client, of: &[TopicPartition], which: i64, timeout: Duration) -> Result<ListOffsets, BrokerError> {
        let queue = Queue::new(client)?;
        let list = List::at(of.iter().map(|partition| (partition, which)))?;
        let options = Options::new(client, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS, timeout)?;
        // SAFETY: client, options, list and queue live for the calls; librdkafka copies the list.
        unsafe {
            Failure::take(sys::rd_kafka_AdminOptions_set_isolation_level(
                options.raw(),
                sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED,
            ))
            .map_err(|failure| failure.general(what(of)))?;
            sys::rd_kafka_ListOffsets(client.raw(), list.raw(), options.raw(), queue.raw());
        }
        Ok(ListOffsets { queue })
    }

    fn answer(&self, of: &[TopicPartition], timeout: Duration) -> Result<Vec<Offset>, BrokerError> {
        // It looks for the leaders first, and finds none for a topic that does not exist.
        let event = answer(&self.queue, timeout, &what(of))?;
        let mut found = vec![None; of.len()];
        // SAFETY: the answer is of this request; the partitions in it live with the event.
        unsafe {
            let result = sys::rd_kafka_event_ListOffsets_result(event.raw());
            let mut count = 0;
            let infos = sys::rd_kafka_ListOffsets_result_infos(result, &raw mut count);
            for info in array(infos.cast_const(), count) {
                let entry = Entry::new(sys::rd_kafka_ListOffsetsResultInfo_topic_partition(*info));
                entry.code().ok().map_err(|failure| failure.general(what([&entry.partition()])))?;
                // Where the connection to a leader breaks librdkafka 2.12 answers "no error", and an offset that is none.
                if entry.offset() >= 0
                    && let Some(index) = of.iter().position(|partition| entry.is(partition))
                {
                    found[index] = Some(Offset(entry.offset()));
                }
            }
        }
        found.into_iter().zip(of).map(|(offset, of)| offset.ok_or_else(|| left_out(what([of])))).collect()
    }
}

/// What an answer is that says nothing about something that was asked for.
fn left_out(what: impl Display) -> BrokerError {
    BrokerError::new(ErrorKind::Retriable, format!("could not {what}: the answer leaves it out"))
}

fn what<'p>(of: impl IntoIterator<Item = &'p TopicPartition>) -> String {
    format!("read the watermarks of {}", names(of))
}
