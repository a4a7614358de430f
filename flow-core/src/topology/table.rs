use std::marker::PhantomData;
use std::panic::Location;

use super::graph::NodeId;
use super::{Stream, TopologyBuilder};
use crate::engine::KeyFormat;

/// The latest value of each key, kept by a step: what `count`, `reduce` and `aggregate` make. A handle, free to copy.
pub struct Table<'t, K: ?Sized, V: ?Sized> {
    builder: &'t TopologyBuilder,
    id: NodeId,
    key: KeyFormat<K>,
    values: PhantomData<fn(&V)>,
}

impl<K: ?Sized, V: ?Sized> Clone for Table<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, V: ?Sized> Copy for Table<'_, K, V> {}

impl<'t, K: ?Sized + 'static, V: ?Sized + 'static> Table<'t, K, V> {
    pub(crate) fn new(stream: Stream<'t, K, V>) -> Self {
        Table { builder: stream.builder, id: stream.id, key: stream.key, values: PhantomData }
    }

    /// Names the step that keeps this table, in `describe()` and in errors; the store has its own name.
    #[track_caller]
    pub fn named(self, name: &str) -> Self {
        let at = Location::caller();
        self.builder.with(|graph| graph.name(self.id, name, at));
        self
    }

    /// Every change of the table as a record: one for each input.
    ///
    /// ```
    /// use flow_core::testing::TestDriver;
    /// use flow_core::{Timestamp, Topic, TopologyBuilder};
    ///
    /// const CLICKS: Topic<str, u64> = Topic::new("clicks");
    /// const COUNTS: Topic<str, u64> = Topic::new("counts");
    ///
    /// let topology = TopologyBuilder::new();
    /// topology.stream(CLICKS).count("counts").changes().to(COUNTS);
    /// let mut driver = TestDriver::new(topology.build()?);
    /// driver.send(CLICKS, Timestamp::from_millis(0), "ann", &7);
    /// driver.send(CLICKS, Timestamp::from_millis(1), "ann", &7);
    /// assert_eq!(driver.read_values(COUNTS), [1, 2]);
    /// # Ok::<(), flow_core::TopologyError>(())
    /// ```
    #[track_caller]
    pub fn changes(self) -> Stream<'t, K, V> {
        Stream::pass(self.builder, &[self.id], self.key, "KTABLE-TOSTREAM-", Location::caller())
    }
}
