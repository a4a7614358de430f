//! Runs flow topologies on Kafka.

pub mod broker;
#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(feature = "embedded")]
pub mod sim;
