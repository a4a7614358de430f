//! One partition's log: batches as they were sent, producers, transactions, and what a reader may see.
//!
//! Batches are kept as bytes. Only their header is read and patched, as Kafka does, so compression passes through untouched.

mod batch;
mod marker;
mod partition;
mod producers;
mod times;

pub(super) use batch::Batch;
pub(super) use partition::{Aborted, PartitionLog, Rules};
