use std::time::Duration;

use flow_core::{Headers, Offset, Partition, Timestamp};
use flow_kafka::broker::{Assignor, Broker, ErrorKind, Next, Outgoing, Rebalance};

use crate::support::*;

#[test]
fn records_arrive_as_they_were_sent() {
    let broker = broker();
    let name = topic(&broker, "as-sent", 1);
    let mut headers = Headers::new();
    headers.push("trace", Some(b"\x00\xff"));
    headers.push("null", None);
    headers.push("trace", Some(b""));
    let mut producer = producer(&broker);
    producer.begin().unwrap();
    let topic = producer.topic(&name).unwrap();
    let stamp = wall_clock() - 1000;
    let record = |key: Option<&'static [u8]>, value: Option<&'static [u8]>, time: Option<i64>| Outgoing {
        topic,
        partition: Partition(0),
        key,
        value,
        timestamp: time.map(Timestamp::from_millis),
        headers: Headers::new().as_ref().is_empty().then(flow_core::HeadersRef::default).unwrap(),
    };
    let sent = [
        record(Some(b"k"), Some(b"v"), Some(stamp)),
        record(None, Some(b"no key"), None),
        record(Some(b""), Some(b""), Some(1)),
        record(Some(b"tombstone"), None, Some(0)),
        Outgoing { headers: headers.as_ref(), ..record(Some(b"h"), Some(b"headers"), Some(stamp + 1)) },
    ];
    producer.send(&sent).unwrap();
    producer.flush(LONG).unwrap();
    producer.commit(LONG).unwrap();

    let mut consumer = member(&broker, &[&name], 1);
    consumer.start(&[(at(&name, 0), Offset(0))]).unwrap();
    let seen = take(&mut *consumer, sent.len());
    for (index, (sent, seen)) in sent.iter().zip(&seen).enumerate() {
        assert_eq!((seen.key.as_deref(), seen.value.as_deref()), (sent.key, sent.value), "record {index}");
        assert_eq!(seen.headers.as_ref(), sent.headers, "record {index}");
        assert_eq!((seen.offset, &seen.at), (index as i64, &at(&name, 0)));
    }
    let times: Vec<_> = seen.iter().map(|seen| seen.timestamp.unwrap().as_millis()).collect();
    assert_eq!((times[0], times[2], times[4]), (stamp, 1, stamp + 1));
    assert!(times[1] > stamp, "the client chooses now");
    assert_eq!(times[3], 1, "librdkafka cannot send a timestamp of 0");
}

#[test]
fn an_assigned_partition_is_silent_until_it_is_started_and_then_begins_where_it_was_told() {
    let broker = broker();
    let topic = topic(&broker, "start", 2);
    write(&broker, &topic, 0, &["a0", "a1", "a2"]);
    write(&broker, &topic, 1, &["b0", "b1", "b2"]);
    let mut consumer = member(&broker, &[&topic], 2);
    assert_eq!(drain(&mut *consumer, Duration::from_millis(300)), []);
    consumer.start(&[(at(&topic, 1), Offset(2))]).unwrap();
    assert_eq!(texts(&take(&mut *consumer, 1)), ["b2"]);
    assert_eq!(drain(&mut *consumer, Duration::from_millis(200)), []);
    consumer.start(&[(at(&topic, 0), Offset(1))]).unwrap();
    assert_eq!(texts(&take(&mut *consumer, 2)), ["a1", "a2"]);
}

#[test]
fn a_started_partition_can_be_moved_back() {
    let broker = broker();
    let topic = topic(&broker, "back", 1);
    write(&broker, &topic, 0, &["0", "1", "2", "3"]);
    let mut consumer = member(&broker, &[&topic], 1);
    consumer.start(&[(at(&topic, 0), Offset(0))]).unwrap();
    assert_eq!(texts(&take(&mut *consumer, 2)), ["0", "1"]);
    consumer.start(&[(at(&topic, 0), Offset(1))]).unwrap();
    assert_eq!(texts(&take(&mut *consumer, 3)), ["1", "2", "3"]);
}

#[test]
fn a_record_that_was_not_taken_comes_again() {
    let broker = broker();
    let topic = topic(&broker, "stop", 1);
    write(&broker, &topic, 0, &["0", "1", "2"]);
    let mut consumer = member(&broker, &[&topic], 1);
    consumer.start(&[(at(&topic, 0), Offset(0))]).unwrap();
    let mut offered = Vec::new();
    for _ in 0..40 {
        let polled = consumer.poll(Duration::from_millis(50), &mut |polled| {
            offered.push(polled.record.offset.0);
            // Every second time it is offered.
            if offered.len() % 2 == 1 { Next::Stop } else { Next::Continue }
        });
        assert_eq!(polled.unwrap(), None);
        if offered.len() == 6 {
            break;
        }
    }
    assert_eq!(offered, [0, 0, 1, 1, 2, 2]);
}

