//! What time does to a group: sessions, promised member ids and rebalances run out.

use super::{Group, Groups, State};
use crate::embedded::Reply;

impl Groups {
    pub(in crate::embedded) fn expire(&mut self, now: i64, out: &mut Vec<Reply>) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        for group in self.by_id.values_mut() {
            group.expire(now, out);
        }
        self.find_deadline();
    }
}

impl Group {
    fn expire(&mut self, now: i64, out: &mut Vec<Reply>) {
        let promised = self.promised.len();
        self.promised.retain(|_, deadline| *deadline > now);
        if self.promised.len() < promised {
            self.begin_if_complete(now, out);
        }
        let is_dead = |member: &super::group::Member| !member.is_waiting() && member.session_deadline <= now;
        let dead: Vec<String> =
            self.members.iter().filter(|(_, member)| is_dead(member)).map(|(id, _)| id.clone()).collect();
        for id in dead {
            self.remove_member(&id, now, out);
        }
        if self.rebalance_deadline.is_some_and(|deadline| deadline <= now) {
            self.rebalance_deadline = None;
            self.end_of_patience(now, out);
        }
    }

    /// The rebalance timeout is over: those who did not join, or did not fetch their assignment, are out.
    fn end_of_patience(&mut self, now: i64, out: &mut Vec<Reply>) {
        match self.state {
            State::Empty => {}
            State::PreparingRebalance => self.begin_generation(now, out),
            State::CompletingRebalance | State::Stable => {
                let late: Vec<String> =
                    self.members.iter().filter(|(_, member)| !member.has_synced).map(|(id, _)| id.clone()).collect();
                for id in late {
                    self.remove_member(&id, now, out);
                }
            }
        }
    }
}
