//! What a test asks of the broker itself: plain rdkafka, nothing of the runtime under test.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use flow_kafka::KafkaConfig;
use flow_kafka::embedded::EmbeddedBroker;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::metadata::Metadata;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

const PATIENCE: Duration = Duration::from_secs(20);

/// One application with topics of its own.
pub(crate) struct Kafka {
    pub(crate) bootstrap: String,
    pub(crate) app: String,
}

/// The broker under test: the one at `KAFKA_BOOTSTRAP`, or an embedded one that all tests share.
fn bootstrap() -> String {
    static EMBEDDED: OnceLock<EmbeddedBroker> = OnceLock::new();
    std::env::var("KAFKA_BOOTSTRAP")
        .unwrap_or_else(|_| EMBEDDED.get_or_init(|| EmbeddedBroker::start("127.0.0.1:0").unwrap()).bootstrap())
}

pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(90), "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A record to send.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sent<'a> {
    pub(crate) key: Option<&'a str>,
    pub(crate) value: &'a str,
    pub(crate) timestamp: Option<i64>,
}

pub(crate) fn record<'a>(key: &'a str, value: &'a str) -> Sent<'a> {
    Sent { key: Some(key), value, timestamp: None }
}

impl Kafka {
    /// A new application.
    pub(crate) fn new(name: &str) -> Kafka {
        Kafka::on(&bootstrap(), name)
    }

    pub(crate) fn on(bootstrap: &str, name: &str) -> Kafka {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Kafka::of(bootstrap, &format!("{name}-{}-{number}", std::process::id()))
    }

    /// An application that exists.
    pub(crate) fn of(bootstrap: &str, app: &str) -> Kafka {
        Kafka { bootstrap: bootstrap.to_owned(), app: app.to_owned() }
    }

    pub(crate) fn config(&self) -> KafkaConfig {
        KafkaConfig::new(&self.bootstrap, &self.app).workers(1).session_timeout(Duration::from_secs(6))
    }

