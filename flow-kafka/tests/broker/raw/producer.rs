//! A producer, by raw requests.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, FindCoordinatorRequest, GroupId,
    InitProducerIdRequest, ProduceRequest, ProducerId, TopicName, TransactionalId, TxnOffsetCommitRequest,
};
use kafka_protocol::records::{Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType};

use crate::wire::Wire;

/// A producer with what its requests say about it; tests change the fields to send wrong ones.
#[derive(Clone, Debug)]
pub(crate) struct Producer {
    pub(crate) transactional_id: Option<String>,
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// Whose offsets a transaction commits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'r> {
    pub(crate) group: &'r str,
    pub(crate) generation: i32,
    pub(crate) member: &'r str,
}

impl Producer {
    /// An idempotent producer.
    pub(crate) fn idempotent(wire: &mut Wire) -> Producer {
        let producer = Producer { transactional_id: None, id: -1, epoch: -1 };
        producer.init(wire).unwrap()
    }

    /// A transactional producer; it fences the one before.
    pub(crate) fn transactional(wire: &mut Wire, id: &str) -> Producer {
        let find = FindCoordinatorRequest::default().with_key(id.to_owned().into()).with_key_type(1);
        assert_eq!(wire.settle(&find, 3, |response| response.error_code).error_code, 0);
        let producer = Producer { transactional_id: Some(id.to_owned()), id: -1, epoch: -1 };
        producer.init(wire).unwrap()
    }

    /// Initialises this producer, by its id and epoch if it has them (KIP-360); the error code if refused.
    pub(crate) fn init(&self, wire: &mut Wire) -> Result<Producer, i16> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(self.transactional_id.clone().map(|id| TransactionalId(id.into())))
            .with_transaction_timeout_ms(30_000)
            .with_producer_id(ProducerId(self.id))
            .with_producer_epoch(self.epoch);
        let response = wire.settle(&request, 4, |response| response.error_code);
        match response.error_code {
            0 => Ok(Producer { id: response.producer_id.0, epoch: response.producer_epoch, ..self.clone() }),
            error => Err(error),
        }
    }

    fn transactional_id(&self) -> TransactionalId {
        TransactionalId(self.transactional_id.clone().unwrap_or_default().into())
    }

    pub(crate) fn add_partition(&self, wire: &mut Wire, topic: &str, partition: i32) -> i16 {
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(TopicName(topic.to_owned().into()))
            .with_partitions(vec![partition]);
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.transactional_id())
            .with_v3_and_below_producer_id(ProducerId(self.id))
            .with_v3_and_below_producer_epoch(self.epoch)
            .with_v3_and_below_topics(vec![topic]);
        let error = |response: &kafka_protocol::messages::AddPartitionsToTxnResponse| {
            response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        };
        error(&wire.settle(&request, 2, error))
    }

    pub(crate) fn add_offsets(&self, wire: &mut Wire, group: &str) -> i16 {
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(ProducerId(self.id))
            .with_producer_epoch(self.epoch)
            .with_group_id(GroupId(group.to_owned().into()));
        wire.settle(&request, 2, |response| response.error_code).error_code
    }

    /// Commits an offset of partition 0 in the transaction.
    pub(crate) fn commit_offset(&self, wire: &mut Wire, from: Sender<'_>, topic: &str, offset: i64) -> i16 {
        let partition =
            TxnOffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(offset);
        let topic = TxnOffsetCommitRequestTopic::default()
            .with_name(TopicName(topic.to_owned().into()))
            .with_partitions(vec![partition]);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_group_id(GroupId(from.group.to_owned().into()))
            .with_producer_id(ProducerId(self.id))
            .with_producer_epoch(self.epoch)
            .with_generation_id(from.generation)
            .with_member_id(from.member.to_owned().into())
            .with_topics(vec![topic]);
        wire.call(&request, 3).topics[0].partitions[0].error_code
    }

    pub(crate) fn end(&self, wire: &mut Wire, commit: bool) -> i16 {
        let request = EndTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(ProducerId(self.id))
            .with_producer_epoch(self.epoch)
            .with_committed(commit);
        wire.settle(&request, 2, |response| response.error_code).error_code
    }

    /// Sends a batch: its error and the offset it got.
    pub(crate) fn produce(
        &self,
        wire: &mut Wire,
        topic: &str,
        partition: i32,
        sequence: i32,
        records: usize,
    ) -> (i16, i64) {
        let data =
            PartitionProduceData::default().with_index(partition).with_records(Some(self.batch(sequence, records)));
        let topic =
            TopicProduceData::default().with_name(TopicName(topic.to_owned().into())).with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_transactional_id(self.transactional_id.clone().map(|id| TransactionalId(id.into())))
            .with_acks(-1)
            .with_timeout_ms(10_000)
            .with_topic_data(vec![topic]);
        let response = wire.call(&request, 7);
        let answer = &response.responses[0].partition_responses[0];
        (answer.error_code, answer.base_offset)
    }

    fn batch(&self, sequence: i32, records: usize) -> Bytes {
        let record = |delta: i32| Record {
            transactional: self.transactional_id.is_some(),
            control: false,
            delete_horizon: false,
            partition_leader_epoch: -1,
            producer_id: self.id,
            producer_epoch: self.epoch,
            timestamp_type: TimestampType::Creation,
            offset: delta.into(),
            sequence: sequence + delta,
            timestamp: 1_700_000_000_000,
            key: Some("k".into()),
            value: Some("v".into()),
            headers: Default::default(),
        };
        let records: Vec<Record> = (0..).take(records).map(record).collect();
        let options = RecordEncodeOptions { version: 2, compression: Compression::None };
        let mut bytes = BytesMut::new();
        RecordBatchEncoder::encode(&mut bytes, &records, &options).unwrap();
        bytes.freeze()
    }
}
