//! The runtime's own code, under seeded schedules and faults: what a `read_committed` reader sees, and the state that is left,
//! must equal what one thread computes that never fails.
//!
//! Each run has a broker and at least two processes with real workers, in virtual time. Its seed decides the input, the schedule,
//! and at which call through the seam a process is killed or stopped, or an answer is lost. To look at a seed again:
//!
//! ```text
//! FLOW_SEED=17 cargo test -p flow-kafka --test simulation -- --nocapture
//! FLOW_SEEDS=1000 cargo test -p flow-kafka --test simulation -- --ignored --nocapture
//! ```
//!
//! `FLOW_FROM` sets the first of the many seeds (default 0).

#![allow(clippy::unwrap_used, reason = "a test")]

mod outside;
mod progress;
mod rebalances;
mod slow;
mod timers;
mod topology;
mod world;

use std::env;

use world::{Ended, Scenario};

const TRACE_KEPT: usize = 150;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Runs a seed and compares its results; the failure tells the seed and the end of its trace.
fn check(scenario: &Scenario, trace_kept: usize) -> Result<Ended, String> {
    let seed = scenario.seed;
    let about = format!("to see it again: FLOW_SEED={seed}\n{scenario:?}");
    let ended = world::run(scenario, trace_kept).map_err(|failure| format!("{failure}\n{about}"))?;
    let mut differences = ended.results.differences(&ended.expected);
    differences.extend(ended.report.panics.iter().cloned());
    if differences.is_empty() {
        return Ok(ended);
    }
    let trace = ended.report.trace.join("\n  ");
    Err(format!("  {trace}\nseed {seed}: {}\n{about}", differences.join("\n")))
}

fn check_twice(seed: u64) -> Ended {
    let scenario = Scenario::of(seed);
    let ended = check(&scenario, TRACE_KEPT).unwrap_or_else(|text| panic!("{text}"));
    let again = check(&scenario, TRACE_KEPT).unwrap_or_else(|text| panic!("{text}"));
    let lines = |ended: &Ended| ended.report.trace.clone();
    assert_eq!(lines(&ended), lines(&again), "seed {seed} does not repeat its schedule");
    let sums = |ended: &Ended| (ended.report.trace_hash, ended.report.steps, ended.report.elapsed);
    assert_eq!(sums(&ended), sums(&again), "seed {seed} does not repeat its schedule");
    assert_eq!(ended.results, again.results);
    ended
}

#[test]
fn whatever_happens_to_its_processes_the_results_are_those_of_one_that_never_fails() {
    if let Some(seed) = number("FLOW_SEED") {
        let ended = check(&Scenario::of(seed), usize::MAX).unwrap_or_else(|text| panic!("{text}"));
        println!("{}", ended.report.trace.join("\n"));
        return;
    }
    for seed in 0..24 {
        check_twice(seed);
    }
}

/// The judge is judged: where the broker obeys a stale owner, the same runs must find it.
#[test]
fn a_broker_that_ignores_the_fences_is_found_out() {
    let wrong = (0..40).filter(|&seed| {
        let scenario = Scenario { ignore_fences: true, ..Scenario::of(seed) };
        world::run(&scenario, 0).is_ok_and(|ended| !ended.results.differences(&ended.expected).is_empty())
    });
    assert!(wrong.count() > 0);
}

/// What should happen to a good part of many seeds, as their traces tell it.
const SIGHTS: [&str; 20] = [
    " crashed",
    " paused",
    "answer is lost",
    "is refused with",
    "do not reach the broker",
    "= is lost",
    "= StaleGeneration",
    "= NoGeneration",
    "= Fenced",
    "= Abort",
    "= Retriable",
    "= Unstable",
    "members of group",
    ", lost [",
    ", revoked [",
    "aborting the transaction",
    "went on warm",
    "delete_records",
    "= OffsetOutOfRange",
    "compacted: ",
];

/// Thousands of seeds, when asked for.
#[test]
#[ignore = "as many seeds as FLOW_SEEDS says, for minutes"]
fn bulk() {
    let (from, count) = (number("FLOW_FROM").unwrap_or(0), number("FLOW_SEEDS").unwrap_or(1000));
    let mut failed = Vec::new();
    let (mut steps, mut seconds) = (0, 0.0);
    let mut seen = SIGHTS.map(|sight| (sight, 0));
    for seed in from..from + count {
        match check(&Scenario::of(seed), usize::MAX) {
            Ok(ended) => {
                let has = |sight| ended.report.trace.iter().any(|line| line.contains(sight));
                seen.iter_mut().for_each(|(sight, count)| *count += u64::from(has(*sight)));
                steps += ended.report.steps;
                seconds += ended.report.elapsed.as_secs_f64();
            }
            Err(text) => {
                let skip = text.lines().count().saturating_sub(TRACE_KEPT);
                text.lines().skip(skip).for_each(|line| println!("{line}"));
                failed.push(seed);
            }
        }
    }
    println!("{count} seeds from {from}: {steps} steps, {seconds:.0} s of virtual time, {} failed", failed.len());
    println!("runs with these in their traces: {seen:?}");
    assert!(failed.is_empty(), "seeds {failed:?}");
}
