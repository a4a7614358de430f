//! The central claim, in one process: restarts and crashes change nothing in what a reader sees; the same input gives the same
//! effects, bit for bit.

mod common;

use std::time::Duration;

use common::{CLICKS, ORDERS, OUT, Sessions, Words, ms, text};
use flow_core::testing::{TestDriver, TestRecord};
use flow_core::{Context, Flow, Fold, Json, Offset, StepError, TaskOptions, Timer, Topology, TopologyBuilder};

/// A flow behind a flow: it hears what the first one emits, its timers too, and answers twice.
struct Echo;

impl Echo {
    const LATER: Timer = Timer::event_time("later");
    const SOON: Timer = Timer::wall_clock("soon");
}

impl Flow for Echo {
    const NAME: &'static str = "echo";
    type State = Vec<String>;
    type Codec = Json;
    type Out = String;
    const TIMERS: &'static [Timer] = &[Echo::LATER, Echo::SOON];

    fn timer(&self, timer: Timer, heard: &mut Option<Vec<String>>, cx: &mut Context<String>) -> Result<(), StepError> {
        let heard = heard.take().unwrap_or_default();
        cx.emit(format!("{} of {}", timer.name(), heard.len()));
        heard.into_iter().for_each(|word| cx.emit(word));
        Ok(())
    }
}

impl Fold<String> for Echo {
    fn fold(&self, heard: &mut Option<Vec<String>>, word: &String, cx: &mut Context<String>) -> Result<(), StepError> {
        let heard = heard.get_or_insert_default();
        heard.push(word.clone());
        cx.set_timer(Self::LATER, cx.timestamp() + Duration::from_millis(5 * heard.len() as u64));
        if heard.len().is_multiple_of(3) {
            cx.set_timer(Self::SOON, cx.timestamp() + Duration::from_millis(9));
        }
        cx.emit(format!("{word}?"));
        cx.emit(format!("{word}!"));
        Ok(())
    }
}

fn topology() -> Topology {
    let topology = TopologyBuilder::new();
    let clicks = topology.stream(CLICKS);
    let words = clicks.flow(Words);
    words.to(OUT);
    words.flow(Echo).to(OUT);
    let sessions = topology.flow(Sessions).fold(clicks).fold(topology.stream(ORDERS)).output();
    sessions.to(OUT);
    let by_text = clicks.key_by("by-text", |_, click| click.clone());
    by_text
        .count("counts")
        .changes()
        .map(|text, n| format!("{text} {n}"))
        .to(flow_core::Topic::<String, String>::new("counted"));
    topology.build().expect("a valid topology")
}

#[derive(Clone, Copy, PartialEq)]
enum Chaos {
    None,
    Restart,
    Crash,
}

/// What a reader sees of two topics, and the committed snapshots of each store.
type Seen = (Vec<TestRecord>, Vec<TestRecord>, Vec<Snapshots>);

/// Entries and their envelopes.
type Snapshots = Vec<(Vec<u8>, Vec<u8>)>;

/// A seeded scenario; every so often the process restarts or crashes.
fn run(seed: u64, chaos: Chaos) -> Seen {
    let mut driver = TestDriver::with(topology(), 3, TaskOptions::default());
    let mut random = seed;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut now = 0;
    for _ in 0..300 {
        now += next(8) as i64;
        let key = format!("k{}", next(12));
        match next(10) {
            0 => driver.send(ORDERS, ms(now), &key, &next(5)),
            1 => driver.send(CLICKS, ms((now - 20).max(0)), &key, &text("say late")),
            2 => driver.send(CLICKS, ms(now), &key, &text("forget")),
            3 => driver.send(CLICKS, ms(now), &key, &format!("a={}, b={}", now + 7, now + 7)),
            4 => driver.advance_wall_clock(ms(now)),
            5 => driver.send(CLICKS, ms(now), &key, &format!("wall={}", now + 11)),
            6 => driver.advance_to(ms(now)),
            _ => driver.send(CLICKS, ms(now), &key, &text("all, a-")),
        }
        let (strike, commit) = (next(20) == 0, next(7) == 0);
        if commit {
            driver.commit();
        }
        if strike {
            driver = match chaos {
                Chaos::None => driver,
                Chaos::Restart => driver.restart(),
                Chaos::Crash => driver.crash(),
            };
        }
    }
    driver.commit();
    let stores = ["words", "echo", "sessions", "counts"].map(|store| driver.snapshots(store)).to_vec();
    (driver.read_records("out"), driver.read_records("counted"), stores)
}

