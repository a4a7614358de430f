//! The rules of a topology. All that are broken are said at once, with the lines of the user's program.

use std::collections::HashMap;

use super::graph::{Broken, Graph, Line, NodeKind, StoreNode};
use super::partition::Cuts;

/// What the committed offsets' metadata can hold in all (Kafka's `offset.metadata.max.bytes`), and what the runtime needs of it.
const METADATA_BYTES_MAX: usize = 4096;
const METADATA_BYTES_RESERVED: usize = 768;
/// A clock beside its store's name: twenty digits and the marks around them.
const CLOCK_BYTES: usize = 26;
/// Kafka's limit for the names of topics.
const NAME_BYTES_MAX: usize = 249;

pub(crate) fn check(graph: &mut Graph, cuts: &Cuts) -> Vec<Broken> {
    let mut broken = std::mem::take(&mut graph.broken);
    inputs(graph, &mut broken);
    steps(graph, &mut broken);
    stores(graph, &mut broken);
    clocks(graph, cuts, &mut broken);
    broken
}

fn inputs(graph: &Graph, broken: &mut Vec<Broken>) {
    let mut any = false;
    for node in &graph.nodes {
        match &node.kind {
            NodeKind::Source { topic } => {
                any = true;
                name("topic", topic, node.at, "", broken);
                if node.children.is_empty() {
                    broken.push(format!(
                        "nothing uses the stream of topic `{topic}`, read at {}: use it, or do not read it",
                        node.at
                    ));
                }
            }
            NodeKind::Sink { topic } => name("topic", topic, node.at, "", broken),
            NodeKind::Step | NodeKind::Pass | NodeKind::KeyBy { .. } => {}
        }
    }
    if !any {
        broken.push("the topology reads no topic: start with `stream`".to_owned());
    }
}

fn steps(graph: &Graph, broken: &mut Vec<Broken>) {
    let mut topics = Names::new("`key_by`");
    let mut names = Names::new("step");
    for node in &graph.nodes {
        if let Some((given, at)) = &node.name {
            name("step", given, at, "", broken);
            names.add(given, at, broken);
        }
        if let NodeKind::KeyBy { name: given } = &node.kind {
            name("`key_by`", given, node.at, "-repartition", broken);
            // A `key_by` without a name of its own is printed under that of its topic.
            if topics.add(given, node.at, broken) && node.name.is_none() {
                names.add(given, node.at, broken);
            }
        }
    }
}

fn stores(graph: &Graph, broken: &mut Vec<Broken>) {
    let mut names = Names::new("store");
    for store in &graph.stores {
        name("store", &store.name, store.at, "-changelog", broken);
        names.add(&store.name, store.at, broken);
        timers(store, broken);
    }
}

fn timers(store: &StoreNode, broken: &mut Vec<Broken>) {
    let (name, at) = (&store.name, store.at);
    for (index, timer) in store.timers.iter().enumerate() {
        let timer = timer.name();
        if store.timers[..index].iter().any(|other| other.name() == timer) {
            broken.push(format!(
                "the flow `{name}`, placed at {at}, has two timers named `{timer}`: give each its own name"
            ));
        }
        if timer.is_empty() || timer.len() > 255 {
            broken.push(format!(
                "the flow `{name}`, placed at {at}, has a timer with a name of {} bytes: give it 1 to 255",
                timer.len()
            ));
        }
    }
    if store.timers.len() > 255 {
        broken.push(format!(
            "the flow `{name}`, placed at {at}, has {} timers, and 255 is the limit",
            store.timers.len()
        ));
    }
}

/// The clocks of a task commit in the metadata of its offsets, which Kafka limits.
fn clocks(graph: &Graph, cuts: &Cuts, broken: &mut Vec<Broken>) {
    let mut bytes = vec![METADATA_BYTES_RESERVED; cuts.sub_count];
    for store in graph.stores.iter().filter(|store| store.clocked) {
        bytes[cuts.sub_of[store.node]] += store.name.len() + CLOCK_BYTES;
    }
    for (sub, bytes) in bytes.into_iter().enumerate().filter(|(_, bytes)| *bytes > METADATA_BYTES_MAX) {
        let here = |store: &&StoreNode| store.clocked && cuts.sub_of[store.node] == sub;
        let lines: Vec<String> = graph.stores.iter().filter(here).map(|store| store.at.to_string()).collect();
        broken.push(format!(
            "the clocks of {} flows in one sub-topology take {bytes} bytes of offset metadata, and Kafka's limit is \
             {METADATA_BYTES_MAX}: shorten the flows' names, or put a `key_by` between them (placed at {})",
            lines.len(),
            lines.join(", ")
        ));
    }
}

/// Checks what Kafka checks in names of topics, before Kafka does. `suffix` is what the topic's name has behind it.
fn name(what: &str, name: &str, at: Line, suffix: &str, broken: &mut Vec<Broken>) {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let problem = if name.is_empty() {
        "is empty".to_owned()
    } else if name == "." || name == ".." {
        "is `.` or `..`".to_owned()
    } else if let Some(illegal) = name.chars().find(|c| !legal(*c)) {
        format!("contains {illegal:?}")
    } else if name.len() + suffix.len() > NAME_BYTES_MAX {
        format!("is longer than {} bytes", NAME_BYTES_MAX - suffix.len())
    } else {
        return;
    };
    broken.push(format!(
        "the name of the {what} `{name}`, given at {at}, {problem}: Kafka's names have letters, digits, `.`, `_` and `-`"
    ));
}

/// Finds names that were given twice.
struct Names<'g> {
    what: &'static str,
    seen: HashMap<&'g str, Line>,
}

impl<'g> Names<'g> {
    fn new(what: &'static str) -> Self {
        Names { what, seen: HashMap::new() }
    }

    /// False if the name was given before.
    fn add(&mut self, name: &'g str, at: Line, broken: &mut Vec<Broken>) -> bool {
        if let Some(first) = self.seen.get(name) {
            broken.push(format!("two {}s are named `{name}`: one at {first}, one at {at}", self.what));
            return false;
        }
        self.seen.insert(name, at);
        true
    }
}
