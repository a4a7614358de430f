//! What the test itself asks of the broker: plain rdkafka, nothing of the runtime under test.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Kafka {
    bootstrap: String,
    app: String,
}

impl Kafka {
    pub(crate) fn new(bootstrap: &str, app: &str) -> Kafka {
        Kafka { bootstrap: bootstrap.to_owned(), app: app.to_owned() }
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap).set("group.id", &self.app);
        config
    }

    pub(crate) fn create(&self) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().unwrap();
        let names = [format!("{}-in", self.app), format!("{}-out", self.app)];
        let topics: Vec<NewTopic<'_>> =
            names.iter().map(|name| NewTopic::new(name, 1, TopicReplication::Fixed(1))).collect();
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        let created = futures::executor::block_on(admin.create_topics(&topics, &options)).unwrap();
        created.into_iter().for_each(|topic| drop(topic.unwrap()));
    }

    /// Events of one key.
    pub(crate) fn send(&self, records: usize) {
        let producer: BaseProducer = self.client().create().unwrap();
        let topic = format!("{}-in", self.app);
        for _ in 0..records {
            producer
                .send(BaseRecord::to(&topic).partition(0).key("k").payload("e"))
                .map_err(|(error, _)| error)
                .unwrap();
        }
        producer.flush(PATIENCE).unwrap();
    }

    /// The group's stable offset of the input.
    pub(crate) fn committed(&self) -> Option<i64> {
        let consumer: BaseConsumer = self.client().set("isolation.level", "read_committed").create().unwrap();
        let mut list = TopicPartitionList::new();
        let topic = format!("{}-in", self.app);
        list.add_partition(&topic, 0);
        let committed = consumer.committed_offsets(list, Duration::from_secs(2)).ok()?;
        match committed.find_partition(&topic, 0)?.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }

    /// Every count that a committed reader sees, in order.
    pub(crate) fn outputs(&self) -> Vec<u64> {
        let counts = self.read(&format!("{}-out", self.app));
        counts.iter().map(|value| serde_json::from_slice(value).unwrap()).collect()
    }

    /// The count in the newest committed snapshot.
    pub(crate) fn state(&self) -> u64 {
        let snapshots = self.read(&format!("{}-counts-changelog", self.app));
        let newest = snapshots.last().expect("a snapshot");
        // The payload ends the envelope: a number in JSON.
        let digits = newest.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
        serde_json::from_slice(&newest[digits..]).unwrap()
    }

    fn read(&self, topic: &str) -> Vec<Vec<u8>> {
        let consumer: BaseConsumer = self
            .client()
            .set("isolation.level", "read_committed")
            .set("auto.offset.reset", "earliest")
            .set("enable.partition.eof", "true")
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
        consumer.assign(&list).unwrap();
        let mut values = Vec::new();
        loop {
            match consumer.poll(PATIENCE) {
                Some(Ok(message)) => values.push(message.payload().unwrap_or_default().to_vec()),
                Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) | None => return values,
                Some(Err(error)) => panic!("reading {topic}: {error}"),
            }
        }
    }
}
