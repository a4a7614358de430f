use std::panic::Location;

use crate::engine::{Key, Next, Push, Step, TaskData};
use crate::topology::Stream;
use crate::topology::graph::Traits;

impl<'t, K: ?Sized + 'static, V: ?Sized + 'static> Stream<'t, K, V> {
    /// Replaces each value, looking at its key. The key stays: [`Stream::key_by`] changes it.
    ///
    /// ```
    /// use flow_core::testing::example;
    ///
    /// let out = example(|numbers| numbers.map(|key, n| format!("{key}{n}")), &[("a", 1), ("b", 2)]);
    /// assert_eq!(out, [("a".to_owned(), "a1".to_owned()), ("b".to_owned(), "b2".to_owned())]);
    /// ```
    #[track_caller]
    pub fn map<V2: 'static>(self, f: impl Fn(&K, &V) -> V2 + Send + Sync + 'static) -> Stream<'t, K, V2> {
        let traits = Traits { asks: true, multiplies: false };
        self.then("KSTREAM-MAPVALUES-", traits, Location::caller(), |step, next| Map { f, step, next })
    }

    /// Replaces each value.
    ///
    /// ```
    /// use flow_core::testing::example;
    ///
    /// let out = example(|numbers| numbers.map_values(|n| n * 10), &[("a", 1)]);
    /// assert_eq!(out, [("a".to_owned(), 10)]);
    /// ```
    #[track_caller]
    pub fn map_values<V2: 'static>(self, f: impl Fn(&V) -> V2 + Send + Sync + 'static) -> Stream<'t, K, V2> {
        self.then("KSTREAM-MAPVALUES-", Traits::default(), Location::caller(), |_, next| MapValues { f, next })
    }
}

struct Map<F, K: ?Sized, V2> {
    f: F,
    step: u32,
    next: Next<K, V2>,
}

impl<K: ?Sized, V: ?Sized, V2, F: Fn(&K, &V) -> V2 + Send + Sync> Push<K, V> for Map<F, K, V2> {
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        let mapped = (self.f)(key.ask(self.step)?, value);
        self.next.push(task, key, &mapped)
    }
}

struct MapValues<F, K: ?Sized, V2> {
    f: F,
    next: Next<K, V2>,
}

impl<K: ?Sized, V: ?Sized, V2, F: Fn(&V) -> V2 + Send + Sync> Push<K, V> for MapValues<F, K, V2> {
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        self.next.push(task, key, &(self.f)(value))
    }
}
