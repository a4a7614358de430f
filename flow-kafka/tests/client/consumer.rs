use std::time::Duration;

use flow_core::{Headers, Offset, Partition, Timestamp};
use flow_kafka::broker::{Assignor, Broker, Consumer, ErrorKind, Next, Outgoing, Rebalance, TopicPartition};

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

/// A member that keeps to the rules: it starts what it is given where the last owner left off.
struct Worker {
    consumer: Box<dyn Consumer>,
    mine: Vec<TopicPartition>,
}

impl Worker {
    fn new(broker: &dyn Broker, group: &str, number: usize, assignor: Assignor, topic: &str) -> Worker {
        let mut consumer = broker.consumer(&spec(group, &format!("{group}-{number}"), assignor)).unwrap();
        consumer.subscribe(&[topic.to_owned()]).unwrap();
        Worker { consumer, mine: Vec::new() }
    }

    /// One poll. `next` is the offset that each partition goes on at, whoever owns it.
    fn step(&mut self, next: &mut [i64]) {
        let mine = &self.mine;
        let polled = self.consumer.poll(Duration::from_millis(2), &mut |polled| {
            let (of, offset) = (at(polled.topic, polled.partition.0), polled.record.offset.0);
            assert!(mine.contains(&of), "{of} is somebody else's");
            let next = &mut next[polled.partition.0 as usize];
            assert_eq!(offset, *next, "{of}");
            // Each record is a transaction of its own: the next offset is its marker.
            *next = offset + 2;
            Next::Continue
        });
        let Some(rebalance) = polled.unwrap() else { return };
        self.consumer.acknowledge(&rebalance).unwrap();
        match rebalance {
            Rebalance::Assigned(given) => {
                let from: Vec<_> = given.iter().map(|of| (of.clone(), Offset(next[of.partition.0 as usize]))).collect();
                self.mine.extend(given);
                self.consumer.start(&from).unwrap();
            }
            Rebalance::Revoked(gone) | Rebalance::Lost(gone) => self.mine.retain(|of| !gone.contains(of)),
        }
    }
}

/// Nothing is skipped, repeated or left lying while members come and go and records keep coming.
fn partitions_go_on_where_they_were_when_they_move(assignor: Assignor) {
    const PARTITIONS: i32 = 6;
    let broker = broker();
    let topic = topic(&broker, "moves", PARTITIONS);
    let group = fresh("group", &broker);
    let mut writer = producer(&broker);
    let mut written = [0; PARTITIONS as usize];
    let mut next = [0; PARTITIONS as usize];
    let mut workers = Vec::new();
    let mut made = 0;
    for round in 0..9 {
        // 1 2 3 2 3 4 3 4 5 members: some leave as others come.
        if round % 3 == 0 && workers.len() > 1 {
            let gone: Worker = workers.remove(0);
            gone.consumer.close();
        } else {
            workers.push(Worker::new(&broker, &group, made, assignor, &topic));
            made += 1;
        }
        let until = now() + LONG;
        let mut more = 40;
        loop {
            if more > 0 {
                let partition = more % PARTITIONS;
                fill(&mut *writer, &topic, partition, &["x"]);
                writer.commit(LONG).unwrap();
                written[partition as usize] += 2;
                more -= 1;
            }
            workers.iter_mut().for_each(|worker| worker.step(&mut next));
            let shared = workers.iter().map(|worker| worker.mine.len()).sum::<usize>() == PARTITIONS as usize;
            if more == 0 && next == written && shared && workers.iter().all(|worker| !worker.mine.is_empty()) {
                break;
            }
            assert!(now() < until, "round {round}: at {next:?} of {written:?} after {LONG:?}");
        }
    }
}

#[test]
fn partitions_go_on_where_they_were_when_they_move_by_range() {
    partitions_go_on_where_they_were_when_they_move(Assignor::Range);
}

#[test]
fn partitions_go_on_where_they_were_when_they_move_cooperatively() {
    partitions_go_on_where_they_were_when_they_move(Assignor::CooperativeSticky);
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
fn a_static_member_is_replaced_by_its_successor_and_shut_out() {
    let mut settings = settings();
    settings.instance = Some("pod-0".to_owned());
    let broker = flow_kafka::rdkafka::RdkafkaBroker::new(settings).unwrap();
    let topic = topic(&broker, "static", 1);
    let group = fresh("group", &broker);
    let mut old = broker.consumer(&spec(&group, "worker-0", Assignor::Range)).unwrap();
    old.subscribe(std::slice::from_ref(&topic)).unwrap();
    owned(&mut *old, &mut Vec::new(), 1);
    let generation = old.generation().unwrap();
    assert_eq!(generation.instance.as_deref(), Some("pod-0-worker-0"));

    let mut new = broker.consumer(&spec(&group, "worker-0", Assignor::Range)).unwrap();
    new.subscribe(std::slice::from_ref(&topic)).unwrap();
    owned(&mut *new, &mut Vec::new(), 1);
    let mut producer = producer(&broker);
    fill(&mut *producer, &topic, 0, &["zombie"]);
    let error = producer.send_offsets(&offsets(&topic, 0, 1, ""), &generation, LONG).unwrap_err();
    assert_eq!(error.kind, ErrorKind::StaleGeneration, "{error}");
    producer.abort(LONG).unwrap();
    let until = now() + LONG;
    let error = loop {
        assert!(now() < until, "no error");
        match old.poll(Duration::from_millis(50), &mut |_| Next::Continue) {
            Ok(Some(rebalance)) => old.acknowledge(&rebalance).unwrap(),
            Ok(None) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, ErrorKind::InstanceTaken, "{error}");
    assert!(error.message.contains("FENCED_INSTANCE_ID"), "{error}");
    fill(&mut *producer, &topic, 0, &["heir"]);
    producer.send_offsets(&offsets(&topic, 0, 3, ""), &new.generation().unwrap(), LONG).unwrap();
    producer.commit(LONG).unwrap();
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

#[test]
fn a_member_that_takes_nothing_more_hears_of_a_rebalance_because_it_pauses() {
    let broker = broker();
    let topic = topic(&broker, "full", 2);
    let values: Vec<_> = (0..9000).map(|number| number.to_string()).collect();
    write(&broker, &topic, 0, &values.iter().map(String::as_str).collect::<Vec<_>>());
    let group = fresh("group", &broker);
    let mut first = broker.consumer(&spec(&group, "first", Assignor::CooperativeSticky)).unwrap();
    first.subscribe(std::slice::from_ref(&topic)).unwrap();
    owned(&mut *first, &mut Vec::new(), 2);
    first.start(&[(at(&topic, 0), Offset(0))]).unwrap();
    take(&mut *first, 10);
    first.pause(&[at(&topic, 0)]).unwrap();
    let until = now() + Duration::from_secs(2);
    while now() < until {
        assert_eq!(first.poll(Duration::from_millis(20), &mut |_| Next::Stop).unwrap(), None);
    }
    let mut second = broker.consumer(&spec(&group, "second", Assignor::CooperativeSticky)).unwrap();
    second.subscribe(std::slice::from_ref(&topic)).unwrap();
    let until = now() + Duration::from_secs(8);
    loop {
        assert!(now() < until, "a member whose queue is full is deaf");
        second.poll(Duration::from_millis(20), &mut |_| Next::Stop).unwrap();
        if let Some(Rebalance::Revoked(_)) = first.poll(Duration::from_millis(20), &mut |_| Next::Stop).unwrap() {
            break;
        }
    }
}
