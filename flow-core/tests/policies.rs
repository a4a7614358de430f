//! What a bad record gets: a stop that names it, or a skip that leaves nothing behind.

mod common;

use std::time::Duration;

use common::{CLICKS, ORDERS, OUT, Sessions, Words, click, ms, pairs, skip, text, words};
use flow_core::testing::{Input, TestDriver};
use flow_core::{
    Context, Flow, Fold, Json, Never, StepError, TaskErrorKind, TaskOptions, Topic, Topology, TopologyBuilder,
};

const COUNTS: Topic<str, u64> = Topic::new("counts");

fn counting() -> Topology {
    let topology = TopologyBuilder::new();
    topology.stream(ORDERS).count("counts").changes().to(COUNTS);
    topology.build().expect("a valid topology")
}

#[test]
fn a_value_that_cannot_be_read_stops_and_says_where() {
    let mut driver = TestDriver::new(counting());
    driver.send(ORDERS, ms(0), "a", &1);
    let error = driver.try_send_record("orders", Input::new().key("a").value("{")).unwrap_err();
    assert_eq!((error.kind, error.torn), (TaskErrorKind::Decode, false));
    assert_eq!(
        error.to_string(),
        "decode failure in step `KSTREAM-SOURCE-0000000000`, topic orders, partition 0, offset 1: the value is not the expected JSON: \
         invalid type: map, expected u64 at line 1 column 0"
    );
}

#[test]
fn bad_records_are_counted_and_leave_nothing_behind_when_they_are_skipped() {
    let mut driver = TestDriver::with(counting(), 1, skip(true, false, false));
    let bad = [
        Input::new().key("a").value("{"),
        Input::new().key("a"),
        Input::new().key([0xff]).value("1"),
        Input::new().key("a").value("1").without_timestamp(),
        Input::new().key("a").value("1").at(ms(-1)),
    ];
    let count = bad.len() as u64;
    bad.into_iter().for_each(|record| driver.send_record("orders", record));
    driver.send(ORDERS, ms(0), "a", &1);
    assert_eq!(driver.read_values(COUNTS), [1]);
    assert_eq!((driver.counters().skipped.decode, driver.counters().processed), (count, 1));
}

#[test]
fn each_timestamp_that_cannot_be_is_told_apart() {
    let options = TaskOptions { max_lead: Some(Duration::from_millis(100)), ..TaskOptions::default() };
    let mut driver = TestDriver::with(counting(), 1, options);
    let message =
        |driver: &mut TestDriver, record: Input| driver.try_send_record("orders", record).unwrap_err().message;
    let record = || Input::new().key("a").value("1");
    assert_eq!(
        message(&mut driver, record().without_timestamp()),
        "the record has no timestamp: let its producer set one, or give the topic `message.timestamp.type` LogAppendTime"
    );
    assert_eq!(message(&mut driver, record().at(ms(-5))), "the record's timestamp is negative: -5 ms");
    driver.advance_wall_clock(ms(1_000));
    driver.send_record("orders", record().at(ms(1_100)));
    assert_eq!(
        message(&mut driver, record().at(ms(1_101))),
        "the record's timestamp, 1101 ms, is later than 1100 ms, the furthest ahead of the wall clock that is allowed"
    );
}

#[test]
fn a_step_that_fails_stops_and_says_that_its_state_may_be_torn() {
    let mut driver = TestDriver::new(words());
    let error = driver.try_send(CLICKS, ms(3), "k", &text("say x, fail")).unwrap_err();
    assert_eq!((error.kind, error.torn, error.message.as_str()), (TaskErrorKind::Step, true, "asked to fail"));
    assert_eq!(driver.read_records("out"), []);
}

#[test]
fn a_step_that_fails_is_skipped_with_its_outputs_states_timers_and_clock() {
    let mut driver = TestDriver::with(words(), 1, skip(false, true, false));
    click(&mut driver, 0, "k", "a=50, one");
    click(&mut driver, 40, "k", "say no, a=45, wall=1, two, fail");
    click(&mut driver, 41, "new", "a=42, fail");
    click(&mut driver, 30, "k", "all"); // the clock is not at 41
    driver.advance_wall_clock(ms(10));
    driver.advance_to(ms(49));
    assert_eq!(driver.read(OUT), pairs(&[("k", "a=50; one; all")]));
    driver.advance_to(ms(50));
    assert_eq!(driver.read(OUT), pairs(&[("k", "a@50 now 50")]));
    assert_eq!(driver.counters().skipped.step, 2);
    driver.commit();
    assert_eq!(driver.snapshots("words").len(), 1, "the key that only failed has no snapshot");
}

