//! What users implement, by hand or with `#[flow]`: a fold per event type into one state per key, and its timers.

use std::fmt;

use crate::codec::Codec;
use crate::context::Context;
use crate::state::Upgrades;

/// What a state must be able to do. Every type that is `Clone + Send + 'static` is a state.
///
/// The engine clones a state only where a record that fails under the skip policy must leave nothing behind.
pub trait State: Clone + Send + 'static {}

impl<S: Clone + Send + 'static> State for S {}

/// The output of a flow that emits nothing: it has no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Never {}

/// Which time a timer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// The time of the records that reach the step.
    Event,
    /// The machine's time.
    Wall,
}

/// A named timer of a flow. Each key of the flow has its own, which is pending or not.
///
/// A pending timer is part of its key's state: it commits with it, survives a restart, and is gone when the state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timer {
    name: &'static str,
    clock: Clock,
}

impl Timer {
    /// A timer that fires when the step's clock (the highest timestamp that reached it) passes the deadline.
    pub const fn event_time(name: &'static str) -> Self {
        Timer { name, clock: Clock::Event }
    }

    /// A timer that fires when the machine's clock passes the deadline.
    pub const fn wall_clock(name: &'static str) -> Self {
        Timer { name, clock: Clock::Wall }
    }

    /// The name under which a pending timer is stored.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Which time it waits for.
    pub const fn clock(&self) -> Clock {
        self.clock
    }
}

/// A stateful step: the name its state is stored under, the state, what it emits, its timers.
///
/// A step is a plain function of the state, the event and the context: it is replayed after a crash, so it must not wait on the
/// outside world or change anything but the state it is given. What it wants otherwise it says to the [`Context`]. One instance
/// serves all partitions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a flow",
    note = "annotate an impl block of `{Self}` with `#[flow(name = \"..\")]`, or implement `Flow` by hand"
)]
pub trait Flow: Send + Sync + 'static {
    /// The store's name. It reaches Kafka (`<app>-<name>-changelog`), so it must outlive renames of the type.
    const NAME: &'static str;
    /// What is kept for a key.
    type State: State;
    /// How the state is written in snapshots.
    type Codec: for<'b> Codec<Self::State, Out<'b> = Self::State>;
    /// What the flow emits; [`Never`] if nothing.
    type Out: 'static;
    /// The version of the state's layout. A snapshot of another version is upgraded if [`Flow::upgrades`] says how, and refused
    /// otherwise, when it is restored: it is a newer one, or nobody knows any more what it means.
    const STATE_VERSION: u32 = 1;
    /// The timers that [`Context::set_timer`] may name. Those due at the same time for the same key fire in this order.
    const TIMERS: &'static [Timer] = &[];

    /// How states of earlier versions become states of this one; they end at [`Flow::STATE_VERSION`]. The timers of a key stay as
    /// they are.
    fn upgrades() -> Upgrades<Self::State, Self::Codec> {
        Upgrades::from_version(Self::STATE_VERSION)
    }

    /// A timer of a key fires. It is no longer pending; the handler may set it again, for a time in the future.
    ///
    /// # Errors
    /// What the step cannot handle; the step policy decides what becomes of it.
    fn timer(
        &self,
        timer: Timer,
        _state: &mut Option<Self::State>,
        _cx: &mut Context<Self::Out>,
    ) -> Result<(), StepError> {
        Err(StepError::new(format_args!("the flow `{}` has no handler for its timer `{}`", Self::NAME, timer.name)))
    }
}

/// Folds events of type `E` into the state of their key. A flow has one impl per event type, so that several topics can be folded
/// into one state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not fold `{E}`",
    note = "add a `#[fold]` for `{E}` to the impl block that `#[flow]` annotates, or implement `Fold<{E}>` by hand"
)]
pub trait Fold<E: ?Sized>: Flow {
    /// Writes the key that the event itself names, encoded by its type's [`Key::Codec`](crate::Key::Codec), and answers true;
    /// false: this flow names no key. The engine compares it with the record's key and fails the record if they differ.
    ///
    /// # Errors
    /// When the key cannot be written.
    fn key(&self, _event: &E, _out: &mut Vec<u8>) -> Result<bool, StepError> {
        Ok(false)
    }

    /// Folds one event. `None` in `state` is a key that has none; leaving `None` forgets the key and its timers.
    ///
    /// # Errors
    /// What the step cannot handle; the step policy decides what becomes of the record.
    fn fold(&self, state: &mut Option<Self::State>, event: &E, cx: &mut Context<Self::Out>) -> Result<(), StepError>;
}

/// Why a step failed. Any error converts into it by `?`.
pub struct StepError {
    // Twice boxed, so that a `Result<(), StepError>` fits a register: by value it costs 3 ns a step.
    cause: Box<Box<dyn std::error::Error + Send + Sync>>,
}

impl StepError {
    /// An error with this text: lower case, no full stop.
    pub fn new(message: impl fmt::Display) -> Self {
        StepError { cause: Box::new(message.to_string().into()) }
    }

    /// What went wrong underneath.
    pub fn cause(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &**self.cause
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for StepError {
    fn from(error: E) -> Self {
        StepError { cause: Box::new(Box::new(error)) }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)?;
        let mut cause = self.cause.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StepError").field(&self.cause).finish()
    }
}