#[test]
fn the_same_input_gives_the_same_effects_twice_through_restarts_and_through_crashes() {
    for seed in 0..20 {
        let once = run(seed, Chaos::None);
        assert!(once.0.len() > 50, "the scenario does something");
        assert_eq!(once, run(seed, Chaos::None), "twice, seed {seed}");
        assert_eq!(once, run(seed, Chaos::Restart), "through restarts, seed {seed}");
        assert_eq!(once, run(seed, Chaos::Crash), "through crashes, seed {seed}");
    }
}

/// A scenario of words only, with or without records and timers that fail and are skipped.
fn run_with_failures(seed: u64, failures: bool, chaos: Chaos) -> (Vec<TestRecord>, Snapshots) {
    let mut driver = TestDriver::skipping(common::words());
    let mut random = seed;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut now = 0;
    for _ in 0..200 {
        now += next(6) as i64;
        let key = format!("k{}", next(6));
        let (later, bad_key) = (now + next(30) as i64, format!("k{}", next(12)));
        let bad = [
            format!("a={later}, b=1, say no, fail"),
            "forget, fail".to_owned(),
            "forget, wall=1, b=3, fail".to_owned(),
            "a-, b-, all, undeclared=4".to_owned(),
        ];
        let (bad, good, commit, strike) = (&bad[next(4) as usize], next(5), next(6) == 0, next(15) == 0);
        if failures {
            driver.send(CLICKS, ms(later), &bad_key, bad);
        }
        match good {
            0 => driver.send(CLICKS, ms(now), &key, &text("forget")),
            1 => driver.send(CLICKS, ms(now), &key, &format!("a={later}, b={}", now + 3)),
            2 => driver.send(CLICKS, ms(now), &key, &text("all, a-")),
            3 => driver.advance_to(ms(now)),
            _ => driver.send(CLICKS, ms(now), &key, &format!("b={later}, say {later}")),
        }
        if commit {
            driver.commit();
        }
        driver = match chaos {
            Chaos::Restart if strike => driver.restart(),
            Chaos::Crash if strike => driver.crash(),
            _ => driver,
        };
    }
    driver.commit();
    if chaos == Chaos::None {
        assert_eq!(driver.counters().skipped.step > 100, failures, "the failures happen");
    }
    (driver.read_records("out"), driver.snapshots("words"))
}

#[test]
fn skipped_records_change_nothing_whatever_happens_around_them() {
    for seed in 0..20 {
        let without = run_with_failures(seed, false, Chaos::None);
        assert!(without.0.len() > 30, "the scenario does something");
        for chaos in [Chaos::None, Chaos::Restart, Chaos::Crash] {
            assert_eq!(without, run_with_failures(seed, true, chaos), "seed {seed}");
        }
    }
}

#[test]
fn a_record_that_was_late_before_a_restart_is_late_after_it() {
    for restart in [false, true] {
        let mut driver = TestDriver::new(common::words());
        driver.send(CLICKS, ms(100), "a", &text("x"));
        let mut driver = if restart { driver.restart() } else { driver };
        driver.send(CLICKS, ms(20), "b", &text("a=50"));
        assert_eq!(driver.read_values(OUT), ["a@50 now 100"]);
    }
}

#[test]
fn rewinding_processes_the_input_again_on_the_state_as_it_is() {
    let topology = TopologyBuilder::new();
    topology.stream(ORDERS).count("counts").changes().to(flow_core::Topic::<str, u64>::new("counted"));
    let mut driver = TestDriver::new(topology.build().unwrap());
    for at in 0..3 {
        driver.send(ORDERS, ms(at), "a", &1);
    }
    driver.rewind(Offset(1));
    assert_eq!(driver.read_values(flow_core::Topic::<str, u64>::new("counted")), [1, 2, 3, 4, 5]);
}
