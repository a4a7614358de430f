//! The examples' own view of Kafka, through librdkafka's safe API: topics, input, and a reader that shares nothing with the
//! library under test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow_core::partition_for;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use crate::{Error, Record, Results};

const PATIENCE: Duration = Duration::from_secs(30);
/// How long the input may wait for a broker that is away.
const OUTAGE: Duration = Duration::from_secs(180);

fn client(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("reconnect.backoff.max.ms", "500");
    config
}

/// Makes and deletes topics.
pub(crate) struct Admin {
    client: AdminClient<DefaultClientContext>,
    runtime: tokio::runtime::Runtime,
}

impl Admin {
    pub(crate) fn new(brokers: &str) -> Result<Admin, Error> {
        let client: AdminClient<_> = client(brokers).create()?;
        let asked = client.inner().fetch_metadata(None, Duration::from_secs(10));
        asked.map_err(|cause| {
            Error::new(format!("no Kafka answers at {brokers} ({cause}): is the address right, and is it running?"))
        })?;
        Ok(Admin { client, runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()? })
    }

    /// Makes topics that keep their records whatever their timestamps say: the input's time is years ago.
    pub(crate) fn create(&self, topics: &[&str], partitions: i32) -> Result<(), Error> {
        let new = topics
            .iter()
            .map(|topic| NewTopic::new(topic, partitions, TopicReplication::Fixed(-1)).set("retention.ms", "-1"));
        let new: Vec<NewTopic<'_>> = new.collect();
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        for made in self.runtime.block_on(self.client.create_topics(&new, &options))? {
            made.map_err(|(topic, code)| Error::new(format!("topic `{topic}` could not be made: {code}")))?;
        }
        Ok(())
    }

    /// The topics of a run, with the library's internal ones, and how many partitions they have.
    pub(crate) fn topics(&self, run: &str) -> Result<Vec<(String, i32)>, Error> {
        let metadata = self.client.inner().fetch_metadata(None, PATIENCE)?;
        let of_run = |topic: &str| topic.strip_prefix(run).is_some_and(|rest| rest.starts_with(['.', '-']));
        let ours = metadata.topics().iter().filter(|topic| of_run(topic.name()));
        Ok(ours.map(|topic| (topic.name().to_owned(), topic.partitions().len() as i32)).collect())
    }

    /// Deletes every topic of a run, and its group.
    pub(crate) fn delete(&self, run: &str) -> Result<(), Error> {
        let topics = self.topics(run)?;
        let names: Vec<&str> = topics.iter().map(|(name, _)| name.as_str()).collect();
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        for deleted in self.runtime.block_on(self.client.delete_topics(&names, &options))? {
            deleted.map_err(|(topic, code)| Error::new(format!("topic `{topic}` could not be deleted: {code}")))?;
        }
        // Without topics the group means nothing; a broker that still sees a member refuses, and forgets it later by itself.
        let _ = self.runtime.block_on(self.client.delete_groups(&[run], &options));
        Ok(())
    }
}

/// Writes the input.
pub(crate) struct Feeder {
    producer: BaseProducer<Reports>,
    topic: String,
    sent: u64,
}

/// Keeps the first delivery that failed.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Option<KafkaError>>>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let (Err((error, _)), Ok(mut first)) = (result, self.0.lock()) {
            first.get_or_insert_with(|| error.clone());
        }
    }
}

impl Feeder {
    pub(crate) fn new(brokers: &str, topic: &str) -> Result<Feeder, Error> {
        let mut config = client(brokers);
        // Idempotent: a record that is sent again after a lost answer would be a second record, and the check would find it.
        config.set("enable.idempotence", "true").set("linger.ms", "5").set("batch.num.messages", "50000");
        config.set("delivery.report.only.error", "true").set("queue.buffering.max.messages", "200000");
        Ok(Feeder { producer: config.create_with_context(Reports::default())?, topic: topic.to_owned(), sent: 0 })
    }

    /// Records sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn send(&mut self, record: &Record) -> Result<(), Error> {
        let mut message = BaseRecord::<[u8], [u8]>::to(&self.topic).partition(record.partition).payload(&record.value);
        message = message.timestamp(record.timestamp);
        if let Some(key) = &record.key {
            message = message.key(key);
        }
        while let Err((error, returned)) = self.producer.send(message) {
            if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                return Err(Error::new(format!("the input could not be written: {error}")));
            }
            self.producer.poll(Duration::from_millis(10));
            message = returned;
        }
        self.sent += 1;
        if self.sent.is_multiple_of(1_000) {
            self.producer.poll(Duration::ZERO);
            self.check()?;
        }
        Ok(())
    }

    /// Waits until everything sent is acknowledged.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let flushed = self.producer.flush(OUTAGE);
        self.check()?;
        flushed
            .map_err(|error| Error::new(format!("the input was not acknowledged in {} s: {error}", OUTAGE.as_secs())))
    }

    fn check(&self) -> Result<(), Error> {
        let failed = self.producer.context().0.lock().map_or(None, |mut first| first.take());
        failed.map_or(Ok(()), |error| Err(Error::new(format!("a record of the input was refused: {error}"))))
    }
}

