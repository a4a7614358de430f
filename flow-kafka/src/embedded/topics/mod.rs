//! Topics: their partitions and settings, and the requests that create, describe and delete them.

mod configs;
mod create;
mod metadata;
mod records;
mod settings;

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;

use super::Options;
use super::log::{Compaction, PartitionLog, Retention, Rules};
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
    /// What is asked of a batch.
    pub(super) rules: Rules,
    pub(super) compaction: Option<Compaction>,
    pub(super) retention: Option<Retention>,
}

impl Topic {
    fn new(partitions: usize, settings: Settings, options: &Options) -> Self {
        Topic {
            partitions: (0..partitions).map(|_| PartitionLog::default()).collect(),
            rules: settings.rules(options),
            compaction: settings.compaction(),
            retention: settings.retention(),
            settings,
        }
    }

    /// Whether its records can go without being asked.
    pub(super) fn is_cleaned(&self) -> bool {
        self.compaction.is_some() || self.retention.is_some()
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

    pub(super) fn iter(&self) -> impl Iterator<Item = &Topic> {
        self.by_name.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Topic> {
        self.by_name.values_mut()
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
