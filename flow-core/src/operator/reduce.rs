use std::panic::Location;

use super::aggregate::{add_table, update};
use crate::codec::{Codec, Json};
use crate::engine::{Key, Next, Push, Step, TaskData};
use crate::flow::State;
use crate::state::StoreId;
use crate::topology::{Stream, Table};

impl<'t, K: ?Sized + 'static, V: State> Stream<'t, K, V> {
    /// Combines the values of each key, the first of which is taken as it is. `name` names the store. A record with a null key is
    /// dropped, and counted as such.
    ///
    /// The result is stored as JSON and has no version, like the values of a topic: see [`aggregate`](Stream::aggregate).
    ///
    /// ```
    /// use flow_core::testing::example;
    ///
    /// let out = example(|numbers| numbers.reduce("highest", |a, b| *a.max(b)).changes(), &[("a", 3), ("a", 2), ("a", 5)]);
    /// assert_eq!(out, [("a".to_owned(), 3), ("a".to_owned(), 3), ("a".to_owned(), 5)]);
    /// ```
    #[track_caller]
    pub fn reduce(self, name: &str, f: impl Fn(&V, &V) -> V + Send + Sync + 'static) -> Table<'t, K, V>
    where
        Json: for<'b> Codec<V, Out<'b> = V>,
    {
        let at = Location::caller();
        add_table::<K, V, V, Json, _>(self, name, "KSTREAM-REDUCE-", at, |_, store, next| Reduce { f, store, next })
    }
}

struct Reduce<F, K: ?Sized, V> {
    f: F,
    store: StoreId<V>,
    next: Next<K, V>,
}

impl<K: ?Sized, V: State, F: Fn(&V, &V) -> V + Send + Sync> Push<K, V> for Reduce<F, K, V> {
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        if key.bytes.is_none() {
            task.counters.dropped_null_key += 1;
            return Ok(());
        }
        update(task, self.store, &self.next, key, |state| {
            *state = Some(match state.as_ref() {
                Some(before) => (self.f)(before, value),
                None => value.clone(),
            });
        })
    }
}
