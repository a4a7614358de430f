//! What the runtime expects of a broker, asked of one over TCP.
//!
//! The tests run on the embedded broker, a fresh one for each, or, if `KAFKA_BOOTSTRAP` is set, on that Kafka: Apache Kafka is
//! the judge of the embedded one. [`raw`] sends single requests and looks at the error codes, all others drive the real client.
//! The letter in front of a client's test is its name in the list of such checks.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod clients;
mod cluster;
mod wire;

mod compaction;
mod consume;
mod fence;
mod membership;
mod offsets;
mod pipeline;
mod positions;
mod raw;
mod records;
mod refused;
mod takeover;
mod times;
mod transactions;
