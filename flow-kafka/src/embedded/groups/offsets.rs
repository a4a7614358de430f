//! A group's offsets: committed ones, and those of transactions that are still open.

use std::collections::BTreeMap;

/// Next offset to read, and what the group notes beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Committed {
    pub(in crate::embedded) offset: i64,
    pub(in crate::embedded) metadata: String,
}

/// An offset, and when it was committed.
#[derive(Debug)]
struct Dated {
    committed: Committed,
    at: i64,
}

type ByPartition = BTreeMap<String, BTreeMap<i32, Dated>>;

/// The offsets of one group.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    committed: ByPartition,
    /// By producer id.
    pending: BTreeMap<i64, ByPartition>,
}

impl Offsets {
    pub(super) fn get(&self, topic: &str, partition: i32) -> Option<&Committed> {
        Some(&self.committed.get(topic)?.get(&partition)?.committed)
    }

    /// All partitions with a committed offset, by topic.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (&String, Vec<i32>)> {
        self.committed.iter().map(|(topic, partitions)| (topic, partitions.keys().copied().collect()))
    }

    /// Whether an open transaction is going to move this offset.
    pub(super) fn is_pending(&self, topic: &str, partition: i32) -> bool {
        self.pending.values().any(|pending| pending.get(topic).is_some_and(|topic| topic.contains_key(&partition)))
    }

    pub(super) fn put(&mut self, topic: &str, partition: i32, committed: Committed, at: i64) {
        self.committed.entry(topic.to_owned()).or_default().insert(partition, Dated { committed, at });
    }

    pub(super) fn put_pending(&mut self, producer_id: i64, topic: &str, partition: i32, committed: Committed, at: i64) {
        let pending = self.pending.entry(producer_id).or_default();
        pending.entry(topic.to_owned()).or_default().insert(partition, Dated { committed, at });
    }

    pub(super) fn end_transaction(&mut self, producer_id: i64, commit: bool) {
        let pending = self.pending.remove(&producer_id).unwrap_or_default();
        if commit {
            for (topic, partitions) in pending {
                self.committed.entry(topic).or_default().extend(partitions);
            }
        }
    }

    /// Forgets a committed offset.
    pub(super) fn remove(&mut self, topic: &str, partition: i32) {
        if let Some(partitions) = self.committed.get_mut(topic) {
            partitions.remove(&partition);
        }
        self.committed.retain(|_, partitions| !partitions.is_empty());
    }

    /// True if there is none, not even one of an open transaction.
    pub(super) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    /// Forgets what is older than `oldest`: all of it by `age`, if that is given, else each by its own commit. What an open
    /// transaction is about to move stays.
    pub(super) fn forget_until(&mut self, age: Option<i64>, oldest: i64) {
        let pending = &self.pending;
        for (topic, partitions) in &mut self.committed {
            partitions.retain(|partition, dated| {
                let is_pending =
                    || pending.values().any(|all| all.get(topic).is_some_and(|topic| topic.contains_key(partition)));
                age.unwrap_or(dated.at) > oldest || is_pending()
            });
        }
        self.committed.retain(|_, partitions| !partitions.is_empty());
    }

    pub(super) fn forget_topic(&mut self, topic: &str) {
        self.committed.remove(topic);
        self.pending.values_mut().for_each(|pending| {
            pending.remove(topic);
        });
    }
}
