//! A broker seam on which every read of snapshots takes its time, so that recoveries last.

use std::sync::Arc;
use std::time::Duration;

use flow_core::Offset;
use flow_kafka::broker::{
    Admin, Broker, BrokerError, Committed, Consumer, ConsumerSpec, Host, Polled, Producer, ProducerSpec, Reader,
    Sender, TopicPartition, Watermarks,
};

/// Wraps a broker.
pub(crate) struct Slow<B> {
    inner: Arc<B>,
    delay: Duration,
}

impl<B> Slow<B> {
    pub(crate) fn new(inner: B, delay: Duration) -> Self {
        Slow { inner: Arc::new(inner), delay }
    }
}

impl<B: Broker> Broker for Slow<B> {
    fn consumer(&self, spec: &ConsumerSpec) -> Result<Box<dyn Consumer>, BrokerError> {
        self.inner.consumer(spec)
    }

    fn producer(&self, spec: &ProducerSpec) -> Result<Box<dyn Producer>, BrokerError> {
        self.inner.producer(spec)
    }

    fn sender(&self, client_id: &str) -> Result<Box<dyn Sender>, BrokerError> {
        self.inner.sender(client_id)
    }

    fn reader(&self) -> Result<Box<dyn Reader>, BrokerError> {
        Ok(Box::new(SlowReader { inner: self.inner.reader()?, broker: Arc::clone(&self.inner), delay: self.delay }))
    }

    fn admin(&self) -> Result<Box<dyn Admin>, BrokerError> {
        self.inner.admin()
    }

    fn host(&self) -> &dyn Host {
        self.inner.host()
    }
}

struct SlowReader<B> {
    inner: Box<dyn Reader>,
    broker: Arc<B>,
    delay: Duration,
}

impl<B: Broker> Reader for SlowReader<B> {
    fn committed(
        &mut self,
        group: &str,
        of: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>, BrokerError> {
        self.inner.committed(group, of, timeout)
    }

    fn last_committed(
        &mut self,
        group: &str,
        of: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>, BrokerError> {
        self.inner.last_committed(group, of, timeout)
    }

    fn members(&mut self, group: &str, timeout: Duration) -> Result<Vec<String>, BrokerError> {
        self.inner.members(group, timeout)
    }

    fn watermarks(&mut self, of: &[TopicPartition], timeout: Duration) -> Result<Vec<Watermarks>, BrokerError> {
        self.inner.watermarks(of, timeout)
    }

    fn assign(&mut self, from: &[(TopicPartition, Offset)]) -> Result<(), BrokerError> {
        self.inner.assign(from)
    }

    fn poll(&mut self, timeout: Duration, each: &mut dyn FnMut(&Polled<'_>)) -> Result<(), BrokerError> {
        if !self.delay.is_zero() {
            self.broker.host().sleep(self.delay);
        }
        self.inner.poll(timeout, each)
    }

    fn position(&mut self, of: &TopicPartition) -> Result<Option<Offset>, BrokerError> {
        self.inner.position(of)
    }
}
