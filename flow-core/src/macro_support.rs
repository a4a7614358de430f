//! What the code that `#[flow]` generates names. No API: it changes with the macro, and both crates are pinned to each other.

pub use std::vec::Vec;

pub use flow_macros::{fold, key, timer};

use crate::{Codec, Key};
pub use crate::{Context, Flow, Fold, Json, Never, Placed, StepError, Timer, TopologyBuilder, Upgrades};

/// What a step may return: the next state, or why there is none. `None` forgets the key and its timers.
#[diagnostic::on_unimplemented(
    message = "a step returns `Option<{S}>` or `Result<Option<{S}>, _>`, not `{Self}`",
    label = "not the next state",
    note = "`None` forgets the key and its timers"
)]
pub trait IntoNext<S> {
    /// The next state, or the error of the step.
    fn into_next(self) -> Result<Option<S>, StepError>;
}

impl<S> IntoNext<S> for Option<S> {
    #[inline]
    fn into_next(self) -> Result<Option<S>, StepError> {
        Ok(self)
    }
}

impl<S, E: Into<StepError>> IntoNext<S> for Result<Option<S>, E> {
    #[inline]
    fn into_next(self) -> Result<Option<S>, StepError> {
        self.map_err(Into::into)
    }
}

/// Writes the key that an event names as its type's codec does. Always true: the flow names a key.
#[inline]
pub fn write_key<K: Key + ?Sized>(key: &K, out: &mut Vec<u8>) -> Result<bool, StepError> {
    <K::Codec as Codec<K>>::encode(key, out)?;
    Ok(true)
}

/// The state of a key whose timer fires.
#[inline]
pub fn take_state<S>(state: &mut Option<S>, timer: Timer) -> Result<S, StepError> {
    state.take().ok_or_else(|| {
        StepError::new(format_args!(
            "the timer `{}` fired for a key without a state, whose timers are gone",
            timer.name()
        ))
    })
}

/// The answer to a timer that the flow does not have.
#[cold]
pub fn no_such_timer(flow: &str, timer: Timer) -> StepError {
    StepError::new(format_args!("the flow `{flow}` has no handler for its timer `{}`", timer.name()))
}
