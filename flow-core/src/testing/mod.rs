//! Helpers for tests of flows and topologies: no broker, no clock, no threads; the test moves time.

mod context;
mod driver;
mod memory;
mod record;

pub use context::ContextExt;
pub use driver::TestDriver;
pub use record::{Input, TestRecord};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Stream, Timestamp, Topic, TopologyBuilder};

/// Runs a few records through a piece of a topology: what the examples in this crate's documentation use.
///
/// The `i`th record has the timestamp `i` milliseconds. One partition.
///
/// ```
/// use flow_core::testing::example;
///
/// let out = example(|numbers| numbers.map_values(|n| n + 1), &[("a", 1)]);
/// assert_eq!(out, [("a".to_owned(), 2)]);
/// ```
///
/// # Panics
/// When the topology cannot be built, or a record fails.
#[track_caller]
pub fn example<V: Serialize + DeserializeOwned + Clone + 'static>(
    piece: impl for<'t> FnOnce(Stream<'t, String, u64>) -> Stream<'t, String, V>,
    records: &[(&str, u64)],
) -> Vec<(String, V)> {
    const IN: Topic<String, u64> = Topic::new("in");
    let out: Topic<String, V> = Topic::new("out");
    let topology = TopologyBuilder::new();
    piece(topology.stream(IN)).to(out);
    let topology = match topology.build() {
        Ok(topology) => topology,
        Err(error) => panic!("{error}"),
    };
    let mut driver = TestDriver::new(topology);
    for (millis, (key, value)) in (0..).zip(records) {
        driver.send(IN, Timestamp::from_millis(millis), &(*key).to_owned(), value);
    }
    driver.read(out)
}
