//! Runs flow topologies on Kafka.

pub mod broker;
