//! Topics, their settings, and offsets by time.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::*;

use super::Broker;
use super::requests::*;

fn new_topic(name: &str) -> CreatableTopic {
    CreatableTopic::default().with_name(topic_name(name)).with_num_partitions(1).with_replication_factor(1)
}

fn error_of(broker: &mut Broker, topic: CreatableTopic) -> i16 {
    broker.ask(CreateTopicsRequest::default().with_topics(vec![topic]), 4).topics[0].error_code
}

#[test]
fn topics_that_cannot_be_are_refused() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let config = |name: &'static str, value: Option<&'static str>| {
        let config = CreatableTopicConfig::default().with_name(name.into()).with_value(value.map(Into::into));
        new_topic("new").with_configs(vec![config])
    };
    let cases = [
        (new_topic("t"), ResponseError::TopicAlreadyExists),
        (new_topic(""), ResponseError::InvalidTopicException),
        (new_topic(".."), ResponseError::InvalidTopicException),
        (new_topic("a/b"), ResponseError::InvalidTopicException),
        (new_topic(&"x".repeat(250)), ResponseError::InvalidTopicException),
        (new_topic("new").with_num_partitions(0), ResponseError::InvalidPartitions),
        (new_topic("new").with_num_partitions(i32::MAX), ResponseError::InvalidPartitions),
        (new_topic("new").with_replication_factor(2), ResponseError::InvalidReplicationFactor),
        (config("cleanup.policy", Some("shrink")), ResponseError::InvalidConfig),
        (config("cleanup.policy", None), ResponseError::InvalidConfig),
        (config("max.message.bytes", Some("many")), ResponseError::InvalidConfig),
        (config("clean.policy", Some("compact")), ResponseError::InvalidConfig),
    ];
    for (topic, error) in cases {
        assert_eq!(error_of(&mut broker, topic.clone()), error.code(), "{topic:?}");
    }
}

#[test]
fn settings_are_shown_as_given_or_by_default() {
    let mut broker = Broker::new();
    broker.create("t", &[("cleanup.policy", "compact,delete")]);
    let resource = DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name("t".into())
        .with_configuration_keys(Some(vec!["cleanup.policy".into(), "max.message.bytes".into()]));
    let response = broker.ask(DescribeConfigsRequest::default().with_resources(vec![resource]), 1);
    let shown: Vec<_> = response.results[0]
        .configs
        .iter()
        .map(|config| (config.name.as_str(), config.value.as_deref().unwrap(), config.config_source))
        .collect();
    assert_eq!(shown, [("cleanup.policy", "compact,delete", 1), ("max.message.bytes", "1048588", 5)]);
}

#[test]
fn a_topic_grows_but_does_not_shrink() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let mut grow = |count| {
        let topic = CreatePartitionsTopic::default().with_name(topic_name("t")).with_count(count);
        broker.ask(CreatePartitionsRequest::default().with_topics(vec![topic]), 1).results[0].error_code
    };
    assert_eq!(grow(3), 0);
    assert_eq!(grow(3), ResponseError::InvalidPartitions.code());
    let wanted = MetadataRequestTopic::default().with_name(Some(topic_name("t")));
    let response = broker.ask(MetadataRequest::default().with_topics(Some(vec![wanted])), 8);
    assert_eq!(response.topics[0].partitions.len(), 3);
}

#[test]
fn metadata_names_all_topics_or_says_which_does_not_exist() {
    let mut broker = Broker::new();
    broker.create("b", &[]);
    broker.create("a", &[]);
    let all = broker.ask(MetadataRequest::default().with_topics(None), 8);
    let names: Vec<_> = all.topics.iter().map(|topic| topic.name.as_ref().unwrap().as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let wanted = MetadataRequestTopic::default().with_name(Some(topic_name("c")));
    let missing = broker.ask(MetadataRequest::default().with_topics(Some(vec![wanted])), 8);
    assert_eq!(missing.topics[0].error_code, ResponseError::UnknownTopicOrPartition.code());
}

#[test]
fn deleted_records_are_gone_and_the_log_begins_behind_them() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    broker.produce("t", PLAIN, 0, 4);
    broker.produce("t", PLAIN, 0, 4);
    let mut delete = |before| {
        let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(before);
        let topic = DeleteRecordsTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
        let response = broker.ask(DeleteRecordsRequest::default().with_topics(vec![topic]), 1);
        (response.topics[0].partitions[0].error_code, response.topics[0].partitions[0].low_watermark)
    };
    assert_eq!(delete(9).0, ResponseError::OffsetOutOfRange.code());
    assert_eq!(delete(5), (0, 5));
    assert_eq!(delete(2), (0, 5), "the start never goes back");
    assert_eq!(broker.offset("t", EARLIEST, UNCOMMITTED), 5);
    assert_eq!(broker.fetch("t", 4, UNCOMMITTED).error_code, ResponseError::OffsetOutOfRange.code());
    assert!(!broker.fetch("t", 5, UNCOMMITTED).records.unwrap().is_empty());

    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(-1);
    let topic = DeleteRecordsTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
    broker.ask(DeleteRecordsRequest::default().with_topics(vec![topic]), 1);
    assert_eq!(broker.offset("t", EARLIEST, UNCOMMITTED), 8);
}

#[test]
fn offsets_are_found_by_time() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    broker.produce_bytes("t", batch(PLAIN, 0, &[10, 40, 20]), false);
    broker.produce_bytes("t", batch(PLAIN, 0, &[30]), false);
    let found: Vec<_> = [0, 10, 11, 21, 40, 41].iter().map(|time| broker.offset("t", *time, UNCOMMITTED)).collect();
    assert_eq!(found, [0, 0, 1, 1, 1, -1]);
    assert_eq!(broker.offset("t", -3, UNCOMMITTED), 1, "the highest time");
}
