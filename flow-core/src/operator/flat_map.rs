use std::panic::Location;

use crate::engine::{Key, Next, Push, Step, TaskData};
use crate::topology::Stream;
use crate::topology::graph::Traits;

impl<'t, K: ?Sized + 'static, V: ?Sized + 'static> Stream<'t, K, V> {
    /// Replaces each value by none, one or several, looking at its key. Each goes all the way before the next one starts.
    ///
    /// ```
    /// use flow_core::testing::example;
    ///
    /// let out = example(|numbers| numbers.flat_map(|key, n| vec![key.len() as u64; *n as usize]), &[("a", 0), ("bb", 2)]);
    /// assert_eq!(out, [("bb".to_owned(), 2), ("bb".to_owned(), 2)]);
    /// ```
    #[track_caller]
    pub fn flat_map<I>(self, f: impl Fn(&K, &V) -> I + Send + Sync + 'static) -> Stream<'t, K, I::Item>
    where
        I: IntoIterator + 'static,
        I::Item: 'static,
    {
        let traits = Traits { asks: true, multiplies: true };
        self.then("KSTREAM-FLATMAPVALUES-", traits, Location::caller(), |step, next| FlatMap { f, step, next })
    }

    /// Replaces each value by none, one or several. Each goes all the way before the next one starts.
    ///
    /// ```
    /// use flow_core::testing::example;
    ///
    /// let out = example(|numbers| numbers.flat_map_values(|n| [*n, n + 1]), &[("a", 1)]);
    /// assert_eq!(out, [("a".to_owned(), 1), ("a".to_owned(), 2)]);
    /// ```
    #[track_caller]
    pub fn flat_map_values<I>(self, f: impl Fn(&V) -> I + Send + Sync + 'static) -> Stream<'t, K, I::Item>
    where
        I: IntoIterator + 'static,
        I::Item: 'static,
    {
        let traits = Traits { asks: false, multiplies: true };
        self.then("KSTREAM-FLATMAPVALUES-", traits, Location::caller(), |_, next| FlatMapValues { f, next })
    }
}

struct FlatMap<F, K: ?Sized, V2> {
    f: F,
    step: u32,
    next: Next<K, V2>,
}

impl<K: ?Sized, V: ?Sized, I: IntoIterator, F: Fn(&K, &V) -> I + Send + Sync> Push<K, V> for FlatMap<F, K, I::Item> {
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        let all = (self.f)(key.ask(self.step)?, value);
        all.into_iter().try_for_each(|value| self.next.push(task, key, &value))
    }
}

struct FlatMapValues<F, K: ?Sized, V2> {
    f: F,
    next: Next<K, V2>,
}

impl<K: ?Sized, V: ?Sized, I: IntoIterator, F: Fn(&V) -> I + Send + Sync> Push<K, V> for FlatMapValues<F, K, I::Item> {
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        (self.f)(value).into_iter().try_for_each(|value| self.next.push(task, key, &value))
    }
}
