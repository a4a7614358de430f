//! The broker seam on librdkafka: the side that talks to a real Kafka.
//!
//! This folder, and no other, calls rdkafka-sys, and only here `unsafe` is allowed. It does not use the safe wrapper (the crate
//! `rdkafka`) because four things that this library stands on cannot be done through it, and a client cannot be half wrapped:
//!
//! - its `commit_transaction` first polls in steps of 100 ms, where the call itself takes about 2;
//! - it keeps the group's generation to itself, and a commit must refuse an unknown one, which the broker would let pass;
//! - a list of partitions that lives longer than its consumer makes the consumer's end hang for ever, and nothing ties the two;
//! - it moves records one by one, where librdkafka's batch calls cost half.
//!
//! So there is a thin layer of our own. Each type owns one C object and frees it: `client` a client, `list` partitions,
//! `queue` queues and events, `message` a record, `request` an admin request. `error` decides what a caller can do about
//! an error. On that stand the four parts of the seam: `consumer`, `producer`, `reader`, `admin`.
//!
//! Rules that hold in here, each with its reason where it is applied: what was made from a client is freed before it; lists of
//! partitions live for one call; clients end on a thread of their own; an error code is an integer, never rdkafka-sys's enum.
#![allow(unsafe_code, reason = "the only door to librdkafka's C interface")]

mod admin;
mod client;
mod consumer;
mod coordinator;
mod error;
mod feed;
mod guarded;
mod host;
#[cfg(test)]
mod injected;
mod list;
mod members;
mod message;
mod outage;
mod outgoing;
mod parts;
mod producer;
mod queue;
mod raw;
mod reach;
mod reader;
mod request;
mod settings;

pub use settings::refused_override;

use std::sync::Arc;

use crate::broker::{Admin, Broker, BrokerError, Consumer, ConsumerSpec, Host, Producer, ProducerSpec, Reader, Sender};
use crate::config::ClientSettings;

/// A Kafka cluster, reached through librdkafka.
pub struct RdkafkaBroker {
    settings: ClientSettings,
    reach: Arc<reach::Reach>,
    host: host::Machine,
}

impl RdkafkaBroker {
    /// A cluster by its settings. Nothing is connected yet.
    ///
    /// # Errors
    /// If a passed-through setting would break a guarantee (see [`refused_override`]) or is none of librdkafka's.
    pub fn new(settings: ClientSettings) -> Result<Self, BrokerError> {
        // A client that is never used, so that a wrong setting is an error here, and not of some worker later.
        let reach = reach::Reach::new(&settings);
        admin::RdkafkaAdmin::new(&settings, &reach)?;
        Ok(RdkafkaBroker { settings, reach, host: host::Machine::new() })
    }
}

impl Broker for RdkafkaBroker {
    fn consumer(&self, spec: &ConsumerSpec) -> Result<Box<dyn Consumer>, BrokerError> {
        Ok(Box::new(consumer::RdkafkaConsumer::new(&self.settings, spec, &self.reach)?))
    }

    fn producer(&self, spec: &ProducerSpec) -> Result<Box<dyn Producer>, BrokerError> {
        let producer = producer::RdkafkaProducer::new(&self.settings, spec, &self.reach)?;
        Ok(Box::new(guarded::GuardedProducer::new(producer)))
    }

    fn sender(&self, client_id: &str) -> Result<Box<dyn Sender>, BrokerError> {
        Ok(Box::new(producer::RdkafkaProducer::plain(&self.settings, client_id, &self.reach)?))
    }

    fn reader(&self) -> Result<Box<dyn Reader>, BrokerError> {
        Ok(Box::new(reader::RdkafkaReader::new(&self.settings, &self.reach)))
    }

    fn admin(&self) -> Result<Box<dyn Admin>, BrokerError> {
        Ok(Box::new(admin::RdkafkaAdmin::new(&self.settings, &self.reach)?))
    }

    fn host(&self) -> &dyn Host {
        &self.host
    }
}
