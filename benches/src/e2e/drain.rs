//! Drains the input with the library.

use std::time::{Duration, Instant};

use flow_core::{ByType, Bytes, Topic, Topology, TopologyBuilder, TopologyError};
use flow_kafka::{App, KafkaConfig, State};

use super::{Measured, Options, Payment, Result, Workload};
use crate::process::{cpu_time, peak_rss_kib};

/// Runs the workload to the end of the input.
pub fn drain(options: &Options) -> Result<Measured> {
    if options.workload == Workload::RawCount {
        return super::raw::drain(options);
    }
    let config = KafkaConfig::new(&options.brokers, &options.run).workers(1).commit_interval(options.commit);
    let mut meter = Meter::start();
    let app = flow_kafka::start(topology(options)?, config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let total = options.records;
    while watch(&app, &mut meter) < total {
        if matches!(app.state(), State::Stopped | State::Failed) {
            runtime.block_on(app.wait())?;
            return Err("the run ended before its input did".into());
        }
        pause(Duration::from_millis(2));
    }
    let measured = meter.end();
    runtime.block_on(app.shutdown())?;
    Ok(measured)
}

/// Notes the commits; answers how many records they cover.
fn watch(app: &App, meter: &mut Meter) -> u64 {
    let counters = app.counters();
    meter.note(counters.commits, counters.records)
}

fn topology(options: &Options) -> std::result::Result<Topology, TopologyError> {
    let (input, output) = (options.input().leak(), options.output().leak());
    let topology = TopologyBuilder::new();
    if options.workload == Workload::Passthrough {
        let from: Topic<[u8], [u8], ByType, Bytes> = Topic::new(input);
        let to: Topic<[u8], [u8], ByType, Bytes> = Topic::new(output);
        topology.stream(from).to(to);
    } else {
        let from: Topic<str, Payment> = Topic::new(input);
        let to: Topic<str, u64> = Topic::new(output);
        topology.stream(from).count("counts").changes().to(to);
    }
    topology.build()
}

/// Takes the time between the first commit and the last.
pub(super) struct Meter {
    start: Instant,
    first: Option<Point>,
    last: Option<Point>,
    commits: u64,
}

#[derive(Clone, Copy)]
struct Point {
    at: Instant,
    cpu: Option<Duration>,
    records: u64,
}

impl Meter {
    pub(super) fn start() -> Meter {
        Meter { start: now(), first: None, last: None, commits: 0 }
    }

    /// Notes how many records `commits` commits cover; a number of commits that is known already is no news.
    pub(super) fn note(&mut self, commits: u64, records: u64) -> u64 {
        let covered = |point: Option<Point>| point.map_or(0, |point| point.records);
        if commits <= self.commits || records <= covered(self.last) {
            return covered(self.last);
        }
        self.commits = commits;
        let point = Point { at: now(), cpu: cpu_time(), records };
        self.first.get_or_insert(point);
        self.last = Some(point);
        records
    }

    pub(super) fn end(&self) -> Measured {
        let none = Point { at: self.start, cpu: None, records: 0 };
        let (first, last) = (self.first.unwrap_or(none), self.last.unwrap_or(none));
        let cpu = first.cpu.zip(last.cpu).map(|(first, last)| last.saturating_sub(first).as_secs_f64());
        Measured {
            records: last.records - first.records,
            seconds: (last.at - first.at).as_secs_f64(),
            cpu_seconds: cpu,
            startup_seconds: (first.at - self.start).as_secs_f64(),
            commits: self.commits,
            peak_rss_kib: peak_rss_kib(),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a bench measures time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "the bench's main thread has nothing else to do")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
