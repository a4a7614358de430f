//! What the simulated processes run, and what a plain computation of the same input gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use flow_core::testing::{Input, TestDriver};
use flow_core::{
    Context, Flow, Fold, Json, StepError, TaskOptions, Timer, Timestamp, Topic, Topology, TopologyBuilder,
    partition_for,
};
use flow_kafka::sim::Random;
use serde::{Deserialize, Serialize};

/// Partitions of every topic.
pub(crate) const PARTITIONS: i32 = 3;

pub(crate) const CLICKS: Topic<str, Click> = Topic::new("clicks");
pub(crate) const ORDERS: Topic<str, Order> = Topic::new("orders");
pub(crate) const CLOSED: Topic<str, Vec<u32>> = Topic::new("closed");
pub(crate) const BATCHES: Topic<str, Vec<u32>> = Topic::new("batches");
pub(crate) const PAGES: Topic<String, u64> = Topic::new("pages");
pub(crate) const BOTH: Topic<str, (String, u32)> = Topic::new("both");

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Click {
    pub(crate) number: u32,
    pub(crate) page: String,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) number: u32,
}

/// Collects clicks until a second of event time passes without one.
struct Sessions;

const IDLE: Timer = Timer::event_time("idle");

impl Flow for Sessions {
    const NAME: &'static str = "sessions";
    const TIMERS: &'static [Timer] = &[IDLE];
    type State = Vec<u32>;
    type Codec = Json;
    type Out = Vec<u32>;

    fn timer(&self, _: Timer, state: &mut Option<Vec<u32>>, cx: &mut Context<Vec<u32>>) -> Result<(), StepError> {
        state.take().into_iter().for_each(|session| cx.emit(session));
        Ok(())
    }
}

impl Fold<Click> for Sessions {
    fn fold(&self, state: &mut Option<Vec<u32>>, click: &Click, cx: &mut Context<Vec<u32>>) -> Result<(), StepError> {
        state.get_or_insert_default().push(click.number);
        cx.set_timer(IDLE, cx.timestamp() + Duration::from_secs(1));
        Ok(())
    }
}

/// Collects clicks for half a second of the wall clock. When that is differs between runs; what is in the batches does not.
struct Batches;

const FLUSH: Timer = Timer::wall_clock("flush");

impl Flow for Batches {
    const NAME: &'static str = "batches";
    const TIMERS: &'static [Timer] = &[FLUSH];
    type State = Vec<u32>;
    type Codec = Json;
    type Out = Vec<u32>;

    fn timer(&self, _: Timer, state: &mut Option<Vec<u32>>, cx: &mut Context<Vec<u32>>) -> Result<(), StepError> {
        state.take().into_iter().for_each(|batch| cx.emit(batch));
        Ok(())
    }
}

impl Fold<Click> for Batches {
    fn fold(&self, state: &mut Option<Vec<u32>>, click: &Click, cx: &mut Context<Vec<u32>>) -> Result<(), StepError> {
        if state.is_none() {
            cx.set_timer(FLUSH, cx.wall_clock() + Duration::from_millis(500));
        }
        state.get_or_insert_default().push(click.number);
        Ok(())
    }
}

/// Numbers clicks and orders of a user: two inputs, one state.
struct Both;

impl Flow for Both {
    const NAME: &'static str = "both";
    type State = (u32, u32);
    type Codec = Json;
    type Out = (String, u32);
}

impl Fold<Click> for Both {
    fn fold(
        &self,
        state: &mut Option<(u32, u32)>,
        _: &Click,
        cx: &mut Context<(String, u32)>,
    ) -> Result<(), StepError> {
        let (clicks, _) = state.get_or_insert_default();
        *clicks += 1;
        cx.emit(("click".to_owned(), *clicks));
        Ok(())
    }
}

