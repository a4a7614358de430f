//! `OffsetCommit` and `OffsetDelete`.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse};

use super::group::Sender;
use super::offsets::Committed;
use crate::embedded::Machine;

impl Machine {
    pub(in crate::embedded) fn commit_offsets(
        &mut self,
        request: &OffsetCommitRequest,
        now: i64,
    ) -> OffsetCommitResponse {
        let allowed = self.may_commit_offsets(request, now);
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| {
                let index = partition.partition_index;
                let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
                let stored = allowed.and_then(|()| {
                    self.check_offset(&topic.name, index, metadata)?;
                    let offset = Committed { offset: partition.committed_offset, metadata: metadata.to_owned() };
                    let group = self.groups.by_id.entry(request.group_id.to_string()).or_default();
                    group.offsets.put(&topic.name, index, offset, now);
                    Ok(())
                });
                let response = OffsetCommitResponsePartition::default().with_partition_index(index);
                response.with_error_code(stored.map_or_else(|error: ResponseError| error.code(), |()| 0))
            });
            let partitions = partitions.collect();
            OffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions)
        });
        let topics = topics.collect();
        self.groups.keep_offsets(now, &self.options);
        OffsetCommitResponse::default().with_topics(topics)
    }

    fn may_commit_offsets(&mut self, request: &OffsetCommitRequest, now: i64) -> Result<(), ResponseError> {
        let id = request.group_id.as_str();
        if id.is_empty() {
            return Err(ResponseError::InvalidGroupId);
        }
        let generation = request.generation_id_or_member_epoch;
        if self.options.ignore_fences {
            return Ok(());
        }
        let Some(group) = self.groups.by_id.get_mut(id) else {
            // A consumer that assigns itself commits into a group without members.
            return if generation < 0 { Ok(()) } else { Err(ResponseError::IllegalGeneration) };
        };
        let instance = request.group_instance_id.as_deref();
        group.check_commit(Sender { generation, member: &request.member_id, instance }, false)?;
        if let Some(member) = group.members.get_mut(request.member_id.as_str()) {
            member.was_heard(now);
        }
        Ok(())
    }

    /// Whether an offset can be stored: its partition exists, and its metadata is small enough.
    pub(in crate::embedded) fn check_offset(
        &self,
        topic: &str,
        partition: i32,
        metadata: &str,
    ) -> Result<(), ResponseError> {
        self.topics.partition(topic, partition)?;
        if metadata.len() > self.options.offset_metadata_bytes_max {
            return Err(ResponseError::OffsetMetadataTooLarge);
        }
        Ok(())
    }

    pub(in crate::embedded) fn delete_offsets(&mut self, request: &OffsetDeleteRequest) -> OffsetDeleteResponse {
        let Some(group) = self.groups.by_id.get_mut(request.group_id.as_str()) else {
            return OffsetDeleteResponse::default().with_error_code(ResponseError::GroupIdNotFound.code());
        };
        let topics = request.topics.iter().map(|topic| {
            // Members may be reading it; which topics they subscribe to is their assignor's business, so all count.
            let error = if group.members.is_empty() { 0 } else { ResponseError::GroupSubscribedToTopic.code() };
            let partitions = topic.partitions.iter().map(|partition| {
                if error == 0 {
                    group.offsets.remove(&topic.name, partition.partition_index);
                }
                let response = OffsetDeleteResponsePartition::default();
                response.with_partition_index(partition.partition_index).with_error_code(error)
            });
            let partitions = partitions.collect();
            OffsetDeleteResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions)
        });
        OffsetDeleteResponse::default().with_topics(topics.collect())
    }
}