#[test]
fn a_paused_partition_keeps_its_place_and_others_flow() {
    let broker = broker();
    let topic = topic(&broker, "pause", 2);
    let values: Vec<_> = (0..3000).map(|number| format!("a{number}")).collect();
    write(&broker, &topic, 0, &values.iter().map(String::as_str).collect::<Vec<_>>());
    let mut consumer = member(&broker, &[&topic], 2);
    consumer.start(&[(at(&topic, 0), Offset(0)), (at(&topic, 1), Offset(0))]).unwrap();
    let mut seen = take(&mut *consumer, 10);
    consumer.pause(&[at(&topic, 0)]).unwrap();
    assert_eq!(drain(&mut *consumer, Duration::from_millis(200)), []);
    write(&broker, &topic, 1, &["b0"]);
    assert_eq!(texts(&take(&mut *consumer, 1)), ["b0"]);
    consumer.resume(&[at(&topic, 0)]).unwrap();
    seen.extend(take(&mut *consumer, values.len() - 10));
    assert_eq!(texts(&seen), values);
}

#[test]
fn a_partition_that_is_not_ours_cannot_be_touched() {
    let broker = broker();
    let topic = topic(&broker, "foreign", 1);
    let mut consumer = member(&broker, &[&topic], 1);
    for error in [
        consumer.start(&[(at(&topic, 9), Offset(0))]).unwrap_err(),
        consumer.pause(&[at("elsewhere", 0)]).unwrap_err(),
        consumer.resume(&[at(&topic, 0)]).unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    }
}

#[test]
fn the_generation_is_refused_until_there_is_one() {
    let broker = broker();
    let topic = topic(&broker, "generation", 1);
    let group = fresh("group", &broker);
    let mut consumer = broker.consumer(&spec(&group, "gen", Assignor::Range)).unwrap();
    assert_eq!(consumer.generation().unwrap_err().kind, ErrorKind::NoGeneration);
    consumer.subscribe(&[topic]).unwrap();
    owned(&mut *consumer, &mut Vec::new(), 1);
    let generation = consumer.generation().unwrap();
    assert!(generation.id >= 1 && !generation.member.is_empty(), "{generation:?}");
    assert_eq!((generation.group, generation.instance), (group, None));
}

