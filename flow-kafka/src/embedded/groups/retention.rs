//! How long offsets are kept (KIP-211): from when their group lost its last member, and those of a consumer that assigns itself,
//! whose group never had one, from when each was committed.
//!
//! What is simpler than in Kafka: the offsets of a group with members are all kept, also those of topics that no member subscribes to.

use super::group::State;
use super::{Group, Groups};
use crate::embedded::Options;
use crate::embedded::clock::{after, millis};

impl Groups {
    /// Offsets were committed, or may be: one day they are too old.
    pub(in crate::embedded) fn keep_offsets(&mut self, now: i64, options: &Options) {
        self.retention_due.get_or_insert_with(|| after(now, options.offsets_check_interval));
    }

    /// Forgets the offsets that are too old, and groups of which nothing is left.
    pub(in crate::embedded) fn forget_old_offsets(&mut self, now: i64, options: &Options) {
        if self.retention_due.is_none_or(|due| due > now) {
            return;
        }
        let since = now.saturating_sub(millis(options.offsets_retention));
        self.by_id.retain(|_, group| {
            if group.state == State::Empty {
                group.offsets.forget_until(group.empty_since, since);
            }
            !group.is_nothing()
        });
        let remain = self.by_id.values().any(|group| !group.offsets.is_empty());
        self.retention_due = remain.then(|| after(now, options.offsets_check_interval));
    }
}

impl Group {
    fn is_nothing(&self) -> bool {
        self.state == State::Empty && self.promised.is_empty() && self.offsets.is_empty()
    }
}
