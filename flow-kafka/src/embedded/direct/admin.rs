//! The seam's admin client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flow_core::Offset;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    CreateTopicsRequest, DeleteRecordsRequest, DescribeConfigsRequest, MetadataRequest, RequestKind, ResponseKind,
};
use kafka_protocol::protocol::StrBytes;

use super::assign::topic_name;
use super::codes::{self, Verdict};
use super::link::{Host, Judged, Link};
use crate::broker::{Admin, BrokerError, ErrorKind, NewTopic, TopicInfo, TopicPartition};

/// Kafka's number for "a topic" among the resources that have settings.
const TOPIC: i8 = 2;

pub(super) struct DirectAdmin {
    link: Link,
}

impl DirectAdmin {
    pub(super) fn new(host: &Arc<Host>) -> Self {
        DirectAdmin { link: Link::open(host) }
    }

    fn partitions(&self, names: &[String], deadline: Duration) -> Result<BTreeMap<String, i32>, BrokerError> {
        let topics = names.iter().map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name))));
        let request =
            MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(false);
        self.link.ask("describing topics", 7, &RequestKind::Metadata(request), deadline, |answer| {
            let ResponseKind::Metadata(answer) = answer else { return None };
            let mut found = BTreeMap::new();
            for topic in &answer.topics {
                let name = topic.name.as_ref().map(|name| name.to_string()).unwrap_or_default();
                let what = format!("describing topic {name}");
                match codes::of_read(topic.error_code) {
                    Verdict::Failed(ErrorKind::UnknownTopic) => {}
                    verdict => match Judged::of(&what, topic.error_code, verdict, ()) {
                        Judged::Done(()) => {
                            found.insert(name, topic.partitions.len() as i32);
                        }
                        Judged::Again => return Some(Judged::Again),
                        Judged::Failed(error) => return Some(Judged::Failed(error)),
                    },
                }
            }
            Some(Judged::Done(found))
        })
    }

    fn cleanup_policies(
        &self,
        names: impl Iterator<Item = String>,
        deadline: Duration,
    ) -> Result<BTreeMap<String, String>, BrokerError> {
        let key = StrBytes::from_static_str("cleanup.policy");
        let resources = names.map(|name| {
            DescribeConfigsResource::default()
                .with_resource_type(TOPIC)
                .with_resource_name(StrBytes::from_string(name))
                .with_configuration_keys(Some(vec![key.clone()]))
        });
        let request = DescribeConfigsRequest::default().with_resources(resources.collect());
        self.link.ask("describing settings", 2, &RequestKind::DescribeConfigs(request), deadline, |answer| {
            let ResponseKind::DescribeConfigs(answer) = answer else { return None };
            let mut found = BTreeMap::new();
            for result in &answer.results {
                let what = format!("describing the settings of topic {}", result.resource_name);
                match Judged::of(&what, result.error_code, codes::of_read(result.error_code), ()) {
                    Judged::Done(()) => {}
                    Judged::Again => return Some(Judged::Again),
                    Judged::Failed(error) => return Some(Judged::Failed(error)),
                }
                let policy = result.configs.iter().find(|config| config.name == key).and_then(|c| c.value.as_ref());
                if let Some(policy) = policy {
                    found.insert(result.resource_name.to_string(), policy.to_string());
                }
            }
            Some(Judged::Done(found))
        })
    }

    fn describe(&self, names: &[String], timeout: Duration) -> Result<Vec<Option<TopicInfo>>, BrokerError> {
        let deadline = self.link.deadline(timeout);
        let partitions = self.partitions(names, deadline)?;
        let mut policies = BTreeMap::new();
        if !partitions.is_empty() {
            policies = self.cleanup_policies(partitions.keys().cloned(), deadline)?;
        }
        let info = |name: &String| {
            let partitions = *partitions.get(name)?;
            Some(TopicInfo { partitions, cleanup_policy: policies.get(name).cloned() })
        };
        Ok(names.iter().map(info).collect())
    }

    fn create_until(&self, topics: &[NewTopic], deadline: Duration) -> Result<(), BrokerError> {
        let request = RequestKind::CreateTopics(create_request(topics));
        self.link.ask("creating topics", 5, &request, deadline, |answer| {
            let ResponseKind::CreateTopics(answer) = answer else { return None };
            for topic in &answer.topics {
                let detail = topic.error_message.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
                let what = format!("creating topic {}{detail}", &*topic.name);
                match (codes::error(topic.error_code), codes::of_read(topic.error_code)) {
                    (Some(ResponseError::TopicAlreadyExists), _) => {}
                    (_, verdict) => match Judged::of(&what, topic.error_code, verdict, ()) {
                        Judged::Done(()) => {}
                        Judged::Again => return Some(Judged::Again),
                        Judged::Failed(error) => return Some(Judged::Failed(error)),
                    },
                }
            }
            Some(Judged::Done(()))
        })
    }

    fn delete_until(&self, below: &[(TopicPartition, Offset)], deadline: Duration) -> Result<(), BrokerError> {
        let mut topics: BTreeMap<&str, Vec<DeleteRecordsPartition>> = BTreeMap::new();
        for (partition, offset) in below {
            let entry =
                DeleteRecordsPartition::default().with_partition_index(partition.partition.0).with_offset(offset.0);
            topics.entry(&partition.topic).or_default().push(entry);
        }
        let topics = topics.into_iter().map(|(name, partitions)| {
            DeleteRecordsTopic::default().with_name(topic_name(name)).with_partitions(partitions)
        });
        let request = DeleteRecordsRequest::default().with_topics(topics.collect()).with_timeout_ms(30_000);
        self.link.ask("deleting records", 1, &RequestKind::DeleteRecords(request), deadline, |answer| {
            let ResponseKind::DeleteRecords(answer) = answer else { return None };
            for topic in &answer.topics {
                for entry in &topic.partitions {
                    let what = format!("deleting records of {}/{}", &*topic.name, entry.partition_index);
                    match Judged::of(&what, entry.error_code, codes::of_read(entry.error_code), ()) {
                        Judged::Done(()) => {}
                        Judged::Again => return Some(Judged::Again),
                        Judged::Failed(error) => return Some(Judged::Failed(error)),
                    }
                }
            }
            Some(Judged::Done(()))
        })
    }
}

