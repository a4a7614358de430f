use std::time::Duration;

use flow_core::{Partition, Timestamp};
use flow_kafka::broker::{Broker, ErrorKind, Outgoing, ProducerSpec};

use crate::support::*;

#[test]
fn outputs_and_offsets_are_seen_together_or_not_at_all() {
    let broker = broker();
    let topic = topic(&broker, "together", 1);
    let mut consumer = member(&broker, &[&topic], 1);
    let generation = consumer.generation().unwrap();
    let mut reader = broker.reader().unwrap();
    let mut producer = producer(&broker);
    fill(&mut *producer, &topic, 0, &["aborted"]);
    producer.send_offsets(&offsets(&topic, 0, 1, "aborted"), &generation, LONG).unwrap();
    producer.abort(LONG).unwrap();
    assert_eq!(reader.committed(&generation.group, &[at(&topic, 0)], LONG).unwrap(), [None]);
    fill(&mut *producer, &topic, 0, &["committed"]);
    producer.send_offsets(&offsets(&topic, 0, 2, "committed"), &generation, LONG).unwrap();
    producer.commit(LONG).unwrap();
    let found = reader.committed(&generation.group, &[at(&topic, 0)], LONG).unwrap();
    assert_eq!(found[0].as_ref().unwrap().metadata, "committed");
    assert_eq!(texts(&read(&mut *reader, &at(&topic, 0), 0)), ["committed"]);
}

#[test]
fn a_generation_that_is_not_the_groups_is_refused_and_the_producer_goes_on() {
    let broker = broker();
    let topic = topic(&broker, "stale", 1);
    let mut consumer = member(&broker, &[&topic], 1);
    let generation = consumer.generation().unwrap();
    let mut producer = producer(&broker);
    let mut departed = generation.clone();
    departed.member = "somebody-else".to_owned();
    for wrong in [stale(&generation), departed] {
        fill(&mut *producer, &topic, 0, &["zombie"]);
        let error = producer.send_offsets(&offsets(&topic, 0, 1, ""), &wrong, LONG).unwrap_err();
        assert_eq!(error.kind, ErrorKind::StaleGeneration, "{error}");
        producer.abort(LONG).unwrap();
    }
    fill(&mut *producer, &topic, 0, &["owner"]);
    producer.send_offsets(&offsets(&topic, 0, 1, ""), &generation, LONG).unwrap();
    producer.commit(LONG).unwrap();
    assert_eq!(texts(&read(&mut *broker.reader().unwrap(), &at(&topic, 0), 0)), ["owner"]);
}

#[test]
fn a_transaction_without_a_fence_is_refused_before_the_broker_is_asked() {
    let broker = broker();
    let topic = topic(&broker, "unfenced", 1);
    let mut consumer = member(&broker, &[&topic], 1);
    let live = consumer.generation().unwrap();
    let mut producer = producer(&broker);
    producer.begin().unwrap();
    let empty = producer.send_offsets(&[], &live, LONG).unwrap_err();
    assert_eq!(empty.kind, ErrorKind::Refused, "{empty}");
    let invalid = producer.send_offsets(&offsets(&topic, 0, -1001, ""), &live, LONG).unwrap_err();
    assert_eq!(invalid.kind, ErrorKind::Refused, "{invalid}");
    for (id, member) in [(-1, ""), (0, "m"), (1, "")] {
        let mut nobody = live.clone();
        (nobody.id, nobody.member) = (id, member.to_owned());
        let error = producer.send_offsets(&offsets(&topic, 0, 1, ""), &nobody, LONG).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoGeneration, "{error}");
    }
    producer.abort(LONG).unwrap();
}

