use std::panic::Location;

use crate::engine::{Key, Next, Push, Step, TaskData};
use crate::topology::Stream;
use crate::topology::graph::Traits;

impl<'t, K: ?Sized + 'static, V: ?Sized + 'static> Stream<'t, K, V> {
    /// Looks at each record and sends it on as it is. It sees records again when they are processed again after a crash.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::sync::Arc;
    /// use flow_core::testing::example;
    ///
    /// let seen = Arc::new(AtomicU64::new(0));
    /// let count = Arc::clone(&seen);
    /// let out = example(
    ///     move |numbers| numbers.inspect(move |_, n| { count.fetch_add(*n, Ordering::Relaxed); }),
    ///     &[("a", 1), ("b", 2)],
    /// );
    /// assert_eq!((out.len(), seen.load(Ordering::Relaxed)), (2, 3));
    /// ```
    #[track_caller]
    pub fn inspect(self, f: impl Fn(&K, &V) + Send + Sync + 'static) -> Stream<'t, K, V> {
        let traits = Traits { asks: true, multiplies: false };
        self.then("KSTREAM-PEEK-", traits, Location::caller(), |step, next| Inspect { f, step, next })
    }
}

struct Inspect<F, K: ?Sized, V: ?Sized> {
    f: F,
    step: u32,
    next: Next<K, V>,
}

impl<K: ?Sized, V: ?Sized, F: Fn(&K, &V) + Send + Sync> Push<K, V> for Inspect<F, K, V> {
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        (self.f)(key.ask(self.step)?, value);
        self.next.push(task, key, value)
    }
}
