//! Records that cannot be processed: they stop the run or are skipped, by the user's choice, and never move an offset that
//! they should not, lose an effect or double one.

use flow_core::{
    ByType, Context, Flow, Fold, Json, Policy, StepError, Timer, Timestamp, Topic, Topology, TopologyBuilder, Utf8,
};
use flow_kafka::{Counters, KafkaConfig, RunError, start};
use futures::executor::block_on;

use crate::kafka::{Kafka, Sent, record, wait_for};

pub(crate) fn application(name: &str) -> Kafka {
    let kafka = Kafka::new(name);
    // A topic that takes any timestamp, as an older broker would.
    kafka.create("in", 1, &[("message.timestamp.after.max.ms", "9223372036854775807")]);
    kafka.create("out", 1, &[]);
    kafka
}

/// Sums the numbers of each key.
pub(crate) fn sums(kafka: &Kafka) -> Topology {
    let topology = TopologyBuilder::new();
    let numbers: Topic<str, u64> = Topic::new(kafka.topic("in"));
    let sums: Topic<str, u64> = Topic::new(kafka.topic("out"));
    let stream = topology.stream(numbers).named("read-numbers");
    stream.aggregate("sums", || 0, |sum: &mut u64, _, n| *sum += n).changes().to(sums);
    topology.build().unwrap()
}

/// Runs until it stops by itself.
pub(crate) fn stopped(topology: Topology, config: KafkaConfig) -> RunError {
    block_on(start(topology, config).unwrap().wait()).expect_err("a stop")
}

/// Runs until `records` input records are committed.
pub(crate) fn done(kafka: &Kafka, topology: Topology, config: KafkaConfig, records: i64) -> Counters {
    let app = start(topology, config).unwrap();
    wait_for("all is committed", || kafka.committed("in") == Some(records));
    block_on(app.shutdown()).unwrap().counters
}

const BAD_VALUE: [Sent<'_>; 4] = [
    Sent { key: Some("k"), value: "1", timestamp: None },
    Sent { key: Some("k"), value: "2", timestamp: None },
    Sent { key: Some("k"), value: "two", timestamp: None },
    Sent { key: Some("k"), value: "3", timestamp: None },
];

#[test]
fn an_unreadable_value_stops_on_its_record_with_everything_before_it_committed() {
    let kafka = application("bad-value");
    kafka.send("in", &BAD_VALUE);
    let error = stopped(sums(&kafka), kafka.config()).to_string();
    let place = format!("step `read-numbers`, topic {}, partition 0, offset 2", kafka.topic("in"));
    assert!(error.contains(&place) && error.contains("the value"), "{error}");
    assert_eq!((kafka.committed("in"), kafka.numbers("out")), (Some(2), vec![1, 3]));
}

#[test]
fn an_unreadable_value_is_skipped_and_counted_where_that_is_the_policy() {
    let kafka = application("skip-value");
    kafka.send("in", &BAD_VALUE);
    let counters = done(&kafka, sums(&kafka), kafka.config().on_decode_error(Policy::Skip), 4);
    assert_eq!((counters.skipped_decode, counters.records), (1, 3));
    assert_eq!(kafka.numbers("out"), [1, 3, 6]);
}

#[test]
fn an_unreadable_key_stops_on_its_record() {
    let kafka = application("bad-key");
    let topology = TopologyBuilder::new();
    let numbers: Topic<i32, u64> = Topic::new(kafka.topic("in"));
    topology.stream(numbers).to(Topic::<i32, u64>::new(kafka.topic("out")));
    kafka.send("in", &[record("four", "1"), record("toolong", "2")]);
    let error = stopped(topology.build().unwrap(), kafka.config()).to_string();
    assert!(error.contains("the key") && error.contains("offset 1"), "{error}");
    assert_eq!((kafka.committed("in"), kafka.numbers("out")), (Some(1), vec![1]));
}

#[test]
fn an_aggregation_drops_and_counts_a_null_key() {
    let kafka = application("null-key");
    kafka.send("in", &[record("k", "1"), Sent { key: None, value: "7", timestamp: None }, record("k", "2")]);
    let counters = done(&kafka, sums(&kafka), kafka.config(), 3);
    assert_eq!((counters.dropped_null_key, kafka.numbers("out")), (1, vec![1, 3]));
}

#[test]
fn timestamps_that_are_missing_negative_or_absurd_cannot_be_read() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    for (name, timestamp, words) in [
        ("no-time", -1, "no timestamp"),
        ("minus", -5, "negative"),
        ("microseconds", now * 1000, "ahead of the wall clock"),
    ] {
        let kafka = application(name);
        kafka.send(
            "in",
            &[record("k", "1"), Sent { key: Some("k"), value: "2", timestamp: Some(timestamp) }, record("k", "4")],
        );
        let error = stopped(sums(&kafka), kafka.config()).to_string();
        assert!(error.contains(words) && error.contains("offset 1"), "{error}");
        assert_eq!(kafka.committed("in"), Some(1));
        let counters = done(&kafka, sums(&kafka), kafka.config().on_decode_error(Policy::Skip), 3);
        assert_eq!((counters.skipped_decode, kafka.numbers("out")), (1, vec![1, 5]));
    }
}

/// Counts the events of a key, and emits the count. Some events are too much for it.
struct Counting {
    fragile: bool,
}

impl Flow for Counting {
    const NAME: &'static str = "counting";
    type State = u64;
    type Codec = Json;
    type Out = u64;
    const TIMERS: &'static [Timer] = &[Self::LATER];

