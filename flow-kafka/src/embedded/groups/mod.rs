//! Consumer groups of the classic protocol: members, generations, assignments and offsets.

mod admin;
mod commit;
mod expire;
mod fetch;
mod group;
mod join;
mod leave;
mod offsets;
mod rebalance;
mod retention;
mod static_join;
mod sync;

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;

pub(super) use group::Sender;
use group::{Group, State};
pub(super) use offsets::Committed;

/// All groups, by name.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_id: BTreeMap<String, Group>,
    /// Member ids given so far: they are never given again.
    member_ids: u64,
    deadline: Option<i64>,
    /// When offsets are looked at next; none while there are none.
    retention_due: Option<i64>,
}

impl Groups {
    /// When a member, a rebalance or a promised member id runs out, or offsets may be too old.
    pub(super) fn next_deadline(&self) -> Option<i64> {
        self.deadline.into_iter().chain(self.retention_due).min()
    }

    /// Looks for the next deadline again; called after everything that may have moved one.
    pub(super) fn find_deadline(&mut self) {
        self.deadline = self.by_id.values().filter_map(Group::deadline).min();
    }

    /// A member id that was never given before. Ids sort in the order they were given.
    fn new_member_id(&mut self) -> String {
        self.member_ids += 1;
        format!("member-{:010}", self.member_ids)
    }

    fn member_of(&mut self, group: &str) -> Result<&mut Group, ResponseError> {
        if group.is_empty() {
            return Err(ResponseError::InvalidGroupId);
        }
        self.by_id.get_mut(group).ok_or(ResponseError::UnknownMemberId)
    }

    /// Whether an offset may be committed inside a transaction: KIP-447's fence.
    pub(super) fn check_transactional_commit(&self, group: &str, sender: Sender<'_>) -> Result<(), ResponseError> {
        match self.by_id.get(group) {
            Some(group) => group.check_commit(sender, true),
            None if sender.generation < 0 => Ok(()),
            None => Err(ResponseError::IllegalGeneration),
        }
    }

    /// Keeps an offset until its transaction ends.
    pub(super) fn commit_pending(
        &mut self,
        group: &str,
        producer_id: i64,
        topic: &str,
        partition: i32,
        offset: Committed,
        now: i64,
    ) {
        let group = self.by_id.entry(group.to_owned()).or_default();
        group.offsets.put_pending(producer_id, topic, partition, offset, now);
    }

    /// Makes the pending offsets of a transaction visible, or forgets them.
    pub(super) fn end_transaction(&mut self, group: &str, producer_id: i64, commit: bool) {
        if let Some(group) = self.by_id.get_mut(group) {
            group.offsets.end_transaction(producer_id, commit);
        }
    }

    /// Forgets the offsets of a topic that was deleted.
    pub(super) fn forget_topic(&mut self, topic: &str) {
        self.by_id.values_mut().for_each(|group| group.offsets.forget_topic(topic));
    }
}
