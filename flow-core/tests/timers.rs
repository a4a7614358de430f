//! Timers: per key, named, part of the state, in an order that a restart does not change.

mod common;

use common::{CLICKS, OUT, Words, click, ms, pairs, text, words};
use flow_core::testing::TestDriver;
use flow_core::{
    Context, Flow, Fold, HeadersRef, Json, Offset, Partition, RecordRef, StepError, Task, TaskErrorKind, TaskOptions,
    Timer, Timestamp, TopologyBuilder, partition_for,
};

fn driver() -> TestDriver {
    TestDriver::new(words())
}

#[test]
fn a_timer_fires_once_with_its_deadline_as_timestamp_and_its_key() {
    let mut driver = driver();
    click(&mut driver, 1, "ann", "a=10");
    driver.advance_to(ms(25));
    driver.advance_to(ms(99));
    let records = driver.read_records("out");
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].key.as_deref(), Some(&b"ann"[..]));
    assert_eq!(records[0].value.as_deref(), Some(&b"\"a@10 now 25\""[..]));
    assert_eq!(records[0].timestamp, ms(10));
    assert_eq!(driver.counters().timers_fired, 1);
}

#[test]
fn due_timers_fire_before_the_record_that_moved_the_clock_is_seen() {
    let mut driver = driver();
    click(&mut driver, 1, "ann", "a=10");
    click(&mut driver, 10, "bob", "say hello");
    assert_eq!(driver.read(OUT), pairs(&[("ann", "a@10 now 10"), ("bob", "hello")]));
}

#[test]
fn due_timers_fire_in_the_order_of_deadline_then_key_bytes_then_declaration() {
    let orders = |restart: bool| {
        let mut driver = driver();
        for (key, program) in [("c", "b=10, a=10"), ("a", "b=20, a=10"), ("b", "a=5, b=10")] {
            click(&mut driver, 1, key, program);
        }
        let mut driver = if restart { driver.restart() } else { driver };
        click(&mut driver, 30, "z", "nothing");
        driver.read(OUT)
    };
    let expected = pairs(&[
        ("b", "a@5 now 30"),
        ("a", "a@10 now 30"),
        ("b", "b@10 now 30"),
        ("c", "a@10 now 30"),
        ("c", "b@10 now 30"),
        ("a", "b@20 now 30"),
    ]);
    assert_eq!(orders(false), expected);
    assert_eq!(orders(true), expected);
}

#[test]
fn a_timer_set_in_the_past_fires_when_the_step_returns() {
    let mut driver = driver();
    click(&mut driver, 50, "ann", "a=10, say first");
    assert_eq!(driver.read(OUT), pairs(&[("ann", "first"), ("ann", "a@10 now 50")]));
}

#[test]
fn a_late_record_does_not_move_the_clock_back() {
    let mut driver = driver();
    click(&mut driver, 50, "ann", "say x");
    click(&mut driver, 20, "ann", "a=40");
    assert_eq!(driver.read(OUT), pairs(&[("ann", "x"), ("ann", "a@40 now 50")]));
}

#[test]
fn a_handler_may_set_its_timer_again_for_the_future_only() {
    let mut driver = driver();
    click(&mut driver, 1, "ann", "on a: a=30, a=10");
    driver.advance_to(ms(12));
    driver.advance_to(ms(29));
    assert_eq!(driver.read(OUT), pairs(&[("ann", "a@10 now 12")]));
    let error = driver.try_send(CLICKS, ms(30), "bob", &text("x")).unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::Step);
    assert_eq!(
        error.to_string(),
        "step failure in step `KSTREAM-PROCESSOR-0000000001`, topic clicks, partition 0, offset 1, timer `a` of key `ann` \
         due at 30 ms: a timer's handler sets the timer `a` for 30 ms, which has passed: it would fire for ever, so set it for a later time"
    );
}

