//! How long output pauses when processes come and go.
//!
//! A count runs in several processes, fed at a steady rate on every partition. A reader of committed records notes when each output
//! partition speaks, and checks every count: the next one of its key, once. Then processes are killed, or restarted in a
//! roll, and the pauses that follow each event are reported: apart for the partitions that lost their owner, and for all others.

mod events;
mod feed;
mod fleet;
mod watch;

use std::time::{Duration, Instant};

use flow_core::{Topic, Topology, TopologyBuilder, TopologyError};
use flow_kafka::KafkaConfig;
use rdkafka::config::ClientConfig;
use serde::Serialize;

pub use events::{Event, Report, run};
pub use fleet::child;

pub use crate::e2e::{PATIENCE, Result};

/// What happens to the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// One after the other is killed (SIGKILL) and, once its partitions speak again, replaced.
    Kills(u32),
    /// Each is asked to stop, waited for, and replaced; so many rounds.
    Rolling(u32),
}

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// `host:port` of the broker.
    pub brokers: String,
    /// Begins the names of the topics, and is the consumer group.
    pub run: String,
    /// Processes, with one worker each.
    pub processes: usize,
    /// Partitions of input and output.
    pub partitions: i32,
    /// Different keys; each has a snapshot to restore.
    pub keys: u32,
    /// Records per second.
    pub rate: u32,
    /// The session timeout of the workers.
    pub session: Duration,
    /// Time between commits.
    pub commit: Duration,
    /// What happens.
    pub plan: Plan,
    /// Decides which process is killed, and when.
    pub seed: u64,
}

impl Options {
    fn input(&self) -> String {
        format!("{}-input", self.run)
    }

    fn output(&self) -> String {
        format!("{}-output", self.run)
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers).set("reconnect.backoff.max.ms", "500");
        config
    }

    fn config(&self) -> KafkaConfig {
        KafkaConfig::new(&self.brokers, &self.run).workers(1).commit_interval(self.commit).session_timeout(self.session)
    }

    fn topology(&self) -> std::result::Result<Topology, TopologyError> {
        let topology = TopologyBuilder::new();
        let from: Topic<str, u32> = Topic::new(self.input().leak());
        topology.stream(from).count("counts").changes().to(Topic::<str, u64>::new(self.output().leak()));
        topology.build()
    }
}

/// The key of a number.
fn key(number: u32) -> String {
    format!("key-{number:07}")
}

/// Pauses after one event, in milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Pauses {
    /// Partitions that lost their owner.
    pub affected: usize,
    /// The longest pause among them.
    pub affected_ms: u64,
    /// The longest pause among all others.
    pub others_ms: u64,
}

#[allow(clippy::disallowed_methods, reason = "pauses are a matter of real time")]
fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "the bench waits in real time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[allow(clippy::disallowed_methods, reason = "a bench's own threads")]
fn thread<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> std::thread::JoinHandle<T> {
    std::thread::spawn(run)
}
