//! A sub-topology compiled: immutable, shared by all tasks and workers.

use std::sync::Arc;

use super::push::{Fire, Read, Step};
use super::{Policies, Policy, TaskData};
use crate::RecordRef;
use crate::state::AnyStore;
use crate::topology::{SinkInfo, Source, StoreInfo};

pub(crate) struct Program {
    pub(crate) index: usize,
    pub(crate) sources: Vec<Source>,
    /// Per source: all that read its records (one, unless a topic is read as several types) and the step that owns its checks.
    pub(crate) readers: Vec<Readers>,
    pub(crate) store_infos: Vec<StoreInfo>,
    pub(crate) stores: Vec<StoreProgram>,
    pub(crate) sinks: Vec<SinkInfo>,
    /// The names of steps as `describe()` prints them, by their number.
    pub(crate) steps: Arc<[String]>,
    /// The names of the sources' topics.
    pub(crate) topics: Arc<[String]>,
    /// A step behind the sources may fail because it asks for a key.
    pub(crate) asks_for_keys: bool,
    /// A step may return an error.
    pub(crate) has_flows: bool,
}

pub(crate) struct Readers {
    pub(crate) step: u32,
    pub(crate) all: Vec<Arc<dyn Read>>,
}

pub(crate) struct StoreProgram {
    /// Makes the store; the argument says whether failed records may have to be undone.
    pub(crate) make: Box<dyn Fn(bool) -> Box<dyn AnyStore> + Send + Sync>,
    /// The step, if its store has a clock and timers.
    pub(crate) fire: Option<Arc<dyn Fire>>,
}

impl Program {
    #[inline]
    pub(crate) fn read(&self, source: usize, task: &mut TaskData, record: &RecordRef<'_>) -> Step {
        self.readers[source].all.iter().try_for_each(|reader| reader.read(task, record))
    }

    /// Copies of states are made only where a record may fail, after a store was changed, under a policy that passes it over.
    pub(crate) fn journaled(&self, policies: &Policies) -> bool {
        let skips = |policy: Policy| policy != Policy::Stop;
        let several_readers = self.readers.iter().any(|readers| readers.all.len() > 1);
        !self.stores.is_empty()
            && (skips(policies.step) && self.has_flows
                || skips(policies.decode) && (self.asks_for_keys || several_readers)
                || skips(policies.produce))
    }
}
