//! An input whose offsets have gaps: a record that was compacted away, the markers of transactions, what an aborted one left.
//!
//! Runs on an embedded broker of its own, which compacts when it is told to.

use std::time::Duration;

use flow_core::{ByType, Context, Flow, Fold, Json, StepError, Topic, Topology, TopologyBuilder, Utf8};
use flow_kafka::embedded::EmbeddedBroker;
use flow_kafka::start;
use futures::executor::block_on;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::kafka::{Kafka, Sent, wait_for};

/// Writes down what it sees, but for what it cannot stand.
struct Journal {
    fails_at: &'static str,
}

impl Flow for Journal {
    const NAME: &'static str = "journal";
    type State = String;
    type Codec = Json;
    type Out = String;
}

impl Fold<str> for Journal {
    fn fold(&self, state: &mut Option<String>, event: &str, cx: &mut Context<String>) -> Result<(), StepError> {
        if event == self.fails_at {
            return Err(StepError::new("cannot be written down"));
        }
        let journal = state.get_or_insert_default();
        journal.push_str(event);
        cx.emit(journal.clone());
        Ok(())
    }
}

fn source(kafka: &Kafka, what: &str) -> Topic<str, str, ByType, Utf8> {
    Topic::new(kafka.topic(what))
}

fn one_input(kafka: &Kafka, fails_at: &'static str) -> Topology {
    let topology = TopologyBuilder::new();
    let journal = topology.flow(Journal { fails_at }).fold(topology.stream(source(kafka, "letters")));
    journal.output().to(Topic::<str, String, ByType, Utf8>::new(kafka.topic("out")));
    topology.build().unwrap()
}

fn two_inputs(kafka: &Kafka) -> Topology {
    let topology = TopologyBuilder::new();
    let journal = topology.flow(Journal { fails_at: "" });
    let journal =
        journal.fold(topology.stream(source(kafka, "letters"))).fold(topology.stream(source(kafka, "digits")));
    journal.output().to(Topic::<str, String, ByType, Utf8>::new(kafka.topic("out")));
    topology.build().unwrap()
}

/// Two records in a transaction, of which the second is compacted away; one in a transaction that is aborted; one in a third.
/// What is left lies at the offsets 0 and 5, and the log ends at 7.
fn letters(broker: &EmbeddedBroker, kafka: &Kafka) {
    kafka.create("letters", 1, &[("cleanup.policy", "compact")]);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &kafka.bootstrap).set("transactional.id", &kafka.app);
    let producer: BaseProducer = config.create().unwrap();
    let limit = Duration::from_secs(20);
    producer.init_transactions(limit).unwrap();
    let topic = kafka.topic("letters");
    for (records, commits) in [
        (&[("k", "a", 1_000), ("j", "b", 1_500)][..], true),
        (&[("k", "x", 1_800)], false),
        (&[("j", "c", 3_000)], true),
    ] {
        producer.begin_transaction().unwrap();
        for (key, value, timestamp) in records {
            let record = BaseRecord::to(topic).partition(0).key(*key).payload(*value).timestamp(*timestamp);
            producer.send(record).map_err(|(error, _)| error).unwrap();
            producer.flush(limit).unwrap();
        }
        match commits {
            true => producer.commit_transaction(limit).unwrap(),
            false => producer.abort_transaction(limit).unwrap(),
        }
    }
    assert!(broker.compact(topic, 0).unwrap() > 0);
    assert_eq!(kafka.watermarks("letters"), (0, 7));
}

fn scene(name: &str) -> (EmbeddedBroker, Kafka) {
    let broker = EmbeddedBroker::start("127.0.0.1:0").unwrap();
    let kafka = Kafka::on(&broker.bootstrap(), name);
    kafka.create("out", 1, &[]);
    letters(&broker, &kafka);
    (broker, kafka)
}

fn outputs(kafka: &Kafka) -> Vec<String> {
    kafka.values("out").into_iter().map(|value| String::from_utf8(value).unwrap()).collect()
}

/// A record of the other input may only be taken once nothing older can come: the lag must reach zero behind the gaps.
#[test]
fn an_input_with_gaps_is_read_to_its_end_and_holds_no_other_input_up() {
    let (_broker, kafka) = scene("gaps");
    kafka.create("digits", 1, &[]);
    let digit = |value, timestamp| Sent { key: Some("k"), value, timestamp: Some(timestamp) };
    kafka.send("digits", &[digit("2", 2_000), digit("4", 4_000)]);
    let app = start(two_inputs(&kafka), kafka.config()).unwrap();
    wait_for("both inputs are committed", || kafka.committed("digits") == Some(2));
    assert_eq!(block_on(app.shutdown()).unwrap().counters.records, 4);
    assert_eq!(outputs(&kafka), ["a", "a2", "c", "a24"]);
    assert!((6..=7).contains(&kafka.committed("letters").unwrap()));
    // From where only a marker is left.
    let app = start(two_inputs(&kafka), kafka.config()).unwrap();
    kafka.send("digits", &[digit("6", 6_000)]);
    wait_for("the other input is committed", || kafka.committed("digits") == Some(3));
    block_on(app.shutdown()).unwrap();
    assert_eq!(outputs(&kafka)[4..], ["a246"]);
}

#[test]
fn a_run_that_ends_before_a_record_behind_gaps_begins_again_with_it() {
    let (_broker, kafka) = scene("gaps-stop");
    let error = block_on(start(one_input(&kafka, "c"), kafka.config()).unwrap().wait()).unwrap_err().to_string();
    assert!(error.contains("letters") && error.contains("offset 5"), "{error}");
    assert!((1..=5).contains(&kafka.committed("letters").unwrap()), "{:?}", kafka.committed("letters"));
    let app = start(one_input(&kafka, ""), kafka.config()).unwrap();
    wait_for("the rest is committed", || kafka.committed("letters").is_some_and(|offset| offset >= 6));
    assert_eq!(block_on(app.shutdown()).unwrap().counters.records, 1);
    assert_eq!(outputs(&kafka), ["a", "c"]);
}