impl Fold<Order> for Both {
    fn fold(
        &self,
        state: &mut Option<(u32, u32)>,
        _: &Order,
        cx: &mut Context<(String, u32)>,
    ) -> Result<(), StepError> {
        let (_, orders) = state.get_or_insert_default();
        *orders += 1;
        cx.emit(("order".to_owned(), *orders));
        Ok(())
    }
}

/// Timers of both clocks, a repartition and a count: two sub-topologies, each task with one input (cooperative-sticky).
pub(crate) fn one_input() -> Topology {
    let topology = TopologyBuilder::new();
    let clicks = topology.stream(CLICKS);
    clicks.flow(Sessions).to(CLOSED);
    clicks.flow(Batches).to(BATCHES);
    clicks.key_by("by-page", |_, click| click.page.clone()).count("pages").changes().to(PAGES);
    topology.build().unwrap_or_else(|error| panic!("{error}"))
}

/// Two inputs in one task (range).
pub(crate) fn two_inputs() -> Topology {
    let topology = TopologyBuilder::new();
    topology.flow(Both).fold(topology.stream(CLICKS)).fold(topology.stream(ORDERS)).output().to(BOTH);
    topology.build().unwrap_or_else(|error| panic!("{error}"))
}

/// A record of the input.
#[derive(Clone)]
pub(crate) struct Given {
    pub(crate) topic: &'static str,
    pub(crate) key: String,
    pub(crate) value: Vec<u8>,
    pub(crate) at: Timestamp,
}

impl Given {
    pub(crate) fn partition(&self) -> i32 {
        partition_for(self.key.as_bytes(), PARTITIONS).0
    }

    /// Its header, which must come out again beside what it caused.
    pub(crate) fn header(&self) -> Vec<u8> {
        format!("{}-{}", self.topic, self.at.as_millis()).into_bytes()
    }
}

/// Seeded input of the given topics, mostly in the order of its timestamps.
pub(crate) fn input(random: &mut Random, topics: &[&'static str], count: u32, start: Timestamp) -> Vec<Given> {
    let mut now = start.as_millis();
    let record = |number| {
        now += random.below(300) as i64;
        let late = if random.chance(1, 10) { random.below(2500) as i64 } else { 0 };
        let topic = topics[random.below(topics.len() as u64) as usize];
        let page = format!("page-{}", random.below(5));
        let value = if topic == ORDERS.name() {
            serde_json::to_vec(&Order { number })
        } else {
            serde_json::to_vec(&Click { number, page })
        };
        let key = format!("user-{}", random.below(8));
        Given { topic, key, value: value.unwrap(), at: Timestamp::from_millis(now - late) }
    };
    (0..count).map(record).collect()
}

/// Names and values, in order.
pub(crate) type Headers = Vec<(String, Option<Vec<u8>>)>;

/// A record that came out: value, timestamp, headers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Out {
    pub(crate) value: String,
    pub(crate) timestamp: i64,
    pub(crate) headers: Headers,
}

pub(crate) type ByKey<T> = BTreeMap<String, Vec<T>>;

/// What must come out, whatever happened to the processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Results {
    /// Every closed session of each user, in order.
    pub(crate) closed: ByKey<Out>,
    /// The clicks in all batches of each user, in order.
    pub(crate) batched: ByKey<u32>,
    /// The counts of each page, in order.
    pub(crate) counts: ByKey<String>,
    /// What else the count's records carry: in which order two users' clicks on one page meet is not defined.
    pub(crate) counted: ByKey<(i64, Headers)>,
    /// The numbers of each user's clicks and orders, each in order.
    pub(crate) numbered: ByKey<u32>,
    /// The entries of each store, with their timers; those of wall-clock timers are all gone.
    pub(crate) states: BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>,
    /// The clock of `sessions` in each partition.
    pub(crate) clocks: BTreeMap<i32, i64>,
}

