use std::fmt;

use super::{FailedTimer, TaskErrorKind};

/// What failed, and where; the task adds which record it was.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: TaskErrorKind,
    pub(crate) place: Place,
    pub(crate) message: String,
    /// The timer whose handler it was in.
    pub(crate) timer: Option<Box<FailedTimer>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A step, by its number in the program's list of names.
    Step(u32),
    /// A store, by its name.
    Store(String),
}

impl Failure {
    #[cold]
    pub(crate) fn of_step(kind: TaskErrorKind, step: u32, message: impl fmt::Display) -> Box<Self> {
        Box::new(Failure { kind, place: Place::Step(step), message: message.to_string(), timer: None })
    }

    #[cold]
    pub(crate) fn of_store(kind: TaskErrorKind, store: &str, message: impl fmt::Display) -> Box<Self> {
        Box::new(Failure { kind, place: Place::Store(store.to_owned()), message: message.to_string(), timer: None })
    }
}
