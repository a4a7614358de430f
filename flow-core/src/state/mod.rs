//! State: entries by their bytes, the timers that live with them, and how both are written in snapshots.

mod snapshot;
mod store;
mod timers;

pub(crate) use snapshot::FORMAT;
pub(crate) use store::{AnyStore, KvStore, StoreId, StoreMark, StoreSpec};
pub(crate) use timers::Due;