impl Results {
    /// Adds a record of an output topic.
    pub(crate) fn add(&mut self, topic: &str, key: Option<&[u8]>, value: Option<&[u8]>, rest: (i64, Headers)) {
        let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
        let (key, value) = (text(key), text(value));
        let (timestamp, headers) = rest;
        match topic {
            "closed" => self.closed.entry(key).or_default().push(Out { value, timestamp, headers }),
            "batches" => {
                let batch: Vec<u32> = serde_json::from_str(&value).unwrap();
                self.batched.entry(key).or_default().extend(batch);
            }
            "pages" => {
                self.counts.entry(key.clone()).or_default().push(value);
                let counted = self.counted.entry(key).or_default();
                counted.push((timestamp, headers));
                counted.sort();
            }
            "both" => {
                let (kind, number): (String, u32) = serde_json::from_str(&value).unwrap();
                self.numbered.entry(format!("{key} {kind}")).or_default().push(number);
            }
            other => panic!("nothing is written to {other}"),
        }
    }
}

/// The same input, processed by one thread that never fails.
pub(crate) fn expected(topology: &Topology, given: &[Given]) -> Results {
    let mut driver = TestDriver::with(topology.clone(), PARTITIONS, TaskOptions::default());
    let mut results = Results::default();
    for record in given {
        let input = Input::new().key(record.key.as_str()).value(record.value.clone()).at(record.at);
        driver.send_record(record.topic, input.header("from", Some(&record.header())));
        let sub = topology.sub_topologies();
        if sub.len() > 1 {
            let clock = results.clocks.entry(record.partition()).or_insert(i64::MIN);
            *clock = (*clock).max(record.at.as_millis());
            let click: Click = serde_json::from_slice(&record.value).unwrap();
            results.batched.entry(record.key.clone()).or_default().push(click.number);
        }
    }
    driver.commit();
    let subs = topology.sub_topologies();
    let sinks: BTreeSet<String> = subs.iter().flat_map(|sub| sub.sinks()).map(|sink| sink.topic.to_string()).collect();
    for topic in ["closed", "pages", "both"] {
        if !sinks.contains(topic) {
            continue;
        }
        for record in driver.read_records(topic) {
            let headers = record.headers().iter().map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec)));
            let rest = (record.timestamp.as_millis(), headers.collect());
            results.add(topic, record.key.as_deref(), record.value.as_deref(), rest);
        }
    }
    for store in stores(topology) {
        let entries = if store == "batches" { BTreeMap::new() } else { driver.snapshots(store).into_iter().collect() };
        results.states.insert(store, entries);
    }
    results
}

/// The stores of the topology.
pub(crate) fn stores(topology: &Topology) -> Vec<&'static str> {
    let known = ["sessions", "batches", "pages", "both"];
    let has =
        |store: &&&str| topology.sub_topologies().iter().any(|sub| sub.stores().iter().any(|s| s.name == **store));
    known.iter().filter(has).copied().collect()
}

impl Results {
    /// How these differ from what was expected, part by part and key by key.
    pub(crate) fn differences(&self, expected: &Results) -> Vec<String> {
        let mut all = Vec::new();
        compare("closed sessions", &self.closed, &expected.closed, &mut all);
        compare("batches", &self.batched, &expected.batched, &mut all);
        compare("counts", &self.counts, &expected.counts, &mut all);
        compare("what counts carry", &self.counted, &expected.counted, &mut all);
        compare("numbers", &self.numbered, &expected.numbered, &mut all);
        compare("states", &self.states, &expected.states, &mut all);
        compare("clocks", &self.clocks, &expected.clocks, &mut all);
        all
    }
}

fn compare<K: Ord + Debug, V: PartialEq + Debug>(
    what: &str,
    found: &BTreeMap<K, V>,
    expected: &BTreeMap<K, V>,
    all: &mut Vec<String>,
) {
    let keys: BTreeSet<&K> = found.keys().chain(expected.keys()).collect();
    for key in keys {
        let (found, expected) = (found.get(key), expected.get(key));
        if found != expected {
            all.push(format!("{what} of {key:?}:\n  {found:?}\nexpected\n  {expected:?}"));
        }
    }
}
