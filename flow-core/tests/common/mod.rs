//! Flows, topics and shorthands that several tests share.
#![allow(dead_code, reason = "each test uses some of it")]

use std::time::Duration;

use flow_core::testing::TestDriver;
use flow_core::{
    Context, Flow, Fold, Json, Policies, Policy, StepError, TaskOptions, Timer, Timestamp, Topic, Topology,
    TopologyBuilder,
};

pub(crate) const CLICKS: Topic<str, String> = Topic::new("clicks");
pub(crate) const ORDERS: Topic<str, u64> = Topic::new("orders");
pub(crate) const OUT: Topic<str, String> = Topic::new("out");

pub(crate) fn ms(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(crate) fn text(text: &str) -> String {
    text.to_owned()
}

pub(crate) fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(key, value)| (text(key), text(value))).collect()
}

/// Keeps a list of words per key. A word is a small program: see `Words::run`.
pub(crate) struct Words;

impl Words {
    pub(crate) const A: Timer = Timer::event_time("a");
    pub(crate) const B: Timer = Timer::event_time("b");
    pub(crate) const WALL: Timer = Timer::wall_clock("wall");

    /// `a=N`, `b=N`, `wall=N` set timers, `a-` cancels one, `say X` emits, `fail` fails, `forget` forgets, `panic=..` does not.
    fn run(state: &mut Option<Vec<String>>, program: &str, cx: &mut Context<String>) -> Result<(), StepError> {
        for word in program.split(", ") {
            state.get_or_insert_default().push(word.to_owned());
            match word.split_once('=') {
                Some(("a", at)) => cx.set_timer(Self::A, ms(at.parse()?)),
                Some(("b", at)) => cx.set_timer(Self::B, ms(at.parse()?)),
                Some(("wall", at)) => cx.set_timer(Self::WALL, ms(at.parse()?)),
                Some(("undeclared", at)) => cx.set_timer(Timer::event_time("undeclared"), ms(at.parse()?)),
                _ => match word {
                    "a-" => cx.cancel_timer(Self::A),
                    "b-" => cx.cancel_timer(Self::B),
                    "fail" => return Err(StepError::new("asked to fail")),
                    "forget" => *state = None,
                    "all" => cx.emit(state.as_ref().map(|all| all.join("; ")).unwrap_or_default()),
                    _ => {
                        if let Some(said) = word.strip_prefix("say ") {
                            cx.emit(said.to_owned());
                        }
                    }
                },
            }
        }
        Ok(())
    }
}

impl Flow for Words {
    const NAME: &'static str = "words";
    type State = Vec<String>;
    type Codec = Json;
    type Out = String;
    const TIMERS: &'static [Timer] = &[Words::A, Words::B, Words::WALL];

    fn timer(&self, timer: Timer, state: &mut Option<Vec<String>>, cx: &mut Context<String>) -> Result<(), StepError> {
        cx.emit(format!("{}@{} now {}", timer.name(), cx.timestamp().as_millis(), cx.now().as_millis()));
        // What the key asked for when this timer fires: `on a: ..`.
        let prefix = format!("on {}: ", timer.name());
        let found = state.iter().flatten().rev().find_map(|word| word.strip_prefix(&prefix).map(str::to_owned));
        found.map_or(Ok(()), |program| Words::run(state, &program.replace('+', ", "), cx))
    }
}

impl Fold<String> for Words {
    fn fold(&self, state: &mut Option<Vec<String>>, event: &String, cx: &mut Context<String>) -> Result<(), StepError> {
        Words::run(state, event, cx)
    }
}

pub(crate) fn words() -> Topology {
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).flow(Words).to(OUT);
    topology.build().expect("a valid topology")
}

/// A flow that closes a session when its key was idle for ten milliseconds; both kinds of events count.
pub(crate) struct Sessions;

impl Sessions {
    pub(crate) const IDLE: Timer = Timer::event_time("idle");
}

impl Flow for Sessions {
    const NAME: &'static str = "sessions";
    type State = u64;
    type Codec = Json;
    type Out = String;
    const TIMERS: &'static [Timer] = &[Sessions::IDLE];

    fn timer(&self, _: Timer, state: &mut Option<u64>, cx: &mut Context<String>) -> Result<(), StepError> {
        cx.emit(format!("closed {}", state.take().unwrap_or_default()));
        Ok(())
    }
}

impl Fold<String> for Sessions {
    fn fold(&self, state: &mut Option<u64>, _: &String, cx: &mut Context<String>) -> Result<(), StepError> {
        cx.set_timer(Self::IDLE, cx.timestamp() + Duration::from_millis(10));
        *state = Some(state.unwrap_or(0) + 1);
        Ok(())
    }
}

impl Fold<u64> for Sessions {
    fn fold(&self, state: &mut Option<u64>, amount: &u64, cx: &mut Context<String>) -> Result<(), StepError> {
        cx.set_timer(Self::IDLE, cx.timestamp() + Duration::from_millis(10));
        *state = Some(state.unwrap_or(0) + amount);
        Ok(())
    }
}

pub(crate) fn skip(decode: bool, step: bool, produce: bool) -> TaskOptions {
    let policy = |skip| if skip { Policy::Skip } else { Policy::Stop };
    let policies = Policies { decode: policy(decode), step: policy(step), produce: policy(produce) };
    TaskOptions { policies, ..TaskOptions::default() }
}

pub(crate) fn click(driver: &mut TestDriver, at: i64, key: &str, program: &str) {
    driver.send(CLICKS, ms(at), key, &program.to_owned());
}
