//! A worker's recoveries: started for every task whose inputs are all here, on threads of their own, and taken over when they
//! report. One that is not wanted any more is cancelled; its report finds nobody who awaits it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use flow_core::{Offset, TaskOptions};

use super::{Pending, Worker, counts};
use crate::broker::{Consumer, ErrorKind, Joiner, TopicPartition};
use crate::error::RunError;
use crate::recovery::{self, Job, Report, Restored};
use crate::tasks::{Active, Sent};
use crate::topics::TaskId;
use crate::warm::Warm;

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
            self.overview.forget(id);
            self.epoch += 1;
            let cancelled = Arc::new(AtomicBool::new(false));
            let warm = self.aside.remove(&id).map(Warm::new);
            let pending = Pending { epoch: self.epoch, cancelled: Arc::clone(&cancelled), warm: warm.clone() };
            self.pending.insert(id, pending);
            let task = self.layout.subs[id.sub].topology.task(id.partition, &options);
            jobs.push(Job { id, epoch: self.epoch, task, cancelled, warm });
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
                Report::Warm { id, epoch } if self.awaits((id, epoch)) => self.start_warm(id, consumer)?,
                Report::Failed(jobs, error) if jobs.iter().any(|job| self.awaits(*job)) => return Err(error),
                Report::Outdated { id, epoch } if self.awaits((id, epoch)) => self.recover(vec![id])?,
                Report::Reading(read) => {
                    let now = self.broker.host().elapsed();
                    for read in
                        read.iter().filter(|read| self.pending.get(&read.id).is_some_and(|p| p.epoch == read.epoch))
                    {
                        self.overview.restoring(read, now);
                    }
                }
                Report::Restored(_) | Report::Warm { .. } | Report::Outdated { .. } | Report::Failed(..) => {}
            }
        }
        Ok(())
    }

    fn awaits(&self, (id, epoch): (TaskId, u64)) -> bool {
        self.pending.get(&id).is_some_and(|pending| pending.epoch == epoch)
    }

    /// A task whose state is recovered goes on.
    fn start_task(&mut self, restored: Restored, consumer: &mut dyn Consumer) -> Result<(), RunError> {
        let Restored { id, task, offsets, commit, committed_by, written, records, .. } = restored;
        let inputs = self.layout.inputs(id);
        let sources = self.layout.subs[id.sub].topology.sources();
        let active = Active {
            id,
            task,
            sources: sources.iter().map(|source| source.topic.to_string()).collect(),
            committed_at: offsets.clone(),
            start: offsets,
            commit,
            committed_by,
            written,
            announces: false,
            sent: Sent::default(),
            paused: vec![false; inputs.len()],
            inputs,
        };
        active.inputs.iter().zip(&active.start).try_for_each(|(input, from)| self.pace.check(input, *from))?;
        let (input, offset) = (active.inputs[0].clone(), active.next(0));
        if self.start(Box::new(active), consumer)? {
            self.past.restored += records;
            self.publish(self.is_running());
            let worker = self.number;
            log::info!("worker {worker}: {input} goes on at offset {offset} ({records} snapshot records restored)");
        }
        Ok(())
    }

    /// A task that was put aside goes on as it is: nobody else has committed for it.
    fn start_warm(&mut self, id: TaskId, consumer: &mut dyn Consumer) -> Result<(), RunError> {
        let Some(active) = self.pending.get_mut(&id).and_then(|pending| pending.warm.take()?.take()) else {
            return Ok(());
        };
        let (input, offset) = (active.inputs[0].clone(), active.next(0));
        let counted = counts(&active);
        if self.start(active, consumer)? {
            // They are its own again.
            self.past.subtract(&counted);
            self.past.warm += 1;
            self.publish(self.is_running());
            log::info!("worker {}: {input} goes on warm at offset {offset} (nothing restored)", self.number);
        }
        Ok(())
    }

    /// Lets a task's records flow; false if that must wait for a rebalance.
    fn start(&mut self, mut active: Box<Active>, consumer: &mut dyn Consumer) -> Result<bool, RunError> {
        let id = active.id;
        let next = |(source, input): (usize, &TopicPartition)| (input.clone(), active.next(source));
        let at: Vec<(TopicPartition, Offset)> = active.inputs.iter().enumerate().map(next).collect();
        self.pending.remove(&id);
        match consumer.start(&at) {
            Ok(()) => {}
            // A rebalance overtook the recovery; its report comes with the next poll.
            Err(error) if error.kind == ErrorKind::Retriable => {
                log::info!("worker {}: {} cannot start yet: {error}", self.number, at[0].0);
                self.put_aside(active);
                self.recover(vec![id])?;
                return Ok(false);
            }
            Err(cause) => return Err(self.broken(&format!("starting {}", at[0].0), cause)),
        }
        active.announces = active.committed_by != self.committer.transactional_id();
        self.overview.started(id, &at, self.broker.host().elapsed());
        self.tasks.add(*active);
        Ok(true)
    }
}
