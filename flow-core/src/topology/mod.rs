//! A topology as a value: sub-topologies with their sources, stores and sinks, ready to make tasks.

mod builder;
mod describe;
mod error;
pub(crate) mod graph;
mod joint;
pub(crate) mod link;
mod partition;
mod stream;
mod table;
mod validate;

use std::fmt;
use std::sync::Arc;

pub use builder::TopologyBuilder;
pub use error::TopologyError;
pub use joint::{JointFlow, JointFold};
pub use stream::Stream;
pub use table::Table;

use crate::Partition;
use crate::engine::{Program, Task, TaskOptions};

/// A topology that was built: immutable, cheap to clone, shared by all workers.
#[derive(Clone)]
pub struct Topology {
    subs: Arc<[SubTopology]>,
    description: Arc<str>,
}

impl Topology {
    /// The topology of one thing that knows its own place, as a flow annotated with the topics it reads and writes.
    ///
    /// # Errors
    /// All rules that it breaks, each with the lines that break it.
    pub fn of(whole: impl Placed) -> Result<Topology, TopologyError> {
        let topology = TopologyBuilder::new();
        topology.add(whole);
        topology.build()
    }

    /// The text that Kafka Streams prints for a topology, so that its viewers can draw it.
    pub fn describe(&self) -> String {
        self.description.to_string()
    }

    /// The parts between repartition topics, in order. Each of them times a partition is one task.
    pub fn sub_topologies(&self) -> &[SubTopology] {
        &self.subs
    }
}

/// What knows its own place in a topology: `#[flow(.., from = .., to = ..)]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say where it stands",
    note = "give its `#[flow]` the topics, as in `from = CLICKS, to = CLOSED`, or place it with `.flow(..)`"
)]
pub trait Placed {
    /// Adds its streams and steps.
    fn place(self, topology: &TopologyBuilder);
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

/// A part of a topology whose steps pass records on within one task.
#[derive(Clone)]
pub struct SubTopology {
    program: Arc<Program>,
}

impl SubTopology {
    /// Its number, as `describe()` prints it.
    pub fn index(&self) -> usize {
        self.program.index
    }

    /// The topics it reads. All of them must have the same number of partitions.
    pub fn sources(&self) -> &[Source] {
        &self.program.sources
    }

    /// Its stores, each with a snapshot topic.
    pub fn stores(&self) -> &[StoreInfo] {
        &self.program.store_infos
    }

    /// The topics it writes.
    pub fn sinks(&self) -> &[SinkInfo] {
        &self.program.sinks
    }

    /// An empty task for one partition.
    pub fn task(&self, partition: Partition, options: &TaskOptions) -> Task {
        Task::new(Arc::clone(&self.program), partition, options)
    }
}

impl fmt::Debug for SubTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubTopology")
            .field("index", &self.index())
            .field("sources", &self.sources())
            .field("stores", &self.stores())
            .field("sinks", &self.sinks())
            .finish()
    }
}

/// A topic as the topology knows it. The runtime makes `<application>-<name>-repartition` of the second kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TopicName {
    /// A topic of the user.
    User(String),
    /// The repartition topic behind the `key_by` of this name.
    Repartition(String),
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopicName::User(name) => f.write_str(name),
            TopicName::Repartition(name) => write!(f, "{name}-repartition"),
        }
    }
}

/// A topic that a sub-topology reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// The topic.
    pub topic: TopicName,
    /// The step that reads it, as `describe()` prints it.
    pub step: String,
}

/// A topic that a sub-topology writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinkInfo {
    /// The topic.
    pub topic: TopicName,
    /// The step that writes it, as `describe()` prints it.
    pub step: String,
}

/// A store of a sub-topology.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreInfo {
    /// The name the user gave it.
    pub name: String,
    /// True if its step has event-time or wall-clock timers.
    pub timers: bool,
}
