//! A task's failures: user code that returns an error or panics, with the place where it happened.
//!
//! Under the policy to stop, what came before the failing record commits first. Where the task's state may hold half of the record,
//! the task is recovered and replayed, with a [`Halt`] at the record.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use flow_core::{Offset, TaskError};

use crate::error::{RunError, panic_message};
use crate::tasks::Active;
use crate::topics::TaskId;

/// A record at which a task stops, and why.
pub(crate) struct Halt {
    pub(crate) source: usize,
    pub(crate) offset: Offset,
    pub(crate) error: RunError,
}

/// A task that failed, and where.
pub(crate) struct Failure {
    pub(crate) id: TaskId,
    /// The source and offset of the record being processed, if the failure has one.
    pub(crate) record: Option<(usize, Offset)>,
    /// State may hold half of the record.
    pub(crate) torn: bool,
    pub(crate) error: RunError,
}

/// Runs a task's code; an error or a panic of it becomes a failure with its place.
pub(crate) fn guard(
    active: &mut Active,
    record: Option<(usize, Offset)>,
    run: impl FnOnce(&mut Active) -> Result<(), TaskError>,
) -> Result<(), Box<Failure>> {
    match catch_unwind(AssertUnwindSafe(|| run(active))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(failed(active, record, error)),
        Err(panic) => {
            // Of a task with queues, only the task itself knows the record.
            let record = record.or_else(|| active.task.current_record());
            let at = record.map(|(source, offset)| (active.inputs[source].clone(), offset.0));
            let step = active.task.current_step().to_owned();
            let error = RunError::Panic { at, step, message: panic_message(&*panic) };
            Err(Box::new(Failure { id: active.id, record, torn: true, error }))
        }
    }
}

fn failed(active: &Active, record: Option<(usize, Offset)>, error: TaskError) -> Box<Failure> {
    // Of a task with queues, only the error itself knows the record.
    let record = record.or_else(|| {
        let topic = error.topic.as_deref()?;
        let source = active.sources.iter().position(|name| name == topic)?;
        Some((source, error.offset?))
    });
    Box::new(Failure { id: active.id, record, torn: error.torn, error: RunError::Record(error) })
}

/// The failure of a record that is known to fail, when its turn comes.
pub(crate) fn halted(
    halts: &mut BTreeMap<TaskId, Halt>,
    id: TaskId,
    source: usize,
    offset: Offset,
) -> Option<Box<Failure>> {
    let halt = halts.get(&id)?;
    if halt.source != source || offset < halt.offset {
        return None;
    }
    let Halt { error, .. } = halts.remove(&id)?;
    Some(Box::new(Failure { id, record: Some((source, offset)), torn: false, error }))
}
