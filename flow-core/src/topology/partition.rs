//! Cuts a graph into sub-topologies at the `key_by`s that need a repartition topic, and numbers what each of them has.

use std::collections::HashMap;

use super::graph::{Graph, NodeId, NodeKind};

/// Where the graph is cut, and what follows from it.
pub(crate) struct Cuts {
    /// Per step: its sub-topology. For a `key_by` that is cut: the one that writes the topic.
    pub(crate) sub_of: Vec<usize>,
    /// Per step: the sub-topology of the steps behind it; another one only behind a cut.
    pub(crate) sub_behind: Vec<usize>,
    pub(crate) sub_count: usize,
    /// Per store: its number within its sub-topology.
    pub(crate) store_index: Vec<usize>,
    /// Per step that writes a topic: that topic's number within its sub-topology.
    pub(crate) sink_index: Vec<u32>,
    /// Per `key_by` that is cut: the steps that write and read its topic.
    pub(crate) repartition_steps: Vec<Option<(u32, u32)>>,
    /// All names of steps: one per node, then those of the repartition topics.
    pub(crate) step_names: Vec<String>,
    /// Per step: it may fail for its key after a store was changed by the same record.
    pub(crate) risky: Vec<bool>,
}

impl Cuts {
    pub(crate) fn of(graph: &Graph) -> Self {
        let order = graph.order();
        let cut = cut(graph, &order);
        let (sub_of, sub_behind, sub_count) = groups(graph, &cut, &order);
        let mut step_names: Vec<String> = graph.nodes.iter().map(super::graph::Node::printed).collect();
        let mut repartition_steps = vec![None; graph.nodes.len()];
        let mut sink_index = vec![0; graph.nodes.len()];
        let mut sinks = vec![0; sub_count];
        for (id, node) in graph.nodes.iter().enumerate() {
            if let (NodeKind::KeyBy { name }, true) = (&node.kind, cut[id]) {
                let step = step_names.len() as u32;
                step_names.push(format!("{name}-repartition-sink"));
                step_names.push(format!("{name}-repartition-source"));
                repartition_steps[id] = Some((step, step + 1));
            }
            if cut[id] || matches!(node.kind, NodeKind::Sink { .. }) {
                sink_index[id] = sinks[sub_of[id]];
                sinks[sub_of[id]] += 1;
            }
        }
        let mut stores = vec![0; sub_count];
        let store_index = graph.stores.iter().map(|store| {
            let count = &mut stores[sub_of[store.node]];
            *count += 1;
            *count - 1
        });
        Cuts {
            store_index: store_index.collect(),
            risky: (0..graph.nodes.len()).map(|id| is_risky(graph, (&cut, &sub_of, &order), id)).collect(),
            sub_of,
            sub_behind,
            sub_count,
            sink_index,
            repartition_steps,
            step_names,
        }
    }
}

/// A `key_by` needs its topic if a stateful step can be reached from it before the next `key_by`.
fn cut(graph: &Graph, order: &[NodeId]) -> Vec<bool> {
    let mut stateful = vec![false; graph.nodes.len()];
    let mut cut = vec![false; graph.nodes.len()];
    for &id in order.iter().rev() {
        let node = &graph.nodes[id];
        let behind = node.children.iter().any(|&(child, _)| stateful[child]);
        if matches!(node.kind, NodeKind::KeyBy { .. }) {
            cut[id] = behind;
        } else {
            stateful[id] = behind || node.store.is_some();
        }
    }
    cut
}

/// Steps that pass records on within one task are one group; so are the sources of one topic. Groups are numbered by their first
/// step, as Kafka Streams numbers them.
fn groups(graph: &Graph, cut: &[bool], order: &[NodeId]) -> (Vec<usize>, Vec<usize>, usize) {
    let len = graph.nodes.len();
    let mut sets = Sets((0..2 * len).collect()); // the second half: the reading sides of cuts
    let mut topics: HashMap<&str, NodeId> = HashMap::new();
    for (id, node) in graph.nodes.iter().enumerate() {
        let from = if cut[id] { len + id } else { id };
        node.children.iter().for_each(|&(child, _)| sets.join(from, child));
        if let NodeKind::Source { topic } = &node.kind {
            let first = *topics.entry(topic).or_insert(id);
            sets.join(first, id);
        }
    }
    let mut numbers = HashMap::new();
    let mut number = |root: usize| {
        let next = numbers.len();
        *numbers.entry(root).or_insert(next)
    };
    let mut sub_of = vec![0; len];
    order.iter().for_each(|&id| sub_of[id] = number(sets.root(id)));
    let behind = |id: NodeId| if cut[id] { number(sets.root(len + id)) } else { sub_of[id] };
    let sub_behind = (0..len).map(behind).collect();
    (sub_of, sub_behind, numbers.len())
}

/// Disjoint sets of numbers.
struct Sets(Vec<usize>);

impl Sets {
    fn root(&self, mut of: usize) -> usize {
        while self.0[of] != of {
            of = self.0[of];
        }
        of
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

/// True if this step may fail for its key when the same record has already changed a store: one that is not its own or behind it,
/// or its own when a record can reach it twice.
fn is_risky(graph: &Graph, (cut, sub_of, order): (&[bool], &[usize], &[NodeId]), id: NodeId) -> bool {
    if !graph.nodes[id].traits.asks {
        return false;
    }
    let mut behind = vec![false; graph.nodes.len()];
    behind[id] = true;
    for &at in order {
        if behind[at] && !cut[at] {
            graph.nodes[at].children.iter().for_each(|&(child, _)| behind[child] = true);
        }
    }
    let mut before = vec![false; graph.nodes.len()];
    before[id] = true;
    for &at in order.iter().rev() {
        if before[at] {
            graph.nodes[at].parents.iter().filter(|&&parent| !cut[parent]).for_each(|&parent| before[parent] = true);
        }
    }
    let reached_twice = (0..graph.nodes.len()).any(|at| at != id && before[at] && graph.nodes[at].traits.multiplies);
    let elsewhere = |at: NodeId| sub_of[at] == sub_of[id] && !behind[at];
    reached_twice && graph.nodes[id].store.is_some() || graph.stores.iter().any(|store| elsewhere(store.node))
}
