//! What a worker owns: what it does when the group gives it partitions and takes them away.
//!
//! A rebalance is acted on between two polls and acknowledged last. What is given up commits first, while it is still ours, and is
//! put aside before the acknowledgement: after it nothing of it is touched.
//!
//! A task that is put aside is *warm*. If the next assignment brings it back (an eager rebalance takes everything and returns most
//! of it; a lost session is often won again), the broker's committed offset decides: where it is of this task's own last commit,
//! by transactional id and commit number, nobody else can have changed anything, and the task goes on as it stands, with no
//! restore and with what it had not committed yet. That holds however it was taken away, also for a partition that was lost.
//! Else it is dropped and recovered.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::{Pending, Worker, counts};
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
                self.refuse_new_partitions(partitions)?;
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
                self.joined = false;
                self.give_up(partitions)?;
                // The next membership has another member id, so its transactions have another id.
                self.committer.abort(self.tasks.all());
                self.committer.renew();
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
        if let Rebalance::Assigned(_) = rebalance {
            // What was not given back by now is somebody else's, and will have changed before it returns.
            self.aside.clear();
        }
        self.look(consumer);
        self.publish(self.is_running());
        Ok(())
    }

    /// A topic that grew while we run. Its keys have moved to other partitions than their state, and its snapshots would have no
    /// topic to go to. (Where there is no state, a new start takes the new partitions.)
    fn refuse_new_partitions(&self, partitions: &[TopicPartition]) -> Result<(), RunError> {
        let known = |partition: &TopicPartition| {
            self.task_of(partition).is_none_or(|id| id.partition.0 < self.layout.subs[id.sub].partitions)
        };
        let grown: Vec<String> = partitions
            .iter()
            .filter(|partition| !known(partition))
            .map(|partition| {
                format!(
                    "topic `{}` got the partition {} after this application had started: stop all of its processes and start them \
                     again. That start refuses the topic if there is state or a repartition behind it, whose keys are then in other \
                     partitions than before, and says what to do",
                    partition.topic, partition.partition
                )
            })
            .collect();
        if grown.is_empty() { Ok(()) } else { Err(RunError::Topics(grown)) }
    }

    /// The offsets of tasks that are given up commit once more, even where nothing moved.
    fn mark_leaving(&mut self, partitions: &[TopicPartition]) {
        for task in self.tasks.all() {
            task.announces |= task.inputs.iter().any(|input| partitions.contains(input));
        }
    }

    /// Puts the tasks of these partitions aside, whatever state they are in. What they have not committed stays with them: it is
    /// sent if they come back and nobody else has committed meanwhile, and is a new owner's to do again if not.
    fn give_up(&mut self, partitions: &[TopicPartition]) -> Result<(), RunError> {
        let ids: BTreeSet<TaskId> = partitions.iter().filter_map(|p| self.task_of(p)).collect();
        let mut halted = Ok(());
        for id in ids {
            if let Some(active) = self.drop_task(id) {
                self.put_aside(Box::new(active));
            }
            if let Some(pending) = self.pending.remove(&id) {
                self.cancel(id, pending);
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

    /// Keeps a task until the next assignment tells whether it comes back.
    pub(super) fn put_aside(&mut self, mut active: Box<Active>) {
        if !self.ending {
            active.rest();
            self.aside.insert(active.id, active);
        }
    }

    /// A recovery is not wanted any more. A task that it has not judged yet goes back to where it was.
    fn cancel(&mut self, id: TaskId, pending: Pending) {
        self.overview.forget(id);
        pending.cancelled.store(true, Ordering::Release);
        if let Some(active) = pending.warm.and_then(|warm| warm.take()) {
            self.aside.insert(id, active);
        }
    }

    pub(super) fn task_of(&self, partition: &TopicPartition) -> Option<TaskId> {
        let (sub, _) = self.layout.source(&partition.topic)?;
        Some(TaskId { sub, partition: partition.partition })
    }

    /// Takes a task out of the work, with what it has not committed. If the open transaction holds some of it, the transaction must not commit.
    pub(super) fn drop_task(&mut self, id: TaskId) -> Option<Active> {
        let active = self.tasks.remove(id)?;
        self.overview.forget(id);
        if self.committer.holds(&active) {
            self.committer.abort(self.tasks.all());
        }
        self.past.add(&counts(&active));
        Some(active)
    }

    /// The membership is gone, and everything with it.
    pub(super) fn lose_everything(&mut self) -> Result<(), RunError> {
        let all: Vec<TopicPartition> = self.owned.iter().cloned().collect();
        self.give_up(&all)
    }

    /// No recovery under way is wanted any more.
    pub(super) fn cancel_all(&mut self) {
        for (id, pending) in std::mem::take(&mut self.pending) {
            self.cancel(id, pending);
        }
        self.aside.clear();
    }
}

fn log_partitions(what: &str, worker: usize, partitions: &[TopicPartition]) {
    if !partitions.is_empty() {
        let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
        log::info!("worker {worker}: {what} {}", names.join(", "));
    }
}
