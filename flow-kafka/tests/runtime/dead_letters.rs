//! Dead letters: what they carry, where they go, and that each is committed once, with the offset of its record.

use flow_core::{Context, Flow, Fold, Json, Policy, StepError, Timer, Topic, Topology, TopologyBuilder, dead_letter};
use flow_kafka::{DeadLetters, KafkaConfig, start};
use futures::executor::block_on;

use crate::bad_input::{application, done, stopped, sums};
use crate::kafka::{Kafka, Sent, record, wait_for};

/// Fails for one value, after it has changed its state, set a timer and emitted; its timer fails for one key.
struct Picky;

impl Picky {
    const LATER: Timer = Timer::event_time("later");
}

impl Flow for Picky {
    const NAME: &'static str = "picky";
    type State = u64;
    type Codec = Json;
    type Out = u64;
    const TIMERS: &'static [Timer] = &[Self::LATER];

    fn timer(&self, _: Timer, sum: &mut Option<u64>, cx: &mut Context<u64>) -> Result<(), StepError> {
        cx.emit(1_000_000);
        match sum {
            Some(7) => Err(StepError::new("seven is not for timers")),
            _ => Ok(()),
        }
    }
}

impl Fold<u64> for Picky {
    fn fold(&self, sum: &mut Option<u64>, number: &u64, cx: &mut Context<u64>) -> Result<(), StepError> {
        *sum = Some(sum.unwrap_or(0) + number);
        if *number == 7 {
            cx.set_timer(Self::LATER, cx.timestamp() + std::time::Duration::from_millis(10));
        }
        cx.emit(sum.unwrap_or(0));
        match number {
            13 => Err(StepError::new("thirteen")),
            _ => Ok(()),
        }
    }
}

fn picky(kafka: &Kafka) -> Topology {
    let topology = TopologyBuilder::new();
    let numbers: Topic<str, u64> = Topic::new(kafka.topic("in"));
    topology.stream(numbers).flow(Picky).to(Topic::<str, u64>::new(kafka.topic("out")));
    topology.build().unwrap()
}

fn to_letters(kafka: &Kafka) -> KafkaConfig {
    let config = kafka.config().on_decode_error(Policy::DeadLetter).on_step_error(Policy::DeadLetter);
    config.on_produce_error(Policy::DeadLetter).dead_letters(DeadLetters::to(kafka.topic("letters")))
}

#[test]
fn dead_letters_are_committed_with_their_offset_also_where_there_is_nothing_else() {
    let kafka = application("letters-only");
    kafka.create("letters", 1, &[]);
    kafka.send("in", &[record("k", "{"), record("k", "["), record("k", "\"")]);
    let counters = done(&kafka, sums(&kafka), to_letters(&kafka), 3);
    assert_eq!((counters.dead_lettered_decode, counters.records, kafka.values("letters").len()), (3, 0, 3));
    // A restart reads none of them again.
    kafka.send("in", &[record("k", "1"), record("k", "?")]);
    let counters = done(&kafka, sums(&kafka), to_letters(&kafka), 5);
    assert_eq!((counters.dead_lettered_decode, counters.records), (1, 1));
    let letters = kafka.values("letters");
    assert_eq!(letters, [&b"{"[..], b"[", b"\"", b"?"]);
    assert_eq!((kafka.committed("in"), kafka.numbers("out")), (Some(5), vec![1]));
}

