use std::any::TypeId;
use std::cell::RefCell;
use std::panic::Location;

use super::graph::{Graph, NodeId, NodeKind};
use super::partition::Cuts;
use super::{JointFlow, Placed, Stream, Topology, TopologyError, describe, link, validate};
use crate::Topic;
use crate::codec::Codec;
use crate::engine::KeyFormat;
use crate::flow::Flow;

/// Composes a topology from typed streams.
///
/// Handles are `Copy` and borrow the builder, so chains and shared prefixes both read well. [`TopologyBuilder::build`] ends them,
/// and says everything that is wrong at once.
///
/// ```
/// use flow_core::{ByType, Topic, TopologyBuilder, Utf8};
///
/// const LINES: Topic<(), str, ByType, Utf8> = Topic::new("lines");
/// const COUNTS: Topic<String, u64> = Topic::new("counts");
///
/// let topology = TopologyBuilder::new();
/// topology
///     .stream(LINES)
///     .flat_map_values(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
///     .key_by("by-word", |_, word| word.clone())
///     .count("counts")
///     .changes()
///     .to(COUNTS);
/// let topology = topology.build()?;
/// assert_eq!(topology.sub_topologies().len(), 2);
/// # Ok::<(), flow_core::TopologyError>(())
/// ```
#[derive(Default)]
pub struct TopologyBuilder {
    graph: RefCell<Graph>,
    /// The sources by topic and types: a topic that is read twice as the same types is read once.
    sources: RefCell<Vec<(&'static str, TypeId, NodeId)>>,
}

impl TopologyBuilder {
    /// An empty topology.
    pub fn new() -> Self {
        TopologyBuilder::default()
    }

    /// The records of a topic.
    ///
    /// A topic may be read several times, also as several types; it stays one input.
    #[track_caller]
    pub fn stream<K, V, KC, VC>(&self, topic: Topic<K, V, KC, VC>) -> Stream<'_, K, V>
    where
        K: ?Sized + 'static,
        V: ?Sized + 'static,
        KC: Codec<K>,
        VC: Codec<V>,
    {
        let types = TypeId::of::<Topic<K, V, KC, VC>>();
        let mut sources = self.sources.borrow_mut();
        let known = sources.iter().find(|(name, as_types, _)| *name == topic.name() && *as_types == types);
        let id = match known {
            Some(&(_, _, id)) => {
                self.graph.borrow_mut().number();
                id
            }
            None => {
                let id = self.source::<K, V, KC, VC>(topic.name(), Location::caller());
                sources.push((topic.name(), types, id));
                id
            }
        };
        Stream::new(self, id, KeyFormat::of::<KC>())
    }

    /// Places a flow that folds several streams into one state: `topology.flow(f).fold(clicks).fold(orders).output()`.
    #[track_caller]
    pub fn flow<F: Flow>(&self, flow: F) -> JointFlow<'_, F> {
        JointFlow::new(self, flow, Location::caller())
    }

    /// Adds what knows its own place, as a flow that was annotated with the topics it reads and writes.
    pub fn add(&self, whole: impl Placed) {
        whole.place(self);
    }

    /// Checks the topology and compiles it.
    ///
    /// # Errors
    /// All rules that the topology breaks, each with the lines that break it.
    pub fn build(self) -> Result<Topology, TopologyError> {
        let mut graph = self.graph.into_inner();
        let cuts = Cuts::of(&graph);
        let broken = validate::check(&mut graph, &cuts);
        if !broken.is_empty() {
            return Err(TopologyError::new(broken));
        }
        let description = describe::text(&graph, &cuts);
        Ok(Topology { subs: link::link(graph, cuts).into(), description: description.into() })
    }

    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Graph) -> T) -> T {
        change(&mut self.graph.borrow_mut())
    }

    fn source<K, V, KC, VC>(&self, topic: &str, at: super::graph::Line) -> NodeId
    where
        K: ?Sized + 'static,
        V: ?Sized + 'static,
        KC: Codec<K>,
        VC: Codec<V>,
    {
        self.with(|graph| {
            let kind = NodeKind::Source { topic: topic.to_owned() };
            let id = graph.add(kind, "KSTREAM-SOURCE-", Default::default(), at);
            graph.connect(id, None, Some(crate::operator::source::make::<K, V, KC, VC>()));
            id
        })
    }
}
