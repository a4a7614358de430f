//! A producer on librdkafka, with transactions or without.
//!
//! A delivery report comes only for a record that failed; it is the only thing that names the record, so the first one is kept
//! and becomes the error of whatever the transaction does next. While such reports wait in the client's queue a flush, a commit
//! or an abort waits for them up to its timeout. So all three run in slices, and the reports are read in between.

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use rdkafka_sys as sys;

use super::client::{Client, c_string, millis};
use super::error::{Code, Failure, delivery_kind};
use super::host::Deadline;
use super::list::List;
use super::outgoing::{Fields, Mem, Member, U, headers, message, parts};
use super::queue::Queue;
use super::reach::Reach;
use super::{raw, settings};
use crate::broker::{
    BrokerError, ErrorKind, Generation, OffsetCommit, Outgoing, Producer, ProducerSpec, Sender, TopicId,
};
use crate::config::ClientSettings;

/// One slice of a flush, a commit or an abort. A call that has nothing to wait for returns earlier.
const SLICE: Duration = Duration::from_millis(20);
/// How long an abort lets records on the way arrive. Purged in flight, they would make the next transaction fail, too.
const SETTLE: Duration = Duration::from_secs(1);
/// Records without a timestamp go to librdkafka in runs of at most this.
const RUN: usize = 1000;

pub(super) struct RdkafkaProducer {
    /// Its transactional id, or what stands for it.
    name: String,
    reach: Arc<Reach>,
    message_timeout: Duration,
    /// The first thing that went wrong with a record of this transaction.
    failed: Option<BrokerError>,
    run: Run,
    // In this order: what belongs to the client goes before the client.
    topics: Vec<Topic>,
    queue: Queue,
    client: Client,
}

struct Topic {
    name: String,
    handle: NonNull<sys::rd_kafka_topic_t>,
}

// SAFETY: a topic handle may be used from any thread.
unsafe impl Send for Topic {}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: live, and our reference.
        unsafe { sys::rd_kafka_topic_destroy(self.handle.as_ptr()) };
    }
}

/// Scratch space for a run of records; its pointers are only valid during a send.
struct Run(Vec<sys::rd_kafka_message_t>);

// SAFETY: see above; it is empty between calls.
unsafe impl Send for Run {}

impl RdkafkaProducer {
    pub(super) fn new(settings: &ClientSettings, spec: &ProducerSpec, reach: &Arc<Reach>) -> Result<Self, BrokerError> {
        let events = sys::RD_KAFKA_EVENT_DR | sys::RD_KAFKA_EVENT_ERROR;
        let client = Client::producer(&settings::producer(settings, spec)?, events, reach)?;
        RdkafkaProducer::of(client, spec.transactional_id.clone(), settings, reach)
    }

    /// One without transactions, which goes by its client's name.
    pub(super) fn plain(settings: &ClientSettings, client_id: &str, reach: &Arc<Reach>) -> Result<Self, BrokerError> {
        let events = sys::RD_KAFKA_EVENT_DR | sys::RD_KAFKA_EVENT_ERROR;
        let client = Client::producer(&settings::sender(settings, client_id)?, events, reach)?;
        RdkafkaProducer::of(client, client_id.to_owned(), settings, reach)
    }

    fn of(client: Client, name: String, settings: &ClientSettings, reach: &Arc<Reach>) -> Result<Self, BrokerError> {
        Ok(RdkafkaProducer {
            name,
            reach: Arc::clone(reach),
            message_timeout: settings.message_timeout,
            failed: None,
            run: Run(Vec::with_capacity(RUN)),
            topics: Vec::new(),
            queue: Queue::of_producer(&client)?,
            client,
        })
    }

    /// The handle, for tests that make the client's mock cluster fail.
    #[cfg(test)]
    pub(super) fn raw(&self) -> *mut sys::rd_kafka_t {
        self.client.raw()
    }

    /// Reads the reports and errors that have come, waiting up to `timeout` for the first.
    fn serve_events(&mut self, mut timeout: Duration) {
        while let Some(event) = self.queue.event(timeout) {
            timeout = Duration::ZERO;
            match event.kind() {
                sys::RD_KAFKA_EVENT_DR => {
                    event.deliveries(|topic, partition, code| {
                        note(&mut self.failed, &self.name, topic, partition, code);
                    });
                }
                sys::RD_KAFKA_EVENT_ERROR => {
                    let (id, what, code) = (&self.name, event.text(), event.code());
                    self.reach.error(code, &format!("the producer {id}: {what} ({})", code.name()));
                }
                other => log::debug!("the producer {}: event {other} of the Kafka client", self.name),
            }
        }
    }