#[test]
fn a_producer_whose_id_was_initialised_again_is_fenced() {
    let broker = broker();
    let topic = topic(&broker, "fenced", 1);
    let mut consumer = member(&broker, &[&topic], 1);
    let generation = consumer.generation().unwrap();
    let spec = ProducerSpec { transactional_id: fresh("tx", &broker), client_id: "old".to_owned() };
    let mut old = broker.producer(&spec).unwrap();
    old.init(LONG).unwrap();
    fill(&mut *old, &topic, 0, &["zombie"]);
    let mut new = broker.producer(&ProducerSpec { client_id: "new".to_owned(), ..spec }).unwrap();
    new.init(LONG).unwrap();
    let error = match old.send_offsets(&offsets(&topic, 0, 1, ""), &generation, LONG) {
        Err(error) => error,
        Ok(()) => old.commit(LONG).unwrap_err(),
    };
    assert_eq!(error.kind, ErrorKind::Fenced, "{error}");
    fill(&mut *new, &topic, 0, &["heir"]);
    new.send_offsets(&offsets(&topic, 0, 2, ""), &generation, LONG).unwrap();
    new.commit(LONG).unwrap();
    assert_eq!(texts(&read(&mut *broker.reader().unwrap(), &at(&topic, 0), 0)), ["heir"]);
}

#[test]
fn initialising_a_dead_owners_id_frees_its_pending_offsets() {
    let broker = broker();
    let topic = topic(&broker, "takeover", 1);
    let mut consumer = member(&broker, &[&topic], 1);
    let generation = consumer.generation().unwrap();
    let spec = ProducerSpec { transactional_id: fresh("tx", &broker), client_id: "dead".to_owned() };
    let mut dead = broker.producer(&spec).unwrap();
    dead.init(LONG).unwrap();
    fill(&mut *dead, &topic, 0, &["lost"]);
    dead.send_offsets(&offsets(&topic, 0, 1, ""), &generation, LONG).unwrap();
    let mut reader = broker.reader().unwrap();
    let wait = Duration::from_millis(100);
    assert_eq!(reader.committed(&generation.group, &[at(&topic, 0)], wait).unwrap_err().kind, ErrorKind::Unstable);
    broker.producer(&ProducerSpec { client_id: "heir".to_owned(), ..spec }).unwrap().init(LONG).unwrap();
    assert_eq!(reader.committed(&generation.group, &[at(&topic, 0)], LONG).unwrap(), [None]);
    assert!(read(&mut *reader, &at(&topic, 0), 0).is_empty());
}

