//! One simulated run: a broker, processes with real workers, input, faults, and the check of what came out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow_core::Topology;
use flow_kafka::broker::{Broker, Committed, Host, TopicPartition};
use flow_kafka::embedded;
use flow_kafka::embedded::direct::{Isolation, Seen, View};
use flow_kafka::sim::{Failure, Fault, Options, Process, Random, Report, Simulation, Trigger};
use flow_kafka::{ClientSettings, KafkaConfig, State, start_on};
use futures::FutureExt;

use crate::topology::{self, Given, PARTITIONS, Results};

/// The application's name.
const APP: &str = "app";
/// The configuration wants an address, which nobody connects to.
const NOWHERE: &str = "nowhere:0";
/// Steps of a process within which faults strike: about what one takes while the input comes, and the rest of the run.
const FAULT_STEPS: [u64; 2] = [500, 1200];

/// Error codes that a coordinator or a leader may answer with: it moved (16, 6), is not there (15, 5), is loading (14), is overloaded (7),
/// lost its network (13), has other transactions to do first (51), or fences (47, 90).
const REFUSALS: [i16; 10] = [16, 6, 15, 5, 14, 7, 13, 51, 47, 90];

/// What happens in a run, besides the schedule: a function of the seed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) two_inputs: bool,
    pub(crate) workers: usize,
    pub(crate) records: u32,
    /// Faults of the two processes that are there from the start.
    pub(crate) faults: Vec<(usize, Trigger, Fault)>,
    /// When a third process joins, and when it leaves again.
    pub(crate) visitor: Option<(Duration, Option<Duration>)>,
    /// A process that crashed is started again after this time.
    pub(crate) restart: Option<Duration>,
    /// Changelogs are compacted all the time, and lose their tombstones after a minute.
    pub(crate) compacts: bool,
    pub(crate) ignore_fences: bool,
    /// Outputs are sent outside the transactions.
    pub(crate) outside: bool,
    /// How often a worker purges the repartition topic.
    pub(crate) purge: Option<Duration>,
}

impl Scenario {
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::stream(seed, 77);
        let mut scenario = Scenario {
            seed,
            two_inputs: seed % 4 == 3,
            workers: if random.chance(1, 4) { 2 } else { 1 },
            records: 60 + random.below(140) as u32,
            compacts: seed % 3 == 1,
            ..Scenario::default()
        };
        let trigger = |random: &mut Random, process: usize| {
            let step = 1 + random.below(FAULT_STEPS[process]);
            if random.chance(1, 2) { Trigger::BeforeStep(step) } else { Trigger::AfterStep(step) }
        };
        let pause = |random: &mut Random| Fault::Pause(Duration::from_millis(100 + random.below(25_000)));
        let first = if random.chance(2, 3) { Fault::Crash } else { pause(&mut random) };
        scenario.faults.push((0, trigger(&mut random, 0), first));
        for _ in 0..random.below(3) {
            let process = random.below(2) as usize;
            let fault = match random.below(11) {
                0 | 1 => Fault::Crash,
                2 | 3 => Fault::LoseAnswer,
                4 | 5 => Fault::LoseRequests(1 + random.below(25)),
                6 => Fault::Refuse(REFUSALS[random.below(REFUSALS.len() as u64) as usize]),
                7 => Fault::Unreachable(Duration::from_millis(50 + random.below(20_000))),
                _ => pause(&mut random),
            };
            scenario.faults.push((process, trigger(&mut random, process), fault));
        }
        let fatal = |process| scenario.faults.iter().any(|(of, _, fault)| *of == process && *fault == Fault::Crash);
        if random.chance(1, 2) || (fatal(0) && fatal(1)) {
            scenario.restart = Some(Duration::from_millis(random.below(20_000)));
        }
        if random.chance(1, 2) {
            let joins = Duration::from_millis(random.below(8000));
            let stays = random.chance(1, 2).then(|| joins + Duration::from_millis(random.below(8000)));
            scenario.visitor = Some((joins, stays));
        }
        if random.chance(2, 3) {
            scenario.purge = Some(Duration::from_millis(200 + random.below(3000)));
        }
        scenario
    }

    fn topology(&self) -> Topology {
        if self.two_inputs { topology::two_inputs() } else { topology::one_input() }
    }

    fn sources(&self) -> &'static [&'static str] {
        if self.two_inputs { &["clicks", "orders"] } else { &["clicks"] }
    }

    /// All topics that the tasks read: in this order one is settled when those before it are.
    fn inputs(&self) -> Vec<TopicPartition> {
        let repartition = ["app-by-page-repartition"];
        let internal: &[&str] = if self.two_inputs { &[] } else { &repartition };
        let topics = self.sources().iter().chain(internal);
        topics.flat_map(|topic| partitions(topic)).collect()
    }

    fn changelogs(&self) -> Vec<TopicPartition> {
        let stores = topology::stores(&self.topology());
        stores.into_iter().flat_map(|store| partitions(&changelog(store)).collect::<Vec<_>>()).collect()
    }

    fn sinks(&self) -> &'static [&'static str] {
        if self.two_inputs { &["both"] } else { &["closed", "batches", "pages"] }
    }
}

