//! What a worker owns: what it does when the group gives it partitions and takes them away.
//!
//! A rebalance is acted on between two polls and acknowledged last. What is given up commits first, while it is still ours, and is
//! dropped before the acknowledgement: after it nothing of it is touched.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::{Worker, counts};
use crate::broker::{Consumer, ErrorKind, Rebalance, TopicPartition};
use crate::error::RunError;
use crate::tasks::Active;
use crate::topics::TaskId;

impl Worker {
    /// Does what a rebalance asks for, then acknowledges it.
    pub(super) fn rebalance(&mut self, rebalance: &Rebalance, consumer: &mut dyn Consumer) -> Result<(), RunError> {
        match rebalance {
            Rebalance::Assigned(partitions) => {
                self.joined = true;
                self.owned.extend(partitions.iter().cloned());
                log_partitions("assigned", self.number, partitions);
            }
            Rebalance::Revoked(partitions) => {
                log_partitions("revoked", self.number, partitions);
                self.mark_leaving(partitions);
                if let Some(why) = self.commit(consumer)? {
                    log::info!("worker {}: the new owner replays what could not commit: {why}", self.number);
                }
                self.give_up(partitions)?;
            }
            Rebalance::Lost(partitions) => {
                log_partitions("lost", self.number, partitions);
                self.give_up(partitions)?;
            }
        }
        match consumer.acknowledge(rebalance) {
            Ok(()) => {}
            // The client will report the loss that made this fail.
            Err(error) if error.kind == ErrorKind::Retriable => {
                log::warn!("worker {}: acknowledging a rebalance: {error}", self.number);
            }
            Err(cause) => return Err(self.broken("acknowledging a rebalance", cause)),
        }
        self.recover_complete_tasks()?;
        self.publish(self.is_running());
        Ok(())
    }

    /// The offsets of tasks that are given up commit once more, even where nothing moved.
    fn mark_leaving(&mut self, partitions: &[TopicPartition]) {
        for task in self.tasks.all() {
            task.leaving = task.inputs.iter().any(|input| partitions.contains(input));
        }
    }

    /// Drops the tasks of these partitions, whatever state they are in.
    fn give_up(&mut self, partitions: &[TopicPartition]) -> Result<(), RunError> {
        let ids: BTreeSet<TaskId> = partitions.iter().filter_map(|p| self.task_of(p)).collect();
        let mut halted = Ok(());
        for id in ids {
            self.drop_task(id);
            if let Some(pending) = self.pending.remove(&id) {
                pending.cancelled.store(true, Ordering::Release);
            }
            if let Some(halt) = self.halts.remove(&id) {
                halted = halted.and(Err(halt.error));
            }
        }
        partitions.iter().for_each(|partition| {
            self.owned.remove(partition);
        });
        halted
    }

    pub(super) fn task_of(&self, partition: &TopicPartition) -> Option<TaskId> {
        let (sub, _) = self.layout.source(&partition.topic)?;
        Some(TaskId { sub, partition: partition.partition })
    }

    /// Drops a task with its uncommitted work. If the open transaction holds some of it, the transaction must not commit.
    pub(super) fn drop_task(&mut self, id: TaskId) -> Option<Active> {
        let active = self.tasks.remove(id)?;
        if self.committer.holds(&active) {
            self.committer.abort(self.tasks.all());
        }
        self.past.add(&counts(&active));
        Some(active)
    }

    /// The membership is gone, and everything with it.
    pub(super) fn lose_everything(&mut self) {
        let ids: Vec<TaskId> = self.tasks.iter().map(|task| task.id).collect();
        for id in ids {
            self.drop_task(id);
        }
        self.cancel_all();
        self.owned.clear();
    }

    /// No recovery under way is wanted any more.
    pub(super) fn cancel_all(&mut self) {
        for pending in std::mem::take(&mut self.pending).into_values() {
            pending.cancelled.store(true, Ordering::Release);
        }
    }
}

fn log_partitions(what: &str, worker: usize, partitions: &[TopicPartition]) {
    if !partitions.is_empty() {
        let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
        log::info!("worker {worker}: {what} {}", names.join(", "));
    }
}