    fn timer(&self, _: Timer, _: &mut Option<u64>, cx: &mut Context<u64>) -> Result<(), StepError> {
        cx.emit(1_000);
        Ok(())
    }
}

impl Counting {
    const LATER: Timer = Timer::event_time("later");
}

impl Fold<str> for Counting {
    fn fold(&self, state: &mut Option<u64>, event: &str, cx: &mut Context<u64>) -> Result<(), StepError> {
        // The state is changed first: what fails must not leave half of itself behind.
        let count = state.insert(state.unwrap_or(0) + 1);
        match event {
            "error" if self.fragile => return Err(StepError::new("this event is too much")),
            "panic" if self.fragile => panic!("this event is far too much"),
            "late" => cx.set_timer(Self::LATER, cx.timestamp() + std::time::Duration::from_secs(1)),
            _ => {}
        }
        cx.emit(*count);
        Ok(())
    }
}

fn counting(kafka: &Kafka, fragile: bool) -> Topology {
    let topology = TopologyBuilder::new();
    let events: Topic<str, str, ByType, Utf8> = Topic::new(kafka.topic("in"));
    topology
        .stream(events)
        .flow(Counting { fragile })
        .named("count-events")
        .to(Topic::<str, u64>::new(kafka.topic("out")));
    topology.build().unwrap()
}

#[test]
fn a_fold_that_fails_or_panics_stops_on_its_record_and_what_came_before_it_commits_exactly_once() {
    for word in ["error", "panic"] {
        let kafka = application(word);
        let events = ["a", "b", "c", word, "d"].map(|value| record("k", value));
        kafka.send("in", &events);
        let error = stopped(counting(&kafka, true), kafka.config()).to_string();
        assert!(error.contains("`count-events`") && error.contains("too much"), "{error}");
        assert!(error.contains(kafka.topic("in")) && error.contains("offset 3"), "{error}");
        assert_eq!((kafka.committed("in"), kafka.numbers("out")), (Some(3), vec![1, 2, 3]));
        assert_eq!(kafka.newest_snapshot("counting"), 3);
        done(&kafka, counting(&kafka, false), kafka.config(), 5);
        assert_eq!(kafka.numbers("out"), [1, 2, 3, 4, 5]);
    }
}

#[test]
fn a_failed_record_that_is_skipped_leaves_nothing_behind() {
    let kafka = application("skip-step");
    kafka.send("in", &["a", "error", "b"].map(|value| record("k", value)));
    let counters = done(&kafka, counting(&kafka, true), kafka.config().on_step_error(Policy::Skip), 3);
    assert_eq!((counters.skipped_step, kafka.numbers("out")), (1, vec![1, 2]));
}

#[test]
fn a_panic_stops_also_where_errors_are_skipped() {
    let kafka = application("no-skip");
    kafka.send("in", &["a", "panic"].map(|value| record("k", value)));
    let error = stopped(counting(&kafka, true), kafka.config().on_step_error(Policy::Skip));
    assert!(matches!(error, RunError::Panic { .. }), "{error}");
    assert_eq!((kafka.committed("in"), kafka.numbers("out")), (Some(1), vec![1]));
}

#[test]
fn a_null_key_in_a_flow_cannot_be_read() {
    let kafka = application("null-in-flow");
    kafka.send("in", &[record("k", "a"), Sent { key: None, value: "b", timestamp: None }, record("k", "c")]);
    let error = stopped(counting(&kafka, false), kafka.config()).to_string();
    assert!(error.contains("null key") && error.contains("offset 1"), "{error}");
    done(&kafka, counting(&kafka, false), kafka.config().on_decode_error(Policy::Skip), 3);
    assert_eq!(kafka.numbers("out"), [1, 2]);
}

/// Makes texts of a given size.
fn texts(kafka: &Kafka) -> Topology {
    let topology = TopologyBuilder::new();
    let sizes: Topic<str, usize> = Topic::new(kafka.topic("in"));
    let texts: Topic<str, String, ByType, Utf8> = Topic::new(kafka.topic("out"));
    topology.stream(sizes).map_values(|size| "x".repeat(*size)).to(texts);
    topology.build().unwrap()
}

#[test]
fn an_output_too_large_for_the_broker_fails_in_its_step_before_any_transaction() {
    let kafka = application("too-large");
    kafka.send("in", &[record("k", "1"), record("k", "2000000"), record("k", "3")]);
    let error = stopped(texts(&kafka), kafka.config()).to_string();
    assert!(error.contains("2000") && error.contains("offset 1") && error.contains("limit"), "{error}");
    assert_eq!((kafka.committed("in"), kafka.values("out").len()), (Some(1), 1));
    let counters = done(&kafka, texts(&kafka), kafka.config().on_produce_error(Policy::Skip), 3);
    assert_eq!((counters.skipped_produce, kafka.values("out").len()), (1, 2));
}

#[test]
fn an_output_that_only_the_broker_refuses_ends_the_run_after_a_few_attempts_and_names_it() {
    let kafka = application("ahead");
    let later = Timestamp::from_millis(
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64 + 7_200_000,
    );
    kafka.send("in", &[Sent { key: Some("k"), value: "a", timestamp: Some(later.as_millis()) }]);
    let error = stopped(counting(&kafka, false), kafka.config().max_lead(None));
    assert!(matches!(error, RunError::Commit { attempts: 4, .. }), "{error}");
    assert!(error.to_string().contains(kafka.topic("out")), "{error}");
    // Its offset may stand there, as one that was not moved: see the first commit of an owner.
    assert_eq!((kafka.committed("in").unwrap_or(0), kafka.values("out").len()), (0, 0));
}
