//! `CreateTopics`, `CreatePartitions` and `DeleteTopics`.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest,
    DeleteTopicsResponse,
};

use super::settings::Settings;
use super::{Topic, is_legal};
use crate::embedded::Machine;
use crate::embedded::log::PartitionLog;

/// More partitions than this in one topic is a mistake on a broker in memory.
const PARTITIONS_MAX: i32 = 100_000;

/// Kafka's error with its message.
type Refused = (ResponseError, String);

impl Machine {
    pub(in crate::embedded) fn create_topics(
        &mut self,
        request: &CreateTopicsRequest,
        version: i16,
    ) -> CreateTopicsResponse {
        let topics = request.topics.iter().map(|wanted| {
            let result = CreatableTopicResult::default().with_name(wanted.name.clone());
            match self.new_topic(wanted) {
                Ok(topic) => {
                    let partitions = topic.partitions.len() as i32;
                    if !request.validate_only {
                        self.topics.by_name.insert(wanted.name.to_string(), topic);
                    }
                    match version {
                        ..5 => result,
                        _ => {
                            result.with_num_partitions(partitions).with_replication_factor(1).with_configs(Some(vec![]))
                        }
                    }
                }
                Err((error, message)) => result.with_error_code(error.code()).with_error_message(Some(message.into())),
            }
        });
        CreateTopicsResponse::default().with_topics(topics.collect())
    }

    fn new_topic(&self, wanted: &CreatableTopic) -> Result<Topic, Refused> {
        let name = wanted.name.as_str();
        if !is_legal(name) {
            return Err((ResponseError::InvalidTopicException, format!("topic name {name:?} is illegal")));
        }
        if self.topics.by_name.contains_key(name) {
            return Err((ResponseError::TopicAlreadyExists, format!("topic '{name}' already exists")));
        }
        let mut settings = Settings::default();
        for config in &wanted.configs {
            settings
                .set(&config.name, config.value.as_deref())
                .map_err(|message| (ResponseError::InvalidConfig, message))?;
        }
        let assigned = wanted.assignments.len() as i32;
        let partitions = match wanted.num_partitions {
            -1 if assigned > 0 => assigned,
            -1 => self.options.partitions_default,
            partitions => partitions,
        };
        if !(1..=PARTITIONS_MAX).contains(&partitions) {
            let message = format!("number of partitions must be 1 to {PARTITIONS_MAX}, not {partitions}");
            return Err((ResponseError::InvalidPartitions, message));
        }
        if !matches!(wanted.replication_factor, -1 | 1) {
            let message = format!("replication factor {} is larger than 1 broker", wanted.replication_factor);
            return Err((ResponseError::InvalidReplicationFactor, message));
        }
        Ok(Topic::new(partitions as usize, settings, &self.options))
    }

    pub(in crate::embedded) fn create_partitions(
        &mut self,
        request: &CreatePartitionsRequest,
    ) -> CreatePartitionsResponse {
        let results = request.topics.iter().map(|wanted| {
            let result = CreatePartitionsTopicResult::default().with_name(wanted.name.clone());
            match self.grow_topic(wanted, request.validate_only) {
                Ok(()) => result,
                Err((error, message)) => result.with_error_code(error.code()).with_error_message(Some(message.into())),
            }
        });
        CreatePartitionsResponse::default().with_results(results.collect())
    }

    fn grow_topic(&mut self, wanted: &CreatePartitionsTopic, validate_only: bool) -> Result<(), Refused> {
        let name = wanted.name.as_str();
        let topic = self.topics.get_mut(name).map_err(|error| (error, format!("topic '{name}' does not exist")))?;
        let now = topic.partitions.len() as i32;
        if wanted.count <= now || wanted.count > PARTITIONS_MAX {
            let message = format!("topic '{name}' has {now} partitions, it cannot get {}", wanted.count);
            return Err((ResponseError::InvalidPartitions, message));
        }
        if !validate_only {
            topic.partitions.resize_with(wanted.count as usize, PartitionLog::default);
        }
        Ok(())
    }

    pub(in crate::embedded) fn delete_topics(&mut self, request: &DeleteTopicsRequest) -> DeleteTopicsResponse {
        let responses = request.topic_names.iter().map(|name| {
            let result = DeletableTopicResult::default().with_name(Some(name.clone()));
            match self.topics.by_name.remove(name.as_str()) {
                Some(topic) => {
                    let waiting = topic.partitions.iter().flat_map(|partition| &partition.waiting);
                    self.fetches.wake(waiting);
                    self.groups.forget_topic(name.as_str());
                    result
                }
                None => result.with_error_code(ResponseError::UnknownTopicOrPartition.code()),
            }
        });
        DeleteTopicsResponse::default().with_responses(responses.collect())
    }
}
