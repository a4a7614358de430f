//! `TxnOffsetCommit`: offsets that become visible with a transaction, if the group's generation is still the sender's (KIP-447).

use kafka_protocol::ResponseError;
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};

use super::{Producer, for_old_clients};
use crate::embedded::Machine;
use crate::embedded::groups::{Committed, Sender};

impl Machine {
    pub(in crate::embedded) fn commit_in_transaction(
        &mut self,
        request: &TxnOffsetCommitRequest,
        now: i64,
    ) -> TxnOffsetCommitResponse {
        let allowed = self.may_commit(request).map_err(for_old_clients);
        let group = request.group_id.as_str();
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| {
                let index = partition.partition_index;
                let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
                let stored = allowed.and_then(|()| {
                    self.check_offset(&topic.name, index, metadata)?;
                    let offset = Committed { offset: partition.committed_offset, metadata: metadata.to_owned() };
                    self.groups.commit_pending(group, request.producer_id.0, &topic.name, index, offset, now);
                    Ok(())
                });
                let response = TxnOffsetCommitResponsePartition::default().with_partition_index(index);
                response.with_error_code(stored.map_or_else(|error: ResponseError| error.code(), |()| 0))
            });
            let partitions = partitions.collect();
            TxnOffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions)
        });
        let topics = topics.collect();
        self.groups.keep_offsets(now, &self.options);
        TxnOffsetCommitResponse::default().with_topics(topics)
    }

    fn may_commit(&mut self, request: &TxnOffsetCommitRequest) -> Result<(), ResponseError> {
        let producer = Producer {
            transactional_id: &request.transactional_id,
            id: request.producer_id.0,
            epoch: request.producer_epoch,
        };
        let group = request.group_id.as_str();
        if group.is_empty() {
            return Err(ResponseError::InvalidGroupId);
        }
        let transaction = self.transactions.of(producer, &self.options)?;
        if !transaction.is_open() || !transaction.groups.contains(group) {
            return Err(ResponseError::InvalidTxnState);
        }
        if self.options.ignore_fences {
            return Ok(());
        }
        let instance = request.group_instance_id.as_deref();
        let sender = Sender { generation: request.generation_id, member: &request.member_id, instance };
        self.groups.check_transactional_commit(group, sender)
    }
}
