use std::any::Any;
use std::panic::Location;
use std::sync::Arc;

use crate::codec::{Codec, Json};
use crate::engine::{At, Edge, Key, Next, Push, Step, TaskData};
use crate::flow::State;
use crate::state::{KvStore, StoreId, StoreSpec, Upgrades};
use crate::topology::graph::{Line, NodeKind, StoreNode};
use crate::topology::link::Linker;
use crate::topology::{Stream, Table};

impl<'t, K: ?Sized + 'static, V: ?Sized + 'static> Stream<'t, K, V> {
    /// Folds the values of each key into an aggregate that starts as `init()`. `name` names the store. A record with a null key is
    /// dropped, and counted as such.
    ///
    /// The aggregate is stored as JSON and has no version: what serde bridges (a new field with `#[serde(default)]`) may change,
    /// and a state that has to be [upgraded](crate::Upgrades) belongs to a [`Flow`](crate::Flow).
    ///
    /// ```
    /// use flow_core::testing::example;
    ///
    /// let out = example(
    ///     |numbers| numbers.aggregate("sums", || 100, |sum: &mut u64, _, n| *sum += n).changes(),
    ///     &[("a", 1), ("a", 2)],
    /// );
    /// assert_eq!(out, [("a".to_owned(), 101), ("a".to_owned(), 103)]);
    /// ```
    #[track_caller]
    pub fn aggregate<A>(
        self,
        name: &str,
        init: impl Fn() -> A + Send + Sync + 'static,
        add: impl Fn(&mut A, &K, &V) + Send + Sync + 'static,
    ) -> Table<'t, K, A>
    where
        A: State,
        Json: for<'b> Codec<A, Out<'b> = A>,
    {
        let at = Location::caller();
        add_table::<K, V, A, Json, _>(self, name, "KSTREAM-AGGREGATE-", at, |step, store, next| {
            let fold =
                move |state: &mut Option<A>, key: &K, value: &V| add(state.get_or_insert_with(&init), key, value);
            FoldTable { fold, step, store, next }
        })
    }
}

/// A step that changes the state of a key and sends the new state on.
struct FoldTable<F, K: ?Sized, A> {
    fold: F,
    step: u32,
    store: StoreId<A>,
    next: Next<K, A>,
}

impl<K: ?Sized, V: ?Sized, A, F> Push<K, V> for FoldTable<F, K, A>
where
    A: State,
    F: Fn(&mut Option<A>, &K, &V) + Send + Sync,
{
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        if key.bytes.is_none() {
            task.counters.dropped_null_key += 1;
            return Ok(());
        }
        let asked = key.ask(self.step)?;
        update(task, self.store, &self.next, key, |state| (self.fold)(state, asked, value))
    }
}

/// Changes a key's state and sends it on. It is out of its slot meanwhile: the steps behind need the task, never this store.
pub(super) fn update<K: ?Sized, A: State>(
    task: &mut TaskData,
    id: StoreId<A>,
    next: &Next<K, A>,
    key: Key<'_, K>,
    change: impl FnOnce(&mut Option<A>),
) -> Step {
    let store = task.writable(id);
    let at = store.slot(key.bytes.unwrap_or_default());
    let slot = store.open(at)?;
    change(slot);
    let state = slot.take();
    let done = match &state {
        Some(state) => next.push(task, key, state),
        None => Ok(()),
    };
    *task.store(id).opened(at) = state;
    done
}

/// Adds a step with a store of its own, without clock or timers.
pub(super) fn add_table<'t, K, V, A, C, P>(
    stream: Stream<'t, K, V>,
    name: &str,
    prefix: &'static str,
    at: Line,
    make: impl FnOnce(u32, StoreId<A>, Next<K, A>) -> P + 'static,
) -> Table<'t, K, A>
where
    K: ?Sized + 'static,
    V: ?Sized + 'static,
    A: State,
    C: for<'b> Codec<A, Out<'b> = A>,
    P: Push<K, V> + 'static,
{
    let id = stream.builder.with(|graph| {
        let id = graph.add(NodeKind::Step, prefix, Default::default(), at);
        let number = graph.stores.len();
        let spec = Arc::new(StoreSpec::new(name, &[], Upgrades::<A, C>::from_version(1)));
        graph.stores.push(StoreNode {
            name: name.to_owned(),
            at,
            make: Box::new(move |journaled| Box::new(KvStore::new(Arc::clone(&spec), journaled))),
            clocked: false,
            timers: &[],
            node: id,
        });
        graph.nodes[id].store = Some(number);
        let make = move |linker: &mut Linker, id| -> Box<dyn Any> {
            let step = linker.step(id);
            let edge: Edge<K, V> = Arc::new(At { step, inner: make(step, linker.store(number), linker.next(id)) });
            Box::new(edge)
        };
        graph.connect(id, Some(stream.id), Some(Box::new(make)));
        id
    });
    Table::new(Stream::new(stream.builder, id, stream.key))
}
