//! What can be chosen about the embedded broker.

use std::time::Duration;

/// Settings of the embedded broker. The defaults are Apache Kafka's, but for the initial rebalance delay, which is zero.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address that clients are told to connect to. The TCP door overwrites it with its own.
    pub host: String,
    /// The port that clients are told to connect to. The TCP door overwrites it with its own.
    pub port: u16,
    /// A switch for tests that show what the fences are for: offsets are taken from any generation and member, and requests of
    /// a producer with an old epoch are obeyed. With it a stale owner corrupts its successor's results.
    pub ignore_fences: bool,
    /// How often transactions are checked against their timeout
    /// (`transaction.abort.timed.out.transaction.cleanup.interval.ms`).
    pub transaction_check_interval: Duration,
    /// How often logs are looked at to be compacted, or for records that are too old (`log.cleaner.backoff.ms`).
    pub cleaner_interval: Duration,
    /// How long the offsets of a group without members are kept (`offsets.retention.minutes`).
    pub offsets_retention: Duration,
    /// How often they are looked at (`offsets.retention.check.interval.ms`).
    pub offsets_check_interval: Duration,
    /// The longest transaction timeout that a producer may ask for (`transaction.max.timeout.ms`).
    pub transaction_timeout_max: Duration,
    /// The shortest session timeout that a member may ask for (`group.min.session.timeout.ms`).
    pub session_timeout_min: Duration,
    /// The longest session timeout that a member may ask for (`group.max.session.timeout.ms`).
    pub session_timeout_max: Duration,
    /// The largest record batch, where the topic does not say otherwise (`message.max.bytes`).
    pub message_bytes_max: usize,
    /// The largest metadata string beside a committed offset (`offset.metadata.max.bytes`).
    pub offset_metadata_bytes_max: usize,
    /// The number of partitions of a topic that is created without one (`num.partitions`).
    pub partitions_default: i32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            host: "127.0.0.1".into(),
            port: 9092,
            ignore_fences: false,
            transaction_check_interval: Duration::from_secs(10),
            cleaner_interval: Duration::from_secs(15),
            offsets_retention: Duration::from_secs(7 * 24 * 3600),
            offsets_check_interval: Duration::from_secs(600),
            transaction_timeout_max: Duration::from_secs(15 * 60),
            session_timeout_min: Duration::from_secs(6),
            session_timeout_max: Duration::from_secs(30 * 60),
            message_bytes_max: 1_048_588,
            offset_metadata_bytes_max: 4096,
            partitions_default: 1,
        }
    }
}
