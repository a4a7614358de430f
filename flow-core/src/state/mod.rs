//! State: entries by key bytes, their timers, and their snapshots.

/// The format of the snapshot envelope.
pub(crate) const FORMAT: u8 = 1;
