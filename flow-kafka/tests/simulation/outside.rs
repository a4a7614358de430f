//! Outputs outside the transactions: they may come again, none is missing, and nothing else is different.

use std::collections::BTreeSet;
use std::fmt::Debug;

use crate::topology::{ByKey, Results};
use crate::world::{self, Scenario};

/// What is left of each key's outputs without those that had come before; counts the repeated ones.
fn first_ones<T: Ord + Clone + Debug>(all: &ByKey<T>, repeated: &mut usize) -> ByKey<T> {
    let once = |values: &Vec<T>| {
        let mut seen = BTreeSet::new();
        let first: Vec<T> = values.iter().filter(|value| seen.insert((*value).clone())).cloned().collect();
        *repeated += values.len() - first.len();
        first
    };
    let mut once = once;
    all.iter().map(|(key, values)| (key.clone(), once(values))).collect()
}

#[test]
fn outputs_outside_the_transaction_may_repeat_while_none_is_missing_and_state_counts_once() {
    let mut repeated = 0;
    for seed in 0..24 {
        let scenario = Scenario { outside: true, ..Scenario::of(seed) };
        let ended = world::run(&scenario, 150).unwrap_or_else(|failure| panic!("{failure}\n{scenario:?}"));
        assert_eq!(ended.report.panics, Vec::<String>::new(), "seed {seed}");
        let (found, expected) = (&ended.results, &ended.expected);
        assert_eq!(first_ones(&found.closed, &mut repeated), expected.closed, "seed {seed}");
        assert_eq!(first_ones(&found.counts, &mut repeated), expected.counts, "seed {seed}");
        assert_eq!(first_ones(&found.numbered, &mut repeated), expected.numbered, "seed {seed}");
        // Which clicks meet in a batch is the wall clock's choice, so a repeated batch may hold others. All are there.
        assert_eq!(clicks(found), clicks(expected), "seed {seed}");
        assert_eq!(found.states, expected.states, "seed {seed}");
        assert_eq!(found.clocks, expected.clocks, "seed {seed}");
    }
    assert!(repeated > 0, "no crash came between an output and its commit");
}

fn clicks(results: &Results) -> BTreeSet<(String, u32)> {
    let all = results.batched.iter();
    all.flat_map(|(key, numbers)| numbers.iter().map(|number| (key.clone(), *number))).collect()
}