#[test]
fn after_a_pause_a_periodic_timer_fires_once_and_not_in_a_burst() {
    let mut driver = driver();
    click(&mut driver, 1, "ann", "on a: a=30, a=2");
    driver.advance_to(ms(27)); // 2, 4, .. 26 have passed
    assert_eq!(driver.read(OUT).len(), 1);
    driver.advance_to(ms(29));
    assert_eq!(driver.read(OUT).len(), 0);
}

#[test]
fn forgetting_a_key_ends_its_timers_and_a_second_life_has_its_own() {
    for restart in [false, true] {
        let mut driver = driver();
        click(&mut driver, 0, "k", "a=10");
        driver = if restart { driver.restart() } else { driver };
        click(&mut driver, 5, "k", "forget");
        click(&mut driver, 7, "k", "a=17");
        driver = if restart { driver.restart() } else { driver };
        driver.advance_to(ms(16));
        assert_eq!(driver.read(OUT), []);
        driver.advance_to(ms(20));
        assert_eq!(driver.read(OUT), pairs(&[("k", "a@17 now 20")]));
    }
}

#[test]
fn a_key_that_lived_between_two_commits_only_leaves_no_snapshot() {
    let mut driver = driver();
    click(&mut driver, 0, "k", "a=10");
    click(&mut driver, 5, "k", "forget");
    driver.advance_to(ms(20));
    driver.commit();
    assert_eq!(driver.snapshots("words"), []);
    assert_eq!(driver.read(OUT), []);
}

#[test]
fn a_handler_can_cancel_another_timer_that_is_due_at_the_same_time() {
    let mut driver = driver();
    click(&mut driver, 0, "k", "on a: b-, a=10, b=10");
    driver.advance_to(ms(10));
    assert_eq!(driver.read(OUT), pairs(&[("k", "a@10 now 10")]));
}

#[test]
fn pending_timers_survive_restarts_and_those_cancelled_do_not_come_back() {
    let mut driver = driver();
    click(&mut driver, 0, "k1", "wall=30");
    click(&mut driver, 0, "k2", "wall=30, a=50");
    click(&mut driver, 1, "k2", "a-");
    driver.advance_wall_clock(ms(10));
    let mut driver = driver.restart();
    driver.advance_wall_clock(ms(29));
    assert_eq!(driver.read(OUT), []);
    let mut driver = driver.restart();
    driver.advance_wall_clock(ms(45));
    let mut driver = driver.restart();
    driver.advance_wall_clock(ms(60));
    driver.advance_to(ms(100));
    assert_eq!(driver.read(OUT), pairs(&[("k1", "wall@1 now 1"), ("k2", "wall@1 now 1")]));
}

#[test]
fn what_a_wall_clock_timer_emits_carries_the_steps_clock() {
    let mut driver = driver();
    click(&mut driver, 7, "k", "wall=1000");
    driver.advance_wall_clock(ms(5_000));
    let records = driver.read_records("out");
    assert_eq!(records[0].timestamp, ms(7));
    assert!(records[0].headers().is_empty());
}

#[test]
fn a_timer_the_flow_does_not_declare_is_an_error_of_the_step() {
    let error = driver().try_send(CLICKS, ms(0), "k", &text("undeclared=5")).unwrap_err();
    assert_eq!(error.message, "the flow `words` sets the timer `undeclared`, which its `TIMERS` do not list");
}

#[test]
fn a_timer_at_the_end_of_time_never_fires() {
    let mut driver = driver();
    click(&mut driver, 0, "k", &format!("a={}", i64::MAX));
    driver.advance_to(Timestamp::MAX);
    assert_eq!(driver.read(OUT), []);
}