/// Reads the output as any downstream consumer would: `read_committed`, from the beginning, every partition.
pub(crate) struct Reader {
    consumer: BaseConsumer,
    ends: BaseConsumer,
    topic: String,
    partitions: i32,
    pub(crate) results: Results,
    /// Records in another partition than their key's.
    pub(crate) misplaced: u64,
}

impl Reader {
    pub(crate) fn new(brokers: &str, topic: &str, partitions: i32) -> Result<Reader, Error> {
        let mut config = client(brokers);
        // The group is never joined; librdkafka asks for one before it assigns anything.
        config
            .set("group.id", format!("{topic}-check"))
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "20");
        config.set("auto.offset.reset", "error");
        let consumer: BaseConsumer = config.clone().set("isolation.level", "read_committed").create()?;
        let ends: BaseConsumer = config.set("isolation.level", "read_uncommitted").create()?;
        consumer.fetch_metadata(Some(topic), PATIENCE)?;
        let mut all = TopicPartitionList::new();
        for partition in 0..partitions {
            all.add_partition_offset(topic, partition, Offset::Offset(0))?;
        }
        consumer.assign(&all)?;
        let topic = topic.to_owned();
        Ok(Reader { consumer, ends, topic, partitions, results: Results::new(), misplaced: 0 })
    }

    /// Reads what is there, waiting up to `wait` for the first record; true if something was.
    pub(crate) fn read(&mut self, wait: Duration) -> Result<bool, Error> {
        let mut wait = wait;
        for count in 0..50_000 {
            let Some(polled) = self.consumer.poll(wait) else { return Ok(count > 0) };
            wait = Duration::ZERO;
            let message = match polled {
                Ok(message) => message,
                Err(KafkaError::MessageConsumption(
                    RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown,
                )) => continue,
                Err(error) => {
                    return Err(Error::new(format!("the output `{}` could not be read: {error}", self.topic)));
                }
            };
            let (key, value) = (message.key().unwrap_or_default(), message.payload().unwrap_or_default());
            self.results.push(key, value, message.timestamp().to_millis().unwrap_or(-1));
            self.misplaced += u64::from(partition_for(key, self.partitions).0 != message.partition());
        }
        Ok(true)
    }

    /// Reads to the end of every partition, open transactions included: they must end first, in a commit or an abort.
    pub(crate) fn read_to_end(&mut self, mut waiting: impl FnMut()) -> Result<(), Error> {
        let mut ends = Vec::new();
        for partition in 0..self.partitions {
            ends.push(self.ends.fetch_watermarks(&self.topic, partition, PATIENCE)?.1);
        }
        let mut idle = 0;
        loop {
            let read = self.read(Duration::from_millis(50))?;
            let behind = self.behind(&ends)?;
            if behind.is_empty() {
                return Ok(());
            }
            idle = if read { 0 } else { idle + 1 };
            if idle > 20 * PATIENCE.as_secs() {
                let what = "a transaction is still open there, or was never ended";
                return Err(Error::new(format!(
                    "the output `{}` cannot be read to its end in partitions {behind:?}: {what}",
                    self.topic
                )));
            }
            waiting();
        }
    }

    /// Partitions whose position has not reached the end.
    fn behind(&self, ends: &[i64]) -> Result<Vec<i32>, Error> {
        let position = self.consumer.position()?;
        let reached = |partition: i32| match position.find_partition(&self.topic, partition).map(|found| found.offset())
        {
            Some(Offset::Offset(offset)) => offset,
            _ => 0,
        };
        Ok((0..self.partitions).filter(|&partition| reached(partition) < ends[partition as usize]).collect())
    }
}

/// Sees from outside whether a transaction is open: then a partition's last stable offset stays below its end.
pub(crate) struct Transactions {
    stable: BaseConsumer,
    all: BaseConsumer,
}

/// A partition that has an open transaction, and the offset at which it begins.
pub(crate) type Open = (String, i32, i64);

impl Transactions {
    pub(crate) fn new(brokers: &str) -> Result<Transactions, Error> {
        let stable = client(brokers).set("isolation.level", "read_committed").create()?;
        let all = client(brokers).set("isolation.level", "read_uncommitted").create()?;
        Ok(Transactions { stable, all })
    }

    /// The partitions of these topics that have an open transaction at this moment.
    pub(crate) fn open(&self, topics: &[(String, i32)]) -> Result<Vec<Open>, Error> {
        let mut open = Vec::new();
        for (topic, partitions) in topics {
            for partition in 0..*partitions {
                let (_, stable) = self.stable.fetch_watermarks(topic, partition, PATIENCE)?;
                let (_, end) = self.all.fetch_watermarks(topic, partition, PATIENCE)?;
                if stable < end {
                    open.push((topic.clone(), partition, stable));
                }
            }
        }
        Ok(open)
    }
}
