//! The scheduler by itself, in a world where nothing moves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::broker::Host;

struct Still;

impl World for Still {
    fn advance(&mut self, _: Duration) {}
    fn next_deadline(&self) -> Option<Duration> {
        None
    }
    fn is_ready(&self, _: u64) -> bool {
        false
    }
    fn crashed(&mut self, _: Process, _: Duration) {}
    fn unreachable(&mut self, _: Duration, _: Duration) {}
    fn paused(&mut self, _: Process, _: bool, _: Duration) {}
}

type Log = Arc<Mutex<Vec<String>>>;

fn scheduler(seed: u64) -> Arc<Scheduler<Still>> {
    Arc::new(Scheduler::new(Options { stall: Duration::from_millis(200), ..Options::new(seed) }, Still))
}

fn host(scheduler: &Arc<Scheduler<Still>>, name: &str) -> Arc<SimHost<Still>> {
    let process = scheduler.process(name);
    Arc::new(SimHost::new(Arc::clone(scheduler), process))
}

fn start(host: &Arc<SimHost<Still>>, name: &str, run: impl FnOnce(&SimHost<Still>) + Send + 'static) {
    let own = Arc::clone(host);
    host.scheduler().spawn(host.process(), name, false, Box::new(move || run(&own))).unwrap();
}

fn three_counters(seed: u64) -> (Vec<String>, Report) {
    let scheduler = scheduler(seed);
    let log = Log::default();
    for name in ["a", "b", "c"] {
        let log = Arc::clone(&log);
        start(&host(&scheduler, name), "main", move |host| {
            for round in 0..5 {
                host.sleep(Duration::from_millis(round % 2));
                log.lock().unwrap().push(format!("{name}{round}"));
            }
        });
    }
    let report = scheduler.run().unwrap();
    let log = log.lock().unwrap().clone();
    (log, report)
}

#[test]
fn a_seed_replays_its_schedule_bit_for_bit_and_another_one_differs() {
    let (first, report) = three_counters(7);
    let (again, same) = three_counters(7);
    let (_, other) = three_counters(8);
    assert_eq!(first.len(), 15);
    assert_eq!(first, again);
    assert_eq!(report.trace_hash, same.trace_hash);
    assert_eq!(report.steps, 15);
    assert_ne!(report.trace_hash, other.trace_hash);
}

#[test]
fn sleeping_moves_the_virtual_clock_and_not_the_real_one() {
    let scheduler = scheduler(1);
    start(&host(&scheduler, "a"), "main", |host| {
        let start = host.now();
        host.sleep(Duration::from_secs(500));
        assert!(host.now().as_millis() - start.as_millis() >= 500_000);
    });
    assert!(scheduler.run().unwrap().elapsed >= Duration::from_secs(500));
}

#[test]
fn waiting_for_ever_is_reported_as_a_deadlock() {
    let scheduler = scheduler(1);
    let own = Arc::clone(&scheduler);
    start(&host(&scheduler, "a"), "main", move |_| {
        let _ = own.wait(None, On::World(1));
    });
    let failure = scheduler.run().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Deadlock);
    assert!(failure.to_string().contains("a/main waits for World(1)"), "{failure}");
}

#[test]
fn a_run_that_does_not_end_meets_the_limits_of_time_and_steps() {
    for (options, kind) in [
        (Options { time_limit: Duration::from_secs(3), ..Options::new(1) }, FailureKind::TimeLimit),
        (Options { step_limit: 50, ..Options::new(1) }, FailureKind::StepLimit),
    ] {
        let scheduler = Arc::new(Scheduler::new(options, Still));
        start(&host(&scheduler, "a"), "main", |host| {
            loop {
                host.sleep(Duration::from_millis(100));
            }
        });
        assert_eq!(scheduler.run().unwrap_err().kind, kind);
    }
}

#[test]
fn an_actor_that_stays_away_from_the_seam_stalls_the_run_instead_of_hanging_it() {
    let scheduler = scheduler(1);
    let (_open, never) = std::sync::mpsc::channel::<()>();
    start(&host(&scheduler, "a"), "main", move |_| {
        let _ = never.recv();
    });
    let failure = scheduler.run().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Stalled);
    assert!(failure.message.contains("a/main"), "{failure}");
}

