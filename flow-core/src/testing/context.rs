//! Contexts made by hand, for unit tests of a step.

use std::sync::Arc;

use crate::context::{Context, Kept};
use crate::{Partition, Timer, Timestamp};

/// Makes a [`Context`] for a unit test of a step, and shows what the step asked for.
///
/// ```
/// use flow_core::{Context, Timestamp};
/// use flow_core::testing::ContextExt;
///
/// let mut cx: Context<u64> = Context::at(Timestamp::from_millis(5));
/// cx.emit(7);
/// assert_eq!(cx.emitted(), [7]);
/// ```
pub trait ContextExt<Out> {
    /// A context whose clock and record stand at `now`.
    fn at(now: Timestamp) -> Self;
    /// What was emitted so far, in order.
    fn emitted(&self) -> &[Out];
    /// The timers as they were set (with a deadline) or cancelled (without), in order.
    fn timers(&self) -> &[(Timer, Option<Timestamp>)];
    /// Sets what [`Context::wall_clock`] answers.
    fn set_wall_clock(&mut self, now: Timestamp);
}

impl<Out> ContextExt<Out> for Context<Out> {
    fn at(now: Timestamp) -> Self {
        Context::new(now, now, Box::new(Kept::new(Arc::from([]), Partition(0))))
    }

    fn emitted(&self) -> &[Out] {
        self.emitted_so_far()
    }

    fn timers(&self) -> &[(Timer, Option<Timestamp>)] {
        self.timers_so_far()
    }

    fn set_wall_clock(&mut self, now: Timestamp) {
        self.kept_mut().wall = now;
    }
}
