//! The engine without Kafka, each job beside the loop that does the same by hand. One iteration is 40,000 records and a commit.
#![allow(missing_docs, reason = "criterion's macros make items without docs")]

use std::hint::black_box;
use std::time::Duration;

use benches::data::Data;
use benches::engine;
use benches::hand::Hand;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const RECORDS: usize = 40_000;
const TIMEOUT: Duration = Duration::from_millis(5_000);

fn count(c: &mut Criterion) {
    for keys in [10_000, 100_000] {
        let data = Data::new(RECORDS, keys);
        let mut group = c.benchmark_group(format!("count, {keys} keys"));
        group.throughput(Throughput::Elements(RECORDS as u64));
        let mut task = engine::count();
        group.bench_function("flow", |b| {
            b.iter(|| {
                (0..RECORDS).for_each(|at| task.process(0, &data.record(at)).expect("a click"));
                black_box(engine::commit(&mut task))
            });
        });
        let mut hand = Hand::default();
        group.bench_function("hand", |b| {
            b.iter(|| {
                (0..RECORDS).for_each(|at| hand.count(&data.record(at)));
                black_box(hand.commit())
            });
        });
        group.finish();
    }
}

fn timers(c: &mut Criterion) {
    let data = Data::new(RECORDS, 10_000);
    let mut group = c.benchmark_group("count with a timer re-armed, 10000 keys");
    group.throughput(Throughput::Elements(RECORDS as u64));
    let mut task = engine::count_with_timer(TIMEOUT);
    group.bench_function("flow", |b| {
        b.iter(|| {
            (0..RECORDS).for_each(|at| task.process(0, &data.record(at)).expect("a click"));
            black_box(engine::commit(&mut task))
        });
    });
    let mut hand = Hand::default();
    group.bench_function("hand", |b| {
        b.iter(|| {
            (0..RECORDS).for_each(|at| hand.count_with_timer(&data.record(at), TIMEOUT.as_millis() as i64));
            black_box(hand.commit())
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_secs(2)).measurement_time(Duration::from_secs(5));
    targets = count, timers
}
criterion_main!(benches);