fn changelog(store: &str) -> String {
    format!("{APP}-{store}-changelog")
}

fn partitions(topic: &str) -> impl Iterator<Item = TopicPartition> {
    (0..PARTITIONS).map(move |number| TopicPartition::new(topic, number))
}

/// A run that ended: its report, and what came out.
pub(crate) struct Ended {
    pub(crate) report: Report,
    pub(crate) results: Results,
    pub(crate) expected: Results,
}

/// What the actors of a run share.
struct Stage {
    simulation: Simulation,
    scenario: Scenario,
    given: Vec<Given>,
    stop: AtomicBool,
    /// Every process that was started, and whether it has ended by itself.
    processes: Mutex<BTreeMap<Process, bool>>,
}

impl Stage {
    /// Starts a process that runs the application until it is told to stop, or until `leaves`.
    fn start(self: &Arc<Self>, name: &str, leaves: Option<Duration>) -> Process {
        let process = self.simulation.process(name);
        let stage = Arc::clone(self);
        self.processes.lock().unwrap().insert(process, false);
        self.simulation.actor(process, "main", move || stage.work(process, leaves)).unwrap();
        process
    }

    fn work(&self, process: Process, leaves: Option<Duration>) {
        let broker: Arc<dyn Broker> = Arc::new(self.simulation.broker(process, &ClientSettings::new(NOWHERE)));
        let mut config = KafkaConfig::new(NOWHERE, APP).workers(self.scenario.workers);
        config = config.at_least_once_output(self.scenario.outside);
        if let Some(interval) = self.scenario.purge {
            config = config.purge_interval(interval);
        }
        let app = start_on(Arc::clone(&broker), self.scenario.topology(), config).unwrap();
        while !matches!(app.state(), State::Stopped | State::Failed) {
            if self.stop.load(Ordering::Relaxed) || leaves.is_some_and(|time| broker.host().elapsed() >= time) {
                app.stop();
            }
            broker.host().sleep(Duration::from_millis(50));
        }
        match app.wait().now_or_never().expect("it has ended") {
            Ok(summary) => self.simulation.note(&format!("ended: {summary}")),
            Err(error) => panic!("the application failed: {error}"),
        }
        self.processes.lock().unwrap().insert(process, true);
    }

    /// Feeds the input bit by bit, waits until everything is processed, then stops the processes.
    fn drive(self: &Arc<Self>, host: &dyn Host, first: [Process; 2]) {
        let view = self.simulation.view();
        let mut random = Random::stream(self.scenario.seed, 79);
        let mut rest = self.given.as_slice();
        let mut visitor = self.scenario.visitor;
        let mut crashed = BTreeMap::new();
        let mut cleaner = Random::stream(self.scenario.seed, 80);
        loop {
            if self.scenario.compacts {
                let changelogs = self.scenario.changelogs();
                let picked = changelogs.into_iter().filter(|_| cleaner.chance(1, 4));
                let gone: usize = picked.map(|changelog| view.compact(&changelog).unwrap()).sum();
                if gone > 0 {
                    self.simulation.note(&format!("compacted: {gone} records are gone"));
                }
            }
            if !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(1 + random.below(10) as usize));
                now.iter().for_each(|given| feed(&view, given));
                rest = later;
            } else if self.is_settled(&view) {
                break;
            }
            let wait = if rest.is_empty() { 500 } else { random.below(500) };
            host.sleep(Duration::from_millis(wait));
            self.assert_nothing_unread_is_gone(&view);
            let now = host.elapsed();
            for (process, name) in first.into_iter().zip(["a-again", "b-again"]) {
                if !self.simulation.is_crashed(process) {
                    continue;
                }
                let (at, again) = crashed.entry(process).or_insert((now, self.scenario.restart));
                if again.is_some_and(|after| now >= *at + after) {
                    *again = None;
                    self.start(name, None);
                }
            }
            if let Some((joins, leaves)) = visitor
                && now >= joins
            {
                visitor = None;
                self.start("visitor", leaves);
            }
        }
        self.simulation.note("all is processed");
        self.stop.store(true, Ordering::Relaxed);
        while !self.have_all_ended() {
            host.sleep(Duration::from_millis(100));
        }
    }

    /// Purging may delete what is committed, and nothing else.
    fn assert_nothing_unread_is_gone(&self, view: &View) {
        let inputs = self.scenario.inputs();
        for (input, committed) in inputs.iter().zip(view.committed(APP, &inputs).unwrap()) {
            // A topic that is not there yet has no start.
            let Ok(first) = view.first_offset(input) else { continue };
            let committed = committed.map_or(0, |committed| committed.offset.0);
            assert!(first <= committed, "{input} was purged below {first}, but only {committed} is committed");
        }
    }

    /// Everything is committed, up to the last record of every input; no wall-clock timer is left, and no transaction of a
    /// process that was killed.
    fn is_settled(&self, view: &View) -> bool {
        let inputs = self.scenario.inputs();
        let outputs = self.scenario.sinks().iter().flat_map(|topic| partitions(topic));
        if !inputs.iter().cloned().chain(outputs).all(|partition| view.is_stable(&partition).unwrap_or(false)) {
            return false;
        }
        let committed = view.committed(APP, &inputs).unwrap();
        let at_end = |(input, committed): (&TopicPartition, &Option<_>)| {
            let last = view.read(input, Isolation::Committed).unwrap().last().map_or(0, |record| record.offset + 1);
            last <= committed.as_ref().map_or(0, |committed: &Committed| committed.offset.0)
        };
        inputs.iter().zip(&committed).all(at_end)
            && (self.scenario.two_inputs || {
                let batched = |records: Vec<u32>| records.len();
                let flushed = partitions("batches").flat_map(|p| view.read(&p, Isolation::Committed).unwrap());
                let count = flushed.map(|r| batched(serde_json::from_slice(&r.value.unwrap()).unwrap())).sum::<usize>();
                count >= self.given.len()
            })
    }

    fn have_all_ended(&self) -> bool {
        let processes = self.processes.lock().unwrap();
        processes.iter().all(|(process, ended)| *ended || self.simulation.is_crashed(*process))
    }
}

