//! From one generation to the next.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{ResponseKind, SyncGroupResponse};

use super::Group;
use super::group::State;
use crate::embedded::Reply;

impl Group {
    /// Asks all members to join again, and begins the next generation as soon as they have.
    pub(super) fn prepare_rebalance(&mut self, now: i64, out: &mut Vec<Reply>) {
        if self.state == State::CompletingRebalance {
            for member in self.members.values_mut() {
                member.assignment.clear();
                if let Some(waiting) = member.syncing.take() {
                    let error = ResponseError::RebalanceInProgress.code();
                    out.push(
                        waiting.reply(ResponseKind::SyncGroup(SyncGroupResponse::default().with_error_code(error))),
                    );
                }
            }
        }
        if self.state != State::PreparingRebalance {
            self.state = State::PreparingRebalance;
            self.rebalance_deadline = Some(now.saturating_add(self.rebalance_timeout()));
        }
        self.begin_if_complete(now, out);
    }

    /// Begins the next generation if nobody is missing.
    pub(super) fn begin_if_complete(&mut self, now: i64, out: &mut Vec<Reply>) {
        let is_complete = self.promised.is_empty() && self.members.values().all(|member| member.joining.is_some());
        if self.state == State::PreparingRebalance && is_complete {
            self.begin_generation(now, out);
        }
    }

    /// Begins the next generation with those who are here. Static members who are missing keep their place until their session
    /// ends.
    pub(super) fn begin_generation(&mut self, now: i64, out: &mut Vec<Reply>) {
        self.members.retain(|_, member| member.joining.is_some() || member.instance.is_some());
        if self.members.is_empty() {
            self.generation += 1;
            self.state = State::Empty;
            self.empty_since = Some(now);
            self.rebalance_deadline = None;
            self.leader = None;
            self.protocol.clear();
            return;
        }
        if !self.elect_leader() {
            self.rebalance_deadline = Some(now.saturating_add(self.rebalance_timeout()));
            return;
        }
        self.generation += 1;
        self.protocol = self.elect_protocol();
        self.state = State::CompletingRebalance;
        self.rebalance_deadline = Some(now.saturating_add(self.rebalance_timeout()));
        let mut joined = vec![];
        for (id, member) in &mut self.members {
            member.has_synced = false;
            if let Some(caller) = member.joining.take() {
                member.was_heard(now);
                joined.push((caller, id.clone()));
            }
        }
        out.extend(joined.into_iter().map(|(caller, id)| self.joined(caller, &id)));
    }

    /// Keeps the leader if it has joined, else takes the first member that has. False if none has.
    fn elect_leader(&mut self) -> bool {
        let has_joined = |id: &String| self.members.get(id).is_some_and(|member| member.joining.is_some());
        if !self.leader.as_ref().is_some_and(has_joined) {
            self.leader = self.members.keys().find(|id| has_joined(id)).cloned();
        }
        self.leader.is_some()
    }

    /// Takes a member out, and lets the others share what it had.
    pub(super) fn remove_member(&mut self, id: &str, now: i64, out: &mut Vec<Reply>) {
        let Some(member) = self.members.remove(id) else { return };
        if let Some(instance) = &member.instance {
            self.instances.remove(instance);
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
        match self.state {
            State::Stable | State::CompletingRebalance => self.prepare_rebalance(now, out),
            State::PreparingRebalance => self.begin_if_complete(now, out),
            State::Empty => {}
        }
    }
}
