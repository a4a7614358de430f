use std::time::Duration;

use flow_core::Offset;
use flow_kafka::broker::{Broker, ErrorKind, NewTopic};
use flow_kafka::rdkafka::RdkafkaBroker;

use crate::support::*;

#[test]
fn topics_are_described_in_the_order_asked_and_missing_ones_are_none() {
    let broker = broker();
    let compacted = topic_with(&broker, "compacted", 3, &[("cleanup.policy", "compact")]);
    let plain = topic(&broker, "plain", 1);
    let names = [plain.clone(), fresh("missing", &broker), compacted, plain];
    let found = broker.admin().unwrap().topics(&names, LONG).unwrap();
    let found: Vec<_> =
        found.iter().map(|f| f.as_ref().map(|f| (f.partitions, f.cleanup_policy.as_deref().unwrap()))).collect();
    assert_eq!(found, [Some((1, "delete")), None, Some((3, "compact")), Some((1, "delete"))]);
}

#[test]
fn asking_for_a_topic_does_not_create_it() {
    let broker = broker();
    let name = [fresh("missing", &broker)];
    let mut admin = broker.admin().unwrap();
    for _ in 0..2 {
        assert_eq!(admin.topics(&name, LONG).unwrap(), [None]);
    }
}

#[test]
fn creating_a_topic_that_exists_is_no_error() {
    let broker = broker();
    let name = topic(&broker, "twice", 2);
    let again = NewTopic { name: name.clone(), partitions: 5, replication: -1, config: Vec::new() };
    let mut admin = broker.admin().unwrap();
    admin.create(&[again], LONG).unwrap();
    assert_eq!(admin.topics(&[name], LONG).unwrap()[0].as_ref().unwrap().partitions, 2);
}

#[test]
fn a_topic_with_a_wrong_setting_is_refused_by_name() {
    let broker = broker();
    let name = fresh("wrong", &broker);
    let config = vec![("cleanup.policy".to_owned(), "burn".to_owned())];
    let topic = NewTopic { name: name.clone(), partitions: 1, replication: -1, config };
    let error = broker.admin().unwrap().create(&[topic], LONG).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.message.contains(&name), "{error}");
}

#[test]
fn deleted_records_move_the_low_watermark() {
    let broker = broker();
    let topic = topic(&broker, "short", 1);
    write(&broker, &topic, 0, &["a", "b", "c"]);
    broker.admin().unwrap().delete_records(&[(at(&topic, 0), Offset(2))], LONG).unwrap();
    let marks = broker.reader().unwrap().watermarks(&[at(&topic, 0)], LONG).unwrap();
    assert_eq!((marks[0].low, marks[0].high), (Offset(2), Offset(4)));
}

#[test]
fn a_broker_that_is_away_is_an_error_in_time() {
    let mut settings = settings();
    settings.bootstrap = "127.0.0.1:1".to_owned();
    let broker = RdkafkaBroker::new(settings).unwrap();
    let started = now();
    let error = broker.admin().unwrap().topics(&["t".to_owned()], Duration::from_millis(300)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retriable, "{error}");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[test]
fn a_passed_through_setting_is_checked_when_the_broker_is_named() {
    let mut settings = settings();
    settings.overrides = vec![("isolation.level".to_owned(), "read_uncommitted".to_owned())];
    let error = RdkafkaBroker::new(settings.clone()).err().unwrap();
    assert!(error.message.contains("isolation.level"), "{error}");
    settings.overrides = vec![("no.such.setting".to_owned(), "1".to_owned())];
    let error = RdkafkaBroker::new(settings).err().unwrap();
    assert!(error.message.contains("no.such.setting"), "{error}");
}