/// Until a rebalance is acknowledged no record is handed out, of any partition; afterwards each one goes on where it was.
fn a_second_member_takes_its_share(assignor: Assignor) {
    let broker = broker();
    let topic = topic(&broker, "share", 4);
    for partition in 0..4 {
        write(&broker, &topic, partition, &["0", "1", "2"]);
    }
    let group = fresh("group", &broker);
    let mut first = broker.consumer(&spec(&group, "first", assignor)).unwrap();
    first.subscribe(std::slice::from_ref(&topic)).unwrap();
    let mut firsts = Vec::new();
    owned(&mut *first, &mut firsts, 4);
    let before = first.generation().unwrap();
    first.start(&firsts.iter().map(|of| (of.clone(), Offset(0))).collect::<Vec<_>>()).unwrap();
    assert_eq!(take(&mut *first, 12).len(), 12);

    let mut second = broker.consumer(&spec(&group, "second", assignor)).unwrap();
    second.subscribe(std::slice::from_ref(&topic)).unwrap();
    let mut seconds = Vec::new();
    let revoked = loop {
        step(&mut *second, &mut seconds);
        match first.poll(Duration::from_millis(50), &mut |_| panic!("all was read")).unwrap() {
            None => {}
            Some(Rebalance::Revoked(revoked)) => break Rebalance::Revoked(revoked),
            Some(other) => first.acknowledge(&other).unwrap(),
        }
    };
    let Rebalance::Revoked(gone) = &revoked else { panic!("{revoked:?}") };
    assert_eq!(gone.len(), if assignor == Assignor::Range { 4 } else { 2 });

    // Still ours, and nothing flows.
    write(&broker, &topic, 0, &["3"]);
    write(&broker, &topic, 3, &["3"]);
    for _ in 0..5 {
        assert_eq!(first.poll(Duration::from_millis(50), &mut |_| panic!("not acknowledged")).unwrap(), None);
        step(&mut *second, &mut seconds);
    }
    assert!(seconds.is_empty(), "{seconds:?} was given away before the acknowledgement");
    let mut other = producer(&broker);
    fill(&mut *other, &topic, 1, &[]);
    let fresh = first.generation().unwrap();
    other.send_offsets(&offsets(&topic, 1, 3, ""), &fresh, LONG).unwrap();
    other.commit(LONG).unwrap();

    let wrong = Rebalance::Assigned(Vec::new());
    assert_eq!(first.acknowledge(&wrong).unwrap_err().kind, ErrorKind::Refused);
    first.acknowledge(&revoked).unwrap();
    firsts.retain(|of| !gone.contains(of));
    let until = now() + LONG;
    let mut seen = Vec::new();
    while firsts.len() != 2 || seconds.len() != 2 {
        assert!(now() < until, "{firsts:?} and {seconds:?} after {LONG:?}");
        step(&mut *second, &mut seconds);
        let polled = first.poll(Duration::from_millis(20), &mut |polled| {
            seen.push(Seen::of(polled));
            Next::Continue
        });
        if let Some(rebalance) = polled.unwrap() {
            match &rebalance {
                Rebalance::Assigned(more) => firsts.extend(more.iter().cloned()),
                Rebalance::Revoked(less) | Rebalance::Lost(less) => firsts.retain(|of| !less.contains(of)),
            }
            first.acknowledge(&rebalance).unwrap();
        }
    }
    assert!(first.generation().unwrap().id > before.id);
    // What stayed with the first member goes on; what was given anew waits for its start.
    seconds.sort();
    let kept: Vec<_> = [0, 3].into_iter().map(|p| at(&topic, p)).filter(|of| firsts.contains(of)).collect();
    if assignor == Assignor::Range {
        assert!(drain(&mut *first, Duration::from_millis(200)).is_empty() && seen.is_empty());
        first.start(&kept.iter().map(|of| (of.clone(), Offset(4))).collect::<Vec<_>>()).unwrap();
    }
    // The offsets are 0 1 2, a marker, then the new record.
    while seen.len() < kept.len() {
        seen.extend(take(&mut *first, 1));
    }
    for record in &seen {
        assert!(kept.contains(&record.at) && record.offset == 4 && record.text() == "3", "{record:?}");
    }
    second.start(&seconds.iter().map(|of| (of.clone(), Offset(2))).collect::<Vec<_>>()).unwrap();
    let expected = 2 + (2 - kept.len());
    let mut seen: Vec<_> = take(&mut *second, expected).into_iter().map(|s| (s.at.clone(), s.offset)).collect();
    seen.sort();
    assert!(seen.iter().all(|(of, _)| seconds.contains(of)), "{seen:?}");
}

#[test]
fn a_second_member_takes_its_share_by_range() {
    a_second_member_takes_its_share(Assignor::Range);
}

#[test]
fn a_second_member_takes_its_share_cooperatively() {
    a_second_member_takes_its_share(Assignor::CooperativeSticky);
}

#[test]
fn a_closed_member_leaves_at_once_even_with_a_rebalance_that_nobody_answered() {
    let broker = broker();
    let topic = topic(&broker, "leave", 2);
    for assignor in [Assignor::Range, Assignor::CooperativeSticky] {
        let group = fresh("group", &broker);
        let mut first = broker.consumer(&spec(&group, "first", assignor)).unwrap();
        first.subscribe(std::slice::from_ref(&topic)).unwrap();
        let unanswered = loop {
            match rebalance(&mut *first) {
                Rebalance::Assigned(all) if all.len() == 2 => break all,
                other => first.acknowledge(&other).unwrap(),
            }
        };
        assert_eq!(unanswered.len(), 2);
        let started = now();
        first.close();
        let mut second = broker.consumer(&spec(&group, "second", assignor)).unwrap();
        second.subscribe(std::slice::from_ref(&topic)).unwrap();
        owned(&mut *second, &mut Vec::new(), 2);
        // The session timeout is 6 s.
        assert!(started.elapsed() < Duration::from_secs(5), "{assignor:?}: {:?}", started.elapsed());
        drop(second);
    }
}

