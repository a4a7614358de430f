//! What a builder has heard so far: steps, the edges between them, stores, and who named what where.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::Location;

use super::link::Linker;
use crate::flow::Timer;
use crate::state::AnyStore;

pub(crate) type NodeId = usize;
pub(crate) type Line = &'static Location<'static>;

/// Builds a step once the steps behind it exist. It answers an `Edge<K, V>`, or for a source an `Arc<dyn Read>`: the only values
/// whose types are erased, once, at build.
pub(crate) type Make = Box<dyn FnOnce(&mut Linker, NodeId) -> Box<dyn Any>>;

pub(crate) enum NodeKind {
    /// Reads a topic of the user.
    Source { topic: String },
    /// Does something to each record.
    Step,
    /// Stands in the description only: what it gets goes straight to the steps behind it.
    Pass,
    /// Changes the key; a repartition topic if something stateful follows.
    KeyBy { name: String },
    /// Writes a topic of the user.
    Sink { topic: String },
}

/// What the engine must know about a step before it runs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traits {
    /// It reads the key, so a null key may fail here.
    pub(crate) asks: bool,
    /// It may send on more than one record for one.
    pub(crate) multiplies: bool,
}

pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) traits: Traits,
    /// The word before the number in the name of an unnamed step, as Kafka Streams has it.
    pub(crate) prefix: &'static str,
    /// The number in that name. It reaches nothing but the description and error texts.
    pub(crate) number: usize,
    pub(crate) name: Option<(String, Line)>,
    pub(crate) at: Line,
    pub(crate) parents: Vec<NodeId>,
    /// Which input of which step.
    pub(crate) children: Vec<(NodeId, usize)>,
    pub(crate) store: Option<usize>,
    /// One for each input, in the order of `parents`.
    pub(crate) ports: Vec<Option<Make>>,
}

impl Node {
    /// The name that `describe()` and errors print.
    pub(crate) fn printed(&self) -> String {
        match (&self.name, &self.kind) {
            (Some((name, _)), _) => name.clone(),
            (None, NodeKind::KeyBy { name }) => name.clone(),
            (None, _) => format!("{}{:010}", self.prefix, self.number),
        }
    }
}

pub(crate) struct StoreNode {
    pub(crate) name: String,
    pub(crate) at: Line,
    pub(crate) make: Box<dyn Fn(bool) -> Box<dyn AnyStore> + Send + Sync>,
    /// True if its step has a clock.
    pub(crate) clocked: bool,
    pub(crate) timers: &'static [Timer],
    pub(crate) node: NodeId,
}

/// A rule that the topology breaks: what, with the lines, and what to do.
pub(crate) type Broken = String;

#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) stores: Vec<StoreNode>,
    pub(crate) broken: Vec<Broken>,
    /// The next number; every step takes one, also a named one, so that naming a step does not rename the others.
    numbers: usize,
}

impl Graph {
    pub(crate) fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers - 1
    }

    pub(crate) fn add(&mut self, kind: NodeKind, prefix: &'static str, traits: Traits, at: Line) -> NodeId {
        let number = self.number();
        self.nodes.push(Node {
            kind,
            traits,
            prefix,
            number,
            name: None,
            at,
            parents: Vec::new(),
            children: Vec::new(),
            store: None,
            ports: Vec::new(),
        });
        self.nodes.len() - 1
    }

    /// Adds an input to a step: what it is built from, and where it comes from (a source has no parent).
    pub(crate) fn connect(&mut self, node: NodeId, parent: Option<NodeId>, make: Option<Make>) {
        let port = self.nodes[node].ports.len();
        self.nodes[node].ports.push(make);
        if let Some(parent) = parent {
            self.nodes[node].parents.push(parent);
            self.nodes[parent].children.push((node, port));
        }
    }

    /// All steps, each behind the steps it hears from, otherwise as they were added. (A flow with several inputs was added before
    /// its second input may have been.)
    pub(crate) fn order(&self) -> Vec<NodeId> {
        let mut waits: Vec<usize> = self.nodes.iter().map(|node| node.parents.len()).collect();
        let mut ready: BinaryHeap<Reverse<NodeId>> =
            (0..self.nodes.len()).filter(|&id| waits[id] == 0).map(Reverse).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(Reverse(id)) = ready.pop() {
            order.push(id);
            for &(child, _) in &self.nodes[id].children {
                waits[child] -= 1;
                if waits[child] == 0 {
                    ready.push(Reverse(child));
                }
            }
        }
        order
    }

    /// Gives a step its name. A step that two handles share can be named once.
    pub(crate) fn name(&mut self, node: NodeId, name: &str, at: Line) {
        if let Some((other, line)) = &self.nodes[node].name
            && other != name
        {
            let broken = format!("the step `{other}`, named at {line}, is named `{name}` at {at}: give it one name");
            self.broken.push(broken);
            return;
        }
        self.nodes[node].name = Some((name.to_owned(), at));
    }
}
