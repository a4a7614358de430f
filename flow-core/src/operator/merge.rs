use std::panic::Location;

use crate::topology::Stream;

impl<'t, K: ?Sized + 'static, V: ?Sized + 'static> Stream<'t, K, V> {
    /// The records of both streams. No order holds between them. (A record that reaches both visits the steps behind it in the
    /// order in which they were added to the topology: in the example, `map_values` was added before `merge`.)
    ///
    /// ```
    /// use flow_core::testing::example;
    ///
    /// let out = example(|numbers| numbers.merge(numbers.map_values(|n| n + 100)), &[("a", 1)]);
    /// assert_eq!(out, [("a".to_owned(), 101), ("a".to_owned(), 1)]);
    /// ```
    #[track_caller]
    pub fn merge(self, other: Stream<'t, K, V>) -> Stream<'t, K, V> {
        let at = Location::caller();
        let merged = Stream::pass(self.builder, &[self.id], self.key, "KSTREAM-MERGE-", at);
        merged.builder.join(merged.id, None, (other.builder, other.id), self.key.layout == other.key.layout);
        merged
    }
}