#[test]
fn a_panic_of_an_actor_fails_the_run_with_its_message() {
    let scheduler = scheduler(1);
    start(&host(&scheduler, "a"), "main", |_| panic!("on purpose"));
    start(&host(&scheduler, "b"), "main", |host| host.sleep(Duration::from_secs(1)));
    let failure = scheduler.run().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Panicked);
    assert!(failure.message.contains("a/main panicked: on purpose"), "{failure}");
}

#[test]
fn a_joiner_gets_the_panic_of_its_thread_and_the_run_goes_on() {
    let scheduler = scheduler(1);
    start(&host(&scheduler, "a"), "main", |host| {
        let joiner = host.spawn("child", Box::new(|| panic!("on purpose"))).unwrap();
        let message = joiner.join().unwrap_err();
        assert!(message.contains("a/child panicked: on purpose"), "{message}");
        let joiner = host.spawn("good", Box::new(|| {})).unwrap();
        joiner.join().unwrap();
    });
    let report = scheduler.run().unwrap();
    assert_eq!(report.panics.len(), 1);
}

/// Counts how far an actor of process `a` gets when `fault` strikes it.
fn rounds_under(trigger: Trigger, fault: Fault) -> (usize, Report) {
    let scheduler = scheduler(3);
    let log = Log::default();
    let a = host(&scheduler, "a");
    scheduler.plan(a.process(), trigger, fault);
    for name in ["one", "two"] {
        let log = Arc::clone(&log);
        start(&a, name, move |host| {
            for round in 0..10 {
                host.sleep(Duration::from_millis(10));
                log.lock().unwrap().push(format!("{name}{round}"));
            }
        });
    }
    start(&host(&scheduler, "b"), "main", |host| host.sleep(Duration::from_secs(1)));
    let report = scheduler.run().unwrap();
    let rounds = log.lock().unwrap().len();
    (rounds, report)
}

#[test]
fn a_crash_takes_all_threads_of_a_process_and_nobody_else() {
    let (rounds, report) = rounds_under(Trigger::BeforeStep(7), Fault::Crash);
    assert!((5..=6).contains(&rounds), "{rounds}");
    assert!(report.trace.iter().any(|line| line.contains("a crashed")), "{:#?}", report.trace);
    assert!(report.elapsed >= Duration::from_secs(1), "the other process goes on");
    let (rounds, _) = rounds_under(Trigger::Time(Duration::from_millis(35)), Fault::Crash);
    assert!((4..=6).contains(&rounds), "{rounds}");
}

#[test]
fn a_paused_process_does_nothing_until_it_is_resumed() {
    let (rounds, report) = rounds_under(Trigger::BeforeStep(7), Fault::Pause(Duration::from_secs(30)));
    assert_eq!(rounds, 20);
    assert!(report.elapsed >= Duration::from_secs(30));
}

#[test]
fn destructors_of_a_crashed_actor_may_use_the_seam_without_effect() {
    struct Late(Arc<SimHost<Still>>);
    impl Drop for Late {
        fn drop(&mut self) {
            self.0.sleep(Duration::from_secs(100));
            assert!(self.0.spawn("late", Box::new(|| {})).is_err());
        }
    }
    let scheduler = scheduler(1);
    let a = host(&scheduler, "a");
    scheduler.plan(a.process(), Trigger::BeforeStep(2), Fault::Crash);
    let late = Late(Arc::clone(&a));
    start(&a, "main", move |host| {
        let _late = late;
        host.sleep(Duration::from_millis(1));
        host.sleep(Duration::from_millis(1));
    });
    assert!(scheduler.run().unwrap().elapsed < Duration::from_secs(1));
}

#[test]
fn a_thread_that_the_simulation_did_not_start_is_refused() {
    let scheduler = scheduler(1);
    let a = host(&scheduler, "a");
    assert!(a.spawn("child", Box::new(|| {})).is_err());
    a.sleep(Duration::from_secs(1));
    assert_eq!(a.elapsed(), Duration::ZERO);
}

#[test]
fn unique_numbers_differ_between_processes_and_repeat_with_the_seed() {
    let draw = |seed| {
        let scheduler = scheduler(seed);
        let (a, b) = (host(&scheduler, "a"), host(&scheduler, "b"));
        [a.unique(), a.unique(), b.unique(), b.unique()]
    };
    let mut numbers = draw(1).to_vec();
    assert_eq!(draw(1), draw(1));
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 4);
}
