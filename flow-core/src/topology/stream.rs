use std::marker::PhantomData;
use std::panic::Location;

use super::TopologyBuilder;
use super::graph::{Line, NodeId, NodeKind, Traits};
use crate::engine::{At, Edge, KeyFormat, Next, Push};

/// Records of a key and a value on their way through a topology: a handle, free to copy.
///
/// What flows are references, so a stream that is used twice copies nothing.
#[must_use = "a stream that nothing uses goes nowhere: end it with `to`"]
pub struct Stream<'t, K: ?Sized, V: ?Sized> {
    pub(crate) builder: &'t TopologyBuilder,
    pub(crate) id: NodeId,
    pub(crate) key: KeyFormat<K>,
    values: PhantomData<fn(&V)>,
}

impl<K: ?Sized, V: ?Sized> Clone for Stream<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, V: ?Sized> Copy for Stream<'_, K, V> {}

impl<'t, K: ?Sized + 'static, V: ?Sized + 'static> Stream<'t, K, V> {
    pub(crate) fn new(builder: &'t TopologyBuilder, id: NodeId, key: KeyFormat<K>) -> Self {
        Stream { builder, id, key, values: PhantomData }
    }

    /// Names the step that made this stream, in `describe()` and in errors. No store or topic gets its name from it.
    #[track_caller]
    pub fn named(self, name: &str) -> Self {
        let at = Location::caller();
        self.builder.with(|graph| graph.name(self.id, name, at));
        self
    }

    /// Adds a step behind this one that keeps the key.
    pub(crate) fn then<V2: ?Sized + 'static, P: Push<K, V> + 'static>(
        self,
        prefix: &'static str,
        traits: Traits,
        at: Line,
        make: impl FnOnce(u32, Next<K, V2>) -> P + 'static,
    ) -> Stream<'t, K, V2> {
        let id = self.builder.with(|graph| {
            let id = graph.add(NodeKind::Step, prefix, traits, at);
            let make = move |linker: &mut super::link::Linker, id: NodeId| -> Box<dyn std::any::Any> {
                let step = linker.step(id);
                let edge: Edge<K, V> = std::sync::Arc::new(At { step, inner: make(step, linker.next(id)) });
                Box::new(edge)
            };
            graph.connect(id, Some(self.id), Some(Box::new(make)));
            id
        });
        Stream::new(self.builder, id, self.key)
    }

    /// Adds a step that stands in the description only.
    pub(crate) fn pass(
        builder: &'t TopologyBuilder,
        from: &[NodeId],
        key: KeyFormat<K>,
        prefix: &'static str,
        at: Line,
    ) -> Self {
        let id = builder.with(|graph| {
            let traits = Traits { asks: false, multiplies: from.len() > 1 };
            let id = graph.add(NodeKind::Pass, prefix, traits, at);
            from.iter().for_each(|&parent| graph.connect(id, Some(parent), None));
            id
        });
        Stream::new(builder, id, key)
    }
}
