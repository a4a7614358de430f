//! What a broker answers while the coordinator of a group and of its transactions is on its way to another broker.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::describe_groups_response::DescribedGroup;
use kafka_protocol::messages::offset_fetch_response::OffsetFetchResponseGroup;
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, ApiKey, DescribeGroupsResponse, EndTxnResponse,
    FindCoordinatorResponse, HeartbeatResponse, InitProducerIdResponse, JoinGroupResponse, OffsetFetchResponse,
    RequestHeader, RequestKind, ResponseHeader, ResponseKind, SyncGroupResponse, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable};

const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;

/// The whole answer to a request that only a coordinator can serve; `None` for all other requests.
pub(crate) fn refusal(api: ApiKey, version: i16, correlation: i32, frame: &Bytes) -> Option<Bytes> {
    let mut rest = frame.clone();
    RequestHeader::decode(&mut rest, api.request_header_version(version)).unwrap();
    let code = NOT_COORDINATOR;
    let response: ResponseKind = match RequestKind::decode(api, &mut rest, version).unwrap() {
        RequestKind::FindCoordinator(_) => {
            FindCoordinatorResponse::default().with_error_code(COORDINATOR_NOT_AVAILABLE).into()
        }
        RequestKind::JoinGroup(_) => JoinGroupResponse::default().with_error_code(code).into(),
        RequestKind::SyncGroup(_) => SyncGroupResponse::default().with_error_code(code).into(),
        RequestKind::Heartbeat(_) => HeartbeatResponse::default().with_error_code(code).into(),
        RequestKind::InitProducerId(_) => InitProducerIdResponse::default().with_error_code(code).into(),
        RequestKind::AddOffsetsToTxn(_) => AddOffsetsToTxnResponse::default().with_error_code(code).into(),
        RequestKind::EndTxn(_) => EndTxnResponse::default().with_error_code(code).into(),
        RequestKind::DescribeGroups(request) => {
            let group = |id| DescribedGroup::default().with_group_id(id).with_error_code(code);
            DescribeGroupsResponse::default().with_groups(request.groups.into_iter().map(group).collect()).into()
        }
        RequestKind::OffsetFetch(request) => {
            let groups = request
                .groups
                .into_iter()
                .map(|group| OffsetFetchResponseGroup::default().with_group_id(group.group_id).with_error_code(code));
            let response = OffsetFetchResponse::default();
            match version {
                ..=7 => response.with_error_code(code).into(),
                _ => response.with_groups(groups.collect()).into(),
            }
        }
        RequestKind::TxnOffsetCommit(request) => {
            let topics = request.topics.into_iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    let refused = TxnOffsetCommitResponsePartition::default().with_error_code(code);
                    refused.with_partition_index(partition.partition_index)
                });
                TxnOffsetCommitResponseTopic::default().with_partitions(partitions.collect()).with_name(topic.name)
            });
            TxnOffsetCommitResponse::default().with_topics(topics.collect()).into()
        }
        RequestKind::AddPartitionsToTxn(request) => {
            let topics = request.v3_and_below_topics.into_iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    let refused = AddPartitionsToTxnPartitionResult::default().with_partition_error_code(code);
                    refused.with_partition_index(*partition)
                });
                let refused = AddPartitionsToTxnTopicResult::default();
                refused.with_results_by_partition(partitions.collect()).with_name(topic.name)
            });
            AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(topics.collect()).into()
        }
        _ => return None,
    };
    let mut answer = BytesMut::new();
    let header = ResponseHeader::default().with_correlation_id(correlation);
    header.encode(&mut answer, api.response_header_version(version)).unwrap();
    response.encode(&mut answer, version).unwrap();
    Some(answer.freeze())
}
