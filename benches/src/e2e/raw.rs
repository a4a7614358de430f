//! `raw-count`: what one would write on rdkafka without a library, with the same guarantee.
//!
//! It counts by key, sends each count with its event time, and commits counts of changed keys, outputs and offsets in one transaction
//! that carries the consumer's generation. It knows what took us long to learn: deliver all before `send_offsets`, and a short
//! `retry.backoff.ms`, or every commit costs 100 ms. What it leaves out is everything around that: it restores no state, gives no partition
//! up, and any error ends it.

use std::time::Duration;

use hashbrown::HashMap;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::drain::{Meter, now};
use super::{Measured, Options, PARTITIONS, PATIENCE, Payment, Result};

struct Entry {
    key: Box<[u8]>,
    partition: i32,
    count: u64,
    dirty: bool,
}

struct Loop<'o> {
    options: &'o Options,
    producer: BaseProducer,
    output: String,
    changelog: String,
    index: HashMap<Box<[u8]>, u32>,
    entries: Vec<Entry>,
    dirty: Vec<u32>,
    next: [Option<i64>; PARTITIONS as usize],
    value: Vec<u8>,
}

pub(super) fn drain(options: &Options) -> Result<Measured> {
    let mut meter = Meter::start();
    let consumer = consumer(options)?;
    let mut this = Loop::new(options)?;
    let (mut records, mut commits, mut last) = (0, 0, now());
    this.producer.begin_transaction()?;
    while records < options.records || this.uncommitted() {
        match consumer.poll(Duration::from_millis(10)) {
            Some(Ok(message)) => {
                this.count(&message)?;
                records += 1;
            }
            Some(Err(KafkaError::MessageConsumption(
                RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown,
            )))
            | None => {}
            Some(Err(error)) => return Err(format!("the input could not be read: {error}").into()),
        }
        if (last.elapsed() >= options.commit || records >= options.records) && this.uncommitted() {
            this.commit(&consumer)?;
            commits += 1;
            meter.note(commits, records);
            last = now();
        }
    }
    this.producer.abort_transaction(PATIENCE)?;
    Ok(meter.end())
}

fn consumer(options: &Options) -> Result<BaseConsumer> {
    let mut config = options.client();
    config.set("group.id", &options.run).set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
    config
        .set("isolation.level", "read_committed")
        .set("fetch.wait.max.ms", "10")
        .set("fetch.queue.backoff.ms", "10") // the default lets a full queue rest for a second
        .set("fetch.message.max.bytes", "4194304");
    let consumer: BaseConsumer = config.create()?;
    consumer.subscribe(&[&options.input()])?;
    Ok(consumer)
}

impl<'o> Loop<'o> {
    fn new(options: &'o Options) -> Result<Self> {
        let mut config = options.client();
        config
            .set("transactional.id", format!("{}-raw", options.run))
            .set("retry.backoff.ms", "10")
            .set("linger.ms", "5");
        config.set("queue.buffering.max.messages", "2000000").set("batch.num.messages", "100000");
        config.set("delivery.report.only.error", "true");
        let producer: BaseProducer = config.create()?;
        producer.init_transactions(PATIENCE)?;
        let (output, changelog) = (options.output(), options.changelog());
        let (index, entries, dirty, value) = (HashMap::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Loop {
            options,
            producer,
            output,
            changelog,
            index,
            entries,
            dirty,
            next: [None; PARTITIONS as usize],
            value,
        })
    }

    fn uncommitted(&self) -> bool {
        self.next.iter().any(Option::is_some)
    }

    fn count(&mut self, message: &impl Message) -> Result<()> {
        let payment: Payment = serde_json::from_slice(message.payload().ok_or("a payment without a value")?)?;
        drop(payment); // decoded like the library does it, though nothing of it is needed to count
        let key = message.key().ok_or("a payment without a key")?;
        let at = match self.index.get(key) {
            Some(&at) => at,
            None => {
                let at = self.entries.len() as u32;
                self.entries.push(Entry { key: key.into(), partition: message.partition(), count: 0, dirty: false });
                self.index.insert(key.into(), at);
                at
            }
        };
        let entry = &mut self.entries[at as usize];
        entry.count += 1;
        if !std::mem::replace(&mut entry.dirty, true) {
            self.dirty.push(at);
        }
        self.value.clear();
        serde_json::to_writer(&mut self.value, &entry.count)?;
        let record = BaseRecord::to(&self.output).key(key).payload(&self.value[..]).partition(entry.partition);
        send(&self.producer, record.timestamp(message.timestamp().to_millis().ok_or("a payment without a time")?))?;
        self.next[message.partition() as usize] = Some(message.offset() + 1);
        Ok(())
    }

    fn commit(&mut self, consumer: &BaseConsumer) -> Result<()> {
        for at in self.dirty.drain(..) {
            let entry = &mut self.entries[at as usize];
            entry.dirty = false;
            self.value.clear();
            serde_json::to_writer(&mut self.value, &entry.count)?;
            let record = BaseRecord::to(&self.changelog).key(&entry.key[..]).payload(&self.value[..]);
            send(&self.producer, record.partition(entry.partition))?;
        }
        drain_queue(&self.producer);
        let mut offsets = TopicPartitionList::new();
        for (partition, next) in self.next.iter_mut().enumerate() {
            if let Some(offset) = next.take() {
                offsets.add_partition_offset(
                    &self.options.input(),
                    partition as i32,
                    rdkafka::Offset::Offset(offset),
                )?;
            }
        }
        let generation = consumer.group_metadata().ok_or("the consumer is in no group")?;
        self.producer.send_offsets_to_transaction(&offsets, &generation, PATIENCE)?;
        self.producer.commit_transaction(PATIENCE)?;
        self.producer.begin_transaction()?;
        Ok(())
    }
}

/// Waits until all is delivered. The client's own `flush` looks only every 100 ms, and so would the commit after it.
fn drain_queue(producer: &BaseProducer) {
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::ZERO);
        pause();
    }
}

#[allow(clippy::disallowed_methods, reason = "a loop by hand has no seam")]
fn pause() {
    std::thread::sleep(Duration::from_micros(100));
}

/// Sends, waiting for room in the client's queue.
fn send(producer: &BaseProducer, mut record: BaseRecord<'_, [u8], [u8]>) -> Result<()> {
    while let Err((error, returned)) = producer.send(record) {
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
            return Err(format!("a record could not be sent: {error}").into());
        }
        producer.poll(Duration::from_millis(1));
        record = returned;
    }
    Ok(())
}
