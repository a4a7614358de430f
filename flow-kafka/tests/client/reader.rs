use std::time::Duration;

use flow_core::Offset;
use flow_kafka::broker::{Broker, Committed, ErrorKind};

use crate::support::*;

#[test]
fn positions_pass_markers_and_aborted_records_up_to_the_high_watermark() {
    let broker = broker();
    let topic = topic(&broker, "markers", 1);
    let of = at(&topic, 0);
    let mut producer = producer(&broker);
    fill(&mut *producer, &topic, 0, &["a", "b"]);
    producer.commit(LONG).unwrap();
    fill(&mut *producer, &topic, 0, &["gone", "gone too"]);
    producer.abort(LONG).unwrap();
    let mut reader = broker.reader().unwrap();
    assert_eq!(texts(&read(&mut *reader, &of, 0)), ["a", "b"]);
    assert_eq!(reader.position(&of).unwrap(), Some(Offset(6)));
    // Only a marker is left.
    assert_eq!(texts(&read(&mut *reader, &of, 5)), [""; 0]);
    assert_eq!(reader.position(&of).unwrap(), Some(Offset(6)));
    // Nothing is left: the position stays unknown.
    reader.assign(&[(of.clone(), Offset(6))]).unwrap();
    reader.poll(Duration::from_millis(100), &mut |_| panic!("nothing is there")).unwrap();
    assert_eq!(reader.position(&of).unwrap(), None);
}

#[test]
fn the_high_watermark_counts_records_of_open_transactions() {
    let broker = broker();
    let topic = topic(&broker, "open", 2);
    let of = at(&topic, 0);
    let mut producer = producer(&broker);
    fill(&mut *producer, &topic, 0, &["a", "b"]);
    let mut reader = broker.reader().unwrap();
    let marks = reader.watermarks(&[at(&topic, 1), of.clone()], LONG).unwrap();
    assert_eq!((marks[0].low.0, marks[0].high.0), (0, 0));
    assert_eq!((marks[1].low.0, marks[1].high.0), (0, 2));
    reader.assign(&[(of.clone(), Offset(0))]).unwrap();
    reader.poll(Duration::from_millis(200), &mut |_| panic!("the transaction is open")).unwrap();
    producer.commit(LONG).unwrap();
    assert_eq!(texts(&read(&mut *reader, &of, 0)), ["a", "b"]);
}

#[test]
fn committed_offsets_come_back_with_their_metadata_in_the_order_asked() {
    let broker = broker();
    let topic = topic(&broker, "committed", 3);
    let mut consumer = member(&broker, &[&topic], 3);
    let generation = consumer.generation().unwrap();
    let mut producer = producer(&broker);
    producer.begin().unwrap();
    let mut commits = offsets(&topic, 2, 17, "clöcks");
    commits.extend(offsets(&topic, 0, 0, ""));
    producer.send_offsets(&commits, &generation, LONG).unwrap();
    producer.commit(LONG).unwrap();
    let mut reader = broker.reader().unwrap();
    let found = reader.committed(&generation.group, &[at(&topic, 0), at(&topic, 1), at(&topic, 2)], LONG).unwrap();
    let committed = |offset, metadata: &str| Some(Committed { offset: Offset(offset), metadata: metadata.to_owned() });
    assert_eq!(found, [committed(0, ""), None, committed(17, "clöcks")]);
    // A group that nobody ever knew has committed nothing.
    assert_eq!(reader.committed(&fresh("group", &broker), &[at(&topic, 0)], LONG).unwrap(), [None]);
}

#[test]
fn a_pending_offset_is_unstable_until_its_transaction_ends() {
    let broker = broker();
    let topic = topic(&broker, "unstable", 2);
    let mut consumer = member(&broker, &[&topic], 2);
    let generation = consumer.generation().unwrap();
    let mut producer = producer(&broker);
    producer.begin().unwrap();
    producer.send_offsets(&offsets(&topic, 0, 5, "m"), &generation, LONG).unwrap();
    let mut reader = broker.reader().unwrap();
    let wait = Duration::from_millis(300);
    let started = now();
    let error = reader.committed(&generation.group, &[at(&topic, 0)], wait).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unstable, "{error}");
    assert!(started.elapsed() >= wait && started.elapsed() < wait * 4, "{:?}", started.elapsed());
    assert_eq!(reader.committed(&generation.group, &[at(&topic, 1)], wait).unwrap(), [None]);
    producer.commit(LONG).unwrap();
    let found = reader.committed(&generation.group, &[at(&topic, 0)], LONG).unwrap();
    assert_eq!(found[0].as_ref().unwrap().offset, Offset(5));
}

#[test]
fn many_partitions_are_read_at_once_and_an_assignment_replaces_the_last() {
    let broker = broker();
    let topic = topic(&broker, "many", 8);
    for partition in 0..8 {
        write(&broker, &topic, partition, &["x", "y", "z"]);
    }
    let mut reader = broker.reader().unwrap();
    for from in [1, 0, 2] {
        let all: Vec<_> = (0..8).map(|partition| (at(&topic, partition), Offset(from))).collect();
        reader.assign(&all).unwrap();
        let mut seen = Vec::new();
        let until = now() + LONG;
        while all.iter().any(|(of, _)| reader.position(of).unwrap() != Some(Offset(4))) {
            assert!(now() < until, "{seen:?}");
            reader.poll(Duration::from_millis(50), &mut |polled| seen.push(Seen::of(polled))).unwrap();
        }
        for (of, _) in &all {
            let values: Vec<_> = seen.iter().filter(|seen| seen.at == *of).map(Seen::text).collect();
            assert_eq!(values, ["x", "y", "z"][from as usize..], "{of} from {from}");
        }
    }
}

#[test]
fn a_log_that_was_cut_is_told_from_an_empty_one() {
    let broker = broker();
    let topic = topic(&broker, "cut", 1);
    write(&broker, &topic, 0, &["0", "1", "2"]);
    broker.admin().unwrap().delete_records(&[(at(&topic, 0), Offset(2))], LONG).unwrap();
    let mut reader = broker.reader().unwrap();
    reader.assign(&[(at(&topic, 0), Offset(0))]).unwrap();
    let until = now() + LONG;
    let error = loop {
        assert!(now() < until, "no error");
        if let Err(error) = reader.poll(Duration::from_millis(50), &mut |_| panic!("it was deleted")) {
            break error;
        }
    };
    assert_eq!(error.kind, ErrorKind::OffsetOutOfRange, "{error}");
    assert!(error.message.contains(&topic), "{error}");
}

#[test]
fn watermarks_of_a_topic_that_does_not_exist_are_an_error_that_names_it() {
    let broker = broker();
    let topic = fresh("missing", &broker);
    let error = broker.reader().unwrap().watermarks(&[at(&topic, 0)], Duration::from_secs(5)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownTopic, "{error}");
    assert!(error.message.contains(&topic), "{error}");
}

#[test]
fn a_position_is_only_known_of_what_is_read() {
    let broker = broker();
    let error = broker.reader().unwrap().position(&at("elsewhere", 0)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
}
