//! The same jobs without a library, each as one plain loop with its own tables: what somebody would write who knows exactly what they
//! need. Like the engine they keep outputs until the commit, remember which keys changed, and write a snapshot of each of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use flow_core::RecordRef;
use hashbrown::HashMap;

use crate::data::Click;

/// What a commit would send: one buffer, and where in it each record lies.
#[derive(Debug, Default)]
pub struct Effects {
    bytes: Vec<u8>,
    outputs: Vec<(i64, Range<u32>, Range<u32>)>,
    snapshots: Vec<(Range<u32>, Range<u32>)>,
}

impl Effects {
    #[inline]
    fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Range<u32> {
        let start = self.bytes.len() as u32;
        write(&mut self.bytes);
        start..self.bytes.len() as u32
    }

    #[inline]
    fn output(&mut self, timestamp: i64, key: &[u8], value: u64) {
        let key = self.write(|bytes| bytes.extend_from_slice(key));
        let value = self.write(|bytes| serde_json::to_writer(bytes, &value).expect("a Vec takes every byte"));
        self.outputs.push((timestamp, key, value));
    }

    fn clear(&mut self) -> usize {
        let size = self.bytes.len();
        self.bytes.clear();
        self.outputs.clear();
        self.snapshots.clear();
        size
    }
}

/// One key's state.
#[derive(Debug)]
struct Entry {
    key: Box<[u8]>,
    count: u64,
    deadline: i64,
    dirty: bool,
}

const UNARMED: i64 = i64::MAX;

/// Counts clicks by user, and with a timeout re-arms a timer with each click.
#[derive(Debug, Default)]
pub struct Hand {
    index: HashMap<Box<[u8]>, u32>,
    entries: Vec<Entry>,
    dirty: Vec<u32>,
    timers: BinaryHeap<Reverse<(i64, u32)>>,
    clock: i64,
    effects: Effects,
}

impl Hand {
    /// The entry of a key, made if it is new.
    #[inline]
    fn entry(&mut self, key: &[u8]) -> u32 {
        if let Some(&at) = self.index.get(key) {
            return at;
        }
        let at = self.entries.len() as u32;
        self.entries.push(Entry { key: key.into(), count: 0, deadline: UNARMED, dirty: false });
        self.index.insert(key.into(), at);
        at
    }

    #[inline]
    fn add(&mut self, at: u32) -> u64 {
        let entry = &mut self.entries[at as usize];
        entry.count += 1;
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push(at);
        }
        entry.count
    }

    /// Counts one click.
    #[inline]
    pub fn count(&mut self, record: &RecordRef<'_>) {
        let (click, timestamp) = read(record);
        let user = key(&click);
        assert_eq!(record.key, Some(user.as_bytes()), "the record lies under another user's key");
        let at = self.entry(user.as_bytes());
        let count = self.add(at);
        self.effects.output(timestamp, user.as_bytes(), count);
    }

    /// Counts one click, and sets the user's timer to `timeout` after it.
    #[inline]
    pub fn count_with_timer(&mut self, record: &RecordRef<'_>, timeout: i64) {
        let (click, timestamp) = read(record);
        self.clock = self.clock.max(timestamp);
        self.fire();
        let user = key(&click);
        assert_eq!(record.key, Some(user.as_bytes()), "the record lies under another user's key");
        let at = self.entry(user.as_bytes());
        let count = self.add(at);
        let deadline = click.at + timeout;
        let before = std::mem::replace(&mut self.entries[at as usize].deadline, deadline);
        if deadline < before {
            self.timers.push(Reverse((deadline, at)));
        }
        self.effects.output(timestamp, user.as_bytes(), count);
    }

    /// Forgets the count of each user whose time has come; a timer that was moved goes back into the heap.
    #[inline]
    fn fire(&mut self) {
        while let Some(&Reverse((deadline, at))) = self.timers.peek() {
            if deadline > self.clock {
                return;
            }
            self.timers.pop();
            let entry = &mut self.entries[at as usize];
            if entry.deadline > self.clock {
                if entry.deadline != UNARMED {
                    self.timers.push(Reverse((entry.deadline, at)));
                }
                continue;
            }
            entry.deadline = UNARMED;
            entry.count = 0;
            if !entry.dirty {
                entry.dirty = true;
                self.dirty.push(at);
            }
        }
    }

    /// Writes the snapshots of changed keys, and forgets what would have been sent; answers how many bytes that was.
    pub fn commit(&mut self) -> usize {
        for at in self.dirty.drain(..) {
            let entry = &mut self.entries[at as usize];
            entry.dirty = false;
            let (key, deadline, count) = (&entry.key, entry.deadline, entry.count);
            let key = self.effects.write(|bytes| bytes.extend_from_slice(key));
            let value = self.effects.write(|bytes| snapshot(bytes, deadline, count));
            self.effects.snapshots.push((key, value));
        }
        self.effects.clear()
    }

    /// Takes one snapshot back.
    pub fn restore(&mut self, key: &[u8], value: &[u8]) {
        let at = self.entry(key);
        let (deadline, count) = value.split_first_chunk::<8>().expect("a snapshot starts with its deadline");
        let entry = &mut self.entries[at as usize];
        entry.deadline = i64::from_be_bytes(*deadline);
        entry.count = serde_json::from_slice(count).expect("a count");
    }
}

/// A snapshot: the deadline, then the count.
pub fn snapshot(bytes: &mut Vec<u8>, deadline: i64, count: u64) {
    bytes.extend_from_slice(&deadline.to_be_bytes());
    serde_json::to_writer(bytes, &count).expect("a Vec takes every byte");
}

/// The event's own key, to be checked against the record's.
#[inline]
fn key(click: &Click) -> String {
    click.user.clone()
}

#[inline]
fn read(record: &RecordRef<'_>) -> (Click, i64) {
    let click = serde_json::from_slice(record.value.expect("a click has a value")).expect("a click");
    (click, record.timestamp.expect("a click has a time").as_millis())
}