    /// A record's failure explains more than the transaction's that follows from it.
    fn explain(&self, failure: &Failure, what: &str) -> BrokerError {
        let error = failure.transactional(format_args!("{what} {}", self.name));
        if failure.code == Code::TIMED_OUT {
            self.reach.suspect(&error.message);
        }
        match (&self.failed, error.kind) {
            (Some(failed), ErrorKind::Abort) => failed.clone(),
            (Some(failed), ErrorKind::Refused) if failed.kind == ErrorKind::RecordRefused => failed.clone(),
            _ => error,
        }
    }

    /// Repeats a resumable call in slices until its answer is final, reading reports in between.
    fn in_slices(
        &mut self,
        timeout: Duration,
        what: &str,
        call: unsafe extern "C" fn(*mut sys::rd_kafka_t, c_int) -> *mut sys::rd_kafka_error_t,
    ) -> Result<(), BrokerError> {
        let deadline = Deadline::after(timeout);
        loop {
            // SAFETY: the client lives; the error is taken over.
            let answer = unsafe { Failure::take(call(self.client.raw(), millis(deadline.left().min(SLICE)))) };
            self.serve_events(Duration::ZERO);
            match answer {
                Ok(()) => return Ok(()),
                Err(failure) if failure.retriable && failure.code == Code::TIMED_OUT && !deadline.passed() => {}
                Err(failure) => return Err(self.explain(&failure, what)),
            }
        }
    }

    /// Waits for all records, or for the first that fails; false when the time is over.
    fn drain(&mut self, timeout: Duration) -> bool {
        let deadline = Deadline::after(timeout);
        loop {
            // SAFETY: the client lives.
            let code = Code(unsafe { raw::rd_kafka_flush(self.client.raw(), millis(deadline.left().min(SLICE))) });
            self.serve_events(Duration::ZERO);
            if code == Code::NONE || self.failed.is_some() {
                return true;
            }
            if deadline.passed() {
                return false;
            }
        }
    }

    /// What a refused send means.
    fn refused(&mut self, code: Code, topic: TopicId, partition: i32, size: usize) -> BrokerError {
        self.serve_events(Duration::ZERO);
        let at = format!("{}/{partition}", self.topics[topic.0 as usize].name);
        if let Some((code, text)) = self.client.fatal() {
            let failure = Failure { text, fatal: true, ..code.into() };
            return self.explain(&failure, &format!("send a record to {at} of the producer"));
        }
        if let Some(failed) = &self.failed {
            return failed.clone();
        }
        let (id, failure) = (&self.name, Failure::from(code));
        let message = format!("could not send a record of {size} bytes to {at} of the producer {id}: {failure}");
        BrokerError::new(delivery_kind(code), message)
    }

    /// Waits until the client's queue has room.
    fn make_room(&mut self, deadline: Deadline) -> Result<(), BrokerError> {
        // A flush sends what still lingers.
        // SAFETY: the client lives.
        unsafe { raw::rd_kafka_flush(self.client.raw(), millis(Duration::from_millis(5))) };
        self.serve_events(Duration::ZERO);
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if deadline.passed() {
            let (id, waited) = (&self.name, self.message_timeout);
            let message = format!("the queue of the producer {id} was full for {waited:?}: the broker takes nothing");
            return Err(BrokerError::new(ErrorKind::Unanswered, message));
        }
        Ok(())
    }