#[test]
fn timers_that_a_skipped_record_would_have_fired_fire_with_the_next_one() {
    let mut driver = TestDriver::with(words(), 1, skip(false, true, false));
    click(&mut driver, 0, "k", "a=10");
    click(&mut driver, 20, "k", "fail");
    assert_eq!(driver.read(OUT), []);
    click(&mut driver, 15, "k", "say x");
    assert_eq!(driver.read(OUT), pairs(&[("k", "a@10 now 15"), ("k", "x")]));
}

#[test]
fn a_timer_that_fails_is_skipped_alone_and_does_not_poison_the_records_after_it() {
    let mut driver = TestDriver::with(words(), 1, skip(false, true, false));
    click(&mut driver, 0, "bad", "on a: say no+fail, a=10");
    click(&mut driver, 0, "good", "a=10");
    click(&mut driver, 20, "k", "say x");
    click(&mut driver, 21, "bad", "all");
    assert_eq!(
        driver.read(OUT),
        pairs(&[("good", "a@10 now 20"), ("k", "x"), ("bad", "on a: say no+fail; a=10; all")])
    );
    assert_eq!((driver.counters().skipped.step, driver.counters().processed), (1, 4));
}

#[test]
fn a_failure_behind_a_table_puts_the_table_back() {
    struct Picky;
    impl Flow for Picky {
        const NAME: &'static str = "picky";
        type State = u64;
        type Codec = Json;
        type Out = Never;
    }
    impl Fold<u64> for Picky {
        fn fold(&self, state: &mut Option<u64>, count: &u64, _: &mut Context<Never>) -> Result<(), StepError> {
            if *state == Some(*count) {
                return Err(StepError::new("seen before"));
            }
            *state = Some(if *count == 2 { 3 } else { *count });
            Ok(())
        }
    }
    let topology = TopologyBuilder::new();
    let counts = topology.stream(ORDERS).count("counts").changes();
    counts.to(COUNTS);
    let _ = counts.flow(Picky);
    let mut driver = TestDriver::with(topology.build().unwrap(), 1, skip(false, true, false));
    (0..5).for_each(|at| driver.send(ORDERS, ms(at), "a", &1));
    // The third count is refused each time, so it stays two.
    assert_eq!(driver.read_values(COUNTS), [1, 2]);
    assert_eq!(driver.counters().skipped.step, 3);
    let mut driver = driver.restart();
    driver.send(ORDERS, ms(9), "a", &1);
    assert_eq!(driver.counters().skipped.step, 1);
}

#[test]
fn an_output_that_is_too_big_fails_in_its_step() {
    let options = TaskOptions { max_record_bytes: 20, ..skip(false, false, true) };
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).to(OUT).named("write-out");
    let topology = topology.build().unwrap();
    let mut driver = TestDriver::with(topology.clone(), 1, options);
    click(&mut driver, 0, "k", "a value that is too big");
    click(&mut driver, 0, "k", "small");
    assert_eq!(driver.read(OUT), pairs(&[("k", "small")]));
    assert_eq!((driver.counters().skipped.produce, driver.counters().outputs), (1, 1));

    let mut driver = TestDriver::with(topology, 1, TaskOptions { max_record_bytes: 20, ..TaskOptions::default() });
    let error = driver.try_send(CLICKS, ms(0), "k", &text("a value that is too big")).unwrap_err();
    assert_eq!(error.step, "write-out");
    assert_eq!(
        error.message,
        "the output takes 26 bytes, and the limit is 20: send less in one record, or raise the limit of the topic and of the client"
    );
}

#[test]
fn an_output_too_far_ahead_of_the_wall_clock_fails_in_its_step() {
    let options = TaskOptions { max_lead: Some(Duration::from_millis(100)), ..TaskOptions::default() };
    let mut driver = TestDriver::with(words(), 1, options);
    driver.advance_wall_clock(ms(1_000));
    click(&mut driver, 1_000, "k", "a=9000");
    let fired = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.advance_to(ms(10_000))));
    let message = *fired.unwrap_err().downcast::<String>().unwrap();
    assert!(
        message.starts_with(
            "produce failure in step `KSTREAM-SINK-0000000002`, partition 0, timer `a` of key `k` due at 9000 ms: the output's timestamp"
        ),
        "{message}"
    );
}

#[test]
fn an_output_with_a_negative_timestamp_fails_in_its_step() {
    let mut driver = TestDriver::new(words());
    let error = driver.try_send(CLICKS, ms(0), "k", &text("a=-5")).unwrap_err();
    assert_eq!((error.kind, error.torn), (TaskErrorKind::Produce, true));
    assert_eq!(error.message, "the output's timestamp is negative, which Kafka does not take: -5 ms");
}

#[test]
fn a_snapshot_that_is_too_big_is_always_a_stop() {
    let options = TaskOptions { max_record_bytes: 40, ..skip(true, true, true) };
    let mut driver = TestDriver::with(words(), 1, options);
    click(&mut driver, 0, "big", "a state that is bigger than forty bytes, in all");
    let committed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.commit()));
    let message = *committed.unwrap_err().downcast::<String>().unwrap();
    assert!(
        message.starts_with("snapshot failure in step `words`, partition 0: the state of key `big` takes"),
        "{message}"
    );
}