#[test]
fn a_dead_letter_is_what_its_record_was_and_says_where_it_was_and_why_it_failed() {
    let kafka = application("letter");
    kafka.create("letters", 1, &[]);
    let at = |millis| Some(millis);
    kafka.send(
        "in",
        &[
            Sent { key: Some("k"), value: "1", timestamp: at(1_000) },
            Sent { key: Some("k"), value: "13", timestamp: at(2_000) },
            Sent { key: None, value: "5", timestamp: at(3_000) },
            Sent { key: Some("seven"), value: "7", timestamp: at(4_000) },
            Sent { key: Some("k"), value: "2", timestamp: at(5_000) },
        ],
    );
    let counters = done(&kafka, picky(&kafka), to_letters(&kafka), 5);
    assert_eq!((counters.dead_lettered_decode, counters.dead_lettered_step, counters.records), (1, 2, 3));
    assert_eq!(kafka.numbers("out"), [1, 7, 3], "what failed left nothing behind");
    let letters = kafka.records("letters");
    let what: Vec<_> = letters.iter().map(|l| (l.key.as_deref(), l.value.as_deref(), l.timestamp)).collect();
    assert_eq!(
        what,
        [
            (Some(&b"k"[..]), Some(&b"13"[..]), Some(2_000)),
            (None, Some(&b"5"[..]), Some(3_000)),
            (Some(&b"seven"[..]), None, Some(4_010)),
        ]
    );
    let header = |at: usize, name: &str| letters[at].header(name);
    assert_eq!(header(0, dead_letter::EXCEPTION).as_deref(), Some("step failure"));
    assert_eq!(header(0, dead_letter::MESSAGE).as_deref(), Some("thirteen"));
    assert_eq!(header(0, dead_letter::TOPIC).as_deref(), Some(kafka.topic("in")));
    assert_eq!(header(0, dead_letter::PARTITION).as_deref(), Some("0"));
    assert_eq!(header(0, dead_letter::OFFSET).as_deref(), Some("1"));
    assert_eq!(header(1, dead_letter::EXCEPTION).as_deref(), Some("decode failure"));
    assert_eq!(header(2, dead_letter::TIMER).as_deref(), Some("later"));
    assert_eq!(header(2, dead_letter::DEADLINE).as_deref(), Some("4010"));
    assert_eq!((header(2, dead_letter::TOPIC), header(2, dead_letter::OFFSET)), (None, None));
}

#[test]
fn a_letter_from_a_repartition_topic_names_that_topic_in_full() {
    let kafka = application("letter-repartition");
    kafka.create("letters", 1, &[]);
    let topology = TopologyBuilder::new();
    let numbers: Topic<str, u64> = Topic::new(kafka.topic("in"));
    let keyed = topology.stream(numbers).key_by("by-number", |_, number: &u64| number.to_string());
    keyed.flow(Picky).to(Topic::<String, u64>::new(kafka.topic("out")));
    kafka.send("in", &[record("k", "13")]);
    let app = start(topology.build().unwrap(), to_letters(&kafka)).unwrap();
    wait_for("the letter", || !kafka.values("letters").is_empty());
    block_on(app.shutdown()).unwrap();
    let letters = kafka.records("letters");
    assert_eq!(letters[0].header(dead_letter::TOPIC), Some(kafka.topic("by-number-repartition").to_owned()));
}

#[test]
fn a_topic_of_dead_letters_that_is_missing_smaller_or_compacted_refuses_the_start() {
    let kafka = Kafka::new("letters-wrong");
    kafka.create("in", 6, &[]);
    kafka.create("out", 1, &[]);
    kafka.send("in", &[record("k", "1"), record("k", "boom"), record("k", "2")]);
    let topic = kafka.topic("letters");
    let error = stopped(sums(&kafka), to_letters(&kafka)).to_string();
    assert!(error.contains(&format!("topic `{topic}` does not exist")) && error.contains("6 partitions"), "{error}");

    kafka.create("letters", 1, &[]);
    let error = stopped(sums(&kafka), to_letters(&kafka)).to_string();
    assert!(error.contains("has 1 partitions for dead letters") && error.contains("has 6: give it 6"), "{error}");
    assert_eq!((kafka.committed("in"), kafka.values("letters").len()), (None, 0));
    let anywhere = to_letters(&kafka).dead_letters(DeadLetters::to(topic).any_partition());
    done(&kafka, sums(&kafka), anywhere, 3);
    assert_eq!((kafka.values("letters"), kafka.numbers("out")), (vec![b"boom".to_vec()], vec![1, 3]));

    let kafka = application("letters-compacted");
    kafka.create("letters", 1, &[("cleanup.policy", "compact")]);
    let error = stopped(sums(&kafka), to_letters(&kafka)).to_string();
    assert!(error.contains("is compacted, so dead letters would replace each other"), "{error}");

    let config = kafka.config().on_step_error(Policy::DeadLetter);
    let error = start(sums(&kafka), config).expect_err("no topic").to_string();
    assert!(error.contains("they have no topic: give one with `dead_letters`"), "{error}");
}

#[test]
fn letters_that_the_broker_refuses_stop_the_run_with_their_offset_not_moved() {
    let kafka = application("letters-refused");
    kafka.create("letters", 1, &[("max.message.bytes", "2000")]);
    let long = format!("\"{}", "x".repeat(5_000));
    kafka.send("in", &[record("k", "1"), record("k", &long)]);
    let error = stopped(sums(&kafka), to_letters(&kafka)).to_string();
    assert!(error.contains("4 times") && error.contains(kafka.topic("letters")), "{error}");
    assert!(kafka.committed("in").is_none_or(|offset| offset <= 1));
    assert_eq!(kafka.values("letters").len(), 0);
}