#[test]
fn the_next_wakeup_is_the_first_wall_clock_deadline() {
    let mut task: Task = words().sub_topologies()[0].task(Partition(0), &TaskOptions::default());
    assert_eq!(task.next_wakeup(), None);
    for (offset, (key, value)) in [("a", "\"wall=70\""), ("b", "\"wall=50\""), ("c", "\"a=1\"")].into_iter().enumerate()
    {
        let record = RecordRef {
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            timestamp: Some(ms(0)),
            offset: Offset(offset as i64),
            headers: HeadersRef::EMPTY,
        };
        task.process(0, &record).unwrap();
    }
    assert_eq!(task.next_wakeup(), Some(ms(50)));
    task.advance(ms(50)).unwrap();
    assert_eq!(task.next_wakeup(), Some(ms(70)));
    task.advance(ms(70)).unwrap();
    assert_eq!(task.next_wakeup(), None);
    assert_eq!(task.counters().timers_fired, 2);
}

#[test]
fn a_timer_is_known_by_its_name_and_its_clock() {
    assert_eq!(Words::A, Timer::event_time("a"));
    assert_ne!(Words::A, Timer::wall_clock("a"));
}

/// Event time belongs to a partition: what one has seen makes nothing late, or due, in another.
#[test]
fn a_partition_waits_for_no_other_ones_clock_and_fires_no_other_ones_timers() {
    for restart in [false, true] {
        let mut driver = TestDriver::with(words(), 2, TaskOptions::default());
        let keys = ["k-0", "k-1", "k-2", "k-3"];
        let on = |partition| *keys.iter().find(|key| partition_for(key.as_bytes(), 2) == Partition(partition)).unwrap();
        let (quiet, busy) = (on(0), on(1));
        click(&mut driver, 1, quiet, "a=10");
        click(&mut driver, 500_000, busy, "a=500010");
        driver = if restart { driver.restart() } else { driver };
        assert_eq!(driver.read(OUT), [], "the quiet partition has seen nothing later than 1");
        click(&mut driver, 500_020, busy, "x");
        assert_eq!(driver.read(OUT), pairs(&[(busy, "a@500010 now 500020")]), "it does not wait for the quiet one");
        click(&mut driver, 12, quiet, "x");
        assert_eq!(driver.read(OUT), pairs(&[(quiet, "a@10 now 12")]));
    }
}

/// Re-armed by its own deadline a timer keeps its grid, whenever it gets to fire.
#[test]
fn a_periodic_wall_clock_timer_catches_up_with_one_call_and_keeps_its_grid() {
    struct Every;
    const TICK: Timer = Timer::wall_clock("tick");
    const PERIOD: i64 = 2_000;
    impl Flow for Every {
        const NAME: &'static str = "every";
        type State = i64;
        type Codec = Json;
        type Out = String;
        const TIMERS: &'static [Timer] = &[TICK];

        fn timer(&self, _: Timer, due: &mut Option<i64>, cx: &mut Context<String>) -> Result<(), StepError> {
            let now = cx.wall_clock().as_millis();
            let next = now - now.rem_euclid(PERIOD) + PERIOD;
            cx.emit(format!("{} for {}", now, now - now.rem_euclid(PERIOD)));
            cx.set_timer(TICK, ms(next));
            *due = Some(next);
            Ok(())
        }
    }
    impl Fold<String> for Every {
        fn fold(&self, due: &mut Option<i64>, _: &String, cx: &mut Context<String>) -> Result<(), StepError> {
            cx.set_timer(TICK, ms(PERIOD));
            *due = Some(PERIOD);
            Ok(())
        }
    }
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).flow(Every).to(OUT);
    let mut driver = TestDriver::new(topology.build().unwrap());
    click(&mut driver, 0, "k", "x");
    for second in (1..=6).chain(std::iter::once(26)).chain(27..=32) {
        driver.advance_wall_clock(ms(second * 1_000 + if second == 26 { 500 } else { 0 }));
    }
    let fired: Vec<String> = driver.read(OUT).into_iter().map(|(_, value)| value).collect();
    let expected = ["2000", "4000", "6000", "26500", "28000", "30000", "32000"];
    let grid = ["2000", "4000", "6000", "26000", "28000", "30000", "32000"];
    assert_eq!(fired, expected.iter().zip(grid).map(|(at, due)| format!("{at} for {due}")).collect::<Vec<_>>());
}
