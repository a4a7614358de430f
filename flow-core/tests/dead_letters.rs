//! Dead letters: what they carry, and that what failed leaves nothing else behind.

mod common;

use common::{CLICKS, ORDERS, OUT, click, ms, pairs, words};
use flow_core::testing::{Input, TestDriver, TestRecord};
use flow_core::{Offset, Partition, Policies, Policy, TaskOptions, Topic, TopologyBuilder, dead_letter};

const LETTERS: Policies =
    Policies { decode: Policy::DeadLetter, step: Policy::DeadLetter, produce: Policy::DeadLetter };

fn options() -> TaskOptions {
    TaskOptions { policies: LETTERS, ..TaskOptions::default() }
}

/// The value of a header, as text.
fn header<'r>(letter: &'r TestRecord, name: &str) -> Option<&'r str> {
    letter.headers().last(name).map(|value| std::str::from_utf8(value).expect("text"))
}

#[test]
fn a_record_that_cannot_be_read_is_kept_as_it_was_with_what_is_wrong() {
    let topology = TopologyBuilder::new();
    topology.stream(ORDERS).count("counts").changes().to(Topic::<str, u64>::new("counts"));
    let mut driver = TestDriver::with(topology.build().unwrap(), 6, options());
    let own: [(&str, Option<&[u8]>); 3] = [("h", Some(b"1")), ("h", Some(b"2")), ("null", None)];
    let bad = own.iter().fold(Input::new(), |bad, (name, value)| bad.header(name, *value));
    driver.send_record("orders", Input::new().key("k").value("7").partition(Partition(5)));
    driver.send_record("orders", bad.key([0x00, 0xff]).value([0xff, 0xfe]).at(ms(77)).partition(Partition(5)));

    let letters = driver.read_dead_letters();
    let [letter] = &letters[..] else { panic!("one letter: {letters:?}") };
    assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (Some(&[0x00, 0xff][..]), Some(&[0xff, 0xfe][..])));
    assert_eq!(letter.timestamp, ms(77));
    assert_eq!(letter.headers().iter().take(3).collect::<Vec<_>>(), own);
    assert_eq!(header(letter, dead_letter::EXCEPTION), Some("decode failure"));
    assert_eq!(header(letter, dead_letter::TOPIC), Some("orders"));
    assert_eq!(header(letter, dead_letter::PARTITION), Some("5"));
    assert_eq!(header(letter, dead_letter::OFFSET), Some("1"));
    assert_eq!(header(letter, dead_letter::STEP), Some("KSTREAM-SOURCE-0000000000"));
    assert_eq!(header(letter, dead_letter::TIMESTAMP), None);
    let message = header(letter, dead_letter::MESSAGE).unwrap();
    assert!(message.starts_with("the key is"), "{message}");
    let whole = header(letter, dead_letter::STACKTRACE).unwrap();
    assert!(whole.contains("partition 5, offset 1") && whole.ends_with(message), "{whole}");
    assert_eq!((driver.counters().dead_lettered.decode, driver.counters().dead_lettered.total()), (1, 1));
    assert_eq!((driver.counters().skipped.total(), driver.counters().processed), (0, 1));
    assert_eq!(driver.read_dead_letters(), []);
}

#[test]
fn a_header_of_an_earlier_dead_letter_is_kept_in_front_of_the_new_one() {
    let mut driver = TestDriver::with(words(), 1, options());
    let again = Input::new().key("k").value("no JSON").header(dead_letter::MESSAGE, Some(b"the first time"));
    driver.send_record("clicks", again);
    let letters = driver.read_dead_letters();
    let all: Vec<_> = letters[0].headers().iter().filter(|(name, _)| *name == dead_letter::MESSAGE).collect();
    assert_eq!((all.len(), all[0].1), (2, Some(&b"the first time"[..])));
    assert!(header(&letters[0], dead_letter::MESSAGE).unwrap().starts_with("the value is"));
}

