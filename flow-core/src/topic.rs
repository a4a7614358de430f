//! Topics as typed constants: the name on the wire, the types and their codecs stand in one line.

use std::fmt;
use std::marker::PhantomData;

use crate::codec::{ByType, Json};

/// A topic: its name, what its records hold, and how that is written.
///
/// ```
/// use flow_core::{Bytes, ByType, Topic};
///
/// // Keys as UTF-8, values as JSON.
/// const COUNTS: Topic<String, u64> = Topic::new("counts");
/// // Keys that do not matter, values as they are.
/// const RAW: Topic<(), [u8], ByType, Bytes> = Topic::new("raw");
/// assert_eq!((COUNTS.name(), RAW.name()), ("counts", "raw"));
/// ```
pub struct Topic<K: ?Sized, V: ?Sized, KC = ByType, VC = Json> {
    name: &'static str,
    types: PhantomData<Types<K, V, KC, VC>>,
}

/// Names the types without owning or needing any of them, so that a topic is `Copy`, `Send` and `Sync` whatever they are.
type Types<K, V, KC, VC> = (fn(&K), fn(&V), fn() -> (KC, VC));

impl<K: ?Sized, V: ?Sized, KC, VC> Topic<K, V, KC, VC> {
    /// The topic called `name`.
    pub const fn new(name: &'static str) -> Self {
        Topic { name, types: PhantomData }
    }

    /// The topic's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<K: ?Sized, V: ?Sized, KC, VC> Clone for Topic<K, V, KC, VC> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, V: ?Sized, KC, VC> Copy for Topic<K, V, KC, VC> {}

impl<K: ?Sized, V: ?Sized, KC, VC> fmt::Debug for Topic<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Topic").field(&self.name).finish()
    }
}
