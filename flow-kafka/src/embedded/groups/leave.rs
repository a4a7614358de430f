//! `LeaveGroup`.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::Group;
use crate::embedded::{Machine, Reply};

/// The first version that names several members.
const MANY_SINCE: i16 = 3;

impl Machine {
    pub(in crate::embedded) fn leave_group(
        &mut self,
        request: &LeaveGroupRequest,
        version: i16,
        now: i64,
        out: &mut Vec<Reply>,
    ) -> LeaveGroupResponse {
        let response = LeaveGroupResponse::default();
        let group = match self.groups.member_of(&request.group_id) {
            Ok(group) => group,
            Err(error) => return response.with_error_code(error.code()),
        };
        if version < MANY_SINCE {
            let left = group.leave(&request.member_id, None, now, out);
            return response.with_error_code(left.map_or_else(|error| error.code(), |()| 0));
        }
        let leave = |member: &MemberIdentity| {
            let left = group.leave(&member.member_id, member.group_instance_id.as_deref(), now, out);
            MemberResponse::default()
                .with_member_id(member.member_id.clone())
                .with_group_instance_id(member.group_instance_id.clone())
                .with_error_code(left.map_or_else(|error| error.code(), |()| 0))
        };
        response.with_members(request.members.iter().map(leave).collect())
    }
}

impl Group {
    fn leave(
        &mut self,
        member: &str,
        instance: Option<&str>,
        now: i64,
        out: &mut Vec<Reply>,
    ) -> Result<(), ResponseError> {
        if instance.is_none() && self.promised.remove(member).is_some() {
            self.begin_if_complete(now, out);
            return Ok(());
        }
        // An administrator may remove a static member without knowing its member id.
        let owner = instance.filter(|_| member.is_empty()).and_then(|instance| self.instances.get(instance)).cloned();
        let member = owner.unwrap_or_else(|| member.to_owned());
        self.check_member(&member, instance)?;
        self.remove_member(&member, now, out);
        Ok(())
    }
}
