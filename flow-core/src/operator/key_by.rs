use std::any::Any;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use super::source;
use crate::codec::{ByType, Codec, CodecError, Json, Key as KeyType};
use crate::engine::{At, Edge, Failure, Key, KeyFormat, Next, Push, Step, TaskData, TaskErrorKind};
use crate::topology::Stream;
use crate::topology::graph::{NodeId, NodeKind, Traits};
use crate::topology::link::Linker;

impl<'t, K: ?Sized + 'static, V: ?Sized + 'static> Stream<'t, K, V> {
    /// Gives each record another key.
    ///
    /// If a stateful step follows (before the next `key_by`), records travel through the repartition topic
    /// `<application>-<name>-repartition` to the partition of their new key, with values as JSON, and the topology is cut here into
    /// sub-topologies. A record whose new key is null is dropped there, and counted.
    ///
    /// ```
    /// use flow_core::testing::example;
    ///
    /// let out = example(|numbers| numbers.key_by("by-parity", |_, n| format!("{}", n % 2)), &[("a", 1), ("b", 2)]);
    /// assert_eq!(out, [("1".to_owned(), 1), ("0".to_owned(), 2)]);
    /// ```
    #[track_caller]
    pub fn key_by<K2>(self, name: &str, f: impl Fn(&K, &V) -> K2 + Send + Sync + 'static) -> Stream<'t, K2, V>
    where
        K2: KeyType + 'static,
        Json: Codec<V>,
    {
        self.key_by_with::<ByType, Json, K2>(name, f)
    }

    /// [`Stream::key_by`] with the codecs of the repartition topic spelled: `key_by_with::<KeyCodec, ValueCodec, _>(name, f)`.
    ///
    /// ```
    /// use flow_core::{ByType, Bytes, Topic, TopologyBuilder};
    ///
    /// const RAW: Topic<(), [u8], ByType, Bytes> = Topic::new("raw");
    ///
    /// let topology = TopologyBuilder::new();
    /// topology.stream(RAW).key_by_with::<ByType, Bytes, _>("by-length", |_, bytes| bytes.len() as i64).count("lengths");
    /// assert_eq!(topology.build()?.sub_topologies().len(), 2);
    /// # Ok::<(), flow_core::TopologyError>(())
    /// ```
    #[track_caller]
    pub fn key_by_with<KC, VC, K2>(
        self,
        name: &str,
        f: impl Fn(&K, &V) -> K2 + Send + Sync + 'static,
    ) -> Stream<'t, K2, V>
    where
        K2: 'static,
        KC: Codec<K2>,
        VC: Codec<V>,
    {
        let at = Location::caller();
        let id = self.builder.with(|graph| {
            let kind = NodeKind::KeyBy { name: name.to_owned() };
            let id = graph.add(kind, "KSTREAM-KEY-SELECT-", Traits { asks: true, multiplies: false }, at);
            let make = move |linker: &mut Linker, id| link::<K, V, K2, KC, VC, _>(f, linker, id);
            graph.connect(id, Some(self.id), Some(Box::new(make)));
            id
        });
        Stream::new(self.builder, id, KeyFormat::of::<KC>())
    }
}

fn link<K, V, K2, KC, VC, F>(f: F, linker: &mut Linker, id: NodeId) -> Box<dyn Any>
where
    K: ?Sized + 'static,
    V: ?Sized + 'static,
    K2: 'static,
    KC: Codec<K2>,
    VC: Codec<V>,
    F: Fn(&K, &V) -> K2 + Send + Sync + 'static,
{
    let step = linker.step(id);
    let edge: Edge<K, V> = match linker.repartition(id) {
        None => {
            let inner = KeyBy { f, step, next: linker.next(id), codec: PhantomData::<fn() -> KC> };
            Arc::new(At { step, inner })
        }
        Some((write, read)) => {
            let next = linker.next(id);
            linker.reads(id, source::read::<K2, V, KC, VC>(read, next));
            let codecs = PhantomData::<Codecs<K2, KC, VC>>;
            Arc::new(At { step, inner: Repartition { f, step, write, sink: linker.sink(id), codecs } })
        }
    };
    Box::new(edge)
}

/// A new key where nothing stateful follows: the record stays in its task.
struct KeyBy<F, K2, V: ?Sized, KC> {
    f: F,
    step: u32,
    next: Next<K2, V>,
    codec: PhantomData<fn() -> KC>,
}

impl<K, V, K2, KC, F> Push<K, V> for KeyBy<F, K2, V, KC>
where
    K: ?Sized,
    V: ?Sized,
    KC: Codec<K2>,
    F: Fn(&K, &V) -> K2 + Send + Sync,
{
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        let key = (self.f)(key.ask(self.step)?, value);
        let mut bytes = task.take_scratch();
        let done = KC::encode(&key, &mut bytes).map_err(|error| unwritable(self.step, &error)).and_then(|()| {
            let bytes = (!KC::is_null(&key)).then_some(bytes.as_slice());
            self.next.push(task, Key { bytes, value: Some(&key) }, value)
        });
        task.give_scratch(bytes);
        done
    }
}

#[cold]
fn unwritable(step: u32, error: &CodecError) -> Box<Failure> {
    Failure::of_step(TaskErrorKind::Produce, step, format_args!("the new key {error}"))
}

/// A new key where something stateful follows: the record leaves for the partition of that key.
struct Repartition<F, K2, KC, VC> {
    f: F,
    step: u32,
    write: u32,
    sink: u32,
    codecs: PhantomData<Codecs<K2, KC, VC>>,
}

type Codecs<K2, KC, VC> = fn() -> (K2, KC, VC);

impl<K, V, K2, KC, VC, F> Push<K, V> for Repartition<F, K2, KC, VC>
where
    K: ?Sized,
    V: ?Sized,
    KC: Codec<K2>,
    VC: Codec<V>,
    F: Fn(&K, &V) -> K2 + Send + Sync,
{
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        let key = (self.f)(key.ask(self.step)?, value);
        if KC::is_null(&key) {
            task.counters.dropped_null_key += 1;
            return Ok(());
        }
        task.send(
            self.sink,
            self.write,
            |out| KC::encode(&key, out).map(|()| false),
            |out| if VC::is_null(value) { Ok(true) } else { VC::encode(value, out).map(|()| false) },
        )
    }
}
