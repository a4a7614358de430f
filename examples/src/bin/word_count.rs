//! Word count: a composed topology in two parts, with a repartition topic between them.
//!
//! Lines come without keys. Splitting them is stateless; counting needs all of a word's occurrences in one place, so `key_by` sends
//! them through a topic of its own, partitioned by word.

use std::collections::HashMap;
use std::process::ExitCode;

use examples::{Example, Input, Options, Random, Record, Results, Run, Times};
use flow_core::{ByType, Topic, Topology, TopologyBuilder, TopologyError, Utf8};

/// Lines of text; their keys do not matter.
const LINES: Topic<(), str, ByType, Utf8> = Topic::new("lines");
/// How often each word has been seen so far.
const COUNTS: Topic<String, u64> = Topic::new("word-counts");

fn topology(run: &Run) -> Result<Topology, TopologyError> {
    let topology = TopologyBuilder::new();
    topology
        .stream(run.topic(LINES))
        .flat_map_values(|line| words(line).map(str::to_owned).collect::<Vec<_>>())
        .key_by("by-word", |(), word| word.clone())
        .count("word-counts")
        .changes()
        .to(run.topic(COUNTS));
    topology.build()
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace()
}

/// Lines of three to eight words, some words much more frequent than others.
fn input(options: &Options) -> Input {
    let (partitions, keys) = (options.partitions as u64, options.keys);
    let mut random = Random::new(options.seed);
    let line = move |number: u64| {
        let words: Vec<String> = (0..3 + random.below(6)).map(|_| word(&mut random, keys)).collect();
        let timestamp = 1_600_000_000_000 + number as i64;
        Record { partition: (number % partitions) as i32, key: None, value: words.join(" ").into_bytes(), timestamp }
    };
    Box::new((0..options.records).map(line))
}

fn word(random: &mut Random, keys: u64) -> String {
    // The lower of two draws: low numbers come up more often.
    format!("word-{}", random.below(keys).min(random.below(keys)))
}

fn expected(input: Input) -> Results {
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut results = Results::new();
    for record in input {
        let line = String::from_utf8(record.value).expect("we wrote it");
        for word in words(&line) {
            let count = counts.entry(word.to_owned()).or_default();
            *count += 1;
            results.push(word.as_bytes(), count.to_string().as_bytes(), record.timestamp);
        }
    }
    results
}

fn main() -> ExitCode {
    Example {
        name: "word_count",
        about: "Splits lines into words, counts each word, and compares every count with what a plain loop computes.",
        input_topic: LINES.name(),
        output_topic: COUNTS.name(),
        results: "counts written",
        topology,
        input,
        expected,
        times: Times::AnyOrder,
    }
    .main()
}
