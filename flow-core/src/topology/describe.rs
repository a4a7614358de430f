//! The text that Kafka Streams prints for a topology.
//!
//! Its order is Kafka Streams' own: in a sub-topology first sources, then processors, then sinks come out of one list that is
//! sorted by the number of steps behind a step (most first) and then by name.

use std::fmt::Write;

use super::graph::{Graph, NodeId, NodeKind};
use super::partition::Cuts;

/// A step as it is printed; a `key_by` with a repartition topic is four of them.
struct Printed {
    name: String,
    sub: usize,
    what: What,
    parents: Vec<usize>,
    children: Vec<usize>,
    /// Itself and all steps behind it, counted once per path.
    size: usize,
}

enum What {
    Source(String),
    Processor(Option<String>),
    Sink(String),
}

pub(crate) fn text(graph: &Graph, cuts: &Cuts) -> String {
    let steps = steps(graph, cuts);
    let mut text = String::from("Topologies:\n");
    for sub in 0..cuts.sub_count {
        let indent = if sub == 0 { "   " } else { "  " };
        let _ = writeln!(text, "{indent}Sub-topology: {sub}");
        let mut here: Vec<&Printed> = steps.iter().filter(|step| step.sub == sub).collect();
        here.sort_by(|a, b| order(a, b));
        here.iter().for_each(|step| print(&mut text, step, &steps));
        text.push('\n');
    }
    text
}

fn order(a: &Printed, b: &Printed) -> std::cmp::Ordering {
    b.size.cmp(&a.size).then_with(|| a.name.cmp(&b.name))
}

fn print(text: &mut String, step: &Printed, all: &[Printed]) {
    let names = |of: &[usize]| {
        let mut of: Vec<&Printed> = of.iter().map(|&step| &all[step]).collect();
        of.sort_by(|a, b| order(a, b));
        let names: Vec<&str> = of.iter().map(|step| step.name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let (children, parents) = (names(&step.children), names(&step.parents));
    let name = &step.name;
    let _ = match &step.what {
        What::Source(topic) => writeln!(text, "    Source: {name} (topics: [{topic}])\n      --> {children}"),
        What::Processor(store) => {
            let store = store.as_deref().unwrap_or_default();
            writeln!(text, "    Processor: {name} (stores: [{store}])\n      --> {children}\n      <-- {parents}")
        }
        What::Sink(topic) => writeln!(text, "    Sink: {name} (topic: {topic})\n      <-- {parents}"),
    };
}

fn steps(graph: &Graph, cuts: &Cuts) -> Vec<Printed> {
    let mut steps = Vec::new();
    // Where the edges behind a node start: itself, or the source of its repartition topic.
    let mut outs = vec![0; graph.nodes.len()];
    let mut ins = vec![0; graph.nodes.len()];
    for id in graph.order() {
        let node = &graph.nodes[id];
        let what = match &node.kind {
            NodeKind::Source { topic } => What::Source(topic.clone()),
            NodeKind::Sink { topic } => What::Sink(topic.clone()),
            _ => What::Processor(node.store.map(|store| graph.stores[store].name.clone())),
        };
        ins[id] = steps.len();
        let mut add = |name: String, sub: usize, what: What| {
            steps.push(Printed { name, sub, what, parents: Vec::new(), children: Vec::new(), size: 0 });
            steps.len() - 1
        };
        let mut out = add(node.printed(), cuts.sub_of[id], what);
        if let (NodeKind::KeyBy { name }, Some((write, read))) = (&node.kind, cuts.repartition_steps[id]) {
            let topic = format!("{name}-repartition");
            let filter = add(format!("{topic}-filter"), cuts.sub_of[id], What::Processor(None));
            let sink = add(cuts.step_names[write as usize].clone(), cuts.sub_of[id], What::Sink(topic.clone()));
            let source = add(cuts.step_names[read as usize].clone(), cuts.sub_behind[id], What::Source(topic));
            join(&mut steps, out, filter);
            join(&mut steps, filter, sink);
            out = source;
        }
        outs[id] = out;
    }
    for (id, node) in graph.nodes.iter().enumerate() {
        node.parents.iter().for_each(|&parent: &NodeId| join(&mut steps, outs[parent], ins[id]));
    }
    // Children stand behind their parents in the list.
    for at in (0..steps.len()).rev() {
        steps[at].size = 1 + steps[at].children.iter().map(|&child| steps[child].size).sum::<usize>();
    }
    steps
}

fn join(steps: &mut [Printed], parent: usize, child: usize) {
    steps[parent].children.push(child);
    steps[child].parents.push(parent);
}
