//! Writes many records as fast as the client takes them.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::ToBytes;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::e2e::{PATIENCE, Result};

/// A producer whose queue may be full.
pub struct Send {
    producer: BaseProducer,
    sent: u64,
}

impl Send {
    /// With these settings, and room for many records.
    pub fn new(mut config: ClientConfig) -> Result<Send> {
        config
            .set("enable.idempotence", "true")
            .set("queue.buffering.max.messages", "500000")
            .set("batch.num.messages", "50000")
            .set("linger.ms", "5");
        Ok(Send { producer: config.create()?, sent: 0 })
    }

    /// Takes a record; waits for room in the queue.
    pub fn send<K: ToBytes + ?Sized, V: ToBytes + ?Sized>(&mut self, mut record: BaseRecord<'_, K, V>) -> Result<()> {
        while let Err((error, returned)) = self.producer.send(record) {
            if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                return Err(format!("the input could not be written: {error}").into());
            }
            self.producer.poll(Duration::from_millis(5));
            record = returned;
        }
        self.sent += 1;
        if self.sent.is_multiple_of(1_000) {
            self.producer.poll(Duration::ZERO);
        }
        Ok(())
    }

    /// Waits until all are acknowledged.
    pub fn end(self) -> Result<()> {
        self.producer.flush(PATIENCE)?;
        Ok(())
    }
}
