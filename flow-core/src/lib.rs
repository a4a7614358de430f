//! Stateful stream processing as a function: records in, effects out.

// Generated code names this crate `::flow_core`, also inside it.
#[allow(unused_extern_crates, reason = "only generated code uses the name")]
extern crate self as flow_core;

#[doc(hidden)]
#[path = "macro_support.rs"]
pub mod __macro;
mod codec;
mod context;
mod engine;
mod flow;
mod operator;
mod partitioner;
mod record;
mod state;
pub mod testing;
mod time;
mod topic;
mod topology;

pub use codec::{BigEndian, ByType, Bytes, Codec, CodecError, Json, Key, NoKey, Nullable, Utf8};
pub use context::{Context, Position};
pub use engine::{
    Effects, OutputRef, Policies, Policy, RestoreError, Skipped, SnapshotRef, Task, TaskCounters, TaskError,
    TaskErrorKind, TaskOptions,
};
pub use flow::{Clock, Flow, Fold, Never, State, StepError, Timer};
pub use flow_macros::{flow, fold, key, timer};
pub use operator::Sink;
pub use partitioner::partition_for;
pub use record::{Headers, HeadersIter, HeadersRef, Offset, Partition, RecordRef};
pub use time::Timestamp;
pub use topic::Topic;
pub use topology::{
    JointFlow, JointFold, Placed, SinkInfo, Source, StoreInfo, Stream, SubTopology, Table, TopicName, Topology,
    TopologyBuilder, TopologyError,
};
