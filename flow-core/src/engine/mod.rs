//! The engine: an immutable program of typed edges, and tasks that are only data.

mod data;
mod effects;
mod error;
mod failure;
mod letter;
mod options;
mod program;
mod push;
mod queue;
mod task;

pub(crate) use data::TaskData;
pub(crate) use effects::Snapshot;
pub use effects::{Effects, OutputRef, SnapshotRef};
pub use error::{FailedTimer, RestoreError, TaskError, TaskErrorKind};
pub(crate) use failure::Failure;
pub use letter::{DeadLetterRef, dead_letter};
pub use options::{FailureCounts, Policies, Policy, TaskCounters, TaskOptions};
pub(crate) use program::{Program, Readers, StoreProgram};
pub(crate) use push::{At, Edge, Fire, Key, KeyFormat, Next, Push, Read, Step};
pub use task::Task;
