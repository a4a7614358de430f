//! The seam's producer without transactions: what it has shipped is there, and a call that fails may have shipped some of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use flow_core::Timestamp;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ProduceRequest, RequestKind, ResponseKind};

use super::assign::topic_name;
use super::codes;
use super::link::{Host, Link, call};
use super::producer::{Topics, batch_size, first_wrong, kept, ok};
use super::records::{self, Kept, Origin};
use crate::broker::{BrokerError, ErrorKind, Outgoing, Sender, TopicId, TopicPartition};

/// Of no producer: nothing keeps a batch that was sent twice from being there twice.
const NOBODY: Origin = Origin { producer: -1, epoch: -1, sequence: -1, transactional: false };

pub(super) struct DirectSender {
    link: Link,
    message_timeout: Duration,
    start: Timestamp,
    topics: Topics,
    queue: BTreeMap<TopicPartition, VecDeque<Kept>>,
}

impl DirectSender {
    pub(super) fn new(host: &Arc<Host>, message_timeout: Duration) -> Self {
        let start = host.scheduler().options().start;
        DirectSender {
            link: Link::open(host),
            message_timeout,
            start,
            topics: Topics::default(),
            queue: BTreeMap::new(),
        }
    }

    fn enqueue(&mut self, records: &[Outgoing<'_>]) -> Result<(), BrokerError> {
        let now = self.start + self.link.scheduler().clock();
        for record in records {
            let partition = self.topics.partition(record)?;
            self.queue.entry(partition).or_default().push_back(kept(record, now));
        }
        Ok(())
    }

    fn ship(&mut self, deadline: Duration) -> Result<(), BrokerError> {
        while let Some((partition, waiting)) = self.queue.iter_mut().next() {
            let count = batch_size(waiting);
            let bytes = records::encode(NOBODY, &waiting.make_contiguous()[..count])
                .map_err(|message| BrokerError::new(ErrorKind::RecordRefused, message))?;
            let data = PartitionProduceData::default().with_index(partition.partition.0).with_records(Some(bytes));
            let topic = TopicProduceData::default().with_name(topic_name(&partition.topic));
            let request = ProduceRequest::default()
                .with_acks(-1)
                .with_timeout_ms(30_000)
                .with_topic_data(vec![topic.with_partition_data(vec![data])]);
            self.link.ask("produce", 7, &RequestKind::Produce(request), deadline, |answer| {
                let ResponseKind::Produce(answer) = answer else { return None };
                let results = answer.responses.iter().flat_map(|topic| {
                    topic
                        .partition_responses
                        .iter()
                        .map(|result| (format!("a record for {}/{}", &*topic.name, result.index), result.error_code))
                });
                Some(first_wrong(results, codes::of_produce))
            })?;
            waiting.drain(..count);
            self.queue.retain(|_, waiting| !waiting.is_empty());
        }
        Ok(())
    }
}

impl Sender for DirectSender {
    fn topic(&mut self, name: &str) -> Result<TopicId, BrokerError> {
        Ok(self.topics.number(name))
    }

    fn send(&mut self, records: &[Outgoing<'_>]) -> Result<(), BrokerError> {
        let scheduler = Arc::clone(self.link.host().scheduler());
        let deadline = self.link.deadline(self.message_timeout);
        let at_once = scheduler.world(|net, _| net.random().chance(1, 2));
        let send = || {
            self.enqueue(records)?;
            if at_once { self.ship(deadline) } else { Ok(()) }
        };
        call(&scheduler, format_args!("send {} records outside a transaction", records.len()), send, ok)
    }

    fn flush(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        let scheduler = Arc::clone(self.link.host().scheduler());
        let deadline = self.link.deadline(timeout);
        call(&scheduler, format_args!("flush what is outside a transaction"), || self.ship(deadline), ok)
    }
}