#[test]
fn a_timestamp_that_no_broker_takes_stands_in_a_header() {
    let lead = Some(std::time::Duration::from_millis(100));
    let mut driver = TestDriver::with(words(), 1, TaskOptions { max_lead: lead, ..options() });
    driver.advance_wall_clock(ms(1_000));
    let record = || Input::new().key("k").value("\"say x\"");
    for bad in [record().without_timestamp(), record().at(ms(-5)), record().at(ms(1_101))] {
        driver.send_record("clicks", bad);
    }
    let letters = driver.read_dead_letters();
    let own: Vec<_> = letters.iter().map(|letter| header(letter, dead_letter::TIMESTAMP)).collect();
    assert_eq!(own, [Some(""), Some("-5"), Some("1101")]);
    assert!(letters.iter().all(|letter| letter.timestamp == ms(1_000)));
}

#[test]
fn a_step_that_fails_leaves_its_letter_and_nothing_else() {
    let mut driver = TestDriver::with(words(), 1, options());
    click(&mut driver, 0, "k", "a=50, one");
    click(&mut driver, 40, "k", "say no, a=45, wall=1, two, fail");
    click(&mut driver, 30, "k", "all"); // the clock is not at 40
    driver.advance_to(ms(50));
    assert_eq!(driver.read(OUT), pairs(&[("k", "a=50; one; all"), ("k", "a@50 now 50")]));
    let letters = driver.read_dead_letters();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].value.as_deref(), Some(&b"\"say no, a=45, wall=1, two, fail\""[..]));
    assert_eq!(letters[0].timestamp, ms(40));
    assert_eq!(header(&letters[0], dead_letter::EXCEPTION), Some("step failure"));
    assert_eq!(header(&letters[0], dead_letter::MESSAGE), Some("asked to fail"));
    assert_eq!((driver.counters().dead_lettered.step, driver.counters().processed), (1, 2));
}

#[test]
fn an_output_that_cannot_be_sent_makes_a_letter_of_its_record() {
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).flat_map_values(|text| [text.clone(), text.repeat(40)]).to(OUT);
    let mut driver =
        TestDriver::with(topology.build().unwrap(), 1, TaskOptions { max_record_bytes: 1_000, ..options() });
    click(&mut driver, 0, "k", &"x".repeat(30));
    assert_eq!(driver.read(OUT), []);
    let letters = driver.read_dead_letters();
    assert_eq!(letters[0].value.as_ref().unwrap().len(), 32);
    assert_eq!(header(&letters[0], dead_letter::EXCEPTION), Some("produce failure"));
    assert_eq!(driver.counters().dead_lettered.produce, 1);
}

#[test]
fn a_timer_that_fails_leaves_a_letter_with_its_key_and_its_deadline() {
    let mut driver = TestDriver::with(words(), 1, options());
    click(&mut driver, 0, "bad", "on a: say no+fail, a=10");
    click(&mut driver, 0, "good", "a=10");
    driver.send_record("clicks", Input::new().key("k").value("\"say x\"").at(ms(20)).header("h", Some(b"1")));
    assert_eq!(driver.read(OUT), pairs(&[("good", "a@10 now 20"), ("k", "x")]));
    let letters = driver.read_dead_letters();
    let [letter] = &letters[..] else { panic!("one letter: {letters:?}") };
    assert_eq!((letter.key.as_deref(), letter.value.as_deref(), letter.timestamp), (Some(&b"bad"[..]), None, ms(10)));
    assert_eq!((header(letter, dead_letter::TIMER), header(letter, dead_letter::DEADLINE)), (Some("a"), Some("10")));
    assert_eq!(header(letter, dead_letter::STEP), Some("KSTREAM-PROCESSOR-0000000001"));
    assert_eq!(header(letter, dead_letter::PARTITION), Some("0"));
    // What it failed with is its own, not that of the record that moved time on.
    for name in ["h", dead_letter::TOPIC, dead_letter::OFFSET] {
        assert_eq!(header(letter, name), None);
    }
    let whole = header(letter, dead_letter::STACKTRACE).unwrap();
    assert_eq!(
        whole,
        "step failure in step `KSTREAM-PROCESSOR-0000000001`, partition 0, timer `a` of key `bad` due at 10 ms: asked to fail"
    );
    let mut driver = driver.restart();
    driver.advance_to(ms(100));
    assert_eq!(driver.read_dead_letters(), [], "a timer fires once, also one that failed");
}