#[test]
fn a_member_that_does_not_poll_loses_its_partitions_and_says_so() {
    let mut slow = settings();
    slow.max_poll_interval = slow.session_timeout;
    let broker = flow_kafka::rdkafka::RdkafkaBroker::new(slow).unwrap();
    let topic = topic(&broker, "lost", 1);
    let mut consumer = member(&broker, &[&topic], 1);
    consumer.start(&[(at(&topic, 0), Offset(0))]).unwrap();
    assert!(consumer.generation().is_ok());
    broker.host().sleep(Duration::from_millis(7500));
    assert_eq!(consumer.generation().unwrap_err().kind, ErrorKind::NoGeneration);
    assert_eq!(rebalance(&mut *consumer), Rebalance::Lost(vec![at(&topic, 0)]));
    consumer.acknowledge(&Rebalance::Lost(vec![at(&topic, 0)])).unwrap();
    owned(&mut *consumer, &mut Vec::new(), 1);
}

#[test]
fn lag_counts_what_is_not_handed_out_and_passes_markers() {
    let broker = broker();
    let topic = topic(&broker, "lag", 1);
    write(&broker, &topic, 0, &["0", "1", "2"]);
    let mut consumer = member(&broker, &[&topic], 1);
    assert_eq!(consumer.lag(&at(&topic, 0)), None, "not started");
    consumer.start(&[(at(&topic, 0), Offset(0))]).unwrap();
    take(&mut *consumer, 1);
    assert_eq!(consumer.lag(&at(&topic, 0)), Some(3), "two records and a marker");
    take(&mut *consumer, 2);
    let until = now() + LONG;
    while consumer.lag(&at(&topic, 0)) != Some(0) {
        assert!(now() < until, "{:?}", consumer.lag(&at(&topic, 0)));
        drain(&mut *consumer, Duration::from_millis(20));
    }
    // At the end of a log that it reads nothing from.
    consumer.start(&[(at(&topic, 0), Offset(4))]).unwrap();
    while consumer.lag(&at(&topic, 0)) != Some(0) {
        assert!(now() < until, "{:?}", consumer.lag(&at(&topic, 0)));
        drain(&mut *consumer, Duration::from_millis(20));
    }
}

#[test]
fn an_offset_that_was_deleted_is_an_error_and_no_jump() {
    let broker = broker();
    let topic = topic(&broker, "truncated", 1);
    write(&broker, &topic, 0, &["0", "1", "2"]);
    broker.admin().unwrap().delete_records(&[(at(&topic, 0), Offset(2))], LONG).unwrap();
    let mut consumer = member(&broker, &[&topic], 1);
    consumer.start(&[(at(&topic, 0), Offset(0))]).unwrap();
    let until = now() + LONG;
    let error = loop {
        assert!(now() < until, "no error");
        match consumer.poll(Duration::from_millis(50), &mut |polled| panic!("offset {}", polled.record.offset)) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, ErrorKind::OffsetOutOfRange, "{error}");
    assert!(error.message.contains(&topic), "{error}");
}

/// An assigned partition must not be fetched before it is started: at the offset 0 that it stands at it would fail for good.
#[test]
fn a_partition_whose_first_records_are_gone_can_be_started_where_it_begins() {
    let broker = broker();
    let topic = topic(&broker, "purged", 8);
    let all: Vec<_> = (0..8).map(|partition| at(&topic, partition)).collect();
    for of in &all {
        write(&broker, &topic, of.partition.0, &["0", "1", "2"]);
    }
    let below: Vec<_> = all.iter().map(|of| (of.clone(), Offset(2))).collect();
    broker.admin().unwrap().delete_records(&below, LONG).unwrap();
    for _ in 0..3 {
        let mut consumer = member(&broker, &[&topic], 8);
        broker.host().sleep(Duration::from_millis(200));
        consumer.start(&below).unwrap();
        assert_eq!(texts(&take(&mut *consumer, 8)), ["2"; 8]);
        consumer.close();
    }
}

#[test]
fn a_topic_that_does_not_exist_is_an_error() {
    let broker = broker();
    let group = fresh("group", &broker);
    let mut consumer = broker.consumer(&spec(&group, "missing", Assignor::Range)).unwrap();
    let topic = fresh("missing", &broker);
    consumer.subscribe(std::slice::from_ref(&topic)).unwrap();
    let until = now() + LONG;
    let error = loop {
        assert!(now() < until, "no error");
        match consumer.poll(Duration::from_millis(50), &mut |_| Next::Continue) {
            Ok(Some(rebalance)) => consumer.acknowledge(&rebalance).unwrap(),
            Ok(None) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, ErrorKind::UnknownTopic, "{error}");
    assert!(error.message.contains(&topic), "{error}");
}
