//! Stateful stream processing as a function: records in, effects out.
//!
//! You write a fold (what one event does to the state of its key) or compose a typed [topology](TopologyBuilder) of operators.
//! State is kept in memory and must fit there; its snapshots, its timers and the records that were sent are [`Effects`], which a
//! runtime commits together. This crate has no I/O, no threads and no clock: `flow_kafka` runs topologies on Kafka, and
//! [`testing::TestDriver`] runs them in a test.
//!
//! ```
//! use std::time::Duration;
//!
//! use flow_core::testing::TestDriver;
//! use flow_core::{Context, Timer, Timestamp, Topic, TopologyBuilder, flow};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Serialize, Deserialize)]
//! struct Click {
//!     page: String,
//! }
//!
//! #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
//! struct SessionClosed {
//!     clicks: u64,
//! }
//!
//! /// Closes a user's session after a while without clicks.
//! struct Sessions {
//!     idle_after: Duration,
//! }
//!
//! #[flow(name = "sessions")]
//! impl Sessions {
//!     const IDLE: Timer = Timer::event_time("idle");
//!
//!     #[fold]
//!     fn click(&self, clicks: Option<u64>, _click: &Click, cx: &mut Context<SessionClosed>) -> Option<u64> {
//!         cx.set_timer(Self::IDLE, cx.timestamp() + self.idle_after);
//!         Some(clicks.unwrap_or(0) + 1)
//!     }
//!
//!     #[timer(Self::IDLE)]
//!     fn close(&self, clicks: u64, cx: &mut Context<SessionClosed>) -> Option<u64> {
//!         cx.emit(SessionClosed { clicks });
//!         None // forgets the key, and its timers with it
//!     }
//! }
//!
//! const CLICKS: Topic<str, Click> = Topic::new("clicks");
//! const CLOSED: Topic<str, SessionClosed> = Topic::new("sessions-closed");
//!
//! let topology = TopologyBuilder::new();
//! topology.stream(CLICKS).flow(Sessions { idle_after: Duration::from_secs(30) }).to(CLOSED);
//! let topology = topology.build()?;
//!
//! let mut driver = TestDriver::new(topology);
//! driver.send(CLICKS, Timestamp::from_millis(0), "ann", &Click { page: "/".to_owned() });
//! let mut driver = driver.restart(); // through the snapshots, as a takeover would
//! driver.advance_to(Timestamp::from_millis(30_000));
//! assert_eq!(driver.read(CLOSED), [("ann".to_owned(), SessionClosed { clicks: 1 })]);
//! # Ok::<(), flow_core::TopologyError>(())
//! ```
//!
//! # Where to look
//!
//! - Writing steps: [`flow`] (the attribute), [`Flow`], [`Fold`], [`Context`], [`Timer`], [`Upgrades`].
//! - Composing them: [`TopologyBuilder`], [`Stream`], [`Table`], [`Topic`].
//! - What is on the wire: [`Codec`], [`Key`], [`Json`], [`Utf8`], [`Bytes`], [`BigEndian`], [`Tuple`], [`Nullable`]; `Postcard` and
//!   keys of type `Uuid` are behind the features `postcard` and `uuid`.
//! - Testing: [`testing`].
//! - Running tasks yourself: [`Topology::sub_topologies`], [`Task`], [`Effects`].

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

#[cfg(feature = "postcard")]
pub use codec::Postcard;
pub use codec::{BigEndian, ByType, Bytes, Codec, CodecError, Json, Key, NoKey, Nullable, Tuple, Utf8};
pub use context::{Context, Position};
pub use engine::{
    DeadLetterRef, Effects, FailedTimer, FailureCounts, OutputRef, Policies, Policy, RestoreError, SnapshotRef, Task,
    TaskCounters, TaskError, TaskErrorKind, TaskOptions, dead_letter,
};
pub use flow::{Clock, Flow, Fold, Never, State, StepError, Timer};
pub use flow_macros::{flow, fold, key, timer};
pub use operator::Sink;
pub use partitioner::partition_for;
pub use record::{Headers, HeadersIter, HeadersRef, Offset, Partition, RecordRef};
pub use state::Upgrades;
pub use time::Timestamp;
pub use topic::Topic;
pub use topology::{
    JointFlow, JointFold, Placed, SinkInfo, Source, StoreInfo, Stream, SubTopology, Table, TopicName, Topology,
    TopologyBuilder, TopologyError,
};