/// The record is refused by the broker, named, and the producer is good for another transaction (at the latest the second).
fn refused(topic: &str, broker: &dyn Broker, bad: impl Fn(flow_kafka::broker::TopicId) -> Outgoing<'static>) {
    let mut producer = producer(broker);
    producer.begin().unwrap();
    let id = producer.topic(topic).unwrap();
    producer.send(&[bad(id)]).unwrap();
    let started = now();
    let error = producer.flush(LONG).unwrap_err();
    assert_eq!(error.kind, ErrorKind::RecordRefused, "{error}");
    assert!(error.message.contains(&format!("{topic}/0")), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    producer.abort(LONG).unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let mut tries = 0;
    loop {
        tries += 1;
        producer.begin().unwrap();
        let sent = producer.send(&[record(id, 0, "good")]).and_then(|()| producer.flush(LONG));
        match sent.and_then(|()| producer.commit(LONG)) {
            Ok(()) => break,
            Err(error) if tries < 4 => {
                assert_eq!(error.kind, ErrorKind::Abort, "{error}");
                producer.abort(LONG).unwrap();
            }
            Err(error) => panic!("after {tries} tries: {error}"),
        }
    }
    assert_eq!(texts(&read(&mut *broker.reader().unwrap(), &at(topic, 0), 0)), ["good"]);
}

#[test]
fn a_record_too_large_for_its_topic_is_named() {
    let broker = broker();
    let topic = topic_with(&broker, "narrow", 1, &[("max.message.bytes", "1000")]);
    let large: &'static [u8] = vec![7; 5000].leak();
    refused(&topic, &broker, |id| Outgoing { value: Some(large), ..record(id, 0, "large") });
}

#[test]
fn a_record_two_hours_ahead_of_the_broker_is_named() {
    let broker = broker();
    let topic = topic(&broker, "ahead", 1);
    let ahead = Timestamp::from_millis(wall_clock() + 2 * 3_600_000);
    refused(&topic, &broker, |id| Outgoing { timestamp: Some(ahead), ..record(id, 0, "ahead") });
}

#[test]
fn a_record_too_large_for_the_client_is_refused_at_once() {
    let broker = broker();
    let topic = topic(&broker, "huge", 1);
    let mut producer = producer(&broker);
    producer.begin().unwrap();
    let id = producer.topic(&topic).unwrap();
    let huge = vec![7; 2_000_000];
    for timestamp in [None, Some(Timestamp::from_millis(wall_clock()))] {
        let huge = Outgoing { value: Some(&huge), timestamp, ..record(id, 0, "huge") };
        let error = producer.send(&[record(id, 0, "small"), huge]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::RecordRefused, "{error}");
        assert!(error.message.contains(&format!("{topic}/0")), "{error}");
    }
    producer.abort(LONG).unwrap();
}

#[test]
fn a_topic_that_does_not_exist_is_an_error_before_the_transaction_times_out() {
    let broker = broker();
    let missing = fresh("missing", &broker);
    let mut producer = producer(&broker);
    producer.begin().unwrap();
    let id = producer.topic(&missing).unwrap();
    producer.send(&[record(id, 0, "nowhere")]).unwrap();
    let started = now();
    let error = producer.flush(LONG).unwrap_err();
    assert_eq!(error.kind, ErrorKind::RecordRefused, "{error}");
    assert!(error.message.contains(&missing), "{error}");
    assert!(started.elapsed() < settings().transaction_timeout, "{:?}", started.elapsed());
    producer.abort(LONG).unwrap();
}

#[test]
fn metadata_beyond_the_brokers_limit_is_refused() {
    let broker = broker();
    let topic = topic(&broker, "metadata", 1);
    let mut consumer = member(&broker, &[&topic], 1);
    let generation = consumer.generation().unwrap();
    let mut producer = producer(&broker);
    producer.begin().unwrap();
    producer.send_offsets(&offsets(&topic, 0, 1, &"m".repeat(4096)), &generation, LONG).unwrap();
    let error = producer.send_offsets(&offsets(&topic, 0, 1, &"m".repeat(4097)), &generation, LONG).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    producer.abort(LONG).unwrap();
}

#[test]
fn order_within_a_partition_is_kept_across_both_ways_of_sending() {
    let broker = broker();
    let name = topic(&broker, "order", 2);
    let mut producer = producer(&broker);
    producer.begin().unwrap();
    let topic = producer.topic(&name).unwrap();
    let values: Vec<_> = (0..5000).map(|number| number.to_string()).collect();
    let stamp = Timestamp::from_millis(wall_clock());
    let records: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(number, value)| Outgoing {
            partition: Partition((number / 2 % 2) as i32),
            timestamp: (number % 7 < 3).then_some(stamp),
            ..record(topic, 0, value)
        })
        .collect();
    producer.send(&records).unwrap();
    producer.flush(LONG).unwrap();
    producer.commit(LONG).unwrap();
    let mut reader = broker.reader().unwrap();
    for partition in 0..2 {
        let seen = read(&mut *reader, &at(&name, partition), 0);
        let sent = values.iter().enumerate().filter(|(n, _)| (n / 2 % 2) as i32 == partition);
        assert_eq!(texts(&seen), sent.map(|(_, value)| value.as_str()).collect::<Vec<_>>());
    }
}

#[test]
fn a_full_queue_is_waited_for() {
    let mut settings = settings();
    settings.overrides = vec![("queue.buffering.max.messages".to_owned(), "50".to_owned())];
    let broker = flow_kafka::rdkafka::RdkafkaBroker::new(settings).unwrap();
    let name = topic(&broker, "full", 1);
    let mut producer = producer(&broker);
    producer.begin().unwrap();
    let topic = producer.topic(&name).unwrap();
    let values: Vec<_> = (0..700).map(|number| number.to_string()).collect();
    let records: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(number, value)| Outgoing {
            timestamp: (number >= 400).then_some(Timestamp::from_millis(1_700_000_000_000)),
            ..record(topic, 0, value)
        })
        .collect();
    producer.send(&records).unwrap();
    producer.flush(LONG).unwrap();
    producer.commit(LONG).unwrap();
    assert_eq!(texts(&read(&mut *broker.reader().unwrap(), &at(&name, 0), 0)), values);
}

