//! The edges of a program: typed, dynamic, immutable. Keys and values travel by reference, so a fan-out copies nothing.

use std::any::TypeId;
use std::borrow::Borrow;
use std::sync::Arc;

use super::{Failure, TaskData, TaskErrorKind};
use crate::RecordRef;
use crate::codec::{Codec, CodecError};

/// The outcome of a step. Boxed, so that it fits a register: by value it costs 3 ns a step.
pub(crate) type Step = Result<(), Box<Failure>>;

/// A key in both forms: its bytes address stores and partitions, its value is what user code reads.
pub(crate) struct Key<'a, K: ?Sized> {
    /// `None` is a null key.
    pub(crate) bytes: Option<&'a [u8]>,
    /// `None` is a null key whose type has no value for it: it passes until a step asks.
    pub(crate) value: Option<&'a K>,
}

impl<K: ?Sized> Clone for Key<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized> Copy for Key<'_, K> {}

impl<'a, K: ?Sized> Key<'a, K> {
    /// The key for user code, or the failure of a step that cannot do without.
    #[inline]
    pub(crate) fn ask(self, step: u32) -> Result<&'a K, Box<Failure>> {
        self.value.ok_or_else(|| null_key(step))
    }

    /// The key's bytes, for a step that keeps state by it.
    #[inline]
    pub(crate) fn ask_bytes(self, step: u32) -> Result<&'a [u8], Box<Failure>> {
        self.bytes.ok_or_else(|| null_key_in_state(step))
    }
}

#[cold]
fn null_key(step: u32) -> Box<Failure> {
    let message = "the record has a null key, and this step reads the key: give the topic the key type `()` if keys do \
                   not matter, or `Option<..>` if they may be null";
    Failure::of_step(TaskErrorKind::Decode, step, message)
}

#[cold]
fn null_key_in_state(step: u32) -> Box<Failure> {
    let message = "the record has a null key, and this step keeps its state by key: put a `key_by` in front of it that \
                   takes the key from the value, or filter such records out";
    Failure::of_step(TaskErrorKind::Decode, step, message)
}

/// A step as the steps before it see it. It is immutable: one program serves all tasks.
pub(crate) trait Push<K: ?Sized, V: ?Sized>: Send + Sync {
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step;
}

/// A step that leaves its number behind as it begins, so that a panic of user code can be placed.
pub(crate) struct At<P> {
    pub(crate) step: u32,
    pub(crate) inner: P,
}

impl<K: ?Sized, V: ?Sized, P: Push<K, V>> Push<K, V> for At<P> {
    #[inline]
    fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        task.at = self.step;
        self.inner.push(task, key, value)
    }
}

pub(crate) type Edge<K, V> = Arc<dyn Push<K, V>>;

/// A source as its task sees it: reads a record and sends it on.
pub(crate) trait Read: Send + Sync {
    fn read(&self, task: &mut TaskData, record: &RecordRef<'_>) -> Step;
}

/// A step with timers, as its task sees it.
pub(crate) trait Fire: Send + Sync {
    /// Fires all timers of one clock that are due at `now`.
    fn fire_due(&self, task: &mut TaskData, clock: crate::Clock, now: i64) -> Step;
}

/// The steps behind a step: one (the usual case), or any other number.
pub(crate) enum Next<K: ?Sized, V: ?Sized> {
    One(Edge<K, V>),
    Many(Vec<Edge<K, V>>),
}

impl<K: ?Sized, V: ?Sized> Next<K, V> {
    #[inline]
    pub(crate) fn push(&self, task: &mut TaskData, key: Key<'_, K>, value: &V) -> Step {
        match self {
            Next::One(child) => child.push(task, key, value),
            Next::Many(all) => all.iter().try_for_each(|child| child.push(task, key, value)),
        }
    }
}

/// How keys of a stream are written, with the codec's type erased. It is `Copy`, so that handles are.
pub(crate) struct KeyFormat<K: ?Sized> {
    pub(crate) layout: TypeId,
    with: WithKey<K>,
}

/// Decodes a key, which may borrow, and shows it to a function.
type WithKey<K> = fn(&[u8], &mut dyn FnMut(&K) -> Step) -> Result<Step, CodecError>;

impl<K: ?Sized> Clone for KeyFormat<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized> Copy for KeyFormat<K> {}

impl<K: ?Sized> KeyFormat<K> {
    pub(crate) fn of<C: Codec<K>>() -> Self {
        KeyFormat {
            layout: C::layout(),
            with: |bytes, show| {
                let key = C::decode(bytes)?;
                Ok(show(key.borrow()))
            },
        }
    }

    /// Decodes a key that a store remembered, and shows it.
    pub(crate) fn with(&self, bytes: &[u8], show: &mut dyn FnMut(&K) -> Step) -> Result<Step, CodecError> {
        (self.with)(bytes, show)
    }
}
