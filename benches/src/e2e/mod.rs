//! A whole pipeline: fill a topic, drain it exactly once, check the output.
//!
//! The drain runs in a process of its own, so that its time and memory are those of the pipeline alone.

pub mod check;
pub mod drain;
pub mod fill;
pub mod raw;

use std::str::FromStr;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use serde::{Deserialize, Serialize};

/// Any error ends a bench.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How long a broker may take to answer.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Partitions of every topic.
pub const PARTITIONS: i32 = 4;
/// Different keys.
pub const KEYS: u64 = 100_000;

/// What the drain does with each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// The library: from topic to topic, bytes as they are.
    Passthrough,
    /// The library: decode JSON, count by key, write each count.
    Count,
    /// A loop written by hand that does what `Count` does, with the same guarantee.
    RawCount,
}

impl Workload {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Passthrough => "passthrough",
            Workload::Count => "count",
            Workload::RawCount => "raw-count",
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let all = [Workload::Passthrough, Workload::Count, Workload::RawCount];
        let found = all.into_iter().find(|workload| workload.name() == text);
        found.ok_or_else(|| format!("--workload must be passthrough, count or raw-count, not `{text}`"))
    }
}

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the drain does.
    pub workload: Workload,
    /// `host:port` of the broker.
    pub brokers: String,
    /// How many records.
    pub records: u64,
    /// Time between commits.
    pub commit: Duration,
    /// Begins the names of the topics, and is the consumer group.
    pub run: String,
}

impl Options {
    /// The topic to drain.
    pub fn input(&self) -> String {
        format!("{}-input", self.run)
    }

    /// The topic to write.
    pub fn output(&self) -> String {
        format!("{}-output", self.run)
    }

    /// Where a loop written by hand keeps its snapshots.
    pub fn changelog(&self) -> String {
        format!("{}-counts-changelog", self.run)
    }

    /// Settings that every client here has.
    pub fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers).set("reconnect.backoff.max.ms", "500");
        config
    }
}

/// One record's value: 100 bytes of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Payment {
    /// Who paid.
    pub user: String,
    /// How much: also the record's number, so that the check can tell records apart.
    pub amount: u64,
    /// Fills the record up.
    pub pad: String,
}

/// What a drain measured, from its first commit to the commit of the last record.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Records between those commits.
    pub records: u64,
    /// Seconds between them.
    pub seconds: f64,
    /// User and system time of the process between them, in seconds; `None` where the system does not say.
    pub cpu_seconds: Option<f64>,
    /// From the start to the first commit, in seconds.
    pub startup_seconds: f64,
    /// Commits in all.
    pub commits: u64,
    /// Peak memory of the process.
    pub peak_rss_kib: Option<u64>,
}
