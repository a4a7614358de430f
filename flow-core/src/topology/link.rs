//! Turns a valid graph into programs: builds each step once, from the last to the first, and joins them by typed edges.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use super::graph::{Graph, Make, NodeId, NodeKind};
use super::partition::Cuts;
use super::{SinkInfo, Source, StoreInfo, SubTopology, TopicName};
use crate::engine::{Edge, Fire, Next, Program, Read, Readers, StoreProgram};
use crate::state::StoreId;

/// What steps ask while they are built.
pub(crate) struct Linker {
    makes: Vec<Vec<Option<Make>>>,
    children: Vec<Vec<(NodeId, usize)>>,
    passes: Vec<bool>,
    edges: HashMap<(NodeId, usize), Box<dyn Any>>,
    cuts: Cuts,
    readers: HashMap<NodeId, Arc<dyn Read>>,
    fires: HashMap<usize, Arc<dyn Fire>>,
}

impl Linker {
    /// The steps behind a step.
    pub(crate) fn next<K: ?Sized + 'static, V: ?Sized + 'static>(&mut self, of: NodeId) -> Next<K, V> {
        let mut all = self.edges_behind::<K, V>(of);
        match all.pop() {
            Some(only) if all.is_empty() => Next::One(only),
            last => {
                all.extend(last);
                Next::Many(all)
            }
        }
    }

    fn edges_behind<K: ?Sized + 'static, V: ?Sized + 'static>(&mut self, of: NodeId) -> Vec<Edge<K, V>> {
        let mut all = Vec::new();
        for (child, port) in self.children[of].clone() {
            if self.passes[child] {
                all.extend(self.edges_behind::<K, V>(child));
            } else {
                all.push(self.edge::<K, V>(child, port));
            }
        }
        all
    }

    fn edge<K: ?Sized + 'static, V: ?Sized + 'static>(&mut self, child: NodeId, port: usize) -> Edge<K, V> {
        if !self.edges.contains_key(&(child, port)) {
            let make = self.makes[child][port].take().expect("a step is built once, and no step is behind itself");
            let edge = make(self, child);
            self.edges.insert((child, port), edge);
        }
        let edge = self.edges[&(child, port)].downcast_ref::<Edge<K, V>>();
        Arc::clone(edge.expect("the handles carry the types of the steps they join"))
    }

    /// A step's number in the list of names.
    pub(crate) fn step(&self, node: NodeId) -> u32 {
        node as u32
    }

    /// A store's number within its task.
    pub(crate) fn store<S>(&self, store: usize) -> StoreId<S> {
        StoreId::new(self.cuts.store_index[store])
    }

    /// The number of the topic that a sink, or a `key_by` with a repartition topic, writes within its task.
    pub(crate) fn sink(&self, node: NodeId) -> u32 {
        self.cuts.sink_index[node]
    }

    /// The steps (writing, reading) of a `key_by` that is a repartition topic.
    pub(crate) fn repartition(&self, node: NodeId) -> Option<(u32, u32)> {
        self.cuts.repartition_steps[node]
    }

    /// Registers what reads the repartition topic behind a `key_by`.
    pub(crate) fn reads(&mut self, node: NodeId, read: Arc<dyn Read>) {
        self.readers.insert(node, read);
    }

    /// Registers the step whose timers live in a store.
    pub(crate) fn fires(&mut self, store: usize, fire: Arc<dyn Fire>) {
        self.fires.insert(store, fire);
    }
}

/// Builds the programs, in the order of their numbers.
pub(crate) fn link(mut graph: Graph, cuts: Cuts) -> Vec<SubTopology> {
    let makes = graph.nodes.iter_mut().map(|node| std::mem::take(&mut node.ports)).collect();
    let mut linker = Linker {
        makes,
        children: graph.nodes.iter().map(|node| node.children.clone()).collect(),
        passes: graph.nodes.iter().map(|node| matches!(node.kind, NodeKind::Pass)).collect(),
        edges: HashMap::new(),
        cuts,
        readers: HashMap::new(),
        fires: HashMap::new(),
    };
    for (id, node) in graph.nodes.iter().enumerate() {
        if matches!(node.kind, NodeKind::Source { .. }) {
            let make = linker.makes[id][0].take().expect("a source is built once");
            let read = make(&mut linker, id).downcast::<Arc<dyn Read>>();
            linker.readers.insert(id, *read.expect("a source makes a reader"));
        }
    }
    programs(graph, linker)
}

fn programs(graph: Graph, linker: Linker) -> Vec<SubTopology> {
    let Linker { cuts, mut readers, mut fires, .. } = linker;
    let names: Arc<[String]> = Arc::from(cuts.step_names.as_slice());
    let mut subs: Vec<Program> = (0..cuts.sub_count)
        .map(|index| Program {
            index,
            sources: Vec::new(),
            readers: Vec::new(),
            store_infos: Vec::new(),
            stores: Vec::new(),
            sinks: Vec::new(),
            steps: Arc::clone(&names),
            topics: Arc::from([]),
            asks_for_keys: false,
            has_flows: false,
        })
        .collect();
    for (id, node) in graph.nodes.iter().enumerate() {
        let sub = &mut subs[cuts.sub_of[id]];
        sub.asks_for_keys |= cuts.risky[id];
        match &node.kind {
            NodeKind::Source { topic } => {
                let source = (TopicName::User(topic.clone()), id as u32);
                add_source(sub, source, &names, readers.remove(&id));
            }
            NodeKind::Sink { topic } => {
                sub.sinks.push(SinkInfo { topic: TopicName::User(topic.clone()), step: names[id].clone() });
            }
            NodeKind::KeyBy { name } => {
                if let Some((write, read)) = cuts.repartition_steps[id] {
                    let topic = TopicName::Repartition(name.clone());
                    sub.sinks.push(SinkInfo { topic: topic.clone(), step: names[write as usize].clone() });
                    let behind = &mut subs[cuts.sub_behind[id]];
                    add_source(behind, (topic, read), &names, readers.remove(&id));
                }
            }
            NodeKind::Step | NodeKind::Pass => {}
        }
    }
    for (index, store) in graph.stores.into_iter().enumerate() {
        let sub = &mut subs[cuts.sub_of[store.node]];
        sub.has_flows |= store.clocked;
        sub.store_infos.push(StoreInfo { name: store.name, timers: !store.timers.is_empty() });
        sub.stores.push(StoreProgram { make: store.make, fire: fires.remove(&index) });
    }
    let finish = |mut sub: Program| {
        sub.topics = sub.sources.iter().map(|source| source.topic.to_string()).collect();
        SubTopology { program: Arc::new(sub) }
    };
    subs.into_iter().map(finish).collect()
}

/// A topic that is read as several types is one source with several readers.
fn add_source(sub: &mut Program, source: (TopicName, u32), names: &[String], read: Option<Arc<dyn Read>>) {
    let (topic, step) = source;
    match sub.sources.iter().position(|other| other.topic == topic) {
        Some(at) => sub.readers[at].all.extend(read),
        None => {
            sub.sources.push(Source { topic, step: names[step as usize].clone() });
            sub.readers.push(Readers { step, all: read.into_iter().collect() });
        }
    }
}
