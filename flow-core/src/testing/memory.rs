//! What a test driver remembers: what was done from outside, and what a crash does not take.

use std::borrow::{Borrow, ToOwned};
use std::collections::BTreeMap;

use crate::codec::Codec;
use crate::{Task, Timestamp};

pub(super) struct Running {
    pub(super) task: Task,
    /// How many of its outputs were taken.
    pub(super) taken: usize,
    pub(super) letters_taken: usize,
}

#[derive(Clone)]
pub(super) enum Action {
    Record { topic: String, partition: i32, offset: usize },
    EventTime(Timestamp),
    WallClock(Timestamp),
}

/// What survives a crash.
#[derive(Default)]
pub(super) struct Committed {
    /// By sub-topology, partition, store and entry.
    pub(super) snapshots: BTreeMap<(usize, i32, usize, Vec<u8>), Vec<u8>>,
    pub(super) clocks: Vec<(usize, i32, String, Timestamp)>,
    pub(super) outputs: usize,
    pub(super) actions: usize,
    /// The lengths of the logs of topics that the topology itself writes.
    pub(super) written: BTreeMap<(String, i32), usize>,
    pub(super) wall: Option<Timestamp>,
}

#[track_caller]
pub(super) fn decode<T: ToOwned + ?Sized, C: Codec<T>>(part: &str, bytes: Option<&[u8]>) -> T::Owned {
    let decoded = match bytes {
        Some(bytes) => C::decode(bytes).map_err(|error| error.to_string()),
        None => C::decode_null().ok_or_else(|| "null: take `read_records`, or the type `Option<..>`".to_owned()),
    };
    match decoded {
        Ok(value) => Borrow::<T>::borrow(&value).to_owned(),
        Err(error) => panic!("the {part} of a record is {error}"),
    }
}

#[track_caller]
pub(super) fn expect<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}
