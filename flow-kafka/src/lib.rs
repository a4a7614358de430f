//! Runs flow topologies on Kafka.
//!
//! [`run`] starts worker threads, joins the consumer group and processes until it is told to stop. State snapshots, timers,
//! outputs and input offsets commit in one Kafka transaction that carries the consumer's generation, so a stale owner can
//! never overwrite a newer one; after a crash everything is as if the process had never failed.
//!
//! ```no_run
//! use flow_core::{Topic, TopologyBuilder};
//! use flow_kafka::KafkaConfig;
//!
//! const VISITS: Topic<str, u64> = Topic::new("visits");
//! const COUNTS: Topic<str, u64> = Topic::new("visits-per-user");
//!
//! # async fn example(ctrl_c: impl Future<Output = ()>) -> Result<(), Box<dyn std::error::Error>> {
//! let topology = TopologyBuilder::new();
//! topology.stream(VISITS).count("visits-per-user").changes().to(COUNTS);
//! let config = KafkaConfig::new("localhost:9092", "visits");
//! let summary = flow_kafka::run(topology.build()?, config, ctrl_c).await?;
//! println!("{summary}");
//! # Ok(())
//! # }
//! ```
//!
//! State lives in memory. More processes with the same application id share the partitions.
//!
//! The feature `embedded` adds `embedded`, a broker inside the process for examples, tests and simulation.

#![deny(rustdoc::broken_intra_doc_links)]

mod app;
pub mod broker;
mod commit;
mod config;
#[cfg(feature = "embedded")]
pub mod embedded;
mod error;
mod failure;
#[cfg(test)]
mod fake;
pub mod manual;
mod offsets;
mod progress;
mod purge;
pub mod rdkafka;
mod recovery;
mod run;
#[cfg(feature = "embedded")]
pub mod sim;
mod takeover;
mod tasks;
mod topics;
mod warm;
mod worker;

pub use app::{App, Counters, State, Summary};
pub use config::{ClientSettings, DeadLetters, KafkaConfig};
pub use error::RunError;
pub use progress::Progress;
pub use rdkafka::RdkafkaBroker;
pub use run::{run, start, start_on};
