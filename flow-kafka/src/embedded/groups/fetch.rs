//! `OffsetFetch`, with the stable fetch of KIP-447.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse, TopicName};

use super::Group;
use crate::embedded::Machine;

/// The first version that asks for several groups.
const MANY_SINCE: i16 = 8;

/// One partition's answer.
struct Found {
    partition: i32,
    offset: i64,
    metadata: String,
    error: i16,
}

impl Machine {
    pub(in crate::embedded) fn fetch_offsets(&self, request: &OffsetFetchRequest, version: i16) -> OffsetFetchResponse {
        let response = OffsetFetchResponse::default();
        let stable = request.require_stable;
        if version < MANY_SINCE {
            let wanted = request.topics.as_ref().map(|topics| {
                topics.iter().map(|topic| (topic.name.clone(), topic.partition_indexes.clone())).collect()
            });
            let found = self.offsets_of(&request.group_id, wanted, stable);
            return response.with_topics(found.into_iter().map(|(name, found)| single(name, found)).collect());
        }
        let groups = request.groups.iter().map(|group| {
            let wanted = group.topics.as_ref().map(|topics| {
                topics.iter().map(|topic| (topic.name.clone(), topic.partition_indexes.clone())).collect()
            });
            let found = self.offsets_of(&group.group_id, wanted, stable);
            let topics = found.into_iter().map(|(name, found)| one_of_many(name, found)).collect();
            OffsetFetchResponseGroup::default().with_group_id(group.group_id.clone()).with_topics(topics)
        });
        response.with_groups(groups.collect())
    }

    /// The offsets of a group: of the wanted partitions, or of all.
    fn offsets_of(
        &self,
        group: &str,
        wanted: Option<Vec<(TopicName, Vec<i32>)>>,
        stable: bool,
    ) -> Vec<(TopicName, Vec<Found>)> {
        let group = self.groups.by_id.get(group);
        let all = || {
            let partitions = group.into_iter().flat_map(|group| group.offsets.partitions());
            partitions.map(|(topic, partitions)| (TopicName(topic.clone().into()), partitions)).collect()
        };
        let wanted = wanted.unwrap_or_else(all);
        let find = |(topic, partitions): (TopicName, Vec<i32>)| {
            let found = partitions.into_iter().map(|partition| find(group, &topic, partition, stable)).collect();
            (topic, found)
        };
        wanted.into_iter().map(find).collect()
    }
}

fn find(group: Option<&Group>, topic: &str, partition: i32, stable: bool) -> Found {
    let missing = Found { partition, offset: -1, metadata: String::new(), error: 0 };
    let Some(group) = group else { return missing };
    if stable && group.offsets.is_pending(topic, partition) {
        return Found { error: ResponseError::UnstableOffsetCommit.code(), ..missing };
    }
    match group.offsets.get(topic, partition) {
        Some(committed) => Found { offset: committed.offset, metadata: committed.metadata.clone(), ..missing },
        None => missing,
    }
}

fn single(name: TopicName, found: Vec<Found>) -> OffsetFetchResponseTopic {
    let partition = |found: Found| {
        OffsetFetchResponsePartition::default()
            .with_partition_index(found.partition)
            .with_committed_offset(found.offset)
            .with_metadata(Some(found.metadata.into()))
            .with_error_code(found.error)
    };
    OffsetFetchResponseTopic::default().with_name(name).with_partitions(found.into_iter().map(partition).collect())
}

fn one_of_many(name: TopicName, found: Vec<Found>) -> OffsetFetchResponseTopics {
    let partition = |found: Found| {
        OffsetFetchResponsePartitions::default()
            .with_partition_index(found.partition)
            .with_committed_offset(found.offset)
            .with_metadata(Some(found.metadata.into()))
            .with_error_code(found.error)
    };
    OffsetFetchResponseTopics::default().with_name(name).with_partitions(found.into_iter().map(partition).collect())
}
