//! Wall-clock timers on their own: no record comes any more, and the timer must fire once, be committed, and be fenced.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow_core::{Context, Flow, Fold, Json, StepError, Timer, Topic, Topology, TopologyBuilder};
use flow_kafka::broker::{Broker, TopicPartition};
use flow_kafka::embedded::direct::{Isolation, Seen};
use flow_kafka::sim::{Fault, Options, Process, Simulation};
use flow_kafka::{ClientSettings, KafkaConfig, State, Summary, start_on};
use futures::FutureExt;

const NOWHERE: &str = "nowhere:0";
const EVENTS: Topic<str, String> = Topic::new("events");
const ALARMS: Topic<str, u32> = Topic::new("alarms");
const TIMEOUT: Duration = Duration::from_secs(30);

/// Raises an alarm where nothing is `done` within the timeout, or two of them, one timeout apart, if asked for it `twice`.
struct Watchdog;

const ALARM: Timer = Timer::wall_clock("alarm");

impl Flow for Watchdog {
    const NAME: &'static str = "watchdog";
    const TIMERS: &'static [Timer] = &[ALARM];
    /// The alarms raised, and how many there will be.
    type State = (u32, u32);
    type Codec = Json;
    type Out = u32;

    fn timer(&self, _: Timer, state: &mut Option<(u32, u32)>, cx: &mut Context<u32>) -> Result<(), StepError> {
        if let Some((raised, all)) = state {
            *raised += 1;
            cx.emit(*raised);
            if raised < all {
                cx.set_timer(ALARM, cx.wall_clock() + TIMEOUT);
                return Ok(());
            }
        }
        *state = None;
        Ok(())
    }
}

impl Fold<String> for Watchdog {
    fn fold(&self, state: &mut Option<(u32, u32)>, event: &String, cx: &mut Context<u32>) -> Result<(), StepError> {
        match event.as_str() {
            "done" => *state = None,
            event => {
                *state = Some((0, if event == "twice" { 2 } else { 1 }));
                cx.set_timer(ALARM, cx.wall_clock() + TIMEOUT);
            }
        }
        Ok(())
    }
}

fn topology() -> Topology {
    let topology = TopologyBuilder::new();
    topology.stream(EVENTS).flow(Watchdog).to(ALARMS);
    topology.build().unwrap()
}

/// An alarm, and the virtual second in which a reader of committed records saw it first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Alarm {
    key: String,
    number: String,
    second: u64,
}

fn alarm(key: &str, number: u32, second: u64) -> Alarm {
    Alarm { key: key.to_owned(), number: number.to_string(), second }
}

