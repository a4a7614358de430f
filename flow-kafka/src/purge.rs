//! Purging: what a repartition topic holds below the committed offsets is deleted, every 30 s by default.
//!
//! A repartition topic belongs to the application alone, and keeps everything until then: no retention may delete a record that
//! nobody has read. Below a committed offset nothing is needed any more: a recovery starts there, and a committed offset never
//! goes back. So an offset may be purged up to whatever happened since it was committed, also to the ownership of its partition.
//!
//! It is done on a thread of its own that nobody waits for, at best effort: what fails is tried again the next time, with more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use flow_core::Offset;

use crate::broker::{Broker, BrokerError, TopicPartition};
use crate::tasks::Active;
use crate::topics::Layout;

/// How long the broker may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Offsets below which records are deleted.
type Below = Vec<(TopicPartition, Offset)>;

/// Purges for one worker.
pub(crate) struct Purge {
    broker: Arc<dyn Broker>,
    worker: usize,
    every: Duration,
    /// When the last one began.
    last: Duration,
    /// Up to where each partition is purged.
    done: BTreeMap<TopicPartition, Offset>,
    under_way: Option<Receiver<Result<Below, BrokerError>>>,
    failing: bool,
}

impl Purge {
    pub(crate) fn new(broker: Arc<dyn Broker>, worker: usize, every: Duration) -> Self {
        Purge { broker, worker, every, last: Duration::ZERO, done: BTreeMap::new(), under_way: None, failing: false }
    }

    /// Begins to purge if it is time. Never waits.
    pub(crate) fn begin_if_due<'t>(&mut self, now: Duration, layout: &Layout, tasks: impl Iterator<Item = &'t Active>) {
        if now.saturating_sub(self.last) < self.every {
            return;
        }
        self.last = now;
        if self.is_under_way() {
            return;
        }
        let below = self.below(layout, tasks);
        if !below.is_empty() {
            self.begin(below);
        }
    }

    /// True if the last one has not ended; takes its outcome over if it has.
    fn is_under_way(&mut self) -> bool {
        let Some(outcome) = &self.under_way else { return false };
        match outcome.try_recv() {
            Err(TryRecvError::Empty) => return true,
            Ok(Ok(below)) => {
                self.done.extend(below);
                if std::mem::take(&mut self.failing) {
                    log::info!("worker {}: repartition topics are purged again", self.worker);
                }
            }
            Ok(Err(error)) => self.failed(&error.message),
            Err(TryRecvError::Disconnected) => self.failed("its thread ended early"),
        }
        self.under_way = None;
        false
    }

    /// Once for all failures in a row.
    fn failed(&mut self, why: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            let number = self.worker;
            log::warn!("worker {number}: repartition topics are not purged for now, and grow; nothing is lost: {why}");
        }
    }

    /// What was committed and is not purged.
    fn below<'t>(&self, layout: &Layout, tasks: impl Iterator<Item = &'t Active>) -> Below {
        let mut below = Vec::new();
        for task in tasks {
            for (source, partition) in task.inputs.iter().enumerate() {
                let (committed, done) = (task.committed_at[source], self.done.get(partition));
                if layout.is_repartition(task.id.sub, source) && done.is_none_or(|done| *done < committed) {
                    below.push((partition.clone(), committed));
                }
            }
        }
        below
    }

    fn begin(&mut self, below: Below) {
        let (sender, outcome) = channel();
        let broker = Arc::clone(&self.broker);
        let run = Box::new(move || {
            // A client of its own, for as long as it takes: it would stand idle for the rest of the time.
            let purged = broker.admin().and_then(|mut admin| admin.delete_records(&below, TIMEOUT));
            // The worker may have ended meanwhile; then nobody waits for the outcome.
            let _ = sender.send(purged.map(|()| below));
        });
        match self.broker.host().spawn(&format!("flow-purge-{}", self.worker), run) {
            // Not waited for, either: it holds no shutdown up.
            Ok(_thread) => self.under_way = Some(outcome),
            Err(error) => self.failed(&error.message),
        }
    }
}

#[cfg(test)]
mod tests;
