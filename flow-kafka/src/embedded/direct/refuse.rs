//! Answers that refuse a request before the broker has seen it.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, EndTxnResponse, InitProducerIdResponse, ListOffsetsResponse,
    OffsetFetchResponse, ProduceResponse, ProducerId, RequestKind, ResponseKind, TxnOffsetCommitResponse,
};

use super::codes;

/// Whether a broker may answer this request with this error.
fn may_be_refused(request: &RequestKind, code: i16) -> bool {
    use RequestKind as Q;
    use ResponseError as E;
    let to_leader = matches!(request, Q::Produce(_) | Q::ListOffsets(_));
    let of_transaction =
        matches!(request, Q::InitProducerId(_) | Q::AddPartitionsToTxn(_) | Q::AddOffsetsToTxn(_) | Q::EndTxn(_));
    match ResponseError::try_from_code(code) {
        Some(E::LeaderNotAvailable | E::NotLeaderOrFollower) => to_leader,
        Some(E::CoordinatorLoadInProgress | E::CoordinatorNotAvailable | E::NotCoordinator) => !to_leader,
        Some(E::ConcurrentTransactions) => of_transaction,
        Some(E::InvalidProducerEpoch | E::ProducerFenced) => {
            of_transaction || matches!(request, Q::Produce(_) | Q::TxnOffsetCommit(_))
        }
        Some(error) => codes::is_transient(error),
        None => false,
    }
}

/// The answer to a request with this error code in every place that has one; `None` for requests that are not answered with it.
pub(super) fn refused(request: &RequestKind, code: i16) -> Option<ResponseKind> {
    use {RequestKind as Q, ResponseKind as R};
    if !may_be_refused(request, code) {
        return None;
    }
    Some(match request {
        Q::InitProducerId(_) => {
            let answer = InitProducerIdResponse::default().with_error_code(code);
            R::InitProducerId(answer.with_producer_id(ProducerId(-1)).with_producer_epoch(-1))
        }
        Q::AddOffsetsToTxn(_) => R::AddOffsetsToTxn(AddOffsetsToTxnResponse::default().with_error_code(code)),
        Q::EndTxn(_) => R::EndTxn(EndTxnResponse::default().with_error_code(code)),
        Q::OffsetFetch(_) => R::OffsetFetch(OffsetFetchResponse::default().with_error_code(code)),
        Q::AddPartitionsToTxn(request) => {
            let topics = request.v3_and_below_topics.iter().map(|topic| {
                let partition = |index: &i32| {
                    let result = AddPartitionsToTxnPartitionResult::default().with_partition_index(*index);
                    result.with_partition_error_code(code)
                };
                let results = topic.partitions.iter().map(partition).collect();
                let answer = AddPartitionsToTxnTopicResult::default().with_name(topic.name.clone());
                answer.with_results_by_partition(results)
            });
            let answer = AddPartitionsToTxnResponse::default();
            R::AddPartitionsToTxn(answer.with_results_by_topic_v3_and_below(topics.collect()))
        }
        Q::TxnOffsetCommit(request) => {
            let topics = request.topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    let answer = TxnOffsetCommitResponsePartition::default();
                    answer.with_partition_index(partition.partition_index).with_error_code(code)
                });
                let answer = TxnOffsetCommitResponseTopic::default().with_name(topic.name.clone());
                answer.with_partitions(partitions.collect())
            });
            R::TxnOffsetCommit(TxnOffsetCommitResponse::default().with_topics(topics.collect()))
        }
        Q::Produce(request) => {
            let topics = request.topic_data.iter().map(|topic| {
                let partitions = topic.partition_data.iter().map(|partition| {
                    let answer = PartitionProduceResponse::default().with_index(partition.index);
                    answer.with_base_offset(-1).with_error_code(code)
                });
                let answer = TopicProduceResponse::default().with_name(topic.name.clone());
                answer.with_partition_responses(partitions.collect())
            });
            R::Produce(ProduceResponse::default().with_responses(topics.collect()))
        }
        Q::ListOffsets(request) => {
            let topics = request.topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    let answer = ListOffsetsPartitionResponse::default().with_offset(-1).with_timestamp(-1);
                    answer.with_partition_index(partition.partition_index).with_error_code(code)
                });
                let answer = ListOffsetsTopicResponse::default().with_name(topic.name.clone());
                answer.with_partitions(partitions.collect())
            });
            R::ListOffsets(ListOffsetsResponse::default().with_topics(topics.collect()))
        }
        _ => return None,
    })
}
