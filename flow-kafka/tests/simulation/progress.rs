//! What an application shows of itself while it restores and catches up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow_core::{ByType, HeadersRef, Partition, Topic, Topology, TopologyBuilder, Utf8};
use flow_kafka::broker::{Broker, Host, Outgoing, Producer, ProducerSpec, TopicPartition};
use flow_kafka::embedded::direct::{Isolation, Seen, View};
use flow_kafka::sim::{Fault, Options, Process, Simulation};
use flow_kafka::{ClientSettings, KafkaConfig, Progress, State, Summary, start_on};
use futures::FutureExt;

const NOWHERE: &str = "nowhere:0";
const EVENTS: Topic<str, str, ByType, Utf8> = Topic::new("events");
const COUNTS: Topic<str, u64> = Topic::new("counts");
const CHANGELOG: &str = "app-counts-changelog";
const LONG: Duration = Duration::from_secs(5);

fn input() -> TopicPartition {
    TopicPartition::new("events", 0)
}

/// A record whose value is a number takes its step so many milliseconds.
fn topology(broker: Arc<dyn Broker>) -> Topology {
    let topology = TopologyBuilder::new();
    let events = topology.stream(EVENTS).inspect(move |_, value| {
        if let Ok(millis) = value.parse() {
            broker.host().sleep(Duration::from_millis(millis));
        }
    });
    events.count("counts").changes().to(COUNTS);
    topology.build().unwrap()
}

/// What an application showed at some moment.
#[derive(Clone, Debug)]
struct Sight {
    state: State,
    restoring: Option<Progress>,
    catching_up: Option<Progress>,
    lag: Option<u64>,
}

/// A process that runs the application, and what was seen of it.
#[derive(Default)]
struct Running {
    stop: AtomicBool,
    sights: Mutex<Vec<Sight>>,
    ended: Mutex<Option<Summary>>,
}

impl Running {
    fn last(&self) -> Option<Sight> {
        self.sights.lock().unwrap().last().cloned()
    }

    fn is(&self, what: impl Fn(&Sight) -> bool) -> bool {
        self.last().is_some_and(|sight| what(&sight))
    }
}

struct Stage {
    simulation: Simulation,
    view: View,
}

impl Stage {
    fn start(self: &Arc<Self>, name: &str) -> (Process, Arc<Running>) {
        let process = self.simulation.process(name);
        let (stage, running) = (Arc::clone(self), Arc::<Running>::default());
        let own = Arc::clone(&running);
        self.simulation.actor(process, "main", move || stage.work(process, &own)).unwrap();
        (process, running)
    }

    fn work(&self, process: Process, running: &Running) {
        let broker: Arc<dyn Broker> = Arc::new(self.simulation.broker(process, &ClientSettings::new(NOWHERE)));
        let config = KafkaConfig::new(NOWHERE, "app").workers(1);
        let app = start_on(Arc::clone(&broker), topology(Arc::clone(&broker)), config).unwrap();
        while !matches!(app.state(), State::Stopped | State::Failed) {
            if running.stop.load(Ordering::Relaxed) {
                app.stop();
            }
            running.sights.lock().unwrap().push(Sight {
                state: app.state(),
                restoring: app.restoring().remove(&TopicPartition::new(CHANGELOG, 0)),
                catching_up: app.catching_up().remove(&input()),
                lag: app.lags().remove(&input()).flatten(),
            });
            broker.host().sleep(Duration::from_millis(50));
        }
        *running.ended.lock().unwrap() = Some(app.wait().now_or_never().expect("it has ended").unwrap());
    }

    fn send(&self, records: usize, value: &str) {
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        let record = |n| Seen { key: bytes(&format!("k{n}")), value: bytes(value), ..Seen::default() };
        self.view.produce(&input(), &(0..records).map(record).collect::<Vec<_>>()).unwrap();
    }

    fn committed(&self) -> i64 {
        let committed = self.view.committed("app", &[input()]).unwrap().remove(0);
        committed.map_or(0, |committed| committed.offset.0)
    }

    /// Opens a transaction and leaves a record of it in the changelog.
    fn open(&self, broker: &dyn Broker) -> Box<dyn Producer> {
        let spec = ProducerSpec { transactional_id: "foreign".into(), client_id: "foreign".into() };
        let mut producer = broker.producer(&spec).unwrap();
        producer.init(LONG).unwrap();
        producer.begin().unwrap();
        let record = Outgoing {
            topic: producer.topic(CHANGELOG).unwrap(),
            partition: Partition(0),
            key: Some(b"k0"),
            value: Some(b"no snapshot"),
            timestamp: None,
            headers: HeadersRef::default(),
        };
        producer.send(&[record]).unwrap();
        producer.flush(LONG).unwrap();
        producer
    }

    /// The counts of a key, as a committed reader sees them.
    fn counts(&self, key: &str) -> Vec<u64> {
        let records = self.view.read(&TopicPartition::new("counts", 0), Isolation::Committed).unwrap();
        let of_key = records.into_iter().filter(|record| record.key.as_deref() == Some(key.as_bytes()));
        of_key.map(|record| serde_json::from_slice(&record.value.unwrap()).unwrap()).collect()
    }
}

fn wait(host: &dyn Host, what: &str, done: impl Fn() -> bool) {
    let start = host.elapsed();
    while !done() {
        assert!(host.elapsed() - start < Duration::from_secs(60), "waited in vain until {what}");
        host.sleep(Duration::from_millis(50));
    }
}

