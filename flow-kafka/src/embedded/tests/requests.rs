//! Requests as tests need them, and their answers in short.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::*;
use kafka_protocol::records::{Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType};

use super::Broker;

pub(super) const COMMITTED: i8 = 1;
pub(super) const UNCOMMITTED: i8 = 0;
pub(super) const LATEST: i64 = -1;
pub(super) const EARLIEST: i64 = -2;

pub(super) fn topic_name(name: &str) -> TopicName {
    TopicName(name.to_owned().into())
}

pub(super) fn group_id(id: &str) -> GroupId {
    GroupId(id.to_owned().into())
}

/// A producer as its requests name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Producer {
    pub(super) id: i64,
    pub(super) epoch: i16,
    pub(super) transactional: bool,
}

pub(super) const PLAIN: Producer = Producer { id: -1, epoch: -1, transactional: false };
/// The transactional id of all transactional producers here.
pub(super) const TX: &str = "tx";

/// A batch of records with the keys and values "k" and "v".
pub(super) fn batch(producer: Producer, sequence: i32, times: &[i64]) -> Bytes {
    let record = |(i, time): (usize, &i64)| Record {
        transactional: producer.transactional,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        timestamp_type: TimestampType::Creation,
        offset: i as i64,
        // The encoder puts records into one batch as long as offset and sequence number rise together.
        sequence: if producer.id < 0 { -1 } else { sequence } + i as i32,
        timestamp: *time,
        key: Some("k".into()),
        value: Some("v".into()),
        headers: Default::default(),
    };
    let records: Vec<Record> = times.iter().enumerate().map(record).collect();
    let mut bytes = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut bytes, &records, &options).unwrap();
    bytes.freeze()
}

pub(super) fn produce_request(topic: &str, records: Bytes, transactional: bool) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(0).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
    ProduceRequest::default()
        .with_transactional_id(transactional.then(|| TransactionalId(TX.into())))
        .with_acks(-1)
        .with_topic_data(vec![topic])
}

pub(super) fn fetch_request(topic: &str, offset: i64, isolation: i8) -> FetchRequest {
    let partition =
        FetchPartition::default().with_partition(0).with_fetch_offset(offset).with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_isolation_level(isolation)
        .with_topics(vec![topic])
}

pub(super) fn init_request(known: Option<Producer>) -> InitProducerIdRequest {
    let (id, epoch) = known.map_or((-1, -1), |producer| (producer.id, producer.epoch));
    InitProducerIdRequest::default()
        .with_transactional_id(Some(TransactionalId(TX.into())))
        .with_transaction_timeout_ms(30_000)
        .with_producer_id(ProducerId(id))
        .with_producer_epoch(epoch)
}

pub(super) fn join_request(group: &str, member: &str, instance: Option<&str>) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default().with_name("range".into()).with_metadata(Bytes::from("topics"));
    JoinGroupRequest::default()
        .with_group_id(group_id(group))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(60_000)
        .with_member_id(member.to_owned().into())
        .with_group_instance_id(instance.map(|instance| instance.to_owned().into()))
        .with_protocol_type("consumer".into())
        .with_protocols(vec![protocol])
}