    /// Sends records of one topic that need neither timestamp nor headers, in one call for each partition.
    ///
    /// One call could take several partitions; but librdkafka 2.12, when it has no metadata of the topic yet, then adds a
    /// partition -1 to the transaction, which the broker never accepts.
    fn send_run(&mut self, records: &[Outgoing<'_>]) -> Result<(), BrokerError> {
        let deadline = Deadline::after(self.message_timeout);
        let topic = records[0].topic;
        let mut run = std::mem::take(&mut self.run.0);
        run.clear();
        run.extend(records.iter().map(message));
        // A stable sort: the order within a partition stays.
        run.sort_by_key(|message| message.partition);
        let sent = run
            .chunk_by_mut(|one, next| one.partition == next.partition)
            .try_for_each(|messages| self.send_to_partition(topic, messages, deadline));
        run.clear();
        self.run.0 = run;
        sent
    }

    fn send_to_partition(
        &mut self,
        topic: TopicId,
        mut messages: &mut [sys::rd_kafka_message_t],
        deadline: Deadline,
    ) -> Result<(), BrokerError> {
        let handle = self.topics[topic.0 as usize].handle.as_ptr();
        while let Some(first) = messages.first() {
            let partition = first.partition;
            // SAFETY: the topic is of this client. librdkafka copies keys and values, which live for the call, and only reads
            // them; it writes the error of each message into the array.
            let taken = unsafe {
                let count = c_int::try_from(messages.len()).unwrap_or(c_int::MAX);
                sys::rd_kafka_produce_batch(handle, partition, sys::RD_KAFKA_MSG_F_COPY, messages.as_mut_ptr(), count)
            };
            if usize::try_from(taken) == Ok(messages.len()) {
                break;
            }
            // SAFETY: each place holds a message that librdkafka has given a code.
            let code = |message: &sys::rd_kafka_message_t| unsafe { raw::code_at(&raw const message.err) };
            let Some(failed) = messages.iter().position(|message| code(message) != Code::NONE) else { break };
            let (code, size) = (code(&messages[failed]), messages[failed].key_len + messages[failed].len);
            if code != Code::QUEUE_FULL {
                return Err(self.refused(code, topic, partition, size));
            }
            // After the first one that found no room, none is taken: the rest goes on in order.
            messages = &mut messages[failed..];
            self.make_room(deadline)?;
        }
        Ok(())
    }

    /// Sends one record with all that it has.
    fn send_one(&mut self, record: &Outgoing<'_>) -> Result<(), BrokerError> {
        let deadline = Deadline::after(self.message_timeout);
        let topic = self.topics[record.topic.0 as usize].handle.as_ptr();
        loop {
            let headers = headers(record.headers)?;
            let (key, key_size) = parts(record.key);
            let (value, value_size) = parts(record.value);
            let mut fields = Fields::new();
            fields.push(sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_RKT, U { rkt: topic });
            fields.push(sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_PARTITION, U { i32_: record.partition.0 });
            fields.push(sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_MSGFLAGS, U { i: sys::RD_KAFKA_MSG_F_COPY });
            fields.push(sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_KEY, U { mem: Mem { ptr: key, size: key_size } });
            fields.push(sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_VALUE, U { mem: Mem { ptr: value, size: value_size } });
            if let Some(timestamp) = record.timestamp {
                // 0 is librdkafka's "not set", which would become now.
                let millis = if timestamp.as_millis() == 0 { 1 } else { timestamp.as_millis() };
                fields.push(sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_TIMESTAMP, U { i64_: millis });
            }
            if let Some(headers) = headers {
                fields.push(sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_HEADERS, U { headers: headers.as_ptr() });
            }
            // SAFETY: the topic is of this client; key and value live for the call and are copied; the headers are ours.
            let answer =
                unsafe { Failure::take(sys::rd_kafka_produceva(self.client.raw(), fields.all.as_ptr(), fields.used)) };
            let Err(failure) = answer else { return Ok(()) };
            if let Some(headers) = headers {
                // SAFETY: librdkafka takes the headers over only if it takes the record.
                unsafe { sys::rd_kafka_headers_destroy(headers.as_ptr()) };
            }
            if failure.code != Code::QUEUE_FULL {
                let partition = record.partition.0;
                return Err(self.refused(failure.code, record.topic, partition, key_size + value_size));
            }
            self.make_room(deadline)?;
        }
    }
}

impl Sender for RdkafkaProducer {
    fn topic(&mut self, name: &str) -> Result<TopicId, BrokerError> {
        if let Some(index) = self.topics.iter().position(|topic| topic.name == name) {
            return Ok(TopicId(index as u32));
        }
        let c_name = c_string(name)?;
        // SAFETY: the client and the name live for the call; no configuration means the client's own.
        let handle = unsafe { sys::rd_kafka_topic_new(self.client.raw(), c_name.as_ptr(), ptr::null_mut()) };
        let Some(handle) = NonNull::new(handle) else {
            // SAFETY: reads the error of this thread's last call.
            let failure = Failure::from(Code(unsafe { raw::rd_kafka_last_error() }));
            return Err(failure.general(format_args!("use {name:?} as a topic")));
        };
        self.topics.push(Topic { name: name.to_owned(), handle });
        Ok(TopicId((self.topics.len() - 1) as u32))
    }