/// What happens to a process; a pause takes so many seconds.
#[derive(Clone, Copy)]
enum Event {
    Start(&'static str),
    Kill(&'static str),
    Pause(&'static str, u64),
}

struct Stage {
    simulation: Simulation,
    stop: AtomicBool,
    summaries: Mutex<BTreeMap<&'static str, Summary>>,
}

impl Stage {
    fn work(&self, name: &'static str, process: Process) {
        let broker: Arc<dyn Broker> = Arc::new(self.simulation.broker(process, &ClientSettings::new(NOWHERE)));
        let config = KafkaConfig::new(NOWHERE, "app").workers(1).commit_interval(Duration::from_millis(500));
        let app = start_on(Arc::clone(&broker), topology(), config).unwrap();
        while !matches!(app.state(), State::Stopped | State::Failed) {
            if self.stop.load(Ordering::Relaxed) {
                app.stop();
            }
            broker.host().sleep(Duration::from_millis(50));
        }
        let summary = app.wait().now_or_never().expect("it has ended").unwrap();
        self.summaries.lock().unwrap().insert(name, summary);
    }
}

/// Sends the events at the start, does what is planned, and looks for alarms until `end`.
fn run(
    events: &'static [(&str, &str)],
    plan: &'static [(u64, Event)],
    end: u64,
) -> (Vec<Alarm>, BTreeMap<&'static str, Summary>) {
    let simulation =
        Simulation::new(Options { time_limit: Duration::from_secs(400), ..Options::new(1) }, Default::default());
    let view = simulation.view();
    view.create_topic("events", 1).unwrap();
    view.create_topic("alarms", 1).unwrap();
    let sent = |(key, value): &(&str, &str)| Seen {
        key: Some(key.as_bytes().to_vec()),
        value: Some(serde_json::to_vec(value).unwrap()),
        timestamp: 1_700_000_000_000,
        ..Seen::default()
    };
    view.produce(&TopicPartition::new("events", 0), &events.iter().map(sent).collect::<Vec<_>>()).unwrap();
    let stage =
        Arc::new(Stage { simulation: simulation.clone(), stop: AtomicBool::new(false), summaries: Mutex::default() });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let test = simulation.process("test");
    let broker = simulation.broker(test, &ClientSettings::new(NOWHERE));
    let (actor, alarms) = (Arc::clone(&stage), Arc::clone(&seen));
    let drive = move || {
        let (host, view) = (broker.host(), actor.simulation.view());
        let mut plan = plan.iter().peekable();
        let mut processes = BTreeMap::new();
        while host.elapsed() < Duration::from_secs(end) {
            while let Some((_, event)) = plan.next_if(|(at, _)| host.elapsed() >= Duration::from_secs(*at)) {
                match event {
                    Event::Start(name) => {
                        let process = actor.simulation.process(name);
                        processes.insert(*name, process);
                        let stage = Arc::clone(&actor);
                        actor.simulation.actor(process, "main", move || stage.work(name, process)).unwrap();
                    }
                    Event::Kill(name) => actor.simulation.fault(processes[name], Fault::Crash),
                    Event::Pause(name, seconds) => {
                        actor.simulation.fault(processes[name], Fault::Pause(Duration::from_secs(*seconds)));
                    }
                }
            }
            host.sleep(Duration::from_millis(100));
            let committed = view.read(&TopicPartition::new("alarms", 0), Isolation::Committed).unwrap();
            let mut alarms = alarms.lock().unwrap();
            for record in &committed[alarms.len()..] {
                let text = |bytes: &Option<Vec<u8>>| String::from_utf8(bytes.clone().unwrap()).unwrap();
                let second = host.elapsed().as_secs();
                alarms.push(Alarm { key: text(&record.key), number: text(&record.value), second });
            }
        }
        actor.stop.store(true, Ordering::Relaxed);
        let living = processes.values().filter(|process| !actor.simulation.is_crashed(**process)).count();
        while actor.summaries.lock().unwrap().len() < living {
            host.sleep(Duration::from_millis(100));
        }
    };
    simulation.actor(test, "driver", drive).unwrap();
    let report = simulation.run().unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.panics, Vec::<String>::new());
    let (alarms, summaries) = (seen.lock().unwrap().clone(), stage.summaries.lock().unwrap().clone());
    (alarms, summaries)
}

const STARTED_AND_DONE: &[(&str, &str)] = &[("k1", "start"), ("k2", "start"), ("k2", "done")];

/// Also those that a crash left behind: a pending timer is part of the key's state.
#[test]
fn a_timer_set_before_a_crash_fires_once_at_its_time_and_one_that_was_cancelled_never() {
    let plan = &[(0, Event::Start("a")), (10, Event::Kill("a")), (20, Event::Start("again"))];
    let (alarms, _) = run(STARTED_AND_DONE, plan, 100);
    assert_eq!(alarms, [alarm("k1", 1, 30)]);
}

#[test]
fn a_timer_that_was_due_while_nobody_ran_fires_as_soon_as_its_state_is_back() {
    let plan = &[(0, Event::Start("a")), (10, Event::Kill("a")), (45, Event::Start("again"))];
    let (alarms, _) = run(STARTED_AND_DONE, plan, 100);
    assert!(matches!(&alarms[..], [only] if only.key == "k1" && (45..47).contains(&only.second)), "{alarms:?}");
}

#[test]
fn a_timer_fires_in_the_process_that_took_its_partition_over_and_not_again_after_another_restart() {
    let plan = &[
        (0, Event::Start("a")),
        (5, Event::Start("b")),
        (10, Event::Kill("a")),
        (50, Event::Kill("b")),
        (52, Event::Start("c")),
    ];
    let (alarms, _) = run(STARTED_AND_DONE, plan, 130);
    assert_eq!(alarms, [alarm("k1", 1, 30)]);
}

/// No offset moves when only a timer fires; the commit must come all the same, and at once.
#[test]
fn what_a_timer_emits_without_any_input_is_committed_within_the_commit_interval() {
    let (alarms, summaries) = run(&[("k", "start")], &[(0, Event::Start("a"))], 60);
    assert_eq!(alarms, [alarm("k", 1, 30)]);
    assert_eq!((summaries["a"].counters.timers, summaries["a"].counters.aborts), (1, 0));
}

/// Stopped just before its second timer is due, and resumed when its successor has fired it.
#[test]
fn a_stopped_owner_that_resumes_fires_its_timer_in_vain() {
    let plan = &[(0, Event::Start("a")), (5, Event::Start("b")), (58, Event::Pause("a", 25))];
    let (alarms, summaries) = run(&[("k", "twice")], plan, 130);
    assert_eq!((&alarms[0], alarms.len()), (&alarm("k", 1, 30), 2), "{alarms:?}");
    assert!(alarms[1].number == "2" && (60..75).contains(&alarms[1].second), "{alarms:?}");
    let fired = ["a", "b"].map(|name| summaries[name].counters.timers);
    assert_eq!(fired, [2, 1], "the second one was fired by both");
}
