//! What a task wants done: outputs and snapshot writes since the last commit whose outcome is known.
//!
//! They are encoded once, into one arena, and kept until then, so that an aborted transaction is answered by sending them again.

use super::letter::Letter;
use crate::{HeadersRef, Timestamp};

/// Outputs and dead letters in the order they were produced, and snapshots in the order their entries were first touched.
#[derive(Default)]
pub struct Effects {
    pub(crate) bytes: Vec<u8>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) letters: Vec<Letter>,
    pub(crate) snapshots: Vec<Snapshot>,
}

/// Key, value and headers stand one behind the other in the arena, from `start`; -1 is a null.
pub(crate) struct Output {
    pub(crate) sink: u32,
    pub(crate) timestamp: Timestamp,
    pub(crate) start: usize,
    pub(crate) key: i32,
    pub(crate) value: i32,
    pub(crate) headers: i32,
}

pub(crate) struct Snapshot {
    pub(crate) store: u32,
    pub(crate) start: usize,
    pub(crate) key: i32,
    pub(crate) value: i32,
}

/// A record to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputRef<'e> {
    /// Which of the sub-topology's [sinks](crate::SubTopology::sinks).
    pub sink: usize,
    /// The key's bytes.
    pub key: Option<&'e [u8]>,
    /// The value's bytes; `None` is a tombstone.
    pub value: Option<&'e [u8]>,
    /// The record's timestamp.
    pub timestamp: Timestamp,
    /// Its headers.
    pub headers: HeadersRef<'e>,
}

/// A snapshot of one entry of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRef<'e> {
    /// Which of the sub-topology's [stores](crate::SubTopology::stores).
    pub store: usize,
    /// The entry's bytes: the record's key in the snapshot topic.
    pub key: &'e [u8],
    /// The state in its envelope; `None` deletes the entry.
    pub value: Option<&'e [u8]>,
}

/// The place up to which effects are kept when a record fails.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    bytes: usize,
    outputs: usize,
    letters: usize,
}

impl Effects {
    /// How many records are to be sent.
    pub fn outputs_len(&self) -> usize {
        self.outputs.len()
    }

    /// The `i`th record to send.
    ///
    /// # Panics
    /// When `i` is not below [`Effects::outputs_len`].
    pub fn output(&self, i: usize) -> OutputRef<'_> {
        let output = &self.outputs[i];
        let (key, rest) = split(&self.bytes[output.start..], output.key);
        let (value, rest) = split(rest, output.value);
        let (headers, _) = split(rest, output.headers);
        OutputRef {
            sink: output.sink as usize,
            key,
            value,
            timestamp: output.timestamp,
            headers: HeadersRef::new(headers.unwrap_or_default()),
        }
    }

    /// How many entries are to be written.
    pub fn snapshots_len(&self) -> usize {
        self.snapshots.len()
    }

    /// The `i`th snapshot to write.
    ///
    /// # Panics
    /// When `i` is not below [`Effects::snapshots_len`].
    pub fn snapshot(&self, i: usize) -> SnapshotRef<'_> {
        let snapshot = &self.snapshots[i];
        let (key, rest) = split(&self.bytes[snapshot.start..], snapshot.key);
        let (value, _) = split(rest, snapshot.value);
        SnapshotRef { store: snapshot.store as usize, key: key.unwrap_or_default(), value }
    }

    /// The size of everything that is kept.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// True if there is nothing to send and nothing to write.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.letters.is_empty() && self.snapshots.is_empty()
    }

    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), outputs: self.outputs.len(), letters: self.letters.len() }
    }

    pub(crate) fn cut_back(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.outputs.truncate(mark.outputs);
        self.letters.truncate(mark.letters);
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.outputs.clear();
        self.letters.clear();
        self.snapshots.clear();
    }
}

#[inline]
pub(super) fn split(bytes: &[u8], length: i32) -> (Option<&[u8]>, &[u8]) {
    match usize::try_from(length) {
        Ok(length) => {
            let (run, rest) = bytes.split_at(length);
            (Some(run), rest)
        }
        Err(_) => (None, bytes),
    }
}
