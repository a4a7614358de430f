//! The direct door: the broker seam on the embedded broker's state machine, without a network, for simulation.
//!
//! [`DirectBroker`] makes clients that speak the Kafka protocol to the machine as librdkafka would: a consumer is a group member
//! with a background thread that heartbeats, rejoins and fetches; a producer keeps sequences and transactions. Each seam call,
//! and each request inside one, is a step of the [simulation](crate::sim), so it can be crashed before or after.
//!
//! What it is not: a Kafka client for anything but simulation. It offers the classic group protocol only, keeps one connection
//! for each client, and knows each header name of a record once.

mod admin;
mod assign;
mod codes;
mod consumer;
mod fetcher;
mod link;
mod member;
mod net;
mod producer;
mod reader;
mod records;
mod refuse;
mod sender;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::broker::{Admin, Broker, BrokerError, Consumer, ConsumerSpec, Host, Producer, ProducerSpec, Reader, Sender};
use crate::config::ClientSettings;
use crate::sim::{Process, Scheduler, SimHost};

pub(crate) use net::Net;
#[cfg(test)]
pub(in crate::embedded) use records::next_offset;
pub use view::{Isolation, Seen, View};

/// The clients of one simulated process.
#[derive(Clone)]
pub struct DirectBroker {
    host: Arc<SimHost<Net>>,
    settings: ClientSettings,
}

impl DirectBroker {
    pub(crate) fn new(scheduler: Arc<Scheduler<Net>>, process: Process, settings: ClientSettings) -> Self {
        DirectBroker { host: Arc::new(SimHost::new(scheduler, process)), settings }
    }
}

impl Broker for DirectBroker {
    fn consumer(&self, spec: &ConsumerSpec) -> Result<Box<dyn Consumer>, BrokerError> {
        let settings = member::MemberSettings {
            group: spec.group.clone(),
            assignor: spec.assignor,
            instance: self.settings.instance_of(&spec.client_id),
            session_timeout: self.settings.session_timeout,
            heartbeat_interval: self.settings.session_timeout / 10,
            max_poll_interval: self.settings.poll_limit(),
        };
        Ok(Box::new(consumer::DirectConsumer::new(&self.host, settings)))
    }

    fn producer(&self, spec: &ProducerSpec) -> Result<Box<dyn Producer>, BrokerError> {
        let (transaction, message) = (self.settings.transaction_timeout, self.settings.message_timeout);
        Ok(Box::new(producer::DirectProducer::new(&self.host, spec, transaction, message)))
    }

    fn sender(&self, _: &str) -> Result<Box<dyn Sender>, BrokerError> {
        Ok(Box::new(sender::DirectSender::new(&self.host, self.settings.message_timeout)))
    }

    fn reader(&self) -> Result<Box<dyn Reader>, BrokerError> {
        Ok(Box::new(reader::DirectReader::new(&self.host)))
    }

    fn admin(&self) -> Result<Box<dyn Admin>, BrokerError> {
        Ok(Box::new(admin::DirectAdmin::new(&self.host)))
    }

    fn host(&self) -> &dyn Host {
        &*self.host
    }
}
