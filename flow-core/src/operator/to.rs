use std::any::Any;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use crate::Topic;
use crate::codec::Codec;
use crate::engine::{Edge, Key, Push, Step, TaskData};
use crate::topology::graph::{NodeId, NodeKind};
use crate::topology::link::Linker;
use crate::topology::{Stream, TopologyBuilder};

/// The end of a stream: a step that writes a topic.
#[derive(Clone, Copy)]
pub struct Sink<'t> {
    builder: &'t TopologyBuilder,
    id: NodeId,
}

impl Sink<'_> {
    /// Names this step, in `describe()` and in errors.
    #[track_caller]
    pub fn named(self, name: &str) -> Self {
        let at = Location::caller();
        self.builder.with(|graph| graph.name(self.id, name, at));
        self
    }
}

impl<'t, K: ?Sized + 'static, V: ?Sized + 'static> Stream<'t, K, V> {
    /// Writes the records to a topic, each with its timestamp, and with the headers of the record it comes from. Key bytes are
    /// passed through if the topic's keys are written as the stream's are.
    ///
    /// ```
    /// use flow_core::testing::TestDriver;
    /// use flow_core::{Timestamp, Topic, TopologyBuilder};
    ///
    /// const IN: Topic<str, u64> = Topic::new("in");
    /// const OUT: Topic<str, u64> = Topic::new("out");
    ///
    /// let topology = TopologyBuilder::new();
    /// topology.stream(IN).to(OUT).named("write-out");
    /// let mut driver = TestDriver::new(topology.build()?);
    /// driver.send(IN, Timestamp::from_millis(5), "a", &1);
    /// assert_eq!(driver.read_records("out")[0].timestamp, Timestamp::from_millis(5));
    /// # Ok::<(), flow_core::TopologyError>(())
    /// ```
    #[track_caller]
    pub fn to<KC: Codec<K>, VC: Codec<V>>(self, topic: Topic<K, V, KC, VC>) -> Sink<'t> {
        let at = Location::caller();
        let pass_key = self.key.layout == KC::layout();
        let id = self.builder.with(|graph| {
            let kind = NodeKind::Sink { topic: topic.name().to_owned() };
            let id = graph.add(kind, "KSTREAM-SINK-", Default::default(), at);
            let make = move |linker: &mut Linker, id| -> Box<dyn Any> {
                let codecs = PhantomData::<fn() -> (KC, VC)>;
                let edge: Edge<K, V> = Arc::new(To { sink: linker.sink(id), step: linker.step(id), pass_key, codecs });
                Box::new(edge)
            };
            graph.connect(id, Some(self.id), Some(Box::new(make)));
            id
        });
        Sink { builder: self.builder, id }
    }
}

struct To<KC, VC> {
    sink: u32,
    step: u32,
    pass_key: bool,
    codecs: PhantomData<fn() -> (KC, VC)>,
}

impl<K: ?Sized, V: ?Sized, KC: Codec<K>, VC: Codec<V>> Push<K, V> for To<KC, VC> {
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        let pass_key = self.pass_key;
        task.send(
            self.sink,
            self.step,
            |out| match (pass_key, key.bytes, key.value) {
                (true, Some(bytes), _) => {
                    out.extend_from_slice(bytes);
                    Ok(false)
                }
                (false, _, Some(value)) if !KC::is_null(value) => KC::encode(value, out).map(|()| false),
                _ => Ok(true),
            },
            |out| if VC::is_null(value) { Ok(true) } else { VC::encode(value, out).map(|()| false) },
        )
    }
}
