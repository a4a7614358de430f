//! A transactional producer whose every call comes back.
//!
//! One of librdkafka's does not for sure: adding offsets to a transaction. When the group's coordinator moves, it asks three times
//! within milliseconds for the new one, and if there is none yet, it waits for some broker to connect or disconnect: for ever, where
//! none does. The caller's timeout counts for nothing. So this call is made on a thread of its own. One that is long overdue is left
//! to itself, with its client, and the producer is of no use any more: the next one, under the same id, shuts it out.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::host;
use super::producer::RdkafkaProducer;
use crate::broker::{self, BrokerError, ErrorKind, Generation, OffsetCommit, Outgoing, Producer, TopicId};

/// How much longer than its timeout the call may take: it waits for the answer to a request that is on the way.
const OVERDUE: Duration = Duration::from_secs(5);

pub(super) struct GuardedProducer {
    /// Gone for good once a call did not come back.
    producer: Option<RdkafkaProducer>,
    helper: Option<Helper>,
}

/// The thread that adds offsets. It ends when this is dropped and its call, if there is one, has ended.
struct Helper {
    orders: Sender<Order>,
    done: Receiver<(RdkafkaProducer, Result<(), BrokerError>)>,
}

struct Order {
    producer: RdkafkaProducer,
    offsets: Vec<OffsetCommit>,
    generation: Generation,
    timeout: Duration,
}

impl GuardedProducer {
    pub(super) fn new(producer: RdkafkaProducer) -> Self {
        GuardedProducer { producer: Some(producer), helper: None }
    }

    fn producer(&mut self) -> Result<&mut RdkafkaProducer, BrokerError> {
        self.producer.as_mut().ok_or_else(lost)
    }

    fn helper(&mut self) -> Result<&Helper, BrokerError> {
        if self.helper.is_none() {
            self.helper = Some(Helper::start()?);
        }
        Ok(self.helper.as_ref().expect("just made"))
    }
}

impl Helper {
    fn start() -> Result<Helper, BrokerError> {
        let (orders, received) = channel::<Order>();
        let (sender, done) = channel();
        let run = move || {
            for Order { mut producer, offsets, generation, timeout } in received {
                let sent = producer.send_offsets(&offsets, &generation, timeout);
                // Nobody may wait any more; then the client ends here.
                let _ = sender.send((producer, sent));
            }
        };
        host::spawn("kafka-offsets", run).map_err(|error| {
            BrokerError::new(ErrorKind::Fatal, format!("could not start the thread that adds offsets: {error}"))
        })?;
        Ok(Helper { orders, done })
    }
}

fn lost() -> BrokerError {
    let message = "adding the offsets to the transaction did not come back: its client is left to itself";
    BrokerError::new(ErrorKind::Fatal, message)
}

impl broker::Sender for GuardedProducer {
    fn topic(&mut self, name: &str) -> Result<TopicId, BrokerError> {
        self.producer()?.topic(name)
    }

    fn send(&mut self, records: &[Outgoing<'_>]) -> Result<(), BrokerError> {
        self.producer()?.send(records)
    }

    fn flush(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        self.producer()?.flush(timeout)
    }
}

impl Producer for GuardedProducer {
    fn init(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        self.producer()?.init(timeout)
    }

    fn begin(&mut self) -> Result<(), BrokerError> {
        self.producer()?.begin()
    }

    fn send_offsets(
        &mut self,
        offsets: &[OffsetCommit],
        generation: &Generation,
        timeout: Duration,
    ) -> Result<(), BrokerError> {
        self.helper()?;
        let (offsets, generation) = (offsets.to_vec(), generation.clone());
        let producer = self.producer.take().ok_or_else(lost)?;
        let helper = self.helper()?;
        let ordered = helper.orders.send(Order { producer, offsets, generation, timeout }).ok();
        let done = ordered.and_then(|()| helper.done.recv_timeout(timeout.saturating_add(OVERDUE)).ok());
        let Some((producer, sent)) = done else {
            self.helper = None;
            return Err(lost());
        };
        self.producer = Some(producer);
        sent
    }

    fn commit(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        self.producer()?.commit(timeout)
    }

    fn abort(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        self.producer()?.abort(timeout)
    }
}
