//! A request of every kind, with an element in each of its lists.

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::*;

use super::requests::{
    PLAIN, batch, fetch_request, group_id, heartbeat_request, init_request, join_request, produce_request,
    sync_request, topic_name,
};

/// A request with what this version can carry.
pub(crate) fn sample(api: ApiKey, version: i16) -> RequestKind {
    match api {
        ApiKey::Produce => produce_request("t", batch(PLAIN, 0, &[1]), false).into(),
        ApiKey::Fetch => fetch(version).into(),
        ApiKey::ListOffsets | ApiKey::OffsetForLeaderEpoch | ApiKey::DeleteRecords => log(api),
        ApiKey::CreateTopics | ApiKey::CreatePartitions | ApiKey::DeleteTopics | ApiKey::DescribeConfigs => admin(api),
        ApiKey::Metadata => {
            let topic = MetadataRequestTopic::default().with_name(Some(topic_name("t")));
            MetadataRequest::default().with_topics(Some(vec![topic])).into()
        }
        ApiKey::DescribeCluster => DescribeClusterRequest::default().into(),
        ApiKey::ApiVersions => ApiVersionsRequest::default().into(),
        ApiKey::FindCoordinator if version < 4 => FindCoordinatorRequest::default().with_key("k".into()).into(),
        ApiKey::FindCoordinator => {
            FindCoordinatorRequest::default().with_coordinator_keys(vec!["k".into(), "l".into()]).into()
        }
        ApiKey::OffsetCommit | ApiKey::OffsetFetch | ApiKey::OffsetDelete => offsets(api, version),
        ApiKey::InitProducerId if version < 3 => init_request(None).with_producer_id(ProducerId(-1)).into(),
        ApiKey::InitProducerId => init_request(None).into(),
        ApiKey::AddPartitionsToTxn | ApiKey::AddOffsetsToTxn | ApiKey::EndTxn | ApiKey::TxnOffsetCommit => {
            transaction(api, version)
        }
        _ => group(api, version),
    }
}

fn fetch(version: i16) -> FetchRequest {
    let mut request = fetch_request("t", 0, 0);
    let partition = FetchPartition::default().with_partition(1).with_partition_max_bytes(1);
    request.topics.push(FetchTopic::default().with_topic(topic_name("u")).with_partitions(vec![partition]));
    if version >= 7 {
        let forgotten = ForgottenTopic::default().with_topic(topic_name("v")).with_partitions(vec![0, 1]);
        request.forgotten_topics_data = vec![forgotten];
    }
    request
}

fn log(api: ApiKey) -> RequestKind {
    match api {
        ApiKey::ListOffsets => {
            let partition = ListOffsetsPartition::default().with_timestamp(-1);
            let topic = ListOffsetsTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
            ListOffsetsRequest::default().with_topics(vec![topic]).into()
        }
        ApiKey::OffsetForLeaderEpoch => {
            let partition = OffsetForLeaderPartition::default();
            let topic = OffsetForLeaderTopic::default().with_topic(topic_name("t")).with_partitions(vec![partition]);
            OffsetForLeaderEpochRequest::default().with_topics(vec![topic]).into()
        }
        _ => {
            let partition = DeleteRecordsPartition::default();
            let topic = DeleteRecordsTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
            DeleteRecordsRequest::default().with_topics(vec![topic]).into()
        }
    }
}

fn admin(api: ApiKey) -> RequestKind {
    match api {
        ApiKey::CreateTopics => {
            let config = CreatableTopicConfig::default().with_name("cleanup.policy".into()).with_value(None);
            let assignment = CreatableReplicaAssignment::default().with_broker_ids(vec![1.into()]);
            let topic = CreatableTopic::default()
                .with_name(topic_name("t"))
                .with_num_partitions(1)
                .with_replication_factor(1)
                .with_assignments(vec![assignment])
                .with_configs(vec![config]);
            let plain = CreatableTopic::default().with_name(topic_name("u")).with_num_partitions(-1);
            let plain = plain.with_replication_factor(-1);
            CreateTopicsRequest::default().with_topics(vec![topic, plain]).into()
        }
        ApiKey::CreatePartitions => {
            let assignment = CreatePartitionsAssignment::default().with_broker_ids(vec![1.into()]);
            let topic = CreatePartitionsTopic::default().with_name(topic_name("t")).with_count(2);
            let topic = topic.with_assignments(Some(vec![assignment]));
            CreatePartitionsRequest::default().with_topics(vec![topic]).into()
        }
        ApiKey::DeleteTopics => DeleteTopicsRequest::default().with_topic_names(vec![topic_name("t")]).into(),
        _ => {
            let topic = DescribeConfigsResource::default().with_resource_type(2).with_resource_name("u".into());
            let some = topic.clone().with_configuration_keys(Some(vec!["cleanup.policy".into()]));
            let all = topic.with_configuration_keys(None);
            DescribeConfigsRequest::default().with_resources(vec![some, all]).into()
        }
    }
}

