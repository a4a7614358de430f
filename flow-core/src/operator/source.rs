//! Reads records of a topic. Keys and values may borrow from the record.

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::RecordRef;
use crate::codec::{Codec, CodecError};
use crate::engine::{Failure, Key, Next, Read, Step, TaskData, TaskErrorKind};
use crate::topology::graph::Make;

struct Source<K: ?Sized, V: ?Sized, KC, VC> {
    step: u32,
    next: Next<K, V>,
    codecs: PhantomData<fn() -> (KC, VC)>,
}

/// The reader of a topic, or of the repartition topic behind a `key_by`.
pub(crate) fn read<K, V, KC, VC>(step: u32, next: Next<K, V>) -> Arc<dyn Read>
where
    K: ?Sized + 'static,
    V: ?Sized + 'static,
    KC: Codec<K>,
    VC: Codec<V>,
{
    Arc::new(Source { step, next, codecs: PhantomData::<fn() -> (KC, VC)> })
}

pub(crate) fn make<K, V, KC, VC>() -> Make
where
    K: ?Sized + 'static,
    V: ?Sized + 'static,
    KC: Codec<K>,
    VC: Codec<V>,
{
    Box::new(|linker, id| Box::new(read::<K, V, KC, VC>(linker.step(id), linker.next(id))))
}

impl<K: ?Sized, V: ?Sized, KC: Codec<K>, VC: Codec<V>> Read for Source<K, V, KC, VC> {
    fn read(&self, task: &mut TaskData, record: &RecordRef<'_>) -> Step {
        let key = match record.key {
            Some(bytes) => Some(KC::decode(bytes).map_err(|error| unreadable("key", self.step, &error))?),
            None => KC::decode_null(),
        };
        let value = match record.value {
            Some(bytes) => VC::decode(bytes).map_err(|error| unreadable("value", self.step, &error))?,
            None => VC::decode_null().ok_or_else(|| null_value(self.step))?,
        };
        let key = Key { bytes: record.key, value: key.as_ref().map(Borrow::borrow) };
        self.next.push(task, key, value.borrow())
    }
}

#[cold]
fn unreadable(part: &str, step: u32, error: &CodecError) -> Box<Failure> {
    Failure::of_step(TaskErrorKind::Decode, step, format_args!("the {part} is {error}"))
}

#[cold]
fn null_value(step: u32) -> Box<Failure> {
    let message = "the value is null, and its type has no value for that: give the topic the value type `Option<..>` \
                   and the codec `Nullable<..>` if tombstones may come";
    Failure::of_step(TaskErrorKind::Decode, step, message)
}