fn simulate(drive: impl FnOnce(&Arc<Stage>, &dyn Broker) + Send + 'static) {
    let simulation =
        Simulation::new(Options { time_limit: Duration::from_secs(400), ..Options::new(5) }, Default::default());
    let stage = Arc::new(Stage { view: simulation.view(), simulation: simulation.clone() });
    stage.view.create_topic("events", 1).unwrap();
    stage.view.create_topic("counts", 1).unwrap();
    let test = simulation.process("test");
    let settings = ClientSettings { transaction_timeout: Duration::from_secs(120), ..ClientSettings::new(NOWHERE) };
    let broker = simulation.broker(test, &settings);
    simulation.actor(test, "driver", move || drive(&stage, &broker)).unwrap();
    let report = simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.panics, Vec::<String>::new());
}

/// A reader of committed records cannot see past the first open transaction: the end that it can reach is not the end of the log.
#[test]
fn a_restore_waits_for_a_strangers_transaction_shows_how_far_it_is_and_misses_no_snapshot_above_it() {
    simulate(|stage, broker| {
        let host = broker.host();
        let (first, running) = stage.start("first");
        stage.send(10, "x");
        wait(host, "the first input is committed", || stage.committed() == 10);
        let mut foreign = stage.open(broker);
        stage.send(10, "x");
        wait(host, "what comes above the open transaction is committed", || stage.committed() == 20);
        assert!(running.is(|sight| sight.state == State::Running));
        stage.simulation.fault(first, Fault::Crash);
        stage.send(5, "x");

        let (_, second) = stage.start("second");
        wait(host, "the second process reads snapshots", || second.is(|sight| sight.restoring.is_some()));
        host.sleep(Duration::from_secs(10));
        let held = second.last().unwrap();
        let progress = held.restoring.unwrap();
        // A snapshot of every key and the marker lie below the open transaction.
        assert_eq!((progress.have, progress.rate_per_second, progress.estimate()), (11, 0.0, None));
        assert_eq!(progress.need, 23, "its record, ten snapshots and the marker");
        assert_eq!((held.state, held.lag), (State::Rebalancing, None));
        assert_eq!(stage.committed(), 20);
        foreign.abort(LONG).unwrap();
        wait(host, "all is processed", || stage.committed() == 25);
        wait(host, "nothing is left to show", || {
            second.is(|sight| sight.restoring.is_none() && sight.lag == Some(0) && sight.state == State::Running)
        });
        second.stop.store(true, Ordering::Relaxed);
        wait(host, "it ends", || second.ended.lock().unwrap().is_some());

        let sights = second.sights.lock().unwrap();
        let have: Vec<u64> = sights.iter().filter_map(|sight| Some(sight.restoring?.have)).collect();
        assert!(have.is_sorted(), "{have:?}");
        let summary = second.ended.lock().unwrap().unwrap();
        assert_eq!((summary.counters.restored, summary.lag), (20, 0));
        assert_eq!((stage.counts("k0"), stage.counts("k9")), (vec![1, 2, 3], vec![1, 2]));
    });
}

#[test]
fn a_catch_up_goes_up_to_what_was_there_at_its_start_and_disappears_while_more_comes() {
    simulate(|stage, broker| {
        let host = broker.host();
        stage.send(200, "50");
        let (_, app) = stage.start("app");
        wait(host, "it catches up", || app.is(|sight| sight.catching_up.is_some()));
        stage.send(100, "50");
        wait(host, "it has caught up", || app.is(|sight| sight.catching_up.is_none()));
        let lag = app.last().unwrap().lag.unwrap();
        assert!((60..=100).contains(&lag), "what came later is left: {lag}");
        wait(host, "nothing is left", || app.is(|sight| sight.lag == Some(0)));
        app.stop.store(true, Ordering::Relaxed);
        wait(host, "it ends", || app.ended.lock().unwrap().is_some());

        let sights = app.sights.lock().unwrap();
        let progress: Vec<Progress> = sights.iter().filter_map(|sight| sight.catching_up).collect();
        assert!(progress.iter().all(|progress| progress.need == 200 && progress.have < 200), "{progress:?}");
        assert!(progress.is_sorted_by_key(|progress| progress.have));
        // A record takes 50 ms.
        let rates: Vec<f64> = progress.iter().map(|progress| progress.rate_per_second).collect();
        assert!(rates.iter().all(|rate| (17.0..=20.5).contains(rate)), "{rates:?}");
        let half = progress.iter().find(|progress| progress.have >= 100).unwrap();
        let estimate = half.estimate().unwrap();
        assert!(estimate < Duration::from_secs(7) && estimate > Duration::from_secs(3), "{half}");
        assert_eq!(app.ended.lock().unwrap().unwrap().lag, 0);
    });
}

#[test]
fn a_run_that_is_stopped_early_says_how_many_records_it_left() {
    simulate(|stage, broker| {
        let host = broker.host();
        let (_, app) = stage.start("app");
        stage.send(200, "50");
        wait(host, "it has begun", || stage.committed() > 20);
        app.stop.store(true, Ordering::Relaxed);
        wait(host, "it ends", || app.ended.lock().unwrap().is_some());
        let summary = app.ended.lock().unwrap().unwrap();
        assert_eq!(summary.lag as i64, 200 - stage.committed());
        assert!(summary.lag > 100 && summary.to_string().ends_with(&format!(", {} records behind", summary.lag)));
    });
}