pub(super) fn create_request(topics: &[NewTopic]) -> CreateTopicsRequest {
    let topics = topics.iter().map(|topic| {
        let configs = topic.config.iter().map(|(name, value)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_string(name.clone()))
                .with_value(Some(StrBytes::from_string(value.clone())))
        });
        CreatableTopic::default()
            .with_name(topic_name(&topic.name))
            .with_num_partitions(topic.partitions)
            .with_replication_factor(topic.replication as i16)
            .with_configs(configs.collect())
    });
    CreateTopicsRequest::default().with_topics(topics.collect()).with_timeout_ms(30_000)
}

impl Admin for DirectAdmin {
    fn topics(&mut self, names: &[String], timeout: Duration) -> Result<Vec<Option<TopicInfo>>, BrokerError> {
        self.link.call(
            format_args!("topics {}", names.join(" ")),
            || self.describe(names, timeout),
            |found| format!("{} of {} exist", found.iter().flatten().count(), found.len()),
        )
    }

    fn create(&mut self, topics: &[NewTopic], timeout: Duration) -> Result<(), BrokerError> {
        let deadline = self.link.deadline(timeout);
        let names: Vec<_> = topics.iter().map(|topic| topic.name.as_str()).collect();
        self.link.call(
            format_args!("create {}", names.join(" ")),
            || self.create_until(topics, deadline),
            |()| "ok".to_owned(),
        )
    }

    fn delete_records(&mut self, below: &[(TopicPartition, Offset)], timeout: Duration) -> Result<(), BrokerError> {
        let deadline = self.link.deadline(timeout);
        let text: Vec<_> = below.iter().map(|(partition, offset)| format!("{partition}<{}", offset.0)).collect();
        self.link.call(
            format_args!("delete_records {}", text.join(" ")),
            || self.delete_until(below, deadline),
            |()| "ok".to_owned(),
        )
    }
}
