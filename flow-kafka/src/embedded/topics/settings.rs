//! A topic's settings: which there are, their defaults, and those that the broker acts on.

use std::collections::BTreeMap;

use crate::embedded::Options;
use crate::embedded::log::{Compaction, Retention, Rules, SegmentRules};

/// What values a setting takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Number,
    Ratio,
    Flag,
    OneOf(&'static [&'static str]),
    ListOf(&'static [&'static str]),
    Text,
}

/// A setting that a topic can have.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    pub(super) kind: Kind,
}

const fn known(name: &'static str, default: &'static str, kind: Kind) -> Known {
    Known { name, default, kind }
}

/// Every topic setting of Apache Kafka 4, with its default.
pub(super) const KNOWN: &[Known] = &[
    known("cleanup.policy", "delete", Kind::ListOf(&["delete", "compact"])),
    known("compression.gzip.level", "-1", Kind::Number),
    known("compression.lz4.level", "9", Kind::Number),
    known("compression.type", "producer", Kind::OneOf(&["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])),
    known("compression.zstd.level", "3", Kind::Number),
    known("delete.retention.ms", "86400000", Kind::Number),
    known("file.delete.delay.ms", "60000", Kind::Number),
    known("flush.messages", "9223372036854775807", Kind::Number),
    known("flush.ms", "9223372036854775807", Kind::Number),
    known("follower.replication.throttled.replicas", "", Kind::Text),
    known("index.interval.bytes", "4096", Kind::Number),
    known("leader.replication.throttled.replicas", "", Kind::Text),
    known("local.retention.bytes", "-2", Kind::Number),
    known("local.retention.ms", "-2", Kind::Number),
    known("max.compaction.lag.ms", "9223372036854775807", Kind::Number),
    known("max.message.bytes", "1048588", Kind::Number),
    known("message.timestamp.after.max.ms", "3600000", Kind::Number),
    known("message.timestamp.before.max.ms", "9223372036854775807", Kind::Number),
    known("message.timestamp.type", "CreateTime", Kind::OneOf(&["CreateTime", "LogAppendTime"])),
    known("min.cleanable.dirty.ratio", "0.5", Kind::Ratio),
    known("min.compaction.lag.ms", "0", Kind::Number),
    known("min.insync.replicas", "1", Kind::Number),
    known("preallocate", "false", Kind::Flag),
    known("remote.storage.enable", "false", Kind::Flag),
    known("retention.bytes", "-1", Kind::Number),
    known("retention.ms", "604800000", Kind::Number),
    known("segment.bytes", "1073741824", Kind::Number),
    known("segment.index.bytes", "10485760", Kind::Number),
    known("segment.jitter.ms", "0", Kind::Number),
    known("segment.ms", "604800000", Kind::Number),
    known("unclean.leader.election.enable", "false", Kind::Flag),
];

/// The settings that a topic was given; all others have their defaults.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    given: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Takes a setting.
    ///
    /// # Errors
    /// Says what is wrong with its name or value.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        let known = KNOWN.iter().find(|known| known.name == name);
        let known = known.ok_or_else(|| format!("unknown topic config name: {name}"))?;
        let value = value.ok_or_else(|| format!("null value for topic config {name}"))?;
        let fits = match known.kind {
            Kind::Number => value.parse::<i64>().is_ok(),
            Kind::Ratio => value.parse::<f64>().is_ok_and(|ratio| (0.0..=1.0).contains(&ratio)),
            Kind::Flag => matches!(value, "true" | "false"),
            Kind::OneOf(values) => values.contains(&value),
            Kind::ListOf(values) => value.split(',').all(|part| values.contains(&part.trim())),
            Kind::Text => true,
        };
        if !fits {
            return Err(format!("invalid value {value} for topic config {name}"));
        }
        self.given.insert(known.name, value.into());
        Ok(())
    }

    pub(super) fn given(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str)
    }

    /// A number that the topic was given.
    fn number(&self, name: &str) -> Option<i64> {
        self.given(name)?.parse().ok()
    }

    /// What is asked of a batch.
    pub(super) fn rules(&self, options: &Options) -> Rules {
        Rules {
            batch_bytes_max: self
                .number("max.message.bytes")
                .map_or(options.message_bytes_max, |bytes| usize::try_from(bytes).unwrap_or(0)),
            lead_max: self.number("message.timestamp.after.max.ms").unwrap_or(3_600_000),
            log_append_time: self.given("message.timestamp.type") == Some("LogAppendTime"),
            wants_keys: self.is("compact"),
            segment: SegmentRules {
                millis: self.number("segment.ms").unwrap_or(604_800_000),
                bytes: self.number("segment.bytes").and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(1 << 30),
            },
            ignore_fences: options.ignore_fences,
        }
    }

    /// Whether this is (one of) its cleanup policies.
    fn is(&self, policy: &str) -> bool {
        self.given("cleanup.policy").unwrap_or("delete").split(',').any(|part| part.trim() == policy)
    }

    /// How it is compacted, if it is.
    pub(super) fn compaction(&self) -> Option<Compaction> {
        self.is("compact").then(|| Compaction {
            delete_retention: self.number("delete.retention.ms").unwrap_or(86_400_000),
            dirty_ratio: self.given("min.cleanable.dirty.ratio").and_then(|ratio| ratio.parse().ok()).unwrap_or(0.5),
            lag_min: self.number("min.compaction.lag.ms").unwrap_or(0),
            lag_max: self.number("max.compaction.lag.ms").unwrap_or(i64::MAX),
        })
    }

    /// What makes its records too old or too many, if it was given anything of the kind.
    pub(super) fn retention(&self) -> Option<Retention> {
        let limit = |name| self.number(name).filter(|limit| *limit >= 0);
        let (millis, bytes) = (limit("retention.ms"), limit("retention.bytes").map(|bytes| bytes.unsigned_abs()));
        (self.is("delete") && (millis.is_some() || bytes.is_some())).then_some(Retention { millis, bytes })
    }
}
