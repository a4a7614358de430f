use std::panic::Location;

use crate::engine::{Key, Next, Push, Step, TaskData};
use crate::topology::Stream;
use crate::topology::graph::Traits;

impl<'t, K: ?Sized + 'static, V: ?Sized + 'static> Stream<'t, K, V> {
    /// Keeps the records for which `f` holds.
    ///
    /// ```
    /// use flow_core::testing::example;
    ///
    /// let out = example(|numbers| numbers.filter(|_, n| *n > 1), &[("a", 1), ("b", 2)]);
    /// assert_eq!(out, [("b".to_owned(), 2)]);
    /// ```
    #[track_caller]
    pub fn filter(self, f: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Stream<'t, K, V> {
        let traits = Traits { asks: true, multiplies: false };
        self.then("KSTREAM-FILTER-", traits, Location::caller(), |step, next| Filter { f, keep: true, step, next })
    }

    /// Keeps the records for which `f` does not hold.
    ///
    /// ```
    /// use flow_core::testing::example;
    ///
    /// let out = example(|numbers| numbers.filter_not(|key, _| key == "a"), &[("a", 1), ("b", 2)]);
    /// assert_eq!(out, [("b".to_owned(), 2)]);
    /// ```
    #[track_caller]
    pub fn filter_not(self, f: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Stream<'t, K, V> {
        let traits = Traits { asks: true, multiplies: false };
        self.then("KSTREAM-FILTER-", traits, Location::caller(), |step, next| Filter { f, keep: false, step, next })
    }
}

struct Filter<F, K: ?Sized, V: ?Sized> {
    f: F,
    keep: bool,
    step: u32,
    next: Next<K, V>,
}

impl<K: ?Sized, V: ?Sized, F: Fn(&K, &V) -> bool + Send + Sync> Push<K, V> for Filter<F, K, V> {
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        if (self.f)(key.ask(self.step)?, value) == self.keep { self.next.push(task, key, value) } else { Ok(()) }
    }
}
