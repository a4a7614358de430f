//! `ListOffsets`, `OffsetForLeaderEpoch` and `DeleteRecords`.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_protocol::messages::{
    DeleteRecordsRequest, DeleteRecordsResponse, ListOffsetsRequest, ListOffsetsResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
};

use crate::embedded::Machine;
use crate::embedded::log::PartitionLog;

/// `isolation_level` of a reader that sees committed records only.
pub(in crate::embedded) const READ_COMMITTED: i8 = 1;

/// The epoch of every partition's leader: it never changes.
const LEADER_EPOCH: i32 = 0;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;

impl Machine {
    pub(in crate::embedded) fn list_offsets(&self, request: &ListOffsetsRequest, version: i16) -> ListOffsetsResponse {
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|wanted| {
                let response = ListOffsetsPartitionResponse::default().with_partition_index(wanted.partition_index);
                let log = self.topics.partition(&topic.name, wanted.partition_index);
                let found = log.and_then(|log| {
                    check_epoch(wanted.current_leader_epoch)?;
                    offset_at(log, wanted.timestamp, request.isolation_level)
                });
                match found {
                    Ok((offset, timestamp)) => {
                        let epoch = if version >= 4 && offset >= 0 { LEADER_EPOCH } else { -1 };
                        response.with_offset(offset).with_timestamp(timestamp).with_leader_epoch(epoch)
                    }
                    Err(error) => response.with_error_code(error.code()),
                }
            });
            ListOffsetsTopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
        });
        ListOffsetsResponse::default().with_topics(topics.collect())
    }

    pub(in crate::embedded) fn offset_for_leader_epoch(
        &self,
        request: &OffsetForLeaderEpochRequest,
    ) -> OffsetForLeaderEpochResponse {
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|wanted| {
                let response = EpochEndOffset::default().with_partition(wanted.partition);
                let log = self.topics.partition(&topic.topic, wanted.partition);
                match log.and_then(|log| check_epoch(wanted.current_leader_epoch).map(|()| log.end())) {
                    Ok(end) if wanted.leader_epoch == LEADER_EPOCH => {
                        response.with_leader_epoch(LEADER_EPOCH).with_end_offset(end)
                    }
                    Ok(_) => response.with_leader_epoch(-1).with_end_offset(-1),
                    Err(error) => response.with_error_code(error.code()),
                }
            });
            OffsetForLeaderTopicResult::default().with_topic(topic.topic.clone()).with_partitions(partitions.collect())
        });
        OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
    }

    pub(in crate::embedded) fn delete_records(&mut self, request: &DeleteRecordsRequest) -> DeleteRecordsResponse {
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|wanted| {
                let response = DeleteRecordsPartitionResult::default().with_partition_index(wanted.partition_index);
                let log = self.topics.partition_mut(&topic.name, wanted.partition_index);
                match log.and_then(|log| log.delete_before(wanted.offset)) {
                    Ok(start) => response.with_low_watermark(start),
                    Err(error) => response.with_low_watermark(-1).with_error_code(error.code()),
                }
            });
            DeleteRecordsTopicResult::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
        });
        DeleteRecordsResponse::default().with_topics(topics.collect())
    }
}

/// Judges the leader epoch that a client knows; -1 is a client that knows none.
pub(in crate::embedded) fn check_epoch(epoch: i32) -> Result<(), ResponseError> {
    if epoch > LEADER_EPOCH { Err(ResponseError::UnknownLeaderEpoch) } else { Ok(()) }
}

/// The offset for a time or one of the names that stand for one, with the time of the record that was found.
fn offset_at(log: &PartitionLog, timestamp: i64, isolation: i8) -> Result<(i64, i64), ResponseError> {
    let end = if isolation == READ_COMMITTED { log.stable_end() } else { log.end() };
    let visible = |found: Option<(i64, i64)>| found.filter(|(offset, _)| *offset < end).unwrap_or((-1, -1));
    match timestamp {
        LATEST => Ok((end, -1)),
        EARLIEST => Ok((log.start(), -1)),
        MAX_TIMESTAMP => Ok(visible(log.at_max_time())),
        time if time >= 0 => Ok(visible(log.at_time(time))),
        _ => Err(ResponseError::InvalidRequest),
    }
}
