//! A store: entry bytes to state. The entry is the unit of lookup, dirtiness, snapshot and deletion.
//!
//! Entries live in slots of a slab, which timers and the dirty list address by number. An entry whose state is gone keeps its slot
//! until the next snapshot has written its tombstone; then the slot is free for another key. Nothing ever walks the index, so
//! nothing is ever written in a hash map's order.

use std::any::Any;
use std::hash::BuildHasher;
use std::marker::PhantomData;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::bytes::SmallBytes;
use super::snapshot::{BadEnvelope, Header, write_header};
use super::spec::{StoreSpec, WrittenBy};
use super::timers::{Due, NEVER, Timers};
use crate::codec::CodecError;
use crate::engine::{Effects, Failure, RestoreError, Snapshot, TaskErrorKind};
use crate::flow::{Clock, State, Timer};

/// The typed number of a store within its task.
pub(crate) struct StoreId<S> {
    index: usize,
    state: PhantomData<fn() -> S>,
}

impl<S> StoreId<S> {
    pub(crate) fn new(index: usize) -> Self {
        StoreId { index, state: PhantomData }
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.index
    }
}

impl<S> Clone for StoreId<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for StoreId<S> {}

/// A state, as bytes until its key is first used.
enum Slot<S> {
    Bytes(SmallBytes),
    Older(Box<OlderBytes>),
    Live(Option<S>),
}

/// What an earlier version wrote: apart, so that a slot is no bigger for it.
struct OlderBytes {
    /// Its index in [`StoreSpec::older`].
    at: usize,
    bytes: SmallBytes,
}

struct Entry<S> {
    key: SmallBytes,
    slot: Slot<S>,
    dirty: bool,
    /// The snapshot topic holds (or will, once the effects are committed) a value for it: its end needs a tombstone.
    persisted: bool,
}

/// Declared timers by their number, and when they are due.
type Pending = Vec<(usize, i64)>;

/// Where the journal stood: what a failed record is rolled back to.
#[derive(Clone, Copy)]
pub(crate) struct StoreMark {
    states: usize,
    timers: usize,
    dirty: usize,
    clock: i64,
}

pub(crate) struct KvStore<S> {
    spec: Arc<StoreSpec<S>>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    entries: Vec<Entry<S>>,
    free: Vec<u32>,
    dirty: Vec<u32>,
    pub(crate) timers: Timers,
    ready: Vec<Due>,
    /// The step's clock: the highest timestamp that reached it; `i64::MIN` before the first.
    pub(crate) clock: i64,
    journal: Vec<(u32, Option<S>)>,
    journaled: bool,
}

/// What a task does with its stores without knowing their states' types.
pub(crate) trait AnyStore: Send {
    fn as_any(&mut self) -> &mut dyn Any;
    fn restore(&mut self, entry: &[u8], value: Option<&[u8]>) -> Result<(), RestoreError>;
    fn snapshot(&mut self, store: u32, into: &mut Effects, max_bytes: usize) -> Result<(), Box<Failure>>;
    fn clock(&self) -> i64;
    fn set_clock(&mut self, clock: i64);
    fn may_be_due(&self, clock: Clock, now: i64) -> bool;
    fn next_wall(&self) -> Option<i64>;
    fn mark(&self) -> StoreMark;
    fn rollback(&mut self, to: StoreMark);
    fn forget_journal(&mut self);
}

impl<S: State> KvStore<S> {
    pub(crate) fn new(spec: Arc<StoreSpec<S>>, journaled: bool) -> Self {
        let mut timers = Timers::new(spec.timers);
        timers.journaled = journaled;
        KvStore {
            spec,
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            entries: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            timers,
            ready: Vec::new(),
            clock: i64::MIN,
            journal: Vec::new(),
            journaled,
        }
    }

    /// The slot of an entry, which it gets now if it has none. The only hash of a record.
    #[inline]
    pub(crate) fn slot(&mut self, key: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(key);
        match self.index.find(hash, |&at| *self.entries[at as usize].key == *key) {
            Some(&at) => at,
            None => self.add(hash, key),
        }
    }