#[test]
fn calls_out_of_order_are_errors_and_no_hangs() {
    let broker = broker();
    let topic = topic(&broker, "order", 1);
    let spec = ProducerSpec { transactional_id: fresh("tx", &broker), client_id: "early".to_owned() };
    let mut producer = broker.producer(&spec).unwrap();
    assert!(producer.begin().is_err());
    producer.init(LONG).unwrap();
    let id = producer.topic(&topic).unwrap();
    assert!(producer.send(&[record(id, 0, "outside a transaction")]).is_err());
    assert!(producer.commit(Duration::from_secs(1)).is_err());
    assert!(producer.topic("a\0b").is_err());
    assert!(producer.send(&[record(flow_kafka::broker::TopicId(9), 0, "no topic")]).is_err());
}

#[test]
fn a_broker_that_is_away_is_no_answer_yet() {
    let mut settings = settings();
    settings.bootstrap = "127.0.0.1:1".to_owned();
    let broker = flow_kafka::rdkafka::RdkafkaBroker::new(settings).unwrap();
    let spec = ProducerSpec { transactional_id: "t".to_owned(), client_id: "c".to_owned() };
    let started = now();
    let error = broker.producer(&spec).unwrap().init(Duration::from_millis(300)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retriable, "{error}");
    let error = broker.reader().unwrap().committed("g", &[at("t", 0)], Duration::from_millis(300)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retriable, "{error}");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

/// The client wrapper that others use needs 100 ms here.
#[test]
fn a_commit_of_a_thousand_records_on_sixteen_partitions_takes_a_few_milliseconds() {
    let broker = broker();
    let name = topic(&broker, "latency", 16);
    let mut consumer = member(&broker, &[&name], 16);
    let generation = consumer.generation().unwrap();
    let mut producer = producer(&broker);
    let topic = producer.topic(&name).unwrap();
    let value = "x".repeat(100);
    let records: Vec<_> = (0..1000).map(|number| record(topic, number % 16, &value)).collect();
    let mut times = Vec::new();
    for _ in 0..40 {
        broker.host().sleep(Duration::from_millis(20));
        let started = now();
        producer.begin().unwrap();
        producer.send(&records).unwrap();
        producer.flush(LONG).unwrap();
        producer.send_offsets(&offsets(&name, 0, 1, ""), &generation, LONG).unwrap();
        producer.commit(LONG).unwrap();
        times.push(started.elapsed());
        consumer.poll(Duration::ZERO, &mut |_| flow_kafka::broker::Next::Continue).unwrap();
    }
    times.sort();
    println!("commit of 1,000 records on 16 partitions: p50 {:?}, p90 {:?}", times[20], times[36]);
    assert!(times[20] < Duration::from_millis(50), "p50 {:?}", times[20]);
}

#[test]
fn dropping_a_client_never_waits_for_what_it_has_not_done_yet() {
    let broker = broker();
    let topic = topic(&broker, "drop", 1);
    let consumer = member(&broker, &[&topic], 1);
    let reader = broker.reader().unwrap();
    let mut open = producer(&broker);
    fill(&mut *open, &topic, 0, &["in an open transaction"]);
    let mut busy = producer(&broker);
    busy.begin().unwrap();
    let to = busy.topic(&topic).unwrap();
    let value = "x".repeat(1000);
    // Not acknowledged yet, all of it.
    (0..50).for_each(|_| busy.send(&vec![record(to, 0, &value); 1000]).unwrap());
    let mut nowhere = settings();
    nowhere.bootstrap = "127.0.0.1:1".to_owned();
    let nowhere = flow_kafka::rdkafka::RdkafkaBroker::new(nowhere).unwrap();
    let spec = ProducerSpec { transactional_id: "nobody".to_owned(), client_id: "nobody".to_owned() };
    let mut away = nowhere.producer(&spec).unwrap();
    away.init(Duration::from_millis(100)).unwrap_err();
    let begin = now();
    drop((consumer, reader, open, busy, away));
    assert!(begin.elapsed() < Duration::from_millis(100), "{:?}", begin.elapsed());
}
