use std::fmt;

use super::TaskErrorKind;

/// What failed, and where; the task adds which record it was.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: TaskErrorKind,
    pub(crate) place: Place,
    pub(crate) message: String,
}

#[derive(Debug)]
pub(crate) enum Place {
    /// A step, by its number in the program's list of names.
    Step(u32),
    /// A store, by its name.
    Store(String),
}

impl Failure {
    #[cold]
    pub(crate) fn of_step(kind: TaskErrorKind, step: u32, message: impl fmt::Display) -> Box<Self> {
        Box::new(Failure { kind, place: Place::Step(step), message: message.to_string() })
    }

    #[cold]
    pub(crate) fn of_store(kind: TaskErrorKind, store: &str, message: impl fmt::Display) -> Box<Self> {
        Box::new(Failure { kind, place: Place::Store(store.to_owned()), message: message.to_string() })
    }
}