    fn add(&mut self, hash: u64, key: &[u8]) -> u32 {
        let entry = Entry { key: key.into(), slot: Slot::Live(None), dirty: false, persisted: false };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.timers.add_slot();
                (self.entries.len() - 1) as u32
            }
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.index.insert_unique(hash, at, |&at| hasher.hash_one(&*entries[at as usize].key));
        at
    }

    /// Ends an entry; its slot can be used again.
    fn remove(&mut self, at: u32) {
        let entry = &mut self.entries[at as usize];
        let hash = self.hasher.hash_one(&*entry.key);
        if let Ok(found) = self.index.find_entry(hash, |&other| other == at) {
            found.remove();
        }
        entry.key = SmallBytes::default();
        entry.slot = Slot::Live(None);
        entry.persisted = false;
        self.timers.free_slot(at);
        self.free.push(at);
    }

    /// The key's bytes of a slot.
    #[inline]
    pub(crate) fn key(&self, at: u32) -> &[u8] {
        &self.entries[at as usize].key
    }

    /// The state in place, open for writing: decoded on first use, copied to the journal if a failed record may have to be undone,
    /// marked dirty once per commit in order of first touch.
    #[inline]
    pub(crate) fn open(&mut self, at: u32) -> Result<&mut Option<S>, Box<Failure>> {
        if let Slot::Bytes(_) | Slot::Older(_) = self.entries[at as usize].slot {
            self.decode(at)?;
        }
        self.touch(at);
        let entry = &mut self.entries[at as usize];
        let Slot::Live(state) = &mut entry.slot else { unreachable!("bytes were decoded above") };
        if self.journaled {
            self.journal.push((at, state.clone()));
        }
        Ok(state)
    }

    /// Marks an entry for the next snapshot.
    #[inline]
    pub(crate) fn touch(&mut self, at: u32) {
        let entry = &mut self.entries[at as usize];
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push(at);
        }
    }

    fn decode(&mut self, at: u32) -> Result<(), Box<Failure>> {
        let state = match &self.entries[at as usize].slot {
            Slot::Bytes(bytes) => {
                (self.spec.decode)(bytes).map_err(|error| self.failure(at, format_args!("cannot be read: {error}")))?
            }
            Slot::Older(older) => {
                (self.spec.older[older.at].read)(&older.bytes).map_err(|error| self.failure(at, error))?
            }
            Slot::Live(_) => return Ok(()),
        };
        self.entries[at as usize].slot = Slot::Live(Some(state));
        Ok(())
    }

    /// The state of a slot that [`KvStore::open`] has opened.
    #[inline]
    pub(crate) fn opened(&mut self, at: u32) -> &mut Option<S> {
        match &mut self.entries[at as usize].slot {
            Slot::Live(state) => state,
            Slot::Bytes(_) | Slot::Older(_) => unreachable!("an open slot is live"),
        }
    }

    #[inline]
    pub(crate) fn is_gone(&self, at: u32) -> bool {
        matches!(self.entries[at as usize].slot, Slot::Live(None))
    }

    /// Moves the step's clock and answers where it stands.
    #[inline]
    pub(crate) fn move_clock(&mut self, timestamp: i64) -> i64 {
        self.clock = self.clock.max(timestamp);
        self.clock
    }

    /// All timers due at the earliest deadline, in the order in which they fire. Give the buffer back.
    pub(crate) fn due(&mut self, clock: Clock, now: i64) -> Vec<Due> {
        let mut ready = std::mem::take(&mut self.ready);
        self.timers.due(clock, now, &mut ready);
        ready.sort_unstable_by(|a, b| {
            let keys = || self.key(a.at).cmp(self.key(b.at));
            keys().then(a.timer.cmp(&b.timer))
        });
        ready
    }

    pub(crate) fn give_back(&mut self, mut ready: Vec<Due>) {
        ready.clear();
        self.ready = ready;
    }

    fn bad_envelope(&self, bad: BadEnvelope) -> RestoreError {
        let store = self.spec.name.clone();
        match bad {
            BadEnvelope::Truncated => RestoreError::Truncated { store },
            BadEnvelope::Format(found) => RestoreError::Format { store, found },
        }
    }

    /// The declared timer of each pending one, and the state as it was written, checked before anything is changed.
    fn read(&self, value: &[u8]) -> Result<(Pending, Slot<S>), RestoreError> {
        let store = || self.spec.name.clone();
        let mut header = Header::read(value).map_err(|bad| self.bad_envelope(bad))?;
        let by = self.spec.written_by(header.version, header.codec)?;
        let mut pending = Vec::new();
        while let Some((name, deadline)) = header.next_timer().map_err(|bad| self.bad_envelope(bad))? {
            let declared = self.timers.declared().iter().position(|timer| timer.name().as_bytes() == name);
            let timer = declared.ok_or_else(|| RestoreError::Timer {
                store: store(),
                timer: String::from_utf8_lossy(name).into_owned(),
            })?;
            pending.push((timer, deadline));
        }
        let bytes = header.payload().into();
        let slot = match by {
            WrittenBy::Current => Slot::Bytes(bytes),
            WrittenBy::Older(at) => Slot::Older(Box::new(OlderBytes { at, bytes })),
        };
        Ok((pending, slot))
    }

    fn write(&self, at: u32, pending: &mut Vec<(Timer, i64)>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let spec = &self.spec;
        pending.clear();
        pending.extend(self.timers.declared().iter().enumerate().filter_map(|(timer, declared)| {
            let deadline = self.timers.deadline(at, timer);
            (deadline != NEVER).then_some((*declared, deadline))
        }));
        let slot = &self.entries[at as usize].slot;
        // What was not read is passed on as it is, under the version that wrote it.
        let (codec, version) = match slot {
            Slot::Older(older) => (spec.older[older.at].codec, spec.older[older.at].version),
            Slot::Bytes(_) | Slot::Live(_) => (spec.codec, spec.version),
        };
        write_header(out, codec, version, pending);
        match slot {
            Slot::Bytes(payload) => out.extend_from_slice(payload),
            Slot::Older(older) => out.extend_from_slice(&older.bytes),
            Slot::Live(Some(state)) => (spec.encode)(state, out)?,
            Slot::Live(None) => {}
        }
        Ok(())
    }

    /// Adds the snapshot of one dirty entry to the effects; an entry that is gone ends here.
    fn snapshot_of(
        &mut self,
        at: u32,
        store: u32,
        into: &mut Effects,
        max_bytes: usize,
        pending: &mut Vec<(Timer, i64)>,
    ) -> Result<(), Box<Failure>> {
        let entry = &self.entries[at as usize];
        let gone = self.is_gone(at);
        if gone && !entry.persisted {
            self.remove(at);
            return Ok(());
        }
        let start = into.bytes.len();
        into.bytes.extend_from_slice(&entry.key);
        let key = entry.key.len() as i32;
        let mut value = -1;
        if gone {
            self.remove(at);
        } else {
            let from = into.bytes.len();
            self.write(at, pending, &mut into.bytes)
                .map_err(|error| self.failure(at, format_args!("cannot be written: {error}")))?;
            let size = into.bytes.len() - start;
            if size > max_bytes {
                let too_big = format_args!(
                    "takes {size} bytes in its snapshot, and the limit is {max_bytes}: keep less per key, or raise \
                     the limit of the topic and of the client"
                );
                return Err(self.failure(at, too_big));
            }
            self.entries[at as usize].persisted = true;
            value = (into.bytes.len() - from) as i32;
        }
        into.snapshots.push(Snapshot { store, start, key, value });
        Ok(())
    }

    fn failure(&self, at: u32, what: impl std::fmt::Display) -> Box<Failure> {
        let key = String::from_utf8_lossy(self.key(at)).into_owned();
        let message = format!("the state of key `{}` {what}", key.escape_debug());
        Failure::of_store(TaskErrorKind::Snapshot, &self.spec.name, message)
    }
}