#[test]
fn a_null_key_fails_where_state_is_kept_by_it_and_is_dropped_by_tables() {
    let topology = TopologyBuilder::new();
    let clicks = topology.stream(CLICKS);
    clicks.flow(Words).to(OUT);
    let mut driver = TestDriver::new(topology.build().unwrap());
    let error = driver.try_send_record("clicks", Input::new().value("\"x\"")).unwrap_err();
    assert_eq!((error.kind, error.torn), (TaskErrorKind::Decode, false));
    assert!(error.message.contains("null key") && error.message.contains("key_by"), "{}", error.message);

    let topology = TopologyBuilder::new();
    let orders = topology.stream(ORDERS);
    orders.count("counts").changes().to(COUNTS);
    let _ = orders.reduce("sums", |a, b| a + b);
    let _ = orders.aggregate("all", Vec::new, |all: &mut Vec<u64>, _, n| all.push(*n));
    let mut driver = TestDriver::new(topology.build().unwrap());
    driver.send_record("orders", Input::new().value("1"));
    driver.send(ORDERS, ms(0), "a", &1);
    assert_eq!(driver.read_values(COUNTS), [1]);
    assert_eq!((driver.counters().dropped_null_key, driver.counters().processed), (3, 2));
}

#[test]
fn a_null_key_passes_until_a_step_asks_for_it() {
    const LINES: Topic<(), u64> = Topic::new("lines");
    const MAYBE: Topic<Option<String>, u64> = Topic::new("maybe");
    let topology = TopologyBuilder::new();
    topology.stream(ORDERS).map_values(|n| *n).to(COUNTS);
    topology.stream(LINES).map(|(), n| *n).to(Topic::<(), u64>::new("lines-out"));
    topology.stream(MAYBE).filter(|key, _| key.is_none()).to(Topic::<Option<String>, u64>::new("maybe-out"));
    let mut driver = TestDriver::new(topology.build().unwrap());
    for topic in ["orders", "lines", "maybe"] {
        driver.send_record(topic, Input::new().value("1"));
    }
    for topic in ["counts", "lines-out", "maybe-out"] {
        assert_eq!(driver.read_records(topic)[0].key, None);
    }

    let topology = TopologyBuilder::new();
    topology.stream(ORDERS).filter(|_, _| true).named("all").to(COUNTS);
    let error =
        TestDriver::new(topology.build().unwrap()).try_send_record("orders", Input::new().value("1")).unwrap_err();
    assert_eq!((error.kind, error.step.as_str()), (TaskErrorKind::Decode, "all"));
    assert!(error.message.contains("`()`") && error.message.contains("`Option<..>`"), "{}", error.message);
}

#[test]
fn a_flow_that_names_its_key_refuses_a_record_with_another_one() {
    struct Keyed;
    impl Flow for Keyed {
        const NAME: &'static str = "keyed";
        type State = u64;
        type Codec = Json;
        type Out = Never;
    }
    impl Fold<String> for Keyed {
        fn key(&self, event: &String, out: &mut Vec<u8>) -> Result<bool, StepError> {
            out.extend_from_slice(event.as_bytes());
            Ok(true)
        }
        fn fold(&self, state: &mut Option<u64>, _: &String, _: &mut Context<Never>) -> Result<(), StepError> {
            *state = Some(1);
            Ok(())
        }
    }
    let topology = TopologyBuilder::new();
    let _ = topology.stream(CLICKS).flow(Keyed);
    let mut driver = TestDriver::new(topology.build().unwrap());
    click(&mut driver, 0, "ann", "ann");
    let error = driver.try_send(CLICKS, ms(9), "bob", &text("ann")).unwrap_err();
    assert_eq!((error.kind, error.torn), (TaskErrorKind::Decode, false));
    assert!(
        error.message.starts_with("the event names the key `ann`, and its record has the key `bob`"),
        "{}",
        error.message
    );
}

#[test]
fn sessions_go_on_after_skipped_records_as_if_they_had_not_been_there() {
    let run = |bad: bool| {
        let topology = TopologyBuilder::new();
        topology.stream(CLICKS).flow(Sessions).to(OUT);
        let mut driver = TestDriver::skipping(topology.build().unwrap());
        for at in 0..50 {
            let key = ["a", "b", "c"][at as usize % 3];
            click(&mut driver, at * 5, key, "x");
            if bad {
                driver.send_record("clicks", Input::new().key(key).value("{").at(ms(at * 7)));
                driver.send_record("clicks", Input::new().value("\"x\"").at(ms(at * 9)));
            }
            if at % 10 == 9 {
                driver = driver.restart();
            }
        }
        (driver.read(OUT), driver.snapshots("sessions"))
    };
    assert_eq!(run(false), run(true));
}
