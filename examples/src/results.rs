//! What a run should have written, what it did write, and where the two differ.

use std::collections::HashMap;
use std::fmt;

/// Whether the timestamps of one key's records follow from the input alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// They do: each record has its own.
    InOrder,
    /// Only all of them together do: behind a repartition topic, records of several partitions meet in any order.
    AnyOrder,
}

/// Output records by key, in order.
#[derive(Debug)]
pub struct Results {
    keys: HashMap<Box<[u8]>, Log>,
    records: u64,
}

/// The records of one key: values one after another, so that millions of them stay small.
#[derive(Debug, Default)]
struct Log {
    values: Vec<u8>,
    ends: Vec<usize>,
    timestamps: Vec<i64>,
}

impl Log {
    fn push(&mut self, value: &[u8], timestamp: i64) {
        self.values.extend_from_slice(value);
        self.ends.push(self.values.len());
        self.timestamps.push(timestamp);
    }

    fn value(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.values[start..self.ends[at]]
    }

    fn record(&self, at: usize, times: Times) -> (&[u8], i64) {
        (self.value(at), if times == Times::InOrder { self.timestamps[at] } else { 0 })
    }

    fn same(&self, other: &Log, times: Times) -> bool {
        let sorted = |log: &Log| {
            let mut all = log.timestamps.clone();
            all.sort_unstable();
            all
        };
        self.ends == other.ends
            && self.values == other.values
            && match times {
                Times::InOrder => self.timestamps == other.timestamps,
                Times::AnyOrder => sorted(self) == sorted(other),
            }
    }
}

/// How the output differs from what it should be.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Records that should be there and are not.
    pub missing: u64,
    /// Records that are there and should not be, such as a second copy.
    pub extra: u64,
    /// Keys whose records are all there, in another order (or with other timestamps).
    pub reordered: u64,
    /// Records that lie in another partition than their key's.
    pub misplaced: u64,
    /// The first difference, in words.
    pub first: Option<String>,
}

impl Verdict {
    /// True if every record was as it should be.
    pub fn exact(&self) -> bool {
        *self == Verdict::default()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.exact() {
            return f.write_str("exact: every record, and the order of each key, is what a plain loop computes");
        }
        let Verdict { missing, extra, reordered, misplaced, .. } = self;
        write!(
            f,
            "WRONG: {missing} records missing, {extra} too many, {reordered} keys out of order, {misplaced} in a wrong partition"
        )?;
        self.first.as_ref().map_or(Ok(()), |first| write!(f, "; first difference: {first}"))
    }
}

impl Results {
    /// No records yet.
    pub fn new() -> Self {
        Results { keys: HashMap::new(), records: 0 }
    }

    /// Adds the next record of a key.
    pub fn push(&mut self, key: &[u8], value: &[u8], timestamp: i64) {
        self.records += 1;
        match self.keys.get_mut(key) {
            Some(log) => log.push(value, timestamp),
            None => self.keys.entry(key.into()).or_default().push(value, timestamp),
        }
    }

    /// How many records there are.
    pub fn len(&self) -> u64 {
        self.records
    }

    /// True without any record.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Compares with what was really written.
    pub fn compare(&self, written: &Results, times: Times) -> Verdict {
        let mut verdict = Verdict::default();
        let none = Log::default();
        let mut keys: Vec<&[u8]> = self.keys.keys().chain(written.keys.keys()).map(|key| &**key).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let (expected, found) = (self.keys.get(key).unwrap_or(&none), written.keys.get(key).unwrap_or(&none));
            if !expected.same(found, times) {
                verdict.judge(key, expected, found, times);
            }
        }
        verdict
    }
}

impl Default for Results {
    fn default() -> Self {
        Results::new()
    }
}

impl Verdict {
    /// Counts the difference of one key, which is known to differ.
    fn judge(&mut self, key: &[u8], expected: &Log, found: &Log, times: Times) {
        let mut counts: HashMap<(&[u8], i64), i64> = HashMap::new();
        (0..expected.ends.len()).for_each(|at| *counts.entry(expected.record(at, times)).or_default() += 1);
        (0..found.ends.len()).for_each(|at| *counts.entry(found.record(at, times)).or_default() -= 1);
        let missing: i64 = counts.values().filter(|&&n| n > 0).sum();
        let extra: i64 = -counts.values().filter(|&&n| n < 0).sum::<i64>();
        self.missing += missing.unsigned_abs();
        self.extra += extra.unsigned_abs();
        if missing == 0 && extra == 0 {
            self.reordered += 1;
        }
        if self.first.is_none() {
            let (ends, other) = (expected.ends.len(), found.ends.len());
            let at = (0..ends.min(other)).find(|&at| expected.record(at, times) != found.record(at, times));
            let at = at.unwrap_or(ends.min(other));
            let show = |log: &Log| match log.ends.get(at) {
                Some(_) => format!("{} at {}", String::from_utf8_lossy(log.value(at)), log.timestamps[at]),
                None => "nothing".into(),
            };
            let key = String::from_utf8_lossy(key);
            self.first = Some(format!("record {} of key `{key}` is {}, not {}", at + 1, show(found), show(expected)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(records: &[(&str, &str, i64)]) -> Results {
        let mut results = Results::new();
        records.iter().for_each(|(key, value, time)| results.push(key.as_bytes(), value.as_bytes(), *time));
        results
    }

    #[test]
    fn the_order_between_keys_does_not_matter() {
        let expected = results(&[("a", "1", 5), ("b", "1", 6), ("a", "2", 7)]);
        let written = results(&[("b", "1", 6), ("a", "1", 5), ("a", "2", 7)]);
        assert!(expected.compare(&written, Times::InOrder).exact());
    }

    #[test]
    fn a_missing_a_doubled_and_a_reordered_record_are_told_apart() {
        let expected = results(&[("a", "1", 5), ("a", "2", 6), ("b", "1", 7), ("c", "1", 8), ("c", "2", 9)]);
        let written = results(&[("a", "1", 5), ("b", "1", 7), ("b", "1", 7), ("c", "2", 9), ("c", "1", 8)]);
        let verdict = expected.compare(&written, Times::InOrder);
        assert_eq!((verdict.missing, verdict.extra, verdict.reordered), (1, 1, 1));
        assert_eq!(verdict.first.as_deref(), Some("record 2 of key `a` is nothing, not 2 at 6"));
        assert!(!verdict.exact());
    }

    #[test]
    fn timestamps_count_and_may_be_compared_as_a_set() {
        let expected = results(&[("a", "1", 5), ("a", "2", 6)]);
        let swapped = results(&[("a", "1", 6), ("a", "2", 5)]);
        assert!(!expected.compare(&swapped, Times::InOrder).exact());
        assert!(expected.compare(&swapped, Times::AnyOrder).exact());
        assert!(!expected.compare(&results(&[("a", "1", 6), ("a", "2", 6)]), Times::AnyOrder).exact());
    }
}
