//! Static members (KIP-345): a process that comes back under its instance id takes over the place of its predecessor.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{JoinGroupResponse, ResponseKind, SyncGroupResponse};

use super::Group;
use super::group::State;
use super::join::{Join, refusal};
use crate::embedded::Reply;
use crate::embedded::machine::Caller;

/// The first version in which a leader can be told to leave the assignment as it is.
const SKIP_ASSIGNMENT_SINCE: i16 = 9;

impl Group {
    /// A static member without a member id: new, or one that comes back.
    pub(super) fn join_static(&mut self, join: Join, new_id: String, now: i64, out: &mut Vec<Reply>) {
        let instance = join.instance.clone().unwrap_or_default();
        match self.instances.get(&instance).cloned() {
            None => self.add_member(join, new_id, now, out),
            Some(old_id) => self.take_over(join, &old_id, &new_id, now, out),
        }
    }

    fn take_over(&mut self, join: Join, old_id: &str, new_id: &str, now: i64, out: &mut Vec<Reply>) {
        let Some(mut member) = self.members.remove(old_id) else { return };
        // The newer of two processes with one instance id wins; the older one learns it from its next answer.
        if let Some(waiting) = member.joining.take() {
            out.push(refusal(waiting, ResponseError::FencedInstanceId, old_id));
        }
        if let Some(waiting) = member.syncing.take() {
            let response = SyncGroupResponse::default().with_error_code(ResponseError::FencedInstanceId.code());
            out.push(waiting.reply(ResponseKind::SyncGroup(response)));
        }
        let was_leader = self.leader.as_deref() == Some(old_id);
        if was_leader {
            self.leader = Some(new_id.to_owned());
        }
        self.instances.insert(join.instance.clone().unwrap_or_default(), new_id.to_owned());
        member.was_heard(now);
        self.members.insert(new_id.to_owned(), member);
        let caller = join.caller;
        self.update_member(join, new_id);
        if self.state == State::Stable && self.elect_protocol() == self.protocol {
            if let Some(member) = self.members.get_mut(new_id) {
                member.joining = None;
            }
            out.push(self.returned(caller, new_id, old_id, was_leader));
        } else {
            self.prepare_rebalance(now, out);
        }
    }

    /// The answer to a static member that came back: generation and assignment stay. A leader must not assign again: it is told
    /// so, or, if its version cannot be told, that somebody else leads.
    fn returned(&self, caller: Caller, id: &str, old_id: &str, was_leader: bool) -> Reply {
        let can_skip = was_leader && caller.version >= SKIP_ASSIGNMENT_SINCE;
        let leader = match &self.leader {
            _ if was_leader && !can_skip => old_id.to_owned(),
            leader => leader.clone().unwrap_or_default(),
        };
        let response = JoinGroupResponse::default()
            .with_generation_id(self.generation)
            .with_protocol_type(Some(self.protocol_type.clone().into()))
            .with_protocol_name(Some(self.protocol.clone().into()))
            .with_leader(leader.into())
            .with_skip_assignment(can_skip)
            .with_member_id(id.to_owned().into())
            .with_members(if can_skip { self.subscriptions() } else { vec![] });
        caller.reply(ResponseKind::JoinGroup(response))
    }
}
