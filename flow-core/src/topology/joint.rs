use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::graph::{Graph, Line, Make, NodeId, NodeKind, StoreNode, Traits};
use super::{Stream, TopologyBuilder};
use crate::engine::{Edge, KeyFormat};
use crate::flow::{Flow, Fold};
use crate::operator::flow::FlowStep;
use crate::state::{KvStore, StoreSpec};

/// A flow that waits for its first input: see [`TopologyBuilder::flow`].
#[must_use = "a flow folds nothing until it is given a stream: continue with `fold`"]
pub struct JointFlow<'t, F: Flow> {
    builder: &'t TopologyBuilder,
    flow: F,
    at: Line,
}

/// A flow with inputs, all of the same key: `fold` adds one more, `output` is what the flow emits.
pub struct JointFold<'t, F: Flow, K: ?Sized> {
    builder: &'t TopologyBuilder,
    id: NodeId,
    key: KeyFormat<K>,
    link: Rc<RefCell<Link<F, K>>>,
}

/// The one step that all inputs share, built when the first of them is.
enum Link<F: Flow, K: ?Sized> {
    Waiting(F, usize),
    Building,
    Built(Arc<FlowStep<F, K>>),
}

impl<'t, F: Flow> JointFlow<'t, F> {
    pub(crate) fn new(builder: &'t TopologyBuilder, flow: F, at: Line) -> Self {
        JointFlow { builder, flow, at }
    }

    /// Folds a stream into the flow's state.
    pub fn fold<K: ?Sized + 'static, E: ?Sized + 'static>(self, stream: Stream<'t, K, E>) -> JointFold<'t, F, K>
    where
        F: Fold<E>,
    {
        let JointFlow { builder, flow, at } = self;
        let (id, store) = builder.with(|graph| add_step::<F>(graph, at));
        let link = Rc::new(RefCell::new(Link::Waiting(flow, store)));
        JointFold { builder, id, key: stream.key, link }.fold(stream)
    }
}

fn add_step<F: Flow>(graph: &mut Graph, at: Line) -> (NodeId, usize) {
    let id = graph.add(NodeKind::Step, "KSTREAM-PROCESSOR-", Traits { asks: true, multiplies: true }, at);
    let store = graph.stores.len();
    let upgrades = F::upgrades();
    if upgrades.version() != F::STATE_VERSION {
        graph.broken.push(format!(
            "the upgrades of the flow `{}`, placed at {at}, end at version {}, and its state has version {}: there is one \
             upgrade for each version but the last",
            F::NAME,
            upgrades.version(),
            F::STATE_VERSION
        ));
    }
    let spec = Arc::new(StoreSpec::new(F::NAME, F::TIMERS, upgrades));
    graph.stores.push(StoreNode {
        name: F::NAME.to_owned(),
        at,
        make: Box::new(move |journaled| Box::new(KvStore::new(Arc::clone(&spec), journaled))),
        clocked: true,
        timers: F::TIMERS,
        node: id,
    });
    graph.nodes[id].store = Some(store);
    (id, store)
}

impl<'t, F: Flow, K: ?Sized + 'static> JointFold<'t, F, K> {
    /// Folds one more stream into the flow's state. Its keys must be written as those of the other inputs are.
    #[track_caller]
    pub fn fold<E: ?Sized + 'static>(self, stream: Stream<'t, K, E>) -> Self
    where
        F: Fold<E>,
    {
        let (link, key) = (Rc::clone(&self.link), self.key);
        let make: Make = Box::new(move |linker, id| {
            let edge: Edge<K, E> = step(&link, key, linker, id);
            Box::new(edge)
        });
        self.builder.join(self.id, Some(make), (stream.builder, stream.id), key.layout == stream.key.layout);
        self
    }

    /// What the flow emits.
    pub fn output(self) -> Stream<'t, K, F::Out> {
        Stream::new(self.builder, self.id, self.key)
    }
}

fn step<F: Flow, K: ?Sized + 'static>(
    link: &RefCell<Link<F, K>>,
    key: KeyFormat<K>,
    linker: &mut super::link::Linker,
    id: NodeId,
) -> Arc<FlowStep<F, K>> {
    let mut link = link.borrow_mut();
    if let Link::Waiting(..) = *link
        && let Link::Waiting(flow, store) = std::mem::replace(&mut *link, Link::Building)
    {
        let step = Arc::new(FlowStep::new(flow, linker.store(store), linker.step(id), linker.next(id), key));
        linker.fires(store, step.clone());
        *link = Link::Built(step);
    }
    match &*link {
        Link::Built(step) => Arc::clone(step),
        _ => unreachable!("no step is behind itself"),
    }
}

impl TopologyBuilder {
    /// Adds an input to a step that may have several. A stream of another builder is a broken rule, and so are other keys.
    #[track_caller]
    pub(crate) fn join(&self, node: NodeId, make: Option<Make>, input: (&TopologyBuilder, NodeId), same_keys: bool) {
        let at = std::panic::Location::caller();
        self.with(|graph| {
            if !std::ptr::eq(self, input.0) {
                graph
                    .broken
                    .push(format!("the stream used at {at} belongs to another topology: build both on one builder"));
                return;
            }
            if !same_keys {
                graph.broken.push(format!(
                    "the stream used at {at} writes its keys with another codec than the stream it is joined to, so \
                     equal keys would differ in bytes and partition: put a `key_by` in front of one of them"
                ));
            }
            graph.connect(node, Some(input.1), make);
        });
    }
}
