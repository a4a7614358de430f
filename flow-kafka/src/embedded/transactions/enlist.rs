//! `AddPartitionsToTxn` and `AddOffsetsToTxn`: what a transaction is going to touch.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
};

use super::{Producer, in_version};
use crate::embedded::Machine;

impl Machine {
    pub(in crate::embedded) fn add_partitions(
        &mut self,
        request: &AddPartitionsToTxnRequest,
        version: i16,
        now: i64,
    ) -> AddPartitionsToTxnResponse {
        let producer = Producer {
            transactional_id: &request.v3_and_below_transactional_id,
            id: request.v3_and_below_producer_id.0,
            epoch: request.v3_and_below_producer_epoch,
        };
        let topics = &request.v3_and_below_topics;
        let is_known = |topic: &str, partition: i32| self.topics.partition(topic, partition).is_ok();
        let all_known = topics.iter().all(|topic| topic.partitions.iter().all(|index| is_known(&topic.name, *index)));
        let added = if all_known { self.try_add(producer, topics, now) } else { Ok(()) };
        let error_of = |topic: &str, partition: i32| match added {
            Err(error) => in_version(error, version, 2).code(),
            Ok(()) if all_known => 0,
            Ok(()) if self.topics.partition(topic, partition).is_err() => ResponseError::UnknownTopicOrPartition.code(),
            // All or nothing: the others are not added either.
            Ok(()) => ResponseError::OperationNotAttempted.code(),
        };
        let results = topics.iter().map(|topic| {
            let result = |index: &i32| {
                let result = AddPartitionsToTxnPartitionResult::default().with_partition_index(*index);
                result.with_partition_error_code(error_of(&topic.name, *index))
            };
            let results = topic.partitions.iter().map(result).collect();
            AddPartitionsToTxnTopicResult::default().with_name(topic.name.clone()).with_results_by_partition(results)
        });
        let results = results.collect();
        AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(results)
    }

    fn try_add(
        &mut self,
        producer: Producer<'_>,
        topics: &[AddPartitionsToTxnTopic],
        now: i64,
    ) -> Result<(), ResponseError> {
        let transaction = self.transactions.open(producer, now, &self.options)?;
        for topic in topics {
            transaction.partitions.entry(topic.name.to_string()).or_default().extend(&topic.partitions);
        }
        Ok(())
    }

    pub(in crate::embedded) fn add_offsets(
        &mut self,
        request: &AddOffsetsToTxnRequest,
        version: i16,
        now: i64,
    ) -> AddOffsetsToTxnResponse {
        let producer = Producer {
            transactional_id: &request.transactional_id,
            id: request.producer_id.0,
            epoch: request.producer_epoch,
        };
        let response = AddOffsetsToTxnResponse::default();
        match self.transactions.open(producer, now, &self.options) {
            Ok(transaction) => {
                transaction.groups.insert(request.group_id.to_string());
                response
            }
            Err(error) => response.with_error_code(in_version(error, version, 2).code()),
        }
    }
}
