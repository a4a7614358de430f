//! The partitions that a member owns, and whether their records are handed out.

use std::collections::HashMap;

use flow_core::{Offset, Partition};

use super::host::Deadline;
use super::message::Message;
use crate::broker::TopicPartition;

/// The partitions that this member owns.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) all: Vec<Part>,
    /// By librdkafka's topic handle and partition: looked up for each record whose partition is not the last one's.
    by_handle: HashMap<(usize, i32), Option<usize>>,
    last: Option<((usize, i32), Option<usize>)>,
}

pub(super) struct Part {
    pub(super) of: TopicPartition,
    pub(super) flow: Flow,
}

/// Whether records of a partition are handed out.
pub(super) enum Flow {
    /// Assigned, but its owner has not said from where.
    NotStarted,
    /// Started at this offset, when the client had seen this end of the partition.
    Started { from: Offset, old_end: i64, fresh: Deadline, paused: bool },
}

impl Parts {
    pub(super) fn add(&mut self, partitions: &[TopicPartition]) {
        self.forget_handles();
        self.remove(partitions);
        self.all.extend(partitions.iter().map(|of| Part { of: of.clone(), flow: Flow::NotStarted }));
    }

    pub(super) fn remove(&mut self, partitions: &[TopicPartition]) {
        self.forget_handles();
        self.all.retain(|part| !partitions.contains(&part.of));
    }

    pub(super) fn clear(&mut self) {
        self.forget_handles();
        self.all.clear();
    }

    /// Indices move, and a topic's handle may be another one after a rebalance.
    fn forget_handles(&mut self) {
        self.by_handle.clear();
        self.last = None;
    }

    pub(super) fn index(&self, topic: &str, partition: i32) -> Option<usize> {
        self.all.iter().position(|part| part.of.partition == Partition(partition) && part.of.topic == topic)
    }

    pub(super) fn owns(&self, topic: &str, partition: i32) -> bool {
        self.index(topic, partition).is_some()
    }

    pub(super) fn of(&mut self, message: &Message) -> Option<&Part> {
        let handle = (message.topic_id(), message.partition());
        let index = match self.last {
            Some((last, index)) if last == handle => index,
            _ => {
                let index = match self.by_handle.get(&handle) {
                    Some(index) => *index,
                    None => {
                        let index = self.index(message.topic(), message.partition());
                        self.by_handle.insert(handle, index);
                        index
                    }
                };
                self.last = Some((handle, index));
                index
            }
        };
        index.map(|index| &self.all[index])
    }
}