impl<S: State> AnyStore for KvStore<S> {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn restore(&mut self, entry: &[u8], value: Option<&[u8]>) -> Result<(), RestoreError> {
        let Some(value) = value else {
            let hash = self.hasher.hash_one(entry);
            if let Some(&at) = self.index.find(hash, |&at| *self.entries[at as usize].key == *entry) {
                self.remove(at);
            }
            return Ok(());
        };
        let (pending, slot) = self.read(value)?;
        let at = self.slot(entry);
        let entry = &mut self.entries[at as usize];
        entry.slot = slot;
        entry.persisted = true;
        self.timers.cancel_all(at);
        for (timer, deadline) in pending {
            self.timers.set(at, timer, deadline);
        }
        Ok(())
    }

    fn snapshot(&mut self, store: u32, into: &mut Effects, max_bytes: usize) -> Result<(), Box<Failure>> {
        let mut pending = Vec::new();
        let mut dirty = std::mem::take(&mut self.dirty);
        for (done, &at) in dirty.iter().enumerate() {
            let start = into.bytes.len();
            if let Err(failure) = self.snapshot_of(at, store, into, max_bytes, &mut pending) {
                // What is not written stays dirty: whoever tries again must not commit without it.
                into.bytes.truncate(start);
                dirty.drain(..done);
                self.dirty = dirty;
                return Err(failure);
            }
            self.entries[at as usize].dirty = false;
        }
        // The list's memory is kept for the next interval.
        dirty.clear();
        self.dirty = dirty;
        Ok(())
    }

    fn clock(&self) -> i64 {
        self.clock
    }

    fn set_clock(&mut self, clock: i64) {
        self.clock = clock;
    }

    fn may_be_due(&self, clock: Clock, now: i64) -> bool {
        self.timers.may_be_due(clock, now)
    }

    fn next_wall(&self) -> Option<i64> {
        self.timers.next_wall()
    }

    fn mark(&self) -> StoreMark {
        StoreMark {
            states: self.journal.len(),
            timers: self.timers.journal_len(),
            dirty: self.dirty.len(),
            clock: self.clock,
        }
    }

    fn rollback(&mut self, to: StoreMark) {
        while self.journal.len() > to.states {
            if let Some((at, state)) = self.journal.pop() {
                self.entries[at as usize].slot = Slot::Live(state);
            }
        }
        self.timers.rollback(to.timers);
        self.clock = to.clock;
        while self.dirty.len() > to.dirty {
            if let Some(at) = self.dirty.pop() {
                self.entries[at as usize].dirty = false;
                if self.is_gone(at) {
                    self.remove(at); // it was made by what is undone: a deleted entry would still be dirty from before
                }
            }
        }
    }

    fn forget_journal(&mut self) {
        self.journal.clear();
        self.timers.forget_journal();
    }
}