#[test]
fn a_wall_clock_timer_that_fails_leaves_a_letter_too() {
    let mut driver = TestDriver::with(words(), 1, options());
    click(&mut driver, 7, "bad", "on wall: fail, wall=10");
    driver.advance_wall_clock(ms(25));
    let letters = driver.read_dead_letters();
    assert_eq!((letters.len(), letters[0].timestamp), (1, ms(7)));
    assert_eq!(
        (header(&letters[0], dead_letter::TIMER), header(&letters[0], dead_letter::DEADLINE)),
        (Some("wall"), Some("10"))
    );
}

#[test]
fn the_letters_of_timers_go_with_the_record_that_fired_them_when_it_is_undone() {
    let policies = Policies { step: Policy::DeadLetter, ..Policies::default() };
    let mut driver = TestDriver::with(words(), 1, TaskOptions { policies, ..TaskOptions::default() });
    click(&mut driver, 0, "bad", "on a: fail, a=10");
    click(&mut driver, 20, "k", "fail");
    let values: Vec<_> = driver.read_dead_letters().into_iter().map(|letter| letter.value).collect();
    assert_eq!(values, [Some(b"\"fail\"".to_vec())], "the timer has not fired, and fires with the next record");
    click(&mut driver, 15, "k", "say x");
    let keys: Vec<_> = driver.read_dead_letters().into_iter().map(|letter| letter.key).collect();
    assert_eq!(keys, [Some(b"bad".to_vec())]);
}

#[test]
fn a_letter_that_is_too_big_stops_on_its_record() {
    let mut driver = TestDriver::with(words(), 1, TaskOptions { max_record_bytes: 600, ..options() });
    let error = driver.try_send_record("clicks", Input::new().key("k").value("x".repeat(400))).unwrap_err();
    assert_eq!((error.offset, error.torn), (Some(Offset(0)), false));
    assert!(error.message.contains("and its dead letter takes") && error.message.contains("limit is 600"), "{error}");
    assert_eq!((driver.read_dead_letters(), driver.counters().dead_lettered.total()), (vec![], 0));
}

#[test]
fn an_errors_long_text_is_cut_in_a_letter() {
    let mut driver = TestDriver::with(words(), 1, options());
    // An error that repeats what it found, which is long, and of letters that take two bytes.
    driver.send_record("clicks", Input::new().key("k").value(format!("\"a={}\"", "ä".repeat(10_000))));
    driver.send_record("clicks", Input::new().key("k").value("\"fail\""));
    for letter in driver.read_dead_letters() {
        for name in [dead_letter::MESSAGE, dead_letter::STACKTRACE] {
            assert!(header(&letter, name).unwrap().len() <= 4096);
        }
    }
}

#[test]
fn what_was_a_letter_before_a_crash_is_the_same_letter_after_it_and_only_once() {
    let mut driver = TestDriver::with(words(), 1, options());
    click(&mut driver, 0, "k", "fail");
    driver.commit();
    click(&mut driver, 1, "k", "one, fail");
    let mut driver = driver.crash();
    let values: Vec<_> = driver.read_dead_letters().into_iter().filter_map(|letter| letter.value).collect();
    assert_eq!(values, [b"\"fail\"".to_vec(), b"\"one, fail\"".to_vec()]);
}