    /// The full name of one of its topics. (Topic constants need a static name.)
    pub(crate) fn topic(&self, what: &str) -> &'static str {
        Box::leak(format!("{}-{what}", self.app).into_boxed_str())
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap).set("group.id", &self.app);
        config
    }

    pub(crate) fn create(&self, what: &str, partitions: i32, config: &[(&str, &str)]) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().unwrap();
        let name = self.topic(what);
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        topic = config.iter().fold(topic, |topic, (key, value)| topic.set(key, value));
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        let created = futures::executor::block_on(admin.create_topics([&topic], &options)).unwrap();
        created.into_iter().for_each(|topic| drop(topic.unwrap()));
        // The controller has it; a busy broker learns of it a moment later, and until then it says that there is no such topic.
        let is_there = |metadata: Metadata| metadata.topics()[0].partitions().len() == partitions as usize;
        wait_for("the broker knows the topic", || {
            admin.inner().fetch_metadata(Some(name), PATIENCE).is_ok_and(is_there)
        });
    }

    pub(crate) fn delete(&self, what: &str) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().unwrap();
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        let deleted = futures::executor::block_on(admin.delete_topics(&[self.topic(what)], &options)).unwrap();
        deleted.into_iter().for_each(|topic| drop(topic.unwrap()));
        // Kafka deletes in the background.
        std::thread::sleep(Duration::from_secs(1));
    }

    /// Gives a topic more partitions.
    pub(crate) fn raise(&self, what: &str, partitions: usize) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().unwrap();
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        let more = [NewPartitions::new(self.topic(what), partitions)];
        let raised = futures::executor::block_on(admin.create_partitions(&more, &options)).unwrap();
        raised.into_iter().for_each(|topic| drop(topic.unwrap()));
    }

    /// The first offset and the high watermark of partition 0.
    pub(crate) fn watermarks(&self, what: &str) -> (i64, i64) {
        let consumer: BaseConsumer = self.client().set("isolation.level", "read_uncommitted").create().unwrap();
        consumer.fetch_watermarks(self.topic(what), 0, PATIENCE).unwrap()
    }

    /// Deletes the records of partition 0 below an offset.
    pub(crate) fn delete_below(&self, what: &str, offset: i64) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(self.topic(what), 0, Offset::Offset(offset)).unwrap();
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        futures::executor::block_on(admin.delete_records(&list, &options)).unwrap();
    }

    /// Sends records to partition 0, in order.
    pub(crate) fn send(&self, what: &str, records: &[Sent<'_>]) {
        let producer: BaseProducer = self.client().create().unwrap();
        let topic = self.topic(what);
        for sent in records {
            let mut record: BaseRecord<'_, str, str> = BaseRecord::to(topic).partition(0).payload(sent.value);
            record.key = sent.key;
            record.timestamp = sent.timestamp;
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
    }

    /// Sends one record of each of so many keys, each to the partition of its key.
    pub(crate) fn spread(&self, what: &str, keys: usize) {
        let producer: BaseProducer = self.client().set("partitioner", "murmur2").create().unwrap();
        for key in (0..keys).map(|key| format!("key-{key}")) {
            producer.send(BaseRecord::to(self.topic(what)).key(&key).payload("e")).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
    }

    /// How many members the group has.
    pub(crate) fn members(&self) -> usize {
        let consumer: BaseConsumer = self.client().create().unwrap();
        let groups = consumer.fetch_group_list(Some(&self.app), PATIENCE).unwrap();
        groups.groups().iter().map(|group| group.members().len()).sum()
    }

    /// Opens somebody else's transaction with records of partition 0 in it.
    pub(crate) fn open_transaction(&self, what: &str, records: &[Sent<'_>]) -> Transaction {
        let producer: BaseProducer = self
            .client()
            .set("transactional.id", format!("{}-stranger", self.app))
            .set("transaction.timeout.ms", "120000")
            .create()
            .unwrap();
        producer.init_transactions(PATIENCE).unwrap();
        producer.begin_transaction().unwrap();
        let topic = self.topic(what);
        for sent in records {
            let mut record: BaseRecord<'_, str, str> = BaseRecord::to(topic).partition(0).payload(sent.value);
            record.key = sent.key;
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        Transaction(producer)
    }

    /// The group's stable offset of partition 0.
    pub(crate) fn committed(&self, what: &str) -> Option<i64> {
        let consumer: BaseConsumer = self.client().set("isolation.level", "read_committed").create().unwrap();
        let mut list = TopicPartitionList::new();
        let topic = self.topic(what);
        list.add_partition(topic, 0);
        let committed = consumer.committed_offsets(list, Duration::from_secs(2)).ok()?;
        match committed.find_partition(topic, 0)?.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }

    /// Every number that a committed reader sees in partition 0, in order.
    pub(crate) fn numbers(&self, what: &str) -> Vec<u64> {
        self.values(what).iter().map(|value| serde_json::from_slice(value).unwrap()).collect()
    }

    /// The number in the newest committed snapshot of partition 0.
    pub(crate) fn newest_snapshot(&self, store: &str) -> u64 {
        let snapshots = self.values(&format!("{store}-changelog"));
        let newest = snapshots.last().expect("a snapshot");
        // The payload ends the envelope: a number in JSON.
        let digits = newest.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
        serde_json::from_slice(&newest[digits..]).unwrap()
    }

    /// The values that a committed reader sees in partition 0, in order; a null is empty.
    pub(crate) fn values(&self, what: &str) -> Vec<Vec<u8>> {
        self.records(what).into_iter().map(|record| record.value.unwrap_or_default()).collect()
    }

    /// What a committed reader sees in partition 0, in order.
    pub(crate) fn records(&self, what: &str) -> Vec<Record> {
        let consumer: BaseConsumer = self
            .client()
            .set("isolation.level", "read_committed")
            .set("auto.offset.reset", "earliest")
            .set("enable.partition.eof", "true")
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(self.topic(what), 0, Offset::Beginning).unwrap();
        consumer.assign(&list).unwrap();
        let mut records = Vec::new();
        loop {
            match consumer.poll(PATIENCE) {
                Some(Ok(message)) => records.push(Record::of(&message)),
                Some(Err(KafkaError::PartitionEOF(_))) | None => return records,
                Some(Err(error)) => panic!("reading {what}: {error}"),
            }
        }
    }
}

/// A transaction that is open.
pub(crate) struct Transaction(BaseProducer);

impl Transaction {
    pub(crate) fn abort(self) {
        self.0.abort_transaction(PATIENCE).unwrap();
    }
}

/// A record as it was read.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) timestamp: Option<i64>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Record {
    fn of(message: &BorrowedMessage<'_>) -> Record {
        let headers = message.headers().map_or(Vec::new(), |headers| {
            headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
        });
        Record {
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            timestamp: message.timestamp().to_millis(),
            headers,
        }
    }

    /// The text of its last header of this name.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let value = self.headers.iter().rev().find(|(own, _)| own == name)?.1.clone()?;
        Some(String::from_utf8(value).unwrap())
    }
}