fn feed(view: &View, given: &Given) {
    let record = Seen {
        key: Some(given.key.clone().into_bytes()),
        value: Some(given.value.clone()),
        timestamp: given.at.as_millis(),
        headers: vec![("from".to_owned(), Some(given.header()))],
        ..Seen::default()
    };
    view.produce(&TopicPartition::new(given.topic, given.partition()), &[record]).unwrap();
}

/// What a `read_committed` consumer sees, and the state that a successor would restore.
fn results(scenario: &Scenario, view: &View) -> Results {
    let mut results = Results::default();
    for topic in scenario.sinks() {
        for record in partitions(topic).flat_map(|p| view.read(&p, Isolation::Committed).unwrap()) {
            results.add(topic, record.key.as_deref(), record.value.as_deref(), (record.timestamp, record.headers));
        }
    }
    for store in topology::stores(&scenario.topology()) {
        let mut entries = BTreeMap::new();
        for record in partitions(&changelog(store)) {
            for record in view.read(&record, Isolation::Committed).unwrap() {
                match record.value {
                    Some(value) => entries.insert(record.key.unwrap(), value),
                    None => entries.remove(&record.key.unwrap()),
                };
            }
        }
        results.states.insert(store, entries);
    }
    if !scenario.two_inputs {
        let clicks: Vec<_> = partitions("clicks").collect();
        for (number, committed) in (0..).zip(view.committed(APP, &clicks).unwrap()) {
            let Some(committed) = committed else { continue };
            let note: serde_json::Value = serde_json::from_str(&committed.metadata).unwrap();
            if let Some(clock) = note["c"]["sessions"].as_i64() {
                results.clocks.insert(number, clock);
            }
        }
    }
    results
}

/// Runs one scenario.
pub(crate) fn run(scenario: &Scenario, trace_kept: usize) -> Result<Ended, Box<Failure>> {
    let options = Options { trace_kept, time_limit: Duration::from_secs(400), ..Options::new(scenario.seed) };
    let start = options.start;
    let broker = embedded::Options { ignore_fences: scenario.ignore_fences, ..embedded::Options::default() };
    let simulation = Simulation::new(options, broker);
    let view = simulation.view();
    scenario.sources().iter().chain(scenario.sinks()).for_each(|t| view.create_topic(t, PARTITIONS).unwrap());
    if scenario.compacts {
        let config = [("cleanup.policy", "compact"), ("delete.retention.ms", "60000")];
        for store in topology::stores(&scenario.topology()) {
            view.create_topic_with(&changelog(store), PARTITIONS, &config).unwrap();
        }
    }
    let mut random = Random::stream(scenario.seed, 78);
    let given = topology::input(&mut random, scenario.sources(), scenario.records, start);
    let expected = topology::expected(&scenario.topology(), &given);
    let stage = Arc::new(Stage {
        simulation: simulation.clone(),
        scenario: scenario.clone(),
        given,
        stop: AtomicBool::new(false),
        processes: Mutex::default(),
    });
    let processes = [stage.start("a", None), stage.start("b", None)];
    for (process, trigger, fault) in &scenario.faults {
        simulation.plan(processes[*process], *trigger, *fault);
    }
    let test = simulation.process("test");
    let broker = simulation.broker(test, &ClientSettings::new(NOWHERE));
    simulation.actor(test, "driver", move || stage.drive(broker.host(), processes)).unwrap();
    let report = simulation.run()?;
    Ok(Ended { report, results: results(scenario, &view), expected })
}
