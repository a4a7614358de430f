//! State: entries by their bytes, the timers that live with them, and how both are written in snapshots.

mod bytes;
mod snapshot;
mod spec;
mod store;
mod timers;
mod upgrade;

pub(crate) use snapshot::FORMAT;
pub(crate) use spec::StoreSpec;
pub(crate) use store::{AnyStore, KvStore, StoreId, StoreMark};
pub(crate) use timers::Due;
pub use upgrade::Upgrades;
