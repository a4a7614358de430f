//! A worker's recoveries: started for every task whose inputs are all here, on threads of their own, and taken over when they
//! report. One that is not wanted any more is cancelled; its report finds nobody who awaits it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use flow_core::{Offset, TaskOptions};

use super::{Pending, Worker};
use crate::broker::{Consumer, ErrorKind, Joiner, TopicPartition};
use crate::error::RunError;
use crate::recovery::{self, Job, Report, Restored};
use crate::tasks::{Active, Sent};
use crate::topics::TaskId;

impl Worker {
    /// Starts the recovery of every task whose inputs are all here.
    pub(super) fn recover_complete_tasks(&mut self) -> Result<(), RunError> {
        let ids: BTreeSet<TaskId> = self.owned.iter().filter_map(|p| self.task_of(p)).collect();
        let complete = |id: &TaskId| self.layout.inputs(*id).iter().all(|input| self.owned.contains(input));
        let new = |id: &TaskId| !self.pending.contains_key(id) && !self.tasks.iter().any(|task| task.id == *id);
        let ids: Vec<TaskId> = ids.into_iter().filter(|id| new(id) && complete(id)).collect();
        self.recover(ids)
    }

    /// Starts the recovery of these tasks, off the thread that polls.
    pub(super) fn recover(&mut self, ids: Vec<TaskId>) -> Result<(), RunError> {
        if ids.is_empty() || self.ending || self.shared.stopping() {
            return Ok(());
        }
        let options = TaskOptions {
            policies: self.config.policies,
            max_record_bytes: self.config.max_record_bytes,
            max_lead: self.config.max_lead,
        };
        let mut jobs = Vec::with_capacity(ids.len());
        for id in ids {
            self.epoch += 1;
            let cancelled = Arc::new(AtomicBool::new(false));
            self.pending.insert(id, Pending { epoch: self.epoch, cancelled: Arc::clone(&cancelled) });
            let task = self.layout.subs[id.sub].topology.task(id.partition, &options);
            jobs.push(Job { id, epoch: self.epoch, task, cancelled });
        }
        let (broker, layout, reports) = (Arc::clone(&self.broker), Arc::clone(&self.layout), self.reports.0.clone());
        let deadline = self.config.recovery_deadline;
        let run = Box::new(move || recovery::run(&*broker, &layout, jobs, deadline, &reports));
        let name = format!("flow-recovery-{}-{}", self.number, self.epoch);
        let thread = self.broker.host().spawn(&name, run).map_err(|cause| self.broken("starting a recovery", cause))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Takes recovered tasks over and lets their records flow.
    pub(super) fn start_recovered(&mut self, consumer: &mut dyn Consumer) -> Result<(), RunError> {
        let (ended, threads) = std::mem::take(&mut self.threads).into_iter().partition(|thread| thread.is_finished());
        self.threads = threads;
        let ended: Vec<Box<dyn Joiner>> = ended;
        ended.into_iter().try_for_each(|thread| thread.join().map_err(RunError::Internal))?;
        while let Ok(report) = self.reports.1.try_recv() {
            // A task may have been taken away meanwhile: then neither its state nor its failure is ours.
            match report {
                Report::Restored(restored) if self.awaits((restored.id, restored.epoch)) => {
                    self.start_task(*restored, consumer)?;
                }
                Report::Failed(jobs, error) if jobs.iter().any(|job| self.awaits(*job)) => return Err(error),
                Report::Outdated { id, epoch } if self.awaits((id, epoch)) => self.recover(vec![id])?,
                Report::Restored(_) | Report::Outdated { .. } | Report::Failed(..) => {}
            }
        }
        Ok(())
    }

    fn awaits(&self, (id, epoch): (TaskId, u64)) -> bool {
        self.pending.get(&id).is_some_and(|pending| pending.epoch == epoch)
    }

    fn start_task(&mut self, restored: Restored, consumer: &mut dyn Consumer) -> Result<(), RunError> {
        let Restored { id, task, offsets, commit, written, records, .. } = restored;
        let inputs = self.layout.inputs(id);
        let at: Vec<(TopicPartition, Offset)> = inputs.iter().cloned().zip(offsets.iter().copied()).collect();
        match consumer.start(&at) {
            Ok(()) => {}
            // A rebalance overtook the recovery; its report comes with the next poll.
            Err(error) if error.kind == ErrorKind::Retriable => {
                log::info!("worker {}: {} cannot start yet: {error}", self.number, inputs[0]);
                self.pending.remove(&id);
                return self.recover(vec![id]);
            }
            Err(cause) => return Err(self.broken(&format!("starting {}", inputs[0]), cause)),
        }
        self.pending.remove(&id);
        self.past.restored += records;
        let paused = vec![false; inputs.len()];
        let sources =
            self.layout.subs[id.sub].topology.sources().iter().map(|source| source.topic.to_string()).collect();
        log::info!(
            "worker {}: {} goes on at offset {} ({records} snapshot records restored)",
            self.number,
            inputs[0],
            offsets[0]
        );
        let (start, sent, leaving) = (offsets, Sent::default(), false);
        self.tasks.add(Active { id, task, inputs, sources, start, commit, written, leaving, sent, paused });
        self.publish(self.is_running());
        Ok(())
    }
}
