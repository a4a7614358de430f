//! `JoinGroup`.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse, ResponseKind};

use super::Group;
use super::group::{Member, State};
use crate::embedded::machine::Caller;
use crate::embedded::{Machine, Options, Reply};

/// The first version whose clients come back with the member id they are given (KIP-394).
const MEMBER_ID_REQUIRED_SINCE: i16 = 4;

/// A request to join, in our types.
pub(super) struct Join {
    pub(super) caller: Caller,
    pub(super) member: String,
    pub(super) instance: Option<String>,
    pub(super) protocol_type: String,
    pub(super) protocols: Vec<(String, Bytes)>,
    session_timeout: i64,
    rebalance_timeout: i64,
}

/// Why a join is refused, and the member id that goes with the answer.
pub(super) type Refused = (ResponseError, String);

impl Machine {
    pub(in crate::embedded) fn join_group(
        &mut self,
        caller: Caller,
        request: &JoinGroupRequest,
        now: i64,
        out: &mut Vec<Reply>,
    ) {
        let (caller_of_refusal, member) = (caller, request.member_id.to_string());
        let joined = check_request(request, &self.options).map_err(|error| (error, member));
        if let Err((error, member)) = joined.and_then(|()| self.try_join(caller, request, now, out)) {
            out.push(refusal(caller_of_refusal, error, &member));
        }
    }

    fn try_join(
        &mut self,
        caller: Caller,
        request: &JoinGroupRequest,
        now: i64,
        out: &mut Vec<Reply>,
    ) -> Result<(), Refused> {
        let join = Join::new(caller, request);
        let id = request.group_id.as_str();
        if !join.member.is_empty() {
            let member = join.member.clone();
            let group = self.groups.member_of(id).map_err(|error| (error, member))?;
            return group.rejoin(join, now, out);
        }
        let new_id = self.groups.new_member_id();
        let group = self.groups.by_id.entry(id.to_owned()).or_default();
        group.first_join(join, new_id, now, out)
    }
}

impl Group {
    /// A member that has no id yet.
    fn first_join(&mut self, join: Join, new_id: String, now: i64, out: &mut Vec<Reply>) -> Result<(), Refused> {
        if !self.accepts(&join.protocol_type, &join.protocols) {
            return Err((ResponseError::InconsistentGroupProtocol, String::new()));
        }
        if join.instance.is_some() {
            self.join_static(join, new_id, now, out);
            return Ok(());
        }
        if join.caller.version >= MEMBER_ID_REQUIRED_SINCE {
            // Only members that know their id count, so that a client that repeats its first request does not leave a ghost.
            self.promised.insert(new_id.clone(), now.saturating_add(join.session_timeout));
            return Err((ResponseError::MemberIdRequired, new_id));
        }
        self.add_member(join, new_id, now, out);
        Ok(())
    }

    /// A member that has an id.
    fn rejoin(&mut self, join: Join, now: i64, out: &mut Vec<Reply>) -> Result<(), Refused> {
        let id = join.member.clone();
        let refuse = |error| (error, id.clone());
        if !self.accepts(&join.protocol_type, &join.protocols) {
            return Err(refuse(ResponseError::InconsistentGroupProtocol));
        }
        if join.instance.is_none() && self.promised.remove(&id).is_some() {
            self.add_member(join, id, now, out);
            return Ok(());
        }
        self.check_member(&id, join.instance.as_deref()).map_err(refuse)?;
        let is_same = self.members.get(&id).is_some_and(|member| member.protocols == join.protocols);
        let is_leader = self.leader.as_ref() == Some(&id);
        match self.state {
            // It did not get the answer to its join, or asks for no reason: the generation stays.
            State::CompletingRebalance if is_same => self.answer_again(&join, &id, now, out),
            State::Stable if is_same && !is_leader => self.answer_again(&join, &id, now, out),
            State::Empty => return Err(refuse(ResponseError::UnknownMemberId)),
            _ => {
                self.update_member(join, &id);
                self.prepare_rebalance(now, out);
            }
        }
        Ok(())
    }

