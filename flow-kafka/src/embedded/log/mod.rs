//! One partition's log: batches as they were sent, producers, transactions, and what a reader may see.
//!
//! Batches are kept as bytes. Only their header is read and patched, as Kafka does, so compression passes through untouched;
//! records are looked at where a compacted topic needs it, or somebody asks for an offset by time.

mod batch;
mod compact;
mod compression;
mod marker;
mod partition;
mod producers;
mod records;
mod retention;
mod times;

pub(super) use batch::Batch;
pub(super) use compact::Compaction;
pub(super) use partition::{Aborted, PartitionLog, Rules, SegmentRules};
pub(super) use retention::Retention;
