//! Outputs outside the transaction (`KafkaConfig::at_least_once_output`): they are sent as soon as they are there, and must have
//! arrived before the offsets of what they came from commit. A crash or a lost task repeats them; none is left out.
//!
//! Only what goes to the user's topics: repartition topics, snapshots and dead letters are always inside.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use flow_core::TopicName;

use super::send::{in_chunks, output};
use crate::broker::{Broker, BrokerError, Sender, TopicId};
use crate::tasks::Active;
use crate::topics::{Layout, Sub};

pub(super) struct Outside {
    broker: Arc<dyn Broker>,
    layout: Arc<Layout>,
    client_id: String,
    client: Option<Client>,
}

struct Client {
    sender: Box<dyn Sender>,
    topics: HashMap<String, TopicId>,
}

/// True if a sink's outputs may leave the transaction.
pub(super) fn is_users(sub: &Sub, sink: usize) -> bool {
    sub.topology.sinks().get(sink).is_some_and(|sink| matches!(sink.topic, TopicName::User(_)))
}

impl Outside {
    pub(super) fn new(broker: Arc<dyn Broker>, layout: Arc<Layout>, client_id: String) -> Self {
        Outside { broker, layout, client_id, client: None }
    }

    /// Sends what was not yet. After a failure nobody knows what has arrived: all that is kept is sent again, by another client.
    pub(super) fn send(&mut self, tasks: &mut [Active]) -> Result<(), BrokerError> {
        let sent = self.try_send(tasks);
        sent.inspect_err(|_| self.give_up(tasks))
    }

    /// Waits until all that was sent has arrived.
    pub(super) fn flush(
        &mut self,
        tasks: &mut [Active],
        flush: impl FnOnce(&mut dyn FnMut(Duration) -> Result<(), BrokerError>) -> Result<(), BrokerError>,
    ) -> Result<(), BrokerError> {
        let Some(client) = &mut self.client else { return Ok(()) };
        let flushed = flush(&mut |slice| client.sender.flush(slice));
        flushed.inspect_err(|_| self.give_up(tasks))
    }

    fn give_up(&mut self, tasks: &mut [Active]) {
        self.client = None;
        tasks.iter_mut().for_each(|task| task.sent.outside = 0);
    }

    fn try_send(&mut self, tasks: &mut [Active]) -> Result<(), BrokerError> {
        let layout = Arc::clone(&self.layout);
        for task in tasks.iter_mut() {
            let (effects, sub) = (task.task.effects(), &layout.subs[task.id.sub]);
            if task.sent.outside == effects.outputs_len() {
                continue;
            }
            let client = self.client()?;
            let sinks: Vec<(TopicId, i32)> = sub
                .sinks
                .iter()
                .map(|(name, partitions)| Ok((client.topic(name)?, *partitions)))
                .collect::<Result<_, BrokerError>>()?;
            let own = task.id.partition;
            in_chunks(&mut *client.sender, &mut task.sent.outside, effects.outputs_len(), |at| {
                let one = effects.output(at);
                is_users(sub, one.sink).then(|| output(one, &sinks, own))
            })?;
        }
        Ok(())
    }

    fn client(&mut self) -> Result<&mut Client, BrokerError> {
        if self.client.is_none() {
            let sender = self.broker.sender(&format!("{}-outputs", self.client_id))?;
            self.client = Some(Client { sender, topics: HashMap::new() });
        }
        Ok(self.client.as_mut().expect("just made"))
    }
}

impl Client {
    fn topic(&mut self, name: &str) -> Result<TopicId, BrokerError> {
        if let Some(id) = self.topics.get(name) {
            return Ok(*id);
        }
        let id = self.sender.topic(name)?;
        self.topics.insert(name.to_owned(), id);
        Ok(id)
    }
}
