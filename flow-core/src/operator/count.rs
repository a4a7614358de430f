use std::panic::Location;

use super::aggregate::add_table;
use crate::codec::Json;
use crate::engine::{Key, Next, Push, Step, TaskData};
use crate::state::StoreId;
use crate::topology::{Stream, Table};

impl<'t, K: ?Sized + 'static, V: ?Sized + 'static> Stream<'t, K, V> {
    /// Counts the records of each key. `name` names the store. A record with a null key is dropped, and counted as such.
    ///
    /// ```
    /// use flow_core::testing::example;
    ///
    /// let out = example(|numbers| numbers.count("counts").changes(), &[("a", 1), ("b", 2), ("a", 3)]);
    /// assert_eq!(out, [("a".to_owned(), 1), ("b".to_owned(), 1), ("a".to_owned(), 2)]);
    /// ```
    #[track_caller]
    pub fn count(self, name: &str) -> Table<'t, K, u64> {
        let at = Location::caller();
        add_table::<K, V, u64, Json, _>(self, name, "KSTREAM-AGGREGATE-", at, |_, store, next| Count { store, next })
    }
}

struct Count<K: ?Sized> {
    store: StoreId<u64>,
    next: Next<K, u64>,
}

impl<K: ?Sized, V: ?Sized> Push<K, V> for Count<K> {
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, _: &V) -> Step {
        let Some(bytes) = key.bytes else {
            task.counters.dropped_null_key += 1;
            return Ok(());
        };
        let store = task.writable(self.store);
        let at = store.slot(bytes);
        let count = store.open(at)?.get_or_insert(0);
        *count += 1;
        let count = *count;
        self.next.push(task, key, &count)
    }
}
