//! The engine: an immutable program of typed edges, and tasks that are only data.

mod effects;
mod error;
mod options;
mod program;
mod task;

pub use effects::{Effects, OutputRef, SnapshotRef};
pub use error::{RestoreError, TaskError, TaskErrorKind};
pub use options::{Policies, Policy, Skipped, TaskCounters, TaskOptions};
pub(crate) use program::Program;
pub use task::Task;