    fn send(&mut self, records: &[Outgoing<'_>]) -> Result<(), BrokerError> {
        if let Some(record) = records.iter().find(|record| record.topic.0 as usize >= self.topics.len()) {
            let message = format!("{:?} is no topic of the producer {}", record.topic, self.name);
            return Err(BrokerError::new(ErrorKind::Refused, message));
        }
        let plain = |record: &Outgoing<'_>| record.timestamp.is_none() && record.headers.is_empty();
        let mut left = records;
        while let Some((first, rest)) = left.split_first() {
            if plain(first) {
                let alike = |record: &&Outgoing<'_>| plain(record) && record.topic == first.topic;
                let count = left.iter().take(RUN).take_while(alike).count();
                let (run, rest) = left.split_at(count);
                self.send_run(run)?;
                left = rest;
            } else {
                self.send_one(first)?;
                left = rest;
            }
        }
        Ok(())
    }

    fn flush(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        let drained = self.drain(timeout);
        // A fence purges what waits; it explains more than the reports of that.
        if let Some((code, text)) = self.client.fatal() {
            return Err(self.explain(&Failure { text, fatal: true, ..code.into() }, "flush the producer"));
        }
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if !drained {
            let message = format!("the records of {} are not acknowledged after {timeout:?}", self.name);
            self.reach.suspect(&message);
            return Err(BrokerError::new(ErrorKind::Retriable, message));
        }
        Ok(())
    }
}

impl Producer for RdkafkaProducer {
    fn init(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        // SAFETY: the client lives; the error is taken over.
        let answer = unsafe { Failure::take(sys::rd_kafka_init_transactions(self.client.raw(), millis(timeout))) };
        self.serve_events(Duration::ZERO);
        answer.map_err(|failure| self.explain(&failure, "initialise the transactional producer"))
    }

    fn begin(&mut self) -> Result<(), BrokerError> {
        // What is left of an aborted transaction has nothing to say about the next one.
        self.serve_events(Duration::ZERO);
        self.failed = None;
        // SAFETY: the client lives; the error is taken over.
        let answer = unsafe { Failure::take(sys::rd_kafka_begin_transaction(self.client.raw())) };
        answer.map_err(|failure| self.explain(&failure, "begin a transaction of"))
    }

    fn send_offsets(
        &mut self,
        offsets: &[OffsetCommit],
        generation: &Generation,
        timeout: Duration,
    ) -> Result<(), BrokerError> {
        let id = &self.name;
        // librdkafka would say Ok to no offsets, or to invalid ones only, and ask the broker nothing: no fence.
        if offsets.is_empty() || offsets.iter().any(|commit| commit.offset.0 < 0) {
            let message =
                format!("a transaction of {id} must carry offsets, all of them 0 or more: they are its fence");
            return Err(BrokerError::new(ErrorKind::Refused, message));
        }
        if generation.id <= 0 || generation.member.is_empty() {
            let message = format!("a transaction of {id} needs a live generation of group {}", generation.group);
            return Err(BrokerError::new(ErrorKind::NoGeneration, message));
        }
        let mut list = List::with_capacity(offsets.len());
        for commit in offsets {
            list.push(&commit.partition, commit.offset.0, Some(&commit.metadata))?;
        }
        let member = Member::new(generation)?;
        // SAFETY: the client, the list and the membership live for the call; the error is taken over.
        let answer = unsafe {
            Failure::take(sys::rd_kafka_send_offsets_to_transaction(
                self.client.raw(),
                list.raw(),
                member.raw(),
                millis(timeout),
            ))
        };
        self.serve_events(Duration::ZERO);
        answer.map_err(|failure| self.explain(&failure, "add the offsets to the transaction of"))
    }

    fn commit(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        self.in_slices(timeout, "commit the transaction of", sys::rd_kafka_commit_transaction)
    }

    fn abort(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        if self.failed.is_none() {
            self.drain(timeout.min(SETTLE));
        }
        self.in_slices(timeout, "abort the transaction of", sys::rd_kafka_abort_transaction)?;
        self.failed = None;
        Ok(())
    }
}

/// Keeps the first failure of a record; one that only fell with the rest makes way for one that was refused itself.
fn note(kept: &mut Option<BrokerError>, id: &str, topic: &str, partition: i32, code: Code) {
    if code == Code::NONE {
        return;
    }
    let kind = delivery_kind(code);
    log::debug!("the producer {id}: a record to {topic}/{partition} failed: {}", code.name());
    let better = match kept {
        None => true,
        Some(kept) => {
            let fell = |kind| matches!(kind, ErrorKind::Abort | ErrorKind::Unanswered);
            fell(kept.kind) && !fell(kind)
        }
    };
    if better {
        let what = format!("a record to {topic}/{partition} of the producer {id} failed: {}", Failure::from(code));
        *kept = Some(BrokerError::new(kind, what));
    }
}
