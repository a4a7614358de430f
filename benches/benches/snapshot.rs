//! Snapshots: writing those of changed keys at a commit, and taking them back in a recovery. One iteration is 10,000 keys.
#![allow(missing_docs, reason = "criterion's macros make items without docs")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use benches::data::Data;
use benches::engine;
use benches::hand::{self, Hand};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flow_core::Task;

const KEYS: usize = 10_000;
const TIMEOUT: Duration = Duration::from_secs(30 * 60);
type Snapshots = Vec<(Vec<u8>, Vec<u8>)>;

fn touch(task: &mut Task, data: &Data) {
    (0..KEYS).for_each(|at| task.process(0, &data.record(at)).expect("a click"));
}

fn touch_by_hand(hand: &mut Hand, data: &Data) {
    (0..KEYS).for_each(|at| hand.count_with_timer(&data.record(at), TIMEOUT.as_millis() as i64));
}

/// The time of `measured` alone, each time after `prepare`.
fn timed<S>(times: u64, subject: &mut S, prepare: impl Fn(&mut S), measured: impl Fn(&mut S)) -> Duration {
    let mut time = Duration::ZERO;
    for _ in 0..times {
        prepare(subject);
        let start = Instant::now();
        measured(subject);
        time += start.elapsed();
    }
    time
}

fn write(c: &mut Criterion) {
    let data = Data::one_each(KEYS);
    let mut group = c.benchmark_group("write the snapshots of 10000 keys");
    group.throughput(Throughput::Elements(KEYS as u64));
    let mut task = engine::count_with_timer(TIMEOUT);
    group.bench_function("flow", |b| {
        let commit = |task: &mut Task| _ = black_box(engine::commit(task));
        b.iter_custom(|times| timed(times, &mut task, |task| touch(task, &data), commit));
    });
    let mut hand = Hand::default();
    group.bench_function("hand", |b| {
        let commit = |hand: &mut Hand| _ = black_box(hand.commit());
        b.iter_custom(|times| timed(times, &mut hand, |hand| touch_by_hand(hand, &data), commit));
    });
    group.finish();
}

fn restore(c: &mut Criterion) {
    let data = Data::one_each(KEYS);
    let (by_engine, by_hand) = (snapshots(&data), hand_snapshots(&data));
    let take_back = |task: &mut Task| {
        by_engine.iter().for_each(|(key, value)| task.restore(0, key, Some(value)).expect("our own snapshot"));
    };
    let take_back_by_hand = |hand: &mut Hand| by_hand.iter().for_each(|(key, value)| hand.restore(key, value));

    let mut group = c.benchmark_group("restore 10000 keys");
    group.throughput(Throughput::Elements(KEYS as u64));
    group.bench_function("flow", |b| {
        let fresh = |task: &mut Task| *task = engine::count_with_timer(TIMEOUT);
        b.iter_custom(|times| timed(times, &mut engine::count_with_timer(TIMEOUT), fresh, take_back));
    });
    group.bench_function("hand", |b| {
        let fresh = |hand: &mut Hand| *hand = Hand::default();
        b.iter_custom(|times| timed(times, &mut Hand::default(), fresh, take_back_by_hand));
    });
    group.finish();

    // The engine decodes a state when it is first used: so the whole cost is seen only with the first record of each key.
    let mut group = c.benchmark_group("first click of each of 10000 keys after a restore");
    group.throughput(Throughput::Elements(KEYS as u64));
    group.bench_function("flow", |b| {
        let restored = |task: &mut Task| {
            *task = engine::count_with_timer(TIMEOUT);
            take_back(task);
        };
        b.iter_custom(|times| {
            timed(times, &mut engine::count_with_timer(TIMEOUT), restored, |task| touch(task, &data))
        });
    });
    group.bench_function("hand", |b| {
        let restored = |hand: &mut Hand| {
            *hand = Hand::default();
            take_back_by_hand(hand);
        };
        b.iter_custom(|times| timed(times, &mut Hand::default(), restored, |hand| touch_by_hand(hand, &data)));
    });
    group.finish();
}

fn snapshots(data: &Data) -> Snapshots {
    let mut task = engine::count_with_timer(TIMEOUT);
    touch(&mut task, data);
    task.prepare_commit().expect("counts can be written");
    let effects = task.effects();
    let all = (0..effects.snapshots_len()).map(|at| effects.snapshot(at));
    all.map(|snapshot| (snapshot.key.to_vec(), snapshot.value.expect("a count").to_vec())).collect()
}

fn hand_snapshots(data: &Data) -> Snapshots {
    let one = |at: usize| {
        let mut value = Vec::new();
        let record = data.record(at);
        let time = record.timestamp.expect("a click has a time").as_millis();
        hand::snapshot(&mut value, time + TIMEOUT.as_millis() as i64, 1);
        (record.key.expect("a click has a key").to_vec(), value)
    };
    (0..KEYS).map(one).collect()
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(5));
    targets = write, restore
}
criterion_main!(benches);
