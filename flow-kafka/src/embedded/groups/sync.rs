//! `SyncGroup` and `Heartbeat`.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{
    HeartbeatRequest, HeartbeatResponse, ResponseKind, SyncGroupRequest, SyncGroupResponse,
};

use super::Group;
use super::group::{Sender, State};
use crate::embedded::machine::Caller;
use crate::embedded::{Machine, Reply};

impl Machine {
    pub(in crate::embedded) fn sync_group(
        &mut self,
        caller: Caller,
        request: &SyncGroupRequest,
        now: i64,
        out: &mut Vec<Reply>,
    ) {
        let group = self.groups.member_of(&request.group_id);
        if let Err(error) = group.and_then(|group| group.sync(caller, request, now, out)) {
            let response = SyncGroupResponse::default().with_error_code(error.code());
            let response = response.with_protocol_name(Some(Default::default()));
            out.push(caller.reply(ResponseKind::SyncGroup(response)));
        }
    }

    pub(in crate::embedded) fn heartbeat(&mut self, request: &HeartbeatRequest, now: i64) -> HeartbeatResponse {
        let instance = request.group_instance_id.as_deref();
        let sender = Sender { generation: request.generation_id, member: &request.member_id, instance };
        let beaten = self.groups.member_of(&request.group_id).and_then(|group| group.heartbeat(sender, now));
        HeartbeatResponse::default().with_error_code(beaten.map_or_else(|error| error.code(), |()| 0))
    }
}

impl Group {
    fn sync(
        &mut self,
        caller: Caller,
        request: &SyncGroupRequest,
        now: i64,
        out: &mut Vec<Reply>,
    ) -> Result<(), ResponseError> {
        let (id, instance) = (request.member_id.as_str(), request.group_instance_id.as_deref());
        self.check_sender(Sender { generation: request.generation_id, member: id, instance })?;
        let fits = |given: &Option<kafka_protocol::protocol::StrBytes>, ours: &str| {
            given.as_ref().is_none_or(|given| given.as_str() == ours)
        };
        if !fits(&request.protocol_type, &self.protocol_type) || !fits(&request.protocol_name, &self.protocol) {
            return Err(ResponseError::InconsistentGroupProtocol);
        }
        match self.state {
            State::Empty => return Err(ResponseError::UnknownMemberId),
            State::PreparingRebalance => return Err(ResponseError::RebalanceInProgress),
            State::CompletingRebalance | State::Stable => {}
        }
        if let Some(member) = self.members.get_mut(id) {
            member.has_synced = true;
            member.syncing = Some(caller);
        }
        if self.state == State::CompletingRebalance && self.leader.as_deref() == Some(id) {
            for (id, member) in &mut self.members {
                let given = request.assignments.iter().find(|assignment| assignment.member_id.as_str() == id);
                member.assignment = given.map(|given| given.assignment.clone()).unwrap_or_default();
            }
            self.state = State::Stable;
        }
        if self.state == State::Stable {
            self.answer_synced(now, out);
        }
        Ok(())
    }

    fn answer_synced(&mut self, now: i64, out: &mut Vec<Reply>) {
        for member in self.members.values_mut() {
            if let Some(caller) = member.syncing.take() {
                member.was_heard(now);
                let response = SyncGroupResponse::default()
                    .with_protocol_type(Some(self.protocol_type.clone().into()))
                    .with_protocol_name(Some(self.protocol.clone().into()))
                    .with_assignment(member.assignment.clone());
                out.push(caller.reply(ResponseKind::SyncGroup(response)));
            }
        }
        if self.members.values().all(|member| member.has_synced) {
            self.rebalance_deadline = None;
        }
    }

    fn heartbeat(&mut self, sender: Sender<'_>, now: i64) -> Result<(), ResponseError> {
        self.check_sender(sender)?;
        if let Some(member) = self.members.get_mut(sender.member) {
            member.was_heard(now);
        }
        match self.state {
            State::PreparingRebalance => Err(ResponseError::RebalanceInProgress),
            _ => Ok(()),
        }
    }
}
