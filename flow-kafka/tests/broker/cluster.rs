//! The broker under test, and names that no other test or run uses.

use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flow_kafka::embedded::EmbeddedBroker;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{CreateTopicsRequest, ListOffsetsRequest, ListOffsetsResponse, TopicName};

use crate::wire::Wire;

/// A broker, and a tag for everything that one test creates in it.
pub(crate) struct Cluster {
    bootstrap: String,
    tag: String,
    embedded: Option<EmbeddedBroker>,
}

impl Cluster {
    /// The Kafka that `KAFKA_BOOTSTRAP` names, or an embedded broker.
    #[allow(clippy::disallowed_methods, reason = "names must differ between runs on one Kafka")]
    pub(crate) fn new(test: &str) -> Cluster {
        let (bootstrap, embedded) = match std::env::var("KAFKA_BOOTSTRAP") {
            Ok(bootstrap) => (bootstrap, None),
            Err(_) => {
                let broker = EmbeddedBroker::start("127.0.0.1:0").unwrap();
                (broker.bootstrap(), Some(broker))
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let tag = format!("{test}-{now}-{}", std::process::id());
        Cluster { bootstrap, tag, embedded }
    }

    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// The broker, if it is not a real Kafka.
    pub(crate) fn embedded(&self) -> Option<&EmbeddedBroker> {
        self.embedded.as_ref()
    }

    /// A name of this test alone.
    pub(crate) fn name(&self, of: &str) -> String {
        format!("{of}-{}", self.tag)
    }

    /// A connection for raw requests.
    pub(crate) fn connect(&self) -> Wire {
        let address = self.bootstrap.split(',').next().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        Wire::new(stream)
    }

    /// A new topic; its full name.
    pub(crate) fn topic(&self, name: &str, partitions: i32) -> String {
        self.topic_with(name, partitions, &[])
    }

    /// A new topic with settings; its full name.
    pub(crate) fn topic_with(&self, name: &str, partitions: i32, settings: &[(&'static str, &'static str)]) -> String {
        let name = self.name(name);
        let configs = settings.iter().map(|(name, value)| {
            CreatableTopicConfig::default().with_name((*name).into()).with_value(Some((*value).into()))
        });
        let topic = CreatableTopic::default()
            .with_name(TopicName(name.clone().into()))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(configs.collect());
        let request = CreateTopicsRequest::default().with_timeout_ms(10_000).with_topics(vec![topic]);
        let mut wire = self.connect();
        let response = wire.call(&request, 4);
        assert_eq!(response.topics[0].error_code, 0, "{response:?}");
        await_leaders(&mut wire, &name, partitions);
        name
    }
}

/// A real broker answers `CreateTopics` some moments before it leads the partitions.
fn await_leaders(wire: &mut Wire, topic: &str, partitions: i32) {
    let partition = |index| ListOffsetsPartition::default().with_partition_index(index).with_timestamp(-1);
    let topic = ListOffsetsTopic::default()
        .with_name(TopicName(topic.to_owned().into()))
        .with_partitions((0..partitions).map(partition).collect());
    let request = ListOffsetsRequest::default().with_topics(vec![topic]);
    let first_error = |response: &ListOffsetsResponse| {
        let mut errors = response.topics[0].partitions.iter().map(|partition| partition.error_code);
        errors.find(|error| *error != 0).unwrap_or(0)
    };
    let response = wire.settle(&request, 1, first_error);
    assert_eq!(first_error(&response), 0, "{response:?}");
}
