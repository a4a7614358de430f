//! A Kafka broker inside the process, for examples, tests and simulation.
//!
//! [`Machine`] is the broker as one deterministic state machine: it is given requests of the Kafka protocol and the time, and
//! answers with replies. It has no threads, no clock and no randomness; the same requests at the same times give the same
//! replies, bit for bit. [`EmbeddedBroker`] puts a TCP door in front of it, so that unmodified Kafka clients (librdkafka, kcat,
//! kafka-python) can talk to it.
//!
//! It knows topics, partitions and their settings; groups with generations, static members and offsets; idempotent and
//! transactional producers with epochs and fencing; markers, the last stable offset and the list of aborted transactions; and
//! the stable offset fetch. Its answers are those of Apache Kafka: the tests of this crate that talk to a broker run on both.
//!
//! Logs of topics with `cleanup.policy=compact` are compacted by the settings that such a topic has (`segment.ms`, `segment.bytes`,
//! `min.cleanable.dirty.ratio`, `min.compaction.lag.ms`, `max.compaction.lag.ms`, `delete.retention.ms`), every
//! [`Options::cleaner_interval`]; [`Machine::compact`] does it at once. Offsets keep their gaps, and memory is given back.
//!
//! # What it is not
//!
//! It is **not a replacement for Kafka**. It is one node, it keeps everything in memory and forgets it when it is dropped, it
//! serves loopback addresses only and knows no users, passwords or encryption. It deletes by age or size only where a topic was
//! given `retention.ms` or `retention.bytes`, batch by batch, and keeps all other records until `DeleteRecords`, so its memory
//! grows with what is written. The group protocol of KIP-848 and the transaction protocol of KIP-890 are not offered; clients fall
//! back to the older ones. `CONCURRENT_TRANSACTIONS` never comes, since markers are written before `EndTxn` is answered.

mod cleaner;
mod clock;
pub mod direct;
mod fetch;
mod groups;
mod log;
mod machine;
mod options;
mod produce;
mod tcp;
#[cfg(test)]
mod tests;
mod topics;
mod transactions;
mod versions;

pub use machine::{ConnectionId, Machine, Reply};
pub use options::Options;
pub use tcp::EmbeddedBroker;