fn offsets(api: ApiKey, version: i16) -> RequestKind {
    match api {
        ApiKey::OffsetCommit => {
            let partition = OffsetCommitRequestPartition::default().with_committed_metadata(Some("note".into()));
            let topic = OffsetCommitRequestTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
            OffsetCommitRequest::default().with_group_id(group_id("g")).with_topics(vec![topic]).into()
        }
        ApiKey::OffsetFetch if version < 8 => {
            let topic = OffsetFetchRequestTopic::default().with_name(topic_name("t"));
            let topic = topic.with_partition_indexes(vec![0, 1]);
            OffsetFetchRequest::default().with_group_id(group_id("g")).with_topics(Some(vec![topic])).into()
        }
        ApiKey::OffsetFetch => {
            let topic = OffsetFetchRequestTopics::default().with_name(topic_name("t"));
            let topic = topic.with_partition_indexes(vec![0, 1]);
            let group = OffsetFetchRequestGroup::default().with_group_id(group_id("g"));
            OffsetFetchRequest::default()
                .with_topics(Some(vec![]))
                .with_groups(vec![group.with_topics(Some(vec![topic]))])
                .into()
        }
        _ => {
            let partition = OffsetDeleteRequestPartition::default();
            let topic = OffsetDeleteRequestTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
            OffsetDeleteRequest::default().with_group_id(group_id("g")).with_topics(vec![topic]).into()
        }
    }
}

fn transaction(api: ApiKey, version: i16) -> RequestKind {
    let id = || TransactionalId("tx".into());
    match api {
        ApiKey::AddPartitionsToTxn => {
            let topic = AddPartitionsToTxnTopic::default().with_name(topic_name("t")).with_partitions(vec![0, 1]);
            AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(id())
                .with_v3_and_below_topics(vec![topic])
                .into()
        }
        ApiKey::AddOffsetsToTxn => {
            AddOffsetsToTxnRequest::default().with_transactional_id(id()).with_group_id(group_id("g")).into()
        }
        ApiKey::EndTxn => EndTxnRequest::default().with_transactional_id(id()).into(),
        _ => {
            let partition = TxnOffsetCommitRequestPartition::default().with_committed_metadata(Some("note".into()));
            let topic =
                TxnOffsetCommitRequestTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
            let request = TxnOffsetCommitRequest::default()
                .with_transactional_id(id())
                .with_group_id(group_id("g"))
                .with_topics(vec![topic]);
            if version < 3 { request } else { request.with_member_id("m".into()) }.into()
        }
    }
}

fn group(api: ApiKey, version: i16) -> RequestKind {
    let instance = |since: i16| (version >= since).then_some("i");
    match api {
        ApiKey::JoinGroup => join_request("g", "", instance(5)).into(),
        ApiKey::SyncGroup => sync_request("g", 1, "m", &[("m", "a"), ("n", "b")]).into(),
        ApiKey::Heartbeat => heartbeat_request("g", 1, "m").with_group_instance_id(instance(3).map(Into::into)).into(),
        ApiKey::LeaveGroup if version < 3 => {
            LeaveGroupRequest::default().with_group_id(group_id("g")).with_member_id("m".into()).into()
        }
        ApiKey::LeaveGroup => {
            let member = MemberIdentity::default().with_member_id("m".into());
            LeaveGroupRequest::default().with_group_id(group_id("g")).with_members(vec![member]).into()
        }
        ApiKey::DescribeGroups => DescribeGroupsRequest::default().with_groups(vec![group_id("g")]).into(),
        ApiKey::ListGroups => {
            let states = if version < 4 { vec![] } else { vec!["Empty".into()] };
            ListGroupsRequest::default().with_states_filter(states).into()
        }
        ApiKey::DeleteGroups => DeleteGroupsRequest::default().with_groups_names(vec![group_id("g")]).into(),
        other => panic!("no sample of {other:?}"),
    }
}
