//! A group with one member, by raw requests.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DescribeGroupsRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse,
    OffsetCommitRequest, OffsetFetchRequest, SyncGroupRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::code;
use crate::wire::Wire;

/// The only member of a group, which owns partitions 0 and 1 of a topic.
pub(crate) struct Member<'w> {
    pub(crate) wire: &'w mut Wire,
    pub(crate) group: String,
    pub(crate) topic: String,
    pub(crate) id: StrBytes,
    pub(crate) generation: i32,
}

impl<'w> Member<'w> {
    /// Joins and takes both partitions.
    pub(crate) fn join(wire: &'w mut Wire, group: &str, topic: &str) -> Member<'w> {
        let find = FindCoordinatorRequest::default().with_key(group.to_owned().into()).with_key_type(0);
        assert_eq!(wire.settle(&find, 3, |response| response.error_code).error_code, code::NONE);
        let mut joined = join(wire, group, topic, StrBytes::default());
        if joined.error_code == code::MEMBER_ID_REQUIRED {
            joined = join(wire, group, topic, joined.member_id);
        }
        assert_eq!(joined.error_code, code::NONE);
        let (group, topic) = (group.to_owned(), topic.to_owned());
        let mut member = Member { wire, group, topic, id: joined.member_id, generation: joined.generation_id };
        assert_eq!(member.sync(member.generation), code::NONE);
        member
    }

    pub(crate) fn sync(&mut self, generation: i32) -> i16 {
        let assignment = SyncGroupRequestAssignment::default()
            .with_member_id(self.id.clone())
            .with_assignment(topic_list(&self.topic, &[0, 1]));
        let request = SyncGroupRequest::default()
            .with_group_id(GroupId(self.group.clone().into()))
            .with_generation_id(generation)
            .with_member_id(self.id.clone())
            .with_assignments(vec![assignment]);
        self.wire.call(&request, 1).error_code
    }

    pub(crate) fn heartbeat(&mut self, generation: i32, member: &str) -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(GroupId(self.group.clone().into()))
            .with_generation_id(generation)
            .with_member_id(member.to_owned().into());
        self.wire.call(&request, 1).error_code
    }

    /// Commits an offset of partition 0.
    pub(crate) fn commit(&mut self, generation: i32, member: &str, offset: i64) -> i16 {
        let partition = OffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(offset);
        let topic = OffsetCommitRequestTopic::default()
            .with_name(TopicName(self.topic.clone().into()))
            .with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(self.group.clone().into()))
            .with_generation_id_or_member_epoch(generation)
            .with_member_id(member.to_owned().into())
            .with_topics(vec![topic]);
        self.wire.call(&request, 3).topics[0].partitions[0].error_code
    }

    /// Error and offset of a stable fetch of partition 0.
    pub(crate) fn stable_offset(&mut self) -> (i16, i64) {
        let topic = OffsetFetchRequestTopic::default()
            .with_name(TopicName(self.topic.clone().into()))
            .with_partition_indexes(vec![0]);
        let request = OffsetFetchRequest::default()
            .with_group_id(GroupId(self.group.clone().into()))
            .with_require_stable(true)
            .with_topics(Some(vec![topic]));
        let response = self.wire.call(&request, 7);
        let partition = &response.topics[0].partitions[0];
        (partition.error_code, partition.committed_offset)
    }
}

fn join(wire: &mut Wire, group: &str, topic: &str, member: StrBytes) -> JoinGroupResponse {
    let protocol = JoinGroupRequestProtocol::default().with_name("range".into()).with_metadata(topic_list(topic, &[]));
    let request = JoinGroupRequest::default()
        .with_group_id(GroupId(group.to_owned().into()))
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_member_id(member)
        .with_protocol_type("consumer".into())
        .with_protocols(vec![protocol]);
    wire.settle(&request, 2, |response| response.error_code)
}

/// A subscription (no partitions) or an assignment, in the consumer protocol's version 0.
fn topic_list(topic: &str, partitions: &[i32]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(0);
    bytes.put_i32(1);
    bytes.put_i16(i16::try_from(topic.len()).unwrap());
    bytes.put_slice(topic.as_bytes());
    if !partitions.is_empty() {
        bytes.put_i32(i32::try_from(partitions.len()).unwrap());
        partitions.iter().for_each(|partition| bytes.put_i32(*partition));
    }
    bytes.put_i32(-1); // no user data
    bytes.freeze()
}

/// The ids of a group's members.
pub(crate) fn member_ids(wire: &mut Wire, group: &str) -> Vec<String> {
    let request = DescribeGroupsRequest::default().with_groups(vec![GroupId(group.to_owned().into())]);
    let response = wire.settle(&request, 0, |response| response.groups[0].error_code);
    response.groups[0].members.iter().map(|member| member.member_id.to_string()).collect()
}