pub(super) fn sync_request(
    group: &str,
    generation: i32,
    member: &str,
    assignments: &[(&str, &'static str)],
) -> SyncGroupRequest {
    let assignments = assignments.iter().map(|(member, assignment)| {
        SyncGroupRequestAssignment::default()
            .with_member_id((*member).to_owned().into())
            .with_assignment(Bytes::from_static(assignment.as_bytes()))
    });
    SyncGroupRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id(generation)
        .with_member_id(member.to_owned().into())
        .with_assignments(assignments.collect())
}

pub(super) fn heartbeat_request(group: &str, generation: i32, member: &str) -> HeartbeatRequest {
    HeartbeatRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id(generation)
        .with_member_id(member.to_owned().into())
}

/// What most tests do with a broker.
impl Broker {
    #[track_caller]
    pub(super) fn create(&mut self, topic: &str, settings: &[(&'static str, &'static str)]) {
        let configs = settings.iter().map(|(name, value)| {
            CreatableTopicConfig::default().with_name((*name).into()).with_value(Some((*value).into()))
        });
        let topic = CreatableTopic::default()
            .with_name(topic_name(topic))
            .with_num_partitions(1)
            .with_replication_factor(1)
            .with_configs(configs.collect());
        let response = self.ask(CreateTopicsRequest::default().with_topics(vec![topic]), 4);
        assert_eq!(response.topics[0].error_code, 0, "{response:?}");
    }

    /// Error and offset of a batch whose records have the current time.
    #[track_caller]
    pub(super) fn produce(&mut self, topic: &str, producer: Producer, sequence: i32, records: usize) -> (i16, i64) {
        let batch = batch(producer, sequence, &vec![self.now; records]);
        self.produce_bytes(topic, batch, producer.transactional)
    }

    #[track_caller]
    pub(super) fn produce_bytes(&mut self, topic: &str, batch: Bytes, transactional: bool) -> (i16, i64) {
        let response = self.ask(produce_request(topic, batch, transactional), 9);
        let answer = &response.responses[0].partition_responses[0];
        (answer.error_code, answer.base_offset)
    }

    #[track_caller]
    pub(super) fn fetch(&mut self, topic: &str, offset: i64, isolation: i8) -> PartitionData {
        let request = fetch_request(topic, offset, isolation).with_max_wait_ms(0);
        self.ask(request, 11).responses.remove(0).partitions.remove(0)
    }

    #[track_caller]
    pub(super) fn offset(&mut self, topic: &str, timestamp: i64, isolation: i8) -> i64 {
        let partition = ListOffsetsPartition::default().with_partition_index(0).with_timestamp(timestamp);
        let topic = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default().with_isolation_level(isolation).with_topics(vec![topic]);
        self.ask(request, 5).topics[0].partitions[0].offset
    }

    #[track_caller]
    pub(super) fn init(&mut self) -> Producer {
        let response = self.ask(init_request(None), 4);
        assert_eq!(response.error_code, 0);
        Producer { id: response.producer_id.0, epoch: response.producer_epoch, transactional: true }
    }

    #[track_caller]
    pub(super) fn add_partition(&mut self, producer: Producer, topic: &str) -> i16 {
        let topic = AddPartitionsToTxnTopic::default().with_name(topic_name(topic)).with_partitions(vec![0]);
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(TransactionalId(TX.into()))
            .with_v3_and_below_producer_id(ProducerId(producer.id))
            .with_v3_and_below_producer_epoch(producer.epoch)
            .with_v3_and_below_topics(vec![topic]);
        self.ask(request, 2).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    }

    #[track_caller]
    pub(super) fn add_offsets(&mut self, producer: Producer, group: &str) -> i16 {
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(TransactionalId(TX.into()))
            .with_producer_id(ProducerId(producer.id))
            .with_producer_epoch(producer.epoch)
            .with_group_id(group_id(group));
        self.ask(request, 2).error_code
    }

    #[track_caller]
    pub(super) fn commit_offset(
        &mut self,
        producer: Producer,
        (group, generation, member): (&str, i32, &str),
        topic: &str,
        offset: i64,
    ) -> i16 {
        let partition =
            TxnOffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(offset);
        let topic =
            TxnOffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(TransactionalId(TX.into()))
            .with_group_id(group_id(group))
            .with_producer_id(ProducerId(producer.id))
            .with_producer_epoch(producer.epoch)
            .with_generation_id(generation)
            .with_member_id(member.to_owned().into())
            .with_topics(vec![topic]);
        self.ask(request, 3).topics[0].partitions[0].error_code
    }

    #[track_caller]
    pub(super) fn end(&mut self, producer: Producer, commit: bool) -> i16 {
        let request = EndTxnRequest::default()
            .with_transactional_id(TransactionalId(TX.into()))
            .with_producer_id(ProducerId(producer.id))
            .with_producer_epoch(producer.epoch)
            .with_committed(commit);
        self.ask(request, 2).error_code
    }

    /// Error and offset of a stable fetch.
    #[track_caller]
    pub(super) fn stable_offset(&mut self, group: &str, topic: &str) -> (i16, i64) {
        let topic = OffsetFetchRequestTopic::default().with_name(topic_name(topic)).with_partition_indexes(vec![0]);
        let request = OffsetFetchRequest::default()
            .with_group_id(group_id(group))
            .with_require_stable(true)
            .with_topics(Some(vec![topic]));
        let response = self.ask(request, 7);
        let partition = &response.topics[0].partitions[0];
        (partition.error_code, partition.committed_offset)
    }

    /// A new member with its id, whose join waits if others have to join again.
    #[track_caller]
    pub(super) fn join_new(&mut self, group: &str) -> (u64, String) {
        let refused = self.ask(join_request(group, "", None), 5);
        assert_eq!(refused.error_code, kafka_protocol::ResponseError::MemberIdRequired.code());
        let member = refused.member_id.to_string();
        (self.post(join_request(group, &member, None), 5), member)
    }

    /// The only member of a group, with its assignment: member id and generation.
    #[track_caller]
    pub(super) fn sole_member(&mut self, group: &str) -> (String, i32) {
        let (connection, member) = self.join_new(group);
        let joined = self.answer::<JoinGroupRequest>(connection).expect("nobody else has to join");
        assert_eq!(self.ask(sync_request(group, joined.generation_id, &member, &[(&member, "all")]), 3).error_code, 0);
        (member, joined.generation_id)
    }
}
