//! `DescribeGroups`, `ListGroups` and `DeleteGroups`.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{
    DeleteGroupsRequest, DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, GroupId,
    ListGroupsRequest, ListGroupsResponse,
};

use super::group::{Group, Member, State};
use crate::embedded::Machine;

impl Machine {
    pub(in crate::embedded) fn describe_groups(&self, request: &DescribeGroupsRequest) -> DescribeGroupsResponse {
        let describe = |id: &GroupId| {
            let described = DescribedGroup::default().with_group_id(id.clone());
            match self.groups.by_id.get(id.as_str()) {
                Some(group) => group.describe(described),
                None => described.with_group_state("Dead".into()),
            }
        };
        DescribeGroupsResponse::default().with_groups(request.groups.iter().map(describe).collect())
    }

    pub(in crate::embedded) fn list_groups(&self, request: &ListGroupsRequest) -> ListGroupsResponse {
        let states = &request.states_filter;
        let is_wanted = |state: State| states.is_empty() || states.iter().any(|wanted| wanted.as_str() == state.name());
        let groups = self.groups.by_id.iter().filter(|(_, group)| is_wanted(group.state)).map(|(id, group)| {
            ListedGroup::default()
                .with_group_id(GroupId(id.clone().into()))
                .with_protocol_type(group.protocol_type.clone().into())
                .with_group_state(group.state.name().into())
        });
        ListGroupsResponse::default().with_groups(groups.collect())
    }

    pub(in crate::embedded) fn delete_groups(&mut self, request: &DeleteGroupsRequest) -> DeleteGroupsResponse {
        let results = request.groups_names.iter().map(|id| {
            let is_empty = self.groups.by_id.get(id.as_str()).map(|group| group.members.is_empty());
            let error = match is_empty {
                Some(true) => {
                    self.groups.by_id.remove(id.as_str());
                    0
                }
                Some(false) => ResponseError::NonEmptyGroup.code(),
                None => ResponseError::GroupIdNotFound.code(),
            };
            DeletableGroupResult::default().with_group_id(id.clone()).with_error_code(error)
        });
        DeleteGroupsResponse::default().with_results(results.collect())
    }
}

impl Group {
    fn describe(&self, described: DescribedGroup) -> DescribedGroup {
        let member = |(id, member): (&String, &Member)| {
            DescribedGroupMember::default()
                .with_member_id(id.clone().into())
                .with_group_instance_id(member.instance.clone().map(Into::into))
                .with_client_host("/127.0.0.1".into())
                .with_member_metadata(member.metadata(&self.protocol))
                .with_member_assignment(member.assignment.clone())
        };
        described
            .with_group_state(self.state.name().into())
            .with_protocol_type(self.protocol_type.clone().into())
            .with_protocol_data(self.protocol.clone().into())
            .with_members(self.members.iter().map(member).collect())
    }
}
