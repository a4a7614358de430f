//! Topics: their partitions and settings, and the requests that create, describe and delete them.

mod configs;
mod create;
mod metadata;
mod records;
mod settings;

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;

use super::Options;
use super::log::{PartitionLog, Rules};
pub(super) use records::{READ_COMMITTED, check_epoch};
use settings::Settings;

/// All topics, by name.
#[derive(Debug, Default)]
pub(super) struct Topics {
    by_name: BTreeMap<String, Topic>,
}

/// One topic.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) partitions: Vec<PartitionLog>,
    settings: Settings,
}

impl Topic {
    fn new(partitions: usize, settings: Settings) -> Self {
        Topic { partitions: (0..partitions).map(|_| PartitionLog::default()).collect(), settings }
    }

    /// What is asked of a batch for this topic.
    pub(super) fn rules(&self, options: &Options) -> Rules {
        Rules {
            batch_bytes_max: self.settings.batch_bytes_max().unwrap_or(options.message_bytes_max),
            lead_max: self.settings.lead_max(),
            log_append_time: self.settings.is_log_append_time(),
            ignore_fences: options.ignore_fences,
        }
    }

    pub(super) fn partition_mut(&mut self, index: i32) -> Result<&mut PartitionLog, ResponseError> {
        let index = usize::try_from(index).map_err(|_| ResponseError::UnknownTopicOrPartition)?;
        self.partitions.get_mut(index).ok_or(ResponseError::UnknownTopicOrPartition)
    }
}

impl Topics {
    pub(super) fn get(&self, name: &str) -> Result<&Topic, ResponseError> {
        self.by_name.get(name).ok_or(ResponseError::UnknownTopicOrPartition)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Result<&mut Topic, ResponseError> {
        self.by_name.get_mut(name).ok_or(ResponseError::UnknownTopicOrPartition)
    }

    pub(super) fn partition(&self, name: &str, index: i32) -> Result<&PartitionLog, ResponseError> {
        let index = usize::try_from(index).map_err(|_| ResponseError::UnknownTopicOrPartition)?;
        self.get(name)?.partitions.get(index).ok_or(ResponseError::UnknownTopicOrPartition)
    }

    pub(super) fn partition_mut(&mut self, name: &str, index: i32) -> Result<&mut PartitionLog, ResponseError> {
        self.get_mut(name)?.partition_mut(index)
    }
}

/// Whether Kafka allows this as a topic's name.
fn is_legal(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 249 && name != "." && name != ".." && name.chars().all(legal)
}
