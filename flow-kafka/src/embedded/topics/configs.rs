//! `DescribeConfigs`: a topic's settings, given or default. A broker has none to show.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

use super::Topic;
use super::settings::{KNOWN, Kind, Known};
use crate::embedded::Machine;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

const SOURCE_TOPIC: i8 = 1;
const SOURCE_DEFAULT: i8 = 5;

impl Machine {
    pub(in crate::embedded) fn describe_configs(&self, request: &DescribeConfigsRequest) -> DescribeConfigsResponse {
        let results = request.resources.iter().map(|resource| {
            let result = DescribeConfigsResult::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone());
            let topic = match resource.resource_type {
                TOPIC => self.topics.get(&resource.resource_name).map(Some),
                BROKER => Ok(None),
                _ => Err(ResponseError::InvalidRequest),
            };
            match topic {
                Ok(Some(topic)) => result.with_configs(self.topic_settings(topic, resource)),
                Ok(None) => result,
                Err(error) => result.with_error_code(error.code()),
            }
        });
        DescribeConfigsResponse::default().with_results(results.collect())
    }

    fn topic_settings(&self, topic: &Topic, wanted: &DescribeConfigsResource) -> Vec<DescribeConfigsResourceResult> {
        let is_wanted = |known: &&Known| {
            wanted.configuration_keys.as_ref().is_none_or(|keys| keys.iter().any(|key| key.as_str() == known.name))
        };
        let describe = |known: &Known| {
            let given = topic.settings.given(known.name);
            let value = match (given, known.name) {
                (Some(given), _) => given.to_owned(),
                (None, "max.message.bytes") => self.options.message_bytes_max.to_string(),
                (None, _) => known.default.to_owned(),
            };
            DescribeConfigsResourceResult::default()
                .with_name(known.name.into())
                .with_value(Some(value.into()))
                .with_config_source(if given.is_some() { SOURCE_TOPIC } else { SOURCE_DEFAULT })
                .with_config_type(type_number(known.kind))
        };
        KNOWN.iter().filter(is_wanted).map(describe).collect()
    }
}

/// Kafka's number for the type of a setting.
fn type_number(kind: Kind) -> i8 {
    match kind {
        Kind::Flag => 1,
        Kind::OneOf(_) | Kind::Text => 2,
        Kind::Number => 5,
        Kind::Ratio => 6,
        Kind::ListOf(_) => 7,
    }
}