    pub(super) fn add_member(&mut self, join: Join, id: String, now: i64, out: &mut Vec<Reply>) {
        if self.members.is_empty() {
            self.protocol_type = join.protocol_type;
        }
        if let Some(instance) = &join.instance {
            self.instances.insert(instance.clone(), id.clone());
        }
        let member = Member {
            instance: join.instance,
            session_timeout: join.session_timeout,
            rebalance_timeout: join.rebalance_timeout,
            protocols: join.protocols,
            assignment: Bytes::new(),
            joining: Some(join.caller),
            syncing: None,
            has_synced: false,
            session_deadline: now.saturating_add(join.session_timeout),
        };
        self.leader.get_or_insert_with(|| id.clone());
        self.members.insert(id, member);
        self.prepare_rebalance(now, out);
    }

    pub(super) fn update_member(&mut self, join: Join, id: &str) {
        if let Some(member) = self.members.get_mut(id) {
            member.protocols = join.protocols;
            member.session_timeout = join.session_timeout;
            member.rebalance_timeout = join.rebalance_timeout;
            member.joining = Some(join.caller);
        }
    }

    fn answer_again(&mut self, join: &Join, id: &str, now: i64, out: &mut Vec<Reply>) {
        if let Some(member) = self.members.get_mut(id) {
            member.was_heard(now);
        }
        out.push(self.joined(join.caller, id));
    }

    /// The answer to a join: the generation, and for its leader the members.
    pub(super) fn joined(&self, caller: Caller, id: &str) -> Reply {
        let is_leader = self.leader.as_deref() == Some(id);
        let members = if is_leader { self.subscriptions() } else { vec![] };
        let response = JoinGroupResponse::default()
            .with_generation_id(self.generation)
            .with_protocol_type(Some(self.protocol_type.clone().into()))
            .with_protocol_name(Some(self.protocol.clone().into()))
            .with_leader(self.leader.clone().unwrap_or_default().into())
            .with_member_id(id.to_owned().into())
            .with_members(members);
        caller.reply(ResponseKind::JoinGroup(response))
    }

    pub(super) fn subscriptions(&self) -> Vec<JoinGroupResponseMember> {
        let describe = |(id, member): (&String, &Member)| {
            JoinGroupResponseMember::default()
                .with_member_id(id.clone().into())
                .with_group_instance_id(member.instance.clone().map(Into::into))
                .with_metadata(member.metadata(&self.protocol))
        };
        self.members.iter().map(describe).collect()
    }
}

impl Join {
    fn new(caller: Caller, request: &JoinGroupRequest) -> Join {
        let session_timeout = i64::from(request.session_timeout_ms);
        let rebalance_timeout = i64::from(request.rebalance_timeout_ms);
        let protocol = |protocol: &kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol| {
            (protocol.name.to_string(), protocol.metadata.clone())
        };
        Join {
            caller,
            member: request.member_id.to_string(),
            instance: request.group_instance_id.as_ref().map(ToString::to_string),
            protocol_type: request.protocol_type.to_string(),
            protocols: request.protocols.iter().map(protocol).collect(),
            session_timeout,
            // Version 0 has none.
            rebalance_timeout: if rebalance_timeout < 0 { session_timeout } else { rebalance_timeout },
        }
    }
}

fn check_request(request: &JoinGroupRequest, options: &Options) -> Result<(), ResponseError> {
    if request.group_id.is_empty() {
        return Err(ResponseError::InvalidGroupId);
    }
    let session = u128::try_from(request.session_timeout_ms).unwrap_or(0);
    if (options.session_timeout_min.as_millis()..=options.session_timeout_max.as_millis()).contains(&session) {
        Ok(())
    } else {
        Err(ResponseError::InvalidSessionTimeout)
    }
}

/// The answer to a join that is refused.
pub(super) fn refusal(caller: Caller, error: ResponseError, member: &str) -> Reply {
    let response = JoinGroupResponse::default()
        .with_error_code(error.code())
        .with_generation_id(-1)
        .with_protocol_name(Some(Default::default()))
        .with_member_id(member.to_owned().into());
    caller.reply(ResponseKind::JoinGroup(response))
}
